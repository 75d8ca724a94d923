"""A JSON Schema as terms: what each sub-schema says, in the keywords of the newest draft and with its references found.

Every rule of a comparison would otherwise have to know what five drafts call the same thing. Annotations are no part of
a term, nor is anything its draft does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

import jsonschema_rs

from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.document import DIALECTS, UNUSABLE, compiled
from signalbook.values import JSON, canonical_json
from signalbook.work import spend

# Keyword to what it says: a JSON value, a Term, a tuple of Terms, or Terms by name.
Says = Mapping[str, Any]
Accepts = Callable[[JSON], bool]
Identity = str | int | bytes

TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
# Keywords that mean nothing without another one beside them, by that one.
COMPANIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "items": ("prefixItems",),
    "contains": ("minContains", "maxContains"),
    "additionalProperties": ("properties", "patternProperties"),
    "if": ("then", "else"),
}
DEPENDENT: Final = frozenset({"minContains", "maxContains", "then", "else"})
UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class Term:
    """A schema at one place. Two terms are equal only if they are the same object.

    ``path`` is the JSON Pointer for people, ``raw`` the schema as written, ``year`` that of its draft. Its statements
    are read on first use, because schemas may contain themselves.
    """

    def __init__(
        self, path: str, raw: JSON, year: int, expand: Callable[[], Says], check: Callable[[], Accepts | None]
    ) -> None:
        self.path = path
        self.raw = raw
        self.year = year
        self._expand = expand
        self._check = check
        self._parts: dict[str, Term] = {}
        self._memory: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        return f"Term({self.path or '/'}: {self.raw!r:.60})"

    @cached_property
    def says(self) -> Says:
        """Keywords and what they say: none if all is allowed, ``never`` if nothing is."""
        return MappingProxyType(dict(self._expand()))

    @cached_property
    def accepts(self) -> Accepts | None:
        """The validator's verdict on a value; ``None`` if it cannot evaluate this schema alone."""
        return self._check()

    @cached_property
    def outline(self) -> int:
        """A hash of what is visible at a glance: terms with different outlines are not equal."""
        return hash(frozenset((keyword, _at_a_glance(keyword, said)) for keyword, said in self.says.items()))

    @cached_property
    def listed(self) -> int:
        """The number of listed values in the schema and its parts, each of which may be compared with a value."""
        self.__dict__["listed"] = 0  # for parts that contain the schema
        return sum(map(_listed, self.says.values(), self.says))

    @cached_property
    def circular(self) -> bool:
        """True if validating a value by the schema validates the same value by it again (through ``$ref`` or others).

        The specification leaves the result undefined.
        """
        seen: set[Term] = set()
        waiting = list(in_place(self))
        while waiting:
            term = waiting.pop()
            if term is self:
                return True
            if term not in seen:
                seen.add(term)
                waiting.extend(in_place(term))
        return False

    def at(self, keyword: str) -> str:
        """The path of a keyword; that of the schema if the document calls it something else."""
        return f"{self.path}/{keyword}" if isinstance(self.raw, dict) and keyword in self.raw else self.path

    def written(self, keyword: str) -> JSON:
        """Return the value of a keyword in the document."""
        return self.raw.get(keyword) if isinstance(self.raw, dict) else None

    def part(self, keyword: str) -> Term:
        """Return a keyword with those it depends on as a schema of its own."""
        if keyword not in self._parts:
            names = {keyword, *COMPANIONS.get(keyword, ())} & self.says.keys()
            kept = {name: self.says[name] for name in self.says if name in names}
            self._parts[keyword] = self if len(kept) == len(self.says) else made(kept, self.year, self.path, self.raw)
        return self._parts[keyword]

    def remembered(self, keyword: str, derive: Callable[[Term, Any], Iterator[Any]]) -> list[Any]:
        """Return the result of ``derive`` for a keyword, computed once."""
        if keyword not in self._memory:
            self._memory[keyword] = list(derive(self, self.says[keyword]))
        return self._memory[keyword]

    @cached_property
    def negation(self) -> Term:
        """The schema of everything else."""
        return made({"not": self}, self.year, self.path, {"not": self.raw})

    def only(self, name: str) -> Term:
        """Return the schema of one member in ``properties`` as a schema of its own."""
        key = f"properties/{name}"
        if key not in self._parts:
            self._parts[key] = made(
                {"properties": {name: self.says["properties"][name]}}, self.year, self.path, self.raw
            )
        return self._parts[key]

    def parts(self) -> tuple[Term, ...]:
        """Terms that together say the same; the term alone if it cannot be divided."""
        if UNEVALUATED & self.says.keys():
            return (self,)
        return tuple(self.part(keyword) for keyword in self.says if keyword not in DEPENDENT)


def _listed(said: Any, keyword: str) -> int:
    if isinstance(said, Term):
        return said.listed
    if keyword == "enum":
        return len(said)
    parts = said.values() if isinstance(said, Mapping) else said if isinstance(said, tuple) else ()
    return sum(part.listed for part in parts if isinstance(part, Term))


def _at_a_glance(keyword: str, said: Any) -> Any:
    """Return the part of a keyword's value that can be compared at once; lists of values have many spellings."""
    if isinstance(said, Term) or keyword in ("const", "enum"):
        return None
    if isinstance(said, (dict, MappingProxyType)):
        return frozenset(said)
    if isinstance(said, (tuple, list)):
        return len(said) if keyword in (*_UNORDERED, "prefixItems") else None
    return said if isinstance(said, Hashable) else None


def in_place(term: Term) -> Iterator[Term]:
    """Schemas that a schema applies to the same value, always or under conditions."""
    for keyword in ("ref", "dynamicRef", "not", "if", "then", "else"):
        if keyword in term.says:
            yield term.says[keyword]
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from term.says.get(keyword, ())
    for keyword in ("dependentSchemas", "dependencies"):
        yield from term.says.get(keyword, {}).values()


def made(says: Says, year: int, path: str = "", raw: JSON = None) -> Term:
    """A term that stands nowhere as such."""
    return Term(path, raw, year, lambda: says, lambda: None)


def target(term: Term) -> Term:
    """Return the target of a term that is only a reference."""
    seen: set[Term] = set()
    while term.says.keys() == {"ref"} and term not in seen:
        seen.add(term)
        term = term.says["ref"]
    return term


def identity(value: JSON) -> Identity:
    """Equal for values that are equal to JSON Schema: 1 is 1.0, and true is not 1."""
    kind = type(value)
    # Of these there may be many, and they are equal to Python as they are to JSON. To Python, true is 1.
    if kind is str or kind is int:
        own: Identity = value
        return own
    plain = _plain(value)
    return plain if type(plain) is int else canonical_json(plain)


def by_identity(values: Sequence[JSON]) -> dict[Identity, JSON]:
    """Values under their ``identity``: of very many, they are strings or integers as a rule."""
    if set(map(type, values)) <= {str, int}:
        return dict(zip(values, values, strict=True))
    return {identity(value): value for value in values}


def _plain(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> jsonschema_rs.Validator | None:
    try:
        return compiled(DIALECTS[-1], {"pattern": pattern}, None)
    except UNUSABLE:
        return None


def matches(pattern: str, text: str) -> bool:
    """Return True if the validator finds ``pattern`` in ``text``."""
    check = _pattern(pattern)
    return check is not None and regexes.is_valid(check, text)


_UNORDERED: Final = frozenset({"allOf", "anyOf", "oneOf"})
# Pairs looked at; beyond that none is the same.
_MAX_STEPS: Final = 300_000
# What a look at a pair is to the work of the request: both are made of their documents then.
_WORK: Final = 50


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
        """Return True if ``a`` and ``b`` plainly are equal."""
        self.steps += 1
        spend(_WORK)
        if self.steps > _MAX_STEPS:
            return False
        a, b = target(a), target(b)
        key = (a, b)
        if a is b or key in self.same:
            return True
        if key in self.different or a.outline != b.outline or (a.year == 2013) != (b.year == 2013):
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
            return len(a) == len(b) and by_identity(a).keys() == by_identity(b).keys()
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
        """Return True if each of ``a`` has its own partner in ``b``. The one at the same place is tried first."""
        left = dict(enumerate(b))
        for index, term in enumerate(a):
            places = [index, *(place for place in left if place != index)] if index in left else list(left)
            places = places[: max(0, _MAX_STEPS - self.steps)]
            found = next((place for place in places if self(term, left[place])), None)
            if found is None or self.steps > _MAX_STEPS:
                return False
            del left[found]
        return True


@dataclass(slots=True)
class Evaluated:
    """Names, patterns of names, and the number of first items; or all of them."""

    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    all_members: bool = False
    items: int = 0
    all_items: bool = False


# The schemas that a schema applies to the same value, as far as they count.
Applied = Callable[[Term], Iterator[Term]]


def evaluated(term: Term, applied: Applied, *, certain: bool) -> Evaluated:
    """Return what keywords beside ``unevaluated...`` look at in a valid value, in ``term`` and all that is ``applied``.

    What they look at surely, or possibly if not ``certain``.
    """
    found = Evaluated()
    seen: set[Term] = set()
    waiting = [(term, True)]
    while waiting:
        here, own = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        _look(here, found, own=own, certain=certain)
        waiting.extend((inner, False) for inner in applied(here))
    return found


def _look(term: Term, found: Evaluated, *, own: bool, certain: bool) -> None:
    says = term.says
    found.names.update(says.get("properties", {}))
    found.patterns.update(says.get("patternProperties", {}))
    found.all_members |= "additionalProperties" in says or ("unevaluatedProperties" in says and not own)
    found.items = max(found.items, len(says.get("prefixItems", ())))
    found.all_items |= "items" in says or ("unevaluatedItems" in says and not own)
    if not certain:
        opaque = "opaque" in says
        found.all_members |= opaque
        found.all_items |= opaque or "contains" in says


def always_applied(term: Term) -> Iterator[Term]:
    """Yield the schemas that each valid value keeps to."""
    yield from (term.says[keyword] for keyword in ("ref", "dynamicRef") if keyword in term.says)
    yield from term.says.get("allOf", ())
