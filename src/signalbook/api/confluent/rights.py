"""The rights that writes need. ``routes`` names them for each operation.

A right depends on the name of a subject, not on whether the subject exists. So a refusal does not reveal that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.api.confluent.queries import place_of, requested_subject, subject_of
from signalbook.api.confluent.requests import ConfluentRequest
from signalbook.api.confluent.subjects import Subjects
from signalbook.confluent.naming import (
    DEFAULT_CONTEXT,
    GROUPS,
    Subject,
    is_global,
    list_schema_xids,
    name_xid,
    parse_context,
)
from signalbook.xid import ROOT, Xid

WRITE: Final = (Action.CREATE, Action.UPDATE)
"""Registering needs one of these two actions. The engine checks which one, because that depends on what exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right to do one of ``actions`` on ``xid`` and, with ``beneath``, on everything that is or can be below it.

    Errors name ``shown``, a valid xid, even if the subject's name is not a valid id or the subject was named by an
    alias.
    """

    actions: tuple[Action, ...]
    xid: Xid
    shown: Xid
    beneath: bool = False

    def require(self, access: Access) -> None:
        """Raise ``Forbidden`` unless the caller has the right."""
        if not any(access.may(action, self.xid) for action in self.actions):
            raise Forbidden(self.actions[-1], self.shown)
        if self.beneath and not any(access.allows_everything_below(action, self.xid) for action in self.actions):
            why = "you need this right on everything under it, and a rule denies you part of that"
            raise Forbidden(self.actions[-1], self.shown, why)


def subject_right(
    subjects: Subjects, subject: Subject, *actions: Action, shown_subject: Subject | None = None
) -> Right:
    """Return the right to do one of ``actions`` to a subject. Errors name ``shown_subject`` if the subject was named by
    an alias.

    For a name that no subject can have, return the right to read something in the schema groups. The operation then
    refuses the name.
    """
    xid = name_xid(subject, subjects.default_group)
    places = list_schema_xids(shown_subject or subject, subjects.default_group)
    if xid is None or not places:
        return Right(actions=(Action.READ,), xid=Xid((GROUPS,)), shown=Xid((GROUPS,)))
    return Right(actions=actions, xid=xid, shown=places[0])


def list_register_rights(subjects: Subjects, request: ConfluentRequest) -> Iterable[Right]:
    """Return the right to add versions to the subject of the path, even if only to find one that exists."""
    return (_on_path(subjects, request, *WRITE),)


def list_deletion_rights(subjects: Subjects, request: ConfluentRequest) -> Iterable[Right]:
    """Return the right to delete the subject of the path, softly or permanently."""
    return (_on_path(subjects, request, Action.DELETE),)


def _on_path(subjects: Subjects, request: ConfluentRequest, *actions: Action) -> Right:
    requested = requested_subject(subjects, request)
    return subject_right(subjects, subject_of(subjects, request), *actions, shown_subject=requested)


def list_setting_rights(subjects: Subjects, request: ConfluentRequest) -> Iterable[Right]:
    """Return the right to change settings of the scope in the path: a subject, a context or the registry."""
    place = place_of(subjects, request)
    group = subjects.group(place.context)
    if place.name:
        return (subject_right(subjects, place, Action.UPDATE),)
    if place.context == DEFAULT_CONTEXT or is_global(place.context) or group is None:
        return (Right(actions=(Action.UPDATE,), xid=ROOT, shown=ROOT, beneath=True),)
    return (Right(actions=(Action.UPDATE,), xid=group, shown=group, beneath=True),)


def list_context_deletion_rights(subjects: Subjects, request: ConfluentRequest) -> Iterable[Right]:
    """Return the right to delete the Group of the context in the path, which may exist without settings or with."""
    group = subjects.group(parse_context(request.names[0], subjects.default_group))
    return () if group is None else (Right(actions=(Action.DELETE,), xid=group, shown=group),)
