"""Decide what an identity may do on an xid, in microseconds, whatever the number of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from fnmatch import translate
from itertools import islice
from typing import Final, NamedTuple, Protocol

from signalbook.access.base import (
    ANONYMOUS,
    EVERYTHING,
    WRITES,
    Action,
    Forbidden,
    Identity,
    RequestOrigin,
)
from signalbook.xid import ROOT, Xid

_DEPTH: Final = 4
"""The number of parts in a Resource's path. Rules cannot address anything deeper."""
_MAX_STATES: Final = 1 << 10
"""The number of collections whose state is cached for each identity."""
# Plain integers: each operation on a flag creates a new flag object, which takes longer than all other work here.
_LIST: Final = Action.LIST.value
_READ: Final = Action.READ.value
_CREATE: Final = Action.CREATE.value
_WRITES: Final = WRITES.value
_ALL: Final = EVERYTHING.value

Decision = tuple[int, int, int, int]
"""Actions allowed on an xid, denied on it, allowed on something below it, and denied on something below it."""


class _Rule(Protocol):
    @property
    def on(self) -> tuple[str, ...]: ...
    @property
    def allow(self) -> Action: ...
    @property
    def deny(self) -> Action: ...


class _Patterns:
    """Patterns with a ``*``, indexed by the text before the first ``*``, or after the last ``*`` if that text is
    longer.

    A part is looked up by its own prefixes and suffixes of the indexed lengths, so that ten thousand patterns cost no
    more than one.
    """

    def __init__(self) -> None:
        self._starts: dict[int, dict[str, dict[str, _Pattern]]] = {}
        self._ends: dict[int, dict[str, dict[str, _Pattern]]] = {}

    def add(self, pattern: str) -> _Node:
        """Return the node that follows ``pattern``, created if it is new."""
        before, behind = pattern.partition("*")[0], pattern.rpartition("*")[2]
        tables, text = (self._starts, before) if len(before) >= len(behind) else (self._ends, behind)
        patterns = tables.setdefault(len(text), {}).setdefault(text, {})
        if pattern not in patterns:
            # If the only * is at the end, the lookup has compared the whole prefix. A translated pattern never
            # backtracks.
            matches = None if pattern == f"{before}*" else re.compile(translate(pattern)).match
            patterns[pattern] = (matches, _Node())
        return patterns[pattern][1]

    def items(self) -> Iterator[tuple[str, _Node]]:
        """Yield all patterns, each with the node after it."""
        for table in (*self._starts.values(), *self._ends.values()):
            for patterns in table.values():
                yield from ((pattern, node) for pattern, (_, node) in patterns.items())

    def behind(self, part: str) -> Iterator[_Node]:
        """Yield the nodes that follow the patterns that match ``part``."""
        for length, table in self._starts.items():
            yield from _match_part(part, table.get(part[:length]))
        for length, table in self._ends.items():
            yield from _match_part(part, table.get(part[-length:]))


def _match_part(part: str, patterns: dict[str, _Pattern] | None) -> Iterator[_Node]:
    for matches, node in patterns.values() if patterns else ():
        if matches is None or matches(part):
            yield node


class _Node:
    """A position in the tree of patterns: the actions allowed and denied there and below, and the next parts."""

    __slots__ = ("allow", "below_allow", "below_deny", "deny", "literals", "patterns")

    def __init__(self) -> None:
        self.allow = self.deny = self.below_allow = self.below_deny = 0
        self.literals: dict[str, _Node] = {}
        self.patterns: _Patterns | None = None

    def add(self, part: str) -> _Node:
        """Return the node that follows the pattern ``part``, created if it is new."""
        if "*" not in part:
            return self.literals.setdefault(part, _Node())
        if self.patterns is None:
            self.patterns = _Patterns()
        return self.patterns.add(part)

    def behind(self, part: str) -> Iterator[_Node]:
        """Yield the nodes that follow the literals and patterns that match ``part``."""
        literal = self.literals.get(part)
        if literal is not None:
            yield literal
        if self.patterns is not None:
            yield from self.patterns.behind(part)

    def items(self) -> Iterator[tuple[str, _Node]]:
        """Yield each literal or pattern that can follow, with its node."""
        yield from self.literals.items()
        if self.patterns is not None:
            yield from self.patterns.items()

    def sum_up(self) -> None:
        """Compute the actions allowed and denied below each node. Call this once, after all patterns were added."""
        for _, node in self.items():
            node.sum_up()
            self.below_allow |= node.allow | node.below_allow
            self.below_deny |= node.deny | node.below_deny


_Pattern = tuple[Callable[[str], object] | None, _Node]
"""A test of a part (None if the lookup already compared everything), and the node that follows the part."""
_State = tuple[tuple[_Node, ...], int, int]
"""The nodes that match an xid, and the actions allowed and denied there."""


class RuleTree:
    """Rules as a tree of the parts of their patterns."""

    __slots__ = ("root",)

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self.root = _Node()
        for rule in rules:
            for pattern in rule.on:
                node = self.root
                for part in filter(None, pattern.casefold().split("/")):
                    node = node.add(part)
                node.allow |= rule.allow.value
                node.deny |= rule.deny.value
        self.root.sum_up()


class ReadingRules(NamedTuple):
    """Patterns for reading, folded and split into parts. Each covers the entity it matches and everything below it."""

    allowed: tuple[tuple[str, ...], ...]
    denied: tuple[tuple[str, ...], ...]


def _iterate_reading_rules(
    node: _Node, parts: tuple[str, ...] = (), *, allowed: bool = False, denied: bool = False
) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield the patterns about reading, each as (True if it allows reading, its parts).

    A pattern is left out if ``allowed`` or ``denied`` says that a pattern above it has the same effect. A denied
    pattern may be yielded as allowed, too, because that makes the Group visible that contains it.
    """
    if node.deny & _READ and not denied:
        denied = True
        yield False, parts
    if node.allow & _READ and not allowed:
        allowed = True
        yield True, parts
    if ((0 if allowed else node.below_allow) | (0 if denied else node.below_deny)) & _READ:
        for part, behind in node.items():
            yield from _iterate_reading_rules(behind, (*parts, part), allowed=allowed, denied=denied)


class Decisions:
    """The joint decisions of several trees of rules. It is thread-safe."""

    def __init__(self, trees: Iterable[RuleTree]) -> None:
        self._start = _build_state(tree.root for tree in trees)
        self._known: dict[tuple[str, ...], _State] = {(): self._start}
        self._reading: dict[int, ReadingRules | None] = {}

    def decide(self, parts: tuple[str, ...]) -> Decision:
        """Return the decision for the xid with these ``parts``."""
        nodes, allow, deny = self._find_state(parts)
        below_allow = below_deny = 0
        for node in nodes:
            below_allow |= node.below_allow
            below_deny |= node.below_deny
        return allow, deny, below_allow, below_deny

    def literals(self, parts: tuple[str, ...], actions: int) -> frozenset[str] | None:
        """Return the parts, folded, that may follow ``parts`` and lead to something that allows any of ``actions``.

        None means that any part may follow, because a pattern with ``*`` applies.
        """
        nodes = self._find_state(parts)[0]
        if any(node.patterns for node in nodes):
            return None
        children = (item for node in nodes for item in node.literals.items())
        return frozenset(part for part, node in children if (node.allow | node.below_allow) & actions)

    def reading(self, most: int) -> ReadingRules | None:
        """Return all rules about reading, or None if they are more than ``most`` patterns."""
        if most not in self._reading:
            unlimited = islice((rule for node in self._start[0] for rule in _iterate_reading_rules(node)), most + 1)
            rules = tuple(dict.fromkeys(unlimited))
            allowed, denied = (tuple(parts for may, parts in rules if may is which) for which in (True, False))
            self._reading[most] = None if len(rules) > most else ReadingRules(allowed, denied)
        return self._reading[most]

    def _find_state(self, parts: tuple[str, ...]) -> _State:
        parts = parts[:_DEPTH]
        return _step(self._find_state_above(parts[:-1]), parts[-1]) if parts else self._start

    def _find_state_above(self, parts: tuple[str, ...]) -> _State:
        """Return the state at a collection or a part of its path. It is cached, since most collections have many
        members."""
        state = self._known.get(parts)
        if state is None:
            state = _step(self._find_state_above(parts[:-1]), parts[-1])
            if len(self._known) >= _MAX_STATES:
                self._known = {(): self._start}
            self._known[parts] = state
        return state


def _step(state: _State, part: str) -> _State:
    nodes, allow, deny = state
    part = part.casefold()
    return _build_state((behind for node in nodes for behind in node.behind(part)), allow, deny)


def _build_state(nodes: Iterable[_Node], allow: int = 0, deny: int = 0) -> _State:
    there = tuple(nodes)
    for node in there:
        allow |= node.allow
        deny |= node.deny
    return there, allow, deny


def scope_of(action: Action, xid: Xid) -> Xid | None:
    """Return the xid under which everything must be allowed and readable for ``action``, or None if ``xid`` alone
    matters.

    Deleting also deletes everything under the xid. Configuring needs the whole registry, because the error for a model
    that does not fit names entities.
    """
    if action is Action.CONFIGURE:
        return ROOT
    return xid if action is Action.DELETE and len(xid.parts) < _DEPTH else None


class Access:
    """The rights of one ``identity``. Equal ``key``s mean equal rights, so responses can be cached by key.

    Meta and Versions have the rights of their Resource. A caller that can read an entity can read the attributes of its
    Group and of the Registry, unless these are denied. ``scopes`` limit the rights to some actions.
    """

    __slots__ = ("_rules", "_scopes", "caller", "identity", "key", "origin", "unrestricted")

    def __init__(
        self, identity: Identity, trees: Iterable[RuleTree], *, key: Hashable, scopes: Action | None = None
    ) -> None:
        self.identity = identity
        self.key = key
        self.unrestricted = key is None
        """True for ``UNRESTRICTED`` and copies of it made by ``at``."""
        self.caller: Hashable = identity.token or (identity.subject and (identity.issuer, identity.subject)) or None
        """The key by which limits identify the caller; None means that its address identifies it."""
        self.origin: RequestOrigin | None = None
        self._rules = Decisions(trees)
        self._scopes = _ALL if scopes is None else scopes.value

    def at(self, origin: RequestOrigin) -> Access:
        """Return the same rights with the ``origin`` of a request, which the audit log records."""
        access = copy(self)
        access.origin = origin
        return access

    @property
    def reads_everything(self) -> bool:
        """True if the caller can read every entity."""
        return self.allows_everything_below(Action.READ, ROOT)

    def may(self, action: Action, xid: Xid) -> bool:
        """Return True if ``action`` is allowed on an entity or collection.

        Changing an entity needs the right to read it; deleting and configuring need it for everything under it
        (``scope_of``).
        """
        if action is Action.READ:
            return self.is_readable(xid)
        if action is Action.LIST:
            return self._can_list(xid)
        whole = scope_of(action, xid)
        if whole is not None:
            return self.allows_everything_below(action, whole)
        return self._allows(action, xid) and (not action.value & _WRITES or self.is_readable(xid))

    def require(self, action: Action, xid: Xid) -> None:
        """Raise ``Forbidden`` if ``may`` is false. The error says which right is missing, and names nothing below
        ``xid``."""
        if self.may(action, xid):
            return
        whole, why = scope_of(action, xid), ""
        if action is Action.READ and not xid.parts:
            why = f"you are {self.identity.name}, and no rule lets you read anything here"
        elif whole is not None and self._allows(action, whole) and self.is_readable(whole):
            acts = "read" if action is Action.CONFIGURE else f"read and {action.word}"
            why = f"you need the right to {acts} everything under it, and a rule denies you part of that"
        raise Forbidden(action, xid, why)

    def is_readable(self, xid: Xid) -> bool:
        """Return True if the xid is visible: it is readable, or contains something readable."""
        allow, deny, below, _ = self._rules.decide(xid.parts)
        return bool((allow | below) & ~deny & self._scopes & _READ)

    def allows_everything_below(self, action: Action, xid: Xid) -> bool:
        """Return True if ``action`` and reading are allowed on the xid and on everything that can be under it."""
        allow, deny, _, below = self._rules.decide(xid.parts)
        return not (action.value | _READ) & ~(allow & ~deny & ~below & self._scopes)

    def allows_somewhere(self, action: Action, xid: Xid = ROOT) -> bool:
        """Return True if ``action`` is allowed on the xid or on anything that can be under it."""
        if action is Action.CONFIGURE:
            return self.may(action, ROOT)
        allow, deny, below, _ = self._rules.decide(xid.parts)
        return bool((allow | below) & ~deny & self._scopes & action.value)

    def find_readable_ids(self, collection: Xid) -> frozenset[str] | None:
        """Return the folded ids of a collection that may be readable, or None if any id may be."""
        allow, _, _, _ = self._rules.decide(collection.parts)
        return None if allow & _READ else self._rules.literals(collection.parts, _READ)

    def list_reading_rules(self, most: int) -> ReadingRules | None:
        """Return the patterns that separate readable from hidden entities, or None if there are more than ``most``."""
        return self._rules.reading(most) if self._scopes & _READ else ReadingRules((), ())

    def can_see_all_ids(self, collection: Xid) -> bool:
        """Return True if the caller may see the ids of all members of a collection, readable or not (A-9).

        This needs the right to list the collection or to create in it. Being able to read some members is not enough.
        """
        allow, deny, _, _ = self._rules.decide(collection.parts)
        allowed = allow & ~deny & self._scopes
        return bool(not deny & _LIST and allowed & (_LIST | _CREATE))

    def _allows(self, action: Action, xid: Xid) -> bool:
        allow, deny, _, _ = self._rules.decide(xid.parts)
        return bool(allow & ~deny & self._scopes & action.value)

    def _can_list(self, xid: Xid) -> bool:
        allow, deny, below, _ = self._rules.decide(xid.parts)
        # A caller that can read something in a collection may list it, because the list shows only what it can read.
        listing = (allow | (below & _READ)) & ~deny & self._scopes & (_LIST | _READ)
        return bool(listing and not deny & _LIST)


class _Everything:
    on = ("/",)
    allow = EVERYTHING
    deny = Action(0)


UNRESTRICTED: Final = Access(ANONYMOUS, [RuleTree([_Everything()])], key=None)
"""The rights of the program itself, and of all callers while access is open."""
