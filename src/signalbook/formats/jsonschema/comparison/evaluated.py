"""Which members and items a schema has looked at, for its ``unevaluatedProperties`` and ``unevaluatedItems``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from signalbook.formats.jsonschema.comparison.term import Term, in_place


@dataclass(slots=True)
class Evaluated:
    """Names, patterns of names, and the number of first items; or all of them."""

    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    all_members: bool = False
    items: int = 0
    all_items: bool = False


def evaluated(term: Term, *, certain: bool) -> Evaluated:
    """What keywords beside ``unevaluated...`` look at in a valid value: surely, or possibly if not ``certain``."""
    found = Evaluated()
    seen: set[Term] = set()
    waiting = [(term, True)]
    while waiting:
        here, own = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        _look(here, found, own=own, certain=certain)
        waiting.extend((inner, False) for inner in _inner(here, certain=certain))
    return found


def _look(term: Term, found: Evaluated, *, own: bool, certain: bool) -> None:
    says = term.says
    found.names |= says.get("properties", {}).keys()
    found.patterns |= says.get("patternProperties", {}).keys()
    found.all_members |= "additionalProperties" in says or ("unevaluatedProperties" in says and not own)
    found.items = max(found.items, len(says.get("prefixItems", ())))
    found.all_items |= "items" in says or ("unevaluatedItems" in says and not own)
    if not certain:
        opaque = "opaque" in says
        found.all_members |= opaque
        found.all_items |= opaque or "contains" in says


def _inner(term: Term, *, certain: bool) -> Iterator[Term]:
    """Schemas that look at the same value, or may do so. What ``not`` has looked at does not count; it does no harm."""
    if not certain:
        yield from in_place(term)
        return
    yield from (term.says[keyword] for keyword in ("ref", "dynamicRef") if keyword in term.says)
    yield from term.says.get("allOf", ())
