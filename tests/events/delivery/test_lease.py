import pytest

from signalbook.engine.engine import Engine
from signalbook.events.delivery.lease import Lease
from signalbook.settings import Settings
from signalbook.storage.store import Store


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def engine(store: Store) -> Engine:
    return Engine(store, settings=Settings(model="empty"))


def take(engine: Engine, lease: Lease) -> bool:
    with engine.writing() as session:
        mine = lease.take(session)
    if mine:
        lease.confirm()
    return mine


def test_only_one_server_has_the_lease(engine: Engine) -> None:
    """Whatever their clocks say."""
    first, other = Lease(seconds=10, clock=Clock(5.0)), Lease(seconds=10, clock=Clock(9e9))
    assert (take(engine, first), take(engine, other)) == (True, False)
    assert (first.held, other.held) == (True, False)
    assert (take(engine, first), first.held) == (True, True)


def test_a_dead_holder_is_found_out_by_looking(engine: Engine) -> None:
    clock = Clock(100.0)
    holder, other = Lease(seconds=10, clock=Clock(0.0)), Lease(seconds=10, clock=clock)
    take(engine, holder)
    assert not take(engine, other)
    clock.now += 9
    assert not take(engine, other)
    take(engine, holder)
    clock.now += 9
    assert not take(engine, other)
    clock.now += 11
    assert take(engine, other)
    assert not take(engine, holder)
    assert not holder.held


def test_lease_is_due_for_renewal_in_time(engine: Engine) -> None:
    clock = Clock(0.0)
    lease = Lease(seconds=9, clock=clock)
    take(engine, lease)
    assert not lease.due
    clock.now = 4.0
    assert (lease.held, lease.due) == (True, True)
    clock.now = 9.5
    assert not lease.held


def test_uncommitted_lease_does_not_count(engine: Engine) -> None:
    lease = Lease(seconds=10, clock=Clock(0.0))
    with engine.writing() as session:
        assert lease.take(session)
        assert not lease.held


def test_released_lease_can_be_taken(engine: Engine) -> None:
    first, other = Lease(seconds=10, clock=Clock(0.0)), Lease(seconds=10, clock=Clock(0.0))
    take(engine, first)
    with engine.writing() as session:
        other.release(session)
    assert not take(engine, other)
    with engine.writing() as session:
        first.release(session)
    assert (first.held, take(engine, other)) == (False, True)


def test_each_acquisition_of_the_lease_is_a_term(engine: Engine) -> None:
    """Renewing it goes on with one; after it had ended another server may have had it."""
    clock = Clock(0.0)
    lease = Lease(seconds=9, clock=clock)
    terms: list[int | None] = []
    for now in (0.0, 5.0, 15.0):
        clock.now = now
        terms.append(lease.term)
        take(engine, lease)
        terms.append(lease.term)
    assert terms == [None, 1, 1, 1, None, 2]
