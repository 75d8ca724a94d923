"""A JSON Structure document: its types, and what their declarations come to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from signalbook.formats.jsonstructure.primitives import PRIMITIVES
from signalbook.values import JSON, JSONObject

COMPOUND: Final = frozenset({"object", "array", "set", "map", "tuple", "choice", "any"})
TYPES: Final = frozenset(PRIMITIVES) | COMPOUND
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Keywords that bring in types of other documents.
IMPORTS: Final = ("$import", "$importdefs")
MAX_BASES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Structure:
    """A document that has been read. ``members`` remembers the properties of types with those of their bases."""

    root: JSONObject
    fingerprint: str
    members: dict[int, dict[str, JSON]] = field(default_factory=dict)

    def lookup(self, pointer: str) -> JSON:
        """What a JSON Pointer names, with or without a ``#`` before it; ``None`` if there is nothing."""
        node: JSON = self.root
        for token in unquote(pointer.removeprefix("#")).split("/")[1:]:
            node = node.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def top(self) -> JSONObject | None:
        """The type of whole payloads: that of the root, or the one that ``$root`` names."""
        if "type" in self.root:
            return self.root
        found = self.lookup(self.root["$root"]) if isinstance(self.root.get("$root"), str) else None
        return found if isinstance(found, dict) else None

    def bases(self, schema: JSONObject) -> Iterator[JSONObject]:
        """The types that one extends, nearest first, each once; at most ``MAX_BASES``."""
        seen: list[JSONObject] = [schema]
        waiting = extended(schema)
        while waiting and len(seen) <= MAX_BASES:
            base = self.lookup(waiting.pop(0))
            if isinstance(base, dict) and not any(base is one for one in seen):
                seen.append(base)
                yield base
                waiting += extended(base)

    def properties(self, schema: JSONObject) -> dict[str, JSON]:
        """The properties of a type, those of its bases before its own."""
        key = id(schema)
        if key not in self.members:
            found: dict[str, JSON] = {}
            for one in (*self.bases(schema), schema):
                own = one.get("properties")
                for name, member in own.items() if isinstance(own, dict) else ():
                    found.setdefault(name, member)
            self.members[key] = found
        return self.members[key]


def extended(schema: JSONObject) -> list[str]:
    """The pointers of ``$extends``."""
    named = schema.get("$extends", [])
    return [one for one in (named if isinstance(named, list) else [named]) if isinstance(one, str)]


def required(structure: Structure, schema: JSONObject) -> list[list[str]]:
    """The sets of required properties, one of which an object must have; those of bases are in each of them."""
    inherited: list[str] = []
    for base in structure.bases(schema):
        sets = _sets(base)
        inherited += sets[0] if len(sets) == 1 else []
    return [[*inherited, *one] for one in _sets(schema)]


def _sets(schema: JSONObject) -> list[list[str]]:
    named = schema.get("required", [])
    if isinstance(named, list) and named and all(isinstance(one, list) for one in named):
        return named
    return [named if isinstance(named, list) else []]
