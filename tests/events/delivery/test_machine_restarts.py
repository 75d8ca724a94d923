"""A delivery through any sequence of attempts, errors, restarts and clock jumps, with a checkpoint after each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.backoff import Backoff, resumed
from signalbook.events.delivery.machine import (
    AttemptEnded,
    AttemptPossible,
    Delivery,
    Event,
    EventsRead,
    Hurried,
    Phase,
    Send,
    WriteCheckpoint,
    step,
)
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.events.subscription import Subscription
from signalbook.storage.subscriptions import GONE, SUSPENDED, DeliveryState

EVENTS = 40
SUBSCRIPTION = Subscription(id="1", protocol="FILE", sink="file:a")
BACKOFF = Backoff(first=2.0, longest=60.0, give_up=3600.0, attempts=3)


@dataclass(frozen=True, slots=True)
class Step:
    """An attempt that takes ``taken`` events before ``error``; before it the clock jumps, or the server is killed."""

    taken: int
    error: str
    retry_after: float | None = None
    jump: float = 0.0
    killed: bool = False


@dataclass(slots=True)
class World:
    """An outbox of events 1 to ``EVENTS``, and a sink that says what each step says."""

    stored: DeliveryState = field(default_factory=lambda: DeliveryState(position=0))
    received: list[int] = field(default_factory=list)
    rejected: set[int] = field(default_factory=set)
    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)

    def start(self) -> Delivery:
        """Begin at the checkpoint, as after a restart or on another server that has taken the lease."""
        position = self.stored.position
        phase = Phase.OVER if self.stored.over else Phase.IDLE
        begun = Delivery(subscription=SUBSCRIPTION, state=self.stored, read=position, phase=phase)
        read = tuple(
            (event_position, {"position": event_position}) for event_position in range(position + 1, EVENTS + 1)
        )
        return self.after(begun, EventsRead(EVENTS, read))

    def after(self, delivery: Delivery, event: Event) -> Delivery:
        """The delivery after an event, with its checkpoint written."""
        after, actions = step(delivery, event, BACKOFF)
        assert after is not None
        for action in actions:
            if isinstance(action, WriteCheckpoint):
                self.stored = action.state
        return after

    def attempt(self, delivery: Delivery, outcome: Step) -> Delivery:
        """Make one attempt and write its checkpoint."""
        begun, (send,) = step(delivery, AttemptPossible(delivery.pool), BACKOFF)
        assert begun is not None
        assert isinstance(send, Send)
        sent = [event["position"] for event in send.events]
        assert sent == sorted(set(sent))
        assert sent[0] == delivery.position + 1
        delivered = sent[: outcome.taken] if outcome.error else sent
        self.received += delivered
        error = _error(outcome, len(delivered))
        ended = AttemptEnded(sent=len(sent), error=error, took=0.1, clock=100.0, now=self.now, chance=1.0)
        settled = self.after(begun, ended)
        wait = settled.due - 100.0
        if outcome.error == "rejected" and len(delivered) < len(sent):
            self.rejected.add(sent[len(delivered)])
        if outcome.error == "failed" and not settled.state.over:
            assert settled.phase is Phase.WAITING
            assert wait >= max(outcome.retry_after or 0.0, BACKOFF.first / 2) - 1e-9
        if outcome.retry_after and outcome.error == "not yet":
            assert abs(wait - outcome.retry_after) < 1e-9
        return settled

    def read_on(self, delivery: Delivery) -> Delivery:
        """Read again the events that a failure dropped."""
        read = tuple(
            (event_position, {"position": event_position}) for event_position in range(delivery.read + 1, EVENTS + 1)
        )
        return self.after(delivery, EventsRead(EVENTS, read)) if read else delivery


def _error(outcome: Step, delivered_count: int) -> DeliveryError | None:
    match outcome.error:
        case "failed":
            return DeliveryError("503", delivered=delivered_count, retry_after=outcome.retry_after)
        case "rejected":
            return DeliveryError("415", delivered=delivered_count, rejected=True)
        case "gone":
            return DeliveryError("410", delivered=delivered_count, gone=True)
        case "not yet":
            return NotYet("slower", delivered=delivered_count, retry_after=outcome.retry_after)
    return None


STEPS = st.builds(
    Step,
    taken=st.integers(0, 20),
    error=st.sampled_from(["", "", "failed", "rejected", "gone", "not yet"]),
    retry_after=st.none() | st.floats(0.5, 900),
    jump=st.floats(-7200, 7200),
    killed=st.booleans(),
)


@given(st.lists(STEPS, max_size=30))
def test_all_events_are_delivered_in_order(steps: list[Step]) -> None:
    world = World()
    delivery = world.start()
    for planned in steps:
        world.now += timedelta(seconds=planned.jump)
        if planned.killed:
            delivery = world.start()
        if delivery.phase is Phase.OVER:
            assert delivery.state.state in (SUSPENDED, GONE)
            break
        delivery = world.read_on(world.after(delivery, Hurried()))  # the backoff is over
        if not delivery.pending:
            break
        delivery = world.attempt(delivery, planned)
    # Checkpoints follow each attempt here, so nothing comes twice either.
    assert world.received == sorted(set(world.received))
    last_position = world.stored.position
    assert set(world.received) | world.rejected == set(range(1, last_position + 1))
    assert world.stored.delivered == len(world.received)
    assert world.stored.rejected == len(world.rejected)


@given(st.lists(STEPS, max_size=20), st.integers(0, 20))
def test_a_kill_before_the_checkpoint_repeats_and_loses_nothing(steps: list[Step], lost_from: int) -> None:
    """Events received after the last checkpoint are sent again in order."""
    world = World()
    delivery = world.start()
    checkpoint = world.stored
    for number, planned in enumerate(steps):
        if delivery.phase is Phase.OVER or not delivery.pending:
            break
        delivery = world.attempt(world.read_on(world.after(delivery, Hurried())), planned)
        checkpoint = world.stored if number < lost_from else checkpoint
    world.stored = resumed(checkpoint)  # one that was given up goes on with an update
    delivery = world.start()
    again = [position for position, _ in delivery.pending]
    assert again == list(range(checkpoint.position + 1, EVENTS + 1))
    assert set(world.received) | world.rejected | set(again) == set(range(1, EVENTS + 1))
