from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from signalbook.engine.engine import Engine
from signalbook.events.subscription import Credential, Subscription, SubscriptionError
from signalbook.events.subscriptions.documents import InvalidSubscription, complete, describe
from signalbook.events.subscriptions.masking import extract_secrets, mask, mask_sink, reveal, with_known_values
from signalbook.events.subscriptions.store import Keyring, Keys, ShownSubscription, SubscriptionStore
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import StoredConsent, StoredSubscription

SINK = "https://sink.example/hook?code=horse1&page=2"
SETTINGS = {"headers": {"X-Key": "horse2", "A": "b"}, "rate": 5}
WANTED = Subscription(id="", protocol="HTTP", sink=SINK, protocolsettings=SETTINGS)
SHOWN = "https://sink.example/hook?code=***&page=2"


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (SINK, SHOWN),
        ("https://h/a?access_token=x&API-Key=y&sig=z#f", "https://h/a?access_token=***&API-Key=***&sig=***#f"),
        ("https://h/token=x?a=token", "https://h/token=x?a=token"),
        ("https://h/?token=&b=1", "https://h/?token=&b=1"),
        ("https://h/?token=a=b", "https://h/?token=***"),
        ("file:events", "file:events"),
    ],
)
def test_parameters_of_urls(sink: str, expected: str) -> None:
    assert mask_sink(sink) == expected
    assert mask_sink(expected) == expected


def test_masked_subscription_hides_secrets() -> None:
    seen, secrets = mask(WANTED), {**extract_secrets(WANTED), "secret": "s"}
    assert seen.sink == SHOWN
    assert seen.protocolsettings == {"headers": {"X-Key": "***", "A": "***"}, "rate": 5}
    assert reveal(seen, secrets) == (WANTED, {"secret": "s"})
    assert "horse" not in repr((WANTED, seen))


def test_settings_of_other_protocols_stay() -> None:
    other = replace(WANTED, protocol="KAFKA", sink="kafka://h:1")
    assert mask(other) == other
    assert extract_secrets(other) == {}


def accept(_: Subscription) -> None:
    """Every protocol takes it."""


def test_masked_values_are_restored() -> None:
    changed = replace(mask(WANTED), types=("t",))
    assert complete(changed, WANTED, check=accept) == replace(WANTED, types=("t",))
    changed_header = replace(changed, protocolsettings={"headers": {"X-Key": "new", "A": "***"}})
    assert complete(changed_header, WANTED, check=accept).protocolsettings == {"headers": {"X-Key": "new", "A": "b"}}


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, sink="https://evil.example/hook?code=***&page=2"),
        lambda one: replace(one, sink="https://sink.example/other?code=***&page=2"),
        lambda one: replace(one, sink="https://sink.example/hook?page=2"),
        lambda one: replace(one, protocolsettings={"headers": {"Another": "***"}}),
    ],
)
def test_masked_values_are_not_moved_to_another_sink(change: Callable[[Subscription], Subscription]) -> None:
    """A caller that can update a subscription must not be able to redirect its secrets."""
    changed = change(mask(WANTED))
    assert "horse" not in str(asdict(with_known_values(replace(changed, sink=changed.sink + "&x=1"), WANTED)))
    with pytest.raises(InvalidSubscription, match=r"\*\*\* stands for a value that is not shown"):
        complete(changed, WANTED, check=accept)
    with pytest.raises(InvalidSubscription, match=r"/sink: \*\*\* stands"):
        complete(mask(WANTED), None, check=accept)


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, settings=Settings(model="empty"))


class Ring(Keyring):
    def keys(self) -> Keys:
        return Keys([b"k" * 32])


def rows(engine: Engine) -> list[StoredSubscription]:
    with engine.store.read() as reader:
        return reader.subscriptions.page()


def test_store_seals_secrets(engine: Engine) -> None:
    book = SubscriptionStore(engine, Ring(None), most=3)
    credential = Credential(credentialtype="SIGNATURE", secrets={"signingsecret": "horse3"})
    for subscription in (WANTED, replace(WANTED, credential=credential)):
        with engine.writing() as session:
            stored = book.create(session, subscription).subscription
        assert "horse" not in str(asdict(stored)) + str(describe(stored))
        assert book.all()[stored.id] == replace(subscription, id=stored.id, revision=stored.revision)
    assert "horse" not in str([asdict(row) for row in rows(engine)])


def test_secrets_require_a_key(engine: Engine) -> None:
    """The same holds for the secrets of credentials."""
    book = SubscriptionStore(engine, Keyring(None, makes=False), most=3)
    for subscription, where in ((WANTED, "/sink"), (replace(WANTED, sink="https://h/"), "/protocolsettings/headers")):
        with pytest.raises(SubscriptionError, match=rf"^{where}: this server has no key"), engine.writing() as session:
            book.create(session, subscription)


def test_secrets_stored_in_clear_are_sealed_later(engine: Engine) -> None:
    """Earlier versions stored these secrets in clear."""
    old = "0" * 28
    row = StoredSubscription(id=old, revision=1, protocol="HTTP", sink=SINK, protocolsettings=WANTED.protocolsettings)
    with engine.store.write() as writer:
        writer.subscriptions.put(row)
        writer.subscriptions.put_consent(old, StoredConsent(sink=SINK, rate=7))
    book = SubscriptionStore(engine, Ring(None), most=3)
    expected_subscription = replace(WANTED, id=old, revision=1)
    assert book.all()[old] == expected_subscription
    shown_subscription = book.get(old)
    assert isinstance(shown_subscription, ShownSubscription)
    assert "horse" not in str(asdict(shown_subscription.subscription))
    keyless = SubscriptionStore(engine, Keyring(None, makes=False), most=3)
    for store, expected in ((keyless, 0), (book, 1), (book, 0)):
        with engine.writing() as session:
            assert store.renew(session) == expected
        assert book.all()[old] == expected_subscription
    assert "horse" not in str(asdict(rows(engine)[0]))
    with engine.store.read() as reader:
        assert reader.subscriptions.consent(old) == StoredConsent(sink=SHOWN, rate=7)
