"""A registry with a relay, and the subscriptions of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from signalbook.engine.commands import Command, ConfigCommand, Method
from signalbook.engine.engine import Engine
from signalbook.events.delivery.opening import Opener
from signalbook.events.delivery.progress import Retries
from signalbook.events.delivery.relay import Relay
from signalbook.events.delivery.state import State, name
from signalbook.events.head import Head
from signalbook.events.sinks.base import Policy
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.fetching import AllowList
from signalbook.settings import Settings
from signalbook.storage.base import Store
from signalbook.values import JSONObject
from signalbook.xid import Xid

from ..hooks import DEADLINE, Hook, serving

ROOT = "https://registry.example.com"
MODEL: JSONObject = {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}}
QUICK = Retries(first=0.02, longest=0.1)


class Book:
    """Subscriptions as notes in the store, which every server on it sees."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.known: dict[str, Subscription] = {}
        self._revision = 0

    def revision(self) -> Hashable:
        return self._revision

    def all(self) -> Mapping[str, Subscription]:
        return dict(self.known)

    def put(self, subscription: Subscription) -> None:
        """Create or replace one."""
        self._engine.keep({f"subscriptions/{subscription.id}": {}})
        self.known[subscription.id] = subscription
        self._revision += 1

    def delete(self, id: str) -> None:
        """Remove one."""
        self._engine.keep({f"subscriptions/{id}": None, name(id): None})
        del self.known[id]
        self._revision += 1


class Place:
    """A registry, its subscriptions and its relays."""

    def __init__(self, store: Store) -> None:
        self.engine = Engine(store, settings=Settings(model="empty"))
        self.stack = ExitStack()
        self.book = Book(self.engine)
        self.allowed: list[str] = []
        with self.engine.writing() as session:
            session.execute(ConfigCommand(name="modelsource", method=Method.PUT, body=MODEL))

    def hook(self, hook: Hook | None = None) -> Hook:
        """A sink that is served, and may be delivered to."""
        served = self.stack.enter_context(serving(hook or Hook()))
        self.allowed.append(served.place)
        return served

    def relay(self, *, ask: bool = True, timeout: float = 30.0, retries: Retries = QUICK, lease: float = 12.0) -> Relay:
        """A relay that runs, over the sinks so far."""
        policy = Policy(allow=AllowList(self.allowed), origin="registry.example.com", ask=ask, timeout=timeout)
        opener = Opener(self.engine, policy, f"{ROOT}/subscriptions/{{id}}/consent")
        head = Head(self.engine.position)
        relay = Relay(self.engine, self.book, head, root=ROOT, open=opener.open, retries=retries, lease=lease)
        relay.start()
        self.stack.callback(relay.stop)
        return relay

    def subscribe(self, id: str, hook: Hook, **more: Any) -> Subscription:
        """A subscription of all group events to ``hook``, unless ``more`` says otherwise."""
        filters = more.pop("filters", ({"prefix": {"subject": "/dirs/"}},))
        made = Subscription(id=id, protocol="HTTP", sink=hook.url, filters=filters, **more)
        self.engine.keep({name(id): State(position=self.engine.position()).to_json()})
        self.book.put(made)
        return made

    def write(self, *ids: str) -> None:
        """Create groups, one commit each."""
        for id in ids:
            with self.engine.writing() as session:
                session.execute(Command(method=Method.PUT, target=Xid.parse(f"/dirs/{id}"), body={}))

    def state(self, id: str) -> State:
        """As it was kept last."""
        return State.from_json(self.engine.kept(name(id)))

    def until(self, done: Callable[[], bool]) -> None:
        """Wait for something that nobody tells of."""
        end = time.monotonic() + DEADLINE
        pause = threading.Event()
        while not done():
            assert time.monotonic() < end
            pause.wait(0.02)


@pytest.fixture
def place(store: Store) -> Iterator[Place]:
    """A registry on each database, everything ended at the end."""
    made = Place(store)
    with made.stack:
        yield made
