"""The search index: what people search, and which entities refer to which (docs/decisions/150-search.md).

The engine derives it from the entities, in the transaction that writes them. So backups do not contain it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    bindparam,
    delete,
    func,
    literal_column,
    select,
)

from signalbook.batches import batched
from signalbook.storage.base import LAST, Row
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import (
    COLUMNS,
    ENTITIES,
    INDEX_ENTRIES,
    INDEX_LINKS,
    INDEX_STATE,
    MEMBERS,
    load,
    stored_xid,
)
from signalbook.storage.transaction import SqlTransaction, SqlWriting
from signalbook.storage.words import (
    CURRENT,
    CURRENT_WORDS,
    WORD_TABLES,
    IndexEntry,
    Link,
    Text,
    WordQuery,
    choose_table,
    choose_words,
)
from signalbook.xid import ROOT, Xid

_KEYS: Final = 10_000


class Candidate(NamedTuple):
    """An entity that matches a query."""

    key: int
    xid: str
    folded: str
    flags: int
    format: str | None
    protocol: str | None
    envelope: str | None


class Referrer(NamedTuple):
    """A link from an entity to ``target``."""

    key: int
    xid: str
    flags: int
    kind: str
    target: str


class Documented(NamedTuple):
    """The Version whose document an entity shows: ``target`` is the xid of a Resource or Version, ``xid`` and ``key``
    are those of the Version."""

    target: str
    key: int
    xid: str


class IndexStatements:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        e, k, s = INDEX_ENTRIES.c, INDEX_LINKS.c, INDEX_STATE.c
        self.words = choose_words(dialect)
        shown = ", ".join(f"e.{name}" for name in Candidate._fields)
        found = {table: self.words.matching(table, shown) for table in WORD_TABLES}
        limit = "LIMIT %(limit)s" if dialect.sql.name == "postgresql" else "LIMIT :limit"
        self.current = found[CURRENT_WORDS]
        self.matching = " UNION ALL ".join(found.values())
        self.first_current, self.first = (f"{each} {limit}" for each in (self.current, self.matching))
        self.having_now, self.having_past = map(self.words.having, WORD_TABLES)
        self.some = self.words.some(limit)
        candidate = select(*(e[name] for name in Candidate._fields))
        shown_now = e.key > bindparam("after"), e.flags.op("&")(bindparam("flags")) == bindparam("want")
        self.current_entries = dialect.page(candidate.where(*shown_now).order_by(e.key))
        self.texts = dialect.text(select(e.key, e.texts).where(dialect.member(e.key, "keys")))
        self.candidates = dialect.text(candidate.where(dialect.member(e.key, "keys")))
        linked = select(e.key, e.xid, e.flags, k.kind, k.target).select_from(
            INDEX_LINKS.join(INDEX_ENTRIES, e.key == k.source)
        )
        self.referrers = dialect.text(linked.where(dialect.member(k.target, "targets")).order_by(k.target, k.source))
        called = linked.where(
            dialect.member(k.target, "targets"),
            k.kind == bindparam("kind"),
            e.flags.op("&")(bindparam("flags")) == bindparam("want"),
            e.xid > bindparam("first"),
            e.xid < bindparam("last"),
        )
        self.named = dialect.text(called.order_by(k.source, k.target))
        self.links = dialect.text(select(k.source, k.kind, k.target).where(dialect.member(k.source, "keys")))
        put = dialect.insert_many(INDEX_ENTRIES)
        changed = {column.name: put.excluded[column.name] for column in e if column.name != "key"}
        self.put = dialect.text(put.on_conflict_do_update(index_elements=[e.key], set_=changed))
        self.drop = dialect.text(delete(INDEX_ENTRIES).where(dialect.member(e.key, "keys")))
        self.mark = dialect.text(dialect.update_many(INDEX_ENTRIES, ["flags"]))
        self.put_link = dialect.text(dialect.insert_many(INDEX_LINKS).on_conflict_do_nothing())
        self.drop_links = dialect.text(delete(INDEX_LINKS).where(dialect.member(k.source, "keys")))
        self.clear = [dialect.text(delete(table)) for table in (INDEX_ENTRIES, INDEX_LINKS, INDEX_STATE)]
        self.clear += [f"DELETE FROM {table}" for table in WORD_TABLES]  # noqa: S608  names of our own
        self.state = dialect.text(select(s.name, s.value))
        self.put_state = dialect.upsert(INDEX_STATE, "name")
        self.documented = dialect.text(_select_documented(dialect))
        n = ENTITIES.c
        root = select(n.key).where(n.xid == bindparam("root")).scalar_subquery()
        self.groups = dialect.page(select(n.xid).where(n.parent == root).order_by(n.type, n.folded))
        m = MEMBERS.c
        members = ENTITIES.join(MEMBERS, m.parent == n.key)
        totals = select(n.type, m.type, func.sum(m.count)).select_from(members)
        self.resources = dialect.text(totals.where(n.parent == bindparam("root")).group_by(n.type, m.type))
        rows = select(*COLUMNS).where(ENTITIES.c.key > bindparam("key")).order_by(ENTITIES.c.key)
        self.entities = dialect.page(rows)


def _select_documented(dialect: Dialect) -> Select[Any]:
    """Select the Version whose document each target shows.

    A Resource shows its default Version, a Resource with a cross reference the default Version of its target, and a
    Version itself.
    """
    target, owner, version = (ENTITIES.alias(name) for name in ("named", "owner", "version"))
    default_xid = func.coalesce(_select_default(owner), _select_default(target), target.c.xid)
    return (
        select(target.c.xid, version.c.key, version.c.xid)
        .select_from(target.outerjoin(owner, owner.c.xid == target.c.xref).join(version, version.c.xid == default_xid))
        .where(dialect.member(target.c.xid, "targets"))
    )


def _select_default(resource: FromClause) -> ColumnElement[str]:
    return resource.c.xid + literal_column("'/versions/'") + resource.c.defaultversionid


class IndexReader:
    """Reads the search index. It does not check access rights."""

    def __init__(self, transaction: SqlTransaction, sql: IndexStatements) -> None:
        self._transaction = transaction
        self._index = sql

    def matching(
        self,
        query: WordQuery,
        *,
        flags: int = 0,
        want: int = 0,
        without: Collection[int] = (),
        within: Collection[int] | None = None,
        limit: int | None = None,
    ) -> Iterator[Candidate]:
        """Return the entities that match ``query``, in any order. Without ``limit``, a batch at a time is in memory.

        Of the bits in ``flags``, an entity must have exactly those in ``want``. Its key must not be in ``without``, and
        must be in ``within`` unless that is None.
        """
        parameters = {
            "match": self._index.words.match(query),
            "flags": flags,
            "want": want,
            "without": self._transaction.array(without),
            "within": None if within is None else self._transaction.array(within),
        }
        self._plan()
        current = flags & want & CURRENT
        if limit is None:
            sql = self._index.current if current else self._index.matching
            return map(Candidate._make, self._transaction.stream(sql, parameters))
        sql = self._index.first_current if current else self._index.first
        return map(Candidate._make, self._transaction.rows(sql, {**parameters, "limit": limit}))

    def having(self, query: WordQuery, keys: Collection[int], *, past: bool) -> set[int]:
        """Return the entities among ``keys`` that match. Without ``past``, only entities that are shown by default."""
        parameters = {"match": self._index.words.match(query), "keys": self._transaction.array(keys)}
        self._plan()
        matching_keys = {key for (key,) in self._transaction.rows(self._index.having_now, parameters)}
        return (
            matching_keys | {key for (key,) in self._transaction.rows(self._index.having_past, parameters)}
            if past
            else matching_keys
        )

    def current_keys(self, query: WordQuery, limit: int) -> list[int]:
        """Return up to ``limit`` keys of matching entities that are shown by default, without reading their entries."""
        parameters = {"match": self._index.words.match(query), "limit": limit}
        self._plan()
        return [key for (key,) in self._transaction.rows(self._index.some, parameters)]

    def _plan(self) -> None:
        if self._index.words.plan:
            self._transaction.rows(self._index.words.plan, {})

    def documented(self, targets: Collection[str]) -> list[Documented]:
        """Return the Versions that hold the documents of ``targets`` (xids of Resources and Versions), as far as they
        exist."""
        parameters = {"targets": self._transaction.array(targets)}
        return [Documented._make(record) for record in self._transaction.rows(self._index.documented, parameters)]

    def groups(self, limit: int) -> list[str]:
        """Return the xids of up to ``limit`` Groups."""
        return [xid for (xid,) in self._transaction.rows(self._index.groups, {"root": str(ROOT), "limit": limit})]

    def count_resources(self, root: int) -> dict[tuple[str, str], int]:
        """Return the numbers of Resources by Group type and type. ``root`` is the key of the Registry."""
        rows = self._transaction.rows(self._index.resources, {"root": root})
        return {(group_type, plural): int(number) for group_type, plural, number in rows}

    def current(self, after: int, limit: int) -> list[Candidate]:
        """Return up to ``limit`` entries with the flag ``CURRENT`` and a key above ``after``, by key."""
        parameters = {"after": after, "limit": limit, "flags": CURRENT, "want": CURRENT}
        return [Candidate._make(record) for record in self._transaction.rows(self._index.current_entries, parameters)]

    def texts(self, keys: Collection[int]) -> dict[int, list[Text]]:
        """Return the stored texts of entities, by key."""
        rows = self._transaction.rows(self._index.texts, {"keys": self._transaction.array(list(keys))})
        return {key: msgspec.json.decode(texts, type=list[Text]) for key, texts in rows}

    def candidates(self, keys: Collection[int]) -> list[Candidate]:
        """Return the entries of the entities with these keys."""
        rows = self._transaction.rows(self._index.candidates, {"keys": self._transaction.array(list(keys))})
        return [Candidate._make(record) for record in rows]

    def referrers(self, targets: Collection[str]) -> Iterator[Referrer]:
        """Return the links to ``targets``, by target and by age of the referring entity, a batch at a time."""
        parameters = {"targets": self._transaction.array(list(targets))}
        return map(Referrer._make, self._transaction.stream(self._index.referrers, parameters))

    def named(self, kind: str, targets: Collection[str], within: Xid) -> Iterator[tuple[Xid, str]]:
        """Yield (xid of the referring entity, target) of links of this ``kind`` to ``targets``, a batch at a time.

        Only entities under ``within`` that are shown by default are considered.
        """
        first = f"{str(within).rstrip('/')}/"
        parameters = {
            "targets": self._transaction.array(list(targets)),
            "kind": kind,
            "flags": CURRENT,
            "want": CURRENT,
        }
        place = {"first": first, "last": f"{first}{LAST}"}
        for link in map(Referrer._make, self._transaction.stream(self._index.named, {**parameters, **place})):
            yield stored_xid(link.xid), link.target

    def links(self, keys: Collection[int]) -> list[tuple[int, Link]]:
        """Return the references of these entities, each with the key of its entity."""
        rows = self._transaction.rows(self._index.links, {"keys": self._transaction.array(list(keys))})
        return [(source, Link(kind, target)) for source, kind, target in rows]

    def state(self) -> dict[str, int]:
        """Return the stored progress of the index, by name."""
        return dict(self._transaction.rows(self._index.state, {}))

    def entities(self, after: int, limit: int) -> list[Row]:
        """Return up to ``limit`` entities with a key above ``after``, by key."""
        return [load(record) for record in self._transaction.rows(self._index.entities, {"key": after, "limit": limit})]


class IndexWriter(IndexReader):
    """Reads and writes the index in a write transaction. Entries are written at the commit, and searches find them
    after it."""

    def __init__(self, transaction: SqlWriting, sql: IndexStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction

    def texts(self, keys: Collection[int]) -> dict[int, list[Text]]:
        """Return the texts of entities by key, including the pending entries of this transaction."""
        written = {key: entry for layer in self._writing.layers for key in keys if (entry := layer.index.get(key))}
        texts_by_key = {key: list(entry.texts) for key, entry in written.items()}
        unwritten_keys = [key for key in keys if key not in texts_by_key]
        return texts_by_key | (super().texts(unwritten_keys) if unwritten_keys else {})

    def links(self, keys: Collection[int]) -> list[tuple[int, Link]]:
        """Return the references of these entities, including the pending entries of this transaction."""
        written = {key: entry for layer in self._writing.layers for key in keys if (entry := layer.index.get(key))}
        unwritten_keys = [key for key in keys if key not in written]
        pairs = [(key, link) for key, entry in written.items() for link in entry.links]
        return pairs + (super().links(unwritten_keys) if unwritten_keys else [])

    def named(self, kind: str, targets: Collection[str], within: Xid) -> Iterator[tuple[Xid, str]]:
        """Yield the links like ``IndexReader.named``, including pending entries, which replace the stored entries of an
        entity."""
        written_entries = {key: entry for layer in self._writing.layers for key, entry in layer.index.items()}
        written = {entry.xid for entry in written_entries.values() if entry is not None}
        for xid, target in super().named(kind, targets, within):
            if str(xid) not in written:
                yield xid, target
        first = f"{str(within).rstrip('/')}/"
        entries = [entry for entry in written_entries.values() if entry is not None and entry.xid.startswith(first)]
        links = ((entry.xid, link) for entry in entries for link in entry.links)
        yield from (
            (stored_xid(xid), link.target) for xid, link in links if link.kind == kind and link.target in targets
        )

    def put(self, entry: IndexEntry) -> None:
        """Add an entry, or replace the entry with the same key."""
        self._writing.pending.index[entry.key] = entry

    def mark(self, key: int, flags: int) -> None:
        """Change the flags of an entity's entry, if it has an entry."""
        self._writing.pending.marks[key] = flags

    def drop(self, key: int) -> None:
        """Remove the entry of an entity, if it has an entry. The entity itself stays."""
        self._writing.pending.index[key] = None

    def put_state(self, **values: int) -> None:
        """Store the progress of the index, by name."""
        for name, value in values.items():
            self._writing.run(self._index.put_state, {"name": name, "value": value})

    def merge(self) -> None:
        """Optimize the word tables after many writes. Takes seconds for 100,000 entries."""
        for sql in self._index.words.merge:
            self._writing.run(sql, {})

    def clear(self) -> None:
        """Remove all entries, links, words and the stored progress."""
        for sql in self._index.clear:
            self._writing.run(sql, {})

    def finish(self) -> None:
        """Write the pending changes before the commit."""
        pending = self._writing.layers[0]
        entries = [entry for entry in pending.index.values() if entry is not None]
        gone = [key for key, entry in pending.index.items() if entry is None]
        for some in batched(gone, _KEYS):
            for sql in (self._index.drop, self._index.drop_links, *self._index.words.drop.values()):
                self._writing.run(sql, {"keys": self._writing.array(some)})
        self._writing.run_bulk(self._index.put, [_encode_entry(entry) for entry in entries])
        for some in batched([entry.key for entry in entries], _KEYS):
            self._writing.run(self._index.drop_links, {"keys": self._writing.array(some)})
        linked = [
            {"source": entry.key, "kind": link.kind, "target": link.target} for entry in entries for link in entry.links
        ]
        self._writing.run_bulk(self._index.put_link, linked)
        self._write_words(entries)
        self._mark(pending.marks)

    def _write_words(self, entries: Sequence[IndexEntry]) -> None:
        words = self._index.words
        for table, other in zip(WORD_TABLES, reversed(WORD_TABLES), strict=True):
            table_entries = [entry for entry in entries if choose_table(entry.flags) == table]
            for some in batched([entry.key for entry in table_entries], _KEYS):
                self._writing.run(words.drop[other], {"keys": self._writing.array(some)})
            self._writing.run_bulk(words.put[table], [words.row(entry.key, entry.words) for entry in table_entries])

    def _mark(self, marks: Mapping[int, int]) -> None:
        self._writing.run_bulk(self._index.mark, [{"key": key, "flags": flags} for key, flags in marks.items()])
        words = self._index.words
        for table, other in zip(WORD_TABLES, reversed(WORD_TABLES), strict=True):
            for some in batched([key for key, flags in marks.items() if choose_table(flags) == table], _KEYS):
                keys = {"keys": self._writing.array(some)}
                self._writing.run(words.copy[table], keys)
                self._writing.run(words.drop[other], keys)


def _encode_entry(entry: IndexEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "xid": entry.xid,
        "folded": entry.folded,
        "flags": entry.flags,
        "format": entry.format,
        "protocol": entry.protocol,
        "envelope": entry.envelope,
        "texts": msgspec.json.encode(entry.texts).decode(),
    }
