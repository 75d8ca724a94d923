"""Change notices from other registries: CloudEvents in structured, binary and batch mode, each counted once (D-36)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONError, JSONObject, fingerprint, parse_json

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
_MAX_DEPTH: Final = 32
_REQUIRED: Final = ("id", "source", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What of an event counts: ``source`` and ``id`` make it this one and no other."""

    source: str
    id: str

    @property
    def mark(self) -> str:
        """What distinguishes it from others, short however long they are."""
        return fingerprint([self.source, self.id])


def parse(headers: Mapping[str, str], body: bytes) -> list[Notice] | None:
    """The events of a request, None if there are none in it (HTTP protocol binding 3).

    Raises ``parsing_data`` and ``bad_request`` for what is no event.
    """
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == BATCH:
        events = _json(body)
        if not isinstance(events, list):
            raise _bad("a batch of events is a JSON array")
        return [_notice(event) for event in events]
    if media == STRUCTURED:
        return [_notice(_json(body))]
    if "ce-specversion" in headers:
        named = {name.removeprefix("ce-"): unquote(value) for name, value in headers.items() if name.startswith("ce-")}
        return [_notice(named)]
    return None


def _json(body: bytes) -> JSON:
    try:
        return parse_json(body, max_depth=_MAX_DEPTH)
    except JSONError as error:
        raise RegistryError("parsing_data", subject="/notifications", error_detail=str(error)) from None


def _notice(event: JSON) -> Notice:
    if not isinstance(event, dict):
        raise _bad("an event is a JSON object")
    found: JSONObject = event
    for name in _REQUIRED:
        if not isinstance(found.get(name), str) or not found[name]:
            raise _bad(f'an event has a "{name}", a text that is not empty')
    if found.get("specversion") != "1.0":
        raise _bad('an event has "specversion": "1.0"')
    return Notice(source=found["source"], id=found["id"])


def _bad(detail: str) -> RegistryError:
    return RegistryError("bad_request", subject="/notifications", error_detail=detail)


_REMEMBERED: Final = 10_000

T = TypeVar("T", bound=Hashable)


class RecentlySeen(Generic[T]):
    """The things seen last, up to ``limit`` of them: it may be no harm if one counts as new again."""

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._known: OrderedDict[T, None] = OrderedDict()

    def __contains__(self, thing: T) -> bool:
        return thing in self._known

    def add(self, thing: T) -> None:
        """Remember ``thing``; the oldest may be forgotten."""
        self._known[thing] = None
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
