"""A database that answers nothing, though every connection stands: nobody hangs, and what is cut off keeps no turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import make_url
from tests.faults.cluster import Proxy
from tests.serving import kept_port

from signalbook.storage import open_store, silence
from signalbook.storage.base import StorageUnavailable
from signalbook.storage.postgres import Postgres
from signalbook.storage.store import Store

PATIENCE = 60


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "_SILENT_SECONDS", 0.3)
    monkeypatch.setattr(silence, "_ON_ITS_WAY_SECONDS", 0.2)


@pytest.fixture
def link(postgres_database: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database, and the URL that leads through it."""
    real = make_url(postgres_database)
    with kept_port() as port:
        proxy = Proxy(f"{real.query['host']}/.s.PGSQL.5432", [port])
        through = real.set(host="127.0.0.1", port=port, query={"connect_timeout": "2"})
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


def test_what_waits_in_vain_is_told_and_gives_its_turn_to_others(
    store: Store, link: tuple[Proxy, str], other: Store
) -> None:
    def lost_meanwhile() -> None:
        link[0].set(0, "hole")
        time.sleep(0.3)
        link[0].set(0, "pass")

    with pytest.raises(StorageUnavailable):
        touch(store, "half", then=lost_meanwhile)
    # Whatever it does next, it ends what is left of its connection at the server.
    assert epoch(store, "half") == 0
    touch(other, "whole")
    assert epoch(store, "whole") == 1


def test_while_nothing_answers_nobody_waits_long(store: Store, link: tuple[Proxy, str]) -> None:
    touch(store, "a")
    link[0].set(0, "hole")
    time.sleep(0.3)
    began = time.monotonic()
    with pytest.raises(StorageUnavailable):
        store.generation()
    failed: list[float] = []

    def fail() -> None:
        with pytest.raises(StorageUnavailable):
            epoch(store, "a")
        failed.append(time.monotonic() - began)

    threads = [threading.Thread(target=fail) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    # One of them tries to connect; the others do not, one after the other, for two seconds each.
    assert len(failed) == len(threads)
    assert max(failed) < 20, failed
    link[0].set(0, "pass")
    assert epoch(store, "a") == 1


def test_who_waits_for_its_turn_is_not_given_up(store: Store, other: Store) -> None:
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        time.sleep(2)

    thread = threading.Thread(target=touch, args=(other, "first", hold))
    thread.start()
    assert begun.wait(PATIENCE)
    touch(store, "second")  # ten times as long as silence is taken for an answer
    thread.join(PATIENCE)
    assert (epoch(store, "first"), epoch(store, "second")) == (1, 1)


def test_what_is_idle_for_long_loses_its_turn(postgres_database: str, other: Store) -> None:
    with closing(open_store(postgres_database, idle=0.3)) as store, pytest.raises(StorageUnavailable):
        touch(store, "first", then=lambda: touch(other, "second"))
    assert (epoch(other, "first"), epoch(other, "second")) == (0, 1)


def test_only_the_very_backend_is_ended(link: tuple[Proxy, str], postgres_database: str, other: Store) -> None:
    """Its number may be another's by now."""
    dialect = Postgres(make_url(link[1]), timeout=1)
    with psycopg.connect(postgres_database, autocommit=True) as innocent:
        known = innocent.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        pid, start = known.fetchall()[0]
        dialect._forsaken.append((pid, start.replace(year=2000)))
        deadline = time.monotonic() + PATIENCE
        while dialect._forsaken:
            assert time.monotonic() < deadline
            try:
                dialect.connect().close()
            except psycopg.OperationalError:  # the proxy is not up yet
                time.sleep(0.05)
        assert innocent.execute("SELECT 1").fetchall() == [(1,)]
