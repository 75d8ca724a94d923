import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.backoff import Backoff
from signalbook.events.delivery.interest import select
from signalbook.events.delivery.machine import (
    KEPT_ON_FAILURE,
    MAX_BATCH,
    Action,
    AttemptEnded,
    AttemptPossible,
    AttemptRefused,
    CheckpointDue,
    CloseSink,
    Deleted,
    Delivery,
    Event,
    EventsLost,
    EventsRead,
    Hurried,
    LeaseLost,
    Log,
    Phase,
    Read,
    ReadAgain,
    RemoveCheckpoint,
    RightsChanged,
    Schedule,
    Send,
    Served,
    ServerStopped,
    StopReading,
    TimePassed,
    WakeAt,
    WriteCheckpoint,
    step,
)
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.events.subscription import Subscription
from signalbook.storage.subscriptions import ACTIVE, GONE, RETRYING, SUSPENDED, DeliveryState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RETRIES = Backoff()
WANTED = Subscription(id="s", protocol="HTTP", sink="https://e.example", revision=1)
UPDATED = replace(WANTED, sink="https://other.example", revision=2)
SELECTION = select(WANTED, "https://r.example")


def delivery(*positions: int, at: int = 0) -> Delivery:
    """Return a delivery that has read events at these positions."""
    new_delivery = Delivery(subscription=WANTED, state=DeliveryState(position=at), read=at)
    events = tuple((position, {"id": str(position)}) for position in positions)
    return after(new_delivery, EventsRead(max(positions), events)) if positions else new_delivery


def after(delivery: Delivery | None, *events: Event) -> Delivery:
    """Return the delivery after some events; it is still served."""
    for event in events:
        delivery, _ = step(delivery, event, RETRIES)
    assert delivery is not None
    return delivery


def asked(delivery: Delivery | None, event: Event) -> tuple[Action, ...]:
    """Return the actions that an event causes."""
    return step(delivery, event, RETRIES)[1]


def begin(delivery: Delivery) -> tuple[Delivery, Send]:
    begun, (send,) = step(delivery, AttemptPossible(delivery.pool), RETRIES)
    assert begun is not None
    assert isinstance(send, Send)
    return begun, send


def ended(sent: int = 1, error: DeliveryError | None = None, took: float = 0.01, clock: float = 0.0) -> AttemptEnded:
    return AttemptEnded(sent=sent, error=error, took=took, clock=clock, now=NOW, chance=0.0)


def attempt(delivery: Delivery, error: DeliveryError | None = None, took: float = 0.01) -> tuple[Delivery, int]:
    """After an attempt, and how many events were sent."""
    begun, send = begin(delivery)
    return after(begun, ended(len(send.events), error, took)), len(send.events)


def sending(*positions: int) -> Delivery:
    return begin(delivery(*positions))[0]


def test_batches_grow_while_a_sink_is_quick() -> None:
    state, sizes = delivery(*range(1, 200)), []
    for _ in range(8):
        state, sent = attempt(state)
        sizes.append(sent)
    assert sizes == [1, 2, 4, 8, 16, 32, MAX_BATCH, MAX_BATCH]
    assert state.position == state.state.delivered == 191
    assert state.pool == "quick"


def test_batches_shrink_while_a_sink_is_slow() -> None:
    current = delivery(*range(1, 200))
    for _ in range(7):
        current, _ = attempt(current)
    current, _ = attempt(current, took=30.0)
    assert (current.pool, len(begin(current)[1].events)) == ("slow", 8)


def test_a_sink_that_was_never_tried_has_a_pool_of_its_own() -> None:
    assert delivery().pool == "new"
    failing = Served(subscription=WANTED, selection=SELECTION, state=DeliveryState(position=0, failures=3))
    assert after(None, failing).pool == "slow"


def test_a_change_with_several_events_is_done_when_all_are() -> None:
    """The position is stored only then, so that a crash repeats events instead of losing some."""
    current, _ = attempt(delivery(7, 7, 9, at=3))
    assert current.position == 6
    current, _ = attempt(current)
    assert current.position == 9


def test_an_event_that_is_refused_is_passed_over() -> None:
    """The status of the response is 415 (D-33)."""
    current, _ = attempt(delivery(1, 2, 3), DeliveryError("415", rejected=True))
    assert ([position for position, _ in current.pending], current.phase) == ([2, 3], Phase.READY)
    assert (current.state.rejected, current.state.delivered, current.position) == (1, 0, 1)


def test_delivery_to_a_gone_sink_keeps_its_position() -> None:
    """The status of the response is 410 (D-33)."""
    current, _ = attempt(delivery(5, 6, at=2), DeliveryError("410", gone=True))
    assert (current.phase, len(current.pending), current.state.state, current.state.position) == (
        Phase.OVER,
        0,
        GONE,
        4,
    )


@pytest.mark.parametrize("count", [1, KEPT_ON_FAILURE, KEPT_ON_FAILURE + 1, 500])
def test_a_dead_sink_holds_little(count: int) -> None:
    current, send = begin(delivery(*range(1, count + 1)))
    failure = ended(len(send.events), DeliveryError("no"))
    assert (ReadAgain(KEPT_ON_FAILURE) in asked(current, failure)) is (count > KEPT_ON_FAILURE)
    current = after(current, failure)
    assert len(current.pending) == min(count, KEPT_ON_FAILURE)
    assert current.read == min(count, KEPT_ON_FAILURE)


def test_a_change_is_not_cut_in_two() -> None:
    positions = [*range(1, KEPT_ON_FAILURE), *[KEPT_ON_FAILURE] * 5, KEPT_ON_FAILURE + 1]
    current, _ = attempt(delivery(*positions), DeliveryError("no"))
    expected = (KEPT_ON_FAILURE + 4, KEPT_ON_FAILURE, KEPT_ON_FAILURE)
    assert (len(current.pending), current.pending[-1][0], current.read) == expected


def test_an_attempt_is_scheduled_once() -> None:
    current = delivery(1)
    assert asked(delivery(), EventsRead(1, ((1, {}),))) == (Schedule("new"),)
    assert asked(current, EventsRead(2, ((2, {}),))) == ()
    assert asked(sending(1), EventsRead(2, ((2, {}),))) == ()


def test_a_place_in_another_line_is_not_its_own() -> None:
    current = delivery(1)
    assert step(current, AttemptPossible("slow"), RETRIES) == (current, ())
    begun, _ = begin(current)
    assert step(begun, AttemptPossible("new"), RETRIES) == (begun, ())


def test_attempt_without_the_lease_does_not_count() -> None:
    current, actions = step(sending(1, 2), AttemptRefused(), RETRIES)
    assert current is not None
    assert (current.state, len(current.pending), actions) == (DeliveryState(position=0), 2, (Schedule("new"),))


class TestWaiting:
    """A delivery waits as its sink requests before the next attempt (D-33)."""

    def test_the_backoff_counts_from_the_end_of_the_attempt(self) -> None:
        current, actions = step(sending(1), ended(error=DeliveryError("503", retry_after=20.0), clock=100.0), RETRIES)
        assert current is not None
        assert WakeAt(120.0) in actions
        assert (current.phase, current.due, current.state.state) == (Phase.WAITING, 120.0, RETRYING)
        assert current.state.next == "2030-01-01T00:00:20Z"

    def test_waiting_ends_at_the_due_time(self) -> None:
        current = after(sending(1), ended(error=DeliveryError("503", retry_after=20.0), clock=100.0))
        assert asked(current, TimePassed(119.9)) == ()
        assert asked(current, TimePassed(120.0)) == (Schedule("slow"),)

    def test_hurry_ends_the_waiting(self) -> None:
        current = after(sending(1), ended(error=DeliveryError("no")))
        assert asked(current, Hurried()) == (Schedule("slow"),)
        assert asked(delivery(), Hurried()) == ()

    def test_no_event_begins_an_attempt(self) -> None:
        current = after(sending(1), ended(error=NotYet("slow", retry_after=5.0)))
        assert asked(current, EventsRead(2, ((2, {}),))) == ()
        assert not current.has_room(1000)


class TestCheckpoints:
    """Tests of the checkpoints written after each event."""

    def test_after_each_attempt(self) -> None:
        (written,) = [action for action in asked(sending(1, 5), ended()) if isinstance(action, WriteCheckpoint)]
        assert (written.revision, written.state.position, written.state.delivered) == (1, 4, 1)

    def test_checkpoint_is_written_when_due(self) -> None:
        current = after(delivery(), EventsRead(60_000))
        assert asked(current, CheckpointDue()) == (WriteCheckpoint(1, DeliveryState(position=60_000)),)

    def test_when_the_server_stops(self) -> None:
        expected = (None, (WriteCheckpoint(1, DeliveryState(position=4)), StopReading()))
        assert step(delivery(5), ServerStopped(), RETRIES) == expected

    def test_checkpoint_after_the_last_attempt_of_a_stopping_server(self) -> None:
        current = after(sending(5), ServerStopped())
        remaining, actions = step(current, ended(), RETRIES)
        assert remaining is None
        assert [action.state.delivered for action in actions if isinstance(action, WriteCheckpoint)] == [1, 1]

    def test_no_checkpoint_without_the_lease(self) -> None:
        """Another server may be further."""
        assert step(delivery(5), LeaseLost(), RETRIES) == (None, (StopReading(), CloseSink()))
        current = after(sending(5), LeaseLost())
        assert step(current, ended(), RETRIES) == (None, (StopReading(), CloseSink()))
        assert step(after(current, ServerStopped()), ended(), RETRIES) == (None, (StopReading(), CloseSink()))
        elsewhere = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        assert step(after(current, elsewhere, ServerStopped()), ended(), RETRIES) == (
            None,
            (StopReading(), CloseSink()),
        )

    def test_checkpoint_of_a_deleted_subscription_is_removed(self) -> None:
        assert step(delivery(5), Deleted(), RETRIES) == (None, (StopReading(), CloseSink(), RemoveCheckpoint()))

    def test_lost_events_are_logged_and_stored(self) -> None:
        """The state and the log contain the reason."""
        current, (written, logged) = step(delivery(5), EventsLost(4, "pruned"), RETRIES)
        assert current is not None
        assert current.state.lasterror == "pruned"
        assert isinstance(written, WriteCheckpoint)
        assert logged == Log(logging.WARNING, "subscription s: events up to 4 were pruned before they were delivered")


class TestUpdates:
    """A delivery follows changes of its subscription (D-32)."""

    def test_updated_delivery_continues_at_its_position(self) -> None:
        current, actions = step(delivery(5), Served(subscription=UPDATED, selection=SELECTION), RETRIES)
        assert current is not None
        assert (current.subscription, current.phase, current.pending, current.read) == (UPDATED, Phase.IDLE, (), 4)
        expected = (StopReading(), CloseSink(), WriteCheckpoint(2, DeliveryState(position=4)), Read(SELECTION, 4))
        assert actions == expected

    def test_updated_delivery_continues_at_its_stored_position(self) -> None:
        elsewhere = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        assert Read(SELECTION, 2) in asked(delivery(5), elsewhere)

    def test_update_waits_for_a_running_attempt(self) -> None:
        """Otherwise its events would be sent twice."""
        current, actions = step(sending(5, 6), Served(subscription=UPDATED, selection=SELECTION), RETRIES)
        assert current is not None
        assert (current.phase, current.subscription, current.expected, actions) == (Phase.SENDING, WANTED, UPDATED, ())
        current, actions = step(current, ended(), RETRIES)
        assert current is not None
        assert (current.phase, current.subscription, current.state.delivered) == (Phase.IDLE, UPDATED, 1)
        assert actions[-1] == Read(SELECTION, 5)

    def test_the_last_one_counts_and_the_start_of_the_one_before(self) -> None:
        started = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        last = replace(UPDATED, revision=3)
        current = after(sending(5), started, Served(subscription=last, selection=SELECTION), ended())
        assert (current.subscription, current.read) == (last, 2)

    def test_update_restarts_an_abandoned_delivery(self) -> None:
        current = after(sending(5), ended(error=DeliveryError("410", gone=True)))
        assert current.phase is Phase.OVER
        assert asked(current, EventsRead(9, ((9, {}),))) == ()
        current = after(current, Served(subscription=UPDATED, selection=SELECTION))
        assert (current.phase, current.state.state, current.read) == (Phase.IDLE, ACTIVE, 4)

    def test_update_with_an_invalid_source_suspends_the_delivery(self) -> None:
        wrong = Served(subscription=UPDATED, selection=None, fault="/source: no", state=DeliveryState(position=3))
        current, (written, logged) = step(None, wrong, RETRIES)
        assert current is not None
        assert (current.phase, current.state.state, current.state.lasterror) == (Phase.OVER, SUSPENDED, "/source: no")
        assert written == WriteCheckpoint(2, current.state)
        assert logged == Log(logging.WARNING, "subscription s: cannot be delivered to: /source: no")


def test_regained_lease_continues_from_the_stored_position() -> None:
    """Whatever the attempt came to that was under way meanwhile"""
    regained = Served(subscription=WANTED, selection=SELECTION, state=DeliveryState(position=50, delivered=9))
    lost = after(sending(5), LeaseLost())
    assert lost.leaving
    current, actions = step(after(lost, regained), ended(), RETRIES)
    assert current is not None
    assert (current.state.delivered, current.read, current.phase) == (9, 50, Phase.IDLE)
    assert Read(SELECTION, 50) in actions


def test_failure_and_recovery_are_logged() -> None:
    failing, actions = step(sending(5), ended(error=DeliveryError("no")), RETRIES)
    message = "subscription s: the sink takes no events, will retry: no"
    assert Log(logging.WARNING, message) in actions
    assert failing is not None
    again, _ = begin(after(failing, TimePassed(9e9)))
    assert not [action for action in asked(again, ended(error=DeliveryError("no"))) if isinstance(action, Log)]
    assert Log(logging.INFO, "subscription s: the sink takes events again") in asked(again, ended())


@pytest.mark.parametrize("event", [TimePassed(1.0), EventsRead(1), ended(), AttemptPossible("new"), ServerStopped()])
def test_late_events_are_ignored(event: Event) -> None:
    assert step(None, event, RETRIES) == (None, ())


ERRORS = st.builds(DeliveryError, st.just("x"), delivered=st.integers(0, 70), rejected=st.booleans())
OUTCOMES = st.lists(st.none() | ERRORS, max_size=30)


@given(st.lists(st.integers(1, 50), max_size=80).map(sorted), OUTCOMES)
def test_position_never_passes_pending_events(positions: list[int], outcomes: list[DeliveryError | None]) -> None:
    """Nor does it go back; and every event is counted once."""
    current = delivery(*positions)
    before, dropped = current.position, 0
    for outcome in outcomes[: len(positions)]:
        current = after(current, TimePassed(current.due + timedelta(days=1).total_seconds()))
        if current.pending:
            begun, send = begin(current)
            current = after(begun, ended(len(send.events), outcome))
            delivered_count = len(send.events) if outcome is None else min(outcome.delivered, len(send.events))
            delivered_count += outcome is not None and outcome.rejected and delivered_count < len(send.events)
            dropped += len(begun.pending) - delivered_count - len(current.pending)
        assert before <= current.position
        assert all(current.position < position for position, _ in current.pending)
        before = current.position
    assert current.state.delivered + current.state.rejected + len(current.pending) + dropped == len(positions)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.WAITING])
def test_changed_rights_cause_a_reread(phase: Phase) -> None:
    waiting = replace(delivery(5, 7), phase=phase, due=9.0)
    after, actions = step(waiting, RightsChanged(), RETRIES)
    assert after is not None
    assert (after.pending, after.read, after.position) == ((), 4, 4)
    assert after.phase is (Phase.WAITING if phase is Phase.WAITING else Phase.IDLE)
    assert actions == (ReadAgain(4),)


def test_an_attempt_under_way_is_not_called_back() -> None:
    sending = replace(delivery(5, 7), phase=Phase.SENDING)
    assert step(sending, RightsChanged(), RETRIES) == (sending, ())
    assert step(delivery(), RightsChanged(), RETRIES) == (delivery(), ())
