"""The outbox as a history that has an end at both sides."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from signalbook.engine.engine import PRUNED_AT_ONCE, Engine, HistoryPruned
from signalbook.settings import Settings
from signalbook.storage.base import Store

LAST = 2**63 - 1
START = datetime(2030, 1, 1, tzinfo=UTC)


def told(store: Store, count: int, *, day: int = 0) -> list[int]:
    """Add changes of one day to the outbox; their positions."""
    with store.write() as writer:
        writer.outbox.append(
            [{"n": n} for n in range(count)], time=START + timedelta(days=day), correlationid=f"c{day}"
        )
    with store.read() as reader:
        return [record.position for record in reader.outbox.records(limit=10_000)][-count:]


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, settings=Settings(model="empty"))


def test_what_is_old_is_forgotten(engine: Engine, store: Store) -> None:
    first, second = told(store, 2, day=0), told(store, 2, day=1)
    assert engine.prune(before=START, upto=LAST) == 0
    assert engine.prune(before=START + timedelta(days=1), upto=LAST) == 2
    assert [record.position for record in engine.outbox(first[1], 10)] == second
    assert engine.prune(before=START + timedelta(days=1), upto=LAST) == 0


def test_the_last_change_stays(engine: Engine, store: Store) -> None:
    positions = told(store, 3)
    assert engine.prune(before=START + timedelta(days=9), upto=LAST) == 2
    assert (engine.position(), [r.position for r in engine.outbox(positions[1], 10)]) == (positions[2], positions[2:])


def test_what_is_waited_for_stays(engine: Engine, store: Store) -> None:
    positions = told(store, 5)
    assert engine.prune(before=START + timedelta(days=9), upto=positions[1]) == 2
    assert len(engine.outbox(positions[1], 10)) == 3


def test_one_transaction_forgets_so_many(engine: Engine, store: Store) -> None:
    told(store, PRUNED_AT_ONCE + 10)
    assert engine.prune(before=START + timedelta(days=9), upto=LAST) == PRUNED_AT_ONCE
    assert engine.prune(before=START + timedelta(days=9), upto=LAST) == 9


def test_who_is_too_late_is_told(engine: Engine, store: Store) -> None:
    positions = told(store, 4)
    engine.prune(before=START + timedelta(days=9), upto=positions[1])
    for after in (0, positions[0]):
        with pytest.raises(HistoryPruned, match="read the registry as it is now") as caught:
            engine.outbox(after, 10)
        assert caught.value.position == positions[1]


def test_a_gap_alone_is_no_loss(engine: Engine, store: Store) -> None:
    """Positions that were given out and rolled back with their transaction."""
    with suppress(RuntimeError), store.write() as writer:
        writer.outbox.append([{"n": 0}], time=START, correlationid="lost")
        raise RuntimeError
    positions = told(store, 1)
    assert [record.position for record in engine.outbox(0, 10)] == positions


def test_another_process_goes_on(engine: Engine, store: Store) -> None:
    other = Engine(store, settings=Settings(model="empty"))
    positions = told(store, 6)
    assert engine.prune(before=START + timedelta(days=9), upto=positions[3]) == 4
    assert other.prune(before=START + timedelta(days=9), upto=positions[1]) == 0
    with pytest.raises(HistoryPruned):
        other.outbox(positions[1], 10)
