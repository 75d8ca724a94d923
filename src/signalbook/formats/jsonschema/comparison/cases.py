"""How to divide the values that are known, beyond the either-or that the writer's schema has anyway."""

from __future__ import annotations

from typing import Final

from signalbook.formats.jsonschema.comparison.combined import UNIONS
from signalbook.formats.jsonschema.comparison.facts import Facts, Options, has, tagged, typed
from signalbook.formats.jsonschema.comparison.proof import Proof
from signalbook.formats.jsonschema.comparison.term import Term, target

_MAX_VALUES: Final = 32


def more_splits(proof: Proof, facts: Facts, term: Term, keyword: str) -> list[Options]:
    """By JSON type, and by the value of each member that tells the reader's alternatives apart."""
    if keyword not in UNIONS:
        return []
    found: list[Options] = []
    if len(facts.types) > 1:
        found.append(tuple(frozenset({(typed(name), True)}) for name in sorted(facts.types)))
    return found + [options for name in _tags(term.says[keyword]) if (options := _by_value(proof, facts, name))]


def _tags(items: tuple[Term, ...]) -> list[str]:
    """Members that have listed values in some alternative."""
    names: dict[str, None] = {}
    for item in items:
        for name, member in target(item).says.get("properties", {}).items():
            if {"const", "enum"} & target(member).says.keys():
                names[name] = None
    return list(names)


def _by_value(proof: Proof, facts: Facts, name: str) -> Options:
    values = proof.facts(facts.member(name)).values
    if values is None or not 1 < len(values) <= _MAX_VALUES or "object" not in facts.types:
        return ()
    options: Options = tuple(frozenset({(tagged(name, key), True)}) for key in values)
    return options if name in facts.required else (*options, frozenset({(has(name), False)}))
