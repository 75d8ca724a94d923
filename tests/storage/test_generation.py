"""The number that tells whether anything was committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from signalbook.storage import open_store
from signalbook.storage.base import StorageError


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'r.db'}"


def test_a_commit_changes_it_whoever_commits(url: str) -> None:
    here, there = open_store(url), open_store(url)
    seen = [(here.generation(), there.generation())]
    for writer in (here, there, here):
        with writer.write() as transaction:
            transaction.put_config("x", 1)
        seen.append((here.generation(), there.generation()))
    assert len({a for a, _ in seen}) == len({b for _, b in seen}) == 4
    here.close()
    there.close()


def test_nothing_else_changes_it(url: str) -> None:
    store = open_store(url)
    before = store.generation()
    with store.read() as reader:
        reader.config("x")
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.put_config("x", 1 // 0)
    assert store.generation() == before
    store.close()


def test_a_closed_store_has_none(url: str) -> None:
    store = open_store(url)
    store.generation()
    store.close()
    with pytest.raises(StorageError):
        store.generation()


def test_a_database_across_a_network_does_not_tell(postgres_url: str) -> None:
    store = open_store(postgres_url)
    assert store.generation() is None
    store.close()
