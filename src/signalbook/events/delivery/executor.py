"""The executor of attempts: pools of threads, so that slow or dead sinks wait for each other and for nobody else."""

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
from signalbook.events.delivery.backoff import Backoff
from signalbook.events.delivery.queue import DeliveryQueue, DeliveryQueues, Phase
from signalbook.events.sinks.base import DeliveryError, NotYet, Sink
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import RETRYING

Work = Callable[[], None]

_LOG = logging.getLogger("signalbook.delivery")


class WorkerPool:
    """At most ``threads`` threads that do work in the order in which it was given; one is started when it is needed.

    No ``ThreadPoolExecutor``: at the end of the process that waits for its threads, and a sink may not answer for long.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def put(self, work: Work) -> None:
        """Have ``work`` done in its turn."""
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
        """End the threads after the work they are doing, without waiting for them."""
        for _ in range(self._most):
            self._queue.put(None)

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:
                _LOG.exception("unexpected error in a delivery")
            with self._lock:
                self._idle += 1


_POOLS: Final = {"new": 8, "quick": 16, "slow": 16}
_MAX_OPEN: Final = 200
"""Sinks that stay open: each may be a connection, of which a process may have only so many."""

OpenSink = Callable[[Subscription], Sink]


class AttemptExecutor:
    """Makes the attempts for ``queues``. ``open`` opens a sink; ``may`` says whether this server may send now.

    ``attempt_ended`` is called after each attempt, without holding the lock.
    """

    def __init__(
        self,
        queues: DeliveryQueues,
        open: OpenSink,
        backoff: Backoff,
        *,
        may: Callable[[], bool],
        attempt_ended: Callable[[DeliveryQueue], None],
    ) -> None:
        self._queues = queues
        self._open_sink = open
        self._backoff = backoff
        self._may = may
        self._attempt_ended = attempt_ended
        self._pools = {name: WorkerPool(name, threads) for name, threads in _POOLS.items()}
        self._waiting: list[tuple[float, int, DeliveryQueue]] = []
        self._numbers = count()
        self._opened: OrderedDict[DeliveryQueue, None] = OrderedDict()
        self._idle = threading.Condition(queues.lock)
        self._sending = 0
        self._finished = False

    def offer(self, queue: DeliveryQueue) -> None:
        """Schedule an attempt if events are pending, and none is scheduled or under way."""
        with self._queues.lock:
            self._offer(queue)

    def wake(self) -> float | None:
        """Schedule those whose backoff is over; returns the seconds until the next one's is, if one waits."""
        with self._queues.lock:
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, queue = heapq.heappop(self._waiting)
                if queue.phase is Phase.WAITING and queue.due <= time.monotonic():
                    queue.phase = Phase.IDLE
                    self._queues.stirred = True
                    self._offer(queue)
            return max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None

    def hurry(self, queue: DeliveryQueue) -> None:
        """End the backoff now."""
        with self._queues.lock:
            if queue.phase is Phase.WAITING:
                queue.phase = Phase.IDLE
                self._queues.stirred = True
                self._offer(queue)

    def dismiss(self, queue: DeliveryQueue) -> None:
        """Close the sink of a queue that is no longer served; no attempt may be under way."""
        with self._queues.lock:
            sink, queue.sink = queue.sink, None
            self._opened.pop(queue, None)
        _close(sink)

    def finish(self, seconds: float) -> None:
        """End the threads: attempts under way have ``seconds`` to end, and no other begins."""
        self._finished = True
        for pool in self._pools.values():
            pool.close()
        with self._idle:
            self._idle.wait_for(lambda: not self._sending, seconds)
            left = list(self._opened)
        for queue in left:
            if queue.phase is not Phase.SENDING:
                self.dismiss(queue)

    def _offer(self, queue: DeliveryQueue) -> None:
        if queue.phase is Phase.IDLE and queue.pending and not queue.outdated:
            queue.phase = Phase.READY
            self._pools[queue.pool].put(lambda: self._attempt(queue))

    def _attempt(self, queue: DeliveryQueue) -> None:
        with self._queues.lock:
            if queue.phase is not Phase.READY:
                return
            if queue.outdated or self._finished or not self._may():
                queue.phase = Phase.IDLE
                return
            events = queue.begin()
            self._sending += 1
        began = time.monotonic()
        error: DeliveryError | None = None
        try:
            self._opened_sink(queue).send(events)
        except DeliveryError as raised:
            error = raised
        except Exception as raised:
            _LOG.exception("subscription %s: unexpected error", queue.id)
            error = DeliveryError(f"unexpected {type(raised).__name__}")
        self._settle(queue, len(events), error, time.monotonic() - began)
        self._attempt_ended(queue)

    def _settle(self, queue: DeliveryQueue, sent: int, error: DeliveryError | None, took: float) -> None:
        broken = error is not None and not error.rejected and not isinstance(error, NotYet)
        sink: Sink | None = None
        with self._idle:
            before = queue.state
            wait = queue.settle(sent, error, took, values.now(), self._backoff)
            if broken:
                sink, queue.sink = queue.sink, None
                self._opened.pop(queue, None)
                if queue.shorten():
                    self._queues.fall_back(queue)
            if queue.phase is Phase.WAITING:
                queue.due = time.monotonic() + wait
                heapq.heappush(self._waiting, (queue.due, next(self._numbers), queue))
            self._queues.stirred = True
            self._offer(queue)
            self._sending -= 1
            self._idle.notify_all()
        _close(sink)
        _log_change(queue, before.state != RETRYING)

    def _opened_sink(self, queue: DeliveryQueue) -> Sink:
        """The open sink of a queue; the least recently used one is closed where too many are open."""
        surplus: Sink | None = None
        if queue.sink is None:
            queue.sink = self._open_sink(queue.subscription)
        with self._queues.lock:
            self._opened[queue] = None
            self._opened.move_to_end(queue)
            if len(self._opened) > _MAX_OPEN:
                idle = next((other for other in self._opened if other.phase is not Phase.SENDING), None)
                if idle is not None:
                    surplus, idle.sink = idle.sink, None
                    del self._opened[idle]
        _close(surplus)
        return queue.sink


def _close(sink: Sink | None) -> None:
    if sink is not None:
        with suppress(Exception):  # it is given up: errors of closing it are of no use
            sink.close()


def _log_change(queue: DeliveryQueue, well_before: bool) -> None:
    """Log when a sink stops taking events and when it takes them again, not each attempt."""
    state = queue.state
    if state.over:
        _LOG.warning("subscription %s: deliveries are %s: %s", queue.id, state.state, state.lasterror)
    elif state.state == RETRYING and well_before:
        _LOG.warning("subscription %s: the sink takes no events, will retry: %s", queue.id, state.lasterror)
    elif not well_before and not state.failures:
        _LOG.info("subscription %s: the sink takes events again", queue.id)
