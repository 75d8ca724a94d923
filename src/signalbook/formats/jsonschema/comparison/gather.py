"""From schemas that hold, or do not, to the facts that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from signalbook.formats.jsonschema.comparison.evaluated import evaluated
from signalbook.formats.jsonschema.comparison.facts import (
    Facts,
    Items,
    Known,
    Literal,
    Members,
    Options,
    has,
    json_type,
)
from signalbook.formats.jsonschema.comparison.term import Term, identity
from signalbook.values import JSON

_SMALL: Final[dict[str, tuple[JSON, ...]]] = {"null": (None,), "boolean": (False, True)}
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
        self.waiting: list[Literal] = sorted(known, key=lambda literal: (literal[0].path, not literal[1]))
        self.choices: list[Options] = []
        self.doubts: list[Options] = []

    def run(self) -> Facts:
        while self.waiting:
            while self.waiting:
                self._take(*self.waiting.pop())
            self._settle_choices()
        _settle(self.facts)
        return self.facts

    def _take(self, term: Term, holds: bool) -> None:
        known = self.facts.terms if holds else self.facts.refused
        if term in known:
            return
        known[term] = None
        if term in (self.facts.refused if holds else self.facts.terms):
            self.facts.types.clear()
        if term.circular:
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
        """What follows from a schema that does not hold: one of its parts does not."""
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
    """What a schema says of items and members."""
    says = term.says
    if "items" in says or "prefixItems" in says:
        facts.items.append(Items(says.get("prefixItems", ()), says.get("items")))
    if _MEMBERS & says.keys():
        named, patterns = says.get("properties", {}), says.get("patternProperties", {})
        facts.members.append(Members(named, patterns, says.get("additionalProperties")))
    if "unevaluatedProperties" in says and not (seen := evaluated(term, certain=False)).all_members:
        names, patterns = dict.fromkeys(sorted(seen.names)), dict.fromkeys(sorted(seen.patterns))
        facts.members.append(Members(names, patterns, says["unevaluatedProperties"]))
    if "unevaluatedItems" in says and not (seen := evaluated(term, certain=False)).all_items:
        facts.items.append(Items((None,) * seen.items, says["unevaluatedItems"]))


def _settle(facts: Facts) -> None:
    """What the facts say together."""
    facts.count.raise_to(len(facts.required))
    for part in facts.items:
        never = [i for i, term in enumerate((*part.prefix, part.rest)) if term is not None and "never" in term.says]
        if never:
            facts.size.lower_to(never[0])
    if facts.required & facts.absent or facts.count.empty:
        facts.types.discard("object")
    for name, size in (("number", facts.number), ("string", facts.length), ("array", facts.size)):
        if size.empty:
            facts.types.discard(name)
    if facts.values is None and facts.types <= _SMALL.keys():
        facts.values = {identity(value): value for name in sorted(facts.types) for value in _SMALL[name]}
    if facts.values is not None:
        kept = {key: value for key, value in facts.values.items() if json_type(value) in facts.types}
        facts.values = {key: value for key, value in kept.items() if key not in facts.excluded}
        facts.types = {json_type(value) for value in facts.values.values()}
        numbers = [value for value in facts.values.values() if json_type(value) == "number"]
        if all(value == int(value) for value in numbers):
            facts.whole.add(0)


def _type(facts: Facts, term: Term, said: frozenset[str]) -> None:
    facts.types &= {"number" if name == "integer" else name for name in said}
    if "integer" in said and "number" not in said:
        facts.whole.add(term.year)


def _values(facts: Facts, _: Term, said: tuple[JSON, ...]) -> None:
    values = {identity(value): value for value in said}
    known = facts.values
    facts.values = values if known is None else {key: value for key, value in values.items() if key in known}


def _contains(facts: Facts, term: Term, _: Term) -> None:
    facts.contains.append(term)
    facts.size.raise_to(term.says.get("minContains", 1))


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
    "pattern": lambda facts, _, said: facts.patterns.add(said),
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
        facts.members.append(Members({name: term.negation}, {}, None))


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


_DOUBTS: Final[dict[str, Callable[[Term, Any], Iterator[Options]]]] = {
    "allOf": _one_not_held,
    "required": _one_absent,
    "properties": _one_member,
}
