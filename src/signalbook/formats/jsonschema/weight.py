"""How much work a schema may ask for at one place of a payload.

``allOf`` of two references to an ``allOf`` of two references ... doubles the work with each line of the document: forty
lines keep a validator busy for days. Such documents are refused before anything compiles them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signalbook.formats.jsonschema.references import absolute, fragment_of, lookup
from signalbook.values import JSON, Finding

MAX_WEIGHT: Final = 100_000
MAX_CHAIN: Final = 150

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE: Final = ("not", "if", "then", "else")
_MAPS_HERE: Final = ("dependentSchemas", "dependencies")
_MAPS_BELOW: Final = ("properties", "patternProperties", "definitions", "$defs")
_BELOW: Final = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "prefixItems",
)  # fmt: skip


def overweight(documents: Mapping[str, JSON], base: str, pointer: str = "") -> list[Finding]:
    """A finding if some payload could make a validator visit more than ``MAX_WEIGHT`` sub-schemas at one place.

    ``documents`` are the schema documents by URI, ``base`` and ``pointer`` say where the schema in question stands.
    """
    try:
        weight = _Weigher(documents).reference(f"#{pointer}", base, 0)
    except (_TooDeep, RecursionError):
        text = f"references and sub-schemas follow each other more than {MAX_CHAIN} deep"
        return [Finding(path="", rule="depth", message=text)]
    if weight > MAX_WEIGHT:
        text = "combined schemas multiply to more work than any payload is worth"
        return [Finding(path="", rule="weight", message=text)]
    return []


class _TooDeep(Exception):
    """A chain of references longer than ``MAX_CHAIN``."""


class _Weigher:
    """Sums sub-schemas that apply to the same value, and takes the heaviest of those that apply below it."""

    def __init__(self, documents: Mapping[str, JSON]) -> None:
        self.documents = documents
        self.known: dict[str, int | None] = {}

    def weigh(self, node: JSON, base: str, depth: int) -> int:
        if depth > MAX_CHAIN:
            raise _TooDeep
        if not isinstance(node, dict):
            return 1
        here = sum(self.weigh(child, base, depth + 1) for child in _here(node))
        if isinstance(node.get("$ref"), str):
            here += self.reference(node["$ref"], base, depth + 1)
        below = max((self.weigh(child, base, depth + 1) for child in _below(node)), default=0)
        return min(1 + here + below, MAX_WEIGHT + 1)

    def reference(self, reference: str, base: str, depth: int) -> int:
        """The weight of what is named; within a cycle the validator remembers its answer, so that counts once."""
        document, pointer = absolute(base, reference), fragment_of(reference)
        key = f"{document}#{pointer}"
        if key not in self.known:
            self.known[key] = None
            self.known[key] = self.weigh(lookup(self.documents.get(document, True), pointer), document, depth)
        return self.known[key] or 1


def _here(node: dict[str, JSON]) -> list[JSON]:
    lists = [item for key in _LISTS if isinstance(node.get(key), list) for item in node[key]]
    maps = [item for key in _MAPS_HERE if isinstance(node.get(key), dict) for item in node[key].values()]
    return [*lists, *maps, *(node[key] for key in _HERE if key in node)]


def _below(node: dict[str, JSON]) -> list[JSON]:
    maps = [item for key in _MAPS_BELOW if isinstance(node.get(key), dict) for item in node[key].values()]
    singles = [node[key] for key in _BELOW if key in node]
    return [*maps, *(item for value in singles for item in (value if isinstance(value, list) else [value]))]
