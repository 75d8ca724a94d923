"""The change feed of a server: what was committed, and waiting for more (core/events.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx

from signalbook.client.answers import BadAnswer
from signalbook.client.transport import Transport
from signalbook.values import JSONError, JSONObject, parse_json

_PATH: Final = "/events"
_STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """CloudEvents in the order of their commits, the ``position`` they reach to, and whether there are ``more`` now."""

    events: tuple[JSONObject, ...]
    position: int
    more: bool


def read(transport: Transport, after: int, limit: int | None) -> Events:
    """As ``Client.events``."""
    query = {"after": str(after)} | ({} if limit is None else {"limit": str(limit)})
    answer = transport.send("GET", _PATH, query=query)
    try:
        events = parse_json(answer.content)
    except JSONError as error:
        raise BadAnswer(f"{answer.url}: this is no change feed ({error})") from None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise BadAnswer(f"{answer.url}: this is no change feed: it answers without a batch of events")
    following = answer.links.get("next", {}).get("url")
    last = after if not events else _number(str(events[-1].get("id", "")), answer)
    position = last if following is None else _after(following, answer)
    return Events(events=tuple(events), position=max(after, position), more=following is not None)


def last(transport: Transport) -> int:
    """As ``Client.last_event``."""
    answer = transport.send("GET", _PATH, query={"limit": "1"})
    link = answer.links.get("last", {}).get("url")
    if link is None:
        raise BadAnswer(f"{answer.url}: the change feed does not tell where it ends")
    return _after(link, answer)


def wait(transport: Transport, after: int, seconds: float) -> bool:
    """As ``Client.wait_for_event``."""
    deadline = time.monotonic() + seconds
    headers = {"Accept": _STREAM}
    lines = transport.lines(_PATH, query={"after": str(after)}, headers=headers, timeout=seconds)
    try:
        with closing(lines):
            return any(line.startswith("data:") for line in _until(deadline, lines))
    except httpx.ReadTimeout:
        return False


def _until(deadline: float, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if time.monotonic() > deadline:
            return


def _after(url: str, answer: httpx.Response) -> int:
    return _number("".join(parse_qs(urlsplit(url).query).get("after", ())), answer)


def _number(text: str, answer: httpx.Response) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadAnswer(f"{answer.url}: {text[:40]!r} is no position of a change feed")
    return int(text)
