import time
from datetime import UTC, datetime, timedelta

import pytest

from signalbook.engine.engine import Engine, HistoryPruned
from signalbook.events.feed import WAITING_FACTOR, Retention
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import DeliveryState

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(store: Store) -> Engine:
    """A registry with one change on each of ten days."""
    for day in range(10):
        with store.write() as writer:
            writer.outbox.append([{"day": day}], time=START + timedelta(days=day), correlationid=f"c{day}")
    return Engine(store, settings=Settings(model="empty"))


def days(engine: Engine) -> list[int]:
    """Return the days whose changes still exist."""
    try:
        records = engine.read_changes(0, 100)
    except HistoryPruned as gone:
        records = engine.read_changes(gone.position, 100)
    return [record.change["day"] for record in records]


@pytest.mark.parametrize(
    ("retained_days", "today", "expected"), [(30, 10, range(10)), (5, 10, range(5, 10)), (0.5, 10, [9]), (1, 500, [9])]
)
def test_old_changes_are_pruned(engine: Engine, retained_days: float, today: int, expected: list[int]) -> None:
    retention = Retention(engine, days=retained_days, now=lambda: START + timedelta(days=today))
    assert retention.prune() == 10 - len(expected)
    assert days(engine) == list(expected)
    assert retention.prune() == 0


def test_deliveries_are_waited_for_within_reason(engine: Engine) -> None:
    (third,) = [record.position for record in engine.read_changes(0, 100) if record.change["day"] == 3]
    with engine.store.write() as writer:
        writer.subscriptions.put_delivery("slow", DeliveryState(position=third))
        writer.subscriptions.put_delivery("quick", DeliveryState(position=third + 5))
    today = [10]
    retention = Retention(engine, days=1, now=lambda: START + timedelta(days=today[0]))
    today[0] = 4 + WAITING_FACTOR
    retention.prune()
    assert days(engine) == [4, 5, 6, 7, 8, 9]
    today[0] = 6 + WAITING_FACTOR
    retention.prune()
    assert days(engine) == [6, 7, 8, 9]


def test_pruning_runs_in_the_background(engine: Engine) -> None:
    retention = Retention(engine, days=5, now=lambda: START + timedelta(days=10))
    retention.start()
    try:
        deadline = time.monotonic() + 300
        while days(engine) != [5, 6, 7, 8, 9]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        retention.stop()
