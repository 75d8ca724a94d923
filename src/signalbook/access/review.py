"""Find problems of a valid policy: patterns that match nothing, and administrators who cannot do everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice
from typing import Final

from signalbook.access.base import AUTHENTICATED, Action
from signalbook.access.policy import Policy, identity_of
from signalbook.values import JSONObject
from signalbook.xid import ROOT

BESIDE: Final = ("pipelines", "metrics")
"""Names in patterns that are not Group types."""
_MAX_WARNINGS: Final = 20


def list_warnings(policy: Policy, model: JSONObject | None) -> list[str]:
    """Return warnings about ``policy``, limited to the first 20. ``model`` is the registry's model, or None
    if unknown."""
    empty_patterns = [] if model is None else _find_empty_patterns(policy, model.get("groups") or {})
    warnings = list(islice(chain(empty_patterns, _find_hindered(policy)), _MAX_WARNINGS + 1))
    return [*warnings[:_MAX_WARNINGS], "and more"] if len(warnings) > _MAX_WARNINGS else warnings


def with_warnings(policy: Policy, odd: Sequence[str]) -> JSONObject:
    """Return the document of ``policy``, with the member ``warnings`` if there are any warnings in ``odd``."""
    return {**policy.document, "warnings": list(odd)} if odd else policy.document


def list_token_warnings(policy: Policy, subject: str, groups: Iterable[str]) -> list[str]:
    """Return warnings about a token for this subject and these groups."""
    names = [f"subject:{subject}", *(f"group:{group}" for group in groups)]
    if any(map(policy.has_rules_for, names)):
        return []
    common = identity_of([f"subject:{subject}"])
    rights = "what every authenticated caller may" if policy.find_rules_about(common) else "nothing"
    return [f"no rule names {' or '.join(names)}: the token may do {rights}"]


def _find_empty_patterns(policy: Policy, groups: JSONObject) -> Iterator[str]:
    for number, rule in enumerate(policy.rules):
        for place, pattern in enumerate(rule.on):
            problem = _find_problem([part for part in pattern.split("/") if part], groups)
            if problem:
                yield f"/rules/{number}/on/{place}: {pattern} names nothing: {problem}"


def _find_problem(parts: list[str], groups: JSONObject) -> str:
    """Return the reason why a pattern cannot match anything, or an empty text."""
    if not parts:
        return ""
    types = _match_names(parts[0], groups)
    if not types:
        return (
            ""
            if _match_names(parts[0], BESIDE)
            else f"{parts[0]} is no type of groups: there are {_join_names(groups)}"
        )
    resources = {name for group_type in types for name in groups[group_type].get("resources") or {}}
    if len(parts) > 2 and not _match_names(parts[2], resources):
        return f"{parts[2]} is no type of resources there: there are {_join_names(resources)}"
    return ""


def _find_hindered(policy: Policy) -> Iterator[str]:
    """Yield the administrators who cannot configure because of a rule that denies something."""
    for principal in sorted(policy.administrators):
        identity = identity_of(dict.fromkeys((principal, AUTHENTICATED)))
        explanation = policy.explain(identity, Action.CONFIGURE, ROOT)
        if explanation.denying and not explanation.missing:
            rules = ", ".join(f"/rules/{number}" for number in explanation.denying)
            yield (
                f"{rules}: {principal} administers, and is kept from changing the model, and from deleting what this "
                "is in: that takes the right to read all that is beneath; deny some groups of people instead"
            )


def _match_names(pattern: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if fnmatchcase(name.casefold(), pattern.casefold())]


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
