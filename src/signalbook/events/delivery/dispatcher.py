"""From the outbox to the sinks: read once for all subscriptions, sorted by what each wants, delivered side by side.

One thread reads, one keeps lease and states, threads of lanes send (docs/decisions/104-deliveries.md).
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
from signalbook.events.delivery.executor import Open, Senders
from signalbook.events.delivery.interest import NOTHING, interest
from signalbook.events.delivery.queue import Phase, Recipient, Retries, Roster, revived
from signalbook.events.delivery.store import NOTE, SECONDS, Lease
from signalbook.events.dialects import of_source
from signalbook.events.feed import Head
from signalbook.events.subscriptions.store import start
from signalbook.events.subscriptions.subscription import Subscription, SubscriptionError
from signalbook.storage.base import SUSPENDED, DeliveryState, KeyValueStore, StorageError
from signalbook.values import JSONObject

_KEEP_EVERY: Final = 1.0
_LOOK_EVERY: Final = 0.25


class Known(NamedTuple):
    """The state of a subscription at its ``revision``: whoever updates it says where it goes on from there."""

    revision: int
    state: DeliveryState


States = Mapping[str, Known | None]


class Book(Protocol):
    """The subscriptions there are, written by whichever server."""

    def revision(self) -> Hashable:
        """Another value once any of them was created, changed or deleted. Cheap: it is asked several times a second."""

    def count(self) -> int:
        """How many there are. As cheap."""

    def all(self) -> Mapping[str, Subscription]:
        """All that can be delivered to, by id."""


class Ledger(Protocol):
    """What is to be kept: the relay's side."""

    def states(self, *, all: bool = False) -> States:
        """States that changed since they were kept, None for those to remove; or all of them."""

    def unkept(self, states: States) -> None:
        """These could not be kept after all."""

    def wake(self) -> None:
        """Something may be different: the lease, or the subscriptions."""


class Keeper:
    """One thread that writes, so that the others need not wait for the database's only writer."""

    def __init__(self, engine: Engine, book: Book, lease: Lease, ledger: Ledger) -> None:
        self._engine = engine
        self._book = book
        self._lease = lease
        self._ledger = ledger
        self._revision: Hashable = None
        self._wanted = False
        self._kept = 0.0
        self._stopping = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="delivery-keeper", daemon=True)

    def start(self) -> None:
        """Begin to look after lease and states."""
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def stop(self) -> None:
        """Keep all states, give the lease back, and end."""
        self._stopping = True
        self._woken.set()
        self._thread.join()
        if not self._lease.held:
            return
        try:
            with self._engine.writing() as session:
                if self._lease.take(session):
                    self._write(session, self._ledger.states(all=True))
                self._lease.release(session)
        except StorageError as error:
            _LOG.warning("the states of deliveries could not be kept at the end: %s", error)

    def _run(self) -> None:
        told = ""
        while not self._stopping:
            try:
                self._look()
                told = ""
            except StorageError as error:
                if str(error) != told:
                    _LOG.warning("deliveries wait for the store: %s", error)
                told = str(error)
            except Exception:
                _LOG.exception("looking after deliveries failed in a way that nobody thought of")
            self._woken.wait(_LOOK_EVERY)
            self._woken.clear()

    def _look(self) -> None:
        revision = self._book.revision()
        if revision != self._revision:
            self._wanted = self._book.count() > 0
            self._revision = revision
            self._ledger.wake()
        if self._lease.held:
            self._keep()
        elif self._wanted and self._lease.free(KeyValueStore(self._engine.store).get(NOTE)):
            self._write_states({})

    def _keep(self) -> None:
        if not self._wanted:
            with self._engine.writing() as session:
                self._lease.release(session)
            self._ledger.wake()
            return
        if time.monotonic() - self._kept < _KEEP_EVERY:
            return
        states = self._ledger.states()
        if states or self._lease.due:
            self._write_states(states)

    def _write_states(self, states: States) -> None:
        self._kept = time.monotonic()
        held = self._lease.held
        try:
            with self._engine.writing() as session:
                mine = self._lease.take(session)
                if mine:
                    self._write(session, states)
        except BaseException:
            self._ledger.unkept(states)
            raise
        if mine:
            self._lease.confirm()
        if mine != held:
            _LOG.info("this server %s", "delivers now" if mine else "does not deliver any more")
            self._ledger.wake()

    def _write(self, session: Session, states: States) -> None:
        stored = session.transaction.subscriptions
        for key, known in states.items():
            subscription = stored.get(key)
            if subscription is None:  # deleted, perhaps meanwhile
                stored.remove(key)
            elif known is not None and known.revision == subscription.revision:
                stored.put_delivery(key, known.state)


_LOG = logging.getLogger("signalbook.delivery")
_PAUSE: Final = 1.0
_FINISH: Final = 5.0
_BEHIND: Final = 50_000
"""Positions without an event for a subscription before that is kept: what a restart looks at again, at most."""


class Relay:
    """The relay of one server. ``root`` is the registry's URL for subscriptions that do not know it themselves.

    Several servers may have one each on the same store: one of them delivers (``Lease``).
    """

    def __init__(
        self,
        engine: Engine,
        book: Book,
        head: Head,
        *,
        root: str,
        open: Open,
        retries: Retries | None = None,
        lease: float = SECONDS,
    ) -> None:
        self._engine = engine
        self._book = book
        self._head = head
        self._root = root
        self._lease = Lease(seconds=lease)
        self._roster = Roster()
        self._senders = Senders(
            self._roster, open, retries or Retries(), may=lambda: self._lease.held, settled=self._settled
        )
        self._keeper = Keeper(engine, book, self._lease, self)
        self._dirty: set[str] = set()
        self._revived: set[str] = set()
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
        self._keeper.start()
        self._thread.start()

    def stop(self) -> None:
        """Deliver no more; what is under way has some seconds to end. States are kept, and the lease is given back."""
        self._stopping = True
        self.wake()
        self._thread.join()
        self._senders.finish(_FINISH)
        self._keeper.stop()
        if self._unlisten:
            self._unlisten()

    def changed(self, id: str) -> None:
        """A subscription was created, changed or deleted by this process: see to it at once.

        One that was given up is tried again.
        """
        with self._roster.lock:
            self._revived.add(id)
        self._changed.set()
        self._keeper.wake()
        self._woken.set()

    def hurry(self, id: str) -> None:
        """Try again now what waits for its time: there is reason to think that it works."""
        member = self._roster.members.get(id)
        if member is not None:
            self._senders.hurry(member)

    def status(self) -> JSONObject:
        """Whether this server ``delivers``, and how many of the ``subscriptions`` it serves are in which state."""
        with self._roster.lock:
            members = list(self._roster.members.values())
            states = Counter(member.state.state for member in members)
        return {"delivers": self._lease.held, "subscriptions": dict(states)}

    def wake(self) -> None:
        """``Ledger``: the lease or the subscriptions may be different."""
        self._changed.set()
        self._woken.set()

    def states(self, *, all: bool = False) -> States:
        """``Ledger``: what to keep now."""
        with self._roster.lock:
            members = dict(self._roster.members)
            told = {key: self._roster.state(member) for key, member in members.items()}
            wanted = {
                key: state
                for key, state in told.items()
                if all or key in self._dirty or state.position - members[key].kept > _BEHIND
            }
            for key, state in wanted.items():
                members[key].kept = state.position
            gone = dict.fromkeys(self._dirty - members.keys())
            self._dirty.clear()
        return {**{key: Known(members[key].subscription.revision, state) for key, state in wanted.items()}, **gone}

    def unkept(self, states: States) -> None:
        """``Ledger``: they are to be kept next time."""
        with self._roster.lock:
            self._dirty |= set(states)

    def _committed(self) -> None:
        if self._serving and not self._woken.is_set():
            self._woken.set()

    def _settled(self, recipient: Recipient) -> None:
        """An attempt is over; from a sending thread."""
        with self._roster.lock:
            self._dirty.add(recipient.id)
            served = self._roster.members.get(recipient.id) is recipient
            over = recipient.phase is Phase.OVER
        if not served:
            self._senders.dismiss(recipient)
        elif recipient.outdated or over:
            self.wake()
        else:
            self._woken.set()

    def _run(self) -> None:
        pause: float | None = None
        while not self._stopping:
            self._woken.wait(_PAUSE if pause is None else min(pause, _PAUSE))
            self._woken.clear()
            try:
                pause = self._turn()
            except StorageError as error:
                _LOG.warning("deliveries wait for the store: %s", error)
                pause = _PAUSE
            except Exception:
                _LOG.exception("reading for deliveries failed in a way that nobody thought of")
                pause = _PAUSE
        self._lay_down()

    def _turn(self) -> float | None:
        """Do all there is to do; seconds until there may be more without a call."""
        if self._serving != self._lease.held:
            self._take_up() if self._lease.held else self._lay_down()
        if not self._serving:
            return None
        waits = [self._senders.wake(), self._keep_up() if self._changed.is_set() else None]
        while not self._stopping and self._read():
            pass
        return min((wait for wait in waits if wait is not None), default=None)

    def _keep_up(self) -> float | None:
        """Look at the subscriptions, or tell when: a fifth of the time, however many they are and often they change."""
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
        """Read what comes next, and offer it: whether there may be more."""
        try:
            given = self._roster.read(self._engine.outbox)
        except HistoryPruned as gone:
            for recipient in self._roster.skip(gone.position, f"events were lost to this sink: {gone}"):
                _LOG.warning("subscription %s: events up to %d are kept no longer", recipient.id, gone.position)
                with self._roster.lock:
                    self._dirty.add(recipient.id)
            return True
        for recipient in given:
            self._senders.offer(recipient)
        return self._roster.more

    def _take_up(self) -> None:
        self._serving = True
        self._changed.set()
        self._unlisten = self._head.listen(lambda _: self._woken.set())

    def _lay_down(self) -> None:
        """Another server delivers from here on, or none: what is under way settles by itself."""
        self._serving = False
        if self._unlisten:
            self._unlisten()
        if not self._stopping:
            for member in list(self._roster.members.values()):
                self._dismiss(member)

    def _synchronise(self) -> None:
        """Bring the roster to what the subscriptions are."""
        found = self._book.all()
        with self._roster.lock:
            revived, self._revived = self._revived, set()
        for key, member in list(self._roster.members.items()):
            if key not in found:
                self._dismiss(member)
                with self._roster.lock:
                    self._dirty.add(key)
            elif member.subscription != found[key] or key in revived:
                self._renew(member, found[key])
            elif member.phase is Phase.OVER:
                self._roster.forget(member)
        for key, subscription in found.items():
            if key not in self._roster.members:
                self._admit(subscription, self._known(key))

    def _renew(self, member: Recipient, subscription: Subscription) -> None:
        """The subscription is another one now. An attempt under way is waited for: its events are not to be doubled."""
        with self._roster.lock:
            member.outdated = True  # from here on no other attempt begins
            if member.phase is Phase.SENDING:
                self._revived.add(member.id)
                return
            state = revived(self._roster.state(member))
            self._dirty.add(member.id)
        if start(subscription) != start(member.subscription):
            state = self._known(member.id)  # whoever updated it chose where to go on
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
            _LOG.warning("subscription %s cannot be served: %s", subscription.id, error)
            state = replace(state, state=SUSPENDED, lasterror=str(error))
            wanted, dialect = NOTHING, None
            self._dirty.add(subscription.id)
        self._roster.add(Recipient(subscription, wanted, dialect, state))

    def _known(self, id: str) -> DeliveryState:
        """The state as it was kept; who has none begins with the next change."""
        with self._engine.store.read() as transaction:
            state, position = transaction.subscriptions.delivery(id), transaction.outbox.position()
        if state is None:
            return DeliveryState(position=position)
        # A database that was put back from a copy knows nothing of the positions since.
        return replace(state, position=min(state.position, position))

    def _dismiss(self, member: Recipient) -> None:
        sending = member.phase is Phase.SENDING
        self._roster.remove(member)
        if not sending:
            self._senders.dismiss(member)
