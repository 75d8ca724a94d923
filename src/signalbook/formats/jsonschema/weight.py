"""How much work a schema may ask for at one place of a payload.

``allOf`` of two references to an ``allOf`` of two references ... doubles the work with each line of the document: forty
lines keep a validator busy for days. Such documents are refused before anything compiles them.
"""

from __future__ import annotations

from typing import Final

from signalbook.values import JSON, Finding

MAX_WEIGHT: Final = 100_000
MAX_CHAIN: Final = 400

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_HERE: Final = ("not", "if", "then", "else")
_MAPS_HERE: Final = ("dependentSchemas", "dependencies")
_MAPS_BELOW: Final = ("properties", "patternProperties")
_BELOW: Final = (
    "items", "additionalItems", "additionalProperties", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "prefixItems",
)  # fmt: skip


def overweight(root: JSON) -> list[Finding]:
    """A finding if some payload could make a validator visit more than ``MAX_WEIGHT`` sub-schemas at one place."""
    weigher = _Weigher(root)
    try:
        weights = [weigher.weigh(root, 0), *(weigher.reference(ref, 0) for ref in list(weigher.local))]
    except _TooDeep:
        text = f"references follow each other more than {MAX_CHAIN} deep"
        return [Finding(path="", rule="depth", message=text)]
    if max(weights) > MAX_WEIGHT:
        text = "combined schemas multiply to more work than any payload is worth"
        return [Finding(path="", rule="weight", message=text)]
    return []


class _TooDeep(Exception):
    """A chain of references longer than ``MAX_CHAIN``."""


class _Weigher:
    """Sums sub-schemas that apply to the same value, and takes the heaviest of those that apply below it."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self.local: dict[str, int | None] = {}

    def weigh(self, node: JSON, depth: int) -> int:
        if depth > MAX_CHAIN:
            raise _TooDeep
        if not isinstance(node, dict):
            return 1
        here = sum(self.weigh(child, depth + 1) for child in _here(node))
        ref = node.get("$ref")
        if isinstance(ref, str) and ref.startswith("#"):
            here += self.reference(ref, depth + 1)
        below = max((self.weigh(child, depth + 1) for child in _below(node)), default=0)
        return min(1 + here + below, MAX_WEIGHT + 1)

    def reference(self, ref: str, depth: int) -> int:
        """The weight of what ``ref`` names; within a cycle the validator remembers its answer, so that counts once."""
        if ref not in self.local:
            self.local[ref] = None
            self.local[ref] = self.weigh(lookup(self.root, ref), depth)
        return self.local[ref] or 1


def _here(node: dict[str, JSON]) -> list[JSON]:
    lists = [item for key in _LISTS if isinstance(node.get(key), list) for item in node[key]]
    maps = [item for key in _MAPS_HERE if isinstance(node.get(key), dict) for item in node[key].values()]
    return [*lists, *maps, *(node[key] for key in _HERE if key in node)]


def _below(node: dict[str, JSON]) -> list[JSON]:
    maps = [item for key in _MAPS_BELOW if isinstance(node.get(key), dict) for item in node[key].values()]
    singles = [node[key] for key in _BELOW if key in node]
    return [*maps, *(item for value in singles for item in (value if isinstance(value, list) else [value]))]


def lookup(root: JSON, ref: str) -> JSON:
    """What the local reference ``#/a/b`` names in ``root``; ``True`` (any value) where it names nothing."""
    node = root
    for part in ref.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return True
    return node
