"""Delivery queues: what waits for each sink, and which queue gets an event; guarded by one lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from signalbook.events.delivery.backoff import Backoff, delivered, failed
from signalbook.events.delivery.interest import Interest, InterestIndex
from signalbook.events.dialects import EventDialect
from signalbook.events.sinks.base import DeliveryError, Sink
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import DeliveryState, Record
from signalbook.values import JSONObject

MAX_BATCH: Final = 64
"""Events handed to a sink in one go: what a kill may have delivered again, at most, beside the last second."""
KEPT_ON_FAILURE: Final = 16
"""Events that stay in memory for a sink that fails; the others are read again when it works."""
_QUICK_SECONDS: Final = 0.5


class Phase(Enum):
    """Where a queue is: nothing to do, attempt scheduled, attempt under way, in backoff, or given up."""

    IDLE = auto()
    READY = auto()
    SENDING = auto()
    WAITING = auto()
    OVER = auto()


class DeliveryQueue:
    """The pending events of one subscription and its delivery state. Hold the lock of ``DeliveryQueues``, but for
    ``sink``.

    ``scanned`` is the outbox position up to which records were matched for it; while it is current, the shared cursor
    counts instead (``DeliveryQueues``). ``cuts`` counts how often something that was read did not stay in the queue;
    ``outdated`` says that the subscription has changed meanwhile; ``due`` is when a backoff ends; ``checkpointed`` is
    the position that was written to the store last.
    """

    def __init__(
        self, subscription: Subscription, interest: Interest, dialect: EventDialect | None, state: DeliveryState
    ) -> None:
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
        self.checkpointed = state.position

    @property
    def id(self) -> str:
        """The subscription's."""
        return self.subscription.id

    @property
    def pool(self) -> str:
        """``new`` before the first attempt, ``quick`` if the last one was, else ``slow``."""
        return "new" if self._quick is None else "quick" if self._quick else "slow"

    @property
    def position(self) -> int:
        """The outbox position up to which everything is done with."""
        return max(self.state.position, self.pending[0][0] - 1 if self.pending else self.scanned)

    def room(self, limit: int) -> bool:
        """Whether more events should be read for it: not while its sink fails."""
        return self.phase not in (Phase.WAITING, Phase.OVER) and len(self.pending) <= limit // 2

    def begin(self) -> list[JSONObject]:
        """The events of the next attempt; they stay pending until ``settle``."""
        self.phase = Phase.SENDING
        return [event for _, event in list(self.pending)[: self._batch]]

    def settle(self, sent: int, error: DeliveryError | None, took: float, now: datetime, backoff: Backoff) -> float:
        """Apply the result of an attempt with ``sent`` events that took so many seconds. Returns seconds to wait."""
        taken = sent if error is None else min(error.delivered, sent)
        if error is not None and error.rejected and taken == sent:
            error = None  # there is none left that it could be about
        self._done(taken)
        self.state = delivered(self.state, taken, now)
        self._measure(error, took)
        wait = 0.0
        if error is not None:
            self.state, wait = failed(self.state, error, now, backoff)
            if error.rejected:
                self._done(1)
        self._turn(wait)
        return wait

    def _done(self, count: int) -> None:
        for _ in range(min(count, len(self.pending))):
            self.scanned = max(self.scanned, self.pending.popleft()[0])

    def _measure(self, error: DeliveryError | None, took: float) -> None:
        """Batches grow while a sink is quick, so that it need not be waited for long when the server stops."""
        self._quick = took < _QUICK_SECONDS and (error is None or error.rejected)
        self._batch = min(self._batch * 2, MAX_BATCH) if self._quick else max(1, self._batch // 4)

    def _turn(self, wait: float) -> None:
        if self.state.over:
            self.state = replace(self.state, position=self.position)
            self.pending.clear()
            self.phase = Phase.OVER
        else:
            self.phase = Phase.WAITING if wait else Phase.IDLE

    def shorten(self) -> bool:
        """Drop most of what is pending, to be read again later; whether anything was dropped."""
        if len(self.pending) <= KEPT_ON_FAILURE:
            return False
        self.cuts += 1
        last = self.pending[KEPT_ON_FAILURE - 1][0]
        while self.pending[-1][0] > last:
            self.pending.pop()
        self.scanned = last
        return True


WINDOW: Final = 500
_IN_MEMORY: Final = 50_000
_MIN_LIMIT: Final = 32
_MAX_LIMIT: Final = 1000

ReadOutbox = Callable[[int, int], Sequence[Record]]
QueueCuts = dict[DeliveryQueue, int]
IsCurrent = Callable[[DeliveryQueue], bool]


class DeliveryQueues:
    """The queues of one server. One thread reads into them; ``lock`` guards what the executor's threads use.

    Current queues share one ``cursor``, and one read of the outbox. A queue that is full, or whose sink fails, falls
    behind: it has a position of its own, and is read for again when it has room, several at once where they are near
    each other. ``stirred`` says that one of these may have got room since the last look.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, DeliveryQueue] = {}
        self.cursor = 0
        self.more = False
        self.stirred = False
        self._indexes: dict[str, tuple[EventDialect, InterestIndex[DeliveryQueue]]] = {}
        self._current: dict[DeliveryQueue, None] = {}
        self._behind: dict[DeliveryQueue, None] = {}

    def add(self, queue: DeliveryQueue) -> None:
        """Serve a queue from the position of its state on."""
        self.members[queue.subscription.id] = queue
        dialect = queue.dialect
        if queue.phase is Phase.OVER or dialect is None:
            return
        _, index = self._indexes.setdefault(dialect.source, (dialect, InterestIndex()))
        index.add(queue, queue.interest.keys)
        with self.lock:
            self._behind[queue] = None
            self.stirred = True

    def remove(self, queue: DeliveryQueue) -> None:
        """Stop serving a queue."""
        if self.members.get(queue.subscription.id) is queue:
            del self.members[queue.subscription.id]
        with self.lock:
            queue.pending.clear()
            queue.phase = Phase.OVER
        self.stop_reading(queue)

    def stop_reading(self, queue: DeliveryQueue) -> None:
        """Read no more for a queue that is given up; it stays a member."""
        with self.lock:
            served = queue in self._current or queue in self._behind
            self._current.pop(queue, None)
            self._behind.pop(queue, None)
        if served and queue.dialect is not None:
            self._indexes[queue.dialect.source][1].remove(queue, queue.interest.keys)

    def fall_back(self, queue: DeliveryQueue) -> None:
        """What was dropped from a queue is to be read again. With the lock held."""
        if queue in self._current:
            del self._current[queue]
            self._behind[queue] = None
            self.stirred = True

    def state(self, queue: DeliveryQueue) -> DeliveryState:
        """The state to write to the store. With the lock held."""
        if queue.phase is Phase.OVER:  # what was pending is dropped, and yet not delivered
            return queue.state
        if queue in self._current and not queue.pending:
            return replace(queue.state, position=max(queue.state.position, self.cursor))
        return replace(queue.state, position=queue.position)

    def read(self, outbox: ReadOutbox) -> list[DeliveryQueue]:
        """Read a window for the current queues and one for those behind; returns who has something to send.

        ``outbox`` as ``Engine.outbox``: after its ``HistoryPruned`` call ``skip``. Call again as long as ``more``.
        """
        before = self.cursor
        given = self._read_current(outbox)
        behind = self._with_room() if self.stirred else {}
        if behind:
            given += self._read_behind(outbox, behind)
        self.more = bool(behind) or self.cursor != before
        return given

    def skip(self, position: int, why: str) -> list[DeliveryQueue]:
        """Changes up to ``position`` were pruned. Returns the queues that missed some; their states say ``why``."""
        with self.lock:
            missing = [member for member in self._behind if member.scanned < position]
            for member in missing:
                member.scanned = position
                member.state = replace(member.state, lasterror=why)
            if self._current and self.cursor < position:
                self.cursor = position
                missing += self._current
        return missing

    def _read_current(self, outbox: ReadOutbox) -> list[DeliveryQueue]:
        records = outbox(self.cursor, WINDOW) if self._current else ()
        if not records:
            return []
        # A queue that was cut meanwhile is not current any more.
        given = self._give(records, self._current, lambda member: member in self._current)
        self.cursor = records[-1].position
        return given

    def _read_behind(self, outbox: ReadOutbox, members: QueueCuts) -> list[DeliveryQueue]:
        start = min(member.scanned for member in members)
        records = outbox(start, WINDOW)
        ended = len(records) < WINDOW
        if self._current:
            ended = ended or records[-1].position >= self.cursor
            records = [record for record in records if record.position <= self.cursor]
        end = records[-1].position if records else start
        if ended and self._current:
            end = max(end, self.cursor)
        near = {member: cuts for member, cuts in members.items() if member.scanned <= end}
        given = self._give(records, near, lambda member: member.cuts == near[member])
        self._move(near, end, ended)
        return given

    def _with_room(self) -> dict[DeliveryQueue, int]:
        limit = self._limit()
        with self.lock:
            found = {member: member.cuts for member in self._behind if member.room(limit)}
            self.stirred = bool(found)
        return found

    def _move(self, members: QueueCuts, end: int, ended: bool) -> None:
        """Queues that were not filled up have everything up to ``end``; at the outbox's end they become current."""
        with self.lock:
            if ended and not self._current:
                self.cursor = end
            for member, cuts in members.items():
                if member.cuts == cuts and member in self._behind:
                    member.scanned = max(member.scanned, end)
                    if ended:
                        del self._behind[member]
                        self._current[member] = None

    def _give(
        self, records: Sequence[Record], members: Container[DeliveryQueue], still: IsCurrent
    ) -> list[DeliveryQueue]:
        """Sort ``records`` into the queues of ``members``; who is full goes behind.

        A queue that was cut meanwhile, so that it is not ``still`` what it was, gets nothing: a part of what it had is
        to be read again first.
        """
        limit = self._limit()
        found: dict[DeliveryQueue, list[tuple[int, JSONObject]]] = {}
        full: dict[DeliveryQueue, int] = {}
        for record in records:
            takers = [taken for taken in self._takers(record, members) if taken[0] not in full]
            for member, event in takers:
                found.setdefault(member, []).append((record.position, event))
            for member, _ in takers:
                if len(member.pending) + len(found[member]) >= limit:
                    full[member] = record.position
        with self.lock:
            for member, events in found.items():
                if still(member) and member.phase is not Phase.OVER:
                    member.pending.extend(events)
                    if member in full:
                        self.fall_back(member)
                        member.cuts += 1
                        member.scanned = full[member]
        return list(found)

    def _takers(self, record: Record, members: Container[DeliveryQueue]) -> Iterator[tuple[DeliveryQueue, JSONObject]]:
        for dialect, index in self._indexes.values():
            for event in dialect.events(record):
                for member in index.candidates(event):
                    if member in members and record.position > member.scanned and member.interest.wants(event):
                        yield member, event

    def _limit(self) -> int:
        """Events in one queue: fewer where there are many queues."""
        return min(_MAX_LIMIT, max(_MIN_LIMIT, _IN_MEMORY // max(1, len(self.members))))
