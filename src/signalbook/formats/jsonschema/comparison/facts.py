"""What is known about a value of which certain schemas hold and others do not.

Facts may allow more than the schemas do, never less: what follows from them follows from the schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from signalbook.formats.jsonschema.comparison.term import TYPES, Term, made, matches, target
from signalbook.values import JSON, parse_json

# A schema, and whether it holds.
Literal = tuple[Term, bool]
Known = frozenset[Literal]

# Either-or: all literals of one of these sets hold.
Options = tuple[Known, ...]

_JSON_TYPES: Final = {bool: "boolean", type(None): "null", str: "string", list: "array", dict: "object"}


@dataclass(slots=True)
class Range:
    """Bounds of a number or of a size; ``open`` where the bound itself is excluded."""

    low: Any = None
    low_open: bool = False
    high: Any = None
    high_open: bool = False

    def raise_to(self, low: Any, *, open: bool = False) -> None:
        if self.low is None or (low, open) > (self.low, self.low_open):
            self.low, self.low_open = low, open

    def lower_to(self, high: Any, *, open: bool = False) -> None:
        if self.high is None or (high, not open) < (self.high, not self.high_open):
            self.high, self.high_open = high, open

    @property
    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high) or (self.low == self.high and (self.low_open or self.high_open))


@dataclass(frozen=True, slots=True)
class Members:
    """What one schema says of an object's members: by name, by pattern, and of those that neither names."""

    names: dict[str, Term | None]
    patterns: dict[str, Term | None]
    rest: Term | None

    def of(self, name: str) -> list[Term]:
        """What holds of a member."""
        found = [self.names[name]] if name in self.names else []
        found += [term for pattern, term in self.patterns.items() if matches(pattern, name)]
        if not found:
            found = [self.rest]
        return [term for term in found if term is not None]

    def declares(self, name: str) -> bool:
        """Whether a member is mentioned."""
        return name in self.names or any(matches(pattern, name) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class Items:
    """What one schema says of an array's items: the first ones by position, and all others."""

    prefix: tuple[Term | None, ...]
    rest: Term | None

    def of(self, index: int) -> Term | None:
        """What holds of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(slots=True, kw_only=True)
class Facts:
    """Everything known; ``splits`` are the either-or that are left.

    ``whole`` has the years of the drafts that ask for an integer: in draft-04, 1.0 is none. What is said of one type
    says nothing about values of the others. ``excluded`` values are known not to be. ``work`` is what it took to
    find all this out.
    """

    known: Known
    terms: dict[Term, None] = field(default_factory=dict)
    refused: dict[Term, None] = field(default_factory=dict)
    types: set[str] = field(default_factory=lambda: set(TYPES))
    whole: set[int] = field(default_factory=set)
    values: dict[bytes, JSON] | None = None
    excluded: set[bytes] = field(default_factory=set)
    number: Range = field(default_factory=Range)
    steps: set[Decimal] = field(default_factory=set)
    length: Range = field(default_factory=lambda: Range(low=0))
    patterns: set[str] = field(default_factory=set)
    contents: set[tuple[Any, Any]] = field(default_factory=set)
    size: Range = field(default_factory=lambda: Range(low=0))
    items: list[Items] = field(default_factory=list)
    contains: list[Term] = field(default_factory=list)
    unique: list[bool] = field(default_factory=list)
    count: Range = field(default_factory=lambda: Range(low=0))
    members: list[Members] = field(default_factory=list)
    names: list[Term] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    opaque: set[Any] = field(default_factory=set)
    splits: list[Options] = field(default_factory=list)
    work: int = 0

    def member(self, name: str) -> Known:
        """What holds of the member ``name``, if there is one."""
        if name in self.absent:
            return frozenset({(NEVER, True)})
        return frozenset((target(term), True) for part in self.members for term in part.of(name))

    def declares(self, name: str) -> bool:
        """Whether some schema mentions the member ``name``."""
        return any(part.declares(name) for part in self.members)

    def declared(self) -> list[str]:
        """All names that are mentioned, in order."""
        return list(dict.fromkeys([*(name for part in self.members for name in part.names), *sorted(self.required)]))

    def item(self, index: int) -> Known:
        """What holds of the item at ``index``, if there is one."""
        return frozenset((target(term), True) for part in self.items if (term := part.of(index)) is not None)

    @property
    def prefix(self) -> int:
        """From this position on, what holds of one item holds of all."""
        return max((len(part.prefix) for part in self.items), default=0)


NEVER: Final = made({"never": True}, 0, raw=False)


@lru_cache(maxsize=4096)
def has(name: str) -> Term:
    """That a value is an object with the member ``name``; if it does not hold, the value may be no object at all."""
    return made({"has": name}, 0)


@lru_cache(maxsize=8)
def typed(name: str) -> Term:
    """That a value is of a JSON type."""
    return made({"type": frozenset({name})}, 0, raw={"type": name})


def json_type(value: JSON) -> str:
    """The JSON type of a value."""
    return _JSON_TYPES.get(type(value), "number")


@lru_cache(maxsize=4096)
def tagged(name: str, value: bytes) -> Term:
    """That the member ``name``, if there is one, has a value, which is given as its ``identity``."""
    member = made({"const": parse_json(value)}, 0)
    return made({"properties": {name: member}}, 0)
