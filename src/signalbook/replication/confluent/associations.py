"""Copies of associations, which say which subjects the keys and values of topics have."""

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
"""The id of a topic, and whether it is of its keys or values."""


class AssociationLink(msgspec.Struct, frozen=True, array_like=True):
    """An association as both registries have it."""

    resource: str
    type: str
    subject: str
    lifecycle: str


class Associations:
    """The associations of ``source``, to be made at ``target``. Only topics of the source are touched."""

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
        """Look what there is at both ends, and take away what was copied ``before`` and is not there any more."""
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
            if here is None:  # it does not say what it has
                self._copied.add(link)
            else:
                self._dissociate(target_association)

    def put(self) -> None:
        """Make those of the source."""
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
            if association.frozen:  # which goes with its schema, but where ids are taken
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
