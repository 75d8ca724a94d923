"""Make values that demonstrate a difference where the facts alone are not sufficient.

Facts may allow more values than the schemas. While alternatives, negations or conditions are undecided, a size that
follows from the facts may not occur. So a value has to be made and checked with the validator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from signalbook.formats.jsonschema.comparison.applicators import Proof
from signalbook.formats.jsonschema.comparison.assertions import is_possible, make_text
from signalbook.formats.jsonschema.comparison.facts import SMALL_TYPES, Facts, Literals, json_type
from signalbook.formats.jsonschema.comparison.terms import Term
from signalbook.values import JSON

# Keywords whose differences mention a number of items or members of the whole value.
COUNT_KEYWORDS: Final = frozenset({"minItems", "maxItems", "minProperties", "maxProperties"})
_SIZE_KEYWORDS: Final = COUNT_KEYWORDS | {"uniqueItems", "unevaluatedItems"}
_WITNESS_KEYWORDS: Final = _SIZE_KEYWORDS | {
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "contains", "required", "dependentRequired", "propertyNames", "not",
}  # fmt: skip
# Larger values are not generated.
_MAX_SIZE: Final = 32
_MAX_DEPTH: Final = 4
_MAX_FORKS: Final = 4
_MAX_OPTIONS: Final = 4
_MAX_LISTED_VALUES: Final = 8
_MAX_SAMPLES: Final = 4
# The maximum number of values to generate for one difference, and for one of its items or members.
_MAX_TRIALS: Final = 48
_MAX_PART_TRIALS: Final = 16
# The proof steps for compiling validators for the parts of a schema.
_SEARCH_STEPS: Final = 10


def _is_doubtful(facts: Facts) -> bool:
    """Return True if the facts may allow values that the schemas refuse."""
    is_closed = any("unevaluatedItems" in term.keywords for term in facts.terms)
    return bool(facts.splits or facts.refused or facts.contains or facts.unique or is_closed)


def needs_witness(facts: Facts, term: Term, keyword: str) -> bool:
    """Return True if a difference at ``keyword`` needs a value that demonstrates it. Listed values do so already."""
    if facts.values is not None:
        return False
    if keyword in ("additionalProperties", "unevaluatedProperties"):  # other schemas: the difference is about a member
        return "never" in term.keywords[keyword].keywords and _is_doubtful(facts)
    return keyword in _WITNESS_KEYWORDS and _is_doubtful(facts)


def find_witness(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[JSON]:
    """Return a list with one value for which ``facts`` hold and that ``term`` refuses; empty if no value was found."""
    if not proof.spend(_SEARCH_STEPS):
        return []
    candidates = islice(_ValueMaker(proof).list_candidates(facts, term, keyword), _MAX_TRIALS)
    fitting = (
        value for value in candidates if proof.spend(1) and _is_held(facts.literals, value) and _is_refused(term, value)
    )
    return [*islice(fitting, 1)]


def _is_refused(term: Term, value: JSON) -> bool:
    return term.accepts is None or not term.accepts(value)


def _is_held(literals: Literals, value: JSON) -> bool:
    """Return True if ``value`` satisfies all literals that can be decided without comparing schemas."""
    return all(_holds(term, value) in (holds, None) for term, holds in literals)


def _holds(term: Term, value: JSON) -> bool | None:
    if term.accepts is not None:
        return term.accepts(value)
    if term.keywords.keys() == {"has"}:
        return isinstance(value, dict) and term.keywords["has"] in value
    return json_type(value) in term.keywords["type"] if term.keywords.keys() == {"type"} else None


class _ValueMaker:
    """Makes values from facts. Each item or member gets the first sample that satisfies the literals known about it."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.samples: dict[Literals, list[JSON]] = {}

    def list_candidates(self, facts: Facts, term: Term, keyword: str) -> Iterator[JSON]:
        """Yield values that may violate ``keyword`` of ``term``."""
        if keyword not in _SIZE_KEYWORDS:
            for case in self._list_cases(
                self.proof.derive_facts(facts.literals | {(term.extract_keyword(keyword), False)}), _MAX_FORKS
            ):
                yield from self._make_values(case, 0)
            return
        limit = term.keywords[keyword]
        for case in self._list_cases(facts, _MAX_FORKS):
            match keyword:
                case "minItems":
                    yield from self._make_arrays(case, range(case.size.low, limit), 1)
                case "minProperties":
                    yield from self._make_objects(case, range(case.count.low, limit), 1)
                case "maxItems":
                    yield from self._make_arrays(case, _list_sizes_beyond(limit, case.size.high), 1)
                case "maxProperties":
                    yield from self._make_objects(case, _list_sizes_beyond(limit, case.count.high), 1)
                case "uniqueItems":
                    yield from self._make_arrays(case, range(max(2, case.size.low), max(2, case.size.low) + 3), 1)
                case _:
                    yield from self._make_arrays(case, range(case.size.low, case.prefix + 4), 1)

    def _list_cases(self, facts: Facts, forks: int) -> Iterator[Facts]:
        """Yield the facts for each option of the first undecided alternatives, repeated up to ``forks`` times."""
        if not facts.splits or not forks:
            yield facts
            return
        for option in facts.splits[0][:_MAX_OPTIONS]:
            case = self.proof.derive_facts(facts.literals | option)
            if case.types:
                yield from self._list_cases(case, forks - 1)

    def _make_samples(self, literals: Literals, depth: int) -> list[JSON]:
        """Return a few values for which ``literals`` hold, of different types if possible."""
        if literals not in self.samples:
            self.samples[literals] = []  # so that a value that contains itself has no sample
            cases = self._list_cases(self.proof.derive_facts(literals), _MAX_FORKS)
            candidates = islice((value for case in cases for value in self._make_values(case, depth)), _MAX_PART_TRIALS)
            held = (value for value in candidates if self.proof.spend(1) and _is_held(literals, value))
            self.samples[literals] = [*islice(held, _MAX_SAMPLES)]
        return self.samples[literals]

    def _make_values(self, facts: Facts, depth: int) -> Iterator[JSON]:
        if facts.values is not None:
            yield from islice(facts.values.values(), _MAX_LISTED_VALUES)
            return
        yield from (value for type_name, values in SMALL_TYPES.items() if type_name in facts.types for value in values)
        if "string" in facts.types:
            yield from _make_texts(self.proof, facts)
        if "number" in facts.types:
            yield from _make_numbers(facts)
        if depth < _MAX_DEPTH and "array" in facts.types:
            yield from self._make_arrays(facts, range(facts.size.low, facts.size.low + 2), depth + 1)
        if depth < _MAX_DEPTH and "object" in facts.types:
            yield from self._make_objects(facts, range(facts.count.low, facts.count.low + 2), depth + 1)

    def _make_arrays(self, facts: Facts, sizes: Iterable[int], depth: int) -> Iterator[JSON]:
        """Yield arrays of each size: with equal items, with different items, and with items that
        ``contains`` requires.
        """
        if "array" not in facts.types:
            return
        contained = [frozenset({(part.keywords["contains"], True)}) for part in facts.contains]
        for size in sizes:
            if size > _MAX_SIZE:
                return
            plain = [self._make_samples(facts.describe_item(index), depth) for index in range(size)]
            needed = [
                self._make_samples(facts.describe_item(position) | contained[position % len(contained)], depth)
                for position in range(size if contained else 0)
            ]
            for items in (plain, needed, [*needed[: len(contained)], *plain[len(contained) :]]):
                if len(items) == size and all(items):
                    for position in range(_MAX_SAMPLES):
                        yield [several[position % len(several)] for several in items]
                    yield [several[position % len(several)] for position, several in enumerate(items)]

    def _make_objects(self, facts: Facts, sizes: Iterable[int], depth: int) -> Iterator[JSON]:
        """Yield objects of each size: with the required members, and optional members if more are needed."""
        if "object" not in facts.types:
            return
        required = {name: self._make_samples(facts.describe_member(name), depth) for name in sorted(facts.required)}
        for size in sizes:
            if not all(required.values()) or not len(required) <= size <= _MAX_SIZE:
                continue
            optional = [
                name
                for name in self._make_names(facts, size)
                if name not in required and is_possible(self.proof, facts, name)
            ]
            optional_values = {
                name: values
                for name in optional[: 2 * size]
                if (values := self._make_samples(facts.describe_member(name), depth))
            }
            for names in ([*optional_values], [*reversed(optional_values)]):
                members = {**required, **{name: optional_values[name] for name in names[: size - len(required)]}}
                if len(members) == size:
                    yield {name: values[0] for name, values in members.items()}

    def _make_names(self, facts: Facts, size: int) -> Iterator[str]:
        yield from facts.list_declared()
        for rule in facts.names:
            yield from (value for value in self._make_samples(frozenset({(rule, True)}), 0) if isinstance(value, str))
        for pattern in {pattern: None for part in facts.members for pattern in part.patterns}:
            if (text := make_text(self.proof, pattern)) is not None:
                yield text
        yield from (f"x{number}" for number in range(size))


def _list_sizes_beyond(limit: int, high: int | None) -> Iterable[int]:
    return dict.fromkeys([limit + 1 if high is None else high, limit + 1])


def _make_texts(proof: Proof, facts: Facts) -> Iterator[JSON]:
    low, high = facts.length.low, facts.length.high
    for pattern in sorted(facts.patterns):
        if (text := make_text(proof, pattern, low)) is not None:
            yield text
    for size in (low, low + 1, high):
        if size is not None and size <= _MAX_SIZE:
            yield "a" * size


def _make_numbers(facts: Facts) -> Iterator[JSON]:
    low, high = facts.number.low, facts.number.high
    ends = [low, high, *([low + 1, low + 0.25] if low is not None else [high - 1] if high is not None else [])]
    yield from (end for end in [*ends, 0, 0.25, 1] if end is not None)
    yield from (float(step) if step % 1 else int(step) for step in sorted(facts.steps))
