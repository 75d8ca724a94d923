"""The differences between databases. Everything else in this package is written once for all of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from sqlalchemy import ClauseElement, ColumnElement, Select, Table, bindparam, literal_column, update
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.sql.selectable import FromClause

from signalbook.storage.base import StorageError

Parameters = Mapping[str, Any]
Columns = tuple[Any, ...]


class DriverCursor(Protocol):
    """The part of a DB-API cursor used here."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement affected; after ``executemany`` the sum."""

    def executemany(self, sql: str, parameters: Any, /) -> object:
        """Run ``sql`` once per set of parameters."""

    def fetchall(self) -> list[Any]:
        """Return all records of the result."""


class DriverConnection(Protocol):
    """The part of a driver's connection used here. Both drivers are in autocommit mode: transactions are explicit."""

    def execute(self, sql: str, parameters: Any = ..., /) -> DriverCursor:
        """Run one statement."""

    def cursor(self) -> DriverCursor:
        """Return a new cursor."""

    def rollback(self) -> None:
        """Roll back the transaction, if one is open."""

    def close(self) -> None:
        """Close the connection."""


class Dialect(Protocol):
    """A database of one kind at one address: the base class of all dialects."""

    begin_read: ClassVar[str]
    """SQL that opens a read transaction, which sees the store at one instant."""
    begin_write: str
    """SQL that opens a transaction that is the only writer. It waits for other writers, and raises after
    the timeout."""
    clock: ClassVar[str]
    """SQL that reads the time of the database in seconds since 1970; NULL if it has no clock of its own."""
    connections: ClassVar[int]
    """The maximum number of open connections; -1 is no limit."""
    errors: ClassVar[type[Exception]]
    """The base class of the driver's errors."""
    sql: SqlDialect
    """The SQLAlchemy dialect that compiles statements. Parameters are passed by name."""
    where: str
    """The database as shown in messages: a path, or a URL without password."""

    def connect(self) -> DriverConnection:
        """Return a new connection that is ready for use. Raises the driver's errors or ``StorageError``."""

    def member(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the test that ``column`` is among the values of parameter ``name``, which ``array`` made."""

    def elements(self, name: str) -> FromClause:
        """Return the texts in parameter ``name``, which ``array`` made, as a table with the column ``value``."""

    def contains(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the test that ``column`` contains parameter ``name`` (made by ``contained``), ignoring the case of
        ASCII."""

    def contained(self, text: str) -> str:
        """Return ``text`` as a parameter value of ``contains``."""

    def folds_to_ascii(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return the test that ``column`` contains one of the characters in ``FOLDING``."""

    def array(self, values: Collection[int] | Collection[str]) -> object:
        """Return ``values`` as one statement parameter."""

    def stream(self, connection: DriverConnection, sql: str, parameters: Parameters) -> Iterator[list[Columns]]:
        """Yield the records of a query batch by batch, with one batch in memory at a time."""

    def load(self, connection: DriverConnection, table: str, columns: Sequence[str], rows: Iterable[Columns]) -> None:
        """Add ``rows`` to an empty table, in the open transaction. Generated keys continue after the added keys."""

    def find_unreadable(self, connection: DriverConnection) -> Iterator[str]:
        """Yield the problems in the pages and rows of the database itself. Raises the driver's errors."""

    def lost(self, error: Exception) -> bool:
        """Return True if ``error`` means that this connection is lost, so that a new connection may succeed."""

    def explain(self, error: Exception) -> StorageError:
        """Return a ``StorageError`` that says what failed, where, and what to do. It contains no password."""

    def generation(self, query: str) -> Hashable:
        """Return the result of ``query``, as cheaply as possible; see ``store.Store.generation``."""

    def close(self) -> None:
        """Release resources other than pooled connections."""

    def text(self, statement: ClauseElement) -> str:
        """Return ``statement`` as SQL text."""
        return str(statement.compile(dialect=self.sql))

    def page(self, query: Select[Any], offset: str = "0") -> str:
        """Return ``query`` as SQL with the parameter ``limit``. ``offset`` is a number, or the name of another
        parameter."""
        # The offset is a literal, since SQLAlchemy would make a number a parameter for SQLite.
        behind: ColumnElement[Any] = literal_column(offset) if offset.isdigit() else bindparam(offset)
        return self.text(query.limit(bindparam("limit")).offset(behind))

    def insert(self, table: Any) -> Any:
        """Return an INSERT that supports ON CONFLICT. Both databases have the same syntax, in separate SQLAlchemy
        classes."""

    def insert_many(self, table: Table, names: Collection[str] = ()) -> Any:
        """Return an INSERT for ``run_many``. Each row's parameters are the columns ``names``, or all
        columns, by name."""
        names = names or [column.name for column in table.c]
        return self.insert(table).values({name: bindparam(name) for name in names})

    def update_many(self, table: Table, names: Collection[str]) -> ClauseElement:
        """Return an UPDATE for ``run_many`` that sets the columns ``names`` of the row with a ``key``.

        Its parameters are the key and these columns, by name.
        """
        return update(table).where(table.c.key == bindparam("key")).values({name: bindparam(name) for name in names})

    def run_many(self, connection: DriverConnection, sql: str, rows: Sequence[Parameters]) -> int:
        """Run a statement that ``insert_many`` or ``update_many`` made. Return the number of affected rows."""
        cursor = connection.cursor()
        cursor.executemany(sql, rows)
        return cursor.rowcount

    def upsert(self, table: Table, key: str) -> str:
        """Return SQL that adds a row, or replaces the row with the same ``key``. Parameters are all columns by name."""
        put = self.insert(table).values({column.name: bindparam(column.name) for column in table.c})
        changed = {column.name: put.excluded[column.name] for column in table.c if column.name != key}
        return self.text(put.on_conflict_do_update(index_elements=[table.c[key]], set_=changed))


IDLE = 300.0
"""The seconds that a write transaction may be idle between two statements. A large import is idle for up to
a minute."""
BATCH = 1000
"""The number of rows held in memory while streaming."""

FOLDING = "\u00df\u0130\u0149\u017f\u01f0\u1e96-\u1e9a\u1e9e\u212a\ufb00-\ufb06"
"""Characters beyond ASCII whose folded form contains ASCII, as the inside of a pattern's brackets."""
