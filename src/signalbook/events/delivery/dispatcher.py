"""Run the dispatcher: one loop that has events delivered to the sink of each subscription.

It owns the state machines of all deliveries (``machine``), applies events to them and performs the resulting actions.
Other threads send events (the executor), or write the lease and checkpoints (docs/decisions/104-deliveries.md).
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from signalbook.engine.engine import Engine, HistoryPruned, Session
from signalbook.errors import SignalbookError
from signalbook.events.backoff import Backoff
from signalbook.events.delivery import machine
from signalbook.events.delivery.executor import POOLS, AttemptExecutor, AttemptResult, OpenSink
from signalbook.events.delivery.interest import select
from signalbook.events.delivery.lease import DELIVERY_LEASE, LEASE_SECONDS, Lease
from signalbook.events.delivery.machine import Action, Delivery, Event
from signalbook.events.delivery.reader import DeliveryReader
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.feed import Head
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import SubscriptionStore, start
from signalbook.storage.base import StorageError, StorageUnavailable
from signalbook.storage.outbox import Record
from signalbook.storage.store import KeyValueStore
from signalbook.storage.subscriptions import DeliveryState
from signalbook.values import JSONObject

_LOG: Final = logging.getLogger("signalbook.delivery")
_WRITE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.25


class Checkpoint(NamedTuple):
    """The progress of a subscription's deliveries at one ``revision``: an update may choose another start."""

    revision: int
    state: DeliveryState


_Unwritten = dict[str, tuple[int, Checkpoint | None]]


class CheckpointWriter:
    """The thread that writes the lease and checkpoints, so that the dispatcher never waits for the store's write lock.

    ``changed`` is called when the lease was gained or lost, or a subscription changed.
    """

    def __init__(
        self, engine: Engine, subscriptions: SubscriptionStore, lease: Lease, changed: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._lease = lease
        self._notify_changed = changed
        self._unwritten: _Unwritten = {}
        self._lock = threading.Lock()
        self._revision: Hashable = None
        self._wanted = False
        self._written_at = 0.0
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="delivery-checkpoints", daemon=True)

    def start(self) -> None:
        """Start the thread, which watches the lease and the subscriptions."""
        self._thread.start()

    def wake(self) -> None:
        """Check the lease and the subscriptions now."""
        self._woken.set()

    def put(self, term: int, id: str, checkpoint: Checkpoint | None) -> None:
        """Write a checkpoint within about a second; None removes it.

        It is written only in the ``term`` of the lease given here. In a later term another server may have gone on.
        """
        with self._lock:
            self._unwritten[id] = (term, checkpoint)

    def stop(self) -> None:
        """Stop the thread. If this server holds the lease, write all checkpoints and release the lease."""
        self._stopping = True
        self._woken.set()
        self._thread.join()
        if not self._lease.held:
            return
        try:
            with self._engine.writing() as session:
                unwritten = self._take_unwritten()
                if self._lease.take(session):
                    self._write(session, unwritten)
                self._lease.release(session)
        except StorageError as error:
            _LOG.warning("the checkpoints of deliveries could not be written at shutdown: %s", error)

    def _run(self) -> None:
        logged = ""
        while not self._stopping:
            try:
                self._check_store()
                logged = ""
            except StorageUnavailable:
                pass  # the store logs it, once
            except StorageError as error:
                if str(error) != logged:
                    _LOG.warning("deliveries are waiting for the store: %s", error)
                logged = str(error)
            except Exception:
                _LOG.exception("unexpected error while checking lease and checkpoints of deliveries")
            self._woken.wait(_LOOK_SECONDS)
            self._woken.clear()

    def _check_store(self) -> None:
        revision = self._subscriptions.revision()
        if revision != self._revision:
            self._wanted = self._subscriptions.count() > 0
            self._revision = revision
            self._notify_changed()
        if self._lease.held:
            self._renew_and_write()
        elif self._wanted and self._lease.is_free(KeyValueStore(self._engine.store).get(DELIVERY_LEASE)):
            self._write_unwritten()

    def _renew_and_write(self) -> None:
        if not self._wanted:
            with self._engine.writing() as session:
                self._lease.release(session)
            self._notify_changed()
            return
        if time.monotonic() - self._written_at < _WRITE_SECONDS:
            return
        if self._unwritten or self._lease.due:
            self._write_unwritten()

    def _write_unwritten(self) -> None:
        """Take or renew the lease, and write checkpoints in the same transaction.

        Without the lease nothing is written, because another server writes the checkpoints then.
        """
        self._written_at = time.monotonic()
        before = self._lease.term
        unwritten = self._take_unwritten()
        try:
            with self._engine.writing() as session:
                mine = self._lease.take(session)
                if mine:
                    self._write(session, unwritten)
        except BaseException:
            with self._lock:
                self._unwritten = {**unwritten, **self._unwritten}
            raise
        if mine:
            self._lease.confirm()
        if mine != (before is not None):
            _LOG.info("this server %s", "delivers now" if mine else "no longer delivers")
        if self._lease.term != before:
            self._notify_changed()

    def _take_unwritten(self) -> _Unwritten:
        """Return the unwritten checkpoints of the current term, and drop all others."""
        term = self._lease.term
        with self._lock:
            unwritten, self._unwritten = self._unwritten, {}
        return {key: entry for key, entry in unwritten.items() if entry[0] == term}

    def _write(self, session: Session, unwritten: _Unwritten) -> None:
        stored = session.transaction.subscriptions
        for key, (_, checkpoint) in unwritten.items():
            subscription = stored.get(key)
            if subscription is None:  # it was deleted, perhaps after the checkpoint was put
                stored.remove(key)
            elif checkpoint is not None and checkpoint.revision == subscription.revision:
                stored.put_delivery(key, checkpoint.state)


_PAUSE_SECONDS: Final = 1.0
_RIGHTS_SECONDS: Final = 0.5
_FINISH_SECONDS: Final = 5.0
_CHECKPOINT_DISTANCE: Final = 50_000
"""The number of outbox positions without events after which a checkpoint is written.

A restart reads at most so many positions again.
"""


@dataclass(frozen=True, slots=True)
class _Wake:
    """The message that the outbox may have new records, or that the server stops."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The message that the lease or a subscription may have changed. If ``id`` is None, any may have changed."""

    id: str | None = None


@dataclass(frozen=True, slots=True)
class _Hurry:
    """The message to skip the backoff of the subscription ``id``."""

    id: str


_Message = _Wake | _Changed | _Hurry | AttemptResult


class Dispatcher:
    """The dispatcher of one server.

    ``root`` is the registry's URL for subscriptions that do not contain it. ``rights`` decides which changes the owners
    of subscriptions may receive. Several servers on the same store may have a dispatcher each; the one that holds the
    lease delivers. Other threads only put messages into the inbox. All other state belongs to the dispatcher's thread,
    so it needs no locks.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionStore,
        head: Head,
        *,
        root: str,
        open: OpenSink,
        backoff: Backoff | None = None,
        rights: DeliveryRights,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._head = head
        self._root = root
        self._backoff = backoff or Backoff()
        self._lease = Lease(seconds=lease)
        self._inbox: SimpleQueue[_Message] = SimpleQueue()
        self._deliveries: dict[str, Delivery] = {}
        self._rights = rights
        self._reader = DeliveryReader(self._read_outbox, self._deliveries, self._allow)
        self._executor = AttemptExecutor(open, may=lambda: self._lease.held, ended=self._inbox.put)
        self._checkpoints = CheckpointWriter(engine, subscriptions, self._lease, lambda: self._inbox.put(_Changed()))
        self._lines: dict[str, deque[str]] = {pool: deque() for pool in POOLS}
        self._timers: list[tuple[float, str]] = []
        self._checkpointed: dict[str, int] = {}
        self._next_check = 0.0
        self._rights_known: dict[str, Hashable] = {}
        self._rights_due = 0.0
        self._rereading: set[str] = set()
        self._term: int | None = None
        self._outdated = False
        self._updated: set[str] = set()
        self._next_look = 0.0
        self._waking = False
        self._stopping = False
        self._unlisten: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    def start(self) -> None:
        """Start the dispatcher. It delivers while this server holds the lease."""
        self._engine.listen(self._wake)
        self._checkpoints.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop delivering, write checkpoints, and release the lease. Current attempts have some seconds to end."""
        self._stopping = True
        self._inbox.put(_Wake())
        self._thread.join()
        self._executor.finish()
        self._checkpoints.stop()

    def changed(self, id: str) -> None:
        """Apply at once that this process created, changed or deleted the subscription ``id``.

        If its deliveries were suspended, they are tried again.
        """
        self._checkpoints.wake()
        self._inbox.put(_Changed(id))

    def hurry(self, id: str) -> None:
        """Skip the backoff of the subscription ``id``, because its sink probably works again."""
        self._inbox.put(_Hurry(id))

    def status(self) -> JSONObject:
        """Return whether this server ``delivers``, and how many of its ``subscriptions`` are in each state."""
        # Copy the values at once, because the dispatcher's thread may change the dict.
        deliveries = list(self._deliveries.values())
        states = Counter(delivery.state.state for delivery in deliveries if not delivery.leaving)
        return {"delivers": self._lease.held, "subscriptions": dict(states)}

    def _wake(self) -> None:
        # Each commit calls this. Until the message is read, one message is enough for all commits.
        if self._term is not None and not self._waking:
            self._waking = True
            self._inbox.put(_Wake())

    def _run(self) -> None:
        pause = _PAUSE_SECONDS
        while not self._stopping:
            try:
                self._receive(pause)
                pause = self._run_turn()
            except StorageUnavailable:
                pause = _PAUSE_SECONDS
            except StorageError as error:
                _LOG.warning("deliveries are waiting for the store: %s", error)
                pause = _PAUSE_SECONDS
            except Exception:
                _LOG.exception("unexpected error while dispatching deliveries")
                pause = _PAUSE_SECONDS
        self._finish()

    def _receive(self, seconds: float) -> None:
        """Handle all messages in the inbox. Wait up to ``seconds`` for the first one."""
        try:
            message = self._inbox.get(timeout=seconds)
        except Empty:
            self._reader.committed()  # other processes do not report commits here, so check now and then
            return
        with suppress(Empty):
            while True:
                self._handle(message)
                message = self._inbox.get_nowait()

    def _handle(self, message: _Message) -> None:
        match message:
            case AttemptResult():
                self._executor.take_back(message)
                self._notify(message.id, message.event)
            case _Wake():
                self._waking = False  # before reading, so that later commits wake the dispatcher again
                self._reader.committed()
            case _Hurry():
                self._notify(message.id, machine.Hurried())
            case _Changed():
                self._outdated = True
                if message.id is not None:
                    self._updated.add(message.id)

    def _notify(self, id: str, event: Event) -> None:
        """Apply ``event`` to the delivery ``id``, after applying the position up to which the outbox was read for it.

        Positions without events are applied only here, because a separate step for each of them would be too slow.
        """
        read = self._reader.position(id)
        if read is not None and not isinstance(event, machine.EventsRead):
            self._step(id, machine.EventsRead(read))
        self._step(id, event)

    def _step(self, id: str, event: Event) -> None:
        """Apply ``event`` to the delivery ``id``, and perform the resulting actions."""
        after, actions = machine.step(self._deliveries.get(id), event, self._backoff)
        if after is not None:
            self._deliveries[id] = after
        else:
            self._deliveries.pop(id, None)
            self._checkpointed.pop(id, None)
        for action in actions:
            self._perform(id, action)
        self._reader.check_room(id)

    def _perform(self, id: str, action: Action) -> None:
        match action:
            case machine.Schedule():
                self._lines[action.pool].append(id)
            case machine.Send():
                self._executor.send(id, action)
            case machine.WakeAt():
                heapq.heappush(self._timers, (action.clock, id))
            case machine.Read():
                self._reader.add(id, action.selection, action.position)
            case machine.ReadAgain():
                self._reader.rewind(id, action.position)
            case machine.StopReading():
                self._reader.remove(id)
            case machine.CloseSink():
                self._executor.close(id)
            case machine.WriteCheckpoint():
                self._store_checkpoint(id, Checkpoint(action.revision, action.state))
            case machine.RemoveCheckpoint():
                self._store_checkpoint(id, None)
            case machine.Log():
                _LOG.log(action.level, "%s", action.text)

    def _store_checkpoint(self, id: str, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None:
            self._checkpointed[id] = checkpoint.state.position
        if self._term is not None:
            self._checkpoints.put(self._term, id, checkpoint)

    def _run_turn(self) -> float:
        """Do all work that is due now, and return the seconds until the next work is due."""
        self._follow_lease()
        if self._term is None:
            return _PAUSE_SECONDS
        self._pass_time()
        self._follow_rights()
        # Begin attempts before using the store, so that they go on even if the store cannot be read.
        self._begin_attempts()
        self._synchronise_in_time()
        more = self._read()
        self._begin_attempts()
        self._write_idle_checkpoints()
        return 0.0 if more else self._compute_seconds_left()

    def _follow_lease(self) -> None:
        """Begin to serve subscriptions when the lease was gained, and stop when it was lost."""
        term = self._lease.term
        if term == self._term:
            return
        if self._term is not None:
            self._end_serving(machine.LeaseLost())
        self._term = term
        if term is not None:
            self._outdated = True
            self._reader.committed()
            self._unlisten = self._head.listen(lambda _: self._wake())

    def _end_serving(self, event: Event) -> None:
        """Apply ``event`` to all deliveries to stop serving them. Current attempts end by themselves."""
        if self._unlisten:
            self._unlisten()
        for key in list(self._deliveries):
            self._notify(key, event)
        self._timers.clear()
        self._checkpointed.clear()
        for line in self._lines.values():
            line.clear()

    def _pass_time(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, key = heapq.heappop(self._timers)
            self._notify(key, machine.TimePassed(now))

    def _read_outbox(self, after: int, limit: int) -> list[Record]:
        records = self._engine.read_changes(after, limit)
        if records:
            # After reading the records, so that each change is checked with at least the policy it was committed under.
            self._rights.renew()
        return records

    def _allow(self, subscription: Subscription, record: Record) -> bool:
        return self._rights.allow(subscription.owner, record)

    def _follow_rights(self) -> None:
        """Check every half second whether rights changed. If so, read pending events again."""
        now = time.monotonic()
        if now >= self._rights_due:
            self._rights_due = now + _RIGHTS_SECONDS
            self._rights.renew()
            before = self._rights_known
            self._rights_known = {
                key: self._rights.key(delivery.subscription.owner) for key, delivery in self._deliveries.items()
            }
            self._rereading |= {key for key, rights_key in self._rights_known.items() if before.get(key) != rights_key}
        for key in list(self._rereading):
            delivery = self._deliveries.get(key)
            # An attempt under way cannot be stopped. The events that remain after it are read again.
            if delivery is None or delivery.phase is not machine.Phase.SENDING:
                self._rereading.discard(key)
                self._notify(key, machine.RightsChanged())

    def _begin_attempts(self) -> None:
        """Begin scheduled attempts while their pool has a free thread, in the order in which they were scheduled."""
        for pool, line in self._lines.items():
            while line and self._executor.has_room(pool):
                self._notify(line.popleft(), machine.AttemptPossible(pool))

    def _read(self) -> bool:
        """Read the next records, and pass their events to the deliveries. Return True if there may be more records."""
        more = False
        try:
            for read in (self._reader.read_current, self._reader.read_behind):
                events_by_id = read()
                for key, events in (events_by_id or {}).items():
                    self._notify(key, events)
                more = more or events_by_id is not None
        except HistoryPruned as gone:
            reason = f"events were lost for this sink: {gone}"
            for key in self._reader.skip(gone.position):
                self._notify(key, machine.EventsLost(gone.position, reason))
            return True
        return more

    def _write_idle_checkpoints(self) -> None:
        """Write checkpoints now and then for deliveries without events, so that a restart need not read all again."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _WRITE_SECONDS
        for key, delivery in list(self._deliveries.items()):
            read = self._reader.position(key)
            checkpointed = self._checkpointed.setdefault(key, delivery.state.position)
            if read is not None and not delivery.pending and read - checkpointed > _CHECKPOINT_DISTANCE:
                self._notify(key, machine.CheckpointDue())

    def _compute_seconds_left(self) -> float:
        waits = [_PAUSE_SECONDS]
        if self._timers:
            waits.append(self._timers[0][0] - time.monotonic())
        if self._outdated:
            waits.append(self._next_look - time.monotonic())
        return max(0.0, min(waits))

    def _synchronise_in_time(self) -> None:
        """Synchronise with the stored subscriptions if they changed, but for at most a fifth of the time."""
        began = time.monotonic()
        if not self._outdated or began < self._next_look:
            return
        self._synchronise()
        self._outdated = False  # only after success, so that a failure is tried again
        self._next_look = time.monotonic() + 4 * (time.monotonic() - began)

    def _synchronise(self) -> None:
        """Apply the stored subscriptions to the deliveries: begin new ones, update changed ones, end deleted ones."""
        subscriptions = self._subscriptions.all()
        for key, delivery in list(self._deliveries.items()):
            if key not in subscriptions:
                self._notify(key, machine.Deleted())
            elif not delivery.leaving and (delivery.expected != subscriptions[key] or key in self._updated):
                self._update(delivery, subscriptions[key])
        for key, subscription in subscriptions.items():
            current = self._deliveries.get(key)
            if current is None or current.leaving:
                self._serve(subscription, self._load_state(key))
        self._updated.clear()

    def _update(self, delivery: Delivery, subscription: Subscription) -> None:
        # An update that chose another start has stored it, with a revision that makes earlier checkpoints invalid.
        elsewhere = start(subscription) != start(delivery.subscription)
        self._serve(subscription, self._load_state(subscription.id) if elsewhere else None)

    def _serve(self, subscription: Subscription, state: DeliveryState | None) -> None:
        try:
            served = machine.Served(subscription=subscription, selection=select(subscription, self._root), state=state)
        except SignalbookError as error:
            served = machine.Served(subscription=subscription, selection=None, fault=str(error), state=state)
        self._notify(subscription.id, served)

    def _load_state(self, id: str) -> DeliveryState:
        """Return the stored checkpoint; without one deliveries begin with the next change."""
        with self._engine.store.read() as transaction:
            state, position = transaction.subscriptions.delivery(id), transaction.outbox.position()
        if state is None:
            return DeliveryState(position=position)
        # The outbox of a database restored from a backup may not have reached that position yet.
        return replace(state, position=min(state.position, position))

    def _finish(self) -> None:
        """Stop serving all subscriptions. Current attempts have some seconds to end."""
        self._end_serving(machine.ServerStopped())
        until = time.monotonic() + _FINISH_SECONDS
        while self._deliveries and (seconds_left := until - time.monotonic()) > 0:
            self._receive(seconds_left)
