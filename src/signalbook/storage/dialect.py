"""What differs between databases; everything else in this package is written once."""

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
        """Rows the last statement touched; of ``executemany`` the sum."""

    def executemany(self, sql: str, parameters: Any, /) -> object:
        """Run ``sql`` once per set of parameters."""

    def fetchall(self) -> list[Any]:
        """Return all records of the result."""


class DriverConnection(Protocol):
    """The part of a driver's connection used here. Both drivers are in autocommit mode: transactions are explicit."""

    def execute(self, sql: str, parameters: Any = ..., /) -> DriverCursor:
        """Run one statement."""

    def cursor(self) -> DriverCursor:
        """A new cursor."""

    def rollback(self) -> None:
        """End the transaction, if one is open, without a trace."""

    def close(self) -> None:
        """Give the connection back to the operating system."""


class Dialect(Protocol):
    """A kind of database at one place: the base class of each dialect."""

    begin_read: ClassVar[str]
    """Opens a transaction that sees the store at one instant."""
    begin_write: str
    """Opens a transaction that is the only writer. Waits for others, and raises after the timeout."""
    clock: ClassVar[str]
    """Asks the time of the database in seconds since 1970; NULL if it has no clock of its own."""
    connections: ClassVar[int]
    """Most connections open at once; -1 is no limit."""
    errors: ClassVar[type[Exception]]
    """What the driver raises."""
    sql: SqlDialect
    """Compiles statements; parameters are passed by name."""
    where: str
    """The place, fit to be shown: a path or a URL without password."""

    def connect(self) -> DriverConnection:
        """A new connection, ready for use. Raises the driver's errors or ``StorageError``."""

    def member(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the test that ``column`` is among the values of parameter ``name``, which ``array`` made."""

    def elements(self, name: str) -> FromClause:
        """The texts in parameter ``name``, which ``array`` made, as column ``value``."""

    def contains(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the test that ``column`` contains parameter ``name`` (made by ``contained``), in any case of ASCII."""

    def contained(self, text: str) -> str:
        """``text`` as a parameter of ``contains``."""

    def folds_to_ascii(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return the test that ``column`` contains one of ``FOLDING``."""

    def array(self, values: Collection[int] | Collection[str]) -> object:
        """``values`` as one parameter."""

    def stream(self, connection: DriverConnection, sql: str, parameters: Parameters) -> Iterator[list[Columns]]:
        """Records of a query, batch by batch; one of them is in memory at a time."""

    def load(self, connection: DriverConnection, table: str, columns: Sequence[str], rows: Iterable[Columns]) -> None:
        """Add all ``rows`` to an empty table, in the transaction that is open; keys given out go on behind them."""

    def find_unreadable(self, connection: DriverConnection) -> Iterator[str]:
        """Yield what is wrong with the pages and rows of the database itself. Raises the driver's errors."""

    def lost(self, error: Exception) -> bool:
        """Return True if ``error`` means that this connection is gone, so that another one may succeed."""

    def explain(self, error: Exception) -> StorageError:
        """Return the error for people: what failed, where, and what to do. It names no password."""

    def generation(self, query: str) -> Hashable:
        """``base.Store.generation``: what ``query`` answers, asked as cheaply as can be."""

    def close(self) -> None:
        """Give back what is not a connection."""

    def text(self, statement: ClauseElement) -> str:
        """``statement`` as SQL."""
        return str(statement.compile(dialect=self.sql))

    def page(self, query: Select[Any], offset: str = "0") -> str:
        """``query`` as SQL, with at most ``limit`` rows, which is a parameter, as is an ``offset`` that has a name."""
        # It is spelt out, since SQLAlchemy would make a number a parameter for SQLite.
        behind: ColumnElement[Any] = literal_column(offset) if offset.isdigit() else bindparam(offset)
        return self.text(query.limit(bindparam("limit")).offset(behind))

    def insert(self, table: Any) -> Any:
        """An INSERT that can say ON CONFLICT; both databases have it, in the same words, under their own names."""

    def insert_many(self, table: Table, names: Collection[str] = ()) -> Any:
        """An INSERT of rows for ``run_many``: parameters are columns ``names``, or all of them, by name."""
        names = names or [column.name for column in table.c]
        return self.insert(table).values({name: bindparam(name) for name in names})

    def update_many(self, table: Table, key: str, names: Collection[str]) -> ClauseElement:
        """An UPDATE for ``run_many``: columns ``names`` of the rows with a ``key``; parameters are these by name."""
        return update(table).where(table.c[key] == bindparam(key)).values({name: bindparam(name) for name in names})

    def run_many(self, connection: DriverConnection, sql: str, rows: Sequence[Parameters]) -> int:
        """Run what ``insert_many`` or ``update_many`` made; the number of rows touched."""
        cursor = connection.cursor()
        cursor.executemany(sql, rows)
        return cursor.rowcount

    def upsert(self, table: Table, key: str) -> str:
        """SQL that adds a row, or replaces the one with the same ``key``; parameters are all columns by name."""
        put = self.insert(table).values({column.name: bindparam(column.name) for column in table.c})
        changed = {column.name: put.excluded[column.name] for column in table.c if column.name != key}
        return self.text(put.on_conflict_do_update(index_elements=[table.c[key]], set_=changed))


IDLE = 300.0
"""Seconds that a write may think between two statements: a large import does so for a minute."""
BATCH = 1000
"""Rows held in memory while streaming."""

FOLDING = "\u00df\u0130\u0149\u017f\u01f0\u1e96-\u1e9a\u1e9e\u212a\ufb00-\ufb06"
"""Characters beyond ASCII that have ASCII in them once their case is folded, as in the brackets of a pattern."""
