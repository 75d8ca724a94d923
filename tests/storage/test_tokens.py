from datetime import UTC, datetime, timedelta

import pytest

from signalbook.storage.base import StorageError
from signalbook.storage.store import Store
from signalbook.storage.tokens import StoredToken

STAMP = datetime(2030, 1, 1, tzinfo=UTC)


def token(id: str, **more: object) -> StoredToken:
    return StoredToken(id=id, hash=f"hash of {id}", subject="ci", created=STAMP, **more)  # type: ignore[arg-type]


def add(store: Store, *tokens: StoredToken) -> None:
    with store.write() as writer:
        for stored in tokens:
            writer.tokens.add(stored)


def test_stored_tokens_are_unchanged(store: Store) -> None:
    full_token = token(
        "a", groups=("x", "Zoë"), scopes=("read",), note="for it", expires=STAMP + timedelta(1), used=STAMP
    )
    add(store, full_token, token("b"), token("B", scopes=()))
    with store.read() as reader:
        assert reader.tokens.get("a") == full_token
        assert reader.tokens.get("b") == token("b")
        assert reader.tokens.get("c") is None
        assert reader.tokens.count() == 3
        assert [stored.id for stored in reader.tokens.page("", 2)] == ["B", "a"]
        assert [stored.id for stored in reader.tokens.page("a", 9)] == ["b"]


def test_an_id_is_given_once(store: Store) -> None:
    add(store, token("a"))
    with pytest.raises(StorageError):
        add(store, token("a"))


def test_all_servers_see_that_one_is_made_or_revoked_but_not_that_one_is_used(store: Store) -> None:
    """``generation`` is what other servers look at before they answer from memory."""
    seen = [store.generation()]
    add(store, token("a"))
    seen.append(store.generation())
    with store.write() as writer:
        writer.tokens.put_used("a", STAMP)
        writer.tokens.put_used("gone", STAMP)
        assert not writer.tokens.remove("b")
    assert store.generation() == seen[-1]
    with store.write() as writer:
        used = writer.tokens.get("a")
        assert used is not None
        assert used.used == STAMP
        assert writer.tokens.remove("a")
        assert writer.tokens.get("a") is None
    seen.append(store.generation())
    assert len(set(seen)) == 3
