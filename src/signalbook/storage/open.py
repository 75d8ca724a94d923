"""From a database URL to a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from signalbook.storage.base import StorageError, Store
from signalbook.storage.dialect import Dialect
from signalbook.storage.migrate import ensure_current
from signalbook.storage.sqlite import SQLite
from signalbook.storage.store import SqlStore


def open_store(url: str, *, timeout: float = 60.0) -> Store:
    """Open the store at ``url``, creating or migrating its tables first where that is needed.

    ``sqlite:///FILE`` is a file (``sqlite:////FILE`` an absolute path), ``sqlite://`` a throw-away store that is gone
    when closed, ``postgresql://user:password@host:port/name`` a PostgreSQL database; it takes libpq's parameters.
    ``timeout`` is how many seconds a transaction waits for its turn before ``StorageBusy``. Raises ``StorageError``.
    """
    dialect = _dialect(url, timeout)
    try:
        ensure_current(dialect)
    except BaseException:
        dialect.close()
        raise
    return SqlStore(dialect, timeout=timeout)


def _dialect(url: str, timeout: float) -> Dialect:
    try:
        parsed = make_url(url)
        make = _DIALECTS[parsed.drivername]
    except (ArgumentError, KeyError, ValueError):
        # The URL is not repeated: it may hold a password.
        raise StorageError(
            "the database URL is none: give sqlite:///FILE or postgresql://user:password@host/name"
        ) from None
    return make(parsed, timeout)


def _sqlite(url: URL, timeout: float) -> Dialect:
    return SQLite.at(url, timeout=timeout)


def _postgres(url: URL, timeout: float) -> Dialect:
    try:
        from signalbook.storage.postgres import Postgres
    except ImportError:
        raise StorageError('PostgreSQL needs its driver: pip install "signalbook[postgres]"') from None
    return Postgres(url, timeout=timeout)


_DIALECTS: Final[dict[str, Callable[[URL, float], Dialect]]] = {"sqlite": _sqlite, "postgresql": _postgres}
