"""An open transaction on any dialect: statements and streams; for writes also savepoints and changes for the commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from signalbook.storage.base import Row, StorageBusy, StorageError, StorageFull, StorageUnavailable
from signalbook.storage.dialect import Dialect, DriverConnection, Parameters
from signalbook.storage.schema import dump
from signalbook.storage.words import IndexEntry
from signalbook.xid import Xid

Place: TypeAlias = tuple[int, str, str]
"""The place of an entity: its parent's key, its collection's name, its folded id."""

VERSIONS: Final = "versions"
BYTES: Final = "bytes"
_SAVEPOINT: Final = "SAVEPOINT part"
_RELEASE: Final = "RELEASE SAVEPOINT part"
_ROLLBACK: Final = "ROLLBACK TO SAVEPOINT part"


class SqlTransaction:
    """A transaction of one connection. After its end, or a database error, calls raise ``StorageError``."""

    def __init__(self, connection: DriverConnection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._over: str | None = None
        self._kind = StorageError
        self._broken = False
        self._streams: list[Any] = []

    def array(self, values: Collection[int] | Collection[str]) -> object:
        """Return ``values`` as one statement parameter."""
        return self._dialect.array(values)

    def rows(self, sql: str, parameters: Parameters) -> list[Any]:
        """Return all records of a query."""
        self.check()
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except self._dialect.errors as error:
            raise self._translate_failure(error) from None

    def stream(self, sql: str, parameters: Parameters) -> Iterator[tuple[Any, ...]]:
        """Yield the records of a query, with one batch at a time in memory. Ends with the transaction."""
        batches = self._dialect.stream(self._connection, sql, parameters)
        self._streams.append(batches)
        while True:
            self.check()
            try:
                batch = next(batches, None)
            except self._dialect.errors as error:
                raise self._translate_failure(error) from None
            if batch is None:
                return
            for record in batch:
                if self._over:
                    self.check()
                yield record

    def run(self, sql: str, parameters: Parameters) -> int:
        """Run one statement that returns no records. Return the number of affected rows."""
        return self.run_many(sql, [parameters])

    def run_many(self, sql: str, parameters: Sequence[Parameters]) -> int:
        """Run a statement once per set of parameters. Return the total number of affected rows."""
        self.check()
        if not parameters:
            return 0
        try:
            if len(parameters) == 1:
                return self._connection.execute(sql, parameters[0]).rowcount
            cursor = self._connection.cursor()
            cursor.executemany(sql, parameters)
            return cursor.rowcount
        except self._dialect.errors as error:
            raise self._translate_failure(error) from None

    def check(self) -> None:
        """Raise ``StorageError`` if the transaction is over."""
        if self._over:
            raise self._kind(self._over)

    def end(self, reason: str = "this transaction is over; open another one") -> None:
        """Make every later call raise ``StorageError`` with ``reason``, and close all open streams."""
        self._over = self._over or reason
        self._end_streams()

    def _end_streams(self) -> None:
        while self._streams:
            self._streams.pop().close()

    def _translate_failure(self, error: Exception) -> StorageError:
        """Return ``error`` as a ``StorageError`` and end this transaction, since the database may have ended it."""
        explained = self._dialect.explain(error)
        self._broken = True
        # The first failure is the cause; those after it only follow from it.
        if not self._over:
            self._over = f"an earlier failure ended this transaction: {explained.shown}"
            # Later calls in this transaction raise the same type, so that their callers may retry, too.
            again = isinstance(explained, StorageUnavailable | StorageBusy | StorageFull)
            self._kind = type(explained) if again else StorageError
        return explained


@dataclass(slots=True, kw_only=True)
class Pending:
    """The changes of one part of a write transaction that the commit has yet to write, and rows read so far.

    ``rows`` are cached entities by xid. The other fields have yet to be written: ``unwritten`` rows, of which the keys
    in ``new`` and their ``places`` do not exist in the database; ``documents`` by digest; the change in the number of
    ``members`` of each collection (by parent key and type); the change in the ``usage`` of each Group (counts by
    ``VERSIONS``, ``BYTES`` and document digest; a digest stands for the size of its document); ``changes`` for the
    outbox; entries of the ``audit``; the number of ``reserved`` keys; contents by (Group, schema id) in ``schemaids``;
    entries of the ``index`` by key, None for deleted entries; and ``marks``, new flags of index entries by key.
    ``named`` are documents that a row now refers to, ``suspects`` those that lost a row. ``touched`` is True if
    anything in the registry was written, ``marked`` if the database has a savepoint at the start of this part.
    """

    rows: dict[Xid, Row] = field(default_factory=dict)
    unwritten: dict[Xid, Row] = field(default_factory=dict)
    new: set[int] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)
    documents: dict[str, bytes] = field(default_factory=dict)
    members: dict[int, dict[str, int]] = field(default_factory=dict)
    usage: dict[Xid, dict[str, int]] = field(default_factory=dict)
    changes: list[Parameters] = field(default_factory=list)
    audit: list[Parameters] = field(default_factory=list)
    reserved: int = 0
    schemaids: dict[tuple[str, int], str] = field(default_factory=dict)
    index: dict[int, IndexEntry | None] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    suspects: set[str] = field(default_factory=set)
    touched: bool = False
    marked: bool = False

    def merge(self, part: Pending) -> None:
        """Add the changes of ``part``, which came after this part."""
        self.rows.update(part.rows)
        self.unwritten.update(part.unwritten)
        self.new |= part.new
        self.places |= part.places
        self.documents.update(part.documents)
        # Counts are differences and add up. Rows are states, so the later state wins.
        for parent, gained in part.members.items():
            add_counts(self.members.setdefault(parent, {}), gained)
        for group, gained in part.usage.items():
            add_counts(self.usage.setdefault(group, {}), gained)
        self.changes += part.changes
        self.audit += part.audit
        self.reserved += part.reserved
        self.schemaids.update(part.schemaids)
        self.index.update(part.index)
        self.marks.update(part.marks)
        self.named |= part.named
        self.suspects |= part.suspects
        self.touched |= part.touched


Statements = TypeVar("Statements")


class SqlReader(Generic[Statements]):
    """Reads a part of the database in a transaction, with the statements ``sql``."""

    def __init__(self, transaction: SqlTransaction, sql: Statements) -> None:
        self._transaction = transaction
        self._sql = sql


class SqlWriting(SqlTransaction):
    """A write transaction. No other transaction writes at the same time, so rows that were read are not read again.
    Changes that only queries and the commit need are written once for all parts of the transaction
    (docs/decisions/021-group-commit.md).

    ``insert`` and ``update`` are the statements that write rows of entities.
    """

    def __init__(self, connection: DriverConnection, dialect: Dialect, *, insert: str, update: str) -> None:
        super().__init__(connection, dialect)
        self._insert, self._update = insert, update
        # One layer for the transaction, and one more while a savepoint is open: a rollback drops that layer.
        self.layers = [Pending()]
        self.counted: dict[int, dict[str, int]] = {}
        """The stored number of children by parent key and type, as it was before this transaction."""
        self.vacant: set[Place] = set()
        """Places known to be vacant: no entity is stored or pending there."""

    @property
    def pending(self) -> Pending:
        """The changes of the innermost part: the open savepoint's, else the transaction's."""
        return self.layers[-1]

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Open a savepoint; see ``store.WriteTransaction.savepoint``."""
        self.check()
        self.layers.append(Pending())
        try:
            yield
            self._end_streams()
            self.check()
            if self.pending.marked:
                super().run_many(_RELEASE, [{}])
        except BaseException:
            self._revert(self.layers.pop())
            raise
        part = self.layers.pop()
        self.pending.merge(part)

    def run_many(self, sql: str, parameters: Sequence[Parameters]) -> int:
        """Run a statement once per set of parameters. Return the total number of affected rows."""
        self._begin_part()
        return super().run_many(sql, parameters)

    def run_bulk(self, sql: str, rows: Sequence[Parameters]) -> int:
        """Run a statement that ``Dialect.insert_many`` or ``update_many`` made. Return the number of affected rows."""
        self._begin_part()
        return self._run_bulk(sql, rows)

    def _run_bulk(self, sql: str, rows: Sequence[Parameters]) -> int:
        self.check()
        if not rows:
            return 0
        try:
            return self._dialect.run_many(self._connection, sql, rows)
        except self._dialect.errors as error:
            raise self._translate_failure(error) from None

    def _begin_part(self) -> None:
        """Write earlier parts and set a savepoint, so that a failing part undoes its own database changes and no
        others."""
        last = len(self.layers) - 1
        self._write(self.layers[:last])
        self._mark(last)

    def flush(self) -> None:
        """Write the pending rows, so that queries find them."""
        self._write(self.layers)

    def _write(self, layers: Sequence[Pending]) -> None:
        for depth, layer in enumerate(layers):
            if layer.unwritten:
                self._mark(depth)
                self._write_rows(layer)

    def _mark(self, depth: int) -> None:
        """Set the database savepoints of the parts up to ``depth``, before they change anything in the database."""
        for layer in self.layers[1 : depth + 1]:
            if not layer.marked:
                super().run_many(_SAVEPOINT, [{}])
                layer.marked = True

    def _write_rows(self, layer: Pending) -> None:
        rows = layer.unwritten.values()
        new = [dump(row) for row in rows if row.key in layer.new]
        changed = [dump(row) for row in rows if row.key not in layer.new]
        if self._run_bulk(self._insert, new) + self._run_bulk(self._update, changed) < len(rows):
            error = "an entity to be updated is not stored; read it again"
            self.end(error)
            raise StorageError(error)
        layer.unwritten.clear()
        layer.new.clear()
        layer.places.clear()

    def _revert(self, part: Pending) -> None:
        """Roll back to the savepoint. A failure of ``part`` does not end the transaction, if the database allows it."""
        self._end_streams()
        if not part.marked:
            # The database has no savepoint to roll back to. After a database error the transaction is over.
            self._over = self._over if self._broken else None
            return
        self.forget_reads()
        self._over, over = None, self._over
        try:
            super().run_many(_ROLLBACK, [{}])
            super().run_many(_RELEASE, [{}])
            self._broken = False
        except StorageError:  # the database ended the transaction with the first failure
            self._over = over or self._over

    def forget_reads(self) -> None:
        """Clear the cached rows, counts and vacant places, so that they are read again."""
        self.counted.clear()
        self.vacant.clear()
        for layer in self.layers:
            layer.rows.clear()


def add_counts(counts: dict[str, int], gained: Mapping[str, int], sign: int = 1) -> None:
    """Add the counts in ``gained`` to ``counts``, by name; subtract them if ``sign`` is -1."""
    for plural, count in gained.items():
        counts[plural] = counts.get(plural, 0) + sign * count
