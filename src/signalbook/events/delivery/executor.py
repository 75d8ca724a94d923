"""Threads that deliver, in lanes, so that those who are slow or dead wait for each other and for nobody else."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from typing import Final

from signalbook import values
from signalbook.events.delivery.queue import Phase, Recipient, Retries, Roster
from signalbook.events.sinks.base import DeliveryError, NotYet, Sink
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import RETRYING

Work = Callable[[], None]

_LOG = logging.getLogger("signalbook.delivery")


class Lane:
    """At most ``threads`` at work, in the order in which work was given. A thread is made when it is needed."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def put(self, work: Work) -> None:
        """Do ``work``, which raises nothing, when it is its turn."""
        with self._lock:
            self._queue.put(work)
            if self._idle:
                self._idle -= 1
                return
            if self._threads == self._most:
                return
            self._threads += 1
        # Daemons: a sink that does not answer must not keep the process from ending.
        threading.Thread(target=self._serve, name=f"deliver-{self._name}", daemon=True).start()

    def close(self) -> None:
        """End the threads once they have done what they do, without waiting for them."""
        for _ in range(self._most):
            self._queue.put(None)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                _LOG.exception("a delivery failed in a way that nobody thought of")
            with self._lock:
                self._idle += 1


_LANES: Final = {"new": 8, "quick": 16, "slow": 16}
_OPEN: Final = 200
"""Sinks that stay open: each may be a connection, and a process has so many."""

Open = Callable[[Subscription], Sink]


class Senders:
    """The threads that deliver for a ``Roster``. ``open`` opens a sink; ``may`` says whether to send at all, now.

    ``settled`` is called after each attempt, without the lock.
    """

    def __init__(
        self,
        roster: Roster,
        open: Open,
        retries: Retries,
        *,
        may: Callable[[], bool],
        settled: Callable[[Recipient], None],
    ) -> None:
        self._roster = roster
        self._open_sink = open
        self._retries = retries
        self._may = may
        self._settled = settled
        self._lanes = {name: Lane(name, threads) for name, threads in _LANES.items()}
        self._waiting: list[tuple[float, int, Recipient]] = []
        self._numbers = count()
        self._opened: OrderedDict[Recipient, None] = OrderedDict()
        self._idle = threading.Condition(roster.lock)
        self._sending = 0
        self._finished = False

    def offer(self, recipient: Recipient) -> None:
        """Deliver to it if there is something, and nobody is at it."""
        with self._roster.lock:
            self._offer(recipient)

    def wake(self) -> float | None:
        """Try again those whose time has come; the seconds until the next one's has, if there is one."""
        with self._roster.lock:
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, recipient = heapq.heappop(self._waiting)
                if recipient.phase is Phase.WAITING and recipient.due <= time.monotonic():
                    recipient.phase = Phase.IDLE
                    self._roster.stirred = True
                    self._offer(recipient)
            return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def hurry(self, recipient: Recipient) -> None:
        """Try again now, whatever it waits for."""
        with self._roster.lock:
            if recipient.phase is Phase.WAITING:
                recipient.phase = Phase.IDLE
                self._roster.stirred = True
                self._offer(recipient)

    def dismiss(self, recipient: Recipient) -> None:
        """Close the sink of one that is not served any more, and that nobody is at."""
        with self._roster.lock:
            sink, recipient.sink = recipient.sink, None
            self._opened.pop(recipient, None)
        _close(sink)

    def finish(self, seconds: float) -> None:
        """End the threads; attempts under way have ``seconds`` to come to their end, and no other begins."""
        self._finished = True
        for lane in self._lanes.values():
            lane.close()
        with self._idle:
            self._idle.wait_for(lambda: not self._sending, seconds)
            left = list(self._opened)
        for recipient in left:
            if recipient.phase is not Phase.SENDING:
                self.dismiss(recipient)

    def _offer(self, recipient: Recipient) -> None:
        if recipient.phase is Phase.IDLE and recipient.pending and not recipient.outdated:
            recipient.phase = Phase.READY
            self._lanes[recipient.lane].put(lambda: self._attempt(recipient))

    def _attempt(self, recipient: Recipient) -> None:
        with self._roster.lock:
            if recipient.phase is not Phase.READY:
                return
            if recipient.outdated or self._finished or not self._may():
                recipient.phase = Phase.IDLE
                return
            events = recipient.begin()
            self._sending += 1
        began = time.monotonic()
        error: DeliveryError | None = None
        try:
            self._opened_sink(recipient).send(events)
        except DeliveryError as raised:
            error = raised
        except Exception as raised:
            _LOG.exception("subscription %s: delivering failed in a way that nobody thought of", recipient.id)
            error = DeliveryError(f"unexpected {type(raised).__name__}")
        self._settle(recipient, len(events), error, time.monotonic() - began)
        self._settled(recipient)

    def _settle(self, recipient: Recipient, sent: int, error: DeliveryError | None, took: float) -> None:
        broken = error is not None and not error.rejected and not isinstance(error, NotYet)
        sink: Sink | None = None
        with self._idle:
            before = recipient.state
            wait = recipient.settle(sent, error, took, values.now(), self._retries)
            if broken:
                sink, recipient.sink = recipient.sink, None
                self._opened.pop(recipient, None)
                if recipient.shorten():
                    self._roster.fall_behind(recipient)
            if recipient.phase is Phase.WAITING:
                recipient.due = time.monotonic() + wait
                heapq.heappush(self._waiting, (recipient.due, next(self._numbers), recipient))
            self._roster.stirred = True
            self._offer(recipient)
            self._sending -= 1
            self._idle.notify_all()
        _close(sink)
        _tell(recipient, before.state != RETRYING)

    def _opened_sink(self, recipient: Recipient) -> Sink:
        """The recipient's sink; that which was not used for longest is closed where too many are open."""
        surplus: Sink | None = None
        if recipient.sink is None:
            recipient.sink = self._open_sink(recipient.subscription)
        with self._roster.lock:
            self._opened[recipient] = None
            self._opened.move_to_end(recipient)
            if len(self._opened) > _OPEN:
                idle = next((other for other in self._opened if other.phase is not Phase.SENDING), None)
                if idle is not None:
                    surplus, idle.sink = idle.sink, None
                    del self._opened[idle]
        _close(surplus)
        return recipient.sink


def _close(sink: Sink | None) -> None:
    if sink is not None:
        with suppress(Exception):  # it is given up; what it still has to say is of no use
            sink.close()


def _tell(recipient: Recipient, well_before: bool) -> None:
    """The log hears when a sink stops and when it comes back, not of each attempt."""
    state = recipient.state
    if state.over:
        _LOG.warning("subscription %s: deliveries end, %s: %s", recipient.id, state.state, state.lasterror)
    elif state.state == RETRYING and well_before:
        _LOG.warning("subscription %s: the sink takes nothing, to be retried: %s", recipient.id, state.lasterror)
    elif not well_before and not state.failures:
        _LOG.info("subscription %s: the sink takes events again", recipient.id)
