"""What is known about a value of which certain schemas hold and others do not.

Facts may allow more than the schemas do, never less: what follows from them follows from the schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

from signalbook.formats.jsonschema.comparison.terms import (
    TYPES,
    UNEVALUATED,
    Identity,
    Term,
    always_applied,
    by_identity,
    evaluated,
    identity,
    in_place,
    made,
    matches,
    target,
)
from signalbook.formats.jsonschema.pattern import find_lengths
from signalbook.values import JSON, parse_json

# A schema, and whether it holds.
Literal = tuple[Term, bool]
Known = frozenset[Literal]

# Either-or: all literals of one of these sets hold.
Options = tuple[Known, ...]

_JSON_TYPES: Final = {bool: "boolean", type(None): "null", str: "string", list: "array", dict: "object"}


# Beyond it a float no longer says which integer was meant.
MAX_EXACT: Final = 2**53


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

    def close_to_multiples(self, step: int) -> None:
        """Move the bounds inward to the nearest multiples that floating point holds exactly."""
        if self.low is not None and abs(self.low) < MAX_EXACT:
            steps = Fraction(self.low) / step
            self.raise_to((math.floor(steps) + 1 if self.low_open else math.ceil(steps)) * step)
        if self.high is not None and abs(self.high) < MAX_EXACT:
            steps = Fraction(self.high) / step
            self.lower_to((math.ceil(steps) - 1 if self.high_open else math.floor(steps)) * step)

    @property
    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return bool(self.low > self.high) or (self.low == self.high and (self.low_open or self.high_open))


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """One schema's statements about an object's members: by name, by pattern, and about all others."""

    names: dict[str, Term | None]
    patterns: dict[str, Term | None]
    rest: Term | None

    def of(self, name: str) -> list[Term]:
        """Return the schemas of a member."""
        found = [self.names[name]] if name in self.names else []
        found += [term for pattern, term in self.patterns.items() if matches(pattern, name)]
        if not found:
            found = [self.rest]
        return [term for term in found if term is not None]

    def declares(self, name: str) -> bool:
        """Return True if a member is mentioned."""
        return name in self.names or any(matches(pattern, name) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """One schema's statements about an array's items: the first ones by position, and all others."""

    prefix: tuple[Term | None, ...]
    rest: Term | None

    def of(self, index: int) -> Term | None:
        """Return the schema of an item."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(slots=True, kw_only=True)
class Facts:
    """All known facts. ``splits`` are the remaining alternatives.

    ``whole`` has the years of the drafts that ask for an integer: in draft-04, 1.0 is none. Statements about one type
    do not concern values of other types. ``excluded`` are values that are impossible. ``circular``: validating the
    value by a schema validates the same value by it again, so nothing follows from the schema. ``work`` is the number
    of steps that collecting the facts took.
    """

    known: Known
    terms: dict[Term, None] = field(default_factory=dict)
    refused: dict[Term, None] = field(default_factory=dict)
    types: set[str] = field(default_factory=lambda: set(TYPES))
    whole: set[int] = field(default_factory=set)
    values: dict[Identity, JSON] | None = None
    excluded: set[Identity] = field(default_factory=set)
    number: Range = field(default_factory=Range)
    steps: set[Decimal] = field(default_factory=set)
    length: Range = field(default_factory=lambda: Range(low=0))
    patterns: set[str] = field(default_factory=set)
    contents: set[tuple[Any, Any]] = field(default_factory=set)
    size: Range = field(default_factory=lambda: Range(low=0))
    items: list[ItemFacts] = field(default_factory=list)
    contains: list[Term] = field(default_factory=list)
    unique: list[bool] = field(default_factory=list)
    count: Range = field(default_factory=lambda: Range(low=0))
    members: list[MemberFacts] = field(default_factory=list)
    names: list[Term] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    opaque: set[Any] = field(default_factory=set)
    circular: bool = False
    splits: list[Options] = field(default_factory=list)
    work: int = 0

    def member(self, name: str) -> Known:
        """Return what is known of the member ``name``, if there is one."""
        if name in self.absent:
            return frozenset({(NEVER, True)})
        return frozenset((target(term), True) for part in self.members for term in part.of(name))

    def has_room_for(self, name: str | None = None) -> bool:
        """Return True if the member ``name``, or one that nobody mentions, may be there beside the required ones."""
        return self.count.high is None or len(self.required) + (name not in self.required) <= self.count.high

    def declares(self, name: str) -> bool:
        """Return True if a schema mentions the member ``name``."""
        return any(part.declares(name) for part in self.members)

    def declared(self) -> list[str]:
        """Return all mentioned names, in order."""
        return list(dict.fromkeys([*(name for part in self.members for name in part.names), *sorted(self.required)]))

    def item(self, index: int) -> Known:
        """Return what is known of the item at ``index``, if there is one."""
        return frozenset((target(term), True) for part in self.items if (term := part.of(index)) is not None)

    @property
    def has_integers_only(self) -> bool:
        """True if no number has a fraction; in draft-04, it may still be no integer, as 1.0 is."""
        return bool(self.whole) or any(step == step.to_integral_value() for step in self.steps)

    @property
    def prefix(self) -> int:
        """The position from which on the same is known of all items."""
        return max((len(part.prefix) for part in self.items), default=0)


NEVER: Final = made({"never": True}, 0, raw=False)


@lru_cache(maxsize=4096)
def has(name: str) -> Term:
    """Return the term that a value is an object with the member ``name``. Its negation includes other types."""
    return made({"has": name}, 0)


@lru_cache(maxsize=8)
def typed(name: str) -> Term:
    """Return the term that a value is of a JSON type."""
    return made({"type": frozenset({name})}, 0, raw={"type": name})


def json_type(value: JSON) -> str:
    """The JSON type of a value."""
    return _JSON_TYPES.get(type(value), "number")


@lru_cache(maxsize=4096)
def tagged(name: str, value: Identity) -> Term:
    """Return the term that the member ``name``, if there is one, has the value with this ``identity``."""
    member = made({"const": parse_json(value) if isinstance(value, bytes) else value}, 0)
    return made({"properties": {name: member}}, 0)


# The types that have few values, with these.
SMALL: Final[dict[str, tuple[JSON, ...]]] = {"null": (None,), "boolean": (False, True)}
_MEMBERS: Final = frozenset({"properties", "patternProperties", "additionalProperties"})
# Of more alternatives it is not remembered that they exclude each other: that takes their number squared.
_MAX_EXCLUSIVE: Final = 500
# Why each of more refused schemas does not hold is not gone into.
_MAX_DOUBTS: Final = 8
# The type each keyword speaks of: where it does not hold, the value is of that type.
KINDS: Final = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "content"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "prefixItems", "items", "contains"), "array"),
    "unevaluatedItems": "array",
    **dict.fromkeys(("minProperties", "maxProperties", "required", "properties", "patternProperties"), "object"),
    **dict.fromkeys(("additionalProperties", "propertyNames", "unevaluatedProperties"), "object"),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), "object"),
}  # fmt: skip


def gather(known: Known) -> Facts:
    """The facts that follow from literals."""
    return _Gatherer(known).run()


class _Gatherer:
    """Takes literals apart until nothing new follows."""

    def __init__(self, known: Known) -> None:
        self.facts = Facts(known=known)
        # Sorted, so that the same schemas always give the same differences, whatever order a set has.
        self.waiting: list[Literal] = sorted(known, key=lambda literal: (literal[0].path, not literal[1]))
        self.choices: list[Options] = []
        self.doubts: list[Options] = []

    def run(self) -> Facts:
        while self.waiting:
            while self.waiting:
                self._take(*self.waiting.pop())
            self._settle_choices()
        for term in self.facts.terms:
            if UNEVALUATED & term.says.keys() and not term.circular:
                _close(self.facts, term)
        _settle(self.facts)
        return self.facts

    def _take(self, term: Term, holds: bool) -> None:
        known = self.facts.terms if holds else self.facts.refused
        if term in known:
            return
        known[term] = None
        # It holds and does not hold: there is no such value.
        if term in (self.facts.refused if holds else self.facts.terms):
            self.facts.types.clear()
        if term.circular:
            self.facts.circular = True
            return
        if not holds:
            self._deny(term)
            return
        for keyword, said in term.says.items():
            if keyword in _FACTS:
                _FACTS[keyword](self.facts, term, said)
            self.waiting += _FOLLOWING[keyword](said) if keyword in _FOLLOWING else ()
            self.choices += term.remembered(keyword, _CHOICES[keyword]) if keyword in _CHOICES else ()
        _structure(self.facts, term)

    def _deny(self, term: Term) -> None:
        """Add what follows from a schema that does not hold: one of its parts does not."""
        parts = term.parts()
        if not term.says:
            self.facts.types.clear()
        elif len(parts) > 1:
            self.doubts.append(tuple(frozenset({(part, False)}) for part in parts))
        elif len(term.says) == 1:
            ((keyword, said),) = term.says.items()
            if keyword in KINDS:
                self.facts.types &= {KINDS[keyword]}
            if keyword in _DENIED:
                _DENIED[keyword](self.facts, said)
            self.waiting += _REFUSED[keyword](said) if keyword in _REFUSED else ()
            self.doubts += _DOUBTS[keyword](term, said) if keyword in _DOUBTS else ()

    def _settle_choices(self) -> None:
        """Settle each either-or by what is known already, or keep it."""
        facts = self.facts
        held = {*((term, True) for term in facts.terms), *((term, False) for term in facts.refused)}
        # What contradicts what is known rules an option out; what is left alone follows, and may settle others.
        against = {(term, not holds) for term, holds in held} | {(has(name), True) for name in facts.absent}
        if facts.types <= {"object"}:
            against |= {(has(name), False) for name in facts.required}
        splits = [*self._left(self.choices, held, against)]
        doubts = [*self._left(self.doubts, held, against)]
        facts.splits = splits + doubts if len(facts.refused) <= _MAX_DOUBTS else splits

    def _left(self, choices: list[Options], held: set[Literal], against: set[Literal]) -> Iterator[Options]:
        for options in choices:
            self.facts.work += len(options)
            left = tuple(option for option in options if option.isdisjoint(against))
            if not left:
                self.facts.types.clear()
            elif len(left) == 1:
                self.waiting += left[0] - held
            elif not any(option <= held for option in left):
                yield left


def _structure(facts: Facts, term: Term) -> None:
    """Add a schema's statements about items and members."""
    says = term.says
    if "items" in says or "prefixItems" in says:
        facts.items.append(ItemFacts(says.get("prefixItems", ()), says.get("items")))
    if _MEMBERS & says.keys():
        named, patterns = says.get("properties", {}), says.get("patternProperties", {})
        facts.members.append(MemberFacts(named, patterns, says.get("additionalProperties")))


def _close(facts: Facts, term: Term) -> None:
    """Add what a schema says of members and items that nothing else looks at, once it is known what does not hold."""
    seen = evaluated(term, partial(_possibly_applied, facts), certain=False)
    if "unevaluatedProperties" in term.says and not seen.all_members:
        names, patterns = dict.fromkeys(sorted(seen.names)), dict.fromkeys(sorted(seen.patterns))
        facts.members.append(MemberFacts(names, patterns, term.says["unevaluatedProperties"]))
    if "unevaluatedItems" in term.says and not seen.all_items:
        facts.items.append(ItemFacts((None,) * seen.items, term.says["unevaluatedItems"]))


def _possibly_applied(facts: Facts, term: Term) -> Iterator[Term]:
    """Yield the schemas that may apply to the value: what does not hold has looked at nothing."""
    says, always = term.says, {*always_applied(term)}
    idle: set[Term] = set()
    for keyword in ("dependentSchemas", "dependencies"):
        needed = says.get(keyword, {})
        idle.update(needed[name] for name in needed.keys() & facts.absent)
    if "if" in says:
        branch = "then" if says["if"] in facts.refused else "else" if says["if"] in facts.terms else ""
        idle.update({says[branch]} if branch in says else ())
    for inner in in_place(term):
        facts.work += 1
        if inner in always or (inner not in facts.refused and inner not in idle):
            yield inner


def _settle(facts: Facts) -> None:
    """Combine the facts."""
    facts.count.raise_to(len(facts.required))
    for part in facts.items:
        never = [i for i, term in enumerate((*part.prefix, part.rest)) if term is not None and "never" in term.says]
        if never:
            facts.size.lower_to(never[0])
    for members in facts.members:
        if members.rest is not None and "never" in members.rest.says and not members.patterns:
            facts.count.lower_to(sum(term is None or "never" not in term.says for term in members.names.values()))
    # No object can be like that; the value may still be of another type.
    if facts.required & facts.absent or facts.count.empty:
        facts.types.discard("object")
    if facts.has_integers_only:
        whole = [int(step) for step in facts.steps if step == step.to_integral_value() and step < MAX_EXACT]
        facts.number.close_to_multiples(max(whole, default=1))
    for name, size in (("number", facts.number), ("string", facts.length), ("array", facts.size)):
        if size.empty:
            facts.types.discard(name)
    _list_values(facts)
    if facts.values is not None:
        # Only as often as needed: there may be very many.
        if facts.excluded or not _types(facts.values) <= facts.types:
            kept = {key: value for key, value in facts.values.items() if json_type(value) in facts.types}
            facts.values = {key: value for key, value in kept.items() if key not in facts.excluded}
        facts.types = _types(facts.values)
        if float not in set(map(type, facts.values.values())) or all(map(_is_whole, facts.values.values())):
            facts.whole.add(0)


def _list_values(facts: Facts) -> None:
    """List the values if there are few: of small types, and what is empty where nothing longer is possible."""
    sized: list[tuple[str, Range, JSON]] = [
        ("string", facts.length, ""), ("array", facts.size, []), ("object", facts.count, {}),
    ]  # fmt: skip
    few = {**SMALL, **{name: (value,) for name, size, value in sized if size.high == 0}}
    if facts.values is None and facts.types <= few.keys():
        facts.values = {identity(value): value for name in sorted(facts.types) for value in few[name]}


def _is_whole(value: JSON) -> bool:
    return type(value) is not float or value.is_integer()


def _types(values: Mapping[Identity, JSON]) -> set[str]:
    return {_JSON_TYPES.get(kind, "number") for kind in set(map(type, values.values()))}


def _type(facts: Facts, term: Term, said: frozenset[str]) -> None:
    facts.types &= {"number" if name == "integer" else name for name in said}
    if "integer" in said and "number" not in said:
        facts.whole.add(term.year)


def _values(facts: Facts, _: Term, said: tuple[JSON, ...]) -> None:
    values = by_identity(said)
    known = facts.values
    facts.values = values if known is None else {key: value for key, value in values.items() if key in known}


def _pattern(facts: Facts, _: Term, said: str) -> None:
    facts.patterns.add(said)
    low, high = find_lengths(said)
    facts.length.raise_to(low)
    if high is not None:
        facts.length.lower_to(high)


def _contains(facts: Facts, term: Term, _: Term) -> None:
    facts.contains.append(term)
    least = term.says.get("minContains", 1)
    facts.size.raise_to(least)
    if term.says.get("maxContains", least) < least:
        facts.types.discard("array")


def _has(facts: Facts, _: Term, said: str) -> None:
    facts.types &= {"object"}
    facts.required.add(said)


_FACTS: Final[dict[str, Callable[[Facts, Term, Any], object]]] = {
    "never": lambda facts, __, _: facts.types.clear(),
    "opaque": lambda facts, _, said: facts.opaque.add(said),
    "has": _has,
    "type": _type,
    "enum": _values,
    "const": lambda facts, term, said: _values(facts, term, (said,)),
    "minimum": lambda facts, _, said: facts.number.raise_to(said),
    "exclusiveMinimum": lambda facts, _, said: facts.number.raise_to(said, open=True),
    "maximum": lambda facts, _, said: facts.number.lower_to(said),
    "exclusiveMaximum": lambda facts, _, said: facts.number.lower_to(said, open=True),
    "multipleOf": lambda facts, _, said: facts.steps.add(Decimal(str(said))),
    "minLength": lambda facts, _, said: facts.length.raise_to(said),
    "maxLength": lambda facts, _, said: facts.length.lower_to(said),
    "pattern": _pattern,
    "content": lambda facts, _, said: facts.contents.add(said),
    "minItems": lambda facts, _, said: facts.size.raise_to(said),
    "maxItems": lambda facts, _, said: facts.size.lower_to(said),
    "uniqueItems": lambda facts, _, said: facts.unique.append(said),
    "contains": _contains,
    "required": lambda facts, _, said: facts.required.update(said),
    "minProperties": lambda facts, _, said: facts.count.raise_to(said),
    "maxProperties": lambda facts, _, said: facts.count.lower_to(said),
    "propertyNames": lambda facts, _, said: facts.names.append(said),
}
_FOLLOWING: Final[dict[str, Callable[[Any], list[Literal]]]] = {
    "ref": lambda said: [(said, True)],
    "dynamicRef": lambda said: [(said, True)],
    "allOf": lambda said: [(item, True) for item in said],
    "not": lambda said: [(said, False)],
}


def _any_of(_: Term, said: tuple[Term, ...]) -> Iterator[Options]:
    yield tuple(frozenset({(item, True)}) for item in said)


def _one_of(term: Term, said: tuple[Term, ...]) -> Iterator[Options]:
    if len(said) > _MAX_EXCLUSIVE:
        yield from _any_of(term, said)
        return
    yes, no = [(item, True) for item in said], [(item, False) for item in said]
    yield tuple(frozenset((*no[:index], yes[index], *no[index + 1 :])) for index in range(len(said)))


def _if(term: Term, said: Term) -> Iterator[Options]:
    branches = [(term.says.get(keyword), holds) for keyword, holds in (("then", True), ("else", False))]
    yield tuple(frozenset({(said, holds)} | ({(branch, True)} if branch else set())) for branch, holds in branches)


def _dependent_required(_: Term, said: dict[str, frozenset[str]]) -> Iterator[Options]:
    for name, needed in said.items():
        yield frozenset({(has(name), False)}), frozenset((has(other), True) for other in {name, *needed})


def _dependent_schemas(_: Term, said: dict[str, Term]) -> Iterator[Options]:
    for name, needed in said.items():
        yield frozenset({(has(name), False)}), frozenset({(has(name), True), (needed, True)})


_CHOICES: Final[dict[str, Callable[[Term, Any], Iterator[Options]]]] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "if": _if,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependent_schemas,
}


def _not_type(facts: Facts, said: frozenset[str]) -> None:
    facts.types -= said


def _not_required(facts: Facts, said: frozenset[str]) -> None:
    if len(said) == 1:
        facts.absent |= said


def _not_properties(facts: Facts, said: dict[str, Term]) -> None:
    if len(said) == 1:
        ((name, term),) = said.items()
        facts.required.add(name)
        facts.members.append(MemberFacts({name: term.negation}, {}, None))


_DENIED: Final[dict[str, Callable[[Facts, Any], object]]] = {
    "type": _not_type,
    "enum": lambda facts, said: facts.excluded.update(map(identity, said)),
    "const": lambda facts, said: facts.excluded.add(identity(said)),
    "has": lambda facts, said: facts.absent.add(said),
    "required": _not_required,
    "properties": _not_properties,
    "minimum": lambda facts, said: facts.number.lower_to(said, open=True),
    "exclusiveMinimum": lambda facts, said: facts.number.lower_to(said),
    "maximum": lambda facts, said: facts.number.raise_to(said, open=True),
    "exclusiveMaximum": lambda facts, said: facts.number.raise_to(said),
    "minLength": lambda facts, said: facts.length.lower_to(said - 1),
    "maxLength": lambda facts, said: facts.length.raise_to(said + 1),
    "minItems": lambda facts, said: facts.size.lower_to(said - 1),
    "maxItems": lambda facts, said: facts.size.raise_to(said + 1),
    "minProperties": lambda facts, said: facts.count.lower_to(said - 1),
    "maxProperties": lambda facts, said: facts.count.raise_to(said + 1),
}
_REFUSED: Final[dict[str, Callable[[Any], list[Literal]]]] = {
    "ref": lambda said: [(said, False)],
    "dynamicRef": lambda said: [(said, False)],
    "anyOf": lambda said: [(item, False) for item in said],
    "not": lambda said: [(said, True)],
}


def _one_not_held(_: Term, said: tuple[Term, ...]) -> Iterator[Options]:
    yield tuple(frozenset({(item, False)}) for item in said)


def _one_absent(_: Term, said: frozenset[str]) -> Iterator[Options]:
    if len(said) > 1:
        yield tuple(frozenset({(has(name), False)}) for name in sorted(said))


def _one_member(term: Term, said: dict[str, Term]) -> Iterator[Options]:
    if len(said) > 1:
        yield tuple(frozenset({(term.only(name), False)}) for name in said)


def _one_lacking(_: Term, said: dict[str, frozenset[str]]) -> Iterator[Options]:
    pairs = [(name, other) for name, needed in said.items() for other in sorted(needed)]
    yield tuple(frozenset({(has(name), True), (has(other), False)}) for name, other in pairs)


_DOUBTS: Final[dict[str, Callable[[Term, Any], Iterator[Options]]]] = {
    "allOf": _one_not_held,
    "dependentRequired": _one_lacking,
    "required": _one_absent,
    "properties": _one_member,
}
