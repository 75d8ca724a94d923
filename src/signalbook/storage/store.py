"""Open and migrate a store on any dialect, keep its pool of connections, and let writers take turns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool, PoolProxiedConnection, QueuePool

from signalbook.plugins import install
from signalbook.storage.audit import AuditReader, AuditStatements, AuditWriter
from signalbook.storage.base import StorageBusy, StorageError, StorageFull, StorageUnavailable
from signalbook.storage.confluent import ConfluentReader, ConfluentStatements, ConfluentWriter
from signalbook.storage.dialect import IDLE, Dialect, DriverConnection
from signalbook.storage.entities import EntityReader, EntityStatements
from signalbook.storage.entity_writing import EntityWriter
from signalbook.storage.index import IndexReader, IndexStatements, IndexWriter
from signalbook.storage.outbox import OutboxReader, OutboxStatements, OutboxWriter
from signalbook.storage.reports import ReportReader, ReportStatements, ReportWriter
from signalbook.storage.schema import REVISION
from signalbook.storage.sessions import SessionReader, SessionStatements, SessionWriter
from signalbook.storage.settings import SettingsReader, SettingsStatements, SettingsWriter
from signalbook.storage.sqlite import SQLite
from signalbook.storage.subscriptions import SubscriptionReader, SubscriptionStatements, SubscriptionWriter
from signalbook.storage.tokens import TokenReader, TokenStatements, TokenWriter
from signalbook.storage.transaction import SqlTransaction, SqlWriting
from signalbook.values import JSON

_LOG: Final = logging.getLogger("signalbook.storage")
MIGRATIONS: Final = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME: Final = threading.Lock()
"""Serializes migrations, because Alembic keeps the running migration in module globals."""


def ensure_current(dialect: Dialect, migrated: Migrated | None = None) -> None:
    """Migrate the database unless it already has this program's revision. Either all migrations are applied or none.

    ``migrated`` writes in the transaction of the migration. It is not called if the database was empty before.

    Any number of programs may call this at once: one of them migrates, the others wait for it. Raises ``StorageError``
    if the database cannot be used or was written by a newer program.
    """
    try:
        if schema_revision(dialect) != REVISION:
            migrate(dialect, migrated=migrated)
    except dialect.errors as error:
        raise dialect.explain(error) from None
    except DBAPIError as error:
        raise dialect.explain(error.orig if isinstance(error.orig, Exception) else error) from None


def schema_revision(dialect: Dialect) -> str | None:
    """Return the schema revision of the database without loading Alembic, or None if it cannot be read.

    Raises the driver's errors and ``StorageError`` if no connection can be made.
    """
    connection = dialect.connect()
    try:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchall()[0][0])
    except (dialect.errors, IndexError):
        return None
    finally:
        connection.close()


def migrate(dialect: Dialect, revision: str = "head", migrated: Migrated | None = None) -> None:
    """Migrate the database to ``revision``, which this program must know. Raises the driver's errors and
    ``StorageError``."""
    with _ONE_AT_A_TIME:
        _migrate(dialect, revision, migrated)


def _migrate(dialect: Dialect, revision: str, migrated: Migrated | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    url = f"{dialect.sql.name}+{dialect.sql.driver}://"
    engine = create_engine(url, creator=dialect.connect, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(dialect.begin_write)
        old_revision = MigrationContext.configure(connection).get_current_revision()
        program_revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if old_revision is not None and old_revision not in program_revisions:
            raise StorageError(
                f"its schema is {old_revision}, this program knows {REVISION} at most: "
                "update Signalbook, or name another database",
                where=dialect.where,
            )
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        # If another program migrated the database while this one waited, there is nothing left to do.
        if migrated is not None and old_revision not in (None, REVISION):
            with writing(_unwrap_driver(connection.connection), dialect) as transaction:
                migrated(transaction, str(old_revision))
        connection.commit()


_QUIET_SECONDS: Final = 60.0
_POOL_SIZE: Final = 8
"""Idle connections kept for the next request."""
_OUTAGES: Final = "outages"
"""The key under which a pooled connection stores the number of outages before the connection was made."""
_MOMENT: Final = 2.0
"""The seconds that requests wait while another thread tries to reconnect to the database."""


class Statements:
    """The SQL text of every statement for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.entities = EntityStatements(dialect)
        self.outbox = OutboxStatements(dialect)
        self.settings = SettingsStatements(dialect)
        self.reports = ReportStatements(dialect)
        self.subscriptions = SubscriptionStatements(dialect)
        self.audit = AuditStatements(dialect)
        self.tokens = TokenStatements(dialect)
        self.sessions = SessionStatements(dialect)
        self.confluent = ConfluentStatements(dialect)
        self.index = IndexStatements(dialect)


_COMPILED: Final[dict[type[Dialect], Statements]] = {}


def _compile_statements(dialect: Dialect) -> Statements:
    """Return the compiled statements for the class of ``dialect``. They are cached: compiling takes longer than opening
    a store."""
    kind = type(dialect)
    if kind not in _COMPILED:
        _COMPILED[kind] = Statements(dialect)
    return _COMPILED[kind]


class ReadTransaction:
    """A consistent view of the store at the instant of its first call. Use one instance from one thread at a time.

    Every call of its readers may raise ``StorageError``.
    """

    def __init__(self, transaction: SqlTransaction, sql: Statements) -> None:
        self._transaction, self._sql = transaction, sql
        self.entities = EntityReader(transaction, sql.entities)
        self.outbox = OutboxReader(transaction, sql.outbox)
        self.settings = SettingsReader(transaction, sql.settings)

    # These readers are created on first use, because most requests concern the registry only.
    @cached_property
    def reports(self) -> ReportReader:
        """The reader of pipeline reports."""
        return ReportReader(self._transaction, self._sql.reports)

    @cached_property
    def subscriptions(self) -> SubscriptionReader:
        """The reader of subscriptions and their deliveries."""
        return SubscriptionReader(self._transaction, self._sql.subscriptions)

    @cached_property
    def audit(self) -> AuditReader:
        """The reader of the audit log."""
        return AuditReader(self._transaction, self._sql.audit)

    @cached_property
    def tokens(self) -> TokenReader:
        """The reader of API tokens."""
        return TokenReader(self._transaction, self._sql.tokens)

    @cached_property
    def sessions(self) -> SessionReader:
        """The reader of sessions of people who logged in to the explorer."""
        return SessionReader(self._transaction, self._sql.sessions)

    @cached_property
    def confluent(self) -> ConfluentReader:
        """The reader of schema ids and of other data that only the Confluent-compatible API uses."""
        return ConfluentReader(self._transaction, self._sql.confluent)

    @cached_property
    def index(self) -> IndexReader:
        """The reader of the index of words and references."""
        return IndexReader(self._transaction, self._sql.index)


class WriteTransaction(ReadTransaction):
    """A read-write transaction: it sees its own writes, and either all of them are committed or none."""

    _transaction: SqlWriting
    entities: EntityWriter
    outbox: OutboxWriter
    settings: SettingsWriter

    def __init__(self, transaction: SqlWriting, sql: Statements) -> None:
        self._transaction, self._sql = transaction, sql
        self.entities = EntityWriter(transaction, sql.entities)
        self.outbox = OutboxWriter(transaction, sql.outbox)
        self.settings = SettingsWriter(transaction, sql.settings)

    @cached_property
    def reports(self) -> ReportWriter:
        """The writer of pipeline reports."""
        return ReportWriter(self._transaction, self._sql.reports)

    @cached_property
    def subscriptions(self) -> SubscriptionWriter:
        """The writer of subscriptions and their deliveries."""
        return SubscriptionWriter(self._transaction, self._sql.subscriptions)

    @cached_property
    def audit(self) -> AuditWriter:
        """The writer of the audit log."""
        return AuditWriter(self._transaction, self._sql.audit)

    @cached_property
    def tokens(self) -> TokenWriter:
        """The writer of API tokens."""
        return TokenWriter(self._transaction, self._sql.tokens)

    @cached_property
    def sessions(self) -> SessionWriter:
        """The writer of sessions of people who logged in to the explorer."""
        return SessionWriter(self._transaction, self._sql.sessions)

    @cached_property
    def confluent(self) -> ConfluentWriter:
        """The writer of schema ids and of other data that only the Confluent-compatible API uses."""
        return ConfluentWriter(self._transaction, self._sql.confluent)

    @cached_property
    def index(self) -> IndexWriter:
        """The writer of the index of words and references."""
        return IndexWriter(self._transaction, self._sql.index)

    def savepoint(self) -> AbstractContextManager[None]:
        """Open a savepoint: if the block raises any exception, its writes are undone and the transaction can continue.

        Savepoints cannot be nested. Result streams that the block opened end with the block. Raises ``StorageError`` if
        the database ended the whole transaction.
        """
        return self._transaction.savepoint()

    def finish(self) -> None:
        """Write the pending changes. The caller commits afterwards."""
        self._transaction.check()
        self.entities.finish()
        self.outbox.finish()
        if self._transaction.pending.schemaids:
            self.confluent.finish()
        if self._transaction.pending.index or self._transaction.pending.marks:
            self.index.finish()
        if self._transaction.pending.audit:
            self.audit.finish()


Migrated = Callable[[WriteTransaction, str], None]
"""A callback that gets a write transaction and the revision that the database had before its migration."""


@contextmanager
def writing(connection: DriverConnection, dialect: Dialect) -> Iterator[WriteTransaction]:
    """Yield a ``WriteTransaction`` for the transaction that is open on ``connection``. The caller commits after the
    block."""
    sql = _compile_statements(dialect)
    transaction = SqlWriting(connection, dialect, insert=sql.entities.insert, update=sql.entities.update)
    writer = WriteTransaction(transaction, sql)
    try:
        yield writer
        writer.finish()
    finally:
        transaction.end()


class Store:
    """A database whose tables have this program's revision. It is thread-safe; do not use one instance in both
    processes after a fork."""

    def __init__(self, dialect: Dialect, *, timeout: float) -> None:
        self._dialect = dialect
        self.where = dialect.where
        self._timeout = timeout
        self._away_since = 0.0
        """The time on the monotonic clock at which the database became unavailable; 0 while it is available."""
        self._full_until = 0.0
        self._away = ""
        self._outages = 0
        self._trying = threading.Lock()
        self._statements = _compile_statements(dialect)
        self._writing = threading.Lock()
        self._closed = False
        self._pool = QueuePool(
            dialect.connect,  # type: ignore[arg-type]  # SQLAlchemy's own Protocol lists every DB-API member
            pool_size=_POOL_SIZE,
            max_overflow=-1 if dialect.connections < 0 else dialect.connections - _POOL_SIZE,
            timeout=timeout,
            use_lifo=True,
            # ``_return_connection`` rolls back itself, and checks whether that still works.
            reset_on_return=None,
        )

    def __repr__(self) -> str:
        return f"Store({self._dialect.where})"

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """Open a read transaction. Any number of read transactions can be open at once, also during a write
        transaction."""
        with self._transaction(self._dialect.begin_read) as connection:
            transaction = SqlTransaction(connection, self._dialect)
            try:
                yield ReadTransaction(transaction, self._statements)
            finally:
                transaction.end()

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """Open the write transaction. It commits at the end of the block, and rolls back on any exception.

        Raises ``StorageBusy`` if other writers hold the store for longer than the store's timeout.
        """
        with self._await_turn(), self._transaction(self._dialect.begin_write) as connection:
            with writing(connection, self._dialect) as transaction:
                yield transaction
            self._commit(connection)

    def generation(self) -> Hashable:
        """Return a value that changes whenever any process commits a change of the registry. While the value stays
        equal, data that was read from the registry after this call is still current.

        Creating or revoking a token and ending a session change the value, too. Key-value settings, reports,
        subscriptions and the audit log do not change it.
        """
        self._check_open()
        self._await_database()
        try:
            return self._dialect.generation(self._statements.outbox.generation)
        except self._dialect.errors as error:
            raise self._explain(error) from None

    def close(self) -> None:
        """Close all idle connections. Connections in use are closed when their transactions end."""
        self._closed = True
        self._pool.dispose()
        self._dialect.close()

    @contextmanager
    def _await_turn(self) -> Iterator[None]:
        """Wait until no other thread of this process writes. Waiting here instead of in the database needs neither a
        connection per writer nor polling."""
        if not self._writing.acquire(timeout=self._timeout):
            raise StorageBusy(f"other writers held the store for {self._timeout:g} s; try again", where=self.where)
        try:
            yield
        finally:
            self._writing.release()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[DriverConnection]:
        """Open a transaction and yield its connection. At the end, everything that was not committed is rolled back."""
        pooled = self._begin(begin)
        try:
            yield _unwrap_driver(pooled)
        finally:
            self._return_connection(pooled)

    def _begin(self, begin: str) -> PoolProxiedConnection:
        self._await_database()
        dead = 0
        while True:
            pooled = self._obtain_connection()
            try:
                _unwrap_driver(pooled).execute(begin)
                return pooled
            except self._dialect.errors as error:
                self._return_connection(pooled)
                # When a server restarts, all pooled connections are dead, but each shows it only when it is used.
                if self._dialect.lost(error) and pooled.info.get(_OUTAGES) == self._outages:
                    self._outages += 1
                dead += 1
                if dead > _POOL_SIZE or not self._dialect.lost(error):
                    raise self._explain(error) from None

    def _await_database(self) -> None:
        """Wait until the database is available again. One thread at a time tries to connect; others wait at most
        ``_MOMENT``.

        Raises ``StorageUnavailable``.
        """
        if not self._away_since:
            return
        if not self._trying.acquire(timeout=_MOMENT):
            raise StorageUnavailable(self._away, where=self.where)
        try:
            if self._away_since:
                self._dialect.connect().close()
                _LOG.warning("the database is back after %.0f s", time.monotonic() - self._away_since)
                self._away_since = 0.0
        except self._dialect.errors as error:
            raise self._explain(error) from None
        finally:
            self._trying.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("this store is closed; open it again", where=self.where)

    def _obtain_connection(self) -> PoolProxiedConnection:
        self._check_open()
        try:
            while True:
                pooled = self._pool.connect()
                # Connections from before an outage are usually dead, and finding that out may take seconds for each.
                if pooled.info.setdefault(_OUTAGES, self._outages) == self._outages:
                    return pooled
                pooled.invalidate()
        except PoolTimeout:
            raise StorageBusy(
                f"all {self._dialect.connections} connections are in use; try again", where=self.where
            ) from None
        except self._dialect.errors as error:
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> StorageError:
        """Return the ``StorageError`` for a driver error. Only the first error of an outage is logged, since thousands
        may follow."""
        explained = self._dialect.explain(error)
        if isinstance(explained, StorageUnavailable):
            self._away = explained.shown
            if not self._away_since:
                self._away_since = time.monotonic()
                self._outages += 1
                _LOG.error("the database is away: %s", explained)
        # Each failing write would log this. Log once a minute, because the log may be on the same full disk.
        if isinstance(explained, StorageFull) and time.monotonic() > self._full_until:
            self._full_until = time.monotonic() + _QUIET_SECONDS
            _LOG.error("a write failed: %s", explained)
        return explained

    def _commit(self, connection: DriverConnection) -> None:
        """Commit the transaction. ``WriteTransaction.finish`` raises before this call if any statement failed."""
        try:
            connection.execute("COMMIT")
        except self._dialect.errors as error:
            explained = self._explain(error)
            if self._dialect.lost(error):
                unsure = f"{explained.shown}; whether the write was kept is unknown: read it again"
                raise StorageUnavailable(unsure, where=self.where) from None
            raise explained from None

    def _return_connection(self, pooled: PoolProxiedConnection) -> None:
        try:
            _unwrap_driver(pooled).rollback()
        except self._dialect.errors:
            pooled.invalidate()
            return
        if self._closed:
            pooled.invalidate()
        else:
            pooled.close()


def _unwrap_driver(pooled: PoolProxiedConnection) -> DriverConnection:
    connection: DriverConnection = pooled.dbapi_connection  # type: ignore[assignment]  # as dialect.connect made it
    return connection


class KeyValueStore:
    """The key-value store for callers that need nothing else from the database. Each call is a transaction
    of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, name: str) -> JSON:
        """Return the value stored under ``name``, or None if there is no value."""
        with self._store.read() as transaction:
            return transaction.settings.get(name)

    def put(self, values: Mapping[str, JSON]) -> None:
        """Store ``values`` by name, all of them or none. The value None removes a name."""
        with self._store.write() as transaction:
            for name, value in values.items():
                transaction.settings.put(name, value)


def open_store(url: str, *, timeout: float = 60.0, idle: float = IDLE, migrated: Migrated | None = None) -> Store:
    """Open the store at ``url``. Create or migrate its tables first if necessary.

    ``sqlite:///FILE`` is a file (``sqlite:////FILE`` an absolute path), ``sqlite://`` a temporary store that is deleted
    when closed, ``postgresql://user:password@host:port/name`` a PostgreSQL database; it takes libpq's parameters.
    ``timeout`` is how many seconds a transaction waits for its turn before ``StorageBusy``. ``idle`` is how many
    seconds a write transaction on PostgreSQL may be idle before the server rolls it back: the client may be gone
    without a sign while others wait. ``migrated`` is called as in ``ensure_current``. Raises ``StorageError``.
    """
    dialect = find_dialect(url, timeout, idle)
    try:
        ensure_current(dialect, migrated)
    except BaseException:
        dialect.close()
        raise
    return Store(dialect, timeout=timeout)


def is_throw_away(url: str) -> bool:
    """Return True if ``url`` names a temporary store, which is deleted when it is closed."""
    return url.partition("?")[0] in ("sqlite://", "sqlite:///", "sqlite:///:memory:")


def find_dialect(url: str, timeout: float, idle: float = IDLE) -> Dialect:
    """Return the dialect for ``url`` (formats as in ``open_store``), configured with ``timeout`` and ``idle`` seconds.
    Raises ``StorageError`` if the URL is invalid."""
    try:
        parsed = make_url(url)
        make = _DIALECTS[parsed.drivername]
    except (ArgumentError, KeyError, ValueError):
        # The URL is not repeated: it may hold a password.
        raise StorageError(
            "the database URL is none: give sqlite:///FILE or postgresql://user:password@host/name"
        ) from None
    return make(parsed, timeout, idle)


def _open_sqlite(url: URL, timeout: float, idle: float) -> Dialect:  # noqa: ARG001  who is gone has no lock here
    return SQLite.at(url, timeout=timeout)


def _open_postgres(url: URL, timeout: float, idle: float) -> Dialect:
    try:
        from signalbook.storage.postgres import Postgres
    except ImportError:
        raise StorageError(f"PostgreSQL needs its driver: {install('postgres')}") from None
    return Postgres(url, timeout=timeout, idle=idle)


_DIALECTS: Final[dict[str, Callable[[URL, float, float], Dialect]]] = {
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
}
