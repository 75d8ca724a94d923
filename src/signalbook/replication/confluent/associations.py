"""Copy associations, which link the keys and values of topics to subjects."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from signalbook.client.confluent import ConfluentRegistry
from signalbook.client.responses import Refused
from signalbook.confluent.associations import Association
from signalbook.replication.confluent.progress import CopyProgress
from signalbook.replication.confluent.settings import ImportMode, explain_refusal
from signalbook.replication.report import CopyOutcome, SubjectKind

_Key = tuple[str, str]
"""The id of a topic, and the type of the association: key or value."""


class AssociationLink(msgspec.Struct, frozen=True, array_like=True):
    """An association that both registries have."""

    resource: str
    type: str
    subject: str
    lifecycle: str


class Associations:
    """Copies the associations of ``source`` to ``target``. Only associations of the source's topics are changed."""

    def __init__(
        self, source: ConfluentRegistry, target: ConfluentRegistry, progress: CopyProgress, writing: ImportMode
    ) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._writing = writing
        self._here: dict[_Key, Association] = {}
        self._there: dict[_Key, Association] = {}
        self._copied: set[AssociationLink] = set()
        self._able = True

    def drop(self, before: Iterable[AssociationLink]) -> None:
        """Load the associations of both sides.

        Delete those that were copied ``before`` and that the source no longer has.
        """
        self._progress.begin("comparing associations")
        here, there = self._source.associations(), self._target.associations()
        self._able = there is not None
        self._here = {_make_key(association): association for association in here or ()}
        self._there = {_make_key(association): association for association in there or ()}
        source_links = {_link(association) for association in self._here.values()}
        for link in before:
            key = (link.resource, link.type)
            target_association = self._there.get(key)
            if target_association is None or _link(target_association) != link or link in source_links:
                continue
            if here is None:  # the source cannot list associations
                self._copied.add(link)
            else:
                self._dissociate(target_association)

    def put(self) -> None:
        """Create the associations of the source at the target."""
        if self._here and not self._able:
            self._progress.skip("", None, f"the target has no associations: {len(self._here)} are not copied")
            return
        self._progress.begin("copying associations", len(self._here))
        for key, association in self._here.items():
            target_association = self._there.get(key)
            if target_association is not None and _make_content(target_association) == _make_content(association):
                self._progress.count(CopyOutcome.UNCHANGED, SubjectKind.ASSOCIATION)
                self._copied.add(_link(association))
            elif target_association is not None:
                self._refuse(
                    association,
                    f"the target has the subject {target_association.subject} for it ({target_association.lifecycle})",
                )
            else:
                self._associate(association)
            self._progress.advance()

    def copied(self) -> list[AssociationLink]:
        """Return the associations that are equal on both sides, and those that could not be removed."""
        return sorted(self._copied, key=msgspec.structs.astuple)

    def _associate(self, association: Association) -> None:
        try:
            if association.frozen:  # creating a frozen association needs the mode IMPORT
                self._writing.to(association.subject, lambda: self._target.associate(association))
            else:
                self._target.associate(association)
        except Refused as error:
            self._refuse(association, explain_refusal(error))
            return
        self._copied.add(_link(association))
        self._progress.count(CopyOutcome.CREATED, SubjectKind.ASSOCIATION)

    def _dissociate(self, association: Association) -> None:
        try:
            self._target.dissociate(association)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                self._copied.add(_link(association))
                self._refuse(association, f"it is gone at the source: {explain_refusal(error)}")
                return
        del self._there[_make_key(association)]
        self._progress.count(CopyOutcome.DELETED, SubjectKind.ASSOCIATION)

    def _refuse(self, association: Association, reason: str) -> None:
        of = f"its association with the {association.type} of {association.resource.name}"
        self._progress.refuse(association.subject, None, f"{of}: {reason}")


def _make_key(association: Association) -> _Key:
    return association.resource.id, association.type


def _link(association: Association) -> AssociationLink:
    return AssociationLink(association.resource.id, association.type, association.subject, association.lifecycle)


def _make_content(association: Association) -> tuple[object, ...]:
    return association.resource, association.type, association.subject, association.lifecycle
