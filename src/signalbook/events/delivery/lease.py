"""Elect the one of several servers on the same store that does a job, through a value in the key-value store.

Clocks of different machines are never compared. The holder increases a counter in the value. A server that sees the
same value for longer than the lease lasts, by its own clock, may take the lease (docs/decisions/104-deliveries.md).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final

from signalbook.engine.engine import Session
from signalbook.values import JSON

DELIVERY_LEASE: Final = "delivery/lease"
LEASE_SECONDS: Final = 12.0


class Lease:
    """A server's view of the lease ``name``. Only one thread may use it, except for ``held`` and ``term``."""

    def __init__(
        self, name: str = DELIVERY_LEASE, *, seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._me = secrets.token_hex(16)
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._seen: JSON = None
        self._since = clock()
        self._began = 0.0
        self._beat = 0
        self._term = 0

    @property
    def held(self) -> bool:
        """True if this server holds the lease now."""
        return self._clock() < self._until

    @property
    def term(self) -> int | None:
        """A number that grows each time the lease is gained; None while the lease is not held.

        Another server may have done the job between two terms, even if this server never saw that it had lost the
        lease.
        """
        return self._term if self.held else None

    @property
    def due(self) -> bool:
        """True if it is time to renew the lease: after a third of it, so that two attempts may fail."""
        return self._clock() > self._until - self._seconds * 2 / 3

    def is_free(self, value: JSON) -> bool:
        """Return True if this server may take the lease, given its current ``value`` in the store.

        A dead holder is detected only if this is called repeatedly.
        """
        if value != self._seen:
            self._seen, self._since = value, self._clock()
        return value is None or value.get("holder") == self._me or self._clock() - self._since > self._seconds

    def take(self, session: Session) -> bool:
        """Take or renew the lease in this transaction. Call ``confirm`` after the commit.

        Return False if another server holds the lease.
        """
        if not self.is_free(session.transaction.settings.get(self._name)):
            self._until = 0.0
            return False
        self._began = self._clock()
        self._beat += 1
        session.transaction.settings.put(self._name, {"holder": self._me, "beat": self._beat})
        return True

    def confirm(self) -> None:
        """Confirm that the lease was committed. It counts from the moment when it was written."""
        if not self.held:
            self._term += 1
        # Counted from before the commit. Other servers count from the time they saw the value, which is later, so the
        # lease ends here before they may take it.
        self._until = self._began + self._seconds

    def release(self, session: Session) -> None:
        """Release the lease, so that another server can take it at once."""
        self._until = 0.0
        if (session.transaction.settings.get(self._name) or {}).get("holder") == self._me:
            session.transaction.settings.put(self._name, None)
