"""What is where in a document, as far as its shape tells: no model is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.documents.aiming import is_model, target_of
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

_NO_COLLECTIONS: Final = frozenset(
    {"capabilities", "constraints", "deprecated", "envelopemetadata", "envelopeoptions", "labels", "meta", "model"}
    | {"modelsource", "protocoloptions"}
)


def collections(body: JSONObject) -> Iterator[str]:
    """Attributes of a Registry or Group that hold entities: objects of objects."""
    for name in list(body):
        value = body[name]
        if name not in _NO_COLLECTIONS and isinstance(value, dict) and all(isinstance(x, dict) for x in value.values()):
            yield name


def entities(document: JSON) -> Iterator[tuple[Xid, JSONObject]]:
    """Every Group, Resource and Version in ``document``. Raises ``DocumentError`` for an ``xid`` that is none."""
    if isinstance(document, dict) and not is_model(document):
        target = target_of(document)
        yield from _members(target, document) if target.is_collection else _below(target, document)


def _members(collection: Xid, members: JSON) -> Iterator[tuple[Xid, JSONObject]]:
    for name, body in members.items() if isinstance(members, dict) else ():
        if isinstance(body, dict):
            yield from _below(collection / name, body)


def _below(xid: Xid, body: JSONObject) -> Iterator[tuple[Xid, JSONObject]]:
    if xid.kind in (Kind.GROUP, Kind.RESOURCE, Kind.VERSION):
        yield xid, body
    match xid.kind:
        case Kind.REGISTRY | Kind.GROUP:
            for plural in collections(body):
                yield from _members(xid / plural, body[plural])
        case Kind.RESOURCE:
            yield from _members(xid / "versions", body.get("versions"))
