"""SQLite: one file, written by one transaction at a time, read by any number beside it (WAL)."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from sqlalchemy import URL, ColumnElement, bindparam, func, select
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.engine import Dialect as SqlDialect

from signalbook.storage.base import StorageBusy, StorageError
from signalbook.storage.dialect import BATCH, Connection, Parameters, Record

_MINIMUM: Final = (3, 35)  # RETURNING
_SYNCHRONOUS: Final = ("full", "normal", "off")
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space there",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the permissions of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its directory exists and may be written",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is damaged or no SQLite database; name another file or restore it from a backup",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk",
}


class SQLite:
    """A SQLite database file; without a path a throw-away one, gone when closed.

    ``synchronous`` is SQLite's own setting: ``full`` keeps a commit through a power failure, ``normal`` through a crash
    of the program only. ``timeout`` is in seconds.
    """

    begin_read: ClassVar = "BEGIN"
    begin_write: ClassVar = "BEGIN IMMEDIATE"
    connections: ClassVar = -1
    errors: ClassVar[type[Exception]] = sqlite3.Error

    def __init__(self, path: Path | None, *, timeout: float, synchronous: str = "full") -> None:
        if sqlite3.sqlite_version_info < _MINIMUM:
            raise StorageError(f"SQLite {sqlite3.sqlite_version} is too old; install 3.35 or later")
        # A file and not ":memory:", because only a file lets readers go on beside a writer.
        self._scratch = None if path else tempfile.TemporaryDirectory(prefix="signalbook-")
        self._path = path or Path(self._scratch.name if self._scratch else "") / "scratch.db"
        self._timeout = timeout
        self._synchronous = synchronous if path else "off"
        self.where = str(self._path)
        self.sql: SqlDialect = sqlite_dialect(paramstyle="named")

    @classmethod
    def at(cls, url: URL, *, timeout: float) -> SQLite:
        """The database a ``sqlite:`` URL names. Raises ``StorageError`` for a parameter that there is not."""
        options = dict(url.query)
        synchronous = options.pop("synchronous", "full")
        if options or synchronous not in _SYNCHRONOUS:
            raise StorageError(f"the database URL {url} may only say synchronous={'|'.join(_SYNCHRONOUS)} behind the ?")
        path = None if url.database in (None, "", ":memory:") else Path(str(url.database))
        return cls(path, timeout=timeout, synchronous=str(synchronous))

    def connect(self) -> Connection:
        """Open the file in WAL mode. Raises ``StorageError`` where the file system cannot do that."""
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = self._into_wal(connection)
        if mode != "wal":
            raise StorageError(f"{self.where}: this file system cannot hold a WAL database; use a local disk")
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        connection.execute("PRAGMA cache_size=-16384")
        connection.execute("PRAGMA journal_size_limit=67108864")

    def _into_wal(self, connection: sqlite3.Connection) -> str:
        """Switch the journal. SQLite does not wait for others here, whatever its timeout: two first starts collide."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
            except sqlite3.OperationalError as error:
                if _primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def commit(self, connection: Connection) -> None:
        """Commit. After a full disk SQLite may have rolled back by itself; then this raises rather than keep a part."""
        connection.execute("COMMIT")

    def member(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """``IN`` over the elements of a JSON array."""
        return column.in_(select(func.json_each(bindparam(name)).table_valued("value").c.value))

    def array(self, values: Collection[int] | Collection[str]) -> str:
        """A JSON array."""
        return json.dumps(list(values))

    def stream(self, connection: Connection, sql: str, parameters: Parameters) -> Iterator[Record]:
        """Fetch batch by batch from an open cursor."""
        cursor: Any = connection.execute(sql, parameters)
        try:
            while records := cursor.fetchmany(BATCH):
                yield from records
        finally:
            cursor.close()

    def lost(self, error: Exception) -> bool:  # noqa: ARG002
        """Never: a file does not hang up."""
        return False

    def explain(self, error: Exception) -> StorageError:
        """By SQLite's result code; the primary one, since the extended ones only say where in SQLite."""
        code = _primary(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StorageBusy(f"{self.where}: another writer held the database for {self._timeout:g} s; try again")
        return StorageError(f"{self.where}: {_REMEDIES.get(code, 'SQLite cannot go on')} ({error})")

    def close(self) -> None:
        """Remove a throw-away database."""
        if self._scratch:
            self._scratch.cleanup()


def _primary(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
