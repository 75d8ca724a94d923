"""The permission check of a write: of everything it names before the write, and of everything it changed after it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from signalbook import dialects
from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.engine.write.apply import Change, ChangeAction, EventEntity
from signalbook.engine.write.commands import Command, Intent, WriteMode
from signalbook.engine.write.workingcopies import VersionCopy, WorkingTree
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Kind, Xid

_CONFIGURATION = frozenset({EventEntity.MODEL, EventEntity.MODELSOURCE, EventEntity.CAPABILITIES})
_POLICY_ACTIONS = {ChangeAction.CREATED: Action.CREATE, ChangeAction.DELETED: Action.DELETE}
_MAX_NAMES = 10
_MAX_LISTED_CHARS = 64
_GROUP_KINDS = frozenset({Kind.GROUPS, Kind.GROUP, Kind.RESOURCES})
_CHECKED_ENTITIES = (EventEntity.REGISTRY, EventEntity.GROUP, EventEntity.RESOURCE)


class WritePermission:
    """The checks whether ``access`` allows a write.

    A ``trial`` is rolled back, so it may write everything that can be read. All methods raise ``Forbidden``. Whether an
    entity exists is checked only after creating or updating it is known to be allowed, so that an error does not reveal
    its existence.
    """

    def __init__(self, access: Access, *, trial: bool = False) -> None:
        self._access = access
        self._trial = trial

    def check_configuration(self) -> None:
        """Check that model and capabilities may be changed.

        This applies to trials too, because errors can name all entities.
        """
        self._access.require(Action.CONFIGURE, ROOT)

    def check_deletion(self, command: Command) -> None:
        """Check that everything the command names may be deleted, including everything that can be under it."""
        deleted = list(_list_deleted(command))
        # An empty or wrong body gets its normal response only if the caller may delete something here.
        if not deleted and not self._access.allows_somewhere(Action.DELETE, command.target):
            raise Forbidden(Action.DELETE, command.target)
        for xid in deleted:
            self._access.require(Action.DELETE, xid if xid.kind in _GROUP_KINDS else xid.resource)

    def check_intent(self, intent: Intent) -> None:
        """Check that everything the write names may be created or updated.

        The changes are checked again after the write.
        """
        if self._access.unrestricted:
            return
        for xid, body in _list_named(intent):
            # It is not known yet whether the entity exists, so one of the two actions must be allowed.
            if not self._access.may(Action.CREATE, xid):
                self._require(Action.UPDATE, xid, _explain_attributes(xid, body, intent))

    def check_changes(self, intent: Intent, changes: Iterable[Change]) -> None:
        """Check that everything the write created or updated is allowed.

        A change of an owner that is only caused by its members is not an update of the owner.
        """
        if self._access.unrestricted:
            return
        named_attributes = {xid: _explain_attributes(xid, body, intent) for xid, body in _list_named(intent)}
        created = set()
        for change in changes:
            if change.entity in _CHECKED_ENTITIES:
                xid = Xid.parse(change.xid)
                if change.action is ChangeAction.CREATED:
                    created.add(xid)
                    self._require(Action.CREATE, xid)
                elif xid in named_attributes:
                    self._require(Action.UPDATE, xid, named_attributes[xid])
        for resource in intent.list_resources():
            if resource.xid not in created:
                self._require(Action.UPDATE, resource.xid)

    def check_subjects(self, tree: WorkingTree) -> None:
        """Check the rights on subjects of schemas whose subject name differs from the id of the schema.

        A Version stores the name of its subject in an attribute if the name cannot be an id. The right to write the
        schema by its id does not include the right to this name. The default Version determines the subject of the
        schema.
        """
        if self._access.unrestricted:
            return
        for schema in tree.resources.values():
            action = Action.CREATE if schema.before is None else Action.UPDATE
            old = schema.defaultversionid if schema.before is None else schema.before.defaultversionid
            defaults = {old, schema.defaultversionid} if old != schema.defaultversionid else set()
            for version in schema.versions.values():
                before = {} if version.before is None else version.before.attributes
                for attributes in (before, version.attributes) if version.changed or version.id in defaults else ():
                    self._require_subject(action, schema.xid, attributes)
            # A write also removes Versions beyond the number that the model allows.
            for version in schema.removed.values():
                self._require_subject(action, schema.xid, version.attributes)

    def check_deleted_subjects(self, tree: WorkingTree) -> None:
        """Check the right to delete the subjects of all Versions that a deletion removes (see ``check_subjects``)."""
        if self._access.unrestricted:
            return
        removed = (version for schema in tree.resources.values() for version in schema.removed.values())
        for copy in chain(tree.deleted, removed):
            if isinstance(copy, VersionCopy):
                self._require_subject(Action.DELETE, copy.xid.resource, copy.attributes)

    def _require_subject(self, action: Action, schema: Xid, attributes: JSONObject) -> None:
        name = dialects.find_subject_xid(schema, attributes)
        if name != schema and not self._may(action, name):
            raise Forbidden(action, schema)

    def _may(self, action: Action, xid: Xid) -> bool:
        is_tried = self._trial and action is not Action.DELETE
        return self._access.may(Action.READ if is_tried else action, xid)

    def _require(self, action: Action, xid: Xid, why: str = "") -> None:
        if not self._may(action, xid):
            raise Forbidden(action, xid, why)


def _list_deleted(command: Command) -> Iterator[Xid]:
    target = command.target
    if not target.is_collection or target.kind is Kind.VERSIONS or command.body is None:
        yield target
    elif isinstance(command.body, dict):
        # Invalid ids are rejected when the request is read, and an additional path part would not change this check.
        yield from (target / name for name in command.body)


def _list_named(intent: Intent) -> Iterator[tuple[Xid, JSONObject | None]]:
    """Yield the xids that the write names, with the body if it updates the Registry or a Group itself.

    A body that contains only maps of Groups or Resources names only the entities in these maps.
    """
    if _has_own_update(intent.body, intent.mode, intent.groups):
        yield ROOT, intent.body
    for group in intent.groups:
        if _has_own_update(group.body, group.mode, group.resources):
            yield group.xid, group.body
        yield from ((resource.xid, None) for resource in group.resources)


def _explain_attributes(xid: Xid, body: JSONObject | None, intent: Intent) -> str:
    """Return the reason why a write of entities under ``xid`` also updates ``xid``, and how to avoid it.

    Empty if it does not.
    """
    beneath = intent.groups if xid == ROOT else any(group.resources for group in intent.groups if group.xid == xid)
    if not body or not beneath:
        return ""
    names = [*body][:_MAX_NAMES]
    listed = ", ".join(name[:_MAX_LISTED_CHARS] for name in names) + (", ..." if len(body) > len(names) else "")
    return f"what is sent has attributes of it, leave these out: {listed}"


def _has_own_update(body: JSONObject | None, mode: WriteMode, members: Collection[object]) -> bool:
    # An empty body is an update too, or it creates a Group.
    return bool(body) or (body is not None and mode is WriteMode.REPLACE) or not members


def list_actions(changes: Iterable[Change]) -> Iterator[tuple[Action, str]]:
    """Yield the policy actions that ``changes`` amount to, each with its xid, for the audit.

    A new Version is an update of its Resource, unless the Resource is new too. A changed number of members is not an
    update of the owner.
    """
    created = set()
    for change in changes:
        if _has_only_counts(change):
            continue
        action = _POLICY_ACTIONS.get(change.action, Action.UPDATE)
        if change.entity in _CONFIGURATION:
            action = Action.CONFIGURE
        elif change.entity is EventEntity.VERSION and action is Action.CREATE:
            action = action if change.xid.rpartition("/versions/")[0] in created else Action.UPDATE
        if action is Action.CREATE:
            created.add(change.xid)
        yield action, change.xid


def _has_only_counts(change: Change) -> bool:
    names = set(change.changed) - {"epoch", "modifiedat"}
    plurals = {name for name in names if f"{name}count" in names}
    other_names = names - plurals - {f"{name}count" for name in plurals}
    return bool(plurals) and not other_names and change.entity in (EventEntity.REGISTRY, EventEntity.GROUP)
