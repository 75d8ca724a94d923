"""Every SQL statement, once: built with SQLAlchemy Core, compiled once per store, run by the driver.

Running a compiled SQLAlchemy statement costs 30 us, running its text through the driver 3 us; a point read consists
of little else (docs/decisions/020-storage.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Select,
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
from sqlalchemy.dialects import postgresql, sqlite

from signalbook.storage.base import Row
from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import (
    COLUMNS,
    CONFIG,
    COUNTERS,
    DOCUMENTS,
    ENTITIES,
    IDENTITY,
    MEMBERS,
    NOTES,
    OUTBOX,
    PIPELINES,
    REPORTS,
    position,
)
from signalbook.storage.selection import Selections

_E: Final = ENTITIES.c
_OTHER: Final = ENTITIES.alias("other")
# Ids are ASCII: as it is in the xid, an id is as long as its folded form.
_ID: Final = func.substr(_E.xid, func.length(_E.xid) - func.length(_E.folded) + literal_column("1"))
_DERIVED: Final = (_OTHER.c.parent == _E.parent, _OTHER.c.ancestorid == _ID)


class Line:
    """The SQL text for one dialect."""

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
        self.derived = self._text(derived.order_by(_E.folded))
        elsewhere = exists().where(*_DERIVED, ~dialect.member(_OTHER.c.key, "keys"))
        self.ancestors = self._text(select(_E.key).where(dialect.member(_E.key, "keys"), elsewhere))

    def _ranked(self, *conditions: Any, falling: bool) -> str:
        order = [desc(column) if falling else column for column in (_E.rank, _E.folded)]
        query = select(*COLUMNS).where(_E.parent == bindparam("parent"), _E.rank.is_not(None), *conditions)
        # The offset is spelt out, since SQLAlchemy would make it a parameter for SQLite.
        return self._text(query.order_by(*order).limit(bindparam("limit")).offset(literal_column("0")))

    def _text(self, statement: Any) -> str:
        return str(statement.compile(dialect=self._dialect.sql))


_P: Final = PIPELINES.c
_R: Final = REPORTS.c


class Reporting:
    """The SQL text for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        insert = sqlite.insert if dialect.sql.name == "sqlite" else postgresql.insert
        named, own = _P.name == bindparam("name"), _R.pipeline == bindparam("pipeline")
        pipelines = select(_P.name, _P.newest, _P.time, _P.gist)
        self.pipeline = self._text(pipelines.where(named))
        self.pipelines = self._page(pipelines.where(_P.name > bindparam("after")).order_by(_P.name))
        self.count = self._text(select(func.count()).select_from(PIPELINES))
        put = insert(PIPELINES).values({c.name: bindparam(c.name) for c in _P})
        changed = {name: put.excluded[name] for name in ("newest", "time", "gist")}
        self.put_pipeline = self._text(put.on_conflict_do_update(index_elements=[_P.name], set_=changed))
        self.drop_pipeline = self._text(delete(PIPELINES).where(named))
        older = (own, _R.number < bindparam("before"))
        self.sizes = self._page(select(_R.number, _R.size).where(*older).order_by(desc(_R.number)))
        page = select(_R.number, _R.time, _R.value).where(*older, _R.number >= bindparam("first"))
        self.reports = self._text(page.order_by(desc(_R.number)))
        self.known = self._text(select(_R.number, _R.time).where(own, _R.batch == bindparam("batch")))
        self.add = self._text(insert(REPORTS).values({c.name: bindparam(c.name) for c in _R}))
        again: dict[str, Any] = {name: bindparam(name) for name in ("size", "value")}
        self.replace = self._text(update(REPORTS).where(own, _R.number == bindparam("number")).values(again))
        self.forget = self._text(delete(REPORTS).where(own, _R.number <= bindparam("upto")))

    def _page(self, query: Any) -> str:
        # The offset is spelt out, since SQLAlchemy would make it a parameter for SQLite.
        return self._text(query.limit(bindparam("limit")).offset(literal_column("0")))

    def _text(self, statement: Any) -> str:
        return str(statement.compile(dialect=self._dialect.sql))


_ORDER: Final = (_E.parent, _E.type, _E.folded)
_NONE: Final[ColumnElement[Any]] = literal_column("0")
_BEHIND: Final = ("after_parent", "after_type", "after_folded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """A question for children: see ``base.Reader.children``. ``ids`` are folded, ``parents`` sorted and not empty.

    ``after`` is a position in the order of the answer: parent key, type, folded id.
    """

    parents: tuple[int, ...]
    type: str | None = None
    ids: tuple[str, ...] | None = None
    after: tuple[int, str, str] | None = None
    limit: int | None = None

    def first(self, count: int) -> Below:
        """The first ``count`` rows of the answer."""
        return replace(self, limit=count if self.limit is None else min(count, self.limit))

    def behind(self, row: Row, count: int) -> Below:
        """The answer after its first ``count`` rows, of which ``row`` is the last."""
        return replace(
            self,
            parents=tuple(parent for parent in self.parents if parent >= row.parent),
            after=(row.parent, *position(row.xid)),
            limit=None if self.limit is None else self.limit - count,
        )


class Statements:
    """The SQL text of every statement for one dialect. Parameters go by the names of the columns they meet."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._children = cache(self._children_query)
        rows = select(*COLUMNS)
        self.get = self._text(rows.where(_E.xid == bindparam("xid")))
        self.get_many = self._text(rows.where(dialect.member(_E.xid, "xids")))
        self.by_key = self._text(rows.where(dialect.member(_E.key, "keys")).order_by(*_ORDER))
        self.selections = Selections(dialect)
        self.line = Line(dialect)
        self.reporting = Reporting(dialect)
        self.referrers = self._text(rows.where(dialect.member(_E.xref, "xrefs")).order_by(_E.xid))
        self.refers = self._text(select(exists().where(_E.xref > literal_column("''"))))
        first = rows.order_by(_E.key)
        self.named = self._text(_limited(first.where(_E.uri == bindparam("uri"))))
        held = (_E.document == bindparam("document"), _E.parent == bindparam("parent"))
        self.holders = self._text(_limited(first.where(*held)))
        self._member_statements()
        self._document_statements()
        self._config_statements()
        self._note_statements()
        self._outbox_statements()
        self._entity_writes()

    def _text(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self._dialect.sql))

    def children(self, below: Below) -> tuple[str, dict[str, Any]]:
        """The query for ``below`` and its parameters."""
        one = len(below.parents) == 1
        parameters: dict[str, Any] = {"limit": below.limit, "type": below.type}
        parameters["parents"] = below.parents[0] if one else self._dialect.array(below.parents)
        if below.ids is not None:
            parameters["ids"] = self._dialect.array(below.ids)
        if below.after is not None:
            parameters.update(zip(_BEHIND, below.after, strict=True))
        given = [name for name in ("type", "ids", "after", "limit") if getattr(below, name) is not None]
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
        return self._text(_limited(query) if "limit" in given else query)

    def _entity_writes(self) -> None:
        changeable: dict[str, Any] = {c.name: bindparam(c.name) for c in ENTITIES.c if c.name not in IDENTITY}
        c, of_entities = COUNTERS.c, COUNTERS.c.name == literal_column("'entities'")
        self.last_key = self._text(select(c.value).where(of_entities))
        self.reserve = self._text(update(COUNTERS).where(of_entities).values(value=c.value + bindparam("count")))
        self.insert = self._text(self._insert(ENTITIES).on_conflict_do_nothing())
        self.update = self._text(update(ENTITIES).where(_E.key == bindparam("key")).values(changeable))
        self.delete_trees = self._text(delete(ENTITIES).where(_E.key.in_(select(self._trees()))))

    def _trees(self) -> Any:
        """Keys of the entities with ``keys`` and of all beneath them."""
        top = select(_E.key).where(self._dialect.member(_E.key, "keys")).cte("trees", recursive=True)
        return top.union_all(select(_E.key).join(top, _E.parent == top.c.key))

    def _member_statements(self) -> None:
        m = MEMBERS.c
        of_parents = self._dialect.member(m.parent, "parents")
        self.counts = self._text(select(m.parent, m.type, m.count).where(of_parents, m.count > literal_column("0")))
        add = self._insert(MEMBERS)
        add = add.on_conflict_do_update(index_elements=[m.parent, m.type], set_={"count": m.count + add.excluded.count})
        self.add_members = self._text(add)
        trees = select(self._trees())
        lost = select(_E.parent, _E.type, func.count()).where(_E.key.in_(trees), _E.parent.not_in(trees))
        self.lost_members = self._text(lost.group_by(_E.parent, _E.type))
        self.drop_members = self._text(delete(MEMBERS).where(m.parent.in_(trees)))
        among = self._dialect.member(_E.key, "parents")
        self.lost_parents = self._text(select(_E.key).where(among, _E.key.in_(trees)))

    def _document_statements(self) -> None:
        d = DOCUMENTS.c
        unnamed = not_(exists().where(_E.document == d.digest))
        named = select(_E.document).where(_E.document.is_not(None)).distinct()
        self.documents = self._text(select(d.digest, d.content).where(self._dialect.member(d.digest, "digests")))
        self.put_document = self._text(self._insert(DOCUMENTS).on_conflict_do_nothing())
        self.named_by_rows = self._text(named.where(self._dialect.member(_E.key, "keys")))
        self.named_by_trees = self._text(_limited(named.where(_E.key.in_(select(self._trees())))))
        self.sweep = self._text(delete(DOCUMENTS).where(self._dialect.member(d.digest, "digests"), unnamed))
        self.sweep_all = self._text(delete(DOCUMENTS).where(unnamed))

    def _config_statements(self) -> None:
        c = CONFIG.c
        put = self._insert(CONFIG).values(name=bindparam("name"), value=bindparam("value"), epoch=literal_column("1"))
        self.config = self._text(select(c.value).where(c.name == bindparam("name")))
        self.config_epoch = self._text(select(c.epoch).where(c.name == bindparam("name")))
        self.put_config = self._text(
            put.on_conflict_do_update(
                index_elements=[c.name], set_={"value": put.excluded.value, "epoch": c.epoch + literal_column("1")}
            )
        )

    def _note_statements(self) -> None:
        n = NOTES.c
        put = self._insert(NOTES).values(name=bindparam("name"), value=bindparam("value"))
        self.note = self._text(select(n.value).where(n.name == bindparam("name")))
        self.notes = self._text(
            _limited(
                select(n.name, n.value)
                .where(n.name > bindparam("after"), n.name < bindparam("behind"))
                .order_by(n.name)
            )
        )
        self.put_note = self._text(
            put.on_conflict_do_update(index_elements=[n.name], set_={"value": put.excluded.value})
        )
        self.drop_note = self._text(delete(NOTES).where(n.name == bindparam("name")))

    def _outbox_statements(self) -> None:
        o = OUTBOX.c
        self.outbox = self._text(
            _limited(
                select(o.position, o.time, o.correlationid, o.change)
                .where(o.position > bindparam("after"))
                .order_by(o.position)
            )
        )
        self.position = self._text(select(func.coalesce(func.max(o.position), literal_column("0"))))
        c = COUNTERS.c
        untold: ColumnElement[Any] = literal_column("'untold'")
        count = select(func.coalesce(func.max(c.value), literal_column("0"))).where(c.name == untold).scalar_subquery()
        self.generation = self._text(select(func.coalesce(func.max(o.position), literal_column("0")) + count))
        one = self._insert(COUNTERS).values(name=untold, value=literal_column("1"))
        self.put_untold = self._text(
            one.on_conflict_do_update(index_elements=[c.name], set_={"value": c.value + literal_column("1")})
        )
        line: dict[str, Any] = {name: bindparam(name) for name in ("time", "correlationid", "change")}
        self.append = self._text(self._insert(OUTBOX).values(line))
        name: ColumnElement[Any] = literal_column("'forgotten'")
        put = self._insert(COUNTERS).values(name=name, value=bindparam("position"))
        self.forgotten = self._text(select(c.value).where(c.name == name))
        self.forget = self._text(delete(OUTBOX).where(o.position <= bindparam("position")))
        self.put_forgotten = self._text(
            put.on_conflict_do_update(index_elements=[c.name], set_={"value": put.excluded.value})
        )

    def _insert(self, table: Any) -> Any:
        """An INSERT that can say ON CONFLICT; both dialects have it, in the same words, under their own names."""
        return (sqlite if self._dialect.sql.name == "sqlite" else postgresql).insert(table)


def _limited(query: Select[Any]) -> Select[Any]:
    """At most ``limit`` rows. The offset is spelt out, since SQLAlchemy would make it a parameter for SQLite."""
    return query.limit(bindparam("limit")).offset(_NONE)


def _behind(*, skip: int) -> ColumnElement[bool]:
    """Rows behind a position. The columns of ``_ORDER`` that are fixed are skipped: SQLite's index needs it so."""
    return tuple_(*_ORDER[skip:]) > tuple_(*(bindparam(name) for name in _BEHIND[skip:]))
