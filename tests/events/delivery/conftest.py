"""A registry with a relay, and the subscriptions of a test."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from signalbook.access.control import AccessControl
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, ConfigCommand, Method
from signalbook.events.backoff import Backoff
from signalbook.events.delivery import dispatcher
from signalbook.events.delivery.deliveries import Deliveries, SinkOpener
from signalbook.events.delivery.dispatcher import Dispatcher
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.feed import Head
from signalbook.events.sinks.base import SinkPolicy
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import Keyring, SubscriptionStore
from signalbook.fetching import AllowList
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import DeliveryState
from signalbook.values import JSONObject
from signalbook.xid import Xid

from ..hooks import DEADLINE, Hook, serving

ROOT = "https://registry.example.com"
MODEL: JSONObject = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}}
QUICK = Backoff(first=0.02, longest=0.1)


class Place:
    """A registry, its subscriptions and its relays."""

    def __init__(self, store: Store) -> None:
        self.engine = Engine(store, settings=Settings(model="empty"))
        self.stack = ExitStack()
        self.book = SubscriptionStore(self.engine, Keyring(None), most=1000)
        self.allowed: list[str] = []
        with self.engine.writing() as session:
            session.execute(ConfigCommand(name="modelsource", method=Method.PUT, body=MODEL))

    def hook(self, hook: Hook | None = None) -> Hook:
        """A sink that is served, and may be delivered to."""
        served = self.stack.enter_context(serving(hook or Hook()))
        self.allowed.append(served.place)
        return served

    def dispatcher(self, *, ask: bool = True, timeout: float = DEADLINE, retries: Backoff = QUICK) -> Dispatcher:
        """A relay that runs, over the sinks so far; it delivers for as long, however little time it gets meanwhile."""
        policy = SinkPolicy(allow=AllowList(self.allowed), origin="registry.example.com", ask=ask, timeout=timeout)
        self.opener = SinkOpener(self.engine, policy, f"{ROOT}/subscriptions/{{id}}/consent")
        head = Head(self.engine.position)
        store = self.engine.store
        rights = DeliveryRights(store, AccessControl(store, Settings()))
        new_dispatcher = Dispatcher(
            self.engine,
            self.book,
            head,
            root=ROOT,
            open=self.opener.open,
            backoff=retries,
            rights=rights,
            lease=DEADLINE,
        )
        new_dispatcher.start()
        self.stack.callback(new_dispatcher.stop)
        return new_dispatcher

    def deliveries(self, settings: Settings) -> Deliveries:
        control = AccessControl(self.engine.store, settings)
        return Deliveries(self.engine, control, self.book, Head(self.engine.position), settings)

    def subscribe(self, hook: Hook, after: int | None = None, **more: Any) -> str:
        """The id of a subscription of all group events to ``hook``, unless ``more`` says otherwise."""
        attributes = {"filters": ({"prefix": {"subject": "/dirs/"}},), **more}
        config = {} if after is None else {"after": str(after)}
        subscription = Subscription(id="", protocol="HTTP", sink=hook.url, config=config, **attributes)
        with self.engine.writing() as session:
            shown_subscription = self.book.create(session, subscription)
        return shown_subscription.subscription.id

    def update(self, id: str, **more: Any) -> None:
        """Change members of a subscription."""
        with self.engine.writing() as session:
            self.book.update(session, id, lambda stored: replace(stored, **more) if stored else _none(), lambda _: None)

    def remove(self, id: str) -> None:
        """Delete a subscription."""
        with self.engine.writing() as session:
            self.book.remove(session, id, lambda _: None)

    def write(self, *names: str) -> None:
        """Write groups, one commit each."""
        for name in names:
            with self.engine.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(f"/dirs/{name}"), body={}))

    def state(self, id: str) -> DeliveryState:
        """Return the state stored last."""
        return self.states()[id]

    def states(self) -> dict[str, DeliveryState]:
        """Return the states of all subscriptions."""
        with self.engine.store.read() as reader:
            return reader.subscriptions.deliveries("", "g")

    def until(self, is_done: Callable[[], bool]) -> None:
        """Wait for something that nobody tells of."""
        end = time.monotonic() + DEADLINE
        pause = threading.Event()
        while not is_done():
            assert time.monotonic() < end
            pause.wait(0.02)


def _none() -> Subscription:
    raise AssertionError("there is no such subscription")


@pytest.fixture
def place(store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    """A registry on each database, everything ended at the end; what is under way then has the time that it takes.

    An unexpected error is a failure, although deliveries continue after it.
    """
    monkeypatch.setattr(dispatcher, "_FINISH_SECONDS", float(DEADLINE))
    new_place = Place(store)
    with new_place.stack:
        yield new_place
    records = (*caplog.get_records("call"), *caplog.get_records("teardown"))
    assert [record.exc_text for record in records if record.exc_info] == []
