"""What the reader asks of types, values, numbers, strings, objects and arrays, compared with what is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import gcd, lcm, prod
from typing import Any, Final

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.combined import Proof, Rule
from signalbook.formats.jsonschema.comparison.differences import difference, is_definite, some, undecided
from signalbook.formats.jsonschema.comparison.facts import MAX_EXACT, Facts, Known, MemberFacts, Range, has, typed
from signalbook.formats.jsonschema.comparison.terms import (
    TYPES,
    Term,
    always_applied,
    by_identity,
    evaluated,
    in_place,
    made,
    matches,
    target,
)
from signalbook.formats.patternexamples import MAX_CHARS, make_example
from signalbook.values import JSON

# Of more steps the rest is left out, as their common multiple may have any number of digits.
_MAX_MULTIPLES: Final = 8
# What making a text for a pattern costs.
_EXAMPLE_STEPS: Final = 200
# A pattern that matches each of these characters, once or repeated, and no character, is likely to match all texts.
_ODD_TEXT: Final = "a0 ~\n"
# Patterns that every string matches.
_ANY_TEXT: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^[\\s\\S]*$", "(?s).*"})


def _type(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    said: frozenset[str] = term.says["type"]
    accepted = {"number" if name == "integer" else name for name in said}
    missing = facts.types - accepted
    if len(facts.types) > 1:
        missing = {name for name in missing if not proof.empty(facts.known | {(typed(name), True)})}
    if "number" in facts.types and "integer" in said and "number" not in said and not _whole(facts, term):
        # The writer's numbers may have fractions, unless something else that is known of them rules these out.
        missing.add("number")
    if not missing:
        return []
    old = [("integer" if name == "number" and facts.whole else name) for name in TYPES if name in facts.types]
    rule = "type_changed" if not facts.types & accepted else "type_narrowed"
    shown = None if len(old) == len(TYPES) else old[0] if len(old) == 1 else old
    return [difference(rule, term, "type", old=shown, missing=", ".join(sorted(missing)))]


def _whole(facts: Facts, term: Term) -> bool:
    """Return True if all numbers are integers to the reader's draft."""
    if term.year == 2013:
        return 2013 in facts.whole
    return facts.has_integers_only


def _never(__: Proof, _: Facts, term: Term) -> list[Difference]:
    return [difference("nothing_accepted", term)]


def _enum(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _listed(facts, term, "enum", term.says["enum"])


def _const(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _listed(facts, term, "const", (term.says["const"],))


def _listed(facts: Facts, term: Term, keyword: str, listed: tuple[JSON, ...]) -> list[Difference]:
    if facts.values is None:
        return [difference("enum_added", term, keyword)]
    # By identity as JSON has it: to Python 1 and true are equal, to JSON 1 and 1.0 are.
    accepted = by_identity(listed)
    if facts.values.keys() <= accepted.keys():
        return []
    missing = [value for key, value in facts.values.items() if key not in accepted]
    old = list(facts.values.values())
    return [difference("enum_narrowed", term, keyword, old=old, values=some(missing))]


def _lower(keyword: str, *, open: bool = False) -> Rule:
    def rule(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        asked, known = term.says[keyword], facts.number
        # Pairs, since of two equal bounds the open one is the stricter, and True sorts behind False.
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
    asked = Fraction(str(term.says["multipleOf"]))
    # Validators count in decimals: 0.07 is a multiple of 0.01, whatever the division of floats says.
    step = _common_multiple([*facts.steps, *([Decimal(1)] if facts.whole else [])])
    if step is not None and step % asked == 0:
        return []
    rule = "multiple_of_changed" if facts.steps else "multiple_of_added"
    shown = step if step is not None and step < MAX_EXACT else max(facts.steps, default=0)
    return [difference(rule, term, "multipleOf", old=float(shown) if facts.steps else None)]


def _common_multiple(steps: Iterable[Decimal]) -> Fraction | None:
    """Return the least number that is a multiple of all steps: what is a multiple of each is one of that number."""
    fractions = [Fraction(step) for step in sorted(steps)[:_MAX_MULTIPLES]]
    if not fractions:
        return None
    return Fraction(lcm(*(one.numerator for one in fractions)), gcd(*(one.denominator for one in fractions)))


_PATTERNED: Final = "which lengths the texts of a pattern have is not looked into"


def at_least(keyword: str, rule: str, size: str) -> Rule:
    """A rule for a least size: of a string, an array or an object."""

    def check(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        known: Range = getattr(facts, size)
        asked: int = term.says[keyword]
        if known.low >= asked:
            return []
        if size == "length" and facts.patterns:
            return [undecided(term, _PATTERNED, keyword)]
        return [difference(rule, term, keyword, old=known.low)]

    return check


def at_most(keyword: str, rule: str, size: str) -> Rule:
    """A rule for a greatest size; ``rule`` is the stem of its name."""

    def check(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        known: Range = getattr(facts, size)
        asked: int = term.says[keyword]
        high = known.high
        counts = {"count": count_members, "size": _count_items}
        if size in counts and (most := counts[size](proof, facts)) is not None:
            high = most if high is None else min(high, most)
        if high is not None and high <= asked:
            return []
        if size == "length" and facts.patterns:
            return [undecided(term, _PATTERNED, keyword)]
        return [difference(f"{rule}_added" if high is None else f"{rule}_decreased", term, keyword, old=high)]

    return check


def _pattern(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    asked = term.says["pattern"]
    if asked in facts.patterns | _ANY_TEXT:
        return []
    low, high = facts.length.low, min(MAX_CHARS, MAX_CHARS if facts.length.high is None else facts.length.high)
    examples = [make_text(proof, pattern, low, high) for pattern in sorted(facts.patterns)]
    odd = [char * max(low, count) for char in _ODD_TEXT for count in (0, 1) if max(low, count) <= high]
    candidates = [example for example in examples if example is not None] if facts.patterns else odd
    texts = [text for text in candidates if all(matches(pattern, text) for pattern in facts.patterns)]
    if all(matches(asked, text) for text in texts):
        return [undecided(term, "no text was found that does not match", "pattern")]
    if not facts.patterns:
        return [difference("pattern_added", term, "pattern")]
    return [difference("pattern_changed", term, "pattern", old=min(facts.patterns))]


def make_text(proof: Proof, pattern: str, low: int = 0, high: int = MAX_CHARS) -> str | None:
    """Return a text that matches a pattern, if one is quickly made."""
    text = make_example(pattern, low, high) if proof.spend(_EXAMPLE_STEPS) else None
    return text if text is not None and matches(pattern, text) else None


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


# A pattern that a name matches and what it says of the member; without a pattern, what is said of all others.
PatternTerm = tuple[str | None, Term | None]
_MAX_CASES: Final = 64
_PATTERNS_A_STEP: Final = 8
_TOO_MANY: Final = "there are too many members and patterns to compare"


def _spend(proof: Proof, facts: Facts, term: Term) -> bool:
    """Account for one name held against all patterns; false if that is too much by now."""
    patterns = sum(len(part.patterns) for part in facts.members) + len(term.says.get("patternProperties", ()))
    return proof.spend(patterns // _PATTERNS_A_STEP)


def _properties(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for name, member in term.says["properties"].items():
        if not _spend(proof, facts, term):
            return [*found, undecided(term, _TOO_MANY, "properties")]
        below = proof.below(facts.member(name), member) if is_possible(proof, facts, name) else []
        if below:
            # What depends on a member may describe it, too.
            present = facts.known | {(has(name), True)}
            if proof.empty(present):
                continue
            known = proof.facts(present).member(name)
            below = proof.below(known, member) if known != facts.member(name) else below
        found += _added(facts, name, member) if is_definite(below) and not facts.declares(name) else below
    return found


def _added(facts: Facts, name: str, member: Term) -> list[Difference]:
    """Return why a member that the writer does not describe may not be described here."""
    model = "partially_open" if facts.member(name) else "open"
    return [difference(f"property_added_to_{model}_content_model", member, name=name)]


def _pattern_properties(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for pattern, member in term.says["patternProperties"].items():
        for name in _mentioned_names(proof, facts):
            if not _spend(proof, facts, term):
                return [*found, undecided(term, _TOO_MANY, "patternProperties")]
            if matches(pattern, name) and is_possible(proof, facts, name):
                found += proof.below(facts.member(name), member)
        for known in _others(proof, facts, (), pattern):
            below = proof.below(known, member)
            if below and not _has_unmentioned_name(proof, facts, pattern, known):
                below = [undecided(member, f"there may be no name that matches {pattern} here")]
            elif is_definite(below) and not known:
                below = [difference("pattern_property_added", member, name=pattern)]
            found += below
    return found


def _additional(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    named, patterns = term.says.get("properties", {}), term.says.get("patternProperties", {})
    return _rest_of_members(proof, facts, term, "additionalProperties", MemberFacts(dict(named), dict(patterns), None))


def _unevaluated(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    # What applies in any case costs nothing to find, and mostly that is enough.
    for applied in (always_applied, partial(_surely_applied, proof, facts)):
        seen = evaluated(term, applied, certain=True)
        described = MemberFacts(dict.fromkeys(seen.names), dict.fromkeys(seen.patterns), None)
        found = [] if seen.all_members else _rest_of_members(proof, facts, term, "unevaluatedProperties", described)
        if not found:
            return []
    seen = evaluated(term, in_place, certain=False)
    if seen.all_members or len(seen.names) + len(seen.patterns) > len(described.names) + len(described.patterns):
        return [undecided(term, "members are described under conditions that may not hold", "unevaluatedProperties")]
    return found


def _surely_applied(proof: Proof, facts: Facts, term: Term) -> Iterator[Term]:
    """Yield the schemas that surely apply to all values, so that what they look at is evaluated."""
    says = term.says
    yield from always_applied(term)
    for keyword in ("anyOf", "oneOf"):
        yield from (item for item in says.get(keyword, ()) if proof.proves(facts.known, item))
    # Not those of ``dependencies``: in the drafts that have ``unevaluated...`` these look at nothing.
    yield from (needed for name, needed in says.get("dependentSchemas", {}).items() if name in facts.required)
    if "if" not in says:
        return
    if proof.proves(facts.known, says["if"]):
        yield from (says[keyword] for keyword in ("if", "then") if keyword in says)
    elif "else" in says and proof.empty(facts.known | {(says["if"], True)}):
        yield says["else"]


def _rest_of_members(proof: Proof, facts: Facts, term: Term, keyword: str, described: MemberFacts) -> list[Difference]:
    """Check the demands on all members that are not described."""
    member: Term = term.says[keyword]
    closed = "never" in member.says
    found: list[Difference] = []
    for name in _mentioned_names(proof, facts):
        if not _spend(proof, facts, term):
            return [*found, undecided(term, _TOO_MANY, keyword)]
        if described.declares(name) or not is_possible(proof, facts, name):
            continue
        below = proof.below(facts.member(name), member)
        if is_definite(below):
            rule = f"property_removed_from_{'closed' if closed else 'partially_open'}_content_model"
            below = [difference(rule, term, keyword, old=_written(facts, name), name=name)]
        found += below
    for known in _others(proof, facts, described.patterns, ""):
        below = proof.below(known, member)
        if is_definite(below) and (closed or not known):
            verb = "removed" if closed else "narrowed"
            below = [difference(f"additional_properties_{verb}", term, keyword)]
        found += below
    return found


def _written(facts: Facts, name: str) -> object:
    return next((term.raw for part in facts.members for term in part.of(name)), None)


def is_possible(proof: Proof, facts: Facts, name: str) -> bool:
    """Return True if a member of that name is possible."""
    return (
        name not in facts.absent and facts.has_room_for(name) and all(_named(proof, name, rule) for rule in facts.names)
    )


def _named(proof: Proof, name: str, rule: Term) -> bool:
    known = frozenset({(typed("string"), True), (rule, True)})
    values = proof.facts(known).values
    if values is not None:
        return name in values.values()
    return rule.accepts is None or rule.accepts(name)


def _others(proof: Proof, facts: Facts, patterns: Iterable[str], pattern: str) -> Iterator[Known]:
    """Yield what may be known of members with unmentioned names, case by case; nothing if there are no such members.

    With a ``pattern`` only names that match it count, and never those that match one of ``patterns``.
    """
    if not facts.has_room_for():
        return
    names = _naming(facts)
    if facts.names and (proof.empty(names) or proof.facts(names).values is not None):
        return
    options = [_cases(part, frozenset(patterns), pattern) for part in facts.members]
    if prod(map(len, options)) > _MAX_CASES:
        yield frozenset()
        return
    cases = (chosen for chosen in product(*options) if _is_one_name(facts, chosen))
    for case in dict.fromkeys(frozenset((term, True) for _, term in chosen if term) for chosen in cases):
        if not proof.empty(case):
            yield case


def _is_one_name(facts: Facts, chosen: tuple[PatternTerm, ...]) -> bool:
    """Return False if a pattern is matched for one schema, but not for another one that has it, too."""
    matched = {pattern for pattern, _ in chosen if pattern is not None}
    pairs = zip(facts.members, chosen, strict=True)
    return all(pattern is not None or matched.isdisjoint(part.patterns) for part, (pattern, _) in pairs)


def _has_unmentioned_name(proof: Proof, facts: Facts, pattern: str, known: Known) -> bool:
    """Return True if there surely is a member of which ``known`` holds, by a name that matches ``pattern``."""
    example = make_text(proof, pattern)
    names = [] if example is None else [f"{example}z", f"z{example}", example]
    wanted = {target(term) for term, _ in known}
    return any(
        matches(pattern, name)
        and wanted == {term for term, _ in facts.member(name)}
        and is_possible(proof, facts, name)
        for name in names
    )


def _cases(part: MemberFacts, patterns: frozenset[str], pattern: str) -> list[PatternTerm]:
    if pattern and pattern in part.patterns:
        return [(pattern, part.patterns[pattern])]
    return [*((other, term) for other, term in part.patterns.items() if other not in patterns), (None, part.rest)]


def _required(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    missing = sorted(term.says["required"] - facts.required)
    if missing and facts.count.low == count_members(proof, facts):  # every member that there may be is there
        missing = [name for name in missing if name not in _named_members(proof, facts)]
    return [difference("required_added", term, "required", old=sorted(facts.required), name=name) for name in missing]


def _has(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    name = term.says["has"]
    return (
        [] if name in facts.required and facts.types <= {"object"} else [difference("required_added", term, name=name)]
    )


def _property_names(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    wanted: Term = term.says["propertyNames"]
    wrong = [name for name in _named_members(proof, facts) if wanted.accepts is None or not wanted.accepts(name)]
    is_open = any(True for _ in _others(proof, facts, (), "")) and not _patterned(proof, facts, wanted)
    below = proof.below(_naming(facts), wanted) if is_open else []
    wrong += ["any"] if is_definite(below) else []
    if wrong:
        return [difference("property_names_narrowed", term, "propertyNames", name=some(wrong))]
    return [undecided(term, "names that are not mentioned may not be accepted", "propertyNames")] if below else []


def _naming(facts: Facts) -> Known:
    """Return what is known of the names of members."""
    return frozenset({(typed("string"), True), *((rule, True) for rule in facts.names)})


def _mentioned_names(proof: Proof, facts: Facts) -> list[str]:
    """Return the names that descriptions of members or a list of names mention."""
    listed = (proof.facts(_naming(facts)).values if facts.names else None) or {}
    return list(dict.fromkeys([*facts.declared(), *listed.values()]))


def _named_members(proof: Proof, facts: Facts) -> list[str]:
    """Return the mentioned names of members that there may be."""
    names = _mentioned_names(proof, facts)
    return [name for name in names if is_possible(proof, facts, name) and not proof.empty(facts.member(name))]


def count_members(proof: Proof, facts: Facts) -> int | None:
    """Return the largest number of members that an object may have by their names; None if there is none."""
    return None if any(True for _ in _others(proof, facts, (), "")) else len(_named_members(proof, facts))


def _patterned(proof: Proof, facts: Facts, wanted: Term) -> bool:
    """Return True if a schema allows only names of patterns that are all wanted."""
    for part in facts.members:
        if part.rest is not None and "never" in part.rest.says:
            names = [
                frozenset({(made({"pattern": pattern}, 0), True), (typed("string"), True)}) for pattern in part.patterns
            ]
            if all(proof.proves_below(known, wanted) for known in names):
                return True
    return False


def _dependent_required(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for name, needed in term.says["dependentRequired"].items():
        known = facts.known | {(has(name), True)}
        if not all(proof.proves(known, has(other)) for other in sorted(needed)):
            found.append(difference("dependency_added", term, "dependentRequired", name=name))
    return found


def _dependent_schemas(keyword: str) -> Rule:
    def rule(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        found: list[Difference] = []
        for name, needed in term.says[keyword].items():
            below = proof.differences(facts.known | {(has(name), True)}, needed)
            found += [difference("dependency_added", needed, name=name)] if is_definite(below) else below
        return found

    return rule


OBJECTS: Final[dict[str, Rule]] = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "unevaluatedProperties": _unevaluated,
    "required": _required,
    "has": _has,
    "propertyNames": _property_names,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas("dependentSchemas"),
    "dependencies": _dependent_schemas("dependencies"),
    "minProperties": at_least("minProperties", "min_properties_increased", "count"),
    "maxProperties": at_most("maxProperties", "max_properties", "count"),
}


def _prefix_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for index, item in enumerate(term.says["prefixItems"]):
        if facts.size.high is not None and index >= facts.size.high:
            break
        known = facts.item(index)
        below = proof.below(known, item)
        if below and not _may_reach(proof, facts, index):
            break
        if is_definite(below) and not known:
            below = [difference("item_added_to_open_content_model", item, name=index)]
        found += below
    return found


def _count_items(proof: Proof, facts: Facts) -> int | None:
    """Return the largest number of items before one that cannot be; None if all may be."""
    return next((at for at in range(facts.prefix + 1) if proof.empty(facts.item(at))), None)


def _may_reach(proof: Proof, facts: Facts, index: int) -> bool:
    """Return False if there surely is no item at ``index``: it, or one before it, cannot be."""
    return not any(proof.empty(facts.item(at)) for at in range(min(index, facts.prefix) + 1))


def _items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _rest_of_items(proof, facts, term, "items", len(term.says.get("prefixItems", ())))


def _unevaluated_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    seen = evaluated(term, always_applied, certain=True)
    found = [] if seen.all_items else _rest_of_items(proof, facts, term, "unevaluatedItems", seen.items)
    possible = evaluated(term, in_place, certain=False)
    if found and (possible.all_items or possible.items > seen.items):
        return [undecided(term, "items are described under conditions that may not hold", "unevaluatedItems")]
    return found


def _rest_of_items(proof: Proof, facts: Facts, term: Term, keyword: str, start: int) -> list[Difference]:
    """Check the demands on all items from ``start`` on."""
    item: Term = term.says[keyword]
    end = max(start, facts.prefix)
    if facts.size.high is not None:
        end = min(end, facts.size.high)
    found: list[Difference] = []
    for index in range(start, end):
        below = proof.below(facts.item(index), item)
        if below and not _may_reach(proof, facts, index):
            return found
        closed = below and "never" in item.says
        found += [difference("item_removed_from_closed_content_model", term, keyword, name=index)] if closed else below
    if facts.size.high is None or facts.size.high > max(start, facts.prefix):
        last = max(start, facts.prefix)
        below = proof.below(facts.item(last), item)
        if below and not _may_reach(proof, facts, last):
            return found
        closed = below and "never" in item.says
        found += [difference("additional_items_removed", term, keyword)] if closed else below
    return found


def _unique_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    size = facts.prefix + 2 if facts.size.high is None else min(facts.prefix + 2, facts.size.high)
    if facts.unique or size < 2:
        return []
    # 1 equals 1.0, but only one of them is an integer in draft-04.
    has_two_integers = any(other.year == 2013 for other in facts.terms)
    pairs = combinations([index for index in range(size) if _may_reach(proof, facts, index)], 2)
    if not has_two_integers and all(proof.empty(facts.item(one) | facts.item(other)) for one, other in pairs):
        return []
    return [difference("unique_items_added", term, "uniqueItems")]


def _contains(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    least, most = term.says.get("minContains", 1), term.says.get("maxContains")
    found: list[Difference] = []
    if not _enough(proof, facts, term, least):
        found = [difference("contains_narrowed", term, "contains")]
        if facts.size.low >= least and not _may_lack(proof, facts, term.says["contains"]):
            found = [undecided(term, "some items may match", "contains")]
    if most is not None and not _not_too_many(proof, facts, term, most):
        found.append(undecided(term, f"more than {most} items may match", "maxContains"))
    return found


def _enough(proof: Proof, facts: Facts, term: Term, least: int) -> bool:
    """Return True if at least ``least`` items certainly match."""
    wanted: Term = term.says["contains"]
    if least == 0:
        return True
    for other in facts.contains:
        given = frozenset({(other.says["contains"], True)})
        if other.says.get("minContains", 1) >= least and proof.proves_below(given, wanted):
            return True
    if facts.size.low < least:
        return False
    sure = sum(proof.proves_below(facts.item(index), wanted) for index in range(min(facts.prefix, facts.size.low)))
    if facts.size.low > facts.prefix and proof.proves_below(facts.item(facts.prefix), wanted):
        sure += facts.size.low - facts.prefix
    return sure >= least


def _may_lack(proof: Proof, facts: Facts, wanted: Term) -> bool:
    """Return True if each item that an array needs surely may be one that does not match."""
    needed = [frozenset({(part.says["contains"], True)}) for part in facts.contains if part.says.get("minContains", 1)]
    items = (facts.item(index) for index in range(min(facts.size.low, facts.prefix + 1)))
    return all(is_definite(proof.below(known, wanted)) for known in (*needed, *items))


def _not_too_many(proof: Proof, facts: Facts, term: Term, most: int) -> bool:
    """Return True if certainly no more than ``most`` items match."""
    if facts.size.high is not None and facts.size.high <= most:
        return True
    given = frozenset({(term.says["contains"], True)})
    limits = [(other.says["contains"], other.says.get("maxContains")) for other in facts.contains]
    return any(limit is not None and limit <= most and proof.proves_below(given, other) for other, limit in limits)


ARRAYS: Final[dict[str, Rule]] = {
    "prefixItems": _prefix_items,
    "items": _items,
    "unevaluatedItems": _unevaluated_items,
    "uniqueItems": _unique_items,
    "contains": _contains,
    "minItems": at_least("minItems", "min_items_increased", "size"),
    "maxItems": at_most("maxItems", "max_items", "size"),
}
