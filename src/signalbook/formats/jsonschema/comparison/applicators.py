"""The comparison rules for references, ``allOf``, ``anyOf``, ``oneOf``, ``not`` and ``if``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.facts import Facts, Literals
from signalbook.formats.jsonschema.comparison.terms import Term, resolve_target
from signalbook.formats.jsonschema.comparison.wording import describe_difference, make_undecided


class Proof(Protocol):
    """The interface of the prover for the rules: it answers questions about values for which certain literals hold."""

    def spend(self, steps: int) -> bool:
        """Count ``steps`` of work. Return False if no steps are left."""
        ...

    def compare(self, literals: Literals, term: Term) -> list[Difference]:
        """Return why ``term`` may refuse a value for which ``literals`` hold; empty if it certainly
        accepts all of them.
        """
        ...

    def compare_part(self, literals: Literals, term: Term) -> list[Difference]:
        """Return the result of ``compare`` for a member, an item or a name of the current value."""
        ...

    def proves(self, literals: Literals, term: Term) -> bool:
        """Return True if ``term`` certainly accepts every value for which ``literals`` hold."""
        ...

    def proves_part(self, literals: Literals, term: Term) -> bool:
        """Return the result of ``proves`` for a member, an item or a name of the current value."""
        ...

    def is_empty(self, literals: Literals) -> bool:
        """Return True if certainly no value exists for which ``literals`` hold."""
        ...

    def is_same(self, a: Term, b: Term) -> bool:
        """Return True if ``a`` and ``b`` have equal keywords; False may also mean that they are too
        large to compare.
        """
        ...

    def derive_facts(self, literals: Literals) -> Facts:
        """Return the facts that follow from ``literals``."""
        ...


# A rule returns why a keyword of the reader's schema may refuse values for which the facts hold.
Rule = Callable[[Proof, Facts, Term], list[Difference]]


UNIONS: Final = frozenset({"anyOf", "oneOf"})
# Keywords that apply their schemas to the same value. The comparison with these schemas does the splitting into cases.
DELEGATING: Final = frozenset({"ref", "dynamicRef", "allOf", "if"})
_REFUSED_PER_STEP: Final = 128
_ITEMS_PER_STEP: Final = 32


def _check_reference(keyword: str) -> Rule:
    def rule(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        return proof.compare(facts.literals, term.keywords[keyword])

    return rule


def _check_all_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return [
        item_difference for item in term.keywords["allOf"] for item_difference in proof.compare(facts.literals, item)
    ]


def _check_any_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _choose_alternative(proof, facts, term, "anyOf")[1]


def _check_one_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    chosen, differences = _choose_alternative(proof, facts, term, "oneOf")
    # Unlike ``anyOf``, a second matching alternative violates ``oneOf``, so all other alternatives have to be excluded.
    other_items = (item for item in term.keywords["oneOf"] if item is not chosen)
    if not differences and not all(_is_disjoint(proof, facts, item) for item in other_items):
        return [make_undecided(term, "values may match more than one alternative", "oneOf")]
    return differences


def _is_disjoint(proof: Proof, facts: Facts, item: Term) -> bool:
    """Return True if certainly no value for which ``facts`` hold satisfies ``item``."""
    if not proof.spend(len(facts.refused) // _REFUSED_PER_STEP):
        return False
    if any(proof.is_same(item, refused) for refused in facts.refused):
        return True
    path = resolve_target(item).path
    partner = next((refused for refused in facts.refused if refused.path == path), None)
    if partner is not None and proof.proves(frozenset({(resolve_target(item), True)}), partner):
        return True
    return proof.is_empty(facts.literals | {(item, True)})


def _choose_alternative(proof: Proof, facts: Facts, term: Term, keyword: str) -> tuple[Term | None, list[Difference]]:
    """Return the alternative that accepts all values and no differences, or None and the reasons
    why no alternative does.
    """
    items: tuple[Term, ...] = term.keywords[keyword]
    if not proof.spend(len(items) // _ITEMS_PER_STEP):
        return None, [make_undecided(term, "there are too many alternatives", keyword)]
    counterparts = _list_counterparts(facts, items)
    # Try the alternative at the same place first: it is usually unchanged, so that no other has to be tried.
    partner = counterparts[0] if counterparts else None
    if partner is not None and proof.proves(facts.literals, partner):
        return partner, []
    for item in items:
        # Each proof may use all remaining steps. Stop here, because an undecided result is better than a wait of
        # minutes.
        if not proof.spend(0):
            return None, [make_undecided(term, "there are too many alternatives", keyword)]
        if item is not partner and proof.proves(facts.literals, item):
            return item, []
    return None, _explain_uncovered(proof, facts, term, keyword)


def _explain_uncovered(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[Difference]:
    """Return why no alternative accepts all values, explained by the corresponding alternative if there is only one."""
    items: tuple[Term, ...] = term.keywords[keyword]
    near = [item for item in items if not _is_disjoint(proof, facts, item)]
    counterparts = _list_counterparts(facts, items)
    referenced = [item for item in counterparts if resolve_target(item) is not item]
    intended = near if len(near) == 1 else referenced or [item for item in counterparts if item in near]
    if len(intended) == 1:
        # A reason applies to a value only if no other alternative accepts the value.
        other_literals = frozenset((item, False) for item in near if item is not intended[0])
        return _explain_intended(proof, facts.literals | other_literals, term, keyword, intended[0])
    if not near:
        return [describe_difference("alternative_removed", term, keyword, old=_find_raw(facts.literals))]
    return [make_undecided(term, "no alternative takes all values, several may together", keyword)]


def _explain_intended(proof: Proof, literals: Literals, term: Term, keyword: str, item: Term) -> list[Difference]:
    differences = proof.compare(literals, item)
    return differences or [make_undecided(term, "values may match more than one alternative", keyword)]


def _list_counterparts(facts: Facts, items: tuple[Term, ...]) -> list[Term]:
    """Return the reader's alternatives that are at the same path as a schema of the writer, after
    following references.
    """
    paths = {term.path for term in facts.terms}
    return [item for item in items if resolve_target(item).path in paths]


def _find_raw(literals: Literals) -> object:
    return next((term.raw for term, holds in sorted(literals, key=lambda literal: literal[0].path) if holds), None)


def _check_not(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    refused: Term = term.keywords["not"]
    if refused in facts.refused or proof.is_empty(facts.literals | {(refused, True)}):
        return []
    return [describe_difference("not_narrowed", term, "not")]


def _check_if(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    condition = _find_written_condition(proof, facts, term.keywords["if"])
    differences: list[Difference] = []
    for keyword, holds in (("then", True), ("else", False)):
        if keyword in term.keywords:
            differences += proof.compare(facts.literals | {(condition, holds)}, term.keywords[keyword])
    return differences


def _find_written_condition(proof: Proof, facts: Facts, condition: Term) -> Term:
    """Return the writer's term that equals ``condition``, if any, so that it decides which branch
    of the writer applies.
    """
    conditions = (term for options in facts.splits for term, _ in options[0])
    return next((term for term in conditions if proof.is_same(term, condition)), condition)


def _check_opaque(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    uri, _ = term.keywords["opaque"]
    return [] if term.keywords["opaque"] in facts.opaque else [make_undecided(term, f"{uri} is not understood here")]


COMBINED: Final[dict[str, Rule]] = {
    "ref": _check_reference("ref"),
    "dynamicRef": _check_reference("dynamicRef"),
    "allOf": _check_all_of,
    "anyOf": _check_any_of,
    "oneOf": _check_one_of,
    "not": _check_not,
    "if": _check_if,
    "opaque": _check_opaque,
}
