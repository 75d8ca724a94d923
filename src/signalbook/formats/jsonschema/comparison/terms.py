"""A JSON Schema as terms: the keywords of each sub-schema in the form of the newest draft, with resolved references.

Otherwise every comparison rule would have to know the names of keywords in five drafts. Annotations and keywords that
are unknown in the schema's draft are not part of a term.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final

import jsonschema_rs

from signalbook.formats.jsonschema import regexes
from signalbook.formats.jsonschema.dialects import DIALECTS, UNUSABLE, compile_validator
from signalbook.values import JSON, canonical_json
from signalbook.work import spend

# The value of each keyword: a JSON value, a Term, a tuple of Terms, or Terms by name.
Keywords = Mapping[str, Any]
Accepts = Callable[[JSON], bool]
Identity = str | int | bytes

TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
# Keywords that have an effect only together with another keyword, listed under that other keyword.
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

    ``path`` is the JSON Pointer for messages, ``raw`` the schema as written, ``year`` the year of its draft. The
    keywords are read on first use, because schemas may contain themselves.
    """

    def __init__(
        self, path: str, raw: JSON, year: int, expand: Callable[[], Keywords], check: Callable[[], Accepts | None]
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
    def keywords(self) -> Keywords:
        """The keywords with their values: empty if every value is allowed, ``never`` if no value is."""
        return MappingProxyType(dict(self._expand()))

    @cached_property
    def accepts(self) -> Accepts | None:
        """The validator of this schema, which returns True for valid values; None if the schema
        cannot be validated alone.
        """
        return self._check()

    @cached_property
    def outline(self) -> int:
        """A hash of the keywords and simple values: terms with different outlines are not equal."""
        return hash(frozenset((keyword, _summarize(keyword, value)) for keyword, value in self.keywords.items()))

    @cached_property
    def listed_count(self) -> int:
        """The number of values in ``enum`` and ``const`` of the schema and its parts, a measure of
        the cost of validation.
        """
        self.__dict__["listed_count"] = 0  # for parts that contain the schema
        return sum(map(_count_listed, self.keywords.values(), self.keywords))

    @cached_property
    def circular(self) -> bool:
        """True if validating a value by the schema validates the same value by it again (through ``$ref`` or others).

        The specification leaves the result undefined.
        """
        seen: set[Term] = set()
        waiting = list(list_applied(self))
        while waiting:
            term = waiting.pop()
            if term is self:
                return True
            if term not in seen:
                seen.add(term)
                waiting.extend(list_applied(term))
        return False

    def find_path(self, keyword: str) -> str:
        """Return the path of ``keyword``, or the path of the schema if the document does not contain that keyword."""
        return f"{self.path}/{keyword}" if isinstance(self.raw, dict) and keyword in self.raw else self.path

    def read_raw(self, keyword: str) -> JSON:
        """Return the value of ``keyword`` as written in the document; None if the document does not contain it."""
        return self.raw.get(keyword) if isinstance(self.raw, dict) else None

    def extract_keyword(self, keyword: str) -> Term:
        """Return a schema with only ``keyword`` and the keywords that belong to it."""
        if keyword not in self._parts:
            names = {keyword, *COMPANIONS.get(keyword, ())} & self.keywords.keys()
            keywords = {name: self.keywords[name] for name in self.keywords if name in names}
            self._parts[keyword] = (
                self if len(keywords) == len(self.keywords) else make_term(keywords, self.year, self.path, self.raw)
            )
        return self._parts[keyword]

    def derive_once(self, keyword: str, derive: Callable[[Term, Any], Iterator[Any]]) -> list[Any]:
        """Return the list of results of ``derive`` for ``keyword``; repeated calls return the cached list."""
        if keyword not in self._memory:
            self._memory[keyword] = list(derive(self, self.keywords[keyword]))
        return self._memory[keyword]

    @cached_property
    def negation(self) -> Term:
        """The schema of all values that this schema refuses."""
        return make_term({"not": self}, self.year, self.path, {"not": self.raw})

    def extract_property(self, name: str) -> Term:
        """Return a schema with only the member ``name`` of ``properties``."""
        key = f"properties/{name}"
        if key not in self._parts:
            self._parts[key] = make_term(
                {"properties": {name: self.keywords["properties"][name]}}, self.year, self.path, self.raw
            )
        return self._parts[key]

    def split(self) -> tuple[Term, ...]:
        """Return terms that together mean the same, one for each keyword; only the term itself if
        it cannot be split.
        """
        if UNEVALUATED & self.keywords.keys():
            return (self,)
        return tuple(self.extract_keyword(keyword) for keyword in self.keywords if keyword not in DEPENDENT)


def _count_listed(value: Any, keyword: str) -> int:
    if isinstance(value, Term):
        return value.listed_count
    if keyword == "enum":
        return len(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    return sum(part.listed_count for part in parts if isinstance(part, Term))


def _summarize(keyword: str, value: Any) -> Any:
    """Return the part of a keyword's value that equal keywords share; None for schemas and lists of values."""
    if isinstance(value, Term) or keyword in ("const", "enum"):
        return None
    if isinstance(value, (dict, MappingProxyType)):
        return frozenset(value)
    if isinstance(value, (tuple, list)):
        return len(value) if keyword in (*_UNORDERED, "prefixItems") else None
    return value if isinstance(value, Hashable) else None


def list_applied(term: Term) -> Iterator[Term]:
    """Yield the schemas that ``term`` applies to the same value, always or under conditions."""
    for keyword in ("ref", "dynamicRef", "not", "if", "then", "else"):
        if keyword in term.keywords:
            yield term.keywords[keyword]
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from term.keywords.get(keyword, ())
    for keyword in ("dependentSchemas", "dependencies"):
        yield from term.keywords.get(keyword, {}).values()


def make_term(says: Keywords, year: int, path: str = "", raw: JSON = None) -> Term:
    """Return a term for keywords that no document contains in this form. It has no validator."""
    return Term(path, raw, year, lambda: says, lambda: None)


def resolve_target(term: Term) -> Term:
    """Return the term that ``term`` leads to if it is only a reference (or a chain of references),
    otherwise ``term``.
    """
    seen: set[Term] = set()
    while term.keywords.keys() == {"ref"} and term not in seen:
        seen.add(term)
        term = term.keywords["ref"]
    return term


def make_identity(value: JSON) -> Identity:
    """Return a key that is equal for values that are equal in JSON Schema: 1 equals 1.0, but true does not equal 1."""
    value_type = type(value)
    # A fast path for the most frequent types: for these, equality in Python and JSON is the same.
    if value_type is str or value_type is int:
        same_value: Identity = value
        return same_value
    normalized = _normalize_numbers(value)
    return normalized if type(normalized) is int else canonical_json(normalized)


def index_by_identity(values: Sequence[JSON]) -> dict[Identity, JSON]:
    """Return ``values`` by their identity, with a fast path for the common case of strings and integers."""
    if set(map(type, values)) <= {str, int}:
        return dict(zip(values, values, strict=True))
    return {make_identity(value): value for value in values}


def _normalize_numbers(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    return {name: _normalize_numbers(item) for name, item in value.items()} if isinstance(value, dict) else value


@lru_cache(maxsize=1024)
def _compile_pattern(pattern: str) -> jsonschema_rs.Validator | None:
    try:
        return compile_validator(DIALECTS[-1], {"pattern": pattern}, None)
    except UNUSABLE:
        return None


def matches(pattern: str, text: str) -> bool:
    """Return True if the validator finds ``pattern`` in ``text``; False if ``pattern`` is invalid."""
    check = _compile_pattern(pattern)
    return check is not None and regexes.is_valid(check, text)


_UNORDERED: Final = frozenset({"allOf", "anyOf", "oneOf"})
# The maximum number of compared pairs. After that all pairs count as different.
_MAX_PAIRS: Final = 300_000
# The units of a request's work limit for each compared pair, including the work to build both terms.
_WORK_PER_PAIR: Final = 50


class Sameness:
    """A cache of which terms are the same and which are different.

    Two schemas that refer to themselves are the same unless a difference is found. So while a pair is being compared,
    it counts as the same. Conclusions from that are discarded if the pair turns out to be different.
    """

    def __init__(self) -> None:
        self.same: dict[tuple[Term, Term], None] = {}
        self.different: set[tuple[Term, Term]] = set()
        self.steps = 0

    def __call__(self, a: Term, b: Term) -> bool:
        """Return True if ``a`` and ``b`` have equal keywords. False means that they differ or that
        the limit was reached.
        """
        self.steps += 1
        spend(_WORK_PER_PAIR)
        if self.steps > _MAX_PAIRS:
            return False
        a, b = resolve_target(a), resolve_target(b)
        key = (a, b)
        if a is b or key in self.same:
            return True
        if key in self.different or a.outline != b.outline or (a.year == 2013) != (b.year == 2013):
            return False
        mark = len(self.same)
        self.same[key] = None
        if all(self._is_equal(keyword, a.keywords[keyword], b.keywords[keyword]) for keyword in a.keywords):
            return True
        while len(self.same) > mark:
            self.same.popitem()
        self.different.add(key)
        return False

    def _is_equal(self, keyword: str, a: Any, b: Any) -> bool:
        if keyword == "const":
            return make_identity(a) == make_identity(b)
        if keyword == "enum":
            return len(a) == len(b) and index_by_identity(a).keys() == index_by_identity(b).keys()
        if isinstance(a, Term):
            return self(a, b)
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(self._is_equal("", a[name], b[name]) for name in a)
        if keyword in _UNORDERED:
            return len(a) == len(b) and self._match_terms(a, b)
        if keyword == "prefixItems":
            return len(a) == len(b) and all(map(self, a, b))
        return bool(a == b)

    def _match_terms(self, a: tuple[Term, ...], b: tuple[Term, ...]) -> bool:
        """Return True if each term of ``a`` can be paired with an equal term of ``b``, trying the same index first."""
        remaining = dict(enumerate(b))
        for index, term in enumerate(a):
            positions = sorted(remaining, key=index.__ne__)[: max(0, _MAX_PAIRS - self.steps)]
            partner = next((position for position in positions if self(term, remaining[position])), None)
            if partner is None or self.steps > _MAX_PAIRS:
                return False
            del remaining[partner]
        return True


@dataclass(slots=True)
class Evaluated:
    """The members and items that schemas evaluate: names, patterns of names, and the number of first items, or all."""

    names: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    all_members: bool = False
    items: int = 0
    all_items: bool = False


# A function that yields the schemas that a schema applies to the same value.
Applied = Callable[[Term], Iterator[Term]]


def find_evaluated(term: Term, applied: Applied, *, certain: bool) -> Evaluated:
    """Return the members and items that ``term``, and the schemas that ``applied`` yields, evaluate in a valid value.

    ``unevaluated...`` of ``term`` itself is ignored. Unless ``certain``, members that may be evaluated are included.
    """
    result = Evaluated()
    seen: set[Term] = set()
    waiting = [(term, True)]
    while waiting:
        current, is_outermost = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        _collect_evaluated(current, result, is_outermost=is_outermost, certain=certain)
        waiting.extend((inner, False) for inner in applied(current))
    return result


def _collect_evaluated(term: Term, result: Evaluated, *, is_outermost: bool, certain: bool) -> None:
    says = term.keywords
    result.names.update(says.get("properties", {}))
    result.patterns.update(says.get("patternProperties", {}))
    result.all_members |= "additionalProperties" in says or ("unevaluatedProperties" in says and not is_outermost)
    result.items = max(result.items, len(says.get("prefixItems", ())))
    result.all_items |= "items" in says or ("unevaluatedItems" in says and not is_outermost)
    if not certain:
        opaque = "opaque" in says
        result.all_members |= opaque
        result.all_items |= opaque or "contains" in says


def list_always_applied(term: Term) -> Iterator[Term]:
    """Yield the schemas that every valid value of ``term`` satisfies."""
    yield from (term.keywords[keyword] for keyword in ("ref", "dynamicRef") if keyword in term.keywords)
    yield from term.keywords.get("allOf", ())
