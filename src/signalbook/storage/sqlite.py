"""SQLite: one file, written by one transaction at a time, while any number of transactions read it (WAL)."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from sqlalchemy import URL, ColumnElement, LargeBinary, and_, bindparam, cast, func, literal_column, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.sql.selectable import FromClause

from signalbook.metrics import DATABASE_ERRORS
from signalbook.storage.base import StorageBusy, StorageError, StorageFull
from signalbook.storage.dialect import BATCH, FOLDING, Columns, Dialect, DriverConnection, Parameters

_MINIMUM: Final = (3, 35)  # RETURNING
_SYNCHRONOUS: Final = ("full", "normal", "off")
_MAX_MESSAGES: Final = 10
_SPECIAL: Final = re.compile(r"([%_!])")
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space there",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the permissions of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its directory exists and may be written",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is damaged or no SQLite database; name another file or restore it from a backup",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk",
}


class SQLite(Dialect):
    """A SQLite database file.

    ``synchronous`` is SQLite's own setting: ``full`` keeps a commit through a power failure, ``normal`` through a crash
    of the program only. ``timeout`` is in seconds. ``scratch`` is a folder that ``close`` removes.
    """

    begin_read: ClassVar = "BEGIN"
    begin_write: str = "BEGIN IMMEDIATE"
    clock: ClassVar = "SELECT NULL"
    connections: ClassVar = -1
    errors: ClassVar[type[Exception]] = sqlite3.Error

    def __init__(
        self,
        path: Path,
        *,
        timeout: float,
        synchronous: str = "full",
        scratch: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < _MINIMUM:
            raise StorageError(f"SQLite {sqlite3.sqlite_version} is too old; install 3.35 or later")
        self._path = path
        self._timeout = timeout
        self._synchronous = synchronous
        self._scratch = scratch
        self._watch: DriverConnection | None = None
        self._mark = self._generation = -1
        self._watch_lock = threading.Lock()
        self.where = str(path)
        self.sql: SqlDialect = sqlite.dialect(paramstyle="named")

    @classmethod
    def at(cls, url: URL, *, timeout: float) -> SQLite:
        """Return the database that a ``sqlite:`` URL names. Raises ``StorageError`` for unsupported parts
        of the URL."""
        if url.host:
            raise StorageError(f"the database URL {url} has two slashes; a file takes three: sqlite:///{url.host}")
        options = dict(url.query)
        synchronous = str(options.pop("synchronous", "full"))
        if options or synchronous not in _SYNCHRONOUS:
            raise StorageError(f"the database URL {url} may only say synchronous={'|'.join(_SYNCHRONOUS)} behind the ?")
        if url.database in (None, "", ":memory:"):
            return cls.throw_away(timeout=timeout)
        return cls(Path(str(url.database)).absolute(), timeout=timeout, synchronous=synchronous)

    @classmethod
    def throw_away(cls, *, timeout: float) -> SQLite:
        """Return a database that is deleted when it is closed.

        It is a file, because with an in-memory database SQLite allows no reading while another connection writes.
        """
        scratch = tempfile.TemporaryDirectory(prefix="signalbook-")
        return cls(Path(scratch.name) / "scratch.db", timeout=timeout, synchronous="off", scratch=scratch)

    def connect(self) -> DriverConnection:
        """Open the file in WAL mode. Raises ``StorageError`` if the file system does not support it."""
        self._make()
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self) -> None:
        """Create the file, readable by its owner only, if it is missing. SQLite gives its WAL and index the
        same mode."""
        with suppress(OSError):  # the file exists, or SQLite reports the problem
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = self._switch_to_wal(connection)
        if mode != "wal":
            raise StorageError("this file system cannot hold a WAL database; use a local disk", where=self.where)
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        connection.execute("PRAGMA cache_size=-16384")
        connection.execute("PRAGMA journal_size_limit=67108864")

    def _switch_to_wal(self, connection: sqlite3.Connection) -> str:
        """Switch the journal to WAL mode. SQLite does not wait for other connections here, so retry until
        the timeout."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
            except sqlite3.OperationalError as error:
                if _extract_primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def member(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the condition that ``column`` is in the JSON array in parameter ``name``."""
        return column.in_(select(self.elements(name).c.value))

    def elements(self, name: str) -> FromClause:
        """Return the elements of the JSON array in parameter ``name`` as a table with the column ``value``."""
        return func.json_each(bindparam(name)).table_valued("value")

    def contains(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return a substring test with ``LIKE``, which ignores the case of ASCII letters only."""
        return column.like(bindparam(name), escape="!")

    def contained(self, text: str) -> str:
        """Return ``text`` as a ``LIKE`` pattern, with special characters escaped."""
        escaped = _SPECIAL.sub(r"!\1", text)
        return f"%{escaped}%"

    def folds_to_ascii(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return a test for characters whose lower case is ASCII. The slow ``GLOB`` runs only on non-ASCII texts."""
        beyond_ascii = func.length(cast(column, LargeBinary)) > func.length(column)
        return and_(beyond_ascii, column.bool_op("GLOB")(literal_column(f"'*[{FOLDING}]*'")))

    def insert(self, table: Any) -> sqlite.Insert:
        """Return SQLite's own insert statement, which supports ON CONFLICT."""
        return sqlite.insert(table)

    def array(self, values: Collection[int] | Collection[str]) -> str:
        """Return ``values`` as a JSON array."""
        return msgspec.json.encode(list(values)).decode()

    def stream(self, connection: DriverConnection, sql: str, parameters: Parameters) -> Iterator[list[Columns]]:
        """Yield batches of records from an open cursor."""
        cursor: Any = connection.execute(sql, parameters)
        try:
            while records := cursor.fetchmany(BATCH):
                yield records
        finally:
            cursor.close()

    def load(self, connection: DriverConnection, table: str, columns: Sequence[str], rows: Iterable[Columns]) -> None:
        """Insert ``rows``. SQLite assigns later ``AUTOINCREMENT`` keys above the largest inserted key by itself."""
        names, places = ", ".join(f'"{name}"' for name in columns), ", ".join("?" for _ in columns)
        connection.cursor().executemany(f'INSERT INTO "{table}" ({names}) VALUES ({places})', rows)  # noqa: S608

    def find_unreadable(self, connection: DriverConnection) -> Iterator[str]:
        """Yield the problems that SQLite's own check of pages and indexes reports."""
        for (message,) in connection.execute(f"PRAGMA integrity_check({_MAX_MESSAGES})").fetchall():
            if message != "ok":
                yield " ".join(str(message).split())

    def lost(self, error: Exception) -> bool:  # noqa: ARG002
        """Return False: a file has no connection that can be lost."""
        return False

    def explain(self, error: Exception) -> StorageError:
        """Return the ``StorageError`` for SQLite's primary result code. Extended codes only say where in SQLite it
        happened."""
        code = _extract_primary_code(error)
        busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        DATABASE_ERRORS.labels("busy" if busy else "error").inc()
        if busy:
            return StorageBusy(f"another writer held the database for {self._timeout:g} s; try again", where=self.where)
        kind = StorageFull if code == sqlite3.SQLITE_FULL else StorageError
        return kind(_REMEDIES.get(code, "SQLite cannot go on"), where=self.where, cause=str(error))

    def generation(self, query: str) -> int:
        """Return the generation of the store. It is read again only if SQLite's own counter shows a commit.

        That counter changes only for commits of other connections, so a connection that never writes reads it.
        """
        with self._watch_lock:
            if self._watch is None:
                self._watch = self.connect()
            mark = int(self._watch.execute("PRAGMA data_version").fetchall()[0][0])
            if mark != self._mark:
                self._generation = int(self._watch.execute(query).fetchall()[0][0])
                self._mark = mark
            return self._generation

    def close(self) -> None:
        """Close the connection that reads the generation, and remove a temporary database."""
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
        if self._scratch:
            self._scratch.cleanup()


def _extract_primary_code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
