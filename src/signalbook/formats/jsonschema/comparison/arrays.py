"""Arrays: what the reader asks of them against what is known."""

from __future__ import annotations

from typing import Final

from signalbook.formats.compatibility import Difference
from signalbook.formats.jsonschema.comparison.evaluated import evaluated
from signalbook.formats.jsonschema.comparison.explain import difference, undecided
from signalbook.formats.jsonschema.comparison.facts import Facts
from signalbook.formats.jsonschema.comparison.proof import Proof, Rule
from signalbook.formats.jsonschema.comparison.scalars import at_least, at_most
from signalbook.formats.jsonschema.comparison.term import Term


def _prefix_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    found: list[Difference] = []
    for index, item in enumerate(term.says["prefixItems"]):
        if facts.size.high is not None and index >= facts.size.high:
            break
        known = facts.item(index)
        below = proof.below(known, item)
        if below and not known:
            below = [difference("item_added_to_open_content_model", item, name=index)]
        found += below
    return found


def _items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    return _rest(proof, facts, term, "items", len(term.says.get("prefixItems", ())))


def _unevaluated_items(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    seen = evaluated(term, certain=True)
    return [] if seen.all_items else _rest(proof, facts, term, "unevaluatedItems", seen.items)


def _rest(proof: Proof, facts: Facts, term: Term, keyword: str, start: int) -> list[Difference]:
    """What is asked of all items from ``start`` on."""
    item: Term = term.says[keyword]
    end = max(start, facts.prefix)
    if facts.size.high is not None:
        end = min(end, facts.size.high)
    found: list[Difference] = []
    for index in range(start, end):
        below = proof.below(facts.item(index), item)
        closed = below and "never" in item.says
        found += [difference("item_removed_from_closed_content_model", term, keyword, name=index)] if closed else below
    if facts.size.high is None or facts.size.high > max(start, facts.prefix):
        below = proof.below(facts.item(max(start, facts.prefix)), item)
        closed = below and "never" in item.says
        found += [difference("additional_items_removed", term, keyword)] if closed else below
    return found


def _unique_items(_: Proof, facts: Facts, term: Term) -> list[Difference]:
    single = facts.size.high is not None and facts.size.high <= 1
    return [] if facts.unique or single else [difference("unique_items_added", term, "uniqueItems")]


def _contains(proof: Proof, facts: Facts, term: Term) -> list[Difference]:
    least, most = term.says.get("minContains", 1), term.says.get("maxContains")
    found = [] if _enough(proof, facts, term, least) else [difference("contains_narrowed", term, "contains")]
    if most is not None and not _not_too_many(proof, facts, term, most):
        found.append(undecided(term, f"more than {most} items may match", "maxContains"))
    return found


def _enough(proof: Proof, facts: Facts, term: Term, least: int) -> bool:
    """Whether at least so many items surely match."""
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


def _not_too_many(proof: Proof, facts: Facts, term: Term, most: int) -> bool:
    """Whether surely no more than so many items match."""
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
