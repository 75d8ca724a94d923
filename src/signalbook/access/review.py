"""What is odd about a sound policy, and still allowed: patterns that name nothing, administrators who cannot do all."""

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
"""What patterns may name that is no type of Groups."""
_MOST: Final = 20


def warnings(policy: Policy, model: JSONObject | None) -> list[str]:
    """The first things that are odd, in words. ``model`` is that of the registry, None if it is not known."""
    named = [] if model is None else _names_nothing(policy, model.get("groups") or {})
    found = list(islice(chain(named, _hindered(policy)), _MOST + 1))
    return [*found[:_MOST], "and more"] if len(found) > _MOST else found


def with_warnings(policy: Policy, odd: Sequence[str]) -> JSONObject:
    """A policy that was put in force, as it was written, with the ``warnings`` about it if there are any."""
    return {**policy.document, "warnings": list(odd)} if odd else policy.document


def token_warnings(policy: Policy, subject: str, groups: Iterable[str]) -> list[str]:
    """Return warnings about a token for this subject and these groups."""
    names = [f"subject:{subject}", *(f"group:{group}" for group in groups)]
    if any(map(policy.names, names)):
        return []
    common = identity_of([f"subject:{subject}"])
    rest = "what every authenticated caller may" if policy.rules_about(common) else "nothing"
    return [f"no rule names {' or '.join(names)}: the token may do {rest}"]


def _names_nothing(policy: Policy, groups: JSONObject) -> Iterator[str]:
    for number, rule in enumerate(policy.rules):
        for place, pattern in enumerate(rule.on):
            problem = _problem([part for part in pattern.split("/") if part], groups)
            if problem:
                yield f"/rules/{number}/on/{place}: {pattern} names nothing: {problem}"


def _problem(parts: list[str], groups: JSONObject) -> str:
    """Return the reason why a pattern cannot match anything, or an empty text."""
    if not parts:
        return ""
    types = _matching(parts[0], groups)
    if not types:
        return "" if _matching(parts[0], BESIDE) else f"{parts[0]} is no type of groups: there are {_listed(groups)}"
    known = {name for each in types for name in groups[each].get("resources") or {}}
    if len(parts) > 2 and not _matching(parts[2], known):
        return f"{parts[2]} is no type of resources there: there are {_listed(known)}"
    return ""


def _hindered(policy: Policy) -> Iterator[str]:
    """Administrators whom a rule that denies something keeps from configuring."""
    for principal in sorted(policy.administrators):
        identity = identity_of(dict.fromkeys((principal, AUTHENTICATED)))
        found = policy.explain(identity, Action.CONFIGURE, ROOT)
        if found.denying and not found.missing:
            rules = ", ".join(f"/rules/{number}" for number in found.denying)
            yield (
                f"{rules}: {principal} administers, and is kept from changing the model, and from deleting what this "
                "is in: that takes the right to read all that is beneath; deny some groups of people instead"
            )


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if fnmatchcase(name.casefold(), pattern.casefold())]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
