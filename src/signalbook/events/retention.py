"""How long the history of changes is kept: the setting ``event_retention``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from signalbook import values
from signalbook.engine.engine import Engine
from signalbook.events.delivery.state import FOLDER as DELIVERIES
from signalbook.storage.base import StorageError

PATIENCE: Final = 4
"""What a subscription still waits for is kept so many times as long: a sink that never comes back keeps no history."""

_LOOK_EVERY: Final = 60.0
_LAST: Final = 2**63 - 1
_LOG: Final = logging.getLogger("signalbook.events")


class Retention:
    """Forgets changes told more than ``days`` ago, from a thread of its own, in small transactions.

    The last change always stays. Any number of processes may do this on one store.
    """

    def __init__(self, engine: Engine, *, days: float, now: Callable[[], datetime] = values.now) -> None:
        self._engine = engine
        self._days = timedelta(days=days)
        self._now = now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Begin to look, now and every minute."""
        self._thread.start()

    def stop(self) -> None:
        """End with the transaction under way."""
        self._over.set()
        self._thread.join()

    def prune(self) -> int:
        """Forget what is due; how many changes that were. Raises ``StorageError``."""
        now = self._now()
        return self._forget(now - self._days, self._waiting()) + self._forget(now - PATIENCE * self._days, _LAST)

    def _waiting(self) -> int:
        """The position behind which some subscription has not been delivered to."""
        states = self._engine.kept_in(DELIVERIES).values()
        return min((int(state["position"]) for state in states), default=_LAST)

    def _forget(self, before: datetime, upto: int) -> int:
        total = 0
        while not self._over.is_set() and (count := self._engine.forget(before=before, upto=upto)):
            total += count
        return total

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                count = self.prune()
            except StorageError as error:  # a busy or absent database is no reason to give up
                _LOG.warning("old changes could not be forgotten, trying again later: %s", error)
            else:
                if count:
                    _LOG.info("%d old changes forgotten", count)
            self._over.wait(_LOOK_EVERY)
