"""How far a subscription's deliveries are: the note ``deliveries/<id>``, kept beside the subscription itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Self

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
