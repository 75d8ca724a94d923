"""The mark that tells whether anything was committed."""

from __future__ import annotations

import psycopg
import pytest

from signalbook.storage import open_store
from signalbook.storage.base import StorageError


def test_a_commit_changes_it_whoever_commits(store_url: str) -> None:
    here, there = open_store(store_url), open_store(store_url)
    seen = [(here.generation(), there.generation())]
    for writer in (here, there, here):
        with writer.write() as transaction:
            transaction.put_config("x", 1)
        seen.append((here.generation(), there.generation()))
    assert len({a for a, _ in seen}) == len({b for _, b in seen}) == 4
    here.close()
    there.close()


def test_nothing_else_changes_it_in_a_file() -> None:
    store = open_store("sqlite://")
    before = store.generation()
    with store.read() as reader:
        reader.config("x")
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.put_config("x", 1 // 0)
    assert store.generation() == before
    store.close()


def test_a_closed_store_has_none(store_url: str) -> None:
    store = open_store(store_url)
    store.generation()
    store.close()
    with pytest.raises(StorageError):
        store.generation()


def test_it_outlives_a_lost_connection(postgres_database: str) -> None:
    store = open_store(postgres_database)
    store.generation()
    with psycopg.connect(postgres_database, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    assert store.generation()
    store.close()
