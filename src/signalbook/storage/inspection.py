"""What state a database is in, found without changing it."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from signalbook.storage.dialect import Dialect
from signalbook.storage.schema import REVISION
from signalbook.storage.store import find_dialect, schema_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """A database that can be reached. ``revision`` is that of its schema, None if it has none of ours.

    ``skew`` is by how many seconds its clock is ahead of ours, ``future`` by how many its newest change is; each is 0
    where it cannot be said.
    """

    where: str
    revision: str | None
    skew: float = 0.0
    future: float = 0.0

    @property
    def current(self) -> bool:
        """Whether its schema is this program's."""
        return self.revision == REVISION


def inspect(url: str, *, timeout: float) -> DatabaseState:
    """The state of the database at ``url``, after trying a write that is undone. Raises ``StorageError``."""
    dialect = find_dialect(url, timeout)
    try:
        revision = schema_revision(dialect)
        if revision is None:
            return DatabaseState(where=dialect.where, revision=None)
        skew, future = _try(dialect)
        return DatabaseState(where=dialect.where, revision=revision, skew=skew, future=future)
    except dialect.errors as error:
        raise dialect.explain(error) from None
    finally:
        dialect.close()


def _try(dialect: Dialect) -> tuple[float, float]:
    with closing(dialect.connect()) as connection:
        connection.execute(dialect.begin_write)
        try:
            connection.execute("UPDATE counters SET value = value + 1")
            newest = connection.execute("SELECT time FROM outbox ORDER BY position DESC LIMIT 1").fetchall()
        finally:
            connection.rollback()
        began = time.time()
        clock = connection.execute(dialect.clock).fetchall()[0][0]
        ours = (began + time.time()) / 2
    future = max(0.0, newest[0][0] / 1e6 - ours) if newest else 0.0
    return (0.0 if clock is None else float(clock) - ours), future
