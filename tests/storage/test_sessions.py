from datetime import UTC, datetime, timedelta

from signalbook.storage.sessions import StoredSession
from signalbook.storage.store import Store

STAMP = datetime(2030, 1, 1, tzinfo=UTC)


def session(id: str, **more: object) -> StoredSession:
    members = {"subject": "ann", "created": STAMP, "expires": STAMP + timedelta(hours=1), **more}
    return StoredSession(id=id, **members)  # type: ignore[arg-type]


def test_stored_session_is_unchanged(store: Store) -> None:
    full_session = session("a", groups=("x", "Zoë"), issuer="https://i", displayname="Ann", hint="sealed")
    with store.write() as writer:
        writer.sessions.add(full_session)
        writer.sessions.add(session("b", token="t"))
        writer.sessions.add(session("c", issuer="https://i", created=STAMP - timedelta(1)))
        writer.sessions.add(session("d", subject="Ann"))
    with store.read() as reader:
        assert reader.sessions.get("a") == full_session
        assert reader.sessions.get("A") is None
        assert reader.sessions.of("ann", "https://i") == ["c", "a"]
        assert reader.sessions.of("ann", "") == ["b"]


def test_end_of_a_session_changes_the_generation_but_not_its_begin(store: Store) -> None:
    """``generation`` is what other servers look at before they answer from memory."""
    seen = [store.generation()]
    with store.write() as writer:
        writer.sessions.add(session("a"))
        assert not writer.sessions.remove("b")
    assert store.generation() == seen[-1]
    with store.write() as writer:
        assert writer.sessions.remove("a")
    assert store.generation() != seen[-1]
    seen.append(store.generation())
    with store.write() as writer:
        for session_id, subject in (("a", "ann"), ("b", "ann"), ("c", "bob")):
            writer.sessions.add(session(session_id, subject=subject, issuer=f"https://{session_id}"))
        assert writer.sessions.remove_of("nobody") == 0
    assert store.generation() == seen[-1]
    with store.write() as writer:
        assert writer.sessions.remove_of("ann") == 2
        assert writer.sessions.get("c") is not None
    assert store.generation() != seen[-1]


def test_expired_sessions_are_removed(store: Store) -> None:
    with store.write() as writer:
        writer.sessions.add(session("a", expires=STAMP))
        writer.sessions.add(session("b", expires=STAMP + timedelta(microseconds=1)))
        writer.sessions.remove_expired(STAMP)
        assert writer.sessions.get("a") is None
        assert writer.sessions.get("b") is not None
