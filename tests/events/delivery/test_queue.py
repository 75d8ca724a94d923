"""One subscription's queue: what an attempt does to it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.delivery.backoff import Backoff
from signalbook.events.delivery.interest import NOTHING
from signalbook.events.delivery.queue import KEPT_ON_FAILURE, MAX_BATCH, DeliveryQueue, Phase
from signalbook.events.sinks.base import DeliveryError
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import GONE, DeliveryState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RETRIES = Backoff()
WANTED = Subscription(id="s", protocol="HTTP", sink="https://e.example")


def queue(*positions: int, at: int = 0) -> DeliveryQueue:
    made = DeliveryQueue(WANTED, NOTHING, None, DeliveryState(position=at))
    made.pending.extend((position, {"id": str(position)}) for position in positions)
    made.scanned = max((at, *positions))
    return made


def attempt(made: DeliveryQueue, error: DeliveryError | None = None, took: float = 0.01) -> int:
    """How many events were sent."""
    sent = len(made.begin())
    made.settle(sent, error, took, NOW, RETRIES)
    return sent


def test_batches_grow_while_a_sink_is_quick() -> None:
    made = queue(*range(1, 200))
    assert [attempt(made) for _ in range(8)] == [1, 2, 4, 8, 16, 32, MAX_BATCH, MAX_BATCH]
    assert made.position == made.state.delivered == 191
    assert made.pool == "quick"


def test_they_shrink_when_it_is_slow() -> None:
    made = queue(*range(1, 200))
    for _ in range(7):
        attempt(made)
    attempt(made, took=30.0)
    assert (made.pool, len(made.begin())) == ("slow", 8)


def test_who_was_never_tried_has_a_lane_of_its_own() -> None:
    assert queue().pool == "new"
    assert DeliveryQueue(WANTED, NOTHING, None, DeliveryState(position=0, failures=3)).pool == "slow"


def test_a_change_with_several_events_is_done_when_all_are() -> None:
    """Its position is kept only then, so that a crash repeats it rather than to lose a part of it."""
    made = queue(7, 7, 9, at=3)
    attempt(made)
    assert made.position == 6
    attempt(made)
    assert made.position == 9


def test_an_event_that_is_refused_is_passed_over() -> None:
    """D-33: 415"""
    made = queue(1, 2, 3)
    attempt(made, DeliveryError("415", rejected=True))
    assert ([position for position, _ in made.pending], made.phase) == ([2, 3], Phase.IDLE)
    assert (made.state.rejected, made.state.delivered, made.position) == (1, 0, 1)


def test_one_that_is_gone_keeps_its_place() -> None:
    """D-33: 410"""
    made = queue(5, 6, at=2)
    attempt(made, DeliveryError("410", gone=True))
    assert (made.phase, len(made.pending), made.state.state, made.state.position) == (Phase.OVER, 0, GONE, 4)


@pytest.mark.parametrize("count", [0, KEPT_ON_FAILURE, KEPT_ON_FAILURE + 1, 500])
def test_a_dead_sink_holds_little(count: int) -> None:
    made = queue(*range(1, count + 1))
    assert made.shorten() is (count > KEPT_ON_FAILURE)
    assert len(made.pending) == min(count, KEPT_ON_FAILURE)
    assert made.scanned == min(count, KEPT_ON_FAILURE)


def test_a_change_is_not_cut_in_two() -> None:
    positions = [*range(1, KEPT_ON_FAILURE), *[KEPT_ON_FAILURE] * 5, KEPT_ON_FAILURE + 1]
    made = queue(*positions)
    assert made.shorten()
    assert (len(made.pending), made.pending[-1][0], made.scanned) == (
        KEPT_ON_FAILURE + 4,
        KEPT_ON_FAILURE,
        KEPT_ON_FAILURE,
    )


OUTCOMES = st.lists(
    st.one_of(
        st.none(),
        st.builds(
            lambda count, rejected: DeliveryError("x", delivered=count, rejected=rejected),
            st.integers(0, 70),
            st.booleans(),
        ),
    ),
    max_size=30,
)


@given(st.lists(st.integers(1, 50), max_size=80).map(sorted), OUTCOMES)
def test_the_place_never_passes_what_is_pending(positions: list[int], outcomes: list[DeliveryError | None]) -> None:
    """Nor does it go back; and every event is counted once."""
    made = queue(*positions)
    before = made.position
    for outcome in outcomes[: len(positions)]:
        if made.pending:
            attempt(made, outcome)
        assert before <= made.position
        assert all(made.position < position for position, _ in made.pending)
        before = made.position
    assert made.state.delivered + made.state.rejected + len(made.pending) == len(positions)
