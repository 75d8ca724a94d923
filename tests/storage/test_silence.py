"""A database that answers nothing, though every connection stands: nobody hangs, and what is cut off keeps no turn."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from tests.faults.cluster import Proxy
from tests.serving import kept_port

from signalbook.storage import open_store, silence
from signalbook.storage import store as module
from signalbook.storage.base import StorageUnavailable
from signalbook.storage.postgres import Postgres
from signalbook.storage.store import Store

PATIENCE = 60


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "_SILENT_SECONDS", 0.3)


@pytest.fixture
def link(postgres_database: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database, and the URL that leads through it."""
    real = make_url(postgres_database)
    with kept_port() as port:
        proxy = Proxy(f"{real.query['host']}/.s.PGSQL.5432", [port])
        through = real.set(host="127.0.0.1", port=port, query={"connect_timeout": str(PATIENCE)})
        yield proxy, through.render_as_string(hide_password=False)
        proxy.stop()


@pytest.fixture
def other(postgres_database: str) -> Iterator[Store]:
    """Another server's, past the proxy."""
    store = open_store(postgres_database, timeout=PATIENCE)
    yield store
    store.close()


@pytest.fixture
def store(link: tuple[Proxy, str], other: Store) -> Iterator[Store]:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            store = open_store(link[1], timeout=PATIENCE)
            break
        except StorageUnavailable:  # the proxy is not up yet
            assert time.monotonic() < deadline
    yield store
    store.close()


def touch(store: Store, name: str, then: Callable[[], None] = lambda: None) -> None:
    """Write something, and ``then`` something else happens before the commit."""
    with store.write() as writer:
        writer.settings.put_config(name, {})
        assert writer.settings.config_epoch(name) == 1
        then()


def epoch(store: Store, name: str) -> int:
    with store.read() as reader:
        return reader.settings.config_epoch(name)


def test_waiting_writes_fail_and_free_their_turn(store: Store, link: tuple[Proxy, str], other: Store) -> None:
    def lost_meanwhile() -> None:
        link[0].set(0, "hole")
        link[0].set(0, "pass")

    with pytest.raises(StorageUnavailable):
        touch(store, "half", then=lost_meanwhile)
    # Whatever it does next, it ends what is left of its connection at the server.
    assert epoch(store, "half") == 0
    touch(other, "whole")
    assert epoch(store, "whole") == 1


def test_one_thread_tries_to_connect(store: Store, link: tuple[Proxy, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The others fail without: each try takes until its connection is given up."""
    assert isinstance(store._dialect, Postgres)
    monkeypatch.setitem(store._dialect._parameters, "connect_timeout", 2)
    monkeypatch.setattr(module, "_MOMENT", 0.01)
    touch(store, "a")
    link[0].set(0, "hole")
    with pytest.raises(StorageUnavailable):
        store.generation()
    tries, failed, others_waiting = list[int](), list[int](), threading.Event()
    connect = silence.Connection.connect

    def connect_last(**options: Any) -> silence.Connection:
        tries.append(1)
        assert others_waiting.wait(PATIENCE)
        return connect(**options)

    def fail() -> None:
        with pytest.raises(StorageUnavailable):
            epoch(store, "a")
        failed.append(1)
        if len(failed) == 29:
            others_waiting.set()

    with monkeypatch.context() as patch, ThreadPoolExecutor(30) as threads:
        patch.setattr(silence.Connection, "connect", connect_last)
        for thread in [threads.submit(fail) for _ in range(30)]:
            thread.result()
    assert (len(tries), len(failed)) == (1, 30)
    link[0].set(0, "pass")
    assert epoch(store, "a") == 1


def test_waiting_for_a_lock_does_not_count_as_silence(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent server is an error no matter how often the client checks for the response."""
    monkeypatch.setattr(silence, "_SILENT_SECONDS", 0.01)
    queries = threading.Semaphore(0)
    ask = silence.Connection._check_backend

    def count(self: silence.Connection, *, last: bool) -> float:
        queries.release()
        return ask(self, last=last)

    monkeypatch.setattr(silence.Connection, "_check_backend", count)

    def hold() -> None:
        waiting.append(threads.submit(touch, store, "second"))
        for _ in range(5):
            assert queries.acquire(timeout=PATIENCE)

    waiting = list[Future[None]]()
    with ThreadPoolExecutor(1) as threads:
        touch(other, "first", hold)
        waiting[0].result()
    assert (epoch(store, "first"), epoch(store, "second")) == (1, 1)


def test_long_idle_transaction_is_ended(postgres_database: str, other: Store) -> None:
    with closing(open_store(postgres_database, idle=1.0)) as store, pytest.raises(StorageUnavailable):
        touch(store, "first", then=lambda: touch(other, "second"))
    assert (epoch(other, "first"), epoch(other, "second")) == (0, 1)


def test_only_the_very_backend_is_ended(link: tuple[Proxy, str], postgres_database: str, other: Store) -> None:
    """The number of the backend may belong to another one by now."""
    dialect = Postgres(make_url(link[1]), timeout=1)
    with psycopg.connect(postgres_database, autocommit=True) as innocent:
        backend = innocent.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        pid, start = backend.fetchall()[0]
        dialect._forsaken.append((pid, start.replace(year=2000)))
        deadline = time.monotonic() + PATIENCE
        while dialect._forsaken:
            assert time.monotonic() < deadline
            try:
                dialect.connect().close()
            except psycopg.OperationalError:  # the proxy is not up yet
                time.sleep(0.05)
        assert innocent.execute("SELECT 1").fetchall() == [(1,)]
