"""Search queries: words, phrases, ``field:`` and ``name:``, and ``-`` before excluded words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.engine.search.text import join_words, split_runs
from signalbook.storage.words import Condition, Part, Phrase

MAX_QUERY_CHARS: Final = 1_000
"""The maximum number of characters of a query."""
MAX_TERMS: Final = 20
ANYWHERE: Final[tuple[Part, ...]] = ("names", "fields", "members", "prose")
MEMBERS: Final[tuple[Part, ...]] = ("members",)
"""The only part of an entity that ``field:`` searches."""
_TERM: Final = re.compile(
    r'\s*(?P<not>-?)(?P<kind>(?:field|name):)?(?:"(?P<quoted>[^"]*)(?P<end>"?)|(?P<word>[^\s"]*))', re.IGNORECASE
)
_MIN_PREFIX_CHARS: Final = 2
"""The minimum number of letters of a prefix. Shorter prefixes match too many words."""


class QueryError(ValueError):
    """The error for a query that cannot be parsed. The message states the reason and what to write instead."""


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query.

    ``required`` are conditions that must match, ``excluded`` those that must not. ``text`` is as written.
    """

    text: str
    required: tuple[Condition, ...] = ()
    excluded: tuple[Condition, ...] = ()


def parse_query(text: str) -> Query:
    """Parse a query. An empty query matches everything. A term without a letter or digit raises ``QueryError``."""
    if len(text) > MAX_QUERY_CHARS:
        raise QueryError(f"it has {len(text)} characters, and at most {MAX_QUERY_CHARS} are taken")
    if any(not character.isprintable() and not character.isspace() for character in text):
        raise QueryError('it has characters that cannot be seen, such as NUL; write words, "phrases" or field:NAME')
    required: list[Condition] = []
    excluded: list[Condition] = []
    position = 0
    while position < len(text.rstrip()):
        term = _TERM.match(text, position)
        if term is None or term.end() == position:  # cannot happen: the pattern matches any text
            raise QueryError(f"nothing can be read from {text[position:]!r} on")
        position = term.end()
        conditions = list(_parse_conditions(term))
        (excluded if term["not"] else required).extend(conditions)
        if len(required) + len(excluded) > MAX_TERMS:
            raise QueryError(f"it has more than {MAX_TERMS} words: use fewer, or a shorter phrase")
    return Query(text.strip(), tuple(required), tuple(excluded))


def _parse_conditions(term: re.Match[str]) -> Iterator[Condition]:
    excerpt = term[0].strip()
    quoted = term["quoted"] is not None
    if quoted and not term["end"]:
        raise QueryError(f'the quote in {excerpt} has no end: put a " behind the phrase')
    prefix = (term["kind"] or "").lower()
    body: str = term["quoted"] if quoted else term["word"]
    if not any(split_runs(body)):
        where = f"behind {prefix}" if prefix else "in"
        raise QueryError(
            f"there is no letter or digit {where} {excerpt!r}"
            if excerpt not in ('""', "-")
            else f"{excerpt} has no word in it"
        )
    if prefix == "field:":
        yield from _parse_members(body, quoted=quoted)
    elif quoted:
        yield _parse_phrase(body, ("names",) if prefix else ("names", "fields", "prose"))
    else:
        yield from _parse_words(body, ("names",) if prefix else ANYWHERE)


def _parse_members(body: str, *, quoted: bool) -> Iterator[Condition]:
    """Parse the words after ``field:``: a whole name, the beginning of a name before a ``*``, or each name of a dotted
    path.
    """
    names = [body] if quoted else [name for name in body.rstrip("*").split(".") if join_words(name)]
    for name in names:
        prefix = not quoted and body.endswith("*") and name == names[-1]
        yield Condition((Phrase((join_words(name),), prefix),), MEMBERS)


def _parse_phrase(body: str, parts: tuple[Part, ...]) -> Condition:
    words = tuple(word.word for run in split_runs(body) for word in run.words)
    return Condition((Phrase(words),), parts)


def _parse_words(body: str, parts: tuple[Part, ...]) -> Iterator[Condition]:
    found_runs = list(split_runs(body))
    for run in found_runs:
        # While a user is typing, the last word may be incomplete.
        words = tuple(word.word for word in run.words)
        last = run is found_runs[-1]
        phrases = [Phrase(words, last and _may_be_prefix(words[-1]))]
        if run.joined is not None:
            phrases.append(Phrase((run.joined.word,), last))
        yield Condition(tuple(phrases), parts)


def _may_be_prefix(word: str) -> bool:
    return len(word) >= _MIN_PREFIX_CHARS or not word.isascii()


def restrict_to(conditions: Sequence[Condition], parts: tuple[Part, ...]) -> tuple[Condition, ...] | None:
    """Return the conditions restricted to ``parts`` of an entity, or None if a condition cannot match in
    these parts.
    """
    restricted = []
    for condition in conditions:
        matching_parts = tuple(part for part in condition.parts if part in parts)
        if not matching_parts:
            return None
        restricted.append(Condition(condition.phrases, matching_parts))
    return tuple(restricted)
