from dataclasses import replace

from signalbook.storage.store import Store
from signalbook.storage.subscriptions import SUSPENDED, DeliveryState, StoredConsent, StoredSubscription

PLAIN = StoredSubscription(id="1", revision=3, protocol="HTTP", sink="https://a.example/")
WHOLE = replace(
    PLAIN,
    source="https://r.example/",
    root="https://r.example",
    types=("a", "b"),
    filters=({"exact": {"type": "é\0"}},),
    config={"after": 7},
    protocolsettings={"method": "POST"},
    credential={"credentialtype": "PLAIN", "members": {"identifier": "me"}},
    sealed="k.secret",
)


def test_stored_subscriptions_are_unchanged(store: Store) -> None:
    with store.write() as writer:
        writer.subscriptions.put(WHOLE)
        writer.subscriptions.put(replace(WHOLE, id="2"))
        writer.subscriptions.put(replace(PLAIN, id="2"))
        assert writer.subscriptions.get("1") == WHOLE
    with store.read() as reader:
        assert reader.subscriptions.page() == [WHOLE, replace(PLAIN, id="2")]
        assert (reader.subscriptions.get("3"), reader.outbox.position()) == (None, 0)


def test_subscriptions_are_paginated(store: Store) -> None:
    states = {name: DeliveryState(position=int(name)) for name in "1234"}
    with store.write() as writer:
        for name, state in states.items():
            writer.subscriptions.put(replace(PLAIN, id=name))
            writer.subscriptions.put_delivery(name, state)
    with store.read() as reader:
        stored = reader.subscriptions
        assert [subscription.id for subscription in stored.page(limit=2)] == ["1", "2"]
        assert [subscription.id for subscription in stored.page("2", 5)] == ["3", "4"]
        assert stored.deliveries("1", "3") == {name: states[name] for name in "23"}


def test_totals(store: Store) -> None:
    with store.write() as writer:
        assert (writer.subscriptions.revision(), writer.subscriptions.count()) == (0, 0)
        for number in (1, 2):
            writer.subscriptions.put_totals(revision=number + 5, count=number)
    with store.read() as reader:
        assert (reader.subscriptions.revision(), reader.subscriptions.count()) == (7, 2)


def test_removal_includes_delivery_and_consent(store: Store) -> None:
    with store.write() as writer:
        for name, position in (("1", 9), ("2", 4)):
            writer.subscriptions.put(replace(PLAIN, id=name))
            writer.subscriptions.put_delivery(name, DeliveryState(position=position))
            writer.subscriptions.put_consent(name, StoredConsent(sink=PLAIN.sink, rate=None))
        assert writer.subscriptions.least_position() == 4
        writer.subscriptions.remove("2")
    with store.read() as reader:
        stored = reader.subscriptions
        actual = [(stored.get(name) is None, stored.delivery(name) is None, stored.consent(name)) for name in "12"]
        assert actual == [(False, False, StoredConsent(sink=PLAIN.sink, rate=None)), (True, True, None)]
        assert stored.least_position() == 9
        assert stored.deliveries("", "9") == {"1": DeliveryState(position=9)}


def test_a_state_is_replaced(store: Store) -> None:
    """An error may hold what PostgreSQL's text cannot."""
    state = DeliveryState(position=2**40, state=SUSPENDED, delivered=1, rejected=2, failures=3, lasterror="é\0")
    with store.write() as writer:
        assert writer.subscriptions.least_position() is None
        writer.subscriptions.put_delivery("1", DeliveryState(position=1))
        writer.subscriptions.put_delivery("1", state)
        writer.subscriptions.put_consent("1", StoredConsent(sink="a", rate=3))
        writer.subscriptions.put_consent("1", StoredConsent(sink="b", rate=None))
    with store.read() as reader:
        assert reader.subscriptions.delivery("1") == replace(state, lasterror="é\ufffd")
        assert reader.subscriptions.consent("1") == StoredConsent(sink="b", rate=None)
