from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from signalbook import values
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.events.subscription import Credential, Subscription, SubscriptionError, with_known_secrets
from signalbook.events.subscriptions.store import (
    Keyring,
    Keys,
    ShownSubscription,
    SubscriptionStore,
    TooManySubscriptions,
)
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import ACTIVE, SUSPENDED, DeliveryState, StoredSubscription
from signalbook.xid import ROOT

EVIL = "https://evil.example"
PLAIN = Credential(credentialtype="PLAIN", members={"identifier": "me"}, secrets={"secret": "correct horse"})
WANTED = Subscription(
    id="",
    protocol="HTTP",
    sink="https://sink.example/hook",
    source="http://r.example/",
    types=("a", "b"),
    filters=({"prefix": {"subject": "/dirs"}},),
    protocolsettings={"headers": {"X": "y"}},
    credential=PLAIN,
    root="http://r.example",
)


class Ring(Keyring):
    """Keys that a test changes."""

    def __init__(self, *keys: bytes) -> None:
        super().__init__(None)
        self.now = Keys(keys)

    def keys(self) -> Keys:
        return self.now


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, settings=Settings(model="empty"))


@pytest.fixture
def ring() -> Ring:
    return Ring(b"k" * 32)


@pytest.fixture
def book(engine: Engine, ring: Ring) -> SubscriptionStore:
    return SubscriptionStore(engine, ring, most=3)


def fine(_: ShownSubscription) -> None:
    """Whatever there is is what was expected."""


def create(engine: Engine, book: SubscriptionStore, subscription: Subscription = WANTED) -> ShownSubscription:
    with engine.writing() as session:
        return book.create(session, subscription)


def update(
    engine: Engine, book: SubscriptionStore, id: str, change: Callable[[Subscription], Subscription]
) -> ShownSubscription | None:
    def complete(stored_: Subscription | None) -> Subscription:
        assert stored_ is not None
        return change(stored_)

    with engine.writing() as session:
        return book.update(session, id, complete, fine)


def stored(engine: Engine) -> list[StoredSubscription]:
    with engine.store.read() as reader:
        return reader.subscriptions.page()


def states(engine: Engine) -> dict[str, DeliveryState]:
    with engine.store.read() as reader:
        return reader.subscriptions.deliveries("", "g")


def put_state(engine: Engine, id: str, state: DeliveryState) -> None:
    with engine.store.write() as writer:
        writer.subscriptions.put_delivery(id, state)


def test_only_deliveries_see_the_secrets(engine: Engine, book: SubscriptionStore) -> None:
    """D-28, D-31"""
    created = create(engine, book).subscription
    assert book.all() == {created.id: replace(WANTED, id=created.id, revision=1)}
    entry = book.get(created.id)
    assert entry is not None
    assert entry.subscription == created
    assert created.credential == Credential(credentialtype="PLAIN", members={"identifier": "me"})
    assert "horse" not in repr((book.all(), book.get(created.id), stored(engine)))


def test_revision_counts_each_change(engine: Engine, book: SubscriptionStore) -> None:
    seen = [book.revision()]
    created = create(engine, book).subscription
    seen.append(book.revision())
    update(engine, book, created.id, lambda current: replace(current, types=()))
    seen.append(book.revision())
    with engine.writing() as session:
        assert book.remove(session, created.id, fine) is not None
    seen.append(book.revision())
    assert seen == [0, 1, 2, 3]


def test_start_is_now_or_the_requested_position(engine: Engine, book: SubscriptionStore) -> None:
    with engine.writing() as session:
        session.execute(Command(target=ROOT, method=Method.PATCH, body={"name": "r"}, base_url="http://r.example"))
    now = engine.position()
    assert now > 0
    assert create(engine, book).state == DeliveryState(position=now)
    assert create(engine, book, replace(WANTED, config={"after": 0})).state == DeliveryState(position=0)
    with pytest.raises(SubscriptionError, match=rf"/config/after: .* behind the position 0, up to {now}"):
        create(engine, book, replace(WANTED, config={"after": now + 1}))


def test_start_before_the_retained_events_is_rejected(engine: Engine, book: SubscriptionStore) -> None:
    for name in "ab":
        with engine.writing() as session:
            session.execute(Command(target=ROOT, method=Method.PATCH, body={"name": name}, base_url="http://r.example"))
    assert engine.prune(before=values.now(), upto=engine.position()) == 1
    with pytest.raises(
        SubscriptionError, match="/config/after: the events that are kept are behind the position 1, up"
    ):
        create(engine, book, replace(WANTED, config={"after": 0}))
    assert create(engine, book, replace(WANTED, config={"after": 1})).state.position == 1


def test_number_of_subscriptions_is_limited(engine: Engine, book: SubscriptionStore) -> None:
    created = [create(engine, book) for _ in range(3)]
    with pytest.raises(TooManySubscriptions, match="max_subscriptions"):
        create(engine, book)
    with engine.writing() as session:
        book.remove(session, created[0].subscription.id, fine)
    create(engine, book)


def test_an_update_resumes(engine: Engine, book: SubscriptionStore) -> None:
    created = create(engine, book).subscription
    state = DeliveryState(position=7, state=SUSPENDED, failures=9, failing="2026-01-01T00:00:00Z", delivered=3)
    put_state(engine, created.id, state)
    updated = update(engine, book, created.id, lambda current: current)
    assert updated is not None
    assert updated.state == DeliveryState(position=7, state=ACTIVE, delivered=3)


def test_only_a_changed_start_resets_the_position(engine: Engine, book: SubscriptionStore) -> None:
    """The representation from GET can be sent back without redelivering all events."""
    created = create(engine, book).subscription
    put_state(engine, created.id, DeliveryState(position=7))
    same = update(engine, book, created.id, lambda current: current)
    back = update(engine, book, created.id, lambda current: replace(current, config={"after": 0}))
    put_state(engine, created.id, DeliveryState(position=9))
    again = update(engine, book, created.id, lambda current: current)
    none = update(engine, book, created.id, lambda current: replace(current, config={}))
    assert [entry.state.position for entry in (same, back, again, none) if entry] == [7, 0, 9, 9]


def test_removal_deletes_everything(engine: Engine, book: SubscriptionStore) -> None:
    created = create(engine, book).subscription
    with engine.writing() as session:
        removed = book.remove(session, created.id, fine)
        assert removed is not None
        assert book.remove(session, created.id, fine) is None
    assert (book.get(created.id), stored(engine), states(engine)) == (None, [], {})
    assert update(engine, book, created.id, lambda current: current) is None


def test_a_refused_write_leaves_everything(engine: Engine, book: SubscriptionStore) -> None:
    created = create(engine, book).subscription

    def refuse(_: ShownSubscription) -> None:
        raise KeyError

    with pytest.raises(KeyError), engine.writing() as session:
        book.remove(session, created.id, refuse)
    with pytest.raises(KeyError), engine.writing() as session:
        book.update(session, created.id, lambda current: current or WANTED, refuse)
    assert (len(book.all()), book.revision()) == (1, 1)


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({"types": ("c",)}, True),
        ({"protocolsettings": {"method": "PUT"}}, True),
        ({"sink": "https://evil.example/"}, False),
        ({"protocol": "KAFKA"}, False),
        ({"credential": None}, False),
        ({"credential": Credential(credentialtype="ACCESSTOKEN")}, False),
        ({"credential": Credential(credentialtype="PLAIN", members={"refreshtokenendpoint": EVIL})}, False),
    ],
)
def test_secrets_stay_where_they_were_meant_to_go(
    engine: Engine, book: SubscriptionStore, change: dict[str, object], is_kept: bool
) -> None:
    """An update may omit secrets, but cannot redirect them (D-31)."""
    created = create(engine, book).subscription
    update(engine, book, created.id, lambda current: with_known_secrets(replace(created, **change), current))  # type: ignore[arg-type]
    now = book.all()[created.id].credential
    assert (now is not None and now.secrets == PLAIN.secrets) is is_kept


def test_a_lost_key_is_reported_and_nothing_is_sent(engine: Engine, book: SubscriptionStore, ring: Ring) -> None:
    created = create(engine, book).subscription
    ring.now = Keys([b"o" * 32])
    lost = book.all()[created.id]
    assert "not in the key file" in lost.fault
    assert lost.credential is not None
    assert not lost.credential.secrets


def test_a_sink_changed_in_the_database_gets_no_secret(engine: Engine, book: SubscriptionStore) -> None:
    created = create(engine, book).subscription
    (row,) = stored(engine)
    with engine.store.write() as writer:
        writer.subscriptions.put(replace(row, sink="https://evil.example/"))
    assert "changed by someone else" in book.all()[created.id].fault


def test_rotation(engine: Engine, book: SubscriptionStore, ring: Ring) -> None:
    created = create(engine, book).subscription
    create(engine, book, replace(WANTED, credential=None, protocolsettings={}))
    ring.now = Keys([b"n" * 32, b"k" * 32])
    for expected in (1, 0):
        with engine.writing() as session:
            assert book.renew(session) == expected
    ring.now = Keys([b"n" * 32])
    assert book.all()[created.id].credential == PLAIN


def test_no_file_has_a_secret(tmp_path: Path) -> None:
    """The files are those of the database, including temporary ones, and that of the key (D-31)."""
    settings = Settings(db=f"sqlite:///{tmp_path / 'r.db'}", model="empty")
    store = open_store(settings.db)
    engine = Engine(store, settings=settings)
    book = SubscriptionStore.of(engine, settings)
    created = create(engine, book).subscription
    update(engine, book, created.id, lambda current: replace(current, types=()))
    for _ in range(2):
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert {"r.db", "r.db.key"} <= set(files)
        assert any(created.id.encode() in content for content in files.values())
        assert [name for name, content in files.items() if b"horse" in content] == []
        store.close()
