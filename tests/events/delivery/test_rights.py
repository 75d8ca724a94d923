from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbook import values
from signalbook.access import tokens
from signalbook.access.base import ANONYMOUS, Identity
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.policy import read_policy
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.subscription import Subscription
from signalbook.settings import Settings
from signalbook.storage.outbox import Record
from signalbook.storage.store import Store

from ..hooks import Hook, Says
from .conftest import Place

ROOT_RULE = {"who": ["subject:root"], "role": "administrator"}
ANN = Identity(subject="ann")


def rule(who: str, *allow: str, on: str = "/") -> dict[str, Any]:
    return {"who": [who], "allow": list(allow), "on": [on]}


def put_policy(store: Store, *rules: dict[str, Any]) -> None:
    with store.write() as transaction:
        AccessControl(store, Settings()).put(transaction, read_policy({"rules": [ROOT_RULE, *rules]}), by=UNRESTRICTED)


def change(xid: str, entity: str = "group") -> Record:
    change_json = {"xid": xid, "entity": entity, "action": "updated", "changed": []}
    return Record(position=1, time=datetime(2030, 1, 1, tzinfo=UTC), correlationid="c", change=change_json)


@pytest.fixture
def rights(store: Store) -> DeliveryRights:
    return DeliveryRights(store, AccessControl(store, Settings()))


def test_everything_is_allowed_without_a_policy(rights: DeliveryRights) -> None:
    rights.renew()
    assert rights.allow(None, change("/dirs/a"))
    assert rights.allow(ANN, change("/dirs/a"))


def test_subscribing_and_reading_is_needed(store: Store, rights: DeliveryRights) -> None:
    put_policy(
        store,
        rule("subject:ann", "read", "subscribe", on="/dirs/a"),
        rule("subject:ann", "read", on="/dirs/b"),
        rule("subject:ann", "subscribe", on="/dirs/c"),
        rule("anyone", "read", on="/dirs/d"),
    )
    rights.renew()
    allowed = [xid for xid in ("/dirs/a", "/dirs/b", "/dirs/c", "/dirs/d") if rights.allow(ANN, change(xid))]
    assert allowed == ["/dirs/a"]
    assert rights.allow(ANN, change("/dirs/a/files/f/versions/1", "version"))
    assert not rights.allow(ANN, change("/", "registry"))
    assert not rights.allow(ANN, change("/model", "model"))
    assert not rights.allow(ANONYMOUS, change("/dirs/d"))
    assert [xid for xid in ("/dirs/a", "/dirs/d") if rights.allow(None, change(xid))] == ["/dirs/d"]
    assert rights.allow(None, change("/model", "model"))


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_ended_tokens_get_nothing(
    store: Store, rights: DeliveryRights, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_policy(store, rule("subject:bot", "read", "subscribe"))
    request = tokens.TokenRequest(subject="bot", expires=values.now() + timedelta(days=1))
    with store.write() as transaction:
        token, _ = tokens.create(transaction.tokens, request, values.now())
    owner = tokens.identity(token)
    rights.renew()
    before = rights.key(owner)
    assert rights.allow(owner, change("/dirs/a"))
    narrowed = replace(owner, scopes=frozenset({"read"}))
    assert not rights.allow(narrowed, change("/dirs/a"))
    if end == "revoked":
        with store.write() as transaction:
            transaction.tokens.remove(token.id)
    else:
        later = values.now() + timedelta(days=2)
        monkeypatch.setattr("signalbook.events.delivery.rights.values.now", lambda: later)
    rights.renew()
    assert not rights.allow(owner, change("/dirs/a"))
    assert rights.key(owner) != before


@contextmanager
def delivering(place: Place, hook: Hook) -> Iterator[None]:
    settings = Settings(model="empty", allow_sinks=(hook.place,), sink_consent="assumed")
    deliveries = place.deliveries(settings)
    deliveries.start()
    try:
        yield
    finally:
        deliveries.stop()


def subscribe(place: Place, hook: Hook, by: Access) -> str:
    subscription = Subscription(id="", protocol="HTTP", sink=hook.url, filters=({"prefix": {"subject": "/dirs/"}},))
    with place.engine.writing() as session:
        return place.book.create(session, subscription, by=by).subscription.id


def access(*rules: dict[str, Any]) -> Access:
    return read_policy({"rules": list(rules)}).access(ANN)


def test_delayed_events_are_checked_against_the_current_policy(place: Place) -> None:
    """A sink that is away gets, when it is back, what its owner may have then."""
    hook = place.hook(Hook(always=Says(503)))
    rules = [rule("subject:ann", "read", "subscribe", on=f"/dirs/{name}*") for name in "ab"]
    put_policy(place.engine.store, *rules)
    subscribe(place, hook, access(*rules))
    with delivering(place, hook):
        place.write("a1", "b1", "c1")
        hook.until(lambda: hook.posts != [])
        put_policy(place.engine.store, rules[1])
        failed = len(hook.posts)
        place.write("a2", "b2")
        hook.until(lambda: "/dirs/b1" in hook.subjects[failed:] or len(hook.posts) > failed + 1)
        hook.always = Says()
        hook.until(_got(hook, "/dirs/b2"))
    # The attempt that failed was under the policy of that time.
    assert set(hook.subjects[:failed]) <= {"/dirs/a1", "/dirs/b1"}
    assert not {"/dirs/a2", "/dirs/c1"} & set(hook.subjects)
    assert hook.subjects[-2:] == ["/dirs/b1", "/dirs/b2"]


def test_subscription_older_than_the_policy_gets_public_events(place: Place) -> None:
    hook = place.hook()
    subscribe(place, hook, UNRESTRICTED)
    with delivering(place, hook):
        place.write("a1")
        hook.until(_got(hook, "/dirs/a1"))
        put_policy(place.engine.store, rule("anyone", "read", on="/dirs/b*"))
        place.write("a2", "b2")
        hook.until(_got(hook, "/dirs/b2"))
    assert hook.subjects == ["/dirs/a1", "/dirs/b2"]


def _got(hook: Hook, subject: str) -> Callable[[], bool]:
    return lambda: subject in hook.subjects
