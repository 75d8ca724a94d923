"""The comparison rules for keywords that constrain types, values, numbers, strings, objects and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import gcd, lcm, prod
from typing import Any, Final

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.applicators import Proof, Rule
from signalbook.formats.jsonschema.comparison.facts import (
    MAX_EXACT,
    Facts,
    Literals,
    MemberFacts,
    Range,
    make_member_term,
    make_type_term,
)
from signalbook.formats.jsonschema.comparison.terms import (
    TYPES,
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
from signalbook.formats.jsonschema.comparison.wording import (
    describe_difference,
    format_first,
    is_definite,
    make_undecided,
)
from signalbook.formats.patternexamples import MAX_CHARS, make_example
from signalbook.values import JSON

# More values of ``multipleOf`` than this are ignored, because their common multiple may have any number of digits.
_MAX_STEPS: Final = 8
# The proof steps for generating a text from a pattern.
_EXAMPLE_STEPS: Final = 200
# A pattern that matches each of these characters, once and twice, and the empty text probably matches all texts.
_SAMPLE_CHARS: Final = "a0 ~\n"
# Patterns that every string matches.
_ANY_TEXT: Final = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^[\\s\\S]*$", "(?s).*"})


def _check_type(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    types: frozenset[str] = term.keywords["type"]
    accepted = {"number" if name == "integer" else name for name in types}
    missing = facts.types - accepted
    if len(facts.types) > 1:
        missing = {name for name in missing if not proof.is_empty(facts.literals | {(make_type_term(name), True)})}
    if "number" in facts.types and "integer" in types and "number" not in types and not _has_integers(facts, term):
        # The writer's numbers may have fractions, unless another fact about them excludes fractions.
        missing.add("number")
    if not missing:
        return []
    writer_types = [("integer" if name == "number" and facts.whole else name) for name in TYPES if name in facts.types]
    rule = "type_changed" if not facts.types & accepted else "type_narrowed"
    old_types = None if len(writer_types) == len(TYPES) else writer_types[0] if len(writer_types) == 1 else writer_types
    return [describe_difference(rule, term, "type", old=old_types, missing=", ".join(sorted(missing)))]


def _has_integers(facts: Facts, term: Term) -> bool:
    """Return True if all numbers are integers by the rules of the reader's draft."""
    if term.year == 2013:
        return 2013 in facts.whole
    return facts.has_integers_only


def _check_never(__: Proof, _: Facts, term: Term) -> list[Difference]:
    return [describe_difference("nothing_accepted", term)]


def _check_enum(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _check_listed(facts, term, "enum", term.keywords["enum"])


def _check_const(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _check_listed(facts, term, "const", (term.keywords["const"],))


def _check_listed(facts: Facts, term: Term, keyword: str, listed: tuple[JSON, ...]) -> list[Difference]:
    if facts.values is None:
        return [describe_difference("enum_added", term, keyword)]
    # Compare by JSON identity: in Python 1 equals true, in JSON 1 equals 1.0 but not true.
    accepted = index_by_identity(listed)
    if facts.values.keys() <= accepted.keys():
        return []
    missing = [value for key, value in facts.values.items() if key not in accepted]
    old = list(facts.values.values())
    return [describe_difference("enum_narrowed", term, keyword, old=old, values=format_first(missing))]


def _make_minimum_rule(keyword: str, *, open: bool = False) -> Rule:
    def rule(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        bound, numbers = term.keywords[keyword], facts.number
        # Compare pairs: of two equal bounds the open bound is stricter, and True sorts after False.
        if numbers.low is not None and (numbers.low, numbers.low_open) >= (bound, open):
            return []
        name = "minimum_added" if numbers.low is None else "minimum_increased"
        return [describe_difference(name, term, keyword, old=numbers.low)]

    return rule


def _make_maximum_rule(keyword: str, *, open: bool = False) -> Rule:
    def rule(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        bound, numbers = term.keywords[keyword], facts.number
        if numbers.high is not None and (numbers.high, not numbers.high_open) <= (bound, not open):
            return []
        name = "maximum_added" if numbers.high is None else "maximum_decreased"
        return [describe_difference(name, term, keyword, old=numbers.high)]

    return rule


def _check_multiple_of(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    multiple = Fraction(str(term.keywords["multipleOf"]))
    # Validators calculate in decimals: 0.07 is a multiple of 0.01, although floating-point division disagrees.
    step = _find_common_multiple([*facts.steps, *([Decimal(1)] if facts.whole else [])])
    if step is not None and step % multiple == 0:
        return []
    rule = "multiple_of_changed" if facts.steps else "multiple_of_added"
    old = step if step is not None and step < MAX_EXACT else max(facts.steps, default=0)
    return [describe_difference(rule, term, "multipleOf", old=float(old) if facts.steps else None)]


def _find_common_multiple(steps: Iterable[Decimal]) -> Fraction | None:
    """Return the least common multiple of the ``_MAX_STEPS`` smallest ``steps``, or None if ``steps`` is empty.

    A value that is a multiple of each step is also a multiple of the result.
    """
    fractions = [Fraction(step) for step in sorted(steps)[:_MAX_STEPS]]
    if not fractions:
        return None
    return Fraction(
        lcm(*(fraction.numerator for fraction in fractions)), gcd(*(fraction.denominator for fraction in fractions))
    )


_LENGTHS_UNKNOWN: Final = "which lengths the texts of a pattern have is not looked into"


def make_minimum_size_rule(keyword: str, rule: str, size: str) -> Rule:
    """Return the rule for a ``keyword`` that sets a minimum.

    ``rule`` is the name of its difference. ``size`` is the name of the attribute of ``Facts`` with the writer's bounds.
    """

    def check(_: Proof, facts: Facts, term: Term) -> list[Difference]:
        sizes: Range = getattr(facts, size)
        minimum: int = term.keywords[keyword]
        if sizes.low >= minimum:
            return []
        if size == "length" and facts.patterns:
            return [make_undecided(term, _LENGTHS_UNKNOWN, keyword)]
        return [describe_difference(rule, term, keyword, old=sizes.low)]

    return check


def make_maximum_size_rule(keyword: str, rule: str, size: str) -> Rule:
    """Return the rule for a ``keyword`` that sets a maximum.

    ``rule`` is the name of its difference without the suffix ``_added`` or ``_decreased``. ``size`` is the name of the
    attribute of ``Facts`` with the writer's bounds.
    """

    def check(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        sizes: Range = getattr(facts, size)
        maximum: int = term.keywords[keyword]
        high = sizes.high
        counts = {"count": count_members, "size": _count_items}
        if size in counts and (most := counts[size](proof, facts)) is not None:
            high = most if high is None else min(high, most)
        if high is not None and high <= maximum:
            return []
        if size == "length" and facts.patterns:
            return [make_undecided(term, _LENGTHS_UNKNOWN, keyword)]
        return [describe_difference(f"{rule}_added" if high is None else f"{rule}_decreased", term, keyword, old=high)]

    return check


def _check_pattern(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    required_pattern = term.keywords["pattern"]
    if required_pattern in facts.patterns | _ANY_TEXT:
        return []
    low, high = facts.length.low, min(MAX_CHARS, MAX_CHARS if facts.length.high is None else facts.length.high)
    examples = [make_text(proof, pattern, low, high) for pattern in sorted(facts.patterns)]
    samples = [char * max(low, count) for char in _SAMPLE_CHARS for count in (0, 1) if max(low, count) <= high]
    candidates = [example for example in examples if example is not None] if facts.patterns else samples
    texts = [text for text in candidates if all(matches(pattern, text) for pattern in facts.patterns)]
    if all(matches(required_pattern, text) for text in texts):
        return [make_undecided(term, "no text was found that does not match", "pattern")]
    if not facts.patterns:
        return [describe_difference("pattern_added", term, "pattern")]
    return [describe_difference("pattern_changed", term, "pattern", old=min(facts.patterns))]


def make_text(proof: Proof, pattern: str, low: int = 0, high: int = MAX_CHARS) -> str | None:
    """Return a text of ``low`` to ``high`` characters that matches ``pattern``; None if no text can be made quickly."""
    text = make_example(pattern, low, high) if proof.spend(_EXAMPLE_STEPS) else None
    return text if text is not None and matches(pattern, text) else None


def _check_content(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    content: tuple[Any, Any] = term.keywords["content"]
    return [] if content in facts.contents else [describe_difference("content_changed", term, "contentEncoding")]


SCALARS: Final[dict[str, Rule]] = {
    "never": _check_never,
    "type": _check_type,
    "enum": _check_enum,
    "const": _check_const,
    "minimum": _make_minimum_rule("minimum"),
    "exclusiveMinimum": _make_minimum_rule("exclusiveMinimum", open=True),
    "maximum": _make_maximum_rule("maximum"),
    "exclusiveMaximum": _make_maximum_rule("exclusiveMaximum", open=True),
    "multipleOf": _check_multiple_of,
    "minLength": make_minimum_size_rule("minLength", "min_length_increased", "length"),
    "maxLength": make_maximum_size_rule("maxLength", "max_length", "length"),
    "pattern": _check_pattern,
    "content": _check_content,
}


# A pattern and the schema of members whose names match it. The pattern None stands for all other names; the schema None
# means that nothing is known about the members.
PatternTerm = tuple[str | None, Term | None]
_MAX_CASES: Final = 64
_PATTERNS_PER_STEP: Final = 8
_TOO_MANY: Final = "there are too many members and patterns to compare"


def _spend_patterns(proof: Proof, facts: Facts, term: Term) -> bool:
    """Count the work of matching one name with all patterns. Return False if the steps are used up."""
    patterns = sum(len(part.patterns) for part in facts.members) + len(term.keywords.get("patternProperties", ()))
    return proof.spend(patterns // _PATTERNS_PER_STEP)


def _check_properties(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    differences: list[Difference] = []
    for name, member in term.keywords["properties"].items():
        if not _spend_patterns(proof, facts, term):
            return [*differences, make_undecided(term, _TOO_MANY, "properties")]
        if not is_possible(proof, facts, name):
            continue
        literals = facts.describe_member(name)
        part_differences = proof.compare_part(literals, member)
        if part_differences:
            # Facts that follow from the presence of the member may describe the member further.
            present = facts.literals | {(make_member_term(name), True)}
            if proof.is_empty(present):
                continue
            present_literals = proof.derive_facts(present).describe_member(name)
            if present_literals != literals:
                part_differences = proof.compare_part(present_literals, member)
        if is_definite(part_differences) and not facts.declares(name):
            part_differences = _explain_added(facts, name, member)
        differences += part_differences
    return differences


def _explain_added(facts: Facts, name: str, member: Term) -> list[Difference]:
    """Return why the reader may not describe the member ``name``, which the writer does not declare."""
    model = "partially_open" if facts.describe_member(name) else "open"
    return [describe_difference(f"property_added_to_{model}_content_model", member, name=name)]


def _check_pattern_properties(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    differences: list[Difference] = []
    names = _list_mentioned_names(proof, facts)
    for pattern, member in term.keywords["patternProperties"].items():
        for name in names:
            if not _spend_patterns(proof, facts, term):
                return [*differences, make_undecided(term, _TOO_MANY, "patternProperties")]
            if matches(pattern, name) and is_possible(proof, facts, name):
                differences += proof.compare_part(facts.describe_member(name), member)
        for literals in _list_unmentioned(proof, facts, (), pattern):
            part_differences = proof.compare_part(literals, member)
            if part_differences and not _has_unmentioned_name(proof, facts, pattern, literals):
                part_differences = [make_undecided(member, f"there may be no name that matches {pattern} here")]
            elif is_definite(part_differences) and not literals:
                part_differences = [describe_difference("pattern_property_added", member, name=pattern)]
            differences += part_differences
    return differences


def _check_additional(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    properties, patterns = term.keywords.get("properties", {}), term.keywords.get("patternProperties", {})
    described = MemberFacts(dict(properties), dict(patterns), None)
    return _check_other_members(proof, facts, term, "additionalProperties", described)


def _check_unevaluated(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    differences: list[Difference] = []
    # First use only schemas that always apply: finding them costs nothing, and they are usually sufficient.
    for applied in (list_always_applied, partial(_list_surely_applied, proof, facts)):
        seen = find_evaluated(term, applied, certain=True)
        described = MemberFacts(dict.fromkeys(seen.names), dict.fromkeys(seen.patterns), None)
        if seen.all_members:
            return []
        differences = _check_other_members(proof, facts, term, "unevaluatedProperties", described)
        if not differences:
            return []
    seen = find_evaluated(term, list_applied, certain=False)
    if seen.all_members or len(seen.names) + len(seen.patterns) > len(described.names) + len(described.patterns):
        why = "members are described under conditions that may not hold"
        return [make_undecided(term, why, "unevaluatedProperties")]
    return differences


def _list_surely_applied(proof: Proof, facts: Facts, term: Term) -> Iterator[Term]:
    """Yield the schemas that certainly apply to all values, so that the members they describe count as evaluated."""
    says = term.keywords
    yield from list_always_applied(term)
    for keyword in ("anyOf", "oneOf"):
        yield from (item for item in says.get(keyword, ()) if proof.proves(facts.literals, item))
    # Ignore ``dependencies``: in the drafts that have ``unevaluated...``, this keyword does not evaluate any members.
    yield from (needed for name, needed in says.get("dependentSchemas", {}).items() if name in facts.required)
    if "if" not in says:
        return
    if proof.proves(facts.literals, says["if"]):
        yield from (says[keyword] for keyword in ("if", "then") if keyword in says)
    elif "else" in says and proof.is_empty(facts.literals | {(says["if"], True)}):
        yield says["else"]


def _check_other_members(
    proof: Proof, facts: Facts, term: Term, keyword: str, described: MemberFacts
) -> list[Difference]:
    """Check ``keyword``, the reader's schema for all members that ``described`` does not declare."""
    member: Term = term.keywords[keyword]
    closed = "never" in member.keywords
    differences: list[Difference] = []
    for name in _list_mentioned_names(proof, facts):
        if not _spend_patterns(proof, facts, term):
            return [*differences, make_undecided(term, _TOO_MANY, keyword)]
        if described.declares(name) or not is_possible(proof, facts, name):
            continue
        part_differences = proof.compare_part(facts.describe_member(name), member)
        if is_definite(part_differences):
            rule = f"property_removed_from_{'closed' if closed else 'partially_open'}_content_model"
            part_differences = [describe_difference(rule, term, keyword, old=_find_raw(facts, name), name=name)]
        differences += part_differences
    for literals in _list_unmentioned(proof, facts, described.patterns, ""):
        part_differences = proof.compare_part(literals, member)
        if is_definite(part_differences) and (closed or not literals):
            verb = "removed" if closed else "narrowed"
            part_differences = [describe_difference(f"additional_properties_{verb}", term, keyword)]
        differences += part_differences
    return differences


def _find_raw(facts: Facts, name: str) -> object:
    return next((term.raw for part in facts.members for term in part.find_schemas(name)), None)


def is_possible(proof: Proof, facts: Facts, name: str) -> bool:
    """Return True if an object for which ``facts`` hold may have a member ``name``."""
    return (
        name not in facts.absent
        and facts.has_room_for(name)
        and all(_is_possible_name(proof, name, rule) for rule in facts.names)
    )


def _is_possible_name(proof: Proof, name: str, rule: Term) -> bool:
    literals = frozenset({(make_type_term("string"), True), (rule, True)})
    values = proof.derive_facts(literals).values
    if values is not None:
        return make_identity(name) in values
    return rule.accepts is None or rule.accepts(name)


def _list_unmentioned(proof: Proof, facts: Facts, patterns: Iterable[str], pattern: str) -> Iterator[Literals]:
    """Yield the literals that may hold for members with undeclared names, one set for each case.

    Nothing is yielded if no such members are possible. With a ``pattern``, only names that match it are considered.
    Names that match one of ``patterns`` are excluded.
    """
    if not facts.has_room_for():
        return
    names = _describe_names(facts)
    if facts.names and (proof.is_empty(names) or proof.derive_facts(names).values is not None):
        return
    options = [_list_cases(part, frozenset(patterns), pattern) for part in facts.members]
    if prod(map(len, options)) > _MAX_CASES:
        yield frozenset()
        return
    cases = (chosen for chosen in product(*options) if _is_one_name(facts, chosen))
    for case in dict.fromkeys(frozenset((term, True) for _, term in chosen if term) for chosen in cases):
        if not proof.is_empty(case):
            yield case


def _has_unmentioned(proof: Proof, facts: Facts) -> bool:
    """Return True if an object may have members whose names are not mentioned."""
    return any(True for _ in _list_unmentioned(proof, facts, (), ""))


def _is_one_name(facts: Facts, case: tuple[PatternTerm, ...]) -> bool:
    """Return False if no name can lead to ``case``.

    A name that matches a pattern in one schema also matches the same pattern in every other schema that has it.
    """
    matched = {pattern for pattern, _ in case if pattern is not None}
    pairs = zip(facts.members, case, strict=True)
    return all(pattern is not None or matched.isdisjoint(part.patterns) for part, (pattern, _) in pairs)


def _has_unmentioned_name(proof: Proof, facts: Facts, pattern: str, literals: Literals) -> bool:
    """Return True if a member certainly may exist whose name matches ``pattern`` and for which
    exactly ``literals`` hold.
    """
    example = make_text(proof, pattern)
    names = [] if example is None else [f"{example}z", f"z{example}", example]
    terms = {resolve_target(term) for term, _ in literals}
    return any(
        matches(pattern, name)
        and terms == {term for term, _ in facts.describe_member(name)}
        and is_possible(proof, facts, name)
        for name in names
    )


def _list_cases(part: MemberFacts, patterns: frozenset[str], pattern: str) -> list[PatternTerm]:
    if pattern and pattern in part.patterns:
        return [(pattern, part.patterns[pattern])]
    return [*((other, term) for other, term in part.patterns.items() if other not in patterns), (None, part.additional)]


def _check_required(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    missing = sorted(term.keywords["required"] - facts.required)
    if missing and facts.count.low == count_members(proof, facts):  # all possible members are present
        present = set(_list_named_members(proof, facts))
        missing = [name for name in missing if name not in present]
    return [
        describe_difference("required_added", term, "required", old=sorted(facts.required), name=name)
        for name in missing
    ]


def _check_member(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    name = term.keywords["has"]
    if name in facts.required and facts.types <= {"object"}:
        return []
    return [describe_difference("required_added", term, name=name)]


def _check_property_names(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    name_schema: Term = term.keywords["propertyNames"]
    refused = [
        name
        for name in _list_named_members(proof, facts)
        if name_schema.accepts is None or not name_schema.accepts(name)
    ]
    is_open = _has_unmentioned(proof, facts) and not _has_patterns_within(proof, facts, name_schema)
    part_differences = proof.compare_part(_describe_names(facts), name_schema) if is_open else []
    refused += ["any"] if is_definite(part_differences) else []
    if refused:
        return [describe_difference("property_names_narrowed", term, "propertyNames", name=format_first(refused))]
    if part_differences:
        return [make_undecided(term, "names that are not mentioned may not be accepted", "propertyNames")]
    return []


def _describe_names(facts: Facts) -> Literals:
    """Return the literals that hold for the names of members."""
    return frozenset({(make_type_term("string"), True), *((rule, True) for rule in facts.names)})


def _list_mentioned_names(proof: Proof, facts: Facts) -> list[str]:
    """Return the names that schemas of members declare or that a schema of member names lists."""
    listed = (proof.derive_facts(_describe_names(facts)).values if facts.names else None) or {}
    return list(dict.fromkeys([*facts.list_declared(), *listed.values()]))


def _list_named_members(proof: Proof, facts: Facts) -> list[str]:
    """Return the mentioned names of members that an object may have."""
    names = _list_mentioned_names(proof, facts)
    return [
        name for name in names if is_possible(proof, facts, name) and not proof.is_empty(facts.describe_member(name))
    ]


def count_members(proof: Proof, facts: Facts) -> int | None:
    """Return the maximum number of members if the possible names are limited, otherwise None."""
    return None if _has_unmentioned(proof, facts) else len(_list_named_members(proof, facts))


def _has_patterns_within(proof: Proof, facts: Facts, name_schema: Term) -> bool:
    """Return True if the writer allows only names of certain patterns, and ``name_schema`` accepts all these names."""
    for part in facts.members:
        if part.additional is not None and "never" in part.additional.keywords:
            names = [
                frozenset({(make_term({"pattern": pattern}, 0), True), (make_type_term("string"), True)})
                for pattern in part.patterns
            ]
            if all(proof.proves_part(literals, name_schema) for literals in names):
                return True
    return False


def _check_dependent_required(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    differences: list[Difference] = []
    for name, needed in term.keywords["dependentRequired"].items():
        literals = facts.literals | {(make_member_term(name), True)}
        if not all(proof.proves(literals, make_member_term(other)) for other in sorted(needed)):
            differences.append(describe_difference("dependency_added", term, "dependentRequired", name=name))
    return differences


def _make_dependent_schemas_rule(keyword: str) -> Rule:
    def rule(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        differences: list[Difference] = []
        for name, needed in term.keywords[keyword].items():
            part_differences = proof.compare(facts.literals | {(make_member_term(name), True)}, needed)
            if is_definite(part_differences):
                part_differences = [describe_difference("dependency_added", needed, name=name)]
            differences += part_differences
        return differences

    return rule


OBJECTS: Final[dict[str, Rule]] = {
    "properties": _check_properties,
    "patternProperties": _check_pattern_properties,
    "additionalProperties": _check_additional,
    "unevaluatedProperties": _check_unevaluated,
    "required": _check_required,
    "has": _check_member,
    "propertyNames": _check_property_names,
    "dependentRequired": _check_dependent_required,
    "dependentSchemas": _make_dependent_schemas_rule("dependentSchemas"),
    "dependencies": _make_dependent_schemas_rule("dependencies"),
    "minProperties": make_minimum_size_rule("minProperties", "min_properties_increased", "count"),
    "maxProperties": make_maximum_size_rule("maxProperties", "max_properties", "count"),
}


def _check_prefix_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    differences: list[Difference] = []
    for index, item in enumerate(term.keywords["prefixItems"]):
        if facts.size.high is not None and index >= facts.size.high:
            break
        literals = facts.describe_item(index)
        part_differences = proof.compare_part(literals, item)
        if part_differences and not _may_reach(proof, facts, index):
            break
        if is_definite(part_differences) and not literals:
            part_differences = [describe_difference("item_added_to_open_content_model", item, name=index)]
        differences += part_differences
    return differences


def _count_items(proof: Proof, facts: Facts) -> int | None:
    """Return the number of items before the first impossible item; None if all items are possible."""
    return next((index for index in range(facts.prefix + 1) if proof.is_empty(facts.describe_item(index))), None)


def _may_reach(proof: Proof, facts: Facts, index: int) -> bool:
    """Return False if an item at ``index`` is impossible, because that item or an item before it
    has no possible value.
    """
    return not any(proof.is_empty(facts.describe_item(position)) for position in range(min(index, facts.prefix) + 1))


def _check_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _check_other_items(proof, facts, term, "items", len(term.keywords.get("prefixItems", ())))


def _check_unevaluated_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    seen = find_evaluated(term, list_always_applied, certain=True)
    differences = [] if seen.all_items else _check_other_items(proof, facts, term, "unevaluatedItems", seen.items)
    possible = find_evaluated(term, list_applied, certain=False)
    if differences and (possible.all_items or possible.items > seen.items):
        return [make_undecided(term, "items are described under conditions that may not hold", "unevaluatedItems")]
    return differences


def _check_other_items(proof: Proof, facts: Facts, term: Term, keyword: str, start: int) -> list[Difference]:
    """Check ``keyword``, the reader's schema for all items from index ``start`` on."""
    item: Term = term.keywords[keyword]
    closed = "never" in item.keywords
    end = max(start, facts.prefix)
    if facts.size.high is not None:
        end = min(end, facts.size.high)
    differences: list[Difference] = []
    for index in range(start, end):
        part_differences = proof.compare_part(facts.describe_item(index), item)
        if part_differences and not _may_reach(proof, facts, index):
            return differences
        if part_differences and closed:
            rule = "item_removed_from_closed_content_model"
            part_differences = [describe_difference(rule, term, keyword, name=index)]
        differences += part_differences
    if facts.size.high is None or facts.size.high > max(start, facts.prefix):
        last = max(start, facts.prefix)
        part_differences = proof.compare_part(facts.describe_item(last), item)
        if part_differences and not _may_reach(proof, facts, last):
            return differences
        if part_differences and closed:
            part_differences = [describe_difference("additional_items_removed", term, keyword)]
        differences += part_differences
    return differences


def _check_unique_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    size = facts.prefix + 2 if facts.size.high is None else min(facts.prefix + 2, facts.size.high)
    if facts.unique or size < 2:
        return []
    # In draft-04, 1 and 1.0 are equal but only 1 is an integer, so contradictory types do not make items unequal.
    has_two_integers = any(term_held.year == 2013 for term_held in facts.terms)
    pairs = combinations([index for index in range(size) if _may_reach(proof, facts, index)], 2)
    if not has_two_integers and all(
        proof.is_empty(facts.describe_item(first) | facts.describe_item(second)) for first, second in pairs
    ):
        return []
    return [describe_difference("unique_items_added", term, "uniqueItems")]


def _check_contains(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    least, most = term.keywords.get("minContains", 1), term.keywords.get("maxContains")
    differences: list[Difference] = []
    if not _has_enough(proof, facts, term, least):
        differences = [describe_difference("contains_narrowed", term, "contains")]
        if facts.size.low >= least and not _may_lack(proof, facts, term.keywords["contains"]):
            differences = [make_undecided(term, "some items may match", "contains")]
    if most is not None and not _has_no_more(proof, facts, term, most):
        differences.append(make_undecided(term, f"more than {most} items may match", "maxContains"))
    return differences


def _has_enough(proof: Proof, facts: Facts, term: Term, least: int) -> bool:
    """Return True if at least ``least`` items certainly match ``contains``."""
    item_schema: Term = term.keywords["contains"]
    if least == 0:
        return True
    for other in facts.contains:
        item_literals = frozenset({(other.keywords["contains"], True)})
        if other.keywords.get("minContains", 1) >= least and proof.proves_part(item_literals, item_schema):
            return True
    if facts.size.low < least:
        return False
    certain = sum(
        proof.proves_part(facts.describe_item(index), item_schema) for index in range(min(facts.prefix, facts.size.low))
    )
    if facts.size.low > facts.prefix and proof.proves_part(facts.describe_item(facts.prefix), item_schema):
        certain += facts.size.low - facts.prefix
    return certain >= least


def _may_lack(proof: Proof, facts: Facts, item_schema: Term) -> bool:
    """Return True if every item that an array needs may be an item that does not match ``item_schema``."""
    needed = [
        frozenset({(part.keywords["contains"], True)}) for part in facts.contains if part.keywords.get("minContains", 1)
    ]
    items = (facts.describe_item(index) for index in range(min(facts.size.low, facts.prefix + 1)))
    return all(is_definite(proof.compare_part(literals, item_schema)) for literals in (*needed, *items))


def _has_no_more(proof: Proof, facts: Facts, term: Term, most: int) -> bool:
    """Return True if certainly at most ``most`` items match ``contains``."""
    if facts.size.high is not None and facts.size.high <= most:
        return True
    item_literals = frozenset({(term.keywords["contains"], True)})
    limits = [(other.keywords["contains"], other.keywords.get("maxContains")) for other in facts.contains]
    return any(
        limit is not None and limit <= most and proof.proves_part(item_literals, other) for other, limit in limits
    )


ARRAYS: Final[dict[str, Rule]] = {
    "prefixItems": _check_prefix_items,
    "items": _check_items,
    "unevaluatedItems": _check_unevaluated_items,
    "uniqueItems": _check_unique_items,
    "contains": _check_contains,
    "minItems": make_minimum_size_rule("minItems", "min_items_increased", "size"),
    "maxItems": make_maximum_size_rule("maxItems", "max_items", "size"),
}
