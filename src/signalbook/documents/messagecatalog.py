"""Recognise documents of the message catalog from before xRegistry by their shape (C-12, C-14)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from signalbook.values import JSON, JSONObject

GROUPS: Final = "groups"
DEFINITIONS: Final = ("definitions", "messagedefinitions")
VERSIONS: Final = "versions"
DEFINITION: Final = "definition"
SECTIONS: Final = ("attributes", "header", "properties", "applicationproperties", "applicationdata", "publish", "pub")
"""By these a definition of the first draft is known: it has them beside its id."""

_OTHERS: Final = frozenset({"$schema", "registryid", "xid", "self", "messagegroupid", "messageid", "schemagroups"})


class Shape(StrEnum):
    """The shapes of message-catalog documents."""

    ROOT = "root"
    GROUP = "group"
    DEFINITION = "definition"
    VERSION = "version"


def shape_of(document: JSON) -> Shape | None:
    """Return the shape of a message-catalog document, or None for any other document."""
    if not isinstance(document, dict) or _OTHERS & document.keys():
        return None
    if GROUPS in document:
        groups = [body for _, body in members(document[GROUPS])]
        stated = "specversion" in document or any(_is_group(body) for body in groups)
        return Shape.ROOT if stated and all(_is_group(body) for body in groups) else None
    if not isinstance(document.get("id"), str):
        return None
    if isinstance(document.get(VERSIONS), dict | list):
        return Shape.DEFINITION if any(_is_version(body) for _, body in members(document[VERSIONS])) else None
    if _is_version(document):
        return Shape.VERSION
    return Shape.GROUP if _is_group(document) else None


def members(collection: JSON) -> Iterator[tuple[str, JSONObject]]:
    """Return the entries of a list or of a map by id, each with its key (``""`` in a list) (C-12)."""
    if isinstance(collection, dict):
        entries: list[tuple[str, JSON]] = list(collection.items())
    else:
        entries = [("", body) for body in collection] if isinstance(collection, list) else []
    for key, body in entries:
        if isinstance(body, dict):
            yield key, body


def _is_group(body: JSONObject) -> bool:
    """Return True for a group, which states a format. A Group type in a model states its singular instead."""
    return isinstance(body.get("format"), str) and not body.keys() & {"singular", "resources", VERSIONS}


def _is_version(body: JSONObject) -> bool:
    return isinstance(body.get(DEFINITION), dict) or any(isinstance(body.get(name), dict) for name in SECTIONS)
