"""Sessions: how many there are, what of them is stored, and whose they are."""

from signalbook.access import sessions
from signalbook.access.base import Identity
from signalbook.access.sessions import MOST_SESSIONS, LoggedIn
from signalbook.storage.store import Store
from signalbook.values import now


def test_sessions_of_one_person_are_bounded_and_stored_as_hashes(store: Store) -> None:
    who = LoggedIn(identity=Identity(subject="ann", groups=frozenset({"g"})), hint="an.id.token")
    with store.write() as transaction:
        sessions_begun = [sessions.begin(transaction.sessions, who, now(), 1.0) for _ in range(MOST_SESSIONS + 3)]
    with store.read() as transaction:
        remaining = transaction.sessions.of("ann", "")
        assert set(remaining) == {stored.id for stored, _ in sessions_begun[3:]}
        stored = transaction.sessions.get(remaining[-1])
    secret = sessions_begun[-1][1]
    assert stored is not None
    assert stored.groups == ("g",)
    assert secret not in repr(stored)
    assert "an.id.token" not in repr(stored)
    assert sessions.hint(stored, secret) == "an.id.token"
    assert sessions.hint(stored, sessions_begun[0][1]) == "", "whoever has the database has no ID token"
