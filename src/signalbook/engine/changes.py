"""What a write did: the changes it committed, ready to be told as events (core/events.md), and its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from signalbook.values import Finding, JSONObject
from signalbook.xid import Xid


class Action(StrEnum):
    """Last part of an event's type (R293)."""

    CREATED = "created"
    UPDATED = "updated"
    DEPRECATION = "deprecation"
    DELETED = "deleted"


class Entity(StrEnum):
    """What an event is about (R293); a meta has no events of its own."""

    REGISTRY = "registry"
    MODEL = "model"
    MODELSOURCE = "modelsource"
    CAPABILITIES = "capabilities"
    GROUP = "group"
    RESOURCE = "resource"
    VERSION = "version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that happened to one subject in one interaction (R297).

    ``xid`` is the subject (``/model``, ``/capabilities`` and ``/modelsource`` too); ``changed`` names the top-level
    attributes added, modified or removed (R298), of a Resource its meta's with the prefix ``meta.`` (R305).
    ``cascaded`` tells that the subject went because its owner did.
    """

    xid: str
    entity: Entity
    action: Action
    changed: tuple[str, ...] = ()
    cascaded: bool = False

    def to_json(self) -> JSONObject:
        """The form the outbox keeps."""
        kept: JSONObject = {
            "xid": self.xid,
            "entity": self.entity.value,
            "action": self.action.value,
            "changed": list(self.changed),
        }
        return {**kept, "cascaded": True} if self.cascaded else kept

    @classmethod
    def from_json(cls, value: JSONObject) -> Self:
        """Read back what ``to_json`` wrote."""
        return cls(
            xid=value["xid"],
            entity=Entity(value["entity"]),
            action=Action(value["action"]),
            changed=tuple(value["changed"]),
            cascaded=value.get("cascaded", False),
        )


_STRONGEST: Final = (Action.DELETED, Action.CREATED, Action.UPDATED, Action.DEPRECATION)


def coalesce(changes: Iterable[Change]) -> list[Change]:
    """``changes`` of one interaction, at most one of each kind per subject (R297), in the order they first appear.

    A deletion hides a creation, which hides updates; the names that several updates changed are put together.
    """
    found: dict[tuple[str, bool], Change] = {}
    for change in changes:
        key = (change.xid, change.action is Action.DEPRECATION)
        found[key] = _merged(found[key], change) if key in found else change
    return list(found.values())


def _merged(one: Change, other: Change) -> Change:
    strongest = min(one.action, other.action, key=_STRONGEST.index)
    told = strongest in (Action.UPDATED, Action.DEPRECATION)
    names = tuple(dict.fromkeys((*one.changed, *other.changed))) if told else ()
    return replace(one, action=strongest, changed=names, cascaded=one.cascaded or other.cascaded)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a door needs to answer a write.

    ``target`` is the entity to render: the command's, except that a POST to a Resource answers with the Version (R147).
    ``created`` tells whether ``target`` is new; ``processed`` lists, in request order, the entities that a write to a
    collection (or POST to the Registry or a Group) touched (R146); ``version`` is the one new Version of a write to one
    Resource, for ``Content-Location`` (R152). ``findings`` are about messages and endpoints, see ``domain``.
    """

    target: Xid
    created: bool = False
    processed: tuple[Xid, ...] = ()
    version: Xid | None = None
    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
