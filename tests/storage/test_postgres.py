import traceback
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors
from sqlalchemy import make_url

from signalbook.storage import open_store
from signalbook.storage.base import StorageBusy, StorageError, StorageFull, StorageUnavailable
from signalbook.storage.postgres import Postgres
from signalbook.storage.store import Store, find_dialect

SECRET = "correct-horse"
TERMINATE = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND datname = current_database()
"""


@pytest.fixture
def server(postgres_database: str) -> Iterator[psycopg.Connection]:
    """A connection past the store."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def opened(postgres_database: str) -> Iterator[Store]:
    store = open_store(postgres_database, timeout=0.2)
    yield store
    store.close()


def touch(store: Store) -> int:
    with store.write() as writer:
        writer.settings.put_config("touched", {})
        return writer.settings.config_epoch("touched")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (errors.LockNotAvailable("x"), StorageBusy, "another writer held the database for 7 s"),
        (errors.QueryCanceled("x"), StorageBusy, "another writer"),
        (errors.DiskFull("could not extend"), StorageFull, "disk is full; free some space there (could not extend"),
        (errors.ReadOnlySqlTransaction("x"), StorageError, "name the primary server"),
        (errors.InsufficientPrivilege("x"), StorageError, "grant it the rights"),
        (errors.TooManyConnections("x"), StorageUnavailable, "max_connections"),
        (errors.AdminShutdown("x"), StorageUnavailable, "shutting down or starting; try again"),
        (errors.DataCorrupted("x"), StorageError, "restore a backup"),
        (errors.ConnectionFailure("x"), StorageUnavailable, "the server cannot be reached"),
        (errors.SyntaxError("odd"), StorageError, "PostgreSQL cannot go on (odd)"),
        (psycopg.OperationalError("connection failed: FATAL:  no"), StorageError, "check user, password and database"),
        (psycopg.OperationalError("x: FATAL:  the database system is starting up"), StorageUnavailable, "try again"),
        (psycopg.OperationalError("x: FATAL:  sorry, too many clients already"), StorageUnavailable, "max_connections"),
        (psycopg.OperationalError("no answer"), StorageUnavailable, "the server cannot be reached"),
        (psycopg.ProgrammingError("invalid option"), StorageError, "check what follows its ?"),
    ],
)
def test_errors_advise_what_to_do(error: psycopg.Error, kind: type[StorageError], message: str) -> None:
    explained = Postgres(make_url("postgresql://u@h/db"), timeout=7).explain(error)
    assert type(explained) is kind
    assert "postgresql://u@h/db: " in str(explained)
    assert message in str(explained)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{SECRET}@127.0.0.1:1/db",
        f"postgresql://user@127.0.0.1:1/db?password={SECRET}&connect_timeout=1",
        f"postgresql://user:{SECRET}@/postgres?host=/nowhere&sslpassword={SECRET}",
        f"postgresql://user:{SECRET}@/postgres?{SECRET}=1",
        f"postgresql://user:{SECRET}@host:no-port/db",
        f"mysql://user:{SECRET}@host/db",
        f"://{SECRET}",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert "; " in str(caught.value) or ": give " in str(caught.value)


def test_the_place_is_reported_without_the_password(postgres_database: str) -> None:
    store = open_store(postgres_database.replace("postgres@", f"postgres:{SECRET}@"))
    assert repr(store) == f"Store({postgres_database.replace('postgres@', 'postgres:***@')})"
    store.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [(("/postgres?", "/none?"), 'database "none" does not exist'), (("//postgres@", "//none@"), 'role "none"')],
)
def test_refusal_of_the_server_is_reported(postgres_url: str, change: tuple[str, str], message: str) -> None:
    with pytest.raises(StorageError, match=message):
        open_store(postgres_url.replace(*change))


def test_another_writer_makes_it_busy(opened: Store, server: psycopg.Connection, postgres_url: str) -> None:
    server.execute("BEGIN")
    server.execute(find_dialect(postgres_url, 1).begin_write.split("; ")[-1].encode())
    with pytest.raises(StorageBusy, match="another writer"):
        touch(opened)
    server.execute("ROLLBACK")
    assert touch(opened) > 0


def test_a_restarted_server_is_met_again(opened: Store, server: psycopg.Connection) -> None:
    with opened.read(), opened.read(), opened.read():
        before = touch(opened)
    server.execute(TERMINATE.encode())
    assert touch(opened) == before + 1


def test_a_restarted_server_is_noticed_once(
    opened: Store, server: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Using a dead connection may take seconds, so the other connections of the same age are not used."""
    with opened.read(), opened.read(), opened.read():
        pass
    server.execute(TERMINATE.encode())
    failures: list[Exception] = []
    is_lost = opened._dialect.lost

    def record(error: Exception) -> bool:
        failures.append(error)
        return is_lost(error)

    monkeypatch.setattr(opened._dialect, "lost", record)
    with opened.read(), opened.read(), opened.read():
        pass
    assert len(set(map(id, failures))) == 1


def test_a_connection_lost_while_writing_loses_the_write(opened: Store, server: psycopg.Connection) -> None:
    """Lost before the commit: a note has nothing to say but that."""

    def write() -> None:
        with opened.write() as writer:
            writer.settings.put("touched", {})
            server.execute(f"{TERMINATE} AND state = 'idle in transaction'".encode())

    with pytest.raises(StorageError, match="whether the write was kept is unknown"):
        write()
    with opened.read() as reader:
        assert reader.settings.get("touched") is None
    assert touch(opened) == 1


def test_missing_database_rights_are_an_error(
    opened: Store, server: psycopg.Connection, postgres_database: str
) -> None:
    server.execute("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    store = open_store(postgres_database.replace("//postgres@", "//reader@"))
    with store.read() as reader:
        reader.settings.config("modelsource")
    with pytest.raises(StorageError, match="grant it the rights"):
        touch(store)
    store.close()


def test_keys_are_compared_by_code_point_in_any_locale(opened: Store, server: psycopg.Connection) -> None:
    rows = server.execute("SELECT column_name FROM information_schema.columns WHERE collation_name = 'C'").fetchall()
    assert {name for (name,) in rows} >= {
        *("xid", "type", "folded", "xref", "document", "digest", "name", "ancestorid", "rank"),
    }
