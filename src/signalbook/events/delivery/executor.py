"""Make delivery attempts in pools of threads, so that slow or dead sinks delay only each other."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from typing import Final, NamedTuple

from signalbook import tracing, values
from signalbook.events.delivery.machine import NEW, QUICK, SLOW, AttemptEnded, AttemptRefused, Send, is_broken
from signalbook.events.sinks.base import DeliveryError, Sink
from signalbook.events.subscription import Subscription
from signalbook.metrics import DELIVERED_EVENTS, DELIVERY_ATTEMPTS
from signalbook.storage.base import StorageError

Work = Callable[[], None]

_LOG = logging.getLogger("signalbook.delivery")


class WorkerPool:
    """A pool of at most ``threads`` threads that do work in order. A thread is started when it is needed.

    ``ThreadPoolExecutor`` is no alternative: at the end of the process it waits for its threads, and a sink may not
    answer for a long time.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._most = threads
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def put(self, work: Work) -> None:
        """Queue ``work``."""
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


POOLS: Final = {NEW: 8, QUICK: 16, SLOW: 16}
"""The pools of threads, and how many attempts may be under way at once in each."""
_MAX_OPEN: Final = 200
"""The maximum number of open sinks. Each may be a connection, and their number in a process is limited."""
_CLOSING_THREADS: Final = 2
_CLOSE_SECONDS: Final = 10.0

OpenSink = Callable[[Subscription], Sink]


class AttemptResult(NamedTuple):
    """The result of an attempt for the subscription ``id``, with the sink if it can be used again."""

    id: str
    event: AttemptEnded | AttemptRefused
    sink: Sink | None


class _IdleSink(NamedTuple):
    """An open sink that is not in use, and the ``place`` that it delivers to."""

    sink: Sink
    place: str


class AttemptExecutor:
    """Makes attempts and keeps sinks open between them. Only the dispatcher's thread calls its methods.

    ``open`` opens a sink. ``may`` returns True if this server may send now. ``ended`` receives each result, in the
    thread that made the attempt. A sink in use belongs to that thread, so no locks are needed here.
    """

    def __init__(self, open: OpenSink, *, may: Callable[[], bool], ended: Callable[[AttemptResult], None]) -> None:
        self._open = open
        self._may = may
        self._ended = ended
        self._pools = {name: WorkerPool(name, threads) for name, threads in POOLS.items()}
        # Some sinks take seconds to close, which the dispatcher has no time for.
        self._closers = WorkerPool("close", _CLOSING_THREADS)
        self._closing: dict[str, threading.Event] = {}
        self._under_way: dict[str, Send] = {}
        self._attempts: Counter[str] = Counter()
        self._idle: OrderedDict[str, _IdleSink] = OrderedDict()

    def has_room(self, pool: str) -> bool:
        """Return True if a thread of ``pool`` is idle."""
        return self._attempts[pool] < POOLS[pool]

    def send(self, id: str, attempt: Send) -> None:
        """Make an attempt for the subscription ``id``. No other attempt for ``id`` may be under way."""
        assert id not in self._under_way
        self._under_way[id] = attempt
        self._attempts[attempt.pool] += 1
        idle = self._idle.pop(id, None)
        self._close_surplus()
        sink, closing = idle.sink if idle else None, self._closing.get(attempt.subscription.sink)
        self._pools[attempt.pool].put(lambda: self._make_attempt(id, attempt, sink, closing))

    def take_back(self, result: AttemptResult) -> None:
        """Handle the end of an attempt: its thread is free, and its sink is kept open for the next attempt."""
        attempt = self._under_way.pop(result.id)
        self._attempts[attempt.pool] -= 1
        if result.sink is not None:
            self._idle[result.id] = _IdleSink(result.sink, attempt.subscription.sink)
            self._close_surplus()

    def close(self, id: str) -> None:
        """Close the sink of a subscription, if it is open and not in use."""
        idle = self._idle.pop(id, None)
        if idle is None:
            return
        closed = threading.Event()
        self._closing = {place: event for place, event in self._closing.items() if not event.is_set()}
        self._closing[idle.place] = closed

        def close() -> None:
            _close(idle.sink)
            closed.set()

        self._closers.put(close)

    def finish(self) -> None:
        """End the threads, without waiting for attempts that are under way, and close the other sinks."""
        for pool in (*self._pools.values(), self._closers):
            pool.close()
        for idle in self._idle.values():
            _close(idle.sink)

    def _close_surplus(self) -> None:
        """Close the least recently used idle sinks while too many sinks are open."""
        while self._idle and len(self._idle) + len(self._under_way) > _MAX_OPEN:
            self.close(next(iter(self._idle)))

    def _make_attempt(self, id: str, attempt: Send, sink: Sink | None, closing: threading.Event | None) -> None:
        if sink is None and closing is not None:
            # A file, for instance, can have only one sink at a time: the sink of an updated subscription waits until
            # the previous sink is closed.
            closing.wait(_CLOSE_SECONDS)
        # Checked again as late as possible: the thread may have waited for longer than the lease lasts.
        if not self._may():
            self._ended(AttemptResult(id, AttemptRefused(), sink))
            return
        began = time.monotonic()
        error: DeliveryError | None = None
        try:
            if sink is None:
                sink = self._open(attempt.subscription)
            with _trace(id, attempt):
                sink.send(attempt.events)
        except DeliveryError as raised:
            error = raised
        except StorageError as raised:  # whether the sink consented is stored
            error = DeliveryError(f"the database could not be asked: {raised.shown}")
        except Exception as raised:
            _LOG.exception("subscription %s: unexpected error", id)
            error = DeliveryError(f"unexpected {type(raised).__name__}")
        ended = time.monotonic()
        _count(attempt, error)
        if sink is not None and error is not None and is_broken(error):
            _close(sink)
            sink = None
        result = AttemptEnded(
            sent=len(attempt.events),
            error=error,
            took=ended - began,
            clock=ended,
            now=values.now(),
            chance=random.random(),  # noqa: S311 - no secret
        )
        self._ended(AttemptResult(id, result, sink))


def _trace(id: str, attempt: Send) -> AbstractContextManager[object]:
    """Return the span of an attempt: a part of the first event's trace, linked with the traces of the other events."""
    if not tracing.tracing():
        return nullcontext()
    requests = tracing.correlated(str(event.get("xregcorrelationid", "")) for event in attempt.events)
    about: tracing.Attributes = {
        "signalbook.subscription": id,
        "signalbook.protocol": attempt.subscription.protocol,
        "signalbook.events": len(attempt.events),
    }
    return tracing.span("deliver", about, parent=requests[0] if requests else None, links=requests[1:])


def _count(attempt: Send, error: DeliveryError | None) -> None:
    protocol = attempt.subscription.protocol
    result = "rejected" if error and error.rejected else "failed" if error else "delivered"
    DELIVERY_ATTEMPTS.labels(protocol, result).inc()
    DELIVERED_EVENTS.labels(protocol).inc(error.delivered if error else len(attempt.events))


def _close(sink: Sink) -> None:
    with suppress(Exception):  # the sink is no longer used, so errors while closing it do not matter
        sink.close()
