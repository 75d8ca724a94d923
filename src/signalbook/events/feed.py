"""Watch the newest position of the change feed for all waiting clients, and prune its old history."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from signalbook import values
from signalbook.engine.engine import Engine
from signalbook.storage.base import StorageError

_LOOK_EVERY: Final = 0.05

Listener = Callable[[int], None]


class Head:
    """The position of the newest change of any process. Threads may share it.

    ``ask`` reads the position from the store. It is called only while there are listeners. While the store cannot be
    read, the position stays unchanged.
    """

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask = ask
        self._position = 0
        self._listeners: dict[object, Listener] = {}
        self._lock = threading.Lock()
        self._looking = False

    @property
    def position(self) -> int:
        """The position that was read last, or 0 if it has not been read yet."""
        return self._position

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each new position in another thread. Return a function that stops this.

        ``listener`` must return quickly, because other listeners wait for it.
        """
        mark = object()
        with self._lock:
            self._listeners[mark] = listener
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._watch, name="head", daemon=True).start()

        def stop() -> None:
            with self._lock:
                self._listeners.pop(mark, None)

        return stop

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            self._find()
            pause.wait(_LOOK_EVERY)
            with self._lock:
                if not self._listeners:
                    self._looking = False
                    return

    def _find(self) -> None:
        try:
            position = self._ask()
        except StorageError:
            return
        if position != self._position:
            self._position = position
            with self._lock:
                listeners = list(self._listeners.values())
            for listener in listeners:
                listener(position)


WAITING_FACTOR: Final = 4
"""Changes that a subscription still waits for are kept this many times as long. After that time they are pruned too, so
that a sink that never returns does not keep the history forever."""

_PRUNE_EVERY: Final = 60.0
_NO_BOUND: Final = 2**63 - 1
_LOG: Final = logging.getLogger("signalbook.events")


class Retention:
    """Prunes changes that are older than ``days`` in a separate thread and in small transactions.

    The newest change is always kept. Several processes may do this on one store.
    """

    def __init__(self, engine: Engine, *, days: float, now: Callable[[], datetime] = values.now) -> None:
        self._engine = engine
        self._days = timedelta(days=days)
        self._now = now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Start the thread, which prunes now and then every minute."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current transaction."""
        self._over.set()
        self._thread.join()

    def prune(self) -> int:
        """Prune old changes, and return their number. Raises ``StorageError``."""
        now = self._now()
        return self._prune(now - self._days, self._find_least_waiting()) + self._prune(
            now - WAITING_FACTOR * self._days, _NO_BOUND
        )

    def _find_least_waiting(self) -> int:
        """Return the lowest position up to which all subscriptions have their events, or a maximum without any."""
        with self._engine.store.read() as transaction:
            least = transaction.subscriptions.least_position()
        return _NO_BOUND if least is None else least

    def _prune(self, before: datetime, upto: int) -> int:
        total = 0
        while not self._over.is_set() and (count := self._engine.prune(before=before, upto=upto)):
            total += count
        return total

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                count = self.prune()
            except StorageError as error:  # try again later if the database is busy or absent
                _LOG.warning("old changes could not be pruned, will retry: %s", error)
            else:
                if count:
                    _LOG.info("pruned %d old changes", count)
            self._over.wait(_PRUNE_EVERY)
