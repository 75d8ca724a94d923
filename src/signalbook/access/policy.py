"""The policy: rules that say who may do what on which xids, read from a document and indexed for decisions.

A pattern of a rule matches the entity it names and everything under it. A rule that denies overrides all rules that
allow, and an action that no rule allows is denied. Decisions depend on rules and xids alone, never on stored entities,
so they do not reveal what exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from signalbook.access.base import (
    ACTIONS,
    ANYONE,
    AUTHENTICATED,
    NOTHING,
    ROLES,
    WHOLE,
    WRITES,
    Action,
    Identity,
    words,
)
from signalbook.access.decisions import Access, Decisions, RuleTree, scope_of
from signalbook.errors import SignalbookError
from signalbook.values import JSON, Finding, JSONObject, fingerprint
from signalbook.xid import Xid

MAX_RULES: Final = 100_000
MAX_FAULTS: Final = 100
_MOST_LISTED: Final = 1000
"""The maximum number of members in one list of a rule."""
_DEPTH: Final = 4
_PRINCIPAL_KINDS: Final = ("subject", "group", "token")
PRINCIPALS: Final = f'"subject:NAME", "group:NAME", "token:ID", "{AUTHENTICATED}" or "{ANYONE}"'
"""The allowed values of ``who`` in a rule, for error messages."""
_BETWEEN: Final = re.compile(",(?=(?:subject|group|token):|(?:anyone|authenticated)(?:,|$))")
_MAX_TEXT_CHARS: Final = 512
"""The maximum length of a principal, and of a rule's description."""
_PATTERN: Final = re.compile(r"/|(/[A-Za-z0-9_*][A-Za-z0-9._~:@*-]{0,127})+", re.ASCII)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RULE_MEMBERS: Final = frozenset({"who", "role", "allow", "deny", "on", "description"})
_MAX_CACHED: Final = 1024
"""The maximum number of cached identities, and of cached trees of rules."""


class InvalidPolicy(SignalbookError):
    """A document is not a valid policy. ``faults`` are all findings, each with its path."""

    def __init__(self, faults: Iterable[Finding]) -> None:
        self.faults = tuple(faults)
        super().__init__("the policy cannot be used:\n" + "\n".join(f"  {fault}" for fault in self.faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: allows or denies ``who`` some actions on the entities that the patterns ``on`` match."""

    who: frozenset[str]
    on: tuple[str, ...] = ("/",)
    allow: Action = NOTHING
    deny: Action = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The outcome of a decision and its reasons: the numbers of the rules, from 0, that allow or deny the action.

    ``missing`` are the needed actions that no rule allows. ``narrowed`` is True if the scopes of a token deny an action
    that the rules allow. ``beneath`` is True if only a rule about something further down denies it, because the action
    needs rights there, too.
    """

    allowed: bool
    allowing: tuple[int, ...]
    denying: tuple[int, ...]
    missing: tuple[str, ...] = ()
    narrowed: bool = False
    beneath: bool = False

    @property
    def reason(self) -> str:
        """The reason for the decision as a phrase."""
        if self.allowed:
            return f"allowed by {_format_rule_numbers(self.allowing)}" if self.allowing else "access is open"
        if self.denying:
            beneath = ": it takes rights on all that is beneath, too" if self.beneath else ""
            return f"denied by {_format_rule_numbers(self.denying)}{beneath}"
        if self.missing:
            return f"no rule allows to {' or to '.join(self.missing)}"
        return "the scopes of the token leave it out"

    def to_json(self, policy: Policy) -> JSONObject:
        """Return the explanation as JSON, with the rules of ``policy`` in place of their numbers."""

        def list_rules(numbers: tuple[int, ...]) -> list[JSONObject]:
            return [{"rule": number, **policy.document["rules"][number]} for number in numbers]

        return {
            "allowed": self.allowed,
            "reason": self.reason,
            "allowing": list_rules(self.allowing),
            "denying": list_rules(self.denying),
            "missing": list(self.missing),
        }


def _format_rule_numbers(rules: tuple[int, ...]) -> str:
    return f"{'rule' if len(rules) == 1 else 'rules'} {', '.join(map(str, rules))} (the first is rule 0)"


class Policy:
    """Rules, indexed by the principals they name. ``document`` is the JSON they were read from, ``revision`` its
    fingerprint."""

    def __init__(self, rules: Iterable[Rule], document: JSONObject) -> None:
        self.rules = tuple(rules)
        self.document = document
        self.revision = fingerprint(document)
        about: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            for principal in rule.who:
                about.setdefault(principal, []).append(number)
        # Principals with the same rules share one tree, since building a tree takes time and memory.
        sets: dict[tuple[int, ...], int] = {}
        self._about = {who: sets.setdefault(tuple(numbers), len(sets)) for who, numbers in about.items()}
        self._sets = tuple(sets)
        self._tree: Callable[[int], RuleTree] = lru_cache(maxsize=_MAX_CACHED)(self._make_tree)
        self.access: Callable[[Identity], Access] = lru_cache(maxsize=_MAX_CACHED)(self._compute_access)
        """The cached function that returns the rights of an identity."""

    def _compute_access(self, identity: Identity) -> Access:
        sets = self._find_sets_about(identity)
        scopes = None if identity.scopes is None else _combine_actions(identity.scopes)
        return Access(identity, map(self._tree, sets), scopes=scopes, key=(self.revision, sets, scopes))

    def explain(self, identity: Identity, action: Action, xid: Xid) -> Explanation:
        """Explain whether ``identity`` may do ``action`` on ``xid``.

        Writing needs the right to read, too. Some actions need rights on everything under the xid.
        """
        whole = scope_of(action, xid)
        needed = action | Action.READ if action in WRITES or whole is not None else action
        allowing, denying, granted, refused = [], [], NOTHING, NOTHING
        for number in self.find_rules_about(identity):
            decisions = Decisions([RuleTree([self.rules[number]])])
            allow, deny, below, denied = map(Action, decisions.decide((whole or xid).parts))
            refused |= deny & needed
            if whole is not None:
                deny |= denied
            else:
                # Reading an entity includes reading the attributes of its parents, and reading in a collection includes
                # listing it.
                allow |= below & Action.READ
            if action is Action.LIST and allow & Action.READ:
                allow |= Action.LIST
            if allow & needed:
                allowing.append(number)
                granted |= allow & needed
            if deny & needed:
                denying.append(number)
        return Explanation(
            allowed=self.access(identity).may(action, xid),
            allowing=tuple(allowing),
            denying=tuple(denying),
            missing=tuple(words(needed & ~granted)),
            narrowed=not self.access(identity).may(action, xid)
            and self.access(replace(identity, scopes=None)).may(action, xid),
            beneath=bool(denying) and not refused,
        )

    @property
    def administrators(self) -> frozenset[str]:
        """The principals, except ``anyone``, that some rule allows to administer and no rule forbids to.

        Empty if a rule denies it to ``anyone`` or ``authenticated``.
        """
        allowed = {who for rule in self.rules if rule.allow & Action.ADMINISTER for who in rule.who}
        denied = {who for rule in self.rules if rule.deny & Action.ADMINISTER for who in rule.who}
        return frozenset() if denied & {ANYONE, AUTHENTICATED} else frozenset(allowed - denied - {ANYONE})

    def has_rules_for(self, principal: str) -> bool:
        """Return True if a rule names ``principal``, such as ``group:payments``."""
        return principal in self._about

    @property
    def names_groups(self) -> bool:
        """True if a rule names a group. Then the rights of a person are unknown while the person's groups
        are unknown."""
        return any(who.startswith("group:") for who in self._about)

    def find_rules_about(self, identity: Identity) -> list[int]:
        """Return the numbers of the rules about an identity."""
        return sorted({number for about in self._find_sets_about(identity) for number in self._sets[about]})

    def _find_sets_about(self, identity: Identity) -> tuple[int, ...]:
        """Return the numbers of the sets of rules that apply to an identity."""
        return tuple(sorted({self._about[who] for who in identity.principals if who in self._about}))

    def _make_tree(self, number: int) -> RuleTree:
        return RuleTree(self.rules[rule] for rule in self._sets[number])


def read_policy(document: JSON) -> Policy:
    """Read the policy in a JSON document: an object with the list ``rules``. Raises ``InvalidPolicy``.

    A rule is an object. ``who`` is a list of ``subject:NAME``, ``group:NAME``, ``token:ID``, ``authenticated`` and
    ``anyone``. Exactly one of ``role``, ``allow`` and ``deny`` names a role or lists actions. ``on`` is a list of
    patterns; the default is ``/``, everything. ``description`` is for people.
    """
    reader = _PolicyReader()
    rules = tuple(reader.rules(document))
    if reader.faults:
        raise InvalidPolicy(reader.faults)
    return Policy(rules, document)


def is_principal(text: str) -> bool:
    """Return True if rules may contain ``text`` as a principal."""
    kind, _, name = text.partition(":")
    return text in (ANYONE, AUTHENTICATED) or (
        kind in _PRINCIPAL_KINDS and 0 < len(name) <= _MAX_TEXT_CHARS and name.isprintable()
    )


def split_principals(text: str) -> list[str]:
    """Split ``text`` at commas into principals. The name of a subject may contain commas."""
    return _BETWEEN.split(text)


def check_principals(names: Iterable[str]) -> None:
    """Raise ``ValueError`` if one of ``names`` is not a valid principal."""
    for text in names:
        if not is_principal(text):
            raise ValueError(f"{text[:100]!r} names nobody: it is {PRINCIPALS}")


def identity_of(names: Iterable[str]) -> Identity:
    """Return the identity with these principals. Raises ``ValueError``, which says what is wrong with them."""
    names_by_kind: dict[str, list[str]] = {kind: [] for kind in _PRINCIPAL_KINDS}
    principals = tuple(names)
    check_principals(principals)
    for text in principals:
        kind, _, name = text.partition(":")
        names_by_kind.setdefault(kind, []).append(name)
    if len(names_by_kind["subject"]) > 1 or len(names_by_kind["token"]) > 1:
        raise ValueError("nobody has several subjects or tokens: name one, and any number of groups")
    # A caller who is only known to be authenticated gets a subject that no rule can name.
    nameless = "\0" if AUTHENTICATED in principals else ""
    return Identity(
        subject="".join(names_by_kind["subject"]) or nameless,
        token="".join(names_by_kind["token"]),
        groups=frozenset(names_by_kind["group"]),
    )


def _combine_actions(names: Iterable[str]) -> Action:
    """Return the actions with these names, combined. Unknown names are ignored."""
    actions = NOTHING
    for name in names:
        actions |= ACTIONS.get(name, NOTHING)
    return actions


class _PolicyReader:
    """Reads a policy document and collects its findings."""

    def __init__(self) -> None:
        self.faults: list[Finding] = []

    def rules(self, document: JSON) -> Iterator[Rule]:
        """Yield the rules that can be read. Findings are added to ``faults``."""
        if not isinstance(document, dict):
            self._add_finding("", "type", 'a policy is a JSON object with the list "rules"')
            return
        self._check_names(document, "", frozenset({"rules"}))
        rules = document.get("rules")
        if not isinstance(rules, list):
            self._add_finding("/rules", "required" if rules is None else "type", "it is the list of rules")
            return
        if len(rules) > MAX_RULES:
            self._add_finding("/rules", "maxItems", f"there are at most {MAX_RULES} rules")
            return
        for number, rule in enumerate(rules):
            if len(self.faults) >= MAX_FAULTS:
                return
            path = f"/rules/{number}"
            if isinstance(rule, dict):
                yield self._read_rule(rule, path)
            else:
                self._add_finding(path, "type", "a rule is a JSON object")

    def _read_rule(self, rule: JSONObject, path: str) -> Rule:
        self._check_names(rule, path, _RULE_MEMBERS)
        description = rule.get("description", "")
        # YAML may escape one half of a surrogate pair, which UTF-8 cannot encode.
        if not isinstance(description, str) or len(description) > _MAX_TEXT_CHARS or _SURROGATE.search(description):
            self._add_finding(f"{path}/description", "type", f"it is a text of at most {_MAX_TEXT_CHARS} characters")
        who = frozenset(self._read_who(rule, f"{path}/who"))
        on = tuple(self._read_on(rule, f"{path}/on")) if "on" in rule else ("/",)
        effects = [name for name in ("role", "allow", "deny") if name in rule]
        if len(effects) != 1:
            self._add_finding(path, "required", 'a rule has one of "role", "allow" and "deny"')
            return Rule(who=who, on=on)
        actions = (
            self._read_role(rule["role"], path) if effects == ["role"] else self._read_actions(rule, effects[0], path)
        )
        if actions & WHOLE and any(pattern != "/" for pattern in on):
            whole = " and ".join(words(actions & WHOLE))
            self._add_finding(
                f"{path}/on", "value", f'to {whole} is of the whole registry: leave out "on", or the action'
            )
        return Rule(who=who, on=on, deny=actions) if effects == ["deny"] else Rule(who=who, on=on, allow=actions)

    def _read_role(self, role: JSON, path: str) -> Action:
        if isinstance(role, str) and role in ROLES:
            return ROLES[role]
        self._add_finding(f"{path}/role", "enum", f"it is one of {', '.join(ROLES)}")
        return NOTHING

    def _read_actions(self, rule: JSONObject, name: str, path: str) -> Action:
        actions = NOTHING
        for place, action in self._read_texts(rule, name, f"{path}/{name}"):
            if action in ACTIONS:
                actions |= ACTIONS[action]
            else:
                self._add_finding(place, "enum", f"it is one of {', '.join(ACTIONS)}")
        return actions

    def _read_who(self, rule: JSONObject, path: str) -> Iterator[str]:
        for place, text in self._read_texts(rule, "who", path):
            if is_principal(text):
                yield text
            else:
                self._add_finding(place, "value", f"it is {PRINCIPALS}")

    def _read_on(self, rule: JSONObject, path: str) -> Iterator[str]:
        for place, text in self._read_texts(rule, "on", path):
            pattern = text.removesuffix("/") if len(text) > 1 and not text.endswith("//") else text
            if not _PATTERN.fullmatch(pattern):
                self._add_finding(
                    place, "value", "it is a path such as /schemagroups/payments*/schemas, or / for everything"
                )
            elif pattern.count("/") > _DEPTH:
                self._add_finding(place, "value", "rules end at Resources: a Version has the rights of its Resource")
            else:
                yield pattern

    def _read_texts(self, rule: JSONObject, name: str, path: str) -> Iterator[tuple[str, str]]:
        """Yield the texts of a list, each with its path."""
        listed = rule.get(name)
        if not isinstance(listed, list) or not listed or len(listed) > _MOST_LISTED:
            fault = "required" if listed is None else "type"
            self._add_finding(path, fault, f"it is a list of 1 to {_MOST_LISTED} texts")
            return
        for number, text in enumerate(listed):
            if isinstance(text, str):
                yield f"{path}/{number}", text
            else:
                self._add_finding(f"{path}/{number}", "type", "it is a text")

    def _check_names(self, members: JSONObject, path: str, allowed: frozenset[str]) -> None:
        for name in members:
            if name not in allowed:
                printable = _SURROGATE.sub("?", name[:_MAX_TEXT_CHARS])
                self._add_finding(f"{path}/{printable}", "unknown", f"there are only {', '.join(sorted(allowed))}")

    def _add_finding(self, path: str, rule: str, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Finding(path=path, rule=rule, message=message))
