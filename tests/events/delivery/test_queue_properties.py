"""A delivery queue through any sequence of attempts, errors, restarts and clock jumps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from signalbook.events.delivery.backoff import Backoff
from signalbook.events.delivery.interest import NOTHING
from signalbook.events.delivery.queue import DeliveryQueue, Phase
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import GONE, SUSPENDED, DeliveryState

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

    def start(self) -> DeliveryQueue:
        """From the checkpoint on, as after a restart or on another server that has got the lease."""
        queue = DeliveryQueue(SUBSCRIPTION, NOTHING, None, self.stored)
        read = [(position, {"position": position}) for position in range(self.stored.position + 1, EVENTS + 1)]
        queue.pending.extend(read)
        queue.scanned = EVENTS
        return queue

    def attempt(self, queue: DeliveryQueue, step: Step) -> None:
        """One attempt, and its checkpoint."""
        sent = [event["position"] for event in queue.begin()]
        assert sent == sorted(set(sent))
        assert sent[0] == queue.position + 1
        taken = sent[: step.taken] if step.error else sent
        self.received += taken
        wait = queue.settle(len(sent), _error(step, len(taken)), 0.1, self.now, BACKOFF)
        if step.error == "rejected" and len(taken) < len(sent):
            self.rejected.add(sent[len(taken)])
        if step.error == "failed" and not queue.state.over:
            assert queue.phase is Phase.WAITING
            assert wait >= max(step.retry_after or 0.0, BACKOFF.first / 2)
        if step.retry_after and step.error == "not yet":
            assert wait == step.retry_after
        # One that is given up has its position in its state: what was pending is dropped.
        self.stored = queue.state if queue.state.over else replace(queue.state, position=queue.position)


def _error(step: Step, taken: int) -> DeliveryError | None:
    match step.error:
        case "failed":
            return DeliveryError("503", delivered=taken, retry_after=step.retry_after)
        case "rejected":
            return DeliveryError("415", delivered=taken, rejected=True)
        case "gone":
            return DeliveryError("410", delivered=taken, gone=True)
        case "not yet":
            return NotYet("slower", delivered=taken, retry_after=step.retry_after)
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
def test_nothing_is_lost_and_the_order_is_kept(steps: list[Step]) -> None:
    world = World()
    queue = world.start()
    for step in steps:
        world.now += timedelta(seconds=step.jump)
        if step.killed:
            queue = world.start()
        if queue.phase is Phase.OVER:
            assert queue.state.state in (SUSPENDED, GONE)
            break
        queue.phase = Phase.IDLE  # the backoff is over
        if not queue.pending:
            break
        world.attempt(queue, step)
    # Checkpoints follow each attempt here, so nothing comes twice either.
    assert world.received == sorted(set(world.received))
    done = world.stored.position
    assert set(world.received) | world.rejected == set(range(1, done + 1))
    assert world.stored.delivered == len(world.received)
    assert world.stored.rejected == len(world.rejected)


@given(st.lists(STEPS, max_size=20), st.integers(0, 20))
def test_a_kill_before_the_checkpoint_repeats_and_loses_nothing(steps: list[Step], lost_from: int) -> None:
    """What was taken after the last checkpoint comes again, in its order."""
    world = World()
    queue = world.start()
    kept = world.stored
    for number, step in enumerate(steps):
        if queue.phase is Phase.OVER or not queue.pending:
            break
        queue.phase = Phase.IDLE
        world.attempt(queue, step)
        kept = world.stored if number < lost_from else kept
    world.stored = kept
    queue = world.start()
    again = [position for position, _ in queue.pending]
    assert again == list(range(kept.position + 1, EVENTS + 1))
    assert set(world.received) | world.rejected | set(again) == set(range(1, EVENTS + 1))
