"""Schemas as trees to show to people, the same for all formats, and sample values made from the trees.

The size of a tree is limited, because recursive definitions can describe billions of places in thirty lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

from signalbook.formats.compatibility import SchemaText
from signalbook.formats.patternexamples import MAX_CHARS, make_example
from signalbook.values import JSON, dump_json

Kind = Literal[
    "object", "array", "map", "choice", "null", "any", "string", "integer", "number", "boolean", "bytes", "timestamp",
    "date", "time", "decimal",
]  # fmt: skip
T = TypeVar("T")
MOST_NODES: Final = 500
DEEPEST: Final = 24
ONLY_ONE: Final = "only one of"
"""The constraint of members that exclude each other; its value is their names."""
_MAX_TEXT_CHARS: Final = 400
_MOST_VALUES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """A place in the values that a schema describes.

    ``name`` is the name of the member, ``""`` for a root, an item or a branch; ``type`` is the type in the terms of the
    format. ``constraints`` are pairs of a limit's name and value. ``values`` are values that the schema itself names:
    constants, examples, defaults, symbols of an enumeration. ``members`` are the members of an object, the item of an
    array, the value of a map, or the branches of a choice. ``cut`` is True if some members were left out. ``anchor`` is
    the id of the node on a page that links to it.
    """

    kind: Kind
    type: str
    name: str = ""
    required: bool = False
    nullable: bool = False
    description: str = ""
    constraints: tuple[tuple[str, str], ...] = ()
    values: tuple[Any, ...] = ()
    members: tuple[SchemaNode, ...] = ()
    cut: bool = False
    anchor: str = ""


@runtime_checkable
class Described(Protocol):
    """The additional method of a ``Schema`` that can describe its values as a tree."""

    def tree(self) -> SchemaNode:
        """Return the tree that describes conforming values."""
        ...


@runtime_checkable
class Manifold(Protocol):
    """The additional method of a ``Format`` whose documents may define several types, none of which
    is the main type.
    """

    def message_types(self, text: SchemaText) -> tuple[str, ...]:
        """Return the names of the types in ``text``, as deep links use them, in order. Raises ``SchemaError``."""
        ...


@dataclass(kw_only=True)
class Room:
    """The remaining number of nodes that a tree may have."""

    nodes: int = field(default=MOST_NODES)

    def take(self, depth: int) -> bool:
        """Count a node at ``depth``. Return False if the tree has no room left for the node or the node is too deep."""
        self.nodes -= 1
        return self.nodes >= 0 and depth < DEEPEST

    def share(self, items: Sequence[T]) -> Iterator[T]:
        """Yield the first of ``items``, as many as there is room for, and limit the room while each item is processed.

        Each item gets an equal share, so that a large first member does not hide later members. Later items can use the
        room that an item leaves.
        """
        count = min(len(items), max(self.nodes, 0))
        for index, item in enumerate(items[:count]):
            later_items = count - index - 1
            reserved = self.nodes * later_items // (later_items + 1)
            self.nodes -= reserved
            yield item
            self.nodes = max(self.nodes, 0) + reserved


def format_text(value: Any) -> str:
    """Return ``value``, a description or a bound, as text of limited length."""
    short = value if isinstance(value, str) else dump_json(value).decode("utf-8", "replace")
    return short if len(short) <= _MAX_TEXT_CHARS else f"{short[:_MAX_TEXT_CHARS]}…"


def list_constraints(schema: dict[str, JSON], names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the keywords of ``schema`` in ``names`` with their values as text."""
    return tuple((name, format_text(schema[name])) for name in names if name in schema)


def list_json_constraints(schema: dict[str, JSON], names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the constraints of a schema in JSON: the keywords ``names``, the enum, and the ban on other members."""
    limits = list_constraints(schema, names)
    if isinstance(schema.get("enum"), list):
        limits = (("one of", ", ".join(format_text(value) for value in take_first(schema["enum"]))), *limits)
    return (*limits, ("no other members", "true")) if schema.get("additionalProperties") is False else limits


def take_first(values: Any) -> tuple[Any, ...]:
    """Return the first ``_MOST_VALUES`` of ``values``; empty if ``values`` is not a list."""
    return tuple(values[:_MOST_VALUES]) if isinstance(values, list) else ()


def sample(node: SchemaNode) -> Any:
    """Return a sample value for ``node``: the first value that the schema names, otherwise a typical value of its kind.

    The sample may violate constraints that the tree does not contain, so callers have to validate it.
    """
    return _sample(node, 0, Room(nodes=_MAX_PATTERNS))


def _sample(node: SchemaNode, depth: int, patterns: Room) -> Any:
    """Return a value for ``sample``; ``patterns`` limits how many texts are generated from patterns."""
    if node.values:
        return node.values[0]
    if node.nullable and node.cut:
        return None
    match node.kind:
        case "object":
            return {member.name: _sample(member, depth + 1, patterns) for member in _choose_members(node, depth)}
        case "array":
            return [_sample(node.members[0], depth + 1, patterns)] if node.members and depth < DEEPEST else []
        case "map":
            return {"key": _sample(node.members[0], depth + 1, patterns)} if node.members and depth < DEEPEST else {}
        case "choice":
            return _sample(_choose_branch(node), depth + 1, patterns) if node.members else None
        case "string":
            return _sample_string(node, patterns)
        case "integer" | "number":
            return _sample_number(node)
    return _SAMPLE_VALUES.get(node.kind)


_MAX_PATTERNS: Final = 50
"""The maximum number of patterns for which a sample generates texts, each of which may take 0.1 s."""
_OPTIONAL_DEPTH: Final = 4
_SAMPLE_VALUES: Final[dict[str, Any]] = {
    "boolean": True,
    "bytes": b"abc",
    "timestamp": datetime(2030, 1, 31, 12, tzinfo=UTC),
    "date": date(2030, 1, 31),
    "time": time(12, 0),
    "decimal": Decimal("1"),
    "any": {},
}
_FORMATS: Final = {
    "date-time": "2030-01-31T12:00:00Z",
    "date": "2030-01-31",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uri-reference": "/path",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "datetime": "2030-01-31T12:00:00Z",
    "duration": "PT1H",
    "binary": "YWJj",
    "jsonpointer": "/a",
}


def _choose_members(node: SchemaNode, depth: int) -> Iterator[SchemaNode]:
    """Yield the members to include in a sample: required members and, near the root, optional members that are not cut.

    Of members that exclude each other only the first is yielded.
    """
    met: set[str] = set()
    for member in node.members:
        alternatives = dict(member.constraints).get(ONLY_ONE, "")
        if member.required or (
            depth < _OPTIONAL_DEPTH and not member.cut and (not alternatives or alternatives not in met)
        ):
            met.add(alternatives)
            yield member


def _choose_branch(node: SchemaNode) -> SchemaNode:
    """Return the first branch that is not null, or the null branch if there is no other."""
    return next((member for member in node.members if member.kind != "null"), node.members[0])


def _sample_string(node: SchemaNode, patterns: Room) -> str:
    bounds = dict(node.constraints)
    least, most = bounds.get("minLength", "0"), bounds.get("maxLength", "")
    min_chars = min(int(least), _MAX_TEXT_CHARS) if least.isdigit() else 0
    if "pattern" in bounds and patterns.take(0):
        max_chars = min(int(most), MAX_CHARS) if most.isdigit() else MAX_CHARS
        example = make_example(bounds["pattern"], min_chars, max_chars)
        if example is not None:
            return example
    plain = _FORMATS.get(bounds.get("format", ""), node.name or "text").ljust(min_chars, "x")
    return plain[: int(most)] if most.isdigit() else plain


def _sample_number(node: SchemaNode) -> int | float:
    """Return the smallest allowed number if ``node`` has a lower bound, else the largest allowed
    number, else 1 or a step.
    """
    bounds = dict(node.constraints)
    step = _parse_number(bounds.get("multipleOf", ""))
    for name, offset in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        bound = _parse_number(bounds.get(name, ""))
        if bound is not None:
            value = bound + offset * (step or 1)
            return int(value) if float(value).is_integer() else value
    smallest = step or 1
    return int(smallest) if float(smallest).is_integer() else smallest


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
