"""Definitions completed by the ones they derive from (domain.md F-15 to F-22, K-12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.messages.definitions.normalise import normalise
from signalbook.values import JSON, Finding, JSONObject

# Given what a basemessageuri says, the raw definition it names, or None where there is none to be had.
Bases = Callable[[str], Mapping[str, JSON] | None]

MAX_CHAIN: Final = 64
MAX_DEPTH: Final = 64

# What identifies one entity and no other (F-19).
_OWN: Final = frozenset(
    {
        "messageid", "versionid", "self", "shortself", "xid", "epoch", "createdat", "modifiedat", "ancestorid",
        "ancestor", "isdefault", "meta", "metaurl", "versions", "versionsurl", "versionscount", "basemessageuri",
        "deprecated", "globaluri", "xref",
    }
)  # fmt: skip
_SCHEMAS: Final = frozenset({"dataschema", "dataschemauri", "dataschemaxid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialised:
    """A definition with everything its bases say that it does not say itself.

    ``chain`` are the references that were followed, ``findings`` those that could not be, and what normalising found.
    """

    definition: JSONObject
    chain: tuple[str, ...]
    findings: tuple[Finding, ...]


def materialise(raw: Mapping[str, JSON], lookup: Bases) -> Materialised:
    """Follow ``basemessage`` as far as it leads; what is nearer wins (F-18).

    A base that is not there, or that leads back, ends the chain with a warning: never an error (F-16, F-17).
    """
    definition, findings = normalise(raw)
    layers, chain = [definition], list[str]()
    own = definition.get("xid")
    seen = {str(own)} if own else set()
    # References are compared, not definitions: one base may be reached under several spellings, so the length of the
    # chain is bounded as well.
    while (reference := _base_of(layers[-1])) is not None:
        if reference in seen or len(chain) == MAX_CHAIN:
            findings.append(_warning("basemessage_cycle", f"the chain of base messages leads back to {reference}"))
            break
        base = lookup(reference)
        if not isinstance(base, Mapping):
            findings.append(_warning("basemessage_unresolved", f"there is no base message {reference}"))
            break
        layer, more = normalise(base)
        findings += more
        layers.append(layer)
        chain.append(reference)
        seen.add(reference)
    return Materialised(definition=_layered(layers), chain=tuple(chain), findings=tuple(findings))


def _base_of(definition: JSONObject) -> str | None:
    reference = definition.get("basemessageuri")
    return reference.removeprefix("#") if isinstance(reference, str) and reference else None


def _layered(layers: list[JSONObject]) -> JSONObject:
    """From the farthest base to the definition itself."""
    result: JSONObject = {}
    # Folded from the far end, so that a null in a nearer layer removes what a farther one said.
    for base in reversed(layers[1:]):
        result = _over(result, {name: value for name, value in base.items() if name not in _OWN})
    return _over(result, layers[0])


def _over(base: JSONObject, over: JSONObject) -> JSONObject:
    base = dict(base)
    # The ways to name a schema exclude each other: whoever states one must not inherit another one beside it.
    if any(over.get(name) is not None for name in _SCHEMAS):
        for name in _SCHEMAS:
            base.pop(name, None)
    protocol = over.get("protocol")
    # Options of another protocol mean nothing here, and merged member by member they would be a mixture of both.
    if protocol is not None and base.get("protocol") not in (None, protocol):
        base.pop("protocoloptions", None)
    merged: JSONObject = merge(base, over)
    return merged


def merge(base: JSON, over: JSON, depth: int = 0) -> JSON:
    """``over`` laid over ``base``: objects member by member, ``null`` deletes, anything else replaces (F-18)."""
    if not isinstance(over, dict):
        return over
    merged = dict(base) if isinstance(base, dict) else {}
    for name, value in over.items():
        if value.__class__ is str:  # most are
            merged[name] = value
        elif value is None:
            merged.pop(name, None)
        elif depth < MAX_DEPTH:
            merged[name] = merge(merged.get(name), value, depth + 1)
        else:
            merged[name] = value
    return merged


def _warning(rule: str, message: str) -> Finding:
    return Finding(path="basemessage", rule=rule, message=message, severity="warning")
