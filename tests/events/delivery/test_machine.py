from __future__ import annotations

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
    """One that has read events at these positions."""
    made = Delivery(subscription=WANTED, state=DeliveryState(position=at), read=at)
    events = tuple((position, {"id": str(position)}) for position in positions)
    return after(made, EventsRead(max(positions), events)) if positions else made


def after(made: Delivery | None, *events: Event) -> Delivery:
    """What it is after some events; it is still served."""
    for event in events:
        made, _ = step(made, event, RETRIES)
    assert made is not None
    return made


def asked(made: Delivery | None, event: Event) -> tuple[Action, ...]:
    """What it asks for at an event."""
    return step(made, event, RETRIES)[1]


def begin(made: Delivery) -> tuple[Delivery, Send]:
    begun, (send,) = step(made, AttemptPossible(made.pool), RETRIES)
    assert begun is not None
    assert isinstance(send, Send)
    return begun, send


def ended(sent: int = 1, error: DeliveryError | None = None, took: float = 0.01, clock: float = 0.0) -> AttemptEnded:
    return AttemptEnded(sent=sent, error=error, took=took, clock=clock, now=NOW, chance=0.0)


def attempt(made: Delivery, error: DeliveryError | None = None, took: float = 0.01) -> tuple[Delivery, int]:
    """After an attempt, and how many events were sent."""
    begun, send = begin(made)
    return after(begun, ended(len(send.events), error, took)), len(send.events)


def sending(*positions: int) -> Delivery:
    return begin(delivery(*positions))[0]


def test_batches_grow_while_a_sink_is_quick() -> None:
    made, sizes = delivery(*range(1, 200)), []
    for _ in range(8):
        made, sent = attempt(made)
        sizes.append(sent)
    assert sizes == [1, 2, 4, 8, 16, 32, MAX_BATCH, MAX_BATCH]
    assert made.position == made.state.delivered == 191
    assert made.pool == "quick"


def test_they_shrink_when_it_is_slow() -> None:
    made = delivery(*range(1, 200))
    for _ in range(7):
        made, _ = attempt(made)
    made, _ = attempt(made, took=30.0)
    assert (made.pool, len(begin(made)[1].events)) == ("slow", 8)


def test_a_sink_that_was_never_tried_has_a_pool_of_its_own() -> None:
    assert delivery().pool == "new"
    failing = Served(subscription=WANTED, selection=SELECTION, state=DeliveryState(position=0, failures=3))
    assert after(None, failing).pool == "slow"


def test_a_change_with_several_events_is_done_when_all_are() -> None:
    """Its position is kept only then, so that a crash repeats it rather than to lose a part of it."""
    made, _ = attempt(delivery(7, 7, 9, at=3))
    assert made.position == 6
    made, _ = attempt(made)
    assert made.position == 9


def test_an_event_that_is_refused_is_passed_over() -> None:
    """D-33: 415"""
    made, _ = attempt(delivery(1, 2, 3), DeliveryError("415", rejected=True))
    assert ([position for position, _ in made.pending], made.phase) == ([2, 3], Phase.READY)
    assert (made.state.rejected, made.state.delivered, made.position) == (1, 0, 1)


def test_one_that_is_gone_keeps_its_place() -> None:
    """D-33: 410"""
    made, _ = attempt(delivery(5, 6, at=2), DeliveryError("410", gone=True))
    assert (made.phase, len(made.pending), made.state.state, made.state.position) == (Phase.OVER, 0, GONE, 4)


@pytest.mark.parametrize("count", [1, KEPT_ON_FAILURE, KEPT_ON_FAILURE + 1, 500])
def test_a_dead_sink_holds_little(count: int) -> None:
    made, send = begin(delivery(*range(1, count + 1)))
    failure = ended(len(send.events), DeliveryError("no"))
    assert (ReadAgain(KEPT_ON_FAILURE) in asked(made, failure)) is (count > KEPT_ON_FAILURE)
    made = after(made, failure)
    assert len(made.pending) == min(count, KEPT_ON_FAILURE)
    assert made.read == min(count, KEPT_ON_FAILURE)


def test_a_change_is_not_cut_in_two() -> None:
    positions = [*range(1, KEPT_ON_FAILURE), *[KEPT_ON_FAILURE] * 5, KEPT_ON_FAILURE + 1]
    made, _ = attempt(delivery(*positions), DeliveryError("no"))
    expected = (KEPT_ON_FAILURE + 4, KEPT_ON_FAILURE, KEPT_ON_FAILURE)
    assert (len(made.pending), made.pending[-1][0], made.read) == expected


def test_an_attempt_is_scheduled_once() -> None:
    made = delivery(1)
    assert asked(delivery(), EventsRead(1, ((1, {}),))) == (Schedule("new"),)
    assert asked(made, EventsRead(2, ((2, {}),))) == ()
    assert asked(sending(1), EventsRead(2, ((2, {}),))) == ()


def test_a_place_in_another_line_is_not_its_own() -> None:
    made = delivery(1)
    assert step(made, AttemptPossible("slow"), RETRIES) == (made, ())
    begun, _ = begin(made)
    assert step(begun, AttemptPossible("new"), RETRIES) == (begun, ())


def test_an_attempt_without_the_lease_is_none() -> None:
    made, actions = step(sending(1, 2), AttemptRefused(), RETRIES)
    assert made is not None
    assert (made.state, len(made.pending), actions) == (DeliveryState(position=0), 2, (Schedule("new"),))


class TestWaiting:
    """D-33: what the sink says of the next attempt."""

    def test_the_backoff_counts_from_the_end_of_the_attempt(self) -> None:
        made, actions = step(sending(1), ended(error=DeliveryError("503", retry_after=20.0), clock=100.0), RETRIES)
        assert made is not None
        assert WakeAt(120.0) in actions
        assert (made.phase, made.due, made.state.state) == (Phase.WAITING, 120.0, RETRYING)
        assert made.state.next == "2030-01-01T00:00:20Z"

    def test_it_is_over_in_time_and_not_before(self) -> None:
        made = after(sending(1), ended(error=DeliveryError("503", retry_after=20.0), clock=100.0))
        assert asked(made, TimePassed(119.9)) == ()
        assert asked(made, TimePassed(120.0)) == (Schedule("slow"),)

    def test_hurry_ends_it(self) -> None:
        made = after(sending(1), ended(error=DeliveryError("no")))
        assert asked(made, Hurried()) == (Schedule("slow"),)
        assert asked(delivery(), Hurried()) == ()

    def test_no_event_begins_an_attempt(self) -> None:
        made = after(sending(1), ended(error=NotYet("slow", retry_after=5.0)))
        assert asked(made, EventsRead(2, ((2, {}),))) == ()
        assert not made.has_room(1000)


class TestCheckpoints:
    """What is written after which event."""

    def test_after_each_attempt(self) -> None:
        (written,) = [each for each in asked(sending(1, 5), ended()) if isinstance(each, WriteCheckpoint)]
        assert (written.revision, written.state.position, written.state.delivered) == (1, 4, 1)

    def test_when_it_is_due(self) -> None:
        made = after(delivery(), EventsRead(60_000))
        assert asked(made, CheckpointDue()) == (WriteCheckpoint(1, DeliveryState(position=60_000)),)

    def test_when_the_server_stops(self) -> None:
        expected = (None, (WriteCheckpoint(1, DeliveryState(position=4)), StopReading()))
        assert step(delivery(5), ServerStopped(), RETRIES) == expected

    def test_of_an_attempt_that_the_server_waits_for(self) -> None:
        made = after(sending(5), ServerStopped())
        left, actions = step(made, ended(), RETRIES)
        assert left is None
        assert [each.state.delivered for each in actions if isinstance(each, WriteCheckpoint)] == [1, 1]

    def test_none_without_the_lease(self) -> None:
        """Another server may be further."""
        assert step(delivery(5), LeaseLost(), RETRIES) == (None, (StopReading(), CloseSink()))
        made = after(sending(5), LeaseLost())
        assert step(made, ended(), RETRIES) == (None, (StopReading(), CloseSink()))
        assert step(after(made, ServerStopped()), ended(), RETRIES) == (None, (StopReading(), CloseSink()))
        elsewhere = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        assert step(after(made, elsewhere, ServerStopped()), ended(), RETRIES) == (None, (StopReading(), CloseSink()))

    def test_of_what_was_deleted(self) -> None:
        assert step(delivery(5), Deleted(), RETRIES) == (None, (StopReading(), CloseSink(), RemoveCheckpoint()))

    def test_of_what_was_lost(self) -> None:
        """Its state and the log say so"""
        made, (written, logged) = step(delivery(5), EventsLost(4, "pruned"), RETRIES)
        assert made is not None
        assert made.state.lasterror == "pruned"
        assert isinstance(written, WriteCheckpoint)
        assert logged == Log(logging.WARNING, "subscription s: events up to 4 were pruned before they were delivered")


class TestUpdates:
    """D-32: a subscription as it was changed."""

    def test_it_goes_on_where_it_is(self) -> None:
        made, actions = step(delivery(5), Served(subscription=UPDATED, selection=SELECTION), RETRIES)
        assert made is not None
        assert (made.subscription, made.phase, made.pending, made.read) == (UPDATED, Phase.IDLE, (), 4)
        expected = (StopReading(), CloseSink(), WriteCheckpoint(2, DeliveryState(position=4)), Read(SELECTION, 4))
        assert actions == expected

    def test_or_where_it_says(self) -> None:
        elsewhere = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        assert Read(SELECTION, 2) in asked(delivery(5), elsewhere)

    def test_it_waits_for_an_attempt(self) -> None:
        """Its events must not come twice"""
        made, actions = step(sending(5, 6), Served(subscription=UPDATED, selection=SELECTION), RETRIES)
        assert made is not None
        assert (made.phase, made.subscription, made.expected, actions) == (Phase.SENDING, WANTED, UPDATED, ())
        made, actions = step(made, ended(), RETRIES)
        assert made is not None
        assert (made.phase, made.subscription, made.state.delivered) == (Phase.IDLE, UPDATED, 1)
        assert actions[-1] == Read(SELECTION, 5)

    def test_the_last_one_counts_and_the_start_of_the_one_before(self) -> None:
        started = Served(subscription=UPDATED, selection=SELECTION, state=DeliveryState(position=2))
        last = replace(UPDATED, revision=3)
        made = after(sending(5), started, Served(subscription=last, selection=SELECTION), ended())
        assert (made.subscription, made.read) == (last, 2)

    def test_what_was_given_up_begins_again(self) -> None:
        made = after(sending(5), ended(error=DeliveryError("410", gone=True)))
        assert made.phase is Phase.OVER
        assert asked(made, EventsRead(9, ((9, {}),))) == ()
        made = after(made, Served(subscription=UPDATED, selection=SELECTION))
        assert (made.phase, made.state.state, made.read) == (Phase.IDLE, ACTIVE, 4)

    def test_one_that_nothing_can_be_read_for(self) -> None:
        wrong = Served(subscription=UPDATED, selection=None, fault="/source: no", state=DeliveryState(position=3))
        made, (written, logged) = step(None, wrong, RETRIES)
        assert made is not None
        assert (made.phase, made.state.state, made.state.lasterror) == (Phase.OVER, SUSPENDED, "/source: no")
        assert written == WriteCheckpoint(2, made.state)
        assert logged == Log(logging.WARNING, "subscription s: cannot be delivered to: /source: no")


def test_a_lease_that_comes_back_goes_on_from_the_store() -> None:
    """Whatever the attempt came to that was under way meanwhile"""
    regained = Served(subscription=WANTED, selection=SELECTION, state=DeliveryState(position=50, delivered=9))
    lost = after(sending(5), LeaseLost())
    assert lost.leaving
    made, actions = step(after(lost, regained), ended(), RETRIES)
    assert made is not None
    assert (made.state.delivered, made.read, made.phase) == (9, 50, Phase.IDLE)
    assert Read(SELECTION, 50) in actions


def test_what_stops_and_what_begins_again_is_logged() -> None:
    failing, actions = step(sending(5), ended(error=DeliveryError("no")), RETRIES)
    told = "subscription s: the sink takes no events, will retry: no"
    assert Log(logging.WARNING, told) in actions
    assert failing is not None
    again, _ = begin(after(failing, TimePassed(9e9)))
    assert not [each for each in asked(again, ended(error=DeliveryError("no"))) if isinstance(each, Log)]
    assert Log(logging.INFO, "subscription s: the sink takes events again") in asked(again, ended())


@pytest.mark.parametrize("event", [TimePassed(1.0), EventsRead(1), ended(), AttemptPossible("new"), ServerStopped()])
def test_what_comes_too_late_changes_nothing(event: Event) -> None:
    assert step(None, event, RETRIES) == (None, ())


ERRORS = st.builds(DeliveryError, st.just("x"), delivered=st.integers(0, 70), rejected=st.booleans())
OUTCOMES = st.lists(st.none() | ERRORS, max_size=30)


@given(st.lists(st.integers(1, 50), max_size=80).map(sorted), OUTCOMES)
def test_the_place_never_passes_what_is_pending(positions: list[int], outcomes: list[DeliveryError | None]) -> None:
    """Nor does it go back; and every event is counted once."""
    made = delivery(*positions)
    before, dropped = made.position, 0
    for outcome in outcomes[: len(positions)]:
        made = after(made, TimePassed(made.due + timedelta(days=1).total_seconds()))
        if made.pending:
            begun, send = begin(made)
            made = after(begun, ended(len(send.events), outcome))
            taken = len(send.events) if outcome is None else min(outcome.delivered, len(send.events))
            taken += outcome is not None and outcome.rejected and taken < len(send.events)
            dropped += len(begun.pending) - taken - len(made.pending)
        assert before <= made.position
        assert all(made.position < position for position, _ in made.pending)
        before = made.position
    assert made.state.delivered + made.state.rejected + len(made.pending) + dropped == len(positions)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.WAITING])
def test_other_rights_have_what_is_pending_read_again(phase: Phase) -> None:
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
