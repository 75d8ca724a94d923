"""Entities and their documents: every SQL statement about them, reading, and writing.

Statements are built with SQLAlchemy Core, compiled once per store and run by the driver: running a compiled SQLAlchemy
statement costs 30 us, running its text through the driver 3 us, and a point read consists of little else
(docs/decisions/020-storage.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    bindparam,
    delete,
    desc,
    exists,
    func,
    literal_column,
    not_,
    select,
    tuple_,
    update,
)

from signalbook.storage.base import DuplicateId, Hit, Row, Selection, StorageError
from signalbook.storage.dialect import BATCH, Dialect
from signalbook.storage.filtering import SelectionStatements, selected
from signalbook.storage.schema import (
    COLUMNS,
    COUNTERS,
    DOCUMENTS,
    ENTITIES,
    IDENTITY,
    MEMBERS,
    dump,
    fold,
    load,
    position,
)
from signalbook.storage.transaction import Pending, SqlTransaction, SqlWriting, add_counts
from signalbook.xid import Kind, Xid

_SUSPECTS: Final = 10_000
"""Documents looked at one by one after they lost a name; beyond that all documents are."""
_KEYS: Final = 10_000
"""Keys in one statement."""
_REMEMBERED: Final = 2_000
"""Rows: some for each write of a batch. What meets more of them at once hardly meets them again."""

_E: Final = ENTITIES.c
_OTHER: Final = ENTITIES.alias("other")
# Ids are ASCII: as it is in the xid, an id is as long as its folded form.
_ID: Final = func.substr(_E.xid, func.length(_E.xid) - func.length(_E.folded) + literal_column("1"))
_DERIVED: Final = (_OTHER.c.parent == _E.parent, _OTHER.c.ancestorid == _ID)
_ORDER: Final = (_E.parent, _E.type, _E.folded)
_BEHIND: Final = ("after_parent", "after_type", "after_folded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenQuery:
    """A question for children: see ``base.Reader.children``. ``ids`` are folded, ``parents`` sorted and not empty.

    ``after`` is a position in the order of the answer: parent key, type, folded id.
    """

    parents: tuple[int, ...]
    type: str | None = None
    ids: tuple[str, ...] | None = None
    after: tuple[int, str, str] | None = None
    limit: int | None = None

    def first(self, count: int) -> ChildrenQuery:
        """The first ``count`` rows of the answer."""
        return replace(self, limit=count if self.limit is None else min(count, self.limit))

    def behind(self, row: Row, count: int) -> ChildrenQuery:
        """The answer after its first ``count`` rows, of which ``row`` is the last."""
        return replace(
            self,
            # Rows come by parent: those of the parents before it have all been seen.
            parents=tuple(parent for parent in self.parents if parent >= row.parent),
            after=(row.parent, *position(row.xid)),
            limit=None if self.limit is None else self.limit - count,
        )


class VersionStatements:
    """The SQL text about the Versions of one Resource by rank: each by index, whatever their number."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        place = tuple_(_E.rank, _E.folded)
        given = tuple_(bindparam("rank"), bindparam("folded"))
        leaf = ~exists().where(*_DERIVED, _OTHER.c.key != _E.key)
        self.newest = self._ranked(falling=True)
        self.leaves = self._ranked(place > given, leaf, falling=True)
        self.before = self._ranked(place < given, falling=True)
        self.after = self._ranked(place > given, falling=False)
        named = dialect.member(_E.ancestorid, "ancestors")
        derived = select(*COLUMNS).where(_E.parent == bindparam("parent"), named, _E.ancestorid != _ID)
        self.derived = dialect.text(derived.order_by(_E.folded))
        elsewhere = exists().where(*_DERIVED, ~dialect.member(_OTHER.c.key, "keys"))
        self.ancestors = dialect.text(select(_E.key).where(dialect.member(_E.key, "keys"), elsewhere))

    def _ranked(self, *conditions: Any, falling: bool) -> str:
        order = [desc(column) if falling else column for column in (_E.rank, _E.folded)]
        query = select(*COLUMNS).where(_E.parent == bindparam("parent"), _E.rank.is_not(None), *conditions)
        return self._dialect.page(query.order_by(*order))


class EntityStatements:
    """The SQL text for one dialect. Parameters go by the names of the columns they meet."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._text = dialect.text
        self._children = cache(self._children_query)
        rows = select(*COLUMNS)
        self.get = self._text(rows.where(_E.xid == bindparam("xid")))
        self.get_many = self._text(rows.where(dialect.member(_E.xid, "xids")))
        self.by_key = self._text(rows.where(dialect.member(_E.key, "keys")).order_by(*_ORDER))
        members = rows.where(_E.parent == bindparam("parent"), _E.type == bindparam("type"))
        members = members.order_by(desc(_E.folded))
        self.last = dialect.page(members)
        self.preceding = dialect.page(members.where(_E.folded <= bindparam("folded")))
        self.selections = SelectionStatements(dialect)
        self.versions = VersionStatements(dialect)
        self.referrers = self._text(rows.where(dialect.member(_E.xref, "xrefs")).order_by(_E.xid))
        # In the order of the index: where few rows refer to others, PostgreSQL would look for one among all of them.
        self.refers = dialect.page(select(_E.xref).where(_E.xref.is_not(None)).order_by(_E.xref))
        first = rows.order_by(_E.key)
        # In the order of the index: by key alone, PostgreSQL may well walk through all entities.
        named = rows.where(dialect.member(_E.uri, "uris"), _E.uri.is_not(None))
        self.named = self._dialect.page(named.order_by(_E.uri, _E.key))
        held = (_E.document == bindparam("document"), _E.parent == bindparam("parent"))
        self.holders = self._dialect.page(first.where(*held))
        self._member_statements()
        self._document_statements()
        self._entity_writes()

    def children(self, query: ChildrenQuery) -> tuple[str, dict[str, Any]]:
        """The SQL of ``query`` and its parameters."""
        one = len(query.parents) == 1
        parameters: dict[str, Any] = {"limit": query.limit, "type": query.type}
        parameters["parents"] = query.parents[0] if one else self._dialect.array(query.parents)
        if query.ids is not None:
            parameters["ids"] = self._dialect.array(query.ids)
        if query.after is not None:
            parameters.update(zip(_BEHIND, query.after, strict=True))
        given = [name for name in ("type", "ids", "after", "limit") if getattr(query, name) is not None]
        return self._children(one, frozenset(given)), parameters

    def _children_query(self, one: bool, given: frozenset[str]) -> str:
        conditions = [_E.parent == bindparam("parents") if one else self._dialect.member(_E.parent, "parents")]
        if "type" in given:
            conditions.append(_E.type == bindparam("type"))
        if "ids" in given:
            conditions.append(self._dialect.member(_E.folded, "ids"))
        if "after" in given:
            conditions.append(_behind(skip=(2 if "type" in given else 1) if one else 0))
        query = select(*COLUMNS).where(*conditions).order_by(*_ORDER)
        return self._dialect.page(query) if "limit" in given else self._text(query)

    def _entity_writes(self) -> None:
        changeable: dict[str, Any] = {c.name: bindparam(c.name) for c in ENTITIES.c if c.name not in IDENTITY}
        c, of_entities = COUNTERS.c, COUNTERS.c.name == literal_column("'entities'")
        self.last_key = self._text(select(c.value).where(of_entities))
        self.reserve = self._text(update(COUNTERS).where(of_entities).values(value=c.value + bindparam("count")))
        kept = self._dialect.insert(COUNTERS)
        higher = kept.excluded.value > c.value
        kept = kept.on_conflict_do_update(index_elements=[c.name], set_={"value": kept.excluded.value}, where=higher)
        self.keep_numbers = self._text(kept)
        self.last_numbers = self._text(select(c.name, c.value).where(self._dialect.member(c.name, "names")))
        self.insert = self._text(self._dialect.insert(ENTITIES).on_conflict_do_nothing())
        self.update = self._text(update(ENTITIES).where(_E.key == bindparam("key")).values(changeable))
        self.delete = self._text(delete(ENTITIES).where(self._dialect.member(_E.key, "keys")))

    def _member_statements(self) -> None:
        m = MEMBERS.c
        of_parents = self._dialect.member(m.parent, "parents")
        self.counts = self._text(select(m.parent, m.type, m.count).where(of_parents, m.count > literal_column("0")))
        add = self._dialect.insert(MEMBERS)
        add = add.on_conflict_do_update(index_elements=[m.parent, m.type], set_={"count": m.count + add.excluded.count})
        self.add_members = self._text(add)
        self.drop_members = self._text(delete(MEMBERS).where(of_parents))
        leaving = select(_E.key, _E.parent, _E.type, _E.document)
        self.leaving = self._text(leaving.where(self._dialect.member(_E.key, "keys")))
        self.beneath = self._text(leaving.where(self._dialect.member(_E.parent, "keys")))

    def _document_statements(self) -> None:
        d = DOCUMENTS.c
        unnamed = not_(exists().where(_E.document == d.digest))
        named = select(_E.document).where(_E.document.is_not(None)).distinct()
        self.documents = self._text(select(d.digest, d.content).where(self._dialect.member(d.digest, "digests")))
        self.put_document = self._text(self._dialect.insert(DOCUMENTS).on_conflict_do_nothing())
        self.named_by_rows = self._text(named.where(self._dialect.member(_E.key, "keys")))
        self.sweep = self._text(delete(DOCUMENTS).where(self._dialect.member(d.digest, "digests"), unnamed))
        self.sweep_all = self._text(delete(DOCUMENTS).where(unnamed))


def _behind(*, skip: int) -> ColumnElement[bool]:
    """Rows behind a position. The columns of ``_ORDER`` that are fixed are skipped: SQLite's index needs it so."""
    return tuple_(*_ORDER[skip:]) > tuple_(*(bindparam(name) for name in _BEHIND[skip:]))


class SqlEntityReader:
    """``base.Reader`` in one open transaction."""

    def __init__(self, transaction: SqlTransaction, sql: EntityStatements) -> None:
        self._transaction = transaction
        self._sql = sql

    def get(self, xid: Xid) -> Row | None:
        """The entity at exactly this xid."""
        return self.get_many((xid,)).get(xid)

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``."""
        if len(xids) == 1:  # the more common by far, and a list costs as much as the row
            records = self._transaction.rows(self._sql.get, {"xid": str(next(iter(xids)))})
        else:
            records = self._transaction.rows(self._sql.get_many, {"xids": self._texts(xids)}) if xids else []
        return {row.xid: row for row in map(load, records)}

    def children(
        self,
        parents: Collection[int],
        type: str | None = None,
        *,
        ids: Collection[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Row]:
        """Rows below ``parents``: the first batch is read at once, the others as they are asked for."""
        query = ChildrenQuery(
            parents=tuple(sorted(set(parents))),
            type=type,
            ids=None if ids is None else tuple({fold(each) for each in ids}),
            after=None if after is None else self._position(parents, type, after),
            limit=limit,
        )
        if not query.parents or query.ids == () or limit == 0:
            return iter(())
        rows = [load(record) for record in self._transaction.rows(*self._sql.children(query.first(BATCH)))]
        # Most answers fit into one batch, and a cursor costs more than the rows of a small one.
        if len(rows) < BATCH or limit == BATCH:
            return iter(rows)
        return chain(rows, map(load, self._transaction.stream(*self._sql.children(query.behind(rows[-1], BATCH)))))

    @staticmethod
    def _position(parents: Collection[int], type: str | None, after: str) -> tuple[int, str, str]:
        if type is None or len(parents) != 1:
            raise ValueError("after needs one parent and a type")
        return next(iter(parents)), type, fold(after)

    def preceding(self, parent: int, type: str, limit: int, *, upto: str | None = None) -> list[Row]:
        """Rows of one type by falling ids."""
        place = {"parent": parent, "type": type, "limit": limit}
        if upto is None:
            return self._rows(self._sql.last, place)
        return self._rows(self._sql.preceding, {**place, "folded": fold(upto)})

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """The entities with these keys, by parent, type and folded id."""
        if not keys:
            return iter(())
        return map(load, self._transaction.stream(self._sql.by_key, {"keys": self._transaction.array(keys)}))

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """The ways of ``selection``, as they are asked for."""
        return selected(self._transaction.stream(*self._sql.selections.statement(selection)), selection)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type)."""
        if not parents:
            return {}
        records = self._transaction.rows(self._sql.counts, {"parents": self._transaction.array(parents)})
        return {(parent, plural): count for parent, plural, count in records}

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``, by xid."""
        records = self._transaction.rows(self._sql.referrers, {"xrefs": self._texts(targets)}) if targets else ()
        return [load(record) for record in records]

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Versions from the highest rank down."""
        return self._rows(self._sql.versions.newest, {"parent": parent, "limit": limit})

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Versions from the highest rank down that are no other's ancestor."""
        rank, name = above
        place = {"parent": parent, "rank": rank, "folded": fold(name), "limit": limit}
        return self._rows(self._sql.versions.leaves, place)

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Versions around a place in the order of ranks."""
        place = {"parent": parent, "rank": rank, "folded": fold(id), "limit": limit}
        return self._rows(self._sql.versions.before, place), self._rows(self._sql.versions.after, place)

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Versions with one of these ancestors."""
        if not ancestors:
            return []
        place = {"parent": parent, "ancestors": self._transaction.array(ancestors)}
        return self._rows(self._sql.versions.derived, place)

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Versions that others have as ancestor."""
        if not keys:
            return set()
        found = self._transaction.rows(self._sql.versions.ancestors, {"keys": self._transaction.array(keys)})
        return {key for (key,) in found}

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Versions with one of these ``uris``."""
        return self._rows(self._sql.named, {"uris": self._transaction.array(uris), "limit": limit})

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Versions below ``parent`` with this document."""
        return self._rows(self._sql.holders, {"parent": parent, "document": document, "limit": limit})

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""
        if not digests:
            return {}
        return dict(self._transaction.rows(self._sql.documents, {"digests": self._transaction.array(digests)}))

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """The last numbers of Resources that were deleted."""
        names = {_counter(xid): xid for xid in xids}
        records = self._transaction.rows(self._sql.last_numbers, {"names": self._transaction.array(list(names))})
        return {names[name]: number for name, number in records}

    def _texts(self, xids: Collection[Xid]) -> object:
        return self._transaction.array([str(xid) for xid in xids])

    def _rows(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return [load(record) for record in self._transaction.rows(sql, parameters)]


class SqlEntityWriter(SqlEntityReader):
    """``base.Writer`` in one open write transaction."""

    def __init__(self, transaction: SqlWriting, sql: EntityStatements) -> None:
        super().__init__(transaction, sql)
        self._writing = transaction
        self._last_key: int | None = None
        self._refers: bool | None = None

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``; those met before are not read again."""
        self._writing.check()
        # The layer of a savepoint comes behind that of its transaction: what it wrote last is what is found.
        found = {xid: row for layer in self._writing.layers for xid in xids if (row := layer.rows.get(xid)) is not None}
        missing = [xid for xid in xids if xid not in found]
        if missing:
            read = super().get_many(missing)
            self._remember(read.values())
            found |= read
        return found

    def _remember(self, rows: Collection[Row]) -> None:
        if sum(len(layer.rows) for layer in self._writing.layers) + len(rows) > _REMEMBERED:
            self._writing.forget_reads()
        if len(rows) <= _REMEMBERED:
            self._writing.pending.rows.update((row.xid, row) for row in rows)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type): those stored, which are asked for once, and those gained."""
        found: dict[tuple[int, str], int] = {}
        self._count(parents)
        for parent in set(parents):
            total = dict(self._writing.counted[parent])
            for layer in self._writing.layers:
                add_counts(total, layer.members.get(parent, {}))
            found.update(((parent, plural), count) for plural, count in total.items() if count > 0)
        return found

    def _count(self, parents: Collection[int]) -> None:
        self._writing.check()
        if len(self._writing.counted) > _REMEMBERED:
            self._writing.counted.clear()
        unknown = [parent for parent in parents if parent not in self._writing.counted]
        self._writing.counted.update((parent, {}) for parent in unknown)
        stored = super().counts(unknown) if unknown else {}
        for (parent, plural), count in stored.items():
            self._writing.counted[parent][plural] = count

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``; most registries have no reference at all."""
        if self._refers is None:
            self._refers = bool(self._writing.rows(self._sql.refers, {"limit": 1}))
        return super().referrers(targets) if self._refers else []

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""
        found = {
            name: layer.documents[name] for layer in self._writing.layers for name in digests if name in layer.documents
        }
        return found | super().documents([name for name in digests if name not in found])

    def reserve(self, count: int) -> Sequence[int]:
        """``count`` fresh storage keys."""
        if self._last_key is None:
            self._last_key = int(self._writing.rows(self._sql.last_key, {})[0][0])
        # Nobody else writes meanwhile: the counter in the database is raised once, at the commit.
        first = self._last_key + sum(layer.reserved for layer in self._writing.layers) + 1
        self._writing.pending.reserved += max(count, 0)
        return range(first, first + count)

    def insert(self, rows: Sequence[Row]) -> None:
        """Add rows. After ``DuplicateId`` some of them may be there: the transaction can only be rolled back."""
        self._writing.pending.touched = True
        # The statement passes over conflicts: on PostgreSQL an error would end the transaction, and name no id.
        if self._writing.run_many(self._sql.insert, [dump(row) for row in rows]) < len(rows):
            raise self._duplicate(rows)
        part = self._writing.pending
        for row in rows:
            add_counts(part.members.setdefault(row.parent, {}), {position(row.xid)[0]: 1})
        part.named.update(row.document for row in rows if row.document)
        self._keep(rows)

    def _keep(self, rows: Sequence[Row]) -> None:
        if any(row.xref is not None for row in rows):
            self._refers = True
        self._remember(rows)

    def _duplicate(self, rows: Sequence[Row]) -> DuplicateId:
        stored = super().get_many([row.xid for row in rows])
        arrived = {row.key: row.xid for row in stored.values()}
        error = DuplicateId(next((row.xid for row in rows if arrived.get(row.key) != row.xid), rows[-1].xid))
        self._writing.end(f"an earlier failure ended this transaction: {error}")
        return error

    def update(self, rows: Sequence[Row]) -> None:
        """Replace what may change of the rows with these keys: all but key, parent and xid."""
        documents = {row.document for row in rows if row.document}
        versions = [row.key for row in rows if row.xid.kind is Kind.VERSION]
        part = self._writing.pending
        part.touched = True
        if versions:
            before = self._writing.rows(self._sql.named_by_rows, {"keys": self._writing.array(versions)})
            part.suspects.update(digest for (digest,) in before if digest not in documents)
        if self._writing.run_many(self._sql.update, [dump(row) for row in rows]) < len(rows):
            error = "an entity to be updated is not stored; read it again"
            self._writing.end(error)
            raise StorageError(error)
        part.named |= documents
        self._keep(rows)

    def delete(self, keys: Collection[int]) -> None:
        """Remove these rows and all beneath them."""
        if not keys:
            return
        part = self._writing.pending
        part.touched = True
        gone: set[int] = set()
        lost: dict[int, dict[str, int]] = {}
        # Level by level: a recursive query has no plan that is right for one row and for a million.
        level = self._leaving(self._sql.leaving, keys, lost)
        while level:
            gone |= level
            level = self._leaving(self._sql.beneath, level, lost)
        self._drop_members(gone, lost)
        for some in _in_parts(gone):
            self._writing.run(self._sql.delete, {"keys": self._writing.array(some)})
        self._writing.forget_reads()

    def _leaving(self, sql: str, keys: Collection[int], lost: dict[int, dict[str, int]]) -> set[int]:
        """Keys of rows that are about to go; they are counted as ``lost``, their documents are suspects."""
        found = set()
        suspects = self._writing.pending.suspects
        for some in _in_parts(keys):
            for key, parent, plural, document in self._writing.rows(sql, {"keys": self._writing.array(some)}):
                found.add(key)
                add_counts(lost.setdefault(parent, {}), {plural: 1})
                # One more than would be looked at one by one is enough to know that it will be all of them.
                if document is not None and len(suspects) <= _SUSPECTS:
                    suspects.add(document)
        return found

    def _drop_members(self, gone: set[int], lost: Mapping[int, Mapping[str, int]]) -> None:
        """Count what goes: out of collections that stay, and with collections that go too."""
        part = self._writing.pending
        for parent in lost.keys() - gone:
            add_counts(part.members.setdefault(parent, {}), lost[parent], -1)
        for some in _in_parts(lost.keys() & gone):
            self._writing.run(self._sql.drop_members, {"parents": self._writing.array(some)})
        for parent in {parent for layer in self._writing.layers for parent in layer.members.keys() & gone}:
            for gained in [dict(layer.members.get(parent, {})) for layer in self._writing.layers]:
                add_counts(part.members.setdefault(parent, {}), gained, -1)

    def put_documents(self, documents: Mapping[str, bytes]) -> None:
        """Keep documents by digest."""
        self._writing.check()
        self._writing.pending.documents.update(documents)

    def keep_numbers(self, numbers: Mapping[Xid, int]) -> None:
        """Keep numbers as counters."""
        self._writing.check()
        kept = [{"name": _counter(xid), "value": number} for xid, number in numbers.items()]
        self._writing.run_many(self._sql.keep_numbers, kept)

    def finish(self) -> None:
        """Last work before the commit: tell the database what is pending.

        Documents that lost their last name go only now, since one may lose a name and get another within one
        transaction; one that never got a name is not reported at all.
        """
        self._writing.check()
        pending = self._writing.layers[0]
        kept = [{"digest": d, "content": content} for d, content in pending.documents.items() if d in pending.named]
        self._writing.run_many(self._sql.put_document, kept)
        self._writing.run_many(self._sql.add_members, _gained(pending))
        if pending.reserved:
            self._writing.run(self._sql.reserve, {"count": pending.reserved})
        if len(pending.suspects) > _SUSPECTS:
            self._writing.run(self._sql.sweep_all, {})
        elif pending.suspects:
            self._writing.run(self._sql.sweep, {"digests": self._writing.array(pending.suspects)})


def _in_parts(keys: Collection[int]) -> Iterator[list[int]]:
    """``keys``, some thousands at once: as many as a statement takes well."""
    ordered = sorted(keys)
    return (ordered[start : start + _KEYS] for start in range(0, len(ordered), _KEYS))


def _counter(resource: Xid) -> str:
    """The name of the counter with the last number of a Resource that was deleted."""
    return f"versions{fold(str(resource))}"


def _gained(pending: Pending) -> list[dict[str, Any]]:
    """How many members each collection gained or lost."""
    return [
        {"parent": parent, "type": plural, "count": count}
        for parent, gained in pending.members.items()
        for plural, count in gained.items()
        if count
    ]
