"""Backups: the contents of a database at one instant, as an SQLite file that can be restored into SQLite or PostgreSQL.

Rows are copied, not pages. So a backup of PostgreSQL is the same file as a backup of SQLite, and can move a registry
from one to the other. The file lists its contents with a digest of each table (docs/decisions/020-storage.md).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from signalbook import values
from signalbook.storage.base import StorageError
from signalbook.storage.dialect import Dialect, DriverConnection
from signalbook.storage.schema import REVISION
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import WriteTransaction, ensure_current, find_dialect, migrate, schema_revision, writing

Progress = Callable[[str, int], None]
"""A callback that gets the name of a table and the number of its rows that are done."""

_PROGRESS_ROWS: Final = 5000
_LEFT_OUT: Final = ("sqlite_", "index_", "sessions")
"""Prefixes of table names that are not backed up. ``sqlite_`` and ``index_`` tables are derived: whoever opens the
database builds the index again. Sessions are left out, because a restored session might have been ended since."""
_UNCOUNTED: Final = ("counters",)
"""Tables that have rows even in an empty database."""


class BackupError(StorageError):
    """A backup cannot be made, read or restored. The message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContents:
    """The number of ``rows`` in a table, and the SHA-256 of the rows as JSON lines in the order of their keys."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The description of a backup: the ``database`` it was made of, its schema ``revision``, and its ``tables`` by
    name."""

    created: datetime
    database: str
    revision: str
    tables: dict[str, TableContents]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a backup. Its rows are ordered by the columns in ``key``."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def query(self) -> str:
        """The query for all rows, in SQL that both SQLite and PostgreSQL understand."""
        return f"SELECT {_quote_names(self.columns)} FROM {_quote_names([self.name])} ORDER BY {_quote_names(self.key)}"  # noqa: S608


def back_up(url: str, path: Path, *, timeout: float, progress: Progress = lambda *_: None) -> Backup:
    """Write everything committed in the database at ``url`` to the new file ``path``, while others read and write
    there.

    The database is not changed, even if an older program wrote it. The file appears only when it is complete and was
    verified, readable by its owner only. ``timeout`` is in seconds. Raises ``StorageError``, ``OSError``.
    """
    if path.exists():
        raise BackupError(f"{path} is there already: name another file")
    source = find_dialect(url, timeout)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as private:
            file = Path(private) / "backup"
            _copy_out(source, file, progress)
            backup = verify(file)
            _publish(file, path)
            return backup
    except source.errors as error:
        raise source.explain(error) from None
    finally:
        source.close()


def verify(path: Path, *, progress: Progress = lambda *_: None) -> Backup:
    """Read a whole backup and return its description. Raises ``BackupError`` if it is missing or damaged."""
    if not path.is_file():
        raise BackupError(f"there is no backup at {path}")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            backup = _read_manifest(connection, path)
            contents = {table.name: _digest_table(connection, table, progress) for table in _list_tables(connection)}
            for name in backup.tables.keys() | contents.keys():
                if contents.get(name) != backup.tables.get(name):
                    raise BackupError(f"{path}: table {name} is not as it was backed up: use another backup")
            return backup
    except sqlite3.Error as error:
        raise BackupError(f"{path} is no backup, or a damaged one ({error}): use another backup") from None


def _digest_table(connection: sqlite3.Connection, table: _Table, progress: Progress) -> TableContents:
    rows = _Digest(table.name, connection.execute(table.query), progress)
    deque(rows, maxlen=0)
    return rows.contents()


def restore(
    path: Path,
    url: str,
    *,
    timeout: float,
    replace: bool = False,
    progress: Progress = lambda *_: None,
    restored: Callable[[WriteTransaction], None] = lambda _: None,
) -> Backup:
    """Restore a backup into the empty database at ``url``, completely or not at all. A backup of an older schema is
    migrated.

    ``replace`` deletes the current contents of the database; no server may run on it then. ``restored`` is called with
    the write transaction before the commit. Raises ``StorageError``, ``OSError``.
    """
    backup = verify(path, progress=progress)
    if backup.revision > REVISION:
        raise BackupError(
            f"{path}: its schema is {backup.revision}, this program knows {REVISION} at most: update Signalbook"
        )
    target = find_dialect(url, timeout)
    try:
        # Check before migrating, so that a database that is not empty stays as it was.
        if not replace and schema_revision(target) is not None:
            with closing(target.connect()) as connection:
                _require_empty(target, connection, ("entities",))
        ensure_current(target)
        with _open_migrated(path, backup) as source:
            _copy_in(source, target, replace, progress, restored)
        return backup
    except target.errors as error:
        raise target.explain(error) from None
    finally:
        target.close()


def _copy_out(source: Dialect, file: Path, progress: Progress) -> None:
    revision = schema_revision(source)
    if revision is None:
        raise BackupError(f"{source.where}: there is no registry in this database: name another one")
    if revision > REVISION:
        raise BackupError(
            f"{source.where}: its schema is {revision}, this program supports {REVISION} at most: update the program"
        )
    # An unfinished backup is useless, so nothing has to be safe on disk before the end.
    target = SQLite(file, timeout=1.0, synchronous="off")
    migrate(target, revision)
    with closing(target.connect()) as connection, closing(source.connect()) as reading:
        reading.execute(source.begin_read)
        connection.execute(target.begin_write)
        contents = {}
        for table in _list_tables(connection):
            rows = _Digest(table.name, chain.from_iterable(source.stream(reading, table.query, {})), progress)
            connection.execute(f"DELETE FROM {_quote_names([table.name])}")  # noqa: S608  counters, which start with some
            target.load(connection, table.name, table.columns, rows)
            contents[table.name] = rows.contents()
        backup = Backup(created=values.now(), database=source.where, revision=revision, tables=contents)
        connection.execute("CREATE TABLE backup (manifest TEXT NOT NULL)")
        connection.execute("INSERT INTO backup VALUES (?)", (msgspec.json.encode(backup).decode(),))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, not three


def _publish(file: Path, path: Path) -> None:
    """Sync a complete file to disk and rename it to ``path``."""
    file.chmod(0o600)
    _sync(file)
    file.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _open_migrated(path: Path, backup: Backup) -> Iterator[Path]:
    """Yield the path of the backup with this program's schema: ``path`` itself, or a migrated temporary copy."""
    if backup.revision == REVISION:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="signalbook-restore-") as private:
        copy = Path(shutil.copy(path, Path(private) / "backup"))
        ensure_current(SQLite(copy, timeout=1.0, synchronous="off"))
        yield copy


def _copy_in(
    path: Path,
    target: Dialect,
    replace: bool,
    progress: Progress,
    restored: Callable[[WriteTransaction], None],
) -> None:
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reading,
        closing(target.connect()) as connection,
    ):
        connection.execute(target.begin_write)
        tables = _list_tables(reading)
        if not replace:
            _require_empty(target, connection, [table.name for table in tables if table.name not in _UNCOUNTED])
        for table in tables:
            connection.execute(f"DELETE FROM {_quote_names([table.name])}")  # noqa: S608
            rows = _Digest(table.name, reading.execute(table.query), progress)
            target.load(connection, table.name, table.columns, rows)
        with writing(connection, target) as transaction:
            transaction.index.clear()
            restored(transaction)
        connection.execute("COMMIT")


def _require_empty(target: Dialect, connection: DriverConnection, tables: Iterable[str]) -> None:
    for name in tables:
        if connection.execute(f"SELECT 1 FROM {_quote_names([name])} LIMIT 1").fetchall():  # noqa: S608
            raise BackupError(
                f"{target.where} is not empty: restore into a new database; or stop all servers on this one, "
                "and use --replace to delete what it holds"
            )


def _read_manifest(connection: sqlite3.Connection, path: Path) -> Backup:
    record = connection.execute("SELECT manifest FROM backup").fetchone()
    try:
        return msgspec.json.decode(record[0], type=Backup)
    except (TypeError, msgspec.DecodeError):
        raise BackupError(f"{path} does not say what is in it: use another backup") from None


def _list_tables(connection: Any) -> list[_Table]:
    """Return the tables to back up: all except the manifest, Alembic's table and those in ``_LEFT_OUT``."""
    records = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    names = [
        name for (name,) in records if name not in ("alembic_version", "backup") and not name.startswith(_LEFT_OUT)
    ]
    return [_describe_table(connection, name) for name in names]


def _describe_table(connection: Any, name: str) -> _Table:
    columns = connection.execute(f"PRAGMA table_info({_quote_names([name])})").fetchall()
    key = sorted((place, column) for _, column, _, _, _, place in columns if place)
    everything = tuple(column for _, column, *_ in columns)
    return _Table(name, everything, tuple(column for _, column in key) or everything)


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


class _Digest:
    """Iterates over rows, with values as SQLite stores them, and computes their digest."""

    def __init__(self, table: str, rows: Iterable[tuple[Any, ...]], progress: Progress) -> None:
        self._table, self._rows, self._progress = table, rows, progress
        self._sha256 = hashlib.sha256()
        self._count = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for record in self._rows:
            # SQLite has no booleans.
            row = tuple(int(value) if isinstance(value, bool) else value for value in record)
            self._sha256.update(msgspec.json.encode(row) + b"\n")
            self._count += 1
            if self._count % _PROGRESS_ROWS == 0:
                self._progress(self._table, self._count)
            yield row

    def contents(self) -> TableContents:
        """Return the number and digest of the rows iterated so far."""
        return TableContents(rows=self._count, sha256=self._sha256.hexdigest())
