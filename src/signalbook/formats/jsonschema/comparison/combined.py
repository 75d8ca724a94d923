"""What the reader asks by references, ``allOf``, ``anyOf``, ``oneOf``, ``not`` and ``if``, against the facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.differences import difference, undecided
from signalbook.formats.jsonschema.comparison.facts import Facts, Known
from signalbook.formats.jsonschema.comparison.terms import Term, target


class Proof(Protocol):
    """Answers questions about values of which something is known."""

    def spend(self, steps: int) -> bool:
        """Account for work; false once there is none left to be had."""
        ...

    def differences(self, known: Known, term: Term) -> list[Difference]:
        """Return why not every value with ``known`` facts is one of ``term``; empty if each certainly is."""
        ...

    def below(self, known: Known, term: Term) -> list[Difference]:
        """The same of a member, an item or a name of the value at hand."""
        ...

    def proves(self, known: Known, term: Term) -> bool:
        """Return True if every such value certainly is one of ``term``."""
        ...

    def proves_below(self, known: Known, term: Term) -> bool:
        """The same of a member, an item or a name of the value at hand."""
        ...

    def empty(self, known: Known) -> bool:
        """Return True if there certainly is no such value."""
        ...

    def same(self, a: Term, b: Term) -> bool:
        """Return True if two schemas plainly are equal."""
        ...

    def facts(self, known: Known) -> Facts:
        """The facts that follow."""
        ...


# Why not every value of which the facts hold keeps to a keyword of the reader's schema.
Rule = Callable[[Proof, Facts, Term], list[Difference]]


UNIONS: Final = frozenset({"anyOf", "oneOf"})
# Keywords that ask their schemas about the same value: these divide it into cases themselves.
PASSED_ON: Final = frozenset({"ref", "dynamicRef", "allOf", "if"})
_REFUSED_A_STEP: Final = 128
_ITEMS_A_STEP: Final = 32


def _refer(keyword: str) -> Rule:
    def rule(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
        return proof.differences(facts.known, term.says[keyword])

    return rule


def _all_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return [found for item in term.says["allOf"] for found in proof.differences(facts.known, item)]


def _any_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _chosen(proof, facts, term, "anyOf")[1]


def _one_of(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    chosen, found = _chosen(proof, facts, term, "oneOf")
    # Unlike ``anyOf`` it is broken by a second alternative that fits, so that each of the others has to be ruled out.
    others = (item for item in term.says["oneOf"] if item is not chosen)
    if not found and not all(_apart(proof, facts, item) for item in others):
        return [undecided(term, "values may match more than one alternative", "oneOf")]
    return found


def _apart(proof: Proof, facts: Facts, item: Term) -> bool:
    """Return True if certainly no value is also one of ``item``."""
    if not proof.spend(len(facts.refused) // _REFUSED_A_STEP):
        return False
    if any(proof.same(item, refused) for refused in facts.refused):
        return True
    path = target(item).path
    partner = next((refused for refused in facts.refused if refused.path == path), None)
    if partner is not None and proof.proves(frozenset({(target(item), True)}), partner):
        return True
    return proof.empty(facts.known | {(item, True)})


def _chosen(proof: Proof, facts: Facts, term: Term, keyword: str) -> tuple[Term | None, list[Difference]]:
    """The alternative that takes all values, or why there is none."""
    items: tuple[Term, ...] = term.says[keyword]
    if not proof.spend(len(items) // _ITEMS_A_STEP):
        return None, [undecided(term, "there are too many alternatives", keyword)]
    alike = _alike(facts, items)
    # The alternative at the same place first: mostly nothing changed there, and no other need be looked at.
    partner = alike[0] if alike else None
    if partner is not None and proof.proves(facts.known, partner):
        return partner, []
    for item in items:
        # Each proof may use up what work is left: better no answer than one that takes minutes.
        if not proof.spend(0):
            return None, [undecided(term, "there are too many alternatives", keyword)]
        if item is not partner and proof.proves(facts.known, item):
            return item, []
    return None, _uncovered(proof, facts, term, keyword)


def _uncovered(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[Difference]:
    """Return why no alternative accepts all values, by the intended alternative if there is one."""
    items: tuple[Term, ...] = term.says[keyword]
    near = [item for item in items if not _apart(proof, facts, item)]
    alike = _alike(facts, items)
    named = [item for item in alike if target(item) is not item]
    meant = near if len(near) == 1 else named or [item for item in alike if item in near]
    if len(meant) == 1:
        # A reason is true of a value only if no other alternative takes it.
        others = frozenset((item, False) for item in near if item is not meant[0])
        return _meant(proof, facts.known | others, term, keyword, meant[0])
    if not near:
        return [difference("alternative_removed", term, keyword, old=_shown(facts.known))]
    return [undecided(term, "no alternative takes all values, several may together", keyword)]


def _meant(proof: Proof, known: Known, term: Term, keyword: str, item: Term) -> list[Difference]:
    found = proof.differences(known, item)
    return found or [undecided(term, "values may match more than one alternative", keyword)]


def _alike(facts: Facts, items: tuple[Term, ...]) -> list[Term]:
    """The alternatives that the writer has at the same place, once references are followed."""
    paths = {term.path for term in facts.terms}
    return [item for item in items if target(item).path in paths]


def _shown(known: Known) -> object:
    return next((term.raw for term, holds in sorted(known, key=lambda literal: literal[0].path) if holds), None)


def _not(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    refused: Term = term.says["not"]
    if refused in facts.refused or proof.empty(facts.known | {(refused, True)}):
        return []
    return [difference("not_narrowed", term, "not")]


def _if(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    condition = _find_written_condition(proof, facts, term.says["if"])
    found: list[Difference] = []
    for keyword, holds in (("then", True), ("else", False)):
        if keyword in term.says:
            found += proof.differences(facts.known | {(condition, holds)}, term.says[keyword])
    return found


def _find_written_condition(proof: Proof, facts: Facts, condition: Term) -> Term:
    """Return the writer's own term for a condition, so that it settles which of the writer's branches applies."""
    asked = (term for options in facts.splits for term, _ in options[0])
    return next((term for term in asked if proof.same(term, condition)), condition)


def _opaque(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    uri, _ = term.says["opaque"]
    return [] if term.says["opaque"] in facts.opaque else [undecided(term, f"{uri} is not understood here")]


COMBINED: Final[dict[str, Rule]] = {
    "ref": _refer("ref"),
    "dynamicRef": _refer("dynamicRef"),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "opaque": _opaque,
}
