"""Write the data that only this API uses: configs, modes, associations and soft-deleted versions.

All such writes go through ``SubjectWriter``, which audits them and checks the quotas of their Group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from signalbook.access.base import Action
from signalbook.api.confluent.references import check_unreferred, forget
from signalbook.api.confluent.rights import subject_right
from signalbook.api.confluent.subjects import Subjects
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.confluent.associations import Association
from signalbook.confluent.errors import invalid_subject
from signalbook.confluent.naming import DEFAULT_CONTEXT, Subject, has_control_character, is_global, list_schema_xids
from signalbook.confluent.settings import scope_of
from signalbook.engine.engine import Session
from signalbook.engine.write.quotas import check_subject_quotas
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.storage.confluent import SoftDeleted
from signalbook.values import JSONObject, dump_json
from signalbook.xid import ROOT, Xid

ASSOCIATION: Final = "association"


class SubjectWriter:
    """Writes settings, associations and soft-deleted versions. Each write is audited and counted against quotas."""

    def __init__(self, session: Session, subjects: Subjects, settings: Settings) -> None:
        self._session = session
        self._subjects = subjects
        self._settings = settings
        self._stored = session.transaction.confluent

    def set(self, kind: Literal["config", "mode"], place: Subject, value: JSONObject | None) -> JSONObject | None:
        """Store the config or the mode of a subject, a context or the registry; None removes it. Return the former
        value.

        Raises 42208 for a subject with an invalid name, ``bad_request`` for a value that is too large, and
        ``QuotaExceeded``.
        """
        scope = scope_of(place)
        before = self._stored.setting(kind, scope)
        if before == value:
            return before
        if before is None and has_control_character(place.name):
            raise invalid_subject(place)
        size, size_before = len(dump_json(value or {})), len(dump_json(before or {}))
        # A value that was over the limit before may become smaller.
        if size > max(self._settings.max_entity_bytes, size_before):
            most = self._settings.max_entity_bytes
            detail = f'the {kind} of "{self._find_path(place)}" takes more than {most} bytes (setting max_entity_bytes)'
            raise RegistryError("bad_request", subject=self._find_path(place), error_detail=detail)
        self._stored.put_setting(kind, scope, value)
        if before is None or size > size_before:
            self._check_quotas(place.context, is_new=before is None)
        self._record(Action.UPDATE, self._find_path(place), f"{kind} {'removed' if value is None else 'set'}")
        return before

    def store_association(self, association: Association, *, is_new: bool) -> None:
        """Store an association. Raises ``QuotaExceeded`` for a new association."""
        value = association.to_json()
        self._stored.put_settings(ASSOCIATION, dict.fromkeys(association.scopes(), value))
        subject = self._subjects.parse(association.subject, DEFAULT_CONTEXT)
        if is_new:
            self._check_quotas(subject.context, is_new=True)
        self._record(Action.UPDATE, self._find_path(subject), "association set")

    def remove(self, association: Association) -> None:
        self._stored.put_settings(ASSOCIATION, dict.fromkeys(association.scopes()))
        subject = self._subjects.parse(association.subject, DEFAULT_CONTEXT)
        self._record(Action.UPDATE, self._find_path(subject), "association removed")

    def keep_deleted(self, versions: Sequence[SchemaVersion]) -> None:
        """Store versions as soft-deleted before they are deleted from the registry. The registry audits the
        deletion."""
        self._stored.put_soft_deleted(
            [
                SoftDeleted(
                    group=version.schema.group_id.lower(),
                    schema=version.schema.id,
                    version=version.version,
                    schemaid=version.id,
                    deletedat=self._session.now,
                    attributes=version.attributes,
                    document=version.document,
                )
                for version in versions
            ]
        )

    def delete_permanently(self, versions: Sequence[SchemaVersion]) -> None:
        """Delete soft-deleted versions permanently. With the last version of a subject, remove its config and mode.

        Raises ``Forbidden``, and 42206 if other versions refer to one of these versions, because they could not be read
        any more. Soft-deleted versions count, too.
        """
        check_unreferred(self._subjects, self._session.view, versions, deleted=True)
        for version in versions:
            # Also checked here, because a batch can delete versions that it has made itself.
            subject_right(self._subjects, version.subject, Action.DELETE).require(self._session.access)
            self.forget_soft_deleted(version.schema, version.version)
            forget(self._session, version)
            self._record(Action.DELETE, f"{version.schema}/versions/{version.version}", "deleted permanently")
        for subject in dict.fromkeys(version.subject for version in versions):
            if not self._subjects.all(subject):
                self.set("config", subject, None)
                self.set("mode", subject, None)

    def forget_soft_deleted(self, schema: Xid, version: int) -> None:
        """Remove a soft-deleted version whose number another version gets. The registry audits that write."""
        self._stored.drop_soft_deleted(schema.group_id.lower(), schema.id, [version])

    def claim_id(self, schema: Xid, content: str, id: int) -> None:
        """Assign ``id`` to the content of a version that is about to be registered. Raises ``IdTaken``.

        An id that another content had can be assigned if no version has it any more, not even a soft-deleted one.
        """
        group, entities = schema.group_id.lower(), self._session.transaction.entities
        is_free = self._stored.content(group, id) not in (None, content) and not (
            entities.numbered(schema.parent.owner, id, 1) or self._stored.soft_deleted_with(group, id, 1)
        )
        self._stored.claim(group, content, id, is_free=is_free)

    def _find_path(self, place: Subject) -> str:
        """Return the xid of a scope, as the audit log shows it."""
        places = list_schema_xids(place, self._subjects.default_group)
        if places:
            return str(places[0])
        everywhere = place.context == DEFAULT_CONTEXT or is_global(place.context)
        return str(ROOT if everywhere else self._subjects.group(place.context))

    def _record(self, action: Action, path: str, about: str) -> None:
        self._session.record(action, path, about=about)

    def _check_quotas(self, context: str, *, is_new: bool) -> None:
        group = self._subjects.group(context)
        if group is not None:
            check_subject_quotas(group, self._session.transaction, self._settings, is_new=is_new)
