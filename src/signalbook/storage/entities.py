"""SQL statements about entities and their documents, and the reader that runs them.

Statements are built with SQLAlchemy Core, compiled once per store and run by the driver: running a compiled SQLAlchemy
statement costs 30 us, running its text through the driver 3 us, and a point read consists of little else
(docs/decisions/020-storage.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    and_,
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

from signalbook.storage.base import LAST, Hit, Row, Selection
from signalbook.storage.dialect import BATCH, Dialect
from signalbook.storage.filtering import SelectionStatements, load_hits
from signalbook.storage.schema import (
    COLUMNS,
    COUNTERS,
    DOCUMENTS,
    ENTITIES,
    IDENTITY,
    MEMBERS,
    USAGE,
    findable,
    fold,
    load,
    position,
)
from signalbook.storage.transaction import SqlReader
from signalbook.xid import Xid

_E: Final = ENTITIES.c
_OTHER: Final = ENTITIES.alias("other")
# The id as it is written in the xid. Ids are ASCII, so an id is as long as its folded form.
_ID: Final = func.substr(_E.xid, func.length(_E.xid) - func.length(_E.folded) + literal_column("1"))
_DERIVED: Final = (_OTHER.c.parent == _E.parent, _OTHER.c.ancestorid == _ID)
_ORDER: Final = (_E.parent, _E.type, _E.folded)
_SHAPE: Final = ("type", "ids", "after", "limit")
_BEHIND: Final = ("after_parent", "after_type", "after_folded")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenQuery:
    """A query for children, as in ``base.Reader.children``. ``ids`` are folded, ``parents`` sorted and not empty.

    ``after`` is a position in the order of the results: parent key, type, folded id.
    """

    parents: tuple[int, ...]
    type: str | None = None
    ids: tuple[str, ...] | None = None
    after: tuple[int, str, str] | None = None
    limit: int | None = None

    def first(self, count: int) -> ChildrenQuery:
        """Return the query for the first ``count`` rows of this query."""
        return replace(self, limit=count if self.limit is None else min(count, self.limit))

    def behind(self, row: Row, count: int) -> ChildrenQuery:
        """Return the query for the rows after the first ``count`` rows, of which ``row`` is the last."""
        return replace(
            self,
            # Rows are ordered by parent: the rows of all earlier parents have been read.
            parents=tuple(parent for parent in self.parents if parent >= row.parent),
            after=(row.parent, *position(row.xid)),
            limit=None if self.limit is None else self.limit - count,
        )


class VersionStatements:
    """The SQL text for queries on the Versions of one Resource by rank. Each query uses an index."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        place = tuple_(_E.rank, _E.folded)
        given = tuple_(bindparam("rank"), bindparam("folded"))
        leaf = ~exists().where(*_DERIVED, _OTHER.c.key != _E.key)
        self.newest = self._select_ranked(falling=True)
        self.leaves = self._select_ranked(place > given, leaf, falling=True)
        self.before = self._select_ranked(place < given, falling=True)
        self.after = self._select_ranked(place > given, falling=False)
        named = dialect.member(_E.ancestorid, "ancestors")
        derived = select(*COLUMNS).where(_E.parent == bindparam("parent"), named, _E.ancestorid != _ID)
        self.derived = dialect.text(derived.order_by(_E.folded))
        elsewhere = exists().where(*_DERIVED, ~dialect.member(_OTHER.c.key, "keys"))
        self.ancestors = dialect.text(select(_E.key).where(dialect.member(_E.key, "keys"), elsewhere))

    def _select_ranked(self, *conditions: Any, falling: bool) -> str:
        order = [desc(column) if falling else column for column in (_E.rank, _E.folded)]
        query = select(*COLUMNS).where(_E.parent == bindparam("parent"), _E.rank.is_not(None), *conditions)
        return self._dialect.page(query.order_by(*order))


class EntityStatements:
    """The SQL text for one dialect. Parameters have the names of the columns that they are compared with."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._text = dialect.text
        self._children = cache(self._compile_children)
        rows = select(*COLUMNS)
        self.get = self._text(rows.where(_E.xid == bindparam("xid")))
        self.get_many = self._text(rows.where(dialect.member(_E.xid, "xids")))
        # Look up one id at a time: PostgreSQL may use a list of ids as a filter only, and walk through all siblings.
        o, given = _OTHER.c, dialect.elements("ids")
        place = (o.parent == bindparam("parent"), o.type == bindparam("type"), o.folded == given.c.value)
        there = select(select(o.key).where(*place).correlate(given).scalar_subquery()).select_from(given)
        self.at_places = self._text(rows.where(_E.key.in_(there)))
        self.by_key = self._text(rows.where(dialect.member(_E.key, "keys")).order_by(*_ORDER))
        members = rows.where(_E.parent == bindparam("parent"), _E.type == bindparam("type"))
        members = members.order_by(desc(_E.folded))
        self.last = dialect.page(members)
        self.preceding = dialect.page(members.where(_E.folded <= bindparam("folded")))
        self.selections = SelectionStatements(dialect)
        self.versions = VersionStatements(dialect)
        self.referrers = self._text(rows.where(dialect.member(_E.xref, "xrefs")).order_by(_E.xid))
        # Order by the index: where few rows have an xref, PostgreSQL would search all rows for one of them.
        self.refers = dialect.page(select(_E.xref).where(_E.xref.is_not(None)).order_by(_E.xref))
        first = rows.order_by(_E.key)
        # Order by the index: if ordered by key alone, PostgreSQL may walk through all entities.
        named = rows.where(dialect.member(_E.uri, "uris"), _E.uri.is_not(None))
        self.named = self._dialect.page(named.order_by(_E.uri, _E.key))
        numbered = (_E.schemaid == bindparam("schemaid"), _E.xid > bindparam("after"), _E.xid < bindparam("last"))
        self.numbered = self._dialect.page(rows.where(*numbered).order_by(_E.xid))
        self._compile_schema_statements()
        held = (_E.document == bindparam("document"), _E.parent == bindparam("parent"))
        self.holders = self._dialect.page(first.where(*held))
        self._compile_member_statements()
        self._compile_usage_statements()
        self._compile_document_statements()
        self._compile_entity_writes()

    def _compile_schema_statements(self) -> None:
        e, v = _E, _OTHER.c
        default = (
            v.parent == e.key,
            v.type == literal_column("'versions'"),
            v.folded == func.lower(e.defaultversionid),
        )
        of_group = (e.parent == bindparam("parent"), e.type == literal_column("'schemas'"))
        joined = ENTITIES.join(_OTHER, and_(*default))
        between = (e.folded >= bindparam("first"), e.folded < bindparam("last"))
        numbered = (*of_group, v.schemaid.is_not(None))
        query = select(_ID, v.attributes).select_from(joined).where(*numbered, *between)
        self.schemas = self._dialect.page(query.order_by(e.folded), "offset")
        self.count_schemas = self._text(select(func.count()).select_from(joined).where(*numbered))

    def children(self, query: ChildrenQuery) -> tuple[str, dict[str, Any]]:
        """Return the SQL text of ``query`` and its parameters."""
        single = len(query.parents) == 1
        parameters: dict[str, Any] = {"limit": query.limit, "type": query.type}
        parameters["parents"] = query.parents[0] if single else self._dialect.array(query.parents)
        # Compare a single id by equality, which uses the index. For a list PostgreSQL may walk through all siblings in
        # order.
        ids = "id" if query.ids is not None and len(query.ids) == 1 else "ids"
        if query.ids is not None:
            parameters[ids] = query.ids[0] if ids == "id" else self._dialect.array(query.ids)
        if query.after is not None:
            parameters.update(zip(_BEHIND, query.after, strict=True))
        names = {ids if name == "ids" else name for name in _SHAPE if getattr(query, name) is not None}
        return self._children(single, frozenset(names)), parameters

    def _compile_children(self, single: bool, names: frozenset[str]) -> str:
        conditions = [_E.parent == bindparam("parents") if single else self._dialect.member(_E.parent, "parents")]
        if "type" in names:
            conditions.append(_E.type == bindparam("type"))
        if "id" in names:
            conditions.append(_E.folded == bindparam("id"))
        if "ids" in names:
            conditions.append(self._dialect.member(_E.folded, "ids"))
        if "after" in names:
            conditions.append(_compare_behind(skip=(2 if "type" in names else 1) if single else 0))
        query = select(*COLUMNS).where(*conditions).order_by(*_ORDER)
        return self._dialect.page(query) if "limit" in names else self._text(query)

    def _compile_entity_writes(self) -> None:
        changeable = [column.name for column in ENTITIES.c if column.name not in IDENTITY]
        c, of_entities = COUNTERS.c, COUNTERS.c.name == literal_column("'entities'")
        self.last_key = self._text(select(c.value).where(of_entities))
        self.reserve = self._text(update(COUNTERS).where(of_entities).values(value=c.value + bindparam("count")))
        upsert = self._dialect.insert(COUNTERS)
        higher = upsert.excluded.value > c.value
        upsert = upsert.on_conflict_do_update(
            index_elements=[c.name], set_={"value": upsert.excluded.value}, where=higher
        )
        self.keep_numbers = self._text(upsert)
        self.last_numbers = self._text(select(c.name, c.value).where(self._dialect.member(c.name, "names")))
        self.insert = self._text(self._dialect.insert_many(ENTITIES).on_conflict_do_nothing())
        self.update = self._text(self._dialect.update_many(ENTITIES, changeable))
        self.delete = self._text(delete(ENTITIES).where(self._dialect.member(_E.key, "keys")))

    def _compile_member_statements(self) -> None:
        m = MEMBERS.c
        of_parents = self._dialect.member(m.parent, "parents")
        self.counts = self._text(select(m.parent, m.type, m.count).where(of_parents, m.count > literal_column("0")))
        add = self._dialect.insert_many(MEMBERS)
        add = add.on_conflict_do_update(index_elements=[m.parent, m.type], set_={"count": m.count + add.excluded.count})
        self.add_members = self._text(add)
        self.drop_members = self._text(delete(MEMBERS).where(of_parents))
        size = func.length(DOCUMENTS.c.content)
        leaving = select(_E.key, _E.parent, _E.type, _E.document, _E.xid, size)
        leaving = leaving.select_from(ENTITIES.outerjoin(DOCUMENTS, DOCUMENTS.c.digest == _E.document))
        self.leaving = self._text(leaving.where(self._dialect.member(_E.key, "keys")))
        self.beneath = self._text(leaving.where(self._dialect.member(_E.parent, "keys")))

    def _compile_usage_statements(self) -> None:
        u, d, resource = USAGE.c, DOCUMENTS.c, _OTHER.c
        of_parents = self._dialect.member(u.parent, "parents")
        self.usage = self._text(select(u.parent, u.versions, u.bytes).where(of_parents))
        self.sizes = self._text(
            select(d.digest, func.length(d.content)).where(self._dialect.member(d.digest, "digests"))
        )
        add = self._dialect.insert_many(USAGE)
        added = {c.name: c + add.excluded[c.name] for c in (u.versions, u.bytes)}
        self.add_usage = self._text(add.on_conflict_do_update(index_elements=[u.parent], set_=added))
        self.drop_usage = self._text(delete(USAGE).where(of_parents))
        self.drop_all_usage = self._text(delete(USAGE))
        total = func.coalesce(func.sum(func.length(d.content)), literal_column("0"))
        versions = ENTITIES.join(_OTHER, resource.key == _E.parent).outerjoin(DOCUMENTS, d.digest == _E.document)
        counted = select(resource.parent, func.count(), total).select_from(versions)
        counted = counted.where(_E.type == literal_column("'versions'")).group_by(resource.parent)
        self.recount = self._text(USAGE.insert().from_select([u.parent, u.versions, u.bytes], counted))

    def _compile_document_statements(self) -> None:
        d = DOCUMENTS.c
        unnamed = not_(exists().where(_E.document == d.digest))
        with_document = select(_E.key, _E.document).where(_E.document.is_not(None))
        self.documents = self._text(select(d.digest, d.content).where(self._dialect.member(d.digest, "digests")))
        self.put_document = self._text(self._dialect.insert_many(DOCUMENTS).on_conflict_do_nothing())
        self.named_by_rows = self._text(with_document.where(self._dialect.member(_E.key, "keys")))
        self.sweep = self._text(delete(DOCUMENTS).where(self._dialect.member(d.digest, "digests"), unnamed))
        self.sweep_all = self._text(delete(DOCUMENTS).where(unnamed))


def _compare_behind(*, skip: int) -> ColumnElement[bool]:
    """Return the condition for rows after a position, without the first ``skip`` columns of ``_ORDER``.

    Columns with a fixed value have to be skipped, because SQLite does not use its index otherwise.
    """
    return tuple_(*_ORDER[skip:]) > tuple_(*(bindparam(name) for name in _BEHIND[skip:]))


class EntityReader(SqlReader[EntityStatements]):
    """An implementation of ``base.Reader`` in one open transaction."""

    def _query(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        """Return all records of a query on the stored entities."""
        return self._transaction.rows(sql, parameters)

    def _stream(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Return the records of a query on the stored entities, a batch at a time in memory."""
        return self._transaction.stream(sql, parameters)

    def get(self, xid: Xid) -> Row | None:
        """Return the entity at exactly this xid, or None."""
        return self.get_many((xid,)).get(xid)

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """Return the entities that exist among ``xids``, by xid."""
        texts = findable(map(str, xids))
        if len(texts) == 1:  # by far the more common case, in which a list would cost as much as the row
            records = self._transaction.rows(self._sql.get, {"xid": texts[0]})
        else:
            array = self._transaction.array
            records = self._transaction.rows(self._sql.get_many, {"xids": array(texts)}) if texts else []
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
        """Return the rows below ``parents``. The first batch is read at once, later batches while iterating."""
        query = ChildrenQuery(
            parents=tuple(sorted(set(parents))),
            type=type,
            ids=None if ids is None else findable({fold(name) for name in ids}),
            after=None if after is None else self._find_position(parents, type, after),
            limit=limit,
        )
        if not query.parents or query.ids == () or limit == 0:
            return iter(())
        rows = [load(record) for record in self._query(*self._sql.children(query.first(BATCH)))]
        # Most results fit into one batch, and a cursor costs more than the rows of a small result.
        if len(rows) < BATCH or limit == BATCH:
            return iter(rows)
        return chain(rows, map(load, self._stream(*self._sql.children(query.behind(rows[-1], BATCH)))))

    @staticmethod
    def _find_position(parents: Collection[int], type: str | None, after: str) -> tuple[int, str, str]:
        if type is None or len(parents) != 1:
            raise ValueError("after needs one parent and a type")
        return next(iter(parents)), type, fold(after)

    def is_vacant(self, parent: int, type: str, id: str) -> bool:
        """Return True if no child has this id, ignoring case."""
        return not any(self.children((parent,), type, ids=(id,)))

    def preceding(self, parent: int, type: str, limit: int, *, upto: str | None = None) -> list[Row]:
        """Return rows of one type by descending ids, starting at the last id or at ``upto``."""
        place = {"parent": parent, "type": type, "limit": limit}
        if upto is None:
            return self._load_rows(self._sql.last, place)
        return self._load_rows(self._sql.preceding, {**place, "folded": fold(upto)})

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """Return the entities with these keys, by parent, type and folded id."""
        if not keys:
            return iter(())
        return map(load, self._stream(self._sql.by_key, {"keys": self._transaction.array(keys)}))

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """Return the paths that match ``selection``, read while iterating."""
        return load_hits(self._stream(*self._sql.selections.statement(selection)), selection)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Return the stored number of children by (parent key, type)."""
        if not parents:
            return {}
        records = self._transaction.rows(self._sql.counts, {"parents": self._transaction.array(parents)})
        return {(parent, plural): count for parent, plural, count in records}

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Return the Resources whose xref is one of ``targets``, by xid."""
        if not targets:
            return []
        return self._load_rows(self._sql.referrers, {"xrefs": self._transaction.array([str(xid) for xid in targets])})

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Return the Versions below ``parent`` by descending rank."""
        return self._load_rows(self._sql.versions.newest, {"parent": parent, "limit": limit})

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Return Versions by descending rank that are no other Version's ancestor."""
        rank, name = above
        place = {"parent": parent, "rank": rank, "folded": fold(name), "limit": limit}
        return self._load_rows(self._sql.versions.leaves, place)

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Return the Versions before and the Versions after a place in the order of ranks."""
        place = {"parent": parent, "rank": rank, "folded": fold(id), "limit": limit}
        return self._load_rows(self._sql.versions.before, place), self._load_rows(self._sql.versions.after, place)

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Return the Versions whose ancestor is one of ``ancestors``."""
        if not ancestors:
            return []
        place = {"parent": parent, "ancestors": self._transaction.array(ancestors)}
        return self._load_rows(self._sql.versions.derived, place)

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Return the keys of Versions that are an ancestor of a sibling outside ``keys``."""
        if not keys:
            return set()
        records = self._query(self._sql.versions.ancestors, {"keys": self._transaction.array(keys)})
        return {key for (key,) in records}

    def named(self, uris: Collection[str], limit: int) -> list[Row]:
        """Return up to ``limit`` Versions with one of these ``uris``."""
        return self._load_rows(self._sql.named, {"uris": self._transaction.array(uris), "limit": limit})

    def schemas(
        self, group: int, *, first: str = "", last: str = LAST, offset: int = 0, limit: int
    ) -> list[tuple[str, str]]:
        """Return the ids of schemas with the attributes of their default Versions as JSON."""
        place = {"parent": group, "first": fold(first), "last": fold(last), "offset": offset, "limit": limit}
        return [(name, attributes) for name, attributes in self._query(self._sql.schemas, place)]

    def count_schemas(self, group: int) -> int:
        """Return the number of schemas below ``group`` whose default Version has a number."""
        return int(self._query(self._sql.count_schemas, {"parent": group})[0][0])

    def numbered(self, group: Xid, schemaid: int, limit: int, after: str = "") -> list[Row]:
        """Return up to ``limit`` Versions below ``group`` with this schema id."""
        place = {"after": after or f"{group}/", "last": f"{group}0", "schemaid": schemaid, "limit": limit}
        return self._load_rows(self._sql.numbered, place)

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Return up to ``limit`` Versions below ``parent`` with this document."""
        return self._load_rows(self._sql.holders, {"parent": parent, "document": document, "limit": limit})

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Return the exact bytes of documents by digest."""
        if not digests:
            return {}
        return dict(self._transaction.rows(self._sql.documents, {"digests": self._transaction.array(digests)}))

    def last_numbers(self, xids: Collection[Xid]) -> dict[Xid, int]:
        """Return the last version numbers of deleted Resources, by xid."""
        names = {deleted_counter(xid): xid for xid in xids}
        records = self._transaction.rows(self._sql.last_numbers, {"names": self._transaction.array(list(names))})
        return {names[name]: number for name, number in records}

    def _load_rows(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return [load(record) for record in self._query(sql, parameters)]


def deleted_counter(resource: Xid) -> str:
    """Return the name of the counter that stores the last version number of a deleted Resource."""
    return f"versions{fold(str(resource))}"
