"""What a person asks for: words, phrases, ``field:`` and ``name:``, ``-`` before what is not wanted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from signalbook.engine.search.text import joined, runs
from signalbook.storage.words import Condition, Part, Phrase

MAX_QUERY: Final = 1_000
"""Characters."""
MAX_TERMS: Final = 20
ANYWHERE: Final[tuple[Part, ...]] = ("names", "fields", "members", "prose")
OF_MEMBERS: Final[tuple[Part, ...]] = ("members",)
"""Where ``field:`` looks."""
_TERM: Final = re.compile(
    r'\s*(?P<not>-?)(?P<kind>(?:field|name):)?(?:"(?P<quoted>[^"]*)(?P<end>"?)|(?P<word>[^\s"]*))', re.IGNORECASE
)
_SHORTEST: Final = 2
"""Letters of a word that may be the beginning of another one: fewer begin half of all words."""


class QueryError(ValueError):
    """A query that means nothing; the message says why, and what to write."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query: conditions that must match, ``wanted``, and must not. ``text`` is its original text."""

    text: str
    wanted: tuple[Condition, ...] = ()
    unwanted: tuple[Condition, ...] = ()


def parse_query(text: str) -> Query:
    """Read a query; without a word it asks for everything. Raises ``QueryError``."""
    if len(text) > MAX_QUERY:
        raise QueryError(f"it has {len(text)} characters, and at most {MAX_QUERY} are taken")
    if any(not character.isprintable() and not character.isspace() for character in text):
        raise QueryError('it has characters that cannot be seen, such as NUL; write words, "phrases" or field:NAME')
    wanted: list[Condition] = []
    unwanted: list[Condition] = []
    at = 0
    while at < len(text.rstrip()):
        term = _TERM.match(text, at)
        if term is None or term.end() == at:  # the pattern takes whatever there is
            raise QueryError(f"nothing can be read from {text[at:]!r} on")
        at = term.end()
        found = list(_conditions(term))
        (unwanted if term["not"] else wanted).extend(found)
        if len(wanted) + len(unwanted) > MAX_TERMS:
            raise QueryError(f"it has more than {MAX_TERMS} words: use fewer, or a shorter phrase")
    return Query(text.strip(), tuple(wanted), tuple(unwanted))


def _conditions(term: re.Match[str]) -> Iterator[Condition]:
    shown = term[0].strip()
    quoted = term["quoted"] is not None
    if quoted and not term["end"]:
        raise QueryError(f'the quote in {shown} has no end: put a " behind the phrase')
    kind = (term["kind"] or "").lower()
    body: str = term["quoted"] if quoted else term["word"]
    if not any(runs(body)):
        what = f"behind {kind}" if kind else "in"
        raise QueryError(
            f"there is no letter or digit {what} {shown!r}"
            if shown not in ('""', "-")
            else f"{shown} has no word in it"
        )
    if kind == "field:":
        yield from _of_members(body, quoted=quoted)
    elif quoted:
        yield _phrase(body, ("names",) if kind else ("names", "fields", "prose"))
    else:
        yield from _words(body, ("names",) if kind else ANYWHERE)


def _of_members(body: str, *, quoted: bool) -> Iterator[Condition]:
    """``field:`` takes a whole name, or with a * at its end how it begins; of a path each name in it."""
    names = [body] if quoted else [name for name in body.rstrip("*").split(".") if joined(name)]
    for name in names:
        prefix = not quoted and body.endswith("*") and name == names[-1]
        yield Condition((Phrase((joined(name),), prefix),), OF_MEMBERS)


def _phrase(body: str, parts: tuple[Part, ...]) -> Condition:
    words = tuple(word.word for run in runs(body) for word in run.words)
    return Condition((Phrase(words),), parts)


def _words(body: str, parts: tuple[Part, ...]) -> Iterator[Condition]:
    found = list(runs(body))
    for run in found:
        # While somebody types, the last word may not be complete.
        words = tuple(word.word for word in run.words)
        last = run is found[-1]
        phrases = [Phrase(words, last and _may_go_on(words[-1]))]
        if run.joined is not None:
            phrases.append(Phrase((run.joined.word,), last))
        yield Condition(tuple(phrases), parts)


def _may_go_on(word: str) -> bool:
    return len(word) >= _SHORTEST or not word.isascii()


def within(conditions: Sequence[Condition], parts: tuple[Part, ...]) -> tuple[Condition, ...] | None:
    """The same, satisfied by these parts of an entity alone; None if one of them cannot be."""
    narrowed = []
    for condition in conditions:
        left = tuple(part for part in condition.parts if part in parts)
        if not left:
            return None
        narrowed.append(Condition(condition.phrases, left))
    return tuple(narrowed)
