"""Whether two schemas say the same, whatever the order, the annotations and the places of their definitions."""

from __future__ import annotations

from typing import Any, Final

from signalbook.formats.jsonschema.comparison.term import Term, identity, target

_UNORDERED: Final = frozenset({"allOf", "anyOf", "oneOf"})
# Pairs looked at; beyond that none is the same.
_MAX_STEPS: Final = 300_000


class Sameness:
    """Remembers which terms were found to be the same, or different.

    Two schemas that refer to themselves are the same unless a difference is found: while a pair is being looked at it
    counts as the same, and what was concluded from that is forgotten if it turns out not to be.
    """

    def __init__(self) -> None:
        self.same: dict[tuple[Term, Term], None] = {}
        self.different: set[tuple[Term, Term]] = set()
        self.steps = 0

    def __call__(self, a: Term, b: Term) -> bool:
        """Whether ``a`` and ``b`` say the same; false if that is not plain to see."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return False
        a, b = target(a), target(b)
        key = (a, b)
        if a is b or key in self.same:
            return True
        if key in self.different or a.says.keys() != b.says.keys() or (a.year == 2013) != (b.year == 2013):
            return False
        mark = len(self.same)
        self.same[key] = None
        if all(self._agree(keyword, a.says[keyword], b.says[keyword]) for keyword in a.says):
            return True
        while len(self.same) > mark:
            self.same.popitem()
        self.different.add(key)
        return False

    def _agree(self, keyword: str, a: Any, b: Any) -> bool:
        if keyword == "const":
            return identity(a) == identity(b)
        if keyword == "enum":
            return set(map(identity, a)) == set(map(identity, b))
        if isinstance(a, Term):
            return self(a, b)
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(self._agree("", a[name], b[name]) for name in a)
        if keyword in _UNORDERED:
            return len(a) == len(b) and self._match(a, b)
        if keyword == "prefixItems":
            return len(a) == len(b) and all(map(self, a, b))
        return bool(a == b)

    def _match(self, a: tuple[Term, ...], b: tuple[Term, ...]) -> bool:
        """Whether each of ``a`` has a partner of its own in ``b``; the one at the same place is tried first."""
        left = dict(enumerate(b))
        for index, term in enumerate(a):
            places = [index, *(place for place in left if place != index)] if index in left else list(left)
            places = places[: max(0, _MAX_STEPS - self.steps)]
            found = next((place for place in places if self(term, left[place])), None)
            if found is None or self.steps > _MAX_STEPS:
                return False
            del left[found]
        return True
