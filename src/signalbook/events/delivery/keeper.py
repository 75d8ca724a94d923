"""What has to be written down: who delivers, and how far each subscription is. At most once a second, all together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple, Protocol

from signalbook.engine.engine import Engine, Session
from signalbook.events.delivery.lease import NOTE, Lease
from signalbook.events.delivery.state import CONSENTS, FOLDER, State
from signalbook.events.subscriptions.subscription import Subscription
from signalbook.storage.base import StorageError

_LOG = logging.getLogger("signalbook.delivery")
_KEEP_EVERY: Final = 1.0
_LOOK_EVERY: Final = 0.25
_SUBSCRIPTIONS: Final = "subscriptions"


class Known(NamedTuple):
    """The state of a subscription at its ``revision``: whoever updates it says where it goes on from there."""

    revision: int
    state: State


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
        elif self._wanted and self._lease.free(self._engine.kept(NOTE)):
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
        for key, known in states.items():
            note = session.kept(f"{_SUBSCRIPTIONS}/{key}")
            if note is None:  # deleted, perhaps meanwhile
                for folder in (FOLDER, CONSENTS):
                    session.keep(f"{folder}/{key}", None)
            elif known is not None and known.revision == note["revision"]:
                session.keep(f"{FOLDER}/{key}", known.state.to_json())
