from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.engine.engine import HistoryPruned
from signalbook.events.delivery import reader
from signalbook.events.delivery.interest import select
from signalbook.events.delivery.machine import Delivery, EventsRead, Phase
from signalbook.events.delivery.reader import DeliveryReader
from signalbook.events.subscription import Subscription
from signalbook.storage.outbox import Record
from signalbook.storage.subscriptions import DeliveryState

from .conftest import Place

ROOT = "https://r.example"
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class World:
    """An outbox of changes to groups ``a`` and ``b``, and deliveries of one of them or of both."""

    def __init__(self) -> None:
        self.outbox: list[Record] = []
        self.pruned = 0
        self.deliveries: dict[str, Delivery] = {}
        self.reads: list[int] = []
        self.reader = DeliveryReader(self.read_outbox, self.deliveries)
        self.got: dict[str, list[int]] = {}
        self.wanted: dict[str, tuple[str, int]] = {}

    def read_outbox(self, after: int, limit: int) -> Sequence[Record]:
        self.reads.append(after)
        if after < self.pruned:
            raise HistoryPruned(self.pruned)
        return self.outbox[after : after + limit]

    def commit(self, groups: str) -> None:
        self.reader.committed()
        for group in groups:
            change = {"xid": f"/dirs/{group}", "entity": "group", "action": "updated", "changed": []}
            position = len(self.outbox) + 1
            self.outbox.append(Record(position=position, time=NOW, correlationid="c", change=change))

    def add(self, prefix: str, position: int) -> str:
        key = f"s{len(self.wanted)}"
        filters = ({"prefix": {"subject": prefix}},)
        subscription = Subscription(id=key, protocol="FILE", sink="file:a", filters=filters)
        state = DeliveryState(position=position)
        self.deliveries[key] = Delivery(subscription=subscription, state=state, read=position, phase=Phase.READY)
        self.reader.add(key, select(subscription, ROOT), position)
        self.got[key], self.wanted[key] = [], (prefix, position)
        return key

    def read(self) -> bool:
        """Return True if there was something to read."""
        more = False
        for read in (self.reader.read_current, self.reader.read_behind):
            events_read = read()
            more = more or events_read is not None
            for key, events in (events_read or {}).items():
                self.give(key, events)
        return more

    def give(self, key: str, events: EventsRead) -> None:
        delivery = self.deliveries[key]
        assert events.position == self.reader.position(key)
        assert events.events[-1][0] <= events.position
        self.deliveries[key] = replace(delivery, pending=delivery.pending + events.events, read=events.position)
        self.reader.check_room(key)

    def take(self, key: str, count: int) -> None:
        """Let the sink receive some events."""
        delivery = self.deliveries[key]
        self.got[key] += [position for position, _ in delivery.pending[:count]]
        self.deliveries[key] = replace(delivery, pending=delivery.pending[count:])
        self.reader.check_room(key)

    def drop(self, key: str, keep_count: int) -> None:
        """Let the sink fail: most of what is pending is to be read again."""
        delivery = self.deliveries[key]
        if len(delivery.pending) > keep_count:
            last = delivery.pending[keep_count][0] - 1
            self.deliveries[key] = replace(delivery, pending=delivery.pending[:keep_count], read=last)
            self.reader.rewind(key, last)

    def expected(self, key: str) -> list[int]:
        prefix, start = self.wanted[key]
        return [record.position for record in self.outbox[start:] if record.change["xid"].startswith(prefix)]


OPERATIONS = st.one_of(
    st.tuples(st.just("commit"), st.text("ab", min_size=1, max_size=12)),
    st.tuples(st.just("add"), st.tuples(st.sampled_from(["/dirs/", "/dirs/a", "/dirs/b"]), st.integers(0, 60))),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("take"), st.tuples(st.integers(0, 9), st.integers(1, 20))),
    st.tuples(st.just("take"), st.tuples(st.integers(0, 9), st.integers(1, 20))),
    st.tuples(st.just("drop"), st.tuples(st.integers(0, 9), st.integers(0, 4))),
    st.tuples(st.just("remove"), st.integers(0, 9)),
)


@given(st.lists(OPERATIONS, max_size=60))
def test_every_delivery_reads_its_events_once_in_order(operations: list[tuple[str, object]]) -> None:
    """However full some are, whoever drops what, comes and goes; and nobody has more than there is room for."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reader, "WINDOW", 7)
        patched.setattr(reader, "_MIN_LIMIT", 10)
        patched.setattr(reader, "_MAX_LIMIT", 10)
        world = World()
        for operation in operations:
            _apply(world, *operation)
            assert all(len(delivery.pending) <= 10 for delivery in world.deliveries.values())
        while world.read() or any(delivery.pending for delivery in world.deliveries.values()):
            for key in world.deliveries:
                world.take(key, 10)
        for key in world.deliveries:
            assert world.got[key] == world.expected(key)
            assert world.reader.position(key) == max(len(world.outbox), world.wanted[key][1])


def _apply(world: World, name: str, value: object) -> None:
    members = list(world.deliveries)
    match name, value:
        case "commit", str(groups):
            world.commit(groups)
        case "add", (str(prefix), int(position)):
            world.add(prefix, min(position, len(world.outbox)))
        case "read", _:
            world.read()
        case "take", (int(which), int(count)) if members:
            world.take(members[which % len(members)], count)
        case "drop", (int(which), int(keep_count)) if members:
            world.drop(members[which % len(members)], keep_count)
        case "remove", int(which) if members:
            key = members[which % len(members)]
            world.reader.remove(key)
            del world.deliveries[key]


def test_current_deliveries_share_a_read() -> None:
    world = World()
    for _ in range(10):
        world.add("/dirs/a", 0)
    world.commit("ab")
    while world.read():
        pass
    world.reads.clear()
    world.commit("ab")
    while world.read():
        pass
    assert world.reads == [2, 4]
    assert all(len(delivery.pending) == 2 for delivery in world.deliveries.values())


def test_a_dead_sink_is_not_read_for() -> None:
    world = World()
    dead = world.add("/dirs/", 0)
    world.deliveries[dead] = replace(world.deliveries[dead], phase=Phase.WAITING)
    world.commit("ab")
    assert not world.read()
    world.deliveries[dead] = replace(world.deliveries[dead], phase=Phase.IDLE)
    assert not world.read()
    world.reader.check_room(dead)
    assert world.read()
    assert len(world.deliveries[dead].pending) == 2


def test_pruned_events_are_skipped() -> None:
    world = World()
    world.commit("aaaa")
    late, current = world.add("/dirs/", 0), world.add("/dirs/", 4)
    world.pruned = 3
    with pytest.raises(HistoryPruned):
        world.read()
    assert world.reader.skip(3) == [late]
    while world.read():
        pass
    assert [position for position, _ in world.deliveries[late].pending] == [4]
    assert world.deliveries[current].pending == ()


def test_late_sink_continues_after_pruned_events(place: Place) -> None:
    """A sink that was away for too long goes on with what is left."""
    hook = place.hook()
    late = place.subscribe(hook)
    place.write("d0", "d1", "d2")
    place.engine.prune(before=datetime.max.replace(tzinfo=UTC), upto=place.engine.position())
    place.dispatcher()
    hook.until(lambda: hook.subjects == ["/dirs/d2"])
    place.until(lambda: place.state(late).position == place.engine.position())
