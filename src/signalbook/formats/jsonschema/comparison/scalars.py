"""Types, values, numbers and strings: what the reader asks of them against what is known."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.explain import difference, some
from signalbook.formats.jsonschema.comparison.facts import Facts, Range
from signalbook.formats.jsonschema.comparison.proof import Proof, Rule
from signalbook.formats.jsonschema.comparison.term import TYPES, Term, identity
from signalbook.values import JSON

# Patterns that every string matches.
_ANY_TEXT: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^[\\s\\S]*$", "(?s).*"})


def _type(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    said: frozenset[str] = term.says["type"]
    accepted = {"number" if name == "integer" else name for name in said}
    missing = facts.types - accepted
    if "number" in facts.types and "integer" in said and "number" not in said and not _whole(facts, term):
        missing.add("number")
    if not missing:
        return []
    old = [("integer" if name == "number" and facts.whole else name) for name in TYPES if name in facts.types]
    rule = "type_changed" if not facts.types & accepted else "type_narrowed"
    shown = None if len(old) == len(TYPES) else old[0] if len(old) == 1 else old
    return [difference(rule, term, "type", old=shown, missing=", ".join(sorted(missing)))]


def _whole(facts: Facts, term: Term) -> bool:
    """Whether all numbers are what the reader's draft calls integers."""
    if term.year == 2013:
        return 2013 in facts.whole
    return bool(facts.whole) or any(step == step.to_integral_value() for step in facts.steps)


def _never(__: Proof, _: Facts, term: Term) -> list[Difference]:
    return [difference("nothing_accepted", term)]


def _enum(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _listed(facts, term, "enum", term.says["enum"])


def _const(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _listed(facts, term, "const", (term.says["const"],))


def _listed(facts: Facts, term: Term, keyword: str, listed: tuple[JSON, ...]) -> list[Difference]:
    if facts.values is None:
        return [difference("enum_added", term, keyword)]
    accepted = {identity(value) for value in listed}
    missing = [value for key, value in facts.values.items() if key not in accepted]
    old = list(facts.values.values())
    return [difference("enum_narrowed", term, keyword, old=old, values=some(missing))] if missing else []


def _lower(keyword: str, *, open: bool = False) -> Rule:
    def rule(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        asked, known = term.says[keyword], facts.number
        if known.low is not None and (known.low, known.low_open) >= (asked, open):
            return []
        kind = "minimum_added" if known.low is None else "minimum_increased"
        return [difference(kind, term, keyword, old=known.low)]

    return rule


def _upper(keyword: str, *, open: bool = False) -> Rule:
    def rule(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        asked, known = term.says[keyword], facts.number
        if known.high is not None and (known.high, not known.high_open) <= (asked, not open):
            return []
        kind = "maximum_added" if known.high is None else "maximum_decreased"
        return [difference(kind, term, keyword, old=known.high)]

    return rule


def _multiple_of(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    asked = Decimal(str(term.says["multipleOf"]))
    steps = facts.steps | ({Decimal(1)} if facts.whole else set())
    if any(step == asked or _divides(asked, step) for step in steps):
        return []
    old = float(min(facts.steps)) if facts.steps else None
    rule = "multiple_of_changed" if facts.steps else "multiple_of_added"
    return [difference(rule, term, "multipleOf", old=old)]


def _divides(asked: Decimal, step: Decimal) -> bool:
    """Whether what is a multiple of ``step`` is one of ``asked``; of fractions only what is written as such."""
    return asked == asked.to_integral_value() and step == step.to_integral_value() and step % asked == 0


def at_least(keyword: str, rule: str, size: str) -> Rule:
    """A rule for a least size: of a string, an array or an object."""

    def check(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        known: Range = getattr(facts, size)
        asked: int = term.says[keyword]
        return [] if known.low >= asked else [difference(rule, term, keyword, old=known.low)]

    return check


def at_most(keyword: str, rule: str, size: str) -> Rule:
    """A rule for a greatest size; ``rule`` is the stem of its name."""

    def check(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        known: Range = getattr(facts, size)
        asked: int = term.says[keyword]
        if known.high is not None and known.high <= asked:
            return []
        name = f"{rule}_added" if known.high is None else f"{rule}_decreased"
        return [difference(name, term, keyword, old=known.high)]

    return check


def _pattern(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    if term.says["pattern"] in facts.patterns | _ANY_TEXT:
        return []
    if not facts.patterns:
        return [difference("pattern_added", term, "pattern")]
    return [difference("pattern_changed", term, "pattern", old=min(facts.patterns))]


def _content(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    said: tuple[Any, Any] = term.says["content"]
    return [] if said in facts.contents else [difference("content_changed", term, "contentEncoding")]


SCALARS: Final[dict[str, Rule]] = {
    "never": _never,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _lower("minimum"),
    "exclusiveMinimum": _lower("exclusiveMinimum", open=True),
    "maximum": _upper("maximum"),
    "exclusiveMaximum": _upper("exclusiveMaximum", open=True),
    "multipleOf": _multiple_of,
    "minLength": at_least("minLength", "min_length_increased", "length"),
    "maxLength": at_most("maxLength", "max_length", "length"),
    "pattern": _pattern,
    "content": _content,
}
