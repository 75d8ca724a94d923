"""A JSON Schema as terms: what each sub-schema says, in the keywords of the newest draft and with its references found.

Every rule of a comparison would otherwise have to know what five drafts call the same thing. Annotations are no part of
a term, nor is anything its draft does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

import jsonschema_rs

from signalbook.formats.jsonschema.dialect import DIALECTS
from signalbook.formats.jsonschema.document import UNUSABLE, compiled
from signalbook.values import JSON, canonical_json

# Keyword to what it says: a JSON value, a Term, a tuple of Terms, or Terms by name.
Says = Mapping[str, Any]
Accepts = Callable[[JSON], bool]

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
    """One schema, at one place: two terms are equal only if they are the same object.

    ``path`` is the JSON Pointer to show to people, ``raw`` the schema as written, ``year`` that of its draft. What it
    says is read when first asked for, since schemas may contain themselves.
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
        """What the validator thinks of a value; ``None`` where it cannot be asked about this schema alone."""
        return self._check()

    @cached_property
    def circular(self) -> bool:
        """Whether the schema applies itself to the very value it is about, which the specification leaves undefined."""
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
        """What the document has under a keyword."""
        return self.raw.get(keyword) if isinstance(self.raw, dict) else None

    def part(self, keyword: str) -> Term:
        """What one keyword says, with those it needs beside it, as a schema of its own."""
        if keyword not in self._parts:
            names = {keyword, *COMPANIONS.get(keyword, ())} & self.says.keys()
            kept = {name: self.says[name] for name in self.says if name in names}
            self._parts[keyword] = self if len(kept) == len(self.says) else made(kept, self.year, self.path, self.raw)
        return self._parts[keyword]

    def remembered(self, keyword: str, derive: Callable[[Term, Any], Iterator[Any]]) -> list[Any]:
        """What ``derive`` makes of a keyword, made once."""
        if keyword not in self._memory:
            self._memory[keyword] = list(derive(self, self.says[keyword]))
        return self._memory[keyword]

    @cached_property
    def negation(self) -> Term:
        """The schema of everything else."""
        return made({"not": self}, self.year, self.path, {"not": self.raw})

    def only(self, name: str) -> Term:
        """What ``properties`` says of one member, as a schema of its own."""
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
    """What a term that is a mere reference refers to."""
    seen: set[Term] = set()
    while term.says.keys() == {"ref"} and term not in seen:
        seen.add(term)
        term = term.says["ref"]
    return term


def identity(value: JSON) -> bytes:
    """Equal for values that are equal to JSON Schema: 1 is 1.0, and true is not 1."""
    return canonical_json(_plain(value))


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
    """Whether the validator finds ``pattern`` in ``text``."""
    check = _pattern(pattern)
    return check is not None and bool(check.is_valid(text))
