"""The contents of index entries, and the word tables of each database.

SQLite uses FTS5, PostgreSQL a tsvector with a GIN index.

The caller splits texts into words: here words consist of letters and digits, in lower case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from sqlalchemy import BigInteger, Column, MetaData, Table, delete
from sqlalchemy.dialects.postgresql import TSVECTOR

from signalbook.storage.dialect import Dialect

Part: TypeAlias = Literal["names", "fields", "members", "prose", "facets"]
"""Where the words of an entity come from: its ids and names; the single words of its member names; whole member names,
each as one word; all other text; the values it is filtered by."""
PARTS: Final[tuple[Part, ...]] = ("names", "fields", "members", "prose", "facets")
BREAK: Final = "\ue000"
"""Separates texts, so that no phrase matches across two of them."""
_POSITIONS: Final = 16_383
"""The last position of a word that PostgreSQL can store."""
_PLACES: Final = 256
"""The maximum number of positions that PostgreSQL stores for one word."""
_MAX_TSVECTOR_BYTES: Final = 1_000_000
"""The maximum bytes of words and positions that are written. PostgreSQL's limit is 1,048,575."""
_LETTERS: Final[Mapping[Part, str]] = {"names": "n", "fields": "f", "members": "m", "prose": "p", "facets": "x"}
# Each part's words get their own prefix: a GIN index stores no tsvector weights, so telling parts apart by weight would
# mean reading every row.
_PLACED: Final = ("names", "fields", "prose")
"""The parts that are searched for phrases, so the positions of their words are stored."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must follow one another. With ``prefix``, the last word needs to match only the beginning
    of a word."""

    words: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: at least one of ``phrases`` occurs in at least one of ``parts``."""

    phrases: tuple[Phrase, ...]
    parts: tuple[Part, ...]


Conjunction: TypeAlias = tuple[Condition, ...]
"""Conditions that must all be met."""


@dataclass(frozen=True, slots=True)
class WordQuery:
    """A query: all conditions of ``every`` (at least one) and no condition of ``none`` must be met.

    If ``among`` is not empty, at least one of its conjunctions must be met. No conjunction of ``hidden`` may be met.
    """

    every: tuple[Condition, ...]
    none: tuple[Condition, ...] = ()
    among: tuple[Conjunction, ...] = ()
    hidden: tuple[Conjunction, ...] = ()


CURRENT: Final = 1
"""Flag of an entry: the entity is not a Version, or it is the default Version of its Resource."""
DEPRECATED: Final = 2


class Text(msgspec.Struct, frozen=True, array_like=True):
    """A text of an entity to display: ``path`` names the attribute that holds the text.

    If ``member`` is True, ``path`` names a member of the entity's schema, and ``text`` is the member's description.
    """

    member: bool
    path: str
    text: str


class Link(NamedTuple):
    """A reference of ``kind`` from an entity to the entity with the xid ``target``."""

    kind: str
    target: str


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The index entry of an entity: ``words`` by part, ``texts`` to display, and ``links`` to other entities.

    ``folded`` is its id in lower case; for a Version, the id of its Resource.
    """

    key: int
    xid: str
    folded: str
    flags: int = CURRENT
    format: str | None = None
    protocol: str | None = None
    envelope: str | None = None
    words: Mapping[Part, Sequence[str]] = {}
    texts: Sequence[Text] = ()
    links: Collection[Link] = ()


CURRENT_WORDS: Final = "index_words"
PAST_WORDS: Final = "index_words_past"
"""The table for the words of Versions that are not shown by default. They may be nine of ten entries and few people
search them. In the same table, every search would have to read and skip them."""
WORD_TABLES: Final = (CURRENT_WORDS, PAST_WORDS)


def choose_table(flags: int) -> str:
    """Return the name of the table with the words of entries with these flags."""
    return CURRENT_WORDS if flags & CURRENT else PAST_WORDS


class SQLiteWords:
    """Word tables in FTS5. The statements in a mapping are by name of the table."""

    put: Final = {
        table: f"INSERT OR REPLACE INTO {table} (rowid, names, fields, members, prose, facets) "  # noqa: S608  our own names
        "VALUES (:key, :names, :fields, :members, :prose, :facets)"
        for table in WORD_TABLES
    }
    drop: Final = {
        table: f"DELETE FROM {table} WHERE rowid IN (SELECT value FROM json_each(:keys))"  # noqa: S608  our own names
        for table in WORD_TABLES
    }
    copy: Final = {
        to: f"INSERT OR REPLACE INTO {to} (rowid, names, fields, members, prose, facets) "  # noqa: S608  our own names
        f"SELECT rowid, names, fields, members, prose, facets FROM {other} "
        "WHERE rowid IN (SELECT value FROM json_each(:keys))"
        for to, other in zip(WORD_TABLES, reversed(WORD_TABLES), strict=True)
    }
    plan: Final = ""
    merge: Final = [f"INSERT INTO {table} ({table}) VALUES ('optimize')" for table in WORD_TABLES]  # noqa: S608  our own names

    @staticmethod
    def matching(table: str, columns: str) -> str:
        """Return SQL for ``columns`` of entries that match ``:match`` and have exactly the bits ``:want`` among
        ``:flags``."""
        return (
            f"SELECT {columns} FROM {table} JOIN index_entries e ON e.key = {table}.rowid "  # noqa: S608  our own names
            # The plus keeps SQLite from looking up each key separately.
            f"WHERE {table} MATCH :match AND +{table}.rowid NOT IN (SELECT value FROM json_each(:without)) "
            f"AND (:within IS NULL OR +{table}.rowid IN (SELECT value FROM json_each(:within))) "
            "AND e.flags & :flags = :want"
        )

    @staticmethod
    def having(table: str) -> str:
        """Return SQL for the ``:keys`` that match ``:match``."""
        return (
            f"SELECT rowid FROM {table} WHERE {table} MATCH :match "  # noqa: S608  our own names
            "AND +rowid IN (SELECT value FROM json_each(:keys))"
        )

    @staticmethod
    def some(limit: str) -> str:
        """Return SQL for the keys of entities that are shown by default and match ``:match``."""
        return f"SELECT rowid FROM {CURRENT_WORDS} WHERE {CURRENT_WORDS} MATCH :match {limit}"  # noqa: S608  our own names

    @staticmethod
    def row(key: int, words: Mapping[Part, Sequence[str]]) -> Mapping[str, Any]:
        """Return the parameters of ``put``."""
        return {"key": key, **{part: " ".join(words.get(part, ())) for part in PARTS}}

    @staticmethod
    def match(query: WordQuery) -> str:
        """Return ``query`` in FTS5's syntax."""
        every = _render_all_fts(query.every)
        among = " OR ".join(map(_render_all_fts, query.among))
        return " NOT ".join(
            [
                f"({every} AND ({among}))" if among else every,
                *map(_render_fts, query.none),
                *map(_render_all_fts, query.hidden),
            ]
        )


def _render_all_fts(conditions: Conjunction) -> str:
    return f"({' AND '.join(map(_render_fts, conditions))})"


def _render_fts(condition: Condition) -> str:
    phrases = (f'"{" ".join(phrase.words)}"{" *" if phrase.prefix else ""}' for phrase in condition.phrases)
    return f"({{{' '.join(condition.parts)}}} : ({' OR '.join(phrases)}))"


class PostgresWords:
    """Word tables with tsvectors made here, because PostgreSQL's own parser splits texts that look like a host, a file
    or a number.

    The statements in a mapping are by name of the table.
    """

    merge: Final[list[str]] = []
    # The planner assumes that reading a tsvector is as cheap as a number, and that few rows have a bit of the flags.
    plan: Final = "SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)"
    copy: Final = {
        to: f"INSERT INTO {to} (key, words) SELECT key, words FROM {other} WHERE key = ANY(%(keys)s) "  # noqa: S608  our own names
        "ON CONFLICT (key) DO UPDATE SET words = excluded.words"
        for to, other in zip(WORD_TABLES, reversed(WORD_TABLES), strict=True)
    }

    @staticmethod
    def matching(table: str, columns: str) -> str:
        """Return SQL as ``SQLiteWords.matching``. It searches the words by index, then reads entries by key until the
        limit."""
        words = f"SELECT key FROM {table} WHERE words @@ CAST(%(match)s AS tsquery) OFFSET 0"  # noqa: S608  our own names
        entry = "SELECT * FROM index_entries WHERE key = w.key OFFSET 0"
        return (
            f"SELECT {columns} FROM ({words}) w CROSS JOIN LATERAL ({entry}) e "  # noqa: S608  our own names
            "WHERE w.key <> ALL (CAST(%(without)s AS bigint[])) "
            "AND (CAST(%(within)s AS bigint[]) IS NULL OR w.key = ANY (CAST(%(within)s AS bigint[]))) "
            "AND e.flags & %(flags)s = %(want)s"
        )

    @staticmethod
    def having(table: str) -> str:
        """Return SQL for the ``keys`` that match."""
        words = f"SELECT key FROM {table} WHERE words @@ CAST(%(match)s AS tsquery) OFFSET 0"  # noqa: S608  our own names
        return f"SELECT key FROM ({words}) w WHERE key = ANY (CAST(%(keys)s AS bigint[]))"  # noqa: S608  our own names

    @staticmethod
    def some(limit: str) -> str:
        """Return SQL for the keys of entities that are shown by default and match."""
        return f"SELECT key FROM {CURRENT_WORDS} WHERE words @@ CAST(%(match)s AS tsquery) {limit}"  # noqa: S608  our own names

    def __init__(self, dialect: Dialect) -> None:
        self.put = {}
        self.drop = {}
        for name in WORD_TABLES:
            table = Table(name, MetaData(), Column("key", BigInteger, primary_key=True), Column("words", TSVECTOR))
            put = dialect.insert_many(table)
            put = put.on_conflict_do_update(index_elements=[table.c.key], set_={"words": put.excluded.words})
            self.put[name] = dialect.text(put)
            self.drop[name] = dialect.text(delete(table).where(dialect.member(table.c.key, "keys")))

    @staticmethod
    def row(key: int, words: Mapping[Part, Sequence[str]]) -> Mapping[str, Any]:
        """Return the parameters of ``put``. Facets come first, so that the size limit never cuts them."""
        placed: dict[str, list[int]] = defaultdict(list)
        position = 0
        for part, part_words in sorted(words.items(), key=lambda entry: entry[0] != "facets"):
            letter = _LETTERS[part]
            if part not in _PLACED:
                for word in part_words:
                    placed.setdefault(letter + word, [])
                continue
            for word in part_words:
                position += 1
                if word != BREAK:
                    places = placed[letter + word]
                    if position <= _POSITIONS:
                        places.append(position)
        texts = (f"'{word}':{','.join(map(str, at))}" if at else f"'{word}'" for word, at in _limit_size(placed))
        return {"key": key, "words": " ".join(texts)}

    @staticmethod
    def match(query: WordQuery) -> str:
        """Return ``query`` in PostgreSQL's tsquery syntax."""
        among = [f"({' | '.join(map(_render_all_tsquery, query.among))})"] if query.among else []
        unwanted = (f"!{text}" for text in (*map(_render_tsquery, query.none), *map(_render_all_tsquery, query.hidden)))
        return " & ".join([*map(_render_tsquery, query.every), *among, *unwanted])


def _limit_size(placed: Mapping[str, list[int]]) -> Iterator[tuple[str, list[int]]]:
    """Yield words with their positions, as many as fit into a tsvector. Folding may make one character several."""
    remaining_bytes = _MAX_TSVECTOR_BYTES
    for word, at in placed.items():
        remaining_bytes -= 4 + (len(word) if word.isascii() else len(word.encode())) + 2 * min(len(at), _PLACES)
        if remaining_bytes < 0:
            return
        yield word, at


def _render_all_tsquery(conditions: Conjunction) -> str:
    return f"({' & '.join(map(_render_tsquery, conditions))})"


def _render_tsquery(condition: Condition) -> str:
    alternatives = []
    for part in condition.parts:
        letter = _LETTERS[part]
        for phrase in condition.phrases:
            if len(phrase.words) == 1 or part in _PLACED:
                last = ":*" if phrase.prefix else ""
                alternatives.append(" <-> ".join(f"'{letter}{word}'" for word in phrase.words) + last)
    return f"({' | '.join(alternatives)})"


Words: TypeAlias = SQLiteWords | PostgresWords


def choose_words(dialect: Dialect) -> Words:
    """Return the word tables for this kind of database."""
    return PostgresWords(dialect) if dialect.sql.name == "postgresql" else SQLiteWords()
