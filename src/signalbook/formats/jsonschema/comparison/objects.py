"""Objects: what the reader asks of them against what is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod
from typing import Final

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.evaluated import evaluated
from signalbook.formats.jsonschema.comparison.explain import difference, some, undecided
from signalbook.formats.jsonschema.comparison.facts import Facts, Known, Members, has, typed
from signalbook.formats.jsonschema.comparison.proof import Proof, Rule
from signalbook.formats.jsonschema.comparison.scalars import at_least, at_most
from signalbook.formats.jsonschema.comparison.term import Term, made, matches

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
        below = proof.below(facts.member(name), member) if _possible(proof, facts, name) else []
        found += _added(facts, name, member) if below and not facts.declares(name) else below
    return found


def _added(facts: Facts, name: str, member: Term) -> list[Difference]:
    """Why a member that the writer does not describe may not be described here."""
    model = "partially_open" if facts.member(name) else "open"
    return [difference(f"property_added_to_{model}_content_model", member, name=name)]


def _pattern_properties(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for pattern, member in term.says["patternProperties"].items():
        for name in facts.declared():
            if not _spend(proof, facts, term):
                return [*found, undecided(term, _TOO_MANY, "patternProperties")]
            if matches(pattern, name) and _possible(proof, facts, name):
                found += proof.below(facts.member(name), member)
        for known in _others(proof, facts, (), pattern):
            below = proof.below(known, member)
            found += [difference("pattern_property_added", member, name=pattern)] if below and not known else below
    return found


def _additional(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    named, patterns = term.says.get("properties", {}), term.says.get("patternProperties", {})
    return _rest(proof, facts, term, "additionalProperties", Members(dict(named), dict(patterns), None))


def _unevaluated(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    seen = evaluated(term, certain=True)
    if seen.all_members:
        return []
    described = Members(dict.fromkeys(seen.names), dict.fromkeys(seen.patterns), None)
    return _rest(proof, facts, term, "unevaluatedProperties", described)


def _rest(proof: Proof, facts: Facts, term: Term, keyword: str, described: Members) -> list[Difference]:
    """What is asked of all members that are not described."""
    member: Term = term.says[keyword]
    closed = "never" in member.says
    found: list[Difference] = []
    for name in facts.declared():
        if not _spend(proof, facts, term):
            return [*found, undecided(term, _TOO_MANY, keyword)]
        if not described.declares(name) and _possible(proof, facts, name) and proof.below(facts.member(name), member):
            model = "closed" if closed else "partially_open"
            old = _written(facts, name)
            found.append(difference(f"property_removed_from_{model}_content_model", term, keyword, old=old, name=name))
    for known in _others(proof, facts, described.patterns, ""):
        below = proof.below(known, member)
        if below and (closed or not known):
            verb = "removed" if closed else "narrowed"
            below = [difference(f"additional_properties_{verb}", term, keyword)]
        found += below
    return found


def _written(facts: Facts, name: str) -> object:
    return next((term.raw for part in facts.members for term in part.of(name)), None)


def _possible(proof: Proof, facts: Facts, name: str) -> bool:
    """Whether there may be a member of that name."""
    return name not in facts.absent and all(_named(proof, name, rule) for rule in facts.names)


def _named(proof: Proof, name: str, rule: Term) -> bool:
    known = frozenset({(typed("string"), True), (rule, True)})
    values = proof.facts(known).values
    if values is not None:
        return name in values.values()
    return rule.accepts is None or rule.accepts(name)


def _others(proof: Proof, facts: Facts, patterns: Iterable[str], pattern: str) -> Iterator[Known]:
    """What may hold of members whose names nobody mentions, case by case; none if there are no such members.

    Only names that match ``pattern`` are meant, if there is one, and none that match one of ``patterns``.
    """
    names = frozenset({(typed("string"), True), *((rule, True) for rule in facts.names)})
    if facts.names and (proof.empty(names) or proof.facts(names).values is not None):
        return
    options = [_cases(part, frozenset(patterns), pattern) for part in facts.members]
    if prod(map(len, options)) > _MAX_CASES:
        yield frozenset()
        return
    for case in dict.fromkeys(frozenset((term, True) for term in chosen if term) for chosen in product(*options)):
        if not proof.empty(case):
            yield case


def _cases(part: Members, patterns: frozenset[str], pattern: str) -> list[Term | None]:
    if pattern and pattern in part.patterns:
        return [part.patterns[pattern]]
    return [*(term for other, term in part.patterns.items() if other not in patterns), part.rest]


def _required(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    missing = sorted(term.says["required"] - facts.required)
    return [difference("required_added", term, "required", old=sorted(facts.required), name=name) for name in missing]


def _has(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    name = term.says["has"]
    return (
        [] if name in facts.required and facts.types <= {"object"} else [difference("required_added", term, name=name)]
    )


def _property_names(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    wanted: Term = term.says["propertyNames"]
    names = [name for name in facts.declared() if _possible(proof, facts, name) and not _allowed(proof, facts, name)]
    wrong = [name for name in names if wanted.accepts is None or not wanted.accepts(name)]
    others = list(_others(proof, facts, (), ""))
    known = frozenset({(typed("string"), True), *((rule, True) for rule in facts.names)})
    values = proof.facts(known).values
    if values is not None and facts.names:
        wrong += [name for name in values.values() if wanted.accepts is None or not wanted.accepts(name)]
    elif others and not proof.proves_below(known, wanted) and not _patterned(proof, facts, wanted):
        wrong.append("any")
    return [difference("property_names_narrowed", term, "propertyNames", name=some(wrong))] if wrong else []


def _allowed(proof: Proof, facts: Facts, name: str) -> bool:
    """Whether a mentioned member may not be there anyway."""
    return proof.empty(facts.member(name))


def _patterned(proof: Proof, facts: Facts, wanted: Term) -> bool:
    """Whether some schema lets in only names of patterns which are all wanted."""
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
            if not proof.proves(facts.known | {(has(name), True)}, needed):
                found.append(difference("dependency_added", needed, name=name))
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
