"""The facts about a value that satisfies certain schemas and violates others.

Facts may allow more values than the schemas, never fewer. So everything that follows from the facts also follows from
the schemas.
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
    find_evaluated,
    index_by_identity,
    list_always_applied,
    list_applied,
    make_identity,
    make_term,
    matches,
    resolve_target,
)
from signalbook.formats.jsonschema.pattern import find_lengths
from signalbook.values import JSON, parse_json

# A schema, and whether the value satisfies it.
Literal = tuple[Term, bool]
Literals = frozenset[Literal]

# Alternatives: all literals of at least one of these sets hold.
Options = tuple[Literals, ...]

_JSON_TYPES: Final = {bool: "boolean", type(None): "null", str: "string", list: "array", dict: "object"}


# Above this, a float no longer identifies one integer.
MAX_EXACT: Final = 2**53


@dataclass(slots=True)
class Range:
    """The bounds of a number or a size; None means no bound. ``low_open`` and ``high_open`` exclude
    the bound itself.
    """

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
        """Move the bounds inward to the nearest multiples of ``step``, unless they are too large for exact floats."""
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
    """The schemas in one object schema for members: by name, by pattern, and ``additional`` for all other members.

    None means that the schema says nothing about these members.
    """

    names: dict[str, Term | None]
    patterns: dict[str, Term | None]
    additional: Term | None

    def find_schemas(self, name: str) -> list[Term]:
        """Return the schemas that apply to the member ``name``."""
        schemas = [self.names[name]] if name in self.names else []
        schemas += [term for pattern, term in self.patterns.items() if matches(pattern, name)]
        if not schemas:
            schemas = [self.additional]
        return [term for term in schemas if term is not None]

    def declares(self, name: str) -> bool:
        """Return True if a name or a pattern covers the member ``name``."""
        return name in self.names or any(matches(pattern, name) for pattern in self.patterns)


@dataclass(frozen=True, slots=True)
class ItemFacts:
    """The schemas in one array schema for items: ``prefix`` for the first items, and ``additional`` for all other
    items.

    None means that the schema says nothing about these items.
    """

    prefix: tuple[Term | None, ...]
    additional: Term | None

    def find_schema(self, index: int) -> Term | None:
        """Return the schema of the item at ``index``, or None if there is none."""
        return self.prefix[index] if index < len(self.prefix) else self.additional


@dataclass(slots=True, kw_only=True)
class Facts:
    """The facts about a value. ``splits`` are the alternatives that are still undecided.

    ``whole`` has the years of the drafts that require an integer (in draft-04, 1.0 is not an integer). Facts about one
    JSON type do not concern values of other types. ``excluded`` are impossible values. ``circular`` is True if
    validating the value by a schema validates the same value by it again, so that nothing follows from the schema.
    ``work`` is the number of steps that collecting the facts took.
    """

    literals: Literals
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

    def describe_member(self, name: str) -> Literals:
        """Return the literals that hold for the member ``name`` if the value has such a member."""
        if name in self.absent:
            return frozenset({(NEVER, True)})
        return frozenset((resolve_target(term), True) for part in self.members for term in part.find_schemas(name))

    def has_room_for(self, name: str | None = None) -> bool:
        """Return True if the maximum number of members allows the member ``name`` in addition to the required members.

        Without ``name``, this concerns a member that no schema mentions.
        """
        return self.count.high is None or len(self.required) + (name not in self.required) <= self.count.high

    def declares(self, name: str) -> bool:
        """Return True if a schema mentions the member ``name``."""
        return any(part.declares(name) for part in self.members)

    def list_declared(self) -> list[str]:
        """Return all names that schemas declare or require, in order."""
        return list(dict.fromkeys([*(name for part in self.members for name in part.names), *sorted(self.required)]))

    def describe_item(self, index: int) -> Literals:
        """Return the literals that hold for the item at ``index`` if the value has such an item."""
        return frozenset(
            (resolve_target(term), True) for part in self.items if (term := part.find_schema(index)) is not None
        )

    @property
    def has_integers_only(self) -> bool:
        """True if all numbers have an integral value. In draft-04 they may still not be integers,
        because 1.0 is not.
        """
        low = self.number.low
        if low is not None and low == self.number.high and low % 1 == 0:  # there is only this number
            return True
        return bool(self.whole) or any(step == step.to_integral_value() for step in self.steps)

    @property
    def prefix(self) -> int:
        """The index from which on the same literals hold for all items."""
        return max((len(part.prefix) for part in self.items), default=0)


NEVER: Final = make_term({"never": True}, 0, raw=False)


@lru_cache(maxsize=4096)
def make_member_term(name: str) -> Term:
    """Return the term that a value is an object with the member ``name``. Its negation also holds
    for other JSON types.
    """
    return make_term({"has": name}, 0)


@lru_cache(maxsize=8)
def make_type_term(name: str) -> Term:
    """Return the term that a value is of the JSON type ``name``."""
    return make_term({"type": frozenset({name})}, 0, raw={"type": name})


def json_type(value: JSON) -> str:
    return _JSON_TYPES.get(type(value), "number")


@lru_cache(maxsize=4096)
def make_tag_term(name: str, value: Identity) -> Term:
    """Return the term that the member ``name``, if present, equals the value with the identity ``value``."""
    member = make_term({"const": parse_json(value) if isinstance(value, bytes) else value}, 0)
    return make_term({"properties": {name: member}}, 0)


# The types with few values, and these values.
SMALL_TYPES: Final[dict[str, tuple[JSON, ...]]] = {"null": (None,), "boolean": (False, True)}
_MEMBERS: Final = frozenset({"properties", "patternProperties", "additionalProperties"})
# For more alternatives, ignore that only one may hold: the literals for that grow with the square of their number.
_MAX_EXCLUSIVE: Final = 500
# If more schemas than this do not hold, the reasons why each does not hold are not explored.
_MAX_DOUBTS: Final = 8
# The type that each keyword constrains: if the keyword does not hold, the value is of that type.
TYPE_BY_KEYWORD: Final = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "content"), "string"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "prefixItems", "items", "contains"), "array"),
    "unevaluatedItems": "array",
    **dict.fromkeys(("minProperties", "maxProperties", "required", "properties", "patternProperties"), "object"),
    **dict.fromkeys(("additionalProperties", "propertyNames", "unevaluatedProperties"), "object"),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), "object"),
}  # fmt: skip


def gather_facts(literals: Literals) -> Facts:
    """Return the facts that follow from ``literals``."""
    return _Gatherer(literals).run()


class _Gatherer:
    """Derives facts by splitting literals into their parts until nothing new follows."""

    def __init__(self, literals: Literals) -> None:
        self.facts = Facts(literals=literals)
        # Sorted, because sets have no order and the same schemas must always give the same differences.
        self.waiting: list[Literal] = sorted(literals, key=lambda literal: (literal[0].path, not literal[1]))
        self.choices: list[Options] = []
        self.doubts: list[Options] = []

    def run(self) -> Facts:
        while self.waiting:
            while self.waiting:
                self._take(*self.waiting.pop())
            self._settle_choices()
        for term in self.facts.terms:
            if UNEVALUATED & term.keywords.keys() and not term.circular:
                _add_unevaluated(self.facts, term)
        _combine(self.facts)
        return self.facts

    def _take(self, term: Term, holds: bool) -> None:
        terms = self.facts.terms if holds else self.facts.refused
        if term in terms:
            return
        terms[term] = None
        # A term that holds and does not hold is a contradiction, so no value exists.
        if term in (self.facts.refused if holds else self.facts.terms):
            self.facts.types.clear()
        if term.circular:
            self.facts.circular = True
            return
        if not holds:
            self._deny(term)
            return
        for keyword, value in term.keywords.items():
            if keyword in _ADD_BY_KEYWORD:
                _ADD_BY_KEYWORD[keyword](self.facts, term, value)
            self.waiting += _IMPLIED[keyword](value) if keyword in _IMPLIED else ()
            self.choices += term.derive_once(keyword, _CHOICES[keyword]) if keyword in _CHOICES else ()
        _add_structure(self.facts, term)

    def _deny(self, term: Term) -> None:
        """Add the facts that follow if ``term`` does not hold: at least one of its keywords does not hold."""
        parts = term.split()
        if not term.keywords:
            self.facts.types.clear()
        elif len(parts) > 1:
            self.doubts.append(tuple(frozenset({(part, False)}) for part in parts))
        elif len(term.keywords) == 1:
            ((keyword, value),) = term.keywords.items()
            if keyword in TYPE_BY_KEYWORD:
                self.facts.types &= {TYPE_BY_KEYWORD[keyword]}
            if keyword in _DENY_BY_KEYWORD:
                _DENY_BY_KEYWORD[keyword](self.facts, value)
            self.waiting += _IMPLIED_BY_DENIAL[keyword](value) if keyword in _IMPLIED_BY_DENIAL else ()
            self.doubts += _DOUBTS[keyword](term, value) if keyword in _DOUBTS else ()

    def _settle_choices(self) -> None:
        """Decide the alternatives that the known facts settle, and keep the others as ``splits``.

        With more than ``_MAX_DOUBTS`` refused terms, open ``doubts`` are not kept.
        """
        facts = self.facts
        held = {*((term, True) for term in facts.terms), *((term, False) for term in facts.refused)}
        # A known literal rules out each option that contradicts it. If one option is left, its literals hold and may
        # decide other alternatives.
        contradictions = {(term, not holds) for term, holds in held} | {
            (make_member_term(name), True) for name in facts.absent
        }
        if facts.types <= {"object"}:
            contradictions |= {(make_member_term(name), False) for name in facts.required}
        splits = [*self._list_open(self.choices, held, contradictions)]
        doubts = [*self._list_open(self.doubts, held, contradictions)]
        facts.splits = splits + doubts if len(facts.refused) <= _MAX_DOUBTS else splits

    def _list_open(self, choices: list[Options], held: set[Literal], against: set[Literal]) -> Iterator[Options]:
        for options in choices:
            self.facts.work += len(options)
            remaining = tuple(option for option in options if option.isdisjoint(against))
            if not remaining:
                self.facts.types.clear()
            elif len(remaining) == 1:
                self.waiting += remaining[0] - held
            elif not any(option <= held for option in remaining):
                yield remaining


def _add_structure(facts: Facts, term: Term) -> None:
    """Add the schemas of items and members in ``term`` to ``facts``."""
    says = term.keywords
    if "items" in says or "prefixItems" in says:
        facts.items.append(ItemFacts(says.get("prefixItems", ()), says.get("items")))
    if _MEMBERS & says.keys():
        properties, patterns = says.get("properties", {}), says.get("patternProperties", {})
        facts.members.append(MemberFacts(properties, patterns, says.get("additionalProperties")))


def _add_unevaluated(facts: Facts, term: Term) -> None:
    """Add the schemas for unevaluated members and items of ``term``. This needs to know which schemas do not hold."""
    seen = find_evaluated(term, partial(_list_possibly_applied, facts), certain=False)
    if "unevaluatedProperties" in term.keywords and not seen.all_members:
        names, patterns = dict.fromkeys(sorted(seen.names)), dict.fromkeys(sorted(seen.patterns))
        facts.members.append(MemberFacts(names, patterns, term.keywords["unevaluatedProperties"]))
    if "unevaluatedItems" in term.keywords and not seen.all_items:
        facts.items.append(ItemFacts((None,) * seen.items, term.keywords["unevaluatedItems"]))


def _list_possibly_applied(facts: Facts, term: Term) -> Iterator[Term]:
    """Yield the schemas that may apply to the value; a schema that does not hold evaluates no members."""
    says, always = term.keywords, {*list_always_applied(term)}
    idle: set[Term] = set()
    for keyword in ("dependentSchemas", "dependencies"):
        needed = says.get(keyword, {})
        idle.update(needed[name] for name in needed.keys() & facts.absent)
    if "if" in says:
        branch = "then" if says["if"] in facts.refused else "else" if says["if"] in facts.terms else ""
        idle.update({says[branch]} if branch in says else ())
    for inner in list_applied(term):
        facts.work += 1
        if inner in always or (inner not in facts.refused and inner not in idle):
            yield inner


def _combine(facts: Facts) -> None:
    """Derive facts that follow from several facts together."""
    facts.count.raise_to(len(facts.required))
    for part in facts.items:
        never = [
            i for i, term in enumerate((*part.prefix, part.additional)) if term is not None and "never" in term.keywords
        ]
        if never:
            facts.size.lower_to(never[0])
    for members in facts.members:
        if members.additional is not None and "never" in members.additional.keywords and not members.patterns:
            facts.count.lower_to(sum(term is None or "never" not in term.keywords for term in members.names.values()))
    # No object can satisfy this; the value may still be of another type.
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
        # Filter only if needed, because there may be very many values.
        if facts.excluded or not _find_types(facts.values) <= facts.types:
            allowed = {key: value for key, value in facts.values.items() if json_type(value) in facts.types}
            facts.values = {key: value for key, value in allowed.items() if key not in facts.excluded}
        facts.types = _find_types(facts.values)
        if float not in set(map(type, facts.values.values())) or all(map(_is_whole, facts.values.values())):
            facts.whole.add(0)


def _list_values(facts: Facts) -> None:
    """List the possible values if they are few: null, booleans, and the empty value if the maximum size is 0."""
    sized: list[tuple[str, Range, JSON]] = [
        ("string", facts.length, ""), ("array", facts.size, []), ("object", facts.count, {}),
    ]  # fmt: skip
    few = {**SMALL_TYPES, **{name: (value,) for name, size, value in sized if size.high == 0}}
    if facts.values is None and facts.types <= few.keys():
        facts.values = {make_identity(value): value for name in sorted(facts.types) for value in few[name]}


def _is_whole(value: JSON) -> bool:
    return type(value) is not float or value.is_integer()


def _find_types(values: Mapping[Identity, JSON]) -> set[str]:
    return {_JSON_TYPES.get(value_type, "number") for value_type in set(map(type, values.values()))}


def _add_type(facts: Facts, term: Term, value: frozenset[str]) -> None:
    facts.types &= {"number" if name == "integer" else name for name in value}
    if "integer" in value and "number" not in value:
        facts.whole.add(term.year)


def _add_values(facts: Facts, _: Term, listed_values: tuple[JSON, ...]) -> None:
    values = index_by_identity(listed_values)
    known_values = facts.values
    facts.values = (
        values if known_values is None else {key: value for key, value in values.items() if key in known_values}
    )


def _add_pattern(facts: Facts, _: Term, value: str) -> None:
    facts.patterns.add(value)
    low, high = find_lengths(value)
    facts.length.raise_to(low)
    if high is not None:
        facts.length.lower_to(high)


def _add_contains(facts: Facts, term: Term, _: Term) -> None:
    facts.contains.append(term)
    least = term.keywords.get("minContains", 1)
    facts.size.raise_to(least)
    if term.keywords.get("maxContains", least) < least:
        facts.types.discard("array")


def _add_member(facts: Facts, _: Term, value: str) -> None:
    facts.types &= {"object"}
    facts.required.add(value)


_ADD_BY_KEYWORD: Final[dict[str, Callable[[Facts, Term, Any], object]]] = {
    "never": lambda facts, __, _: facts.types.clear(),
    "opaque": lambda facts, _, value: facts.opaque.add(value),
    "has": _add_member,
    "type": _add_type,
    "enum": _add_values,
    "const": lambda facts, term, value: _add_values(facts, term, (value,)),
    "minimum": lambda facts, _, value: facts.number.raise_to(value),
    "exclusiveMinimum": lambda facts, _, value: facts.number.raise_to(value, open=True),
    "maximum": lambda facts, _, value: facts.number.lower_to(value),
    "exclusiveMaximum": lambda facts, _, value: facts.number.lower_to(value, open=True),
    "multipleOf": lambda facts, _, value: facts.steps.add(Decimal(str(value))),
    "minLength": lambda facts, _, value: facts.length.raise_to(value),
    "maxLength": lambda facts, _, value: facts.length.lower_to(value),
    "pattern": _add_pattern,
    "content": lambda facts, _, value: facts.contents.add(value),
    "minItems": lambda facts, _, value: facts.size.raise_to(value),
    "maxItems": lambda facts, _, value: facts.size.lower_to(value),
    "uniqueItems": lambda facts, _, value: facts.unique.append(value),
    "contains": _add_contains,
    "required": lambda facts, _, value: facts.required.update(value),
    "minProperties": lambda facts, _, value: facts.count.raise_to(value),
    "maxProperties": lambda facts, _, value: facts.count.lower_to(value),
    "propertyNames": lambda facts, _, value: facts.names.append(value),
}
_IMPLIED: Final[dict[str, Callable[[Any], list[Literal]]]] = {
    "ref": lambda value: [(value, True)],
    "dynamicRef": lambda value: [(value, True)],
    "allOf": lambda value: [(item, True) for item in value],
    "not": lambda value: [(value, False)],
}


def _split_any_of(_: Term, value: tuple[Term, ...]) -> Iterator[Options]:
    yield tuple(frozenset({(item, True)}) for item in value)


def _split_one_of(term: Term, value: tuple[Term, ...]) -> Iterator[Options]:
    if len(value) > _MAX_EXCLUSIVE:
        yield from _split_any_of(term, value)
        return
    yes, no = [(item, True) for item in value], [(item, False) for item in value]
    yield tuple(frozenset((*no[:index], yes[index], *no[index + 1 :])) for index in range(len(value)))


def _split_if(term: Term, value: Term) -> Iterator[Options]:
    branches = [(term.keywords.get(keyword), holds) for keyword, holds in (("then", True), ("else", False))]
    yield tuple(frozenset({(value, holds)} | ({(branch, True)} if branch else set())) for branch, holds in branches)


def _split_dependent_required(_: Term, value: dict[str, frozenset[str]]) -> Iterator[Options]:
    for name, needed in value.items():
        yield (
            frozenset({(make_member_term(name), False)}),
            frozenset((make_member_term(other), True) for other in {name, *needed}),
        )


def _split_dependent_schemas(_: Term, value: dict[str, Term]) -> Iterator[Options]:
    for name, needed in value.items():
        yield frozenset({(make_member_term(name), False)}), frozenset({(make_member_term(name), True), (needed, True)})


_CHOICES: Final[dict[str, Callable[[Term, Any], Iterator[Options]]]] = {
    "anyOf": _split_any_of,
    "oneOf": _split_one_of,
    "if": _split_if,
    "dependentRequired": _split_dependent_required,
    "dependentSchemas": _split_dependent_schemas,
    "dependencies": _split_dependent_schemas,
}


def _deny_type(facts: Facts, value: frozenset[str]) -> None:
    facts.types -= value


def _deny_required(facts: Facts, value: frozenset[str]) -> None:
    if len(value) == 1:
        facts.absent |= value


def _deny_properties(facts: Facts, value: dict[str, Term]) -> None:
    if len(value) == 1:
        ((name, term),) = value.items()
        facts.required.add(name)
        facts.members.append(MemberFacts({name: term.negation}, {}, None))


_DENY_BY_KEYWORD: Final[dict[str, Callable[[Facts, Any], object]]] = {
    "type": _deny_type,
    "enum": lambda facts, value: facts.excluded.update(map(make_identity, value)),
    "const": lambda facts, value: facts.excluded.add(make_identity(value)),
    "has": lambda facts, value: facts.absent.add(value),
    "required": _deny_required,
    "properties": _deny_properties,
    "minimum": lambda facts, value: facts.number.lower_to(value, open=True),
    "exclusiveMinimum": lambda facts, value: facts.number.lower_to(value),
    "maximum": lambda facts, value: facts.number.raise_to(value, open=True),
    "exclusiveMaximum": lambda facts, value: facts.number.raise_to(value),
    "minLength": lambda facts, value: facts.length.lower_to(value - 1),
    "maxLength": lambda facts, value: facts.length.raise_to(value + 1),
    "minItems": lambda facts, value: facts.size.lower_to(value - 1),
    "maxItems": lambda facts, value: facts.size.raise_to(value + 1),
    "minProperties": lambda facts, value: facts.count.lower_to(value - 1),
    "maxProperties": lambda facts, value: facts.count.raise_to(value + 1),
}
_IMPLIED_BY_DENIAL: Final[dict[str, Callable[[Any], list[Literal]]]] = {
    "ref": lambda value: [(value, False)],
    "dynamicRef": lambda value: [(value, False)],
    "anyOf": lambda value: [(item, False) for item in value],
    "not": lambda value: [(value, True)],
}


def _doubt_all_of(_: Term, value: tuple[Term, ...]) -> Iterator[Options]:
    yield tuple(frozenset({(item, False)}) for item in value)


def _doubt_required(_: Term, value: frozenset[str]) -> Iterator[Options]:
    if len(value) > 1:
        yield tuple(frozenset({(make_member_term(name), False)}) for name in sorted(value))


def _doubt_properties(term: Term, value: dict[str, Term]) -> Iterator[Options]:
    if len(value) > 1:
        yield tuple(frozenset({(term.extract_property(name), False)}) for name in value)


def _doubt_dependent_required(_: Term, value: dict[str, frozenset[str]]) -> Iterator[Options]:
    pairs = [(name, other) for name, needed in value.items() for other in sorted(needed)]
    yield tuple(frozenset({(make_member_term(name), True), (make_member_term(other), False)}) for name, other in pairs)


_DOUBTS: Final[dict[str, Callable[[Term, Any], Iterator[Options]]]] = {
    "allOf": _doubt_all_of,
    "dependentRequired": _doubt_dependent_required,
    "required": _doubt_required,
    "properties": _doubt_properties,
}
