"""PostgreSQL, for any number of programs on any number of machines. Writers take turns by an advisory lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final, cast
from urllib.parse import unquote

import msgspec
import psycopg
from sqlalchemy import (
    ARRAY,
    JSON,
    URL,
    ClauseElement,
    ColumnElement,
    LargeBinary,
    Table,
    Text,
    and_,
    bindparam,
    collate,
    column,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.sql.selectable import FromClause

from signalbook.metrics import DATABASE_ERRORS
from signalbook.storage.base import StorageBusy, StorageError, StorageFull, StorageUnavailable
from signalbook.storage.dialect import BATCH, FOLDING, IDLE, Columns, Dialect, DriverConnection, Parameters
from signalbook.storage.silence import KEEPALIVE, Connection

_LOCK: Final = 0x5369676E616C626B  # "Signalbk": what all writers of one database lock
_CONNECT_SECONDS: Final = 10
# If a machine vanishes while it writes, its lock must end sooner than after the two hours that TCP takes by default.
_SESSION: Final = "; ".join(f"SET tcp_{name.removeprefix('tcp_')} = {value}" for name, value in KEEPALIVE.items())
# A writer needs no snapshot: the lock excludes other writers, and each statement sees the latest commit. In a snapshot
# transaction, the snapshot would be from before the wait for the lock. A write concerns few rows and finds them by
# index. The planner knows that only once the table has been analyzed, and assumes a hundred rows for any array. A
# cached plan would suit the table as it was when the plan was made, perhaps empty.
_BEGIN_WRITE: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = {idle}; "
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
    "SET LOCAL plan_cache_mode = force_custom_plan; "
    f"SELECT pg_advisory_xact_lock({_LOCK})"
)
_SECRETS: Final = ("password", "sslpassword")
_BUSY: Final = ("55P03", "57014")
_BAD_PARAMETER: Final = "22"
_IDLED: Final = "25P03"
_AWAY: Final = ("08", "57", "53300", _IDLED)
_WHILE_CONNECTING: Final = {
    "the database system is": "57P03",
    "terminating connection": "57P01",
    "too many": "53300",
    "remaining connection slots": "53300",
}
"""SQLSTATEs by a phrase in the server's message. A message in another language counts as a lasting error."""
_FULL: Final = "53100"
_REMEDIES: Final = {
    "08": "the server cannot be reached; check that it runs and that host and port are right",
    "28": "the server refuses the connection; check user, password and database",
    _BAD_PARAMETER: "the database URL is not right; check what follows its ?",
    _IDLED: "the server heard nothing of this transaction for too long, and ended it; try again",
    "42501": "this user may not do that; grant it the rights on the database and its schema",
    "25006": "it is read-only (a standby?); name the primary server",
    _FULL: "the server's disk is full; free some space there",
    "53300": "the server has no connection left; raise its max_connections",
    "57": "the server is shutting down or starting; try again",
    "XX": "the server found its data damaged; see its log, restore a backup",
}


class Postgres(Dialect):
    """A PostgreSQL database. ``timeout`` and ``idle`` are in seconds, as for ``open_store``.

    The URL may contain libpq's parameters after its ``?``.
    """

    begin_read: ClassVar = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    clock: ClassVar = "SELECT extract(epoch FROM clock_timestamp())"
    connections: ClassVar = 32
    errors: ClassVar[type[Exception]] = psycopg.Error

    def __init__(self, url: URL, *, timeout: float, idle: float = IDLE) -> None:
        self.begin_write = _BEGIN_WRITE.format(idle=round(idle * 1000))
        self.sql: SqlDialect = url.set(drivername="postgresql+psycopg").get_dialect()()
        self._parameters: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, **KEEPALIVE}
        self._parameters |= self.sql.create_connect_args(url)[1]
        self._timeout = timeout
        self._cursors = count(1)
        self._forsaken: deque[tuple[Any, ...]] = deque()
        self._watch: DriverConnection | None = None
        self._watch_lock = threading.Lock()
        place = {name: value for name, value in url.query.items() if name in ("host", "port")}
        self.where = unquote(url.set(query=place).render_as_string())

    def connect(self) -> DriverConnection:
        """Connect in autocommit mode. Raises psycopg's errors."""
        connection = Connection.connect(**self._parameters, autocommit=True)
        try:
            connection.execute(f"{_SESSION}; SET lock_timeout = {max(1, round(self._timeout * 1000))}")
            connection.watch(partial(self._connect_again, connection.info), self._forsaken)
        except BaseException:
            connection.close()
            raise
        return cast(DriverConnection, connection)

    def _connect_again(self, info: psycopg.ConnectionInfo) -> Connection:
        """Connect again to the same server, even if the URL names several."""
        same = {"host": info.host, "hostaddr": info.hostaddr, "port": info.port}
        return Connection.connect(**{**self._parameters, **same}, autocommit=True)

    def member(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the condition that ``column`` is in the array parameter ``name``."""
        return column == func.any(sql_cast(bindparam(name), ARRAY(column.type)))

    def elements(self, name: str) -> FromClause:
        """Return the elements of the array parameter ``name`` as a table with the column ``value``."""
        array = func.unnest(sql_cast(bindparam(name), ARRAY(Text)))
        return array.table_valued(column("value", Text)).render_derived("given")

    def contains(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return a case-insensitive substring test with ``strpos``, because ``ILIKE`` takes at least three times as
        long."""
        lower = (func.lower(collate(text, "C")) for text in (column, bindparam(name, type_=Text)))
        return func.strpos(*lower) > literal_column("0")

    def contained(self, text: str) -> str:
        """Return ``text`` unchanged, since ``strpos`` needs no escaping."""
        return text

    def folds_to_ascii(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return a test for characters whose lower case is ASCII. The regular expression runs only on
        non-ASCII texts."""
        beyond_ascii = func.octet_length(column) > func.char_length(column)
        return and_(beyond_ascii, column.bool_op("~")(literal_column(f"'[{FOLDING}]'")))

    def array(self, values: Collection[int] | Collection[str]) -> list[int] | list[str]:
        """Return ``values`` as a list, which psycopg sends as an array."""
        return cast("list[int] | list[str]", list(values))

    def insert(self, table: Any) -> postgresql.Insert:
        """Return PostgreSQL's own insert statement, which supports ON CONFLICT."""
        return postgresql.insert(table)

    def insert_many(self, table: Table, names: Collection[str] = ()) -> Any:
        """Return an insert of rows from one JSON array: one parameter and one statement for all rows."""
        names = names or [column.name for column in table.c]
        return self.insert(table).from_select(list(names), select(*_select_rows(table, names)))

    def update_many(self, table: Table, names: Collection[str]) -> ClauseElement:
        """Return an update of columns ``names`` in the rows with the ``key`` of each object in one JSON array."""
        place, *values = _select_rows(table, ["key", *names])
        return update(table).where(table.c.key == place).values(dict(zip(names, values, strict=True)))

    def run_many(self, connection: DriverConnection, sql: str, rows: Sequence[Parameters]) -> int:
        """Run a statement for many rows in one round trip. Return the number of affected rows."""
        return connection.execute(sql, {"rows": msgspec.json.encode(rows).decode()}).rowcount

    def stream(self, connection: DriverConnection, sql: str, parameters: Parameters) -> Iterator[list[Columns]]:
        """Yield batches of records from a cursor that the server holds."""
        name = f"stream_{next(self._cursors)}"
        with cast(psycopg.Connection, connection).cursor(name) as cursor:
            cursor.execute(sql, parameters)
            while records := cursor.fetchmany(BATCH):
                yield records

    def load(self, connection: DriverConnection, table: str, columns: Sequence[str], rows: Iterable[Columns]) -> None:
        """Load rows by COPY. COPY does not advance the sequences of identity columns, so they are set afterwards."""
        names = ", ".join(f'"{name}"' for name in columns)
        with cast(psycopg.Connection, connection).cursor() as cursor:
            with cursor.copy(f'COPY "{table}" ({names}) FROM STDIN'.encode()) as copy:
                for row in rows:
                    copy.write_row(row)
            identity = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''"
            for (column,) in cursor.execute(identity, (table,)).fetchall():
                last = f'SELECT max("{column}") AS last FROM "{table}"'  # noqa: S608
                move = f"SELECT setval(pg_get_serial_sequence(%s, %s), last) FROM ({last}) AS x WHERE last > 0"  # noqa: S608
                cursor.execute(move.encode(), (table, column))

    def find_unreadable(self, connection: DriverConnection) -> Iterator[str]:
        """Read every row of every table, including large values. PostgreSQL raises an error for rows that it cannot
        read."""
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f'SELECT sum(octet_length("t"::text)) FROM "{table}" AS "t"').fetchall()  # noqa: S608
        yield from ()

    def lost(self, error: Exception) -> bool:
        """Return True if the connection broke, or if the server ended it: by a shutdown, or because it was idle."""
        state = getattr(error, "sqlstate", None)
        return isinstance(error, psycopg.OperationalError) and (
            state is None or state.startswith(("08", "57P", _IDLED))
        )

    def explain(self, error: Exception) -> StorageError:
        """Return the ``StorageError`` for an error, by its SQLSTATE or the SQLSTATE's class, or by its text if it has
        none."""
        detail = self._strip_secrets(" ".join(str(error).split()))
        state = getattr(error, "sqlstate", None) or _find_sqlstate(error, detail)
        DATABASE_ERRORS.labels("busy" if state in _BUSY else "error").inc()
        if state in _BUSY:
            return StorageBusy(f"another writer held the database for {self._timeout:g} s; try again", where=self.where)
        remedy = _REMEDIES.get(state) or _REMEDIES.get(state[:2], "PostgreSQL cannot go on")
        kind = StorageUnavailable if state.startswith(_AWAY) else StorageFull if state == _FULL else StorageError
        return kind(remedy, where=self.where, cause=detail)

    def _strip_secrets(self, text: str) -> str:
        for name in _SECRETS:
            if secret := self._parameters.get(name):
                text = text.replace(str(secret), "***")
        return text

    def generation(self, query: str) -> int:
        """Return the generation of the store over a connection of its own. If that connection is dead, connect once
        more."""
        with self._watch_lock:
            try:
                return self._query_generation(query)
            except psycopg.OperationalError as error:
                self._stop_watching()
                if not self.lost(error):
                    raise
                return self._query_generation(query)

    def _query_generation(self, query: str) -> int:
        if self._watch is None:
            self._watch = self.connect()
        return int(self._watch.execute(query).fetchall()[0][0])

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def close(self) -> None:
        """Close the connection that reads the generation."""
        with self._watch_lock:
            self._stop_watching()


def _select_rows(table: Table, names: Collection[str]) -> list[ColumnElement[Any]]:
    """Return columns ``names`` of the rows in parameter ``rows``, a JSON array of objects."""
    array = sql_cast(bindparam("rows", type_=Text), JSON)
    binary = {name for name in names if isinstance(table.c[name].type, LargeBinary)}
    columns = [column(name, Text() if name in binary else table.c[name].type) for name in names]
    rows = func.json_to_recordset(array).table_valued(*columns).render_derived("given", with_types=True).c
    return [func.decode(rows[name], literal_column("'base64'")) if name in binary else rows[name] for name in names]


def _find_sqlstate(error: Exception, detail: str) -> str:
    """Return the SQLSTATE, or its class, of an error without SQLSTATE: libpq reports none while it connects."""
    if not isinstance(error, psycopg.OperationalError):
        return _BAD_PARAMETER
    if "FATAL:" not in detail:
        return "08"
    return next((state for phrase, state in _WHILE_CONNECTING.items() if phrase in detail), "28")
