"""References to entities: old names of collections, and fragments of a document, as xids (domain I-3, I-6, L-5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

GROUP_TYPES: Final = {
    "definitionGroups": "messagegroups",
    "definitiongroups": "messagegroups",
    "schemaGroups": "schemagroups",
}
RESOURCE_TYPES: Final = {"definitions": "messages", "schema": "schemas", "message": "messages"}
_KNOWN: Final = frozenset({"endpoints", "messagegroups", "schemagroups"})
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9._~:@-]", re.ASCII)
_LONGEST: Final = 128


def modern_reference(text: str) -> str:
    """``text`` with today's names, as an xid if it points into its own document; anything else as it is."""
    path = text.removeprefix("#")
    if not path.startswith("/"):
        return text
    segments = [segment.replace("~1", "/").replace("~0", "~") for segment in path[1:].split("/")]
    named = _named(segments)
    return "/" + "/".join(named) if named[0] in _KNOWN else text


def legal_id(id: str) -> str:
    """``id`` with an underscore for every character that no id has, and in front where it cannot begin so (L-4)."""
    legal = _FORBIDDEN.sub("_", id)
    return (legal if re.match(r"\w", legal) else f"_{legal}")[:_LONGEST]


def _named(segments: Sequence[str]) -> list[str]:
    named = list(segments)
    named[0] = GROUP_TYPES.get(named[0], named[0])
    if len(named) > 2:
        named[2] = RESOURCE_TYPES.get(named[2], named[2])
    if len(named) > 4 and named[4] == "version":
        named[4] = "versions"
    return [segment if position % 2 == 0 else _legal_link(segment) for position, segment in enumerate(named)]


def _legal_link(segment: str) -> str:
    """An id in a reference may have a pointer into the schema behind a colon; both keep to the same characters."""
    return legal_id(segment) if segment else segment
