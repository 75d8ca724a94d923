"""How far a subscription's deliveries are: the note ``deliveries/<id>``, kept beside the subscription itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, Self

from signalbook.engine.engine import Session
from signalbook.values import JSON, JSONObject

FOLDER: Final = "deliveries"
CONSENTS: Final = "consents"
"""Where is kept what web hooks agreed to by calling back."""

ACTIVE: Final = "active"
"""All is well, or nothing was tried yet."""
RETRYING: Final = "retrying"
"""The last attempt failed; there will be another one at ``next``."""
SUSPENDED: Final = "suspended"
"""The sink took nothing for too long: nothing is tried until the subscription is updated. Nothing is lost either."""
GONE: Final = "gone"
"""The sink said that it is gone for good (HTTP 410): nothing is tried until the subscription is updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What ``GET`` of a subscription tells of its deliveries.

    Every event up to the outbox position ``position`` is done with: delivered, rejected or not wanted. ``delivered``
    and ``rejected`` count events, ``failures`` attempts since the last event that was taken, the first of them at
    ``failing``. ``lasterror``, which holds no secrets, stays until an event is taken. Times are RFC3339, or empty.
    """

    position: int
    state: str = ACTIVE
    delivered: int = 0
    rejected: int = 0
    failures: int = 0
    failing: str = ""
    lasterror: str = ""
    lastattempt: str = ""
    lastdelivery: str = ""
    next: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing more will be tried."""
        return self.state in (SUSPENDED, GONE)

    def to_json(self) -> JSONObject:
        """The note."""
        return asdict(self)

    @classmethod
    def from_json(cls, note: JSON) -> Self:
        """Read back what ``to_json`` made; names it does not know are passed over."""
        return cls(**{name: note[name] for name in cls.__slots__ if name in note})


def name(id: str) -> str:
    """The name of the note about the subscription ``id``."""
    return f"{FOLDER}/{id}"


NOTE: Final = "delivery/lease"
SECONDS: Final = 12.0


class Lease:
    """One server's part in it; ``note`` names the job. For one thread, but for ``held``."""

    def __init__(
        self, note: str = NOTE, *, seconds: float = SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._note = note
        self._me = secrets.token_hex(16)
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._seen: JSON = None
        self._since = clock()
        self._began = 0.0
        self._beat = 0

    @property
    def held(self) -> bool:
        """Whether this server may do it, now."""
        return self._clock() < self._until

    @property
    def due(self) -> bool:
        """Whether it is time to renew it: after a third, so that two attempts may fail."""
        return self._clock() > self._until - self._seconds * 2 / 3

    def free(self, note: JSON) -> bool:
        """Look at the note: whether it may be taken. Only looking now and then finds a dead holder out."""
        if note != self._seen:
            self._seen, self._since = note, self._clock()
        return note is None or note.get("holder") == self._me or self._clock() - self._since > self._seconds

    def take(self, session: Session) -> bool:
        """Take or renew it in this transaction, to be confirmed behind it; False if it is another's by now."""
        if not self.free(session.transaction.settings.get(self._note)):
            self._until = 0.0
            return False
        self._began = self._clock()
        self._beat += 1
        session.transaction.settings.put(self._note, {"holder": self._me, "beat": self._beat})
        return True

    def confirm(self) -> None:
        """What was taken is committed: it counts from the moment when it was written."""
        self._until = self._began + self._seconds

    def release(self, session: Session) -> None:
        """Give it back, so that nobody has to wait."""
        self._until = 0.0
        if (session.transaction.settings.get(self._note) or {}).get("holder") == self._me:
            session.transaction.settings.put(self._note, None)
