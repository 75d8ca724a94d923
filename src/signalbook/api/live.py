"""Events as they happen, for as long as a reader listens (HTML Living Standard, "Server-sent events")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from starlette.types import Receive, Scope, Send

from signalbook.engine.history import Forgotten
from signalbook.events.head import Head
from signalbook.storage.base import StorageError
from signalbook.values import JSONObject, dump_json

CONTENT_TYPE: Final = "text/event-stream"
_HEADERS: Final = [
    (b"content-type", f"{CONTENT_TYPE}; charset=utf-8".encode("ascii")),
    (b"cache-control", b"no-store"),
    # A proxy that collects answers before it passes them on would keep every event to itself.
    (b"x-accel-buffering", b"no"),
]
_SIGN_OF_LIFE: Final = 15.0
_RETRY_MILLISECONDS: Final = 1000


class EventPage(Protocol):
    """Events found on one look, and how far it went."""

    @property
    def events(self) -> Sequence[JSONObject]:
        """CloudEvents in the JSON format."""

    @property
    def after(self) -> int:
        """The position of the last one looked at, wanted or not."""


def wants_events(scope: Scope) -> bool:
    """Whether a request accepts a stream of events."""
    return any(
        name == b"accept" and CONTENT_TYPE in value.decode("latin-1").lower() for name, value in scope["headers"]
    )


async def events(
    look: Callable[[int], Awaitable[EventPage]], after: int, head: Head, receive: Receive, send: Send
) -> None:
    """Send what ``look`` finds behind ``after``, then whatever follows, until the reader is gone.

    The ``id`` of each is its position. Events that a filter keeps back move it too, so that whoever comes back with
    ``Last-Event-ID`` does not have them looked at again.
    """
    gone = asyncio.create_task(_disconnected(receive))
    try:
        seen = await look(after)  # what is wrong with the question is told as an error, before anything is sent
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _send(send, f"retry: {_RETRY_MILLISECONDS}\n\n".encode("ascii"))
        with suppress(StorageError, Forgotten):  # the reader comes back, and is told then
            while not gone.done():
                await _send(send, _told(seen, after))
                if seen.after == after:
                    await _either(gone, asyncio.create_task(_beyond(head, after)))
                after = seen.after
                seen = await look(after)
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


async def _beyond(head: Head, position: int) -> None:
    """Return when there is a change behind ``position``, or when it is time for a sign of life."""
    loop = asyncio.get_running_loop()
    moved = asyncio.Event()

    def tell(_: int) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(moved.set)

    stop = head.listen(tell)
    try:
        if head.position <= position:
            with suppress(TimeoutError):
                await asyncio.wait_for(moved.wait(), _SIGN_OF_LIFE)
    finally:
        stop()


def _told(seen: EventPage, after: int) -> bytes:
    """The events as text; a comment where there is nothing at all to tell, so that the connection is known to live."""
    lines = [b"id: %s\ndata: %s\n\n" % (str(event["id"]).encode("ascii"), dump_json(event)) for event in seen.events]
    if seen.after == after:
        return b":\n\n"
    return b"".join(lines) + b"id: %d\n\n" % seen.after


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _either(one: asyncio.Task[None], other: asyncio.Task[None]) -> None:
    """Wait for either; ``other`` ends with it."""
    try:
        await asyncio.wait((one, other), return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
