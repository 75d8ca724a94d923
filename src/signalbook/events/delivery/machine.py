"""Model the delivery to one subscription as a state machine.

``step`` returns the next state and the actions to perform. All functions are pure: they use no clock, random numbers,
threads or store. Times, random numbers and results of attempts come with the events. The dispatcher performs the
actions (docs/decisions/104-deliveries.md).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from signalbook.events.backoff import Backoff, delivered, failed, resumed
from signalbook.events.delivery.interest import EventSelection
from signalbook.events.sinks.base import DeliveryError, NotYet
from signalbook.events.subscription import Subscription
from signalbook.storage.subscriptions import RETRYING, SUSPENDED, DeliveryState
from signalbook.values import JSONObject

MAX_BATCH: Final = 64
"""The maximum number of events in one attempt.

After a crash, at most so many events are delivered twice, in addition to those of the last second.
"""
KEPT_ON_FAILURE: Final = 16
"""The number of events kept in memory for a failing sink. The other events are read again when the sink works."""
_QUICK_SECONDS: Final = 0.5

NEW: Final = "new"
QUICK: Final = "quick"
SLOW: Final = "slow"


class Phase(Enum):
    """The phase of a delivery: idle, attempt scheduled, attempt under way, in backoff, or given up."""

    IDLE = auto()
    READY = auto()
    SENDING = auto()
    WAITING = auto()
    OVER = auto()


PendingEvent = tuple[int, JSONObject]
"""An event and its position in the outbox; one change may have several events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The event that a subscription is new to this server, which holds the lease, or was updated.

    Deliveries begin at ``state``; None means that they continue at their current position. ``selection`` selects the
    events to deliver. If it is None, nothing can be delivered, and ``fault`` is the reason.
    """

    subscription: Subscription
    selection: EventSelection | None
    fault: str = ""
    state: DeliveryState | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The event that the subscription was deleted."""


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The event that this server lost the lease. From now on only the store has the current state."""


@dataclass(frozen=True, slots=True)
class ServerStopped:
    """The event that this server stops."""


Ending = Served | Deleted | LeaseLost | ServerStopped
"""Events that end or restart a delivery.

They are deferred until the current attempt has ended, because its events must not be sent by two attempts at once.
"""


@dataclass(frozen=True, slots=True)
class EventsRead:
    """The event that the outbox was read up to ``position`` for the delivery, and contained ``events`` in order."""

    position: int
    events: tuple[PendingEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class EventsLost:
    """The event that changes up to ``position`` were pruned before the delivery read them.

    ``reason`` is a message for people.
    """

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptPossible:
    """The event that a thread of ``pool``, in which the delivery was scheduled, is free."""

    pool: str


@dataclass(frozen=True, slots=True)
class AttemptRefused:
    """The event that nothing was sent, because this server had lost the lease before the attempt began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """The event that an attempt with ``sent`` events ended after ``took`` seconds. ``error`` is None if it succeeded.

    ``clock`` is the monotonic time of the end in seconds, and ``now`` the same time of day. ``chance`` is random, from
    0 to 1, and spreads backoffs.
    """

    sent: int
    error: DeliveryError | None
    took: float
    clock: float
    now: datetime
    chance: float


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The event that time has passed: ``clock`` is the monotonic time in seconds."""

    clock: float


@dataclass(frozen=True, slots=True)
class CheckpointDue:
    """The event that much of the outbox was read without events for the delivery.

    Its position should be stored, so that a restart need not read all of this again.
    """


@dataclass(frozen=True, slots=True)
class Hurried:
    """The event that the sink probably accepts events again, so that the backoff can be skipped."""


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """The event that rights changed after the pending events were read."""


Event = (
    Served
    | Deleted
    | LeaseLost
    | ServerStopped
    | EventsRead
    | EventsLost
    | AttemptPossible
    | AttemptRefused
    | AttemptEnded
    | TimePassed
    | CheckpointDue
    | Hurried
    | RightsChanged
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The action to queue the delivery for a thread of ``pool``. It receives ``AttemptPossible`` when one is free."""

    pool: str


@dataclass(frozen=True, slots=True)
class Send:
    """The action to send ``events`` in a thread of ``pool``.

    The delivery receives ``AttemptEnded`` or ``AttemptRefused`` afterwards.
    """

    subscription: Subscription
    pool: str
    events: tuple[JSONObject, ...]


@dataclass(frozen=True, slots=True)
class WakeAt:
    """The action to send ``TimePassed`` to the delivery at the monotonic time ``clock`` in seconds."""

    clock: float


@dataclass(frozen=True, slots=True)
class Read:
    """The action to read the outbox for the delivery, after ``position``."""

    selection: EventSelection
    position: int


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """The action to read the outbox after ``position`` again, because events from there were dropped."""

    position: int


@dataclass(frozen=True, slots=True)
class StopReading:
    """The action to stop reading the outbox for the delivery."""


@dataclass(frozen=True, slots=True)
class CloseSink:
    """The action to close the sink of the delivery, if it is open."""


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """The action to store ``state``. It is valid only for this ``revision``: an update may choose another start."""

    revision: int
    state: DeliveryState


@dataclass(frozen=True, slots=True)
class RemoveCheckpoint:
    """The action to delete the checkpoint of a deleted subscription."""


@dataclass(frozen=True, slots=True)
class Log:
    """The action to log ``text`` at a level of ``logging``."""

    level: int
    text: str


Action = (
    Schedule | Send | WakeAt | Read | ReadAgain | StopReading | CloseSink | WriteCheckpoint | RemoveCheckpoint | Log
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery to one subscription, as one server knows it.

    ``state`` is the state to store, except that its position may be old. ``read`` is the position up to which the
    outbox was read for the delivery, at least. ``pending`` are the events from there that are not delivered yet, oldest
    first. ``due`` is the monotonic time when a backoff ends. ``batch`` is the number of events in the next attempt.
    ``quick`` is True if the last attempt was quick, and None before the first one. ``deferred`` is applied when the
    current attempt has ended.
    """

    subscription: Subscription
    state: DeliveryState
    read: int
    phase: Phase = Phase.IDLE
    pending: tuple[PendingEvent, ...] = ()
    due: float = 0.0
    batch: int = 1
    quick: bool | None = None
    deferred: Ending | None = None

    @property
    def pool(self) -> str:
        """The pool for the next attempt: ``new`` before the first attempt, ``quick`` after a quick one, or ``slow``."""
        return NEW if self.quick is None else QUICK if self.quick else SLOW

    @property
    def position(self) -> int:
        """The outbox position up to which all events have been delivered or given up."""
        if self.phase is Phase.OVER:  # pending events were dropped without being delivered
            return self.state.position
        # A change counts only when all its events were handled. Until then a restart repeats it, rather than lose a
        # part of it.
        return max(self.state.position, self.pending[0][0] - 1 if self.pending else self.read)

    @property
    def checkpoint(self) -> DeliveryState:
        """The state to store, with the current position."""
        return replace(self.state, position=self.position)

    @property
    def expected(self) -> Subscription:
        """The subscription as it is served now or, after a deferred update, when the current attempt has ended."""
        return self.deferred.subscription if isinstance(self.deferred, Served) else self.subscription

    @property
    def leaving(self) -> bool:
        """True if this server stops delivering when the current attempt has ended."""
        return isinstance(self.deferred, Deleted | LeaseLost | ServerStopped)

    def has_room(self, limit: int) -> bool:
        """Return True if more events should be read: few are pending, and the sink is not failing."""
        return self.phase not in (Phase.WAITING, Phase.OVER) and len(self.pending) <= limit // 2


Step = tuple[Delivery | None, tuple[Action, ...]]


def step(delivery: Delivery | None, event: Event, backoff: Backoff) -> Step:
    """Return the delivery after ``event``, and the actions to perform, in order.

    The delivery is None if this server no longer serves the subscription. An event that does not fit the phase of the
    delivery changes nothing, because it may have been sent before the phase changed.
    """
    if isinstance(event, Ending):
        return _end(delivery, event)
    if delivery is None:
        return None, ()
    match event:
        case EventsRead() if delivery.phase is not Phase.OVER and delivery.read < event.position:
            return _schedule(replace(delivery, pending=delivery.pending + event.events, read=event.position))
        case EventsLost():
            lost = replace(delivery, state=replace(delivery.state, lasterror=event.reason))
            text = f"events up to {event.position} were pruned before they were delivered"
            return lost, (_write_checkpoint(lost), _log(lost, logging.WARNING, text))
        case CheckpointDue():
            return delivery, (_write_checkpoint(delivery),)
        case AttemptPossible():
            return _begin(delivery, event.pool)
        case AttemptRefused() if delivery.phase is Phase.SENDING:
            return _after_attempt(delivery)
        case AttemptEnded() if delivery.phase is Phase.SENDING:
            return _settle(delivery, event, backoff)
        case TimePassed() if delivery.phase is Phase.WAITING and delivery.due <= event.clock:
            return _schedule(replace(delivery, phase=Phase.IDLE))
        case Hurried() if delivery.phase is Phase.WAITING:
            return _schedule(replace(delivery, phase=Phase.IDLE))
        case RightsChanged() if delivery.pending and delivery.phase is not Phase.SENDING:
            return _reread(delivery)
    return delivery, ()


def _end(delivery: Delivery | None, event: Ending) -> Step:
    if delivery is not None and delivery.phase is Phase.SENDING:
        return _defer(delivery, event)
    if isinstance(event, Served):
        return _serve(delivery, event)
    if delivery is None:
        return None, ()
    if isinstance(event, ServerStopped):
        return None, (_write_checkpoint(delivery), StopReading())
    if isinstance(event, Deleted):
        return None, (StopReading(), CloseSink(), RemoveCheckpoint())
    return None, (StopReading(), CloseSink())


def _defer(delivery: Delivery, event: Ending) -> Step:
    """Keep ``event`` until the current attempt has ended, in place of an event that was deferred before."""
    before = delivery.deferred
    if isinstance(event, Served):
        if event.state is None and isinstance(before, Served):
            event = replace(event, state=before.state)  # the update before this one chose another start
        return replace(delivery, deferred=event), ()
    if isinstance(event, ServerStopped):
        # If the lease was lost or an update chose another start, the stored state is right already: write nothing.
        if delivery.leaving or _starts_elsewhere(before):
            return replace(delivery, deferred=before if delivery.leaving else LeaseLost()), ()
        # Write now, because the server may stop before the attempt ends.
        return replace(delivery, deferred=event), (_write_checkpoint(delivery),)
    return replace(delivery, deferred=event), (StopReading(),)


def _starts_elsewhere(event: Ending | None) -> bool:
    return isinstance(event, Served) and event.state is not None


def _serve(delivery: Delivery | None, event: Served) -> Step:
    """Begin to serve a subscription, or restart its delivery after an update."""
    actions: list[Action] = [] if delivery is None else [StopReading(), CloseSink()]
    state = event.state
    if state is None:
        assert delivery is not None  # only a delivery that is served already has a position to continue from
        state = resumed(delivery.checkpoint)
    if event.selection is None:
        state = replace(state, state=SUSPENDED, lasterror=event.fault)
    begun = Delivery(
        subscription=event.subscription,
        state=state,
        read=state.position,
        phase=Phase.OVER if state.over else Phase.IDLE,
        quick=False if state.failures else None,
    )
    if delivery is not None or event.selection is None:
        actions.append(_write_checkpoint(begun))
    if event.selection is None:
        actions.append(_log(begun, logging.WARNING, f"cannot be delivered to: {event.fault}"))
    elif not state.over:
        actions.append(Read(event.selection, state.position))
    return begun, tuple(actions)


def _begin(delivery: Delivery, pool: str) -> Step:
    """Begin an attempt. Its events stay pending until it has ended, so that none is lost if it fails."""
    # An entry in the queue of a pool may be outdated: an update restarts the delivery, perhaps in another pool.
    if delivery.phase is not Phase.READY or delivery.pool != pool:
        return delivery, ()
    events = tuple(event for _, event in delivery.pending[: delivery.batch])
    return replace(delivery, phase=Phase.SENDING), (Send(delivery.subscription, pool, events),)


def _schedule(delivery: Delivery) -> Step:
    """Schedule an attempt if events are pending, and no attempt is scheduled or running."""
    if delivery.phase is Phase.IDLE and delivery.pending:
        return replace(delivery, phase=Phase.READY), (Schedule(delivery.pool),)
    return delivery, ()


def _settle(delivery: Delivery, event: AttemptEnded, backoff: Backoff) -> Step:
    """Apply the result of an attempt."""
    if isinstance(delivery.deferred, Deleted | LeaseLost) or _starts_elsewhere(delivery.deferred):
        # The delivery continues from the stored state, or ends. After the lease was lost, another server may have got
        # further.
        return _after_attempt(delivery)
    error, delivered_count = event.error, event.sent
    if error is not None:
        delivered_count = min(error.delivered, event.sent)
        if error.rejected and delivered_count == event.sent:
            error = None  # no event is left that was rejected
    # Batches grow only while a sink is quick, so that the server need not wait long for an attempt when it stops.
    quick = event.took < _QUICK_SECONDS and (error is None or error.rejected)
    settled = replace(
        _drop_pending(delivery, delivered_count),
        state=delivered(delivery.state, delivered_count, event.now),
        quick=quick,
        batch=min(delivery.batch * 2, MAX_BATCH) if quick else max(1, delivery.batch // 4),
    )
    wait = 0.0
    if error is not None:
        state, wait = failed(settled.state, error, event.now, backoff, event.chance)
        settled = replace(_drop_pending(settled, 1 if error.rejected else 0), state=state)
    if settled.state.over:
        settled = replace(settled, state=settled.checkpoint, phase=Phase.OVER, pending=())
        return _after_attempt(settled, _write_checkpoint(settled), StopReading(), *_log_change(delivery, settled))
    actions: tuple[Action, ...] = _log_change(delivery, settled)
    if error is not None and is_broken(error) and len(settled.pending) > KEPT_ON_FAILURE:
        settled = _shorten(settled)
        actions = (ReadAgain(settled.read), *actions)
    return _after_attempt(settled, _write_checkpoint(settled), *actions, until=event.clock + wait if wait else None)


def _after_attempt(delivery: Delivery, *actions: Action, until: float | None = None) -> Step:
    """Apply the deferred event after an attempt. Without one, schedule the next attempt: now, or at ``until``."""
    phase = Phase.OVER if delivery.phase is Phase.OVER else Phase.IDLE if until is None else Phase.WAITING
    # Leave SENDING first: a deferred event or the next attempt needs a delivery without a current attempt.
    idle = replace(delivery, phase=phase, due=until or 0.0, deferred=None)
    more: tuple[Action, ...]
    after: Delivery | None
    if delivery.deferred is not None:
        after, more = _end(idle, delivery.deferred)
    elif until is not None:
        after, more = idle, (WakeAt(until),)
    else:
        after, more = _schedule(idle)
    return after, (*actions, *more)


def _reread(delivery: Delivery) -> Step:
    """Drop all pending events, to read them again. A scheduled attempt is cancelled, a backoff continues."""
    phase = Phase.IDLE if delivery.phase is Phase.READY else delivery.phase
    position = delivery.position
    return replace(delivery, phase=phase, pending=(), read=position), (ReadAgain(position),)


def is_broken(error: DeliveryError) -> bool:
    """Return True if the sink must be closed and opened again: the error is not about one event or about its rate."""
    return not error.rejected and not isinstance(error, NotYet)


def _drop_pending(delivery: Delivery, count: int) -> Delivery:
    return replace(delivery, pending=delivery.pending[count:]) if count else delivery


def _shorten(delivery: Delivery) -> Delivery:
    """Drop most pending events, to read them again later. The events of one change are kept or dropped together."""
    last = delivery.pending[KEPT_ON_FAILURE - 1][0]
    return replace(delivery, pending=tuple(entry for entry in delivery.pending if entry[0] <= last), read=last)


def _write_checkpoint(delivery: Delivery) -> WriteCheckpoint:
    return WriteCheckpoint(delivery.subscription.revision, delivery.checkpoint)


def _log_change(before: Delivery, after: Delivery) -> tuple[Log, ...]:
    """Log when a sink stops taking events and when it takes them again, not each attempt."""
    state, failed_before = after.state, before.state.state == RETRYING
    if state.over:
        return (_log(after, logging.WARNING, f"deliveries are {state.state}: {state.lasterror}"),)
    if state.state == RETRYING and not failed_before:
        return (_log(after, logging.WARNING, f"the sink takes no events, will retry: {state.lasterror}"),)
    if failed_before and not state.failures:
        return (_log(after, logging.INFO, "the sink takes events again"),)
    return ()


def _log(delivery: Delivery, level: int, text: str) -> Log:
    return Log(level, f"subscription {delivery.subscription.id}: {text}")
