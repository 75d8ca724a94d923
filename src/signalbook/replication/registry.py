"""What replication asks of a registry, wherever it is: behind its API, or in a database this process has open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from signalbook.errors import SignalbookError
from signalbook.values import JSONObject
from signalbook.xid import Xid

PAGE: Final = 200
"""Members of a collection that are asked for at a time."""


class TooLarge(SignalbookError):
    """An answer that is too large to be held at once."""


class Pruned(SignalbookError):
    """The history does not reach back to where it was to be read from."""


class NoHistory(SignalbookError):
    """A registry that does not tell what changed."""


class Refusal(SignalbookError):
    """A write that a registry refused; nothing of it was done."""


class Closed(SignalbookError):
    """A registry that takes no copies at all (D-12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changed, as hints where to look: CloudEvents, up to a ``position``, and whether there is ``more`` now."""

    events: Sequence[JSONObject]
    position: int
    more: bool


def mark_of(events: Sequence[JSONObject], position: int) -> str:
    """What tells the event at ``position`` from any other that may come to be there; ``""`` if it is missing."""
    found = next((event for event in reversed(events) if event.get("id") == str(position)), None)
    return "" if found is None else f"{found.get('time', '')} {found.get('xregcorrelationid', '')}".strip()


class Source(Protocol):
    """A registry to copy from. Everything it shows is in document view, documents as base64.

    Where it cannot be reached, every method raises ``client.Unreachable`` or ``StorageError``.
    """

    @property
    def partial(self) -> bool:
        """Whether there may be more of a Version than it has words for: what it does not tell stays as it is."""

    @property
    def url(self) -> str:
        """The URL of its root as it says itself, without a slash at the end; ``""`` if it does not know."""

    def bases(self) -> Mapping[str, str]:
        """URLs of the APIs that it makes URIs of Versions for, by type of Resource, where they are not the root's."""

    def model(self) -> JSONObject:
        """The full model."""

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""

    def find(self, xid: Xid, *, deep: bool) -> JSONObject | None:
        """An entity, with all beneath it if ``deep``, else of a Resource its meta alone; None if it is not there.

        A Version has its document.

        Raises ``TooLarge``.
        """

    def members(self, collection: Xid, *, deep: bool, page: int = PAGE) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection by id, as ``find`` shows them, a page at a time. Raises ``TooLarge`` anywhere."""

    def position(self) -> int:
        """The position behind all that was committed. Raises ``NoHistory``."""

    def changes(self, after: int) -> Changes:
        """What was committed behind a position, a part of it at a time. Raises ``Pruned``, ``NoHistory``."""

    def mark(self, position: int) -> str:
        """What tells the change at a position from any other, ``""`` if that is not known or not there."""

    def wait(self, after: int, seconds: float) -> None:
        """Return once there may be a change behind ``after``, or when the time is over."""


class Registry(Source, Protocol):
    """A registry to copy to, or from. Writes raise ``Closed`` if it takes none."""

    def replace_model(self, source: JSONObject) -> None:
        """Put this model in force. Raises ``Refusal``."""

    def patch(self, target: Xid, body: JSONObject) -> None:
        """Create or change what ``body`` names, all of it or nothing. Raises ``Refusal``."""

    def delete(self, collection: Xid, ids: Sequence[str]) -> None:
        """Delete these members, as far as they are there. Raises ``Refusal``."""
