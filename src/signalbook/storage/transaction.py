"""Reading and writing inside one open transaction, on any dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any, Final

from signalbook.storage.base import DuplicateId, Hit, Record, Row, StorageError
from signalbook.storage.dialect import BATCH, Connection, Dialect
from signalbook.storage.rows import dump, dump_text, fold, instant, load, load_json, microseconds, position
from signalbook.storage.selecting import ways
from signalbook.storage.selection import Selection
from signalbook.storage.statements import Below, Statements
from signalbook.values import JSON, JSONObject
from signalbook.xid import Kind, Xid

_SAVEPOINT: Final = "SAVEPOINT part"
_RELEASE: Final = "RELEASE SAVEPOINT part"
_ROLLBACK: Final = "ROLLBACK TO SAVEPOINT part"
_SUSPECTS: Final = 10_000
"""Documents looked at one by one after they lost a name; beyond that all documents are."""


class SqlReader:
    """``base.Reader`` in one open transaction. After its end, or a database error, calls raise ``StorageError``."""

    def __init__(self, connection: Connection, dialect: Dialect, statements: Statements) -> None:
        self._connection = connection
        self._dialect = dialect
        self._sql = statements
        self._over: str | None = None
        self._streams: list[Any] = []

    def get(self, xid: Xid) -> Row | None:
        """The entity at exactly this xid."""
        records = self._all(self._sql.get, {"xid": str(xid)})
        return load(records[0]) if records else None

    def get_many(self, xids: Collection[Xid]) -> dict[Xid, Row]:
        """The entities that exist among ``xids``."""
        records = self._all(self._sql.get_many, {"xids": self._texts(xids)}) if xids else ()
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
        query = Below(
            parents=tuple(sorted(set(parents))),
            type=type,
            ids=None if ids is None else tuple({fold(each) for each in ids}),
            after=None if after is None else self._position(parents, type, after),
            limit=limit,
        )
        if not query.parents or query.ids == () or limit == 0:
            return iter(())
        rows = [load(record) for record in self._all(*self._sql.children(query.first(BATCH)))]
        if len(rows) < BATCH or limit == BATCH:
            return iter(rows)
        return chain(rows, map(load, self._stream(*self._sql.children(query.behind(rows[-1], BATCH)))))

    @staticmethod
    def _position(parents: Collection[int], type: str | None, after: str) -> tuple[int, str, str]:
        if type is None or len(parents) != 1:
            raise ValueError("after needs one parent and a type")
        return next(iter(parents)), type, fold(after)

    def by_key(self, keys: Collection[int]) -> Iterator[Row]:
        """The entities with these keys, by parent, type and folded id."""
        if not keys:
            return iter(())
        return map(load, self._stream(self._sql.by_key, {"keys": self._dialect.array(keys)}))

    def select(self, selection: Selection) -> Iterator[tuple[Hit, ...]]:
        """The ways of ``selection``, as they are asked for."""
        return ways(self._stream(*self._sql.selections.statement(selection)), selection)

    def counts(self, parents: Collection[int]) -> dict[tuple[int, str], int]:
        """Number of children per (parent key, type)."""
        records = self._all(self._sql.counts, {"parents": self._dialect.array(parents)}) if parents else ()
        return {(parent, plural): count for parent, plural, count in records}

    def referrers(self, targets: Collection[Xid]) -> list[Row]:
        """Resources whose xref is one of ``targets``, by xid."""
        records = self._all(self._sql.referrers, {"xrefs": self._texts(targets)}) if targets else ()
        return [load(record) for record in records]

    def newest(self, parent: int, limit: int) -> list[Row]:
        """Versions from the highest rank down."""
        return self._rows(self._sql.line.newest, {"parent": parent, "limit": limit})

    def leaves(self, parent: int, limit: int, *, above: tuple[str, str] = ("", "")) -> list[Row]:
        """Versions from the highest rank down that are no other's ancestor."""
        rank, name = above
        place = {"parent": parent, "rank": rank, "folded": fold(name), "limit": limit}
        return self._rows(self._sql.line.leaves, place)

    def neighbours(self, parent: int, rank: str, id: str, limit: int) -> tuple[list[Row], list[Row]]:
        """Versions around a place in the order of ranks."""
        place = {"parent": parent, "rank": rank, "folded": fold(id), "limit": limit}
        return self._rows(self._sql.line.before, place), self._rows(self._sql.line.after, place)

    def derived(self, parent: int, ancestors: Collection[str]) -> list[Row]:
        """Versions with one of these ancestors."""
        if not ancestors:
            return []
        return self._rows(self._sql.line.derived, {"parent": parent, "ancestors": self._dialect.array(ancestors)})

    def ancestors(self, keys: Collection[int]) -> set[int]:
        """Versions that others have as ancestor."""
        found = self._all(self._sql.line.ancestors, {"keys": self._dialect.array(keys)}) if keys else ()
        return {key for (key,) in found}

    def named(self, uri: str) -> Row | None:
        """The Version with this ``uri``."""
        return next(iter(self._rows(self._sql.named, {"uri": uri, "limit": 1})), None)

    def holders(self, parent: int, document: str, limit: int) -> list[Row]:
        """Versions below ``parent`` with this document."""
        return self._rows(self._sql.holders, {"parent": parent, "document": document, "limit": limit})

    def documents(self, digests: Collection[str]) -> dict[str, bytes]:
        """Exact bytes by digest."""
        return dict(self._all(self._sql.documents, {"digests": self._dialect.array(digests)}) if digests else ())

    def config(self, name: str) -> JSON | None:
        """The configuration document ``name``."""
        records = self._all(self._sql.config, {"name": name})
        return load_json(records[0][0]) if records and records[0][0] is not None else None

    def config_epoch(self, name: str) -> int:
        """Number of times ``name`` was put."""
        records = self._all(self._sql.config_epoch, {"name": name})
        return int(records[0][0]) if records else 0

    def note(self, name: str) -> JSON | None:
        """The note ``name``."""
        records = self._all(self._sql.note, {"name": name})
        return load_json(records[0][0]) if records else None

    def notes(self, folder: str) -> dict[str, JSON]:
        """The notes whose names begin with ``folder/``."""
        records = self._all(self._sql.notes, {"first": f"{folder}/", "behind": f"{folder}0"})
        return {name[len(folder) + 1 :]: load_json(value) for name, value in records}

    def outbox(self, after: int = 0, limit: int = 1000) -> list[Record]:
        """Changes behind position ``after``."""
        return [
            Record(position=position, time=instant(time), correlationid=correlationid, change=load_json(change))
            for position, time, correlationid, change in self._all(self._sql.outbox, {"after": after, "limit": limit})
        ]

    def position(self) -> int:
        """The position of the last change."""
        return int(self._all(self._sql.position, {})[0][0])

    def end(self, reason: str = "this transaction is over; open another one") -> None:
        """Make every later call raise ``StorageError`` with ``reason``, and give up what is still being streamed."""
        self._over = self._over or reason
        self._end_streams()

    def _end_streams(self) -> None:
        while self._streams:
            self._streams.pop().close()

    def _texts(self, xids: Collection[Xid]) -> object:
        return self._dialect.array([str(xid) for xid in xids])

    def _rows(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        return [load(record) for record in self._all(sql, parameters)]

    def _all(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        if self._over:
            raise StorageError(self._over)
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except self._dialect.errors as error:
            raise self._failed(error) from None

    def _stream(self, sql: str, parameters: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        records = self._dialect.stream(self._connection, sql, parameters)
        self._streams.append(records)
        while True:
            if self._over:
                raise StorageError(self._over)
            try:
                yield next(records)
            except StopIteration:
                return
            except self._dialect.errors as error:
                raise self._failed(error) from None

    def _failed(self, error: Exception) -> StorageError:
        """What ``error`` means. The database may have given up the transaction: nothing more happens in it."""
        explained = self._dialect.explain(error)
        self._over = self._over or f"an earlier failure ended this transaction: {explained}"
        return explained


class SqlWriter(SqlReader):
    """``base.Writer`` in one open write transaction."""

    def __init__(self, connection: Connection, dialect: Dialect, statements: Statements) -> None:
        super().__init__(connection, dialect, statements)
        self._put: set[str] = set()
        self._named: set[str] = set()
        self._suspects: set[str] = set()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A part that may fail alone."""
        self._run(_SAVEPOINT, {})
        outside = self._put, self._named, self._suspects
        self._put, self._named, self._suspects = set(), set(), set()
        try:
            yield
            self._end_streams()
            self._run(_RELEASE, {})
        except BaseException:
            self._put, self._named, self._suspects = outside
            self._undo()
            raise
        self._put |= outside[0]
        self._named |= outside[1]
        self._suspects |= outside[2]

    def _undo(self) -> None:
        """Back to the savepoint: what failed behind it is no failure of the transaction any more."""
        self._end_streams()
        self._over, over = None, self._over
        try:
            self._run(_ROLLBACK, {})
            self._run(_RELEASE, {})
        except StorageError:  # the database ended the transaction with the first failure
            self._over = over or self._over

    def reserve(self, count: int) -> Sequence[int]:
        """``count`` fresh storage keys."""
        if count < 1:
            return range(0)
        last = self._all(self._sql.reserve, {"count": count})[0][0]
        return range(last - count + 1, last + 1)

    def insert(self, rows: Sequence[Row]) -> None:
        """Add rows. After ``DuplicateId`` some of them may be there: the transaction can only be rolled back."""
        if self._many(self._sql.insert, [dump(row) for row in rows]) < len(rows):
            raise self._duplicate(rows)
        self._add_members(Counter((row.parent, position(row.xid)[0]) for row in rows))
        self._named.update(row.document for row in rows if row.document)

    def _duplicate(self, rows: Sequence[Row]) -> DuplicateId:
        stored = self.get_many([row.xid for row in rows])
        arrived = {row.key: row.xid for row in stored.values()}
        error = DuplicateId(next((row.xid for row in rows if arrived.get(row.key) != row.xid), rows[-1].xid))
        self.end(f"an earlier failure ended this transaction: {error}")
        return error

    def update(self, rows: Sequence[Row]) -> None:
        """Replace what may change of the rows with these keys: all but key, parent and xid."""
        documents = {row.document for row in rows if row.document}
        versions = [row.key for row in rows if row.xid.kind is Kind.VERSION]
        if versions:
            before = self._all(self._sql.named_by_rows, {"keys": self._dialect.array(versions)})
            self._suspects.update(digest for (digest,) in before if digest not in documents)
        if self._many(self._sql.update, [dump(row) for row in rows]) < len(rows):
            self.end("an entity to be updated is not stored; read it again")
            raise StorageError(self._over)
        self._named |= documents

    def delete(self, keys: Collection[int]) -> None:
        """Remove these rows and all beneath them."""
        if not keys:
            return
        among = {"keys": self._dialect.array(keys)}
        documents = self._all(self._sql.named_by_trees, {**among, "limit": _SUSPECTS + 1})
        self._suspects.update(digest for (digest,) in documents)
        self._add_members({(parent, plural): -n for parent, plural, n in self._all(self._sql.lost_members, among)})
        self._run(self._sql.drop_members, among)
        self._run(self._sql.delete_trees, among)

    def _add_members(self, changes: Mapping[tuple[int, str], int]) -> None:
        self._many(
            self._sql.add_members,
            [{"parent": parent, "type": plural, "count": count} for (parent, plural), count in changes.items()],
        )

    def put_documents(self, documents: Mapping[str, bytes]) -> None:
        """Keep documents by digest."""
        self._many(self._sql.put_document, [{"digest": d, "content": content} for d, content in documents.items()])
        self._put.update(documents)

    def put_config(self, name: str, value: JSON | None) -> None:
        """Set or remove a configuration document."""
        self._run(self._sql.put_config, {"name": name, "value": None if value is None else dump_text(value)})

    def put_note(self, name: str, value: JSON | None) -> None:
        """Set or remove a note."""
        if value is None:
            self._run(self._sql.drop_note, {"name": name})
        else:
            self._run(self._sql.put_note, {"name": name, "value": dump_text(value)})

    def append(self, changes: Sequence[JSONObject], *, time: datetime, correlationid: str) -> None:
        """Add changes to the outbox."""
        line = {"time": microseconds(time), "correlationid": correlationid}
        self._many(self._sql.append, [{**line, "change": dump_text(change)} for change in changes])

    def finish(self) -> None:
        """Last work before the commit: remove documents that lost their last name, or never got one.

        Only now, since a document may lose one name and get another within one transaction.
        """
        suspects = self._suspects | (self._put - self._named)
        if len(suspects) > _SUSPECTS:
            self._run(self._sql.sweep_all, {})
        elif suspects:
            self._run(self._sql.sweep, {"digests": self._dialect.array(suspects)})
        if self._over:
            raise StorageError(self._over)

    def _run(self, sql: str, parameters: Mapping[str, Any]) -> int:
        """Run one statement that answers nothing; the number of rows it touched."""
        return self._many(sql, [parameters])

    def _many(self, sql: str, parameters: Sequence[Mapping[str, Any]]) -> int:
        """Run a statement once per set of parameters; the number of rows touched altogether."""
        if self._over:
            raise StorageError(self._over)
        if not parameters:
            return 0
        try:
            if len(parameters) == 1:
                return self._connection.execute(sql, parameters[0]).rowcount
            cursor = self._connection.cursor()
            cursor.executemany(sql, parameters)
            return cursor.rowcount
        except self._dialect.errors as error:
            raise self._failed(error) from None
