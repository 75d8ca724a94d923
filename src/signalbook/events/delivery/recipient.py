"""One subscription in a relay: what waits for its sink, and what becomes of each attempt."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from signalbook.events.delivery import progress
from signalbook.events.delivery.interest import Interest
from signalbook.events.delivery.progress import Retries
from signalbook.events.delivery.state import State
from signalbook.events.dialects import Dialect
from signalbook.events.sinks.base import DeliveryError, Sink
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.values import JSONObject

MOST_AT_ONCE: Final = 64
"""Events handed to a sink in one go: what a kill may have delivered again, at most, beside the last second."""
KEPT: Final = 16
"""Events that stay in memory for a sink that fails; the others are read again when it works."""
_QUICK: Final = 0.5


class Phase(Enum):
    """What is going on with a recipient."""

    IDLE = auto()
    READY = auto()
    SENDING = auto()
    WAITING = auto()
    OVER = auto()


class Recipient:
    """One subscription's queue and state. Whoever uses it holds the relay's lock, but for ``sink``.

    ``scanned`` is the outbox position up to which events were looked at for it; while it keeps up with the others,
    theirs counts instead (``Roster``). ``cuts`` counts how often something that was read did not stay in the queue;
    ``outdated`` says that the subscription has changed meanwhile; ``due`` is when a waiting one is to be tried again;
    ``kept`` is the position that was written down last.
    """

    def __init__(self, subscription: Subscription, interest: Interest, dialect: Dialect | None, state: State) -> None:
        self.subscription = subscription
        self.interest = interest
        self.dialect = dialect
        self.state = state
        self.scanned = state.position
        self.pending: deque[tuple[int, JSONObject]] = deque()
        self.phase = Phase.OVER if state.over else Phase.IDLE
        self.due = 0.0
        self.outdated = False
        self.cuts = 0
        self.sink: Sink | None = None
        self._batch = 1
        self._quick: bool | None = False if state.failures else None
        self.kept = state.position

    @property
    def id(self) -> str:
        """The subscription's."""
        return self.subscription.id

    @property
    def lane(self) -> str:
        """``new`` before the first attempt, ``quick`` if the last one was, else ``slow``."""
        return "new" if self._quick is None else "quick" if self._quick else "slow"

    @property
    def position(self) -> int:
        """Everything up to here is done with, if nothing is pending and ``scanned`` is right."""
        return max(self.state.position, self.pending[0][0] - 1 if self.pending else self.scanned)

    def room(self, limit: int) -> bool:
        """Whether more events should be read for it: not while its sink fails."""
        return self.phase not in (Phase.WAITING, Phase.OVER) and len(self.pending) <= limit // 2

    def begin(self) -> list[JSONObject]:
        """The events of the next attempt; they stay pending until ``settle``."""
        self.phase = Phase.SENDING
        return [event for _, event in list(self.pending)[: self._batch]]

    def settle(self, sent: int, error: DeliveryError | None, took: float, now: datetime, retries: Retries) -> float:
        """Note what became of an attempt with ``sent`` events that took so many seconds. Returns seconds to wait."""
        taken = sent if error is None else min(error.delivered, sent)
        if error is not None and error.rejected and taken == sent:
            error = None  # there is none left that it could be about
        self._done(taken)
        self.state = progress.delivered(self.state, taken, now)
        self._measure(error, took)
        wait = 0.0
        if error is not None:
            self.state, wait = progress.failed(self.state, error, now, retries)
            if error.rejected:
                self._done(1)
        self._turn(wait)
        return wait

    def _done(self, count: int) -> None:
        for _ in range(min(count, len(self.pending))):
            self.scanned = max(self.scanned, self.pending.popleft()[0])

    def _measure(self, error: DeliveryError | None, took: float) -> None:
        """Batches grow while a sink is quick, so that it need not be waited for long when the server stops."""
        self._quick = took < _QUICK and (error is None or error.rejected)
        self._batch = min(self._batch * 2, MOST_AT_ONCE) if self._quick else max(1, self._batch // 4)

    def _turn(self, wait: float) -> None:
        if self.state.over:
            self.state = replace(self.state, position=self.position)
            self.pending.clear()
            self.phase = Phase.OVER
        else:
            self.phase = Phase.WAITING if wait else Phase.IDLE

    def shorten(self) -> bool:
        """Forget most of what is pending, to be read again: whether anything was forgotten."""
        if len(self.pending) <= KEPT:
            return False
        self.cuts += 1
        last = self.pending[KEPT - 1][0]
        while self.pending[-1][0] > last:
            self.pending.pop()
        self.scanned = last
        return True
