from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest

from signalbook.storage import open_store
from signalbook.storage.base import StorageError
from signalbook.storage.store import Store, WriteTransaction

STAMP = datetime(2030, 1, 1, tzinfo=UTC)


def change(writer: WriteTransaction) -> None:
    writer.outbox.append([{}], time=STAMP, correlationid="c")


@pytest.mark.parametrize("write", [change, lambda writer: writer.settings.put_config("x", 1)], ids=["change", "config"])
def test_every_commit_changes_the_generation(store_url: str, write: Callable[[WriteTransaction], None]) -> None:
    here, there = open_store(store_url), open_store(store_url)
    seen = [(here.generation(), there.generation())]
    for writer in (here, there, here):
        with writer.write() as transaction:
            write(transaction)
        seen.append((here.generation(), there.generation()))
    assert len({a for a, _ in seen}) == len({b for _, b in seen}) == 4
    here.close()
    there.close()


@pytest.mark.parametrize(
    "write",
    [
        lambda writer: writer.settings.put("deliveries/1", {"position": 7}),
        lambda writer: writer.reports.put_report("p", "b", "{}", {}, time=STAMP, keep=2),
    ],
    ids=["setting", "report"],
)
def test_reports_do_not_change_the_generation(store: Store, write: Callable[[WriteTransaction], None]) -> None:
    """Cached responses stay valid, however often a pipeline reports or a delivery advances."""
    with store.write() as transaction:
        change(transaction)
    before = store.generation()
    with store.write() as transaction:
        write(transaction)
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.outbox.append([{}], time=STAMP, correlationid=str(1 // 0))
    assert store.generation() == before
    with store.write() as transaction:
        change(transaction)
    assert store.generation() != before


def test_closed_store_has_no_generation(store_url: str) -> None:
    store = open_store(store_url)
    store.generation()
    store.close()
    with pytest.raises(StorageError):
        store.generation()


def test_generation_survives_a_lost_connection(postgres_database: str) -> None:
    store = open_store(postgres_database)
    store.generation()
    with psycopg.connect(postgres_database, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    assert store.generation() == 0
    store.close()
