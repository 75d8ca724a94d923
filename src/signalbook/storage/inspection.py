"""Inspect the state of a database and find damage, without changing the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, exists, func, literal_column, select

from signalbook.storage.base import StorageError
from signalbook.storage.dialect import Dialect, DriverConnection
from signalbook.storage.schema import DOCUMENTS, ENTITIES, REVISION, TABLES
from signalbook.storage.store import find_dialect, schema_revision
from signalbook.values import digest

Check = Callable[[Dialect, DriverConnection], Iterator[str]]
"""A function that yields a message for each damage of one kind."""
_EXAMPLES: Final = 5
"""The number of damaged entities that are named for each kind of damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseState:
    """The state of a reachable database. ``revision`` is the revision of its schema, None if it has no registry.

    ``skew`` is the number of seconds that its clock is ahead of this machine's clock. ``future`` is the number of
    seconds that its newest change lies in this machine's future. Each is 0 if it is unknown.
    """

    where: str
    revision: str | None
    skew: float = 0.0
    future: float = 0.0

    @property
    def current(self) -> bool:
        """True if the schema of the database is this program's."""
        return self.revision == REVISION


def inspect(url: str, *, timeout: float) -> DatabaseState:
    """Return the state of the database at ``url``, after trying a write that is rolled back. Raises
    ``StorageError``."""
    dialect = find_dialect(url, timeout)
    try:
        revision = schema_revision(dialect)
        if revision is None:
            _check_empty(dialect)
            return DatabaseState(where=dialect.where, revision=None)
        skew, future = _try(dialect)
        return DatabaseState(where=dialect.where, revision=revision, skew=skew, future=future)
    except dialect.errors as error:
        raise dialect.explain(error) from None
    finally:
        dialect.close()


def _check_empty(dialect: Dialect) -> None:
    """Raise ``StorageError`` if a database without schema revision is damaged or has tables, so is not really empty."""
    with closing(dialect.connect()) as connection:
        damage = list(_run(_find_unreadable, dialect, connection))
        if damage:
            raise StorageError(f"the database is damaged: restore a backup ({damage[0]})", where=dialect.where)
        try:
            connection.execute(dialect.page(select(ENTITIES.c.key)), {"limit": 0}).fetchall()
        except dialect.errors:
            return
    raise StorageError("it has tables and no schema revision: restore a backup", where=dialect.where)


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


def find_damage(url: str, *, timeout: float) -> Iterator[str]:
    """Yield a message for each damage in the database at ``url``, which must have the current schema. Reads everything.

    Raises ``StorageError`` if the database cannot be reached.
    """
    dialect = find_dialect(url, timeout)
    try:
        with closing(dialect.connect()) as connection:
            for check in (_find_missing_tables, _find_unreadable, _find_lost_references, _find_changed_documents):
                damage = list(_run(check, dialect, connection))
                yield from damage
                if damage:  # later checks would report the same damage again
                    return
    except dialect.errors as error:
        raise dialect.explain(error) from None
    finally:
        dialect.close()


def _run(check: Check, dialect: Dialect, connection: DriverConnection) -> Iterator[str]:
    """Yield the messages of ``check``, run in a transaction of its own, and the driver's error if it fails."""
    connection.execute(dialect.begin_read)
    try:
        yield from check(dialect, connection)
    except dialect.errors as error:
        if dialect.lost(error):
            raise
        yield " ".join(str(error).split())
    finally:
        connection.rollback()


def _find_missing_tables(dialect: Dialect, connection: DriverConnection) -> Iterator[str]:
    for table in TABLES.sorted_tables:
        try:
            connection.execute(dialect.page(select(*table.c)), {"limit": 0}).fetchall()
        except dialect.errors as error:
            yield f"the table {table.name} cannot be used: {' '.join(str(error).split())}"
            return


def _find_unreadable(dialect: Dialect, connection: DriverConnection) -> Iterator[str]:
    yield from dialect.find_unreadable(connection)


def _find_lost_references(dialect: Dialect, connection: DriverConnection) -> Iterator[str]:
    """Yield entities without an owner, without the document that they refer to, or without their default Version."""
    entity, other = ENTITIES.c, ENTITIES.alias("other").c
    owned = exists().where(other.key == entity.parent)
    documented = exists().where(DOCUMENTS.c.digest == entity.document)
    version = func.lower(entity.defaultversionid) == other.folded
    defaulted = exists().where(other.parent == entity.key, other.type == literal_column("'versions'"), version)
    conditions = {
        "has no owner": (entity.type != literal_column("''"), ~owned),
        "names a document that is missing": (entity.document.is_not(None), ~documented),
        "names a default version that is missing": (
            entity.defaultversionid.is_not(None),
            entity.xref.is_(None),
            ~defaulted,
        ),
    }
    for damage, condition in conditions.items():
        query = dialect.page(select(entity.xid).where(*condition).order_by(entity.xid))
        for (xid,) in connection.execute(query, {"limit": _EXAMPLES}).fetchall():
            yield f"{xid} {damage}"


def _find_changed_documents(dialect: Dialect, connection: DriverConnection) -> Iterator[str]:
    """Yield the documents whose content does not match the digest that they are stored under."""
    damaged = 0
    sql = dialect.text(select(DOCUMENTS.c.digest, DOCUMENTS.c.content))
    for rows in dialect.stream(connection, sql, {}):
        for name, content in rows:
            # The SQLite file may contain a text here, if another program wrote it.
            if not isinstance(content, str) and digest(bytes(content)) == name:
                continue
            used = dialect.page(select(ENTITIES.c.xid).where(ENTITIES.c.document == bindparam("name")))
            xids = connection.execute(used, {"name": name, "limit": 1}).fetchall()
            yield f"the document {name[:12]} of {xids[0][0] if xids else 'no entity'} is not what was stored"
            damaged += 1
            if damaged == _EXAMPLES:
                return
