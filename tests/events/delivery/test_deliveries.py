import json
from pathlib import Path
from typing import Any

import pytest

from signalbook.access.control import AccessControl
from signalbook.engine.engine import Engine
from signalbook.events.delivery.deliveries import Deliveries, sink_policy
from signalbook.events.feed import Head
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import Keyring, SubscriptionStore
from signalbook.settings import SettingError, Settings
from signalbook.storage.store import Store

from .conftest import Place


def deliveries(store: Store, **settings: Any) -> Deliveries:
    chosen = Settings(model="empty", **settings)
    engine = Engine(store, settings=chosen)
    book, control = SubscriptionStore(engine, Keyring(None), most=9), AccessControl(store, chosen)
    return Deliveries(engine, control, book, Head(engine.position), chosen)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deliveries": "yes"}, "deliveries is one of on, off, not 'yes'"),
        ({"sink_consent": "no"}, "sink_consent is one of required, assumed, not 'no'"),
        ({"allow_sinks": ("http://x",)}, "allow_sinks"),
    ],
)
def test_invalid_settings_are_rejected(store: Store, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        deliveries(store, **settings)


def test_the_policy_is_the_operators() -> None:
    """The origin is the name of the registry (D-34)."""
    chosen = sink_policy(Settings(base_url="https://r.example:8443/x", sink_timeout=3.0, sink_folder="/var/sinks"))
    assert (chosen.origin, chosen.timeout, chosen.folder, chosen.ask) == ("r.example", 3.0, "/var/sinks", True)
    assert sink_policy(Settings(sink_consent="assumed")).ask is False
    assert sink_policy(Settings()).origin == "localhost"


def test_server_without_deliveries_reports_it(store: Store) -> None:
    off = deliveries(store, deliveries="off")
    off.start()
    assert off.status() == {"delivers": False}
    off.changed("x")
    off.stop()


def test_file_delivery_continues_after_an_update(place: Place, tmp_path: Path) -> None:
    """A file belongs to one sink at a time: the previous one is closed first. All events are in the file."""
    deliveries = place.deliveries(Settings(model="empty", sink_folder=str(tmp_path)))
    subscription = Subscription(
        id="", protocol="FILE", sink="file:a.jsonl", filters=({"prefix": {"subject": "/dirs/"}},)
    )
    with place.engine.writing() as session:
        subscription_id = place.book.create(session, subscription).subscription.id
    deliveries.start()
    place.stack.callback(deliveries.stop)
    for number in range(3):
        place.write(f"d{number}")
        place.until(lambda number=number: place.state(subscription_id).delivered == number + 1)  # type: ignore[misc]
        place.update(subscription_id, types=("io.xregistry.group.created",)[: number % 2])
        deliveries.changed(subscription_id)
    place.write("e")
    place.until(lambda: place.state(subscription_id).delivered == 4)
    assert place.state(subscription_id).lasterror == ""
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["subject"] for line in lines] == ["/dirs/d0", "/dirs/d1", "/dirs/d2", "/dirs/e"]
