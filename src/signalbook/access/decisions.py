"""Decisions: what one identity may do on an xid, in microseconds, whatever the number of rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Protocol

from signalbook.access.actions import EVERYTHING, WRITES, Action
from signalbook.access.identity import ANONYMOUS, Identity
from signalbook.xid import ROOT, Xid

_DEPTH: Final = 4
"""Parts of a Resource's path, where rules end."""
_REMEMBERED: Final = 1 << 16
# Plain numbers: each operation on a flag makes another flag, which takes longer than all else here.
_LIST: Final = Action.LIST.value
_READ: Final = Action.READ.value
_WRITES: Final = WRITES.value
_ALL: Final = EVERYTHING.value

Decision = tuple[int, int, int, int]
"""Actions allowed and denied on an xid; allowed and denied on something beneath it."""


class _Rule(Protocol):
    @property
    def on(self) -> tuple[str, ...]: ...
    @property
    def allow(self) -> Action: ...
    @property
    def deny(self) -> Action: ...


class _Node:
    """One part of the patterns, and what follows it in them. A literal is its own prefix without a test."""

    __slots__ = ("allow", "below_allow", "below_deny", "deny", "lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.allow = self.deny = self.below_allow = self.below_deny = 0
        self.literals: dict[str, _Node] = {}
        # Patterns by what stands before their first *: a part is looked up by its own beginnings, of the lengths there
        # are, so that ten thousand patterns cost no more than one.
        self.prefixes: dict[str, dict[str, tuple[Callable[[str], object], _Node]]] = {}
        self.lengths: tuple[int, ...] = ()

    def add(self, part: str) -> _Node:
        """The node behind a part of a pattern."""
        if "*" not in part:
            return self.literals.setdefault(part, _Node())
        prefix = part.partition("*")[0]
        known = self.prefixes.setdefault(prefix, {})
        self.lengths = tuple(sorted({*self.lengths, len(prefix)}))
        if part not in known:
            rest = ".*".join(map(re.escape, part.split("*")))
            # What stands before a * at the end was compared when the pattern was looked up.
            known[part] = (bool if part == f"{prefix}*" else re.compile(rest).fullmatch, _Node())
        return known[part][1]

    def behind(self, part: str) -> Iterator[_Node]:
        """The nodes behind the patterns that ``part`` fits."""
        literal = self.literals.get(part)
        if literal is not None:
            yield literal
        for length in self.lengths:
            for matches, node in self.prefixes.get(part[:length], {}).values():
                if matches(part):
                    yield node

    def sum_up(self) -> None:
        """Gather what is allowed and denied beneath, once all patterns are there."""
        after = [*self.literals.values(), *(node for known in self.prefixes.values() for _, node in known.values())]
        for node in after:
            node.sum_up()
            self.below_allow |= node.allow | node.below_allow
            self.below_deny |= node.deny | node.below_deny


class RuleTree:
    """Rules by the parts of their patterns. Safe between threads."""

    def __init__(self, rules: Iterable[_Rule]) -> None:
        self._root = _Node()
        self._known: dict[tuple[str, ...], Decision] = {}
        for rule in rules:
            for pattern in rule.on:
                node = self._root
                for part in filter(None, pattern.casefold().split("/")):
                    node = node.add(part)
                node.allow |= rule.allow.value
                node.deny |= rule.deny.value
        self._root.sum_up()

    def decide(self, parts: tuple[str, ...]) -> Decision:
        """What the rules say of the xid with these ``parts``."""
        parts = parts[:_DEPTH]
        known = self._known.get(parts)
        if known is None:
            known = self._decide(parts)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[parts] = known
        return known

    def _decide(self, parts: tuple[str, ...]) -> Decision:
        nodes = [self._root]
        allow, deny = self._root.allow, self._root.deny
        for part in parts:
            nodes = [behind for node in nodes for behind in node.behind(part.casefold())]
            for node in nodes:
                allow |= node.allow
                deny |= node.deny
        below_allow = below_deny = 0
        for node in nodes:
            below_allow |= node.below_allow
            below_deny |= node.below_deny
        return allow, deny, below_allow, below_deny

    def literals(self, parts: tuple[str, ...], actions: int) -> frozenset[str] | None:
        """The parts, folded, that may follow these where something of ``actions`` is allowed behind; None for any."""
        nodes = [self._root]
        for part in parts:
            nodes = [behind for node in nodes for behind in node.behind(part.casefold())]
        if any(node.prefixes for node in nodes):
            return None
        named = (item for node in nodes for item in node.literals.items())
        return frozenset(part for part, node in named if (node.allow | node.below_allow) & actions)


class Access:
    """What one ``identity`` may do. Equal ``key``s are equal rights; what is shown may be kept by them.

    Meta and Versions have the rights of their Resource. Who may read something may read what it is in: the attributes
    of its Group and of the Registry, unless these are denied. ``scopes`` narrow it to some actions.
    """

    __slots__ = ("_scopes", "_tree", "identity", "key")

    def __init__(self, identity: Identity, tree: RuleTree, *, key: Hashable, scopes: Action | None = None) -> None:
        self.identity = identity
        self.key = key
        self._tree = tree
        self._scopes = _ALL if scopes is None else scopes.value

    @property
    def reads_everything(self) -> bool:
        """Whether nothing at all is hidden."""
        return self.everything_below(Action.READ, ROOT)

    def may(self, action: Action, xid: Xid) -> bool:
        """Whether ``action`` is allowed on an entity or collection. Who changes something has to read it, too."""
        if action is Action.READ:
            return self.readable(xid)
        if action is Action.LIST:
            return self._lists(xid)
        bit = action.value
        allow, deny, _, _ = self._tree.decide(xid.parts)
        return bool(allow & ~deny & self._scopes & bit) and (not bit & _WRITES or self.readable(xid))

    def readable(self, xid: Xid) -> bool:
        """Whether the xid is shown if it is there: itself, or as what something readable is in."""
        allow, deny, below, _ = self._tree.decide(xid.parts)
        return bool((allow | below) & ~deny & self._scopes & _READ)

    def everything_below(self, action: Action, xid: Xid) -> bool:
        """Whether ``action``, and reading, is allowed on the xid and on all that is or may be beneath."""
        allow, deny, _, below = self._tree.decide(xid.parts)
        return not (action.value | _READ) & ~(allow & ~deny & ~below & self._scopes)

    def somewhere(self, action: Action) -> bool:
        """Whether there is anything that ``action`` is allowed on."""
        allow, deny, below, _ = self._tree.decide(())
        return bool((allow | below) & ~deny & self._scopes & action.value)

    def readable_ids(self, collection: Xid) -> frozenset[str] | None:
        """The only ids of a collection, folded, that may be readable; None if they may be any."""
        allow, _, _, _ = self._tree.decide(collection.parts)
        return None if allow & _READ else self._tree.literals(collection.parts, _READ)

    def _lists(self, xid: Xid) -> bool:
        allow, deny, below, _ = self._tree.decide(xid.parts)
        # Whoever may read in a collection may list it: there is nothing to be seen but what he reads.
        return bool((allow | (below & _READ)) & ~deny & self._scopes & (_LIST | _READ))


class _Everything:
    on = ("/",)
    allow = EVERYTHING
    deny = Action(0)


UNRESTRICTED: Final = Access(ANONYMOUS, RuleTree([_Everything()]), key=None)
"""For the program itself, and for all where access is open."""
