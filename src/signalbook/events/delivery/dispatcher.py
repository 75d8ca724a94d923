"""The dispatcher: reads the outbox once for all subscriptions and has events delivered to each one's sink.

One thread reads, one writes lease and checkpoints, the executor's threads send (docs/decisions/104-deliveries.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from signalbook.engine.engine import Engine, HistoryPruned, Session
from signalbook.errors import SignalbookError
from signalbook.events.delivery.backoff import Backoff, resumed
from signalbook.events.delivery.executor import AttemptExecutor, OpenSink
from signalbook.events.delivery.interest import NOTHING, interest
from signalbook.events.delivery.lease import DELIVERY_LEASE, LEASE_SECONDS, Lease
from signalbook.events.delivery.queue import DeliveryQueue, DeliveryQueues, Phase
from signalbook.events.dialects import of_source
from signalbook.events.feed import Head
from signalbook.events.subscriptions.store import start
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.storage.base import SUSPENDED, DeliveryState, KeyValueStore, StorageError
from signalbook.values import JSONObject

_LOG: Final = logging.getLogger("signalbook.delivery")
_WRITE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.25


class Checkpoint(NamedTuple):
    """How far the deliveries to a subscription are, at its ``revision`` only: an update may choose another start."""

    revision: int
    state: DeliveryState


Checkpoints = Mapping[str, Checkpoint | None]


class SubscriptionSource(Protocol):
    """The stored subscriptions, whichever server writes them."""

    def revision(self) -> Hashable:
        """Another value once any of them was created, changed or deleted. Cheap: it is asked several times a second."""

    def count(self) -> int:
        """How many there are. As cheap."""

    def all(self) -> Mapping[str, Subscription]:
        """All that can be delivered to, by id."""


class CheckpointSource(Protocol):
    """Where the checkpoints to write come from: the dispatcher."""

    def states(self, *, all: bool = False) -> Checkpoints:
        """Checkpoints that changed since they were written, None for those to remove; or all of them."""

    def not_written(self, states: Checkpoints) -> None:
        """These could not be written: return them again next time."""

    def wake(self) -> None:
        """The lease or the subscriptions may have changed."""


class CheckpointWriter:
    """One thread that writes lease and checkpoints, so that the others need not wait for the database's only writer."""

    def __init__(
        self, engine: Engine, subscriptions: SubscriptionSource, lease: Lease, source: CheckpointSource
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._lease = lease
        self._source = source
        self._revision: Hashable = None
        self._wanted = False
        self._written_at = 0.0
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="delivery-checkpoints", daemon=True)

    def start(self) -> None:
        """Begin to watch lease and subscriptions."""
        self._thread.start()

    def wake(self) -> None:
        """Look at lease and subscriptions now."""
        self._woken.set()

    def stop(self) -> None:
        """Write all checkpoints, give the lease back, and end."""
        self._stopping = True
        self._woken.set()
        self._thread.join()
        if not self._lease.held:
            return
        try:
            with self._engine.writing() as session:
                if self._lease.take(session):
                    self._write(session, self._source.states(all=True))
                self._lease.release(session)
        except StorageError as error:
            _LOG.warning("the checkpoints of deliveries could not be written at shutdown: %s", error)

    def _run(self) -> None:
        logged = ""
        while not self._stopping:
            try:
                self._look()
                logged = ""
            except StorageError as error:
                if str(error) != logged:
                    _LOG.warning("deliveries are waiting for the store: %s", error)
                logged = str(error)
            except Exception:
                _LOG.exception("unexpected error while checking lease and checkpoints of deliveries")
            self._woken.wait(_LOOK_SECONDS)
            self._woken.clear()

    def _look(self) -> None:
        revision = self._subscriptions.revision()
        if revision != self._revision:
            self._wanted = self._subscriptions.count() > 0
            self._revision = revision
            self._source.wake()
        if self._lease.held:
            self._renew_and_write()
        elif self._wanted and self._lease.free(KeyValueStore(self._engine.store).get(DELIVERY_LEASE)):
            self._write_states({})

    def _renew_and_write(self) -> None:
        if not self._wanted:
            with self._engine.writing() as session:
                self._lease.release(session)
            self._source.wake()
            return
        if time.monotonic() - self._written_at < _WRITE_SECONDS:
            return
        states = self._source.states()
        if states or self._lease.due:
            self._write_states(states)

    def _write_states(self, states: Checkpoints) -> None:
        self._written_at = time.monotonic()
        held = self._lease.held
        try:
            with self._engine.writing() as session:
                mine = self._lease.take(session)
                if mine:
                    self._write(session, states)
        except BaseException:
            self._source.not_written(states)
            raise
        if mine:
            self._lease.confirm()
        if mine != held:
            _LOG.info("this server %s", "delivers now" if mine else "no longer delivers")
            self._source.wake()

    def _write(self, session: Session, states: Checkpoints) -> None:
        stored = session.transaction.subscriptions
        for key, checkpoint in states.items():
            subscription = stored.get(key)
            if subscription is None:  # deleted, perhaps meanwhile
                stored.remove(key)
            elif checkpoint is not None and checkpoint.revision == subscription.revision:
                stored.put_delivery(key, checkpoint.state)


_PAUSE_SECONDS: Final = 1.0
_FINISH_SECONDS: Final = 5.0
_CHECKPOINT_DISTANCE: Final = 50_000
"""Outbox positions without an event for a subscription before its checkpoint is written all the same: what a restart
reads again, at most."""


class Dispatcher:
    """The dispatcher of one server. ``root`` is the registry's URL for subscriptions that do not know it themselves.

    Several servers may have one each on the same store; the one that holds the lease delivers.
    """

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionSource,
        head: Head,
        *,
        root: str,
        open: OpenSink,
        backoff: Backoff | None = None,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._head = head
        self._root = root
        self._lease = Lease(seconds=lease)
        self._queues = DeliveryQueues()
        self._executor = AttemptExecutor(
            self._queues, open, backoff or Backoff(), may=lambda: self._lease.held, attempt_ended=self._attempt_ended
        )
        self._checkpoints = CheckpointWriter(engine, subscriptions, self._lease, self)
        self._dirty: set[str] = set()
        self._resumed: set[str] = set()
        self._serving = False
        self._next_look = 0.0
        self._stopping = False
        self._woken = threading.Event()
        self._changed = threading.Event()
        self._unlisten: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    def start(self) -> None:
        """Begin to deliver, if this server is the one."""
        self._engine.listen(self._committed)
        self._checkpoints.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop delivering; attempts under way have some seconds to end. Writes checkpoints and gives the lease back."""
        self._stopping = True
        self.wake()
        self._thread.join()
        self._executor.finish(_FINISH_SECONDS)
        self._checkpoints.stop()
        if self._unlisten:
            self._unlisten()

    def changed(self, id: str) -> None:
        """A subscription was created, changed or deleted by this process: look at it at once.

        One whose deliveries were given up is tried again.
        """
        with self._queues.lock:
            self._resumed.add(id)
        self._changed.set()
        self._checkpoints.wake()
        self._woken.set()

    def hurry(self, id: str) -> None:
        """Skip the backoff of a subscription: there is reason to think that its sink works again."""
        member = self._queues.members.get(id)
        if member is not None:
            self._executor.hurry(member)

    def status(self) -> JSONObject:
        """Whether this server ``delivers``, and how many of the ``subscriptions`` it serves are in which state."""
        with self._queues.lock:
            members = list(self._queues.members.values())
            states = Counter(member.state.state for member in members)
        return {"delivers": self._lease.held, "subscriptions": dict(states)}

    def wake(self) -> None:
        """``CheckpointSource``: the lease or the subscriptions may be different."""
        self._changed.set()
        self._woken.set()

    def states(self, *, all: bool = False) -> Checkpoints:
        """``CheckpointSource``: what to write now."""
        with self._queues.lock:
            members = dict(self._queues.members)
            found = {key: self._queues.state(member) for key, member in members.items()}
            wanted = {
                key: state
                for key, state in found.items()
                if all or key in self._dirty or state.position - members[key].checkpointed > _CHECKPOINT_DISTANCE
            }
            for key, state in wanted.items():
                members[key].checkpointed = state.position
            gone = dict.fromkeys(self._dirty - members.keys())
            self._dirty.clear()
        return {**{key: Checkpoint(members[key].subscription.revision, state) for key, state in wanted.items()}, **gone}

    def not_written(self, states: Checkpoints) -> None:
        """``CheckpointSource``: they are to be written next time."""
        with self._queues.lock:
            self._dirty |= set(states)

    def _committed(self) -> None:
        if self._serving and not self._woken.is_set():
            self._woken.set()

    def _attempt_ended(self, queue: DeliveryQueue) -> None:
        """An attempt is over; called by a thread of the executor."""
        with self._queues.lock:
            self._dirty.add(queue.id)
            served = self._queues.members.get(queue.id) is queue
            over = queue.phase is Phase.OVER
        if not served:
            self._executor.dismiss(queue)
        elif queue.outdated or over:
            self.wake()
        else:
            self._woken.set()

    def _run(self) -> None:
        pause: float | None = None
        while not self._stopping:
            self._woken.wait(_PAUSE_SECONDS if pause is None else min(pause, _PAUSE_SECONDS))
            self._woken.clear()
            try:
                pause = self._turn()
            except StorageError as error:
                _LOG.warning("deliveries are waiting for the store: %s", error)
                pause = _PAUSE_SECONDS
            except Exception:
                _LOG.exception("unexpected error while reading the outbox for deliveries")
                pause = _PAUSE_SECONDS
        self._stop_serving()

    def _turn(self) -> float | None:
        """Do all there is to do now; returns the seconds until the next thing is due by itself."""
        if self._serving != self._lease.held:
            self._start_serving() if self._lease.held else self._stop_serving()
        if not self._serving:
            return None
        waits = [self._executor.wake(), self._synchronise_in_time() if self._changed.is_set() else None]
        while not self._stopping and self._read():
            pass
        return min((wait for wait in waits if wait is not None), default=None)

    def _synchronise_in_time(self) -> float | None:
        """Synchronise with the subscriptions, or return when that may be done: it takes a fifth of the time at most,
        however many there are and however often they change."""
        began = time.monotonic()
        if began < self._next_look:
            return self._next_look - began
        self._changed.clear()
        try:
            self._synchronise()
        except BaseException:
            self._changed.set()
            raise
        self._next_look = time.monotonic() + 4 * (time.monotonic() - began)
        return None

    def _read(self) -> bool:
        """Read the next records and hand their events to the executor; whether there may be more."""
        try:
            given = self._queues.read(self._engine.outbox)
        except HistoryPruned as gone:
            for queue in self._queues.skip(gone.position, f"events were lost for this sink: {gone}"):
                _LOG.warning(
                    "subscription %s: events up to %d were pruned before they were delivered", queue.id, gone.position
                )
                with self._queues.lock:
                    self._dirty.add(queue.id)
            return True
        for queue in given:
            self._executor.offer(queue)
        return self._queues.more

    def _start_serving(self) -> None:
        self._serving = True
        self._changed.set()
        self._unlisten = self._head.listen(lambda _: self._woken.set())

    def _stop_serving(self) -> None:
        """Another server delivers from now on, or none: attempts under way end by themselves."""
        self._serving = False
        if self._unlisten:
            self._unlisten()
        if not self._stopping:
            for member in list(self._queues.members.values()):
                self._dismiss(member)

    def _synchronise(self) -> None:
        """Have one queue for each subscription, as it is now."""
        found = self._subscriptions.all()
        with self._queues.lock:
            revived, self._resumed = self._resumed, set()
        for key, member in list(self._queues.members.items()):
            if key not in found:
                self._dismiss(member)
                with self._queues.lock:
                    self._dirty.add(key)
            elif member.subscription != found[key] or key in revived:
                self._replace(member, found[key])
            elif member.phase is Phase.OVER:
                self._queues.stop_reading(member)
        for key, subscription in found.items():
            if key not in self._queues.members:
                self._admit(subscription, self._checkpoint(key))

    def _replace(self, member: DeliveryQueue, subscription: Subscription) -> None:
        """The subscription was updated. An attempt under way is waited for: its events must not be delivered twice."""
        with self._queues.lock:
            member.outdated = True  # from here on no other attempt begins
            if member.phase is Phase.SENDING:
                self._resumed.add(member.id)
                return
            state = resumed(self._queues.state(member))
            self._dirty.add(member.id)
        if start(subscription) != start(member.subscription):
            state = self._checkpoint(member.id)  # whoever updated it chose where to go on
        self._dismiss(member)
        self._admit(subscription, state)

    def _admit(self, subscription: Subscription, state: DeliveryState) -> None:
        try:
            wanted = interest(subscription)
            root = subscription.root or self._root
            dialect = of_source(subscription.source, root)
            if dialect is None:
                raise SubscriptionError(f"/source: {subscription.source} is not of this registry, which is {root}")
        except SignalbookError as error:
            _LOG.warning("subscription %s cannot be delivered to: %s", subscription.id, error)
            state = replace(state, state=SUSPENDED, lasterror=str(error))
            wanted, dialect = NOTHING, None
            self._dirty.add(subscription.id)
        self._queues.add(DeliveryQueue(subscription, wanted, dialect, state))

    def _checkpoint(self, id: str) -> DeliveryState:
        """The stored checkpoint; without one deliveries begin with the next change."""
        with self._engine.store.read() as transaction:
            state, position = transaction.subscriptions.delivery(id), transaction.outbox.position()
        if state is None:
            return DeliveryState(position=position)
        # A database restored from a backup has not reached that position yet.
        return replace(state, position=min(state.position, position))

    def _dismiss(self, member: DeliveryQueue) -> None:
        sending = member.phase is Phase.SENDING
        self._queues.remove(member)
        if not sending:
            self._executor.dismiss(member)
