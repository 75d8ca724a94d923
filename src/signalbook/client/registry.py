"""What commands and replication ask of a registry, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from signalbook.documents import Upload
from signalbook.values import JSONObject
from signalbook.xid import Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to show: request flags as they go into a URL, and how many members of a collection."""

    filter: tuple[str, ...] = ()
    sort: str | None = None
    inline: tuple[str, ...] = ()
    limit: int | None = None


class Registry(Protocol):
    """What commands ask of a registry."""

    def model(self) -> JSONObject:
        """The full model."""

    def modelsource(self) -> JSONObject:
        """The model as it was supplied."""

    def find(self, xid: Xid) -> JSONObject | None:
        """An entity in document view with all beneath it; the Registry with its capabilities alone."""

    def patch(self, upload: Upload, ignore: Sequence[str]) -> bool:
        """Send ``upload``, leaving out what ``ignore`` names too; whether it is to be seen now."""

    def get(self, xid: Xid, reading: Reading) -> JSONObject:
        """An entity. Raises ``SignalbookError``."""

    def items(self, xid: Xid, reading: Reading) -> Iterator[tuple[str, JSONObject]]:
        """The members of a collection, no more than ``limit``. Raises ``SignalbookError``."""

    def export(self, target: Xid) -> Iterator[bytes]:
        """The text of the document that ``target`` with all beneath it makes."""

    def entities(self) -> Iterator[tuple[Xid, JSONObject]]:
        """The Registry, its Groups alone and their Resources with Versions, in document view with ``binary``."""

    def trying(self) -> AbstractContextManager[Registry]:
        """A registry that looks like this one and forgets at the end what it was sent."""
