"""Responses that are sent while they are made: large ones, and streams of events.

A thread writes a large response to a temporary file, and the event loop sends it from there at the same time. So the
transaction lasts as long as the work and not as long as the slowest reader, and memory holds one piece at a time. A
response that turns out to be small is sent like any other. Events are sent as they happen (HTML Living Standard,
"Server-sent events").
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import IO, Any, Final, Protocol

from starlette.types import Receive, Scope, Send

from signalbook.access.base import AuthenticationUnavailable, Forbidden, Unauthenticated
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.responses import Response, Sendable, write_all
from signalbook.engine.engine import HistoryPruned
from signalbook.events.feed import Head
from signalbook.storage.base import StorageError
from signalbook.values import JSONObject, dump_json

STOPPING: Final = "stopping"
"""The key in the application's lifespan state of an event that is set when the server stops."""
_LARGE: Final = 1 << 20
"""The number of bytes from which on a response is sent before it is complete."""
_PART: Final = 1 << 16
CONTENT_TYPE: Final = "text/event-stream"
_STREAM_HEADERS: Final = [
    (b"content-type", f"{CONTENT_TYPE}; charset=utf-8".encode("ascii")),
    (b"cache-control", b"no-store"),
    # A proxy that buffers responses would not pass on any event.
    (b"x-accel-buffering", b"no"),
]
_SIGN_OF_LIFE: Final = 15.0
_ADMITTED: Final = 1.0
"""The seconds between two checks that the reader of an event stream is still admitted."""
_ENDS: Final = (StorageError, HistoryPruned, Unauthenticated, AuthenticationUnavailable, Forbidden)
_RETRY_MILLISECONDS: Final = 1000


def build_uncached(response: Response) -> Response:
    """Return ``response`` with headers that forbid caching, and without an entity tag."""
    headers = tuple(header for header in response.headers if header[0] not in ("Cache-Control", "ETag"))
    return replace(response, headers=(*headers, NO_STORE), etag="")


def forbid_caching(response: Sendable) -> Sendable:
    """Return ``response`` such that no cache stores it. Event streams are never stored anyway."""
    if isinstance(response, Response):
        return build_uncached(response)
    if isinstance(response, SpooledResponse):
        response.kept = False
    return response


class Abandoned(Exception):
    """The client disconnected, so the rest of the response is not needed."""


class SpooledResponse:
    """A response that a thread makes and the event loop sends.

    ``timeout`` is the number of seconds that the client may take to fetch it. ``begun`` gets the head of the response
    once the response has turned out to be large.
    """

    def __init__(self, *, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self.begun: asyncio.Future[Response] = self._loop.create_future()
        self._file: IO[bytes] | None = None
        self.kept = True
        """True if caches may store the response."""
        self._abandoned = False
        # The following attributes belong to the event loop. The thread only schedules calls there.
        self._users = 2
        self._size = 0
        self._over = self._complete = False
        self._news = asyncio.Event()
        self._when_sent: list[Callable[[], None]] = []

    def call_when_sent(self, action: Callable[[], None]) -> None:
        """Call ``action`` when the response has been sent, or sending it has failed."""
        self._when_sent.append(action)

    def fill(self, small: Response, large: Response, pieces: Iterator[bytes]) -> Response:
        """Make the response whose body is ``pieces``. Run this in a thread.

        Returns ``small`` with this body, or ``large`` once the whole body is in the file. Raises the errors of
        ``pieces``, and ``Abandoned``.
        """
        first, size = [], 0
        for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > _LARGE:
                self._keep(large, chain(first, pieces))
                return large
        return replace(small, body=b"".join(first))

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the large response that has begun. A failure ends the connection early, so that the client
        notices it."""
        head = self.begun.result() if self.kept else build_uncached(self.begun.result())
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        gone.add_done_callback(lambda _: self._news.set())
        try:
            async with asyncio.timeout(self._timeout):
                # The length is not known yet: the server sends chunks.
                headers = [header for header in head.wire_headers if header[0] != b"content-length"]
                await send({"type": "http.response.start", "status": head.status, "headers": headers})
                if scope["method"] != "HEAD":
                    await self._send_parts(send, gone)
                await send({"type": "http.response.body", "body": b""})
        except (TimeoutError, Abandoned):
            return
        finally:
            gone.cancel()
            self.abandon()
            for action in self._when_sent:
                action()

    def abandon(self) -> None:
        """Stop making the response, because nobody will read it. ``send`` calls this; call it only if ``send`` is not
        called."""
        self._abandoned = True
        self._release()

    async def _send_parts(self, send: Send, gone: asyncio.Future[None]) -> None:
        sent = 0
        while sent < self._size or not self._over:
            if gone.done():
                raise Abandoned
            # Cleared before waiting, on the loop that sets it too: no news can be missed in between.
            if sent == self._size:
                self._news.clear()
                await self._news.wait()
                continue
            part = os.pread(self._number, min(_PART, self._size - sent), sent)
            await send({"type": "http.response.body", "body": part, "more_body": True})
            sent += len(part)
        # The thread failed: ending without the last chunk makes the client see a broken response.
        if not self._complete:
            raise Abandoned

    def _keep(self, head: Response, pieces: Iterator[bytes]) -> None:
        self._file = file = tempfile.TemporaryFile(prefix="signalbook-", buffering=0)  # noqa: SIM115  see _release
        # From here on the response cannot become an error any more, because its head is being sent.
        self._call(self.begun.set_result, head)
        complete = False
        try:
            for part in _join_pieces(pieces):
                if self._abandoned:
                    raise Abandoned
                self._call(self._add_size, write_all(file, part))
            complete = True
        finally:
            self._call(self._end, complete)

    @property
    def _number(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def _call(self, change: Callable[..., object], *news: object) -> None:
        self._loop.call_soon_threadsafe(change, *news)

    def _add_size(self, size: int) -> None:
        self._size += size
        self._news.set()

    def _end(self, complete: bool) -> None:
        self._over, self._complete = True, complete
        self._news.set()
        self._release()

    def _release(self) -> None:
        """Close the temporary file when both its users have finished."""
        # The thread writes and the event loop reads: whichever ends last closes the file, which then vanishes.
        self._users -= 1
        if not self._users and self._file is not None:
            self._file.close()


def _join_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield ``pieces`` joined to chunks that are large enough for a system call."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PART:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventPage(Protocol):
    """Events found by one query, and the position that it reached."""

    @property
    def events(self) -> Sequence[JSONObject]:
        """CloudEvents in the JSON format."""

    @property
    def after(self) -> int:
        """The position of the last event that was examined, whether it was selected or not."""


def is_event_stream_request(scope: Scope) -> bool:
    """Return True if a request accepts a stream of events."""
    return any(
        name == b"accept" and CONTENT_TYPE in value.decode("latin-1").lower() for name, value in scope["headers"]
    )


class EventStream:
    """A stream of events: first those of ``page``, found after the position ``after``, then those that ``look`` finds.

    It ends when the reader disconnects, the server stops, or ``admit`` or ``look`` raises because the reader is no
    longer admitted. ``admit`` is called every second. The ``id`` of each event is its position. Events that the filter
    drops advance the position, too, so that a reader who reconnects with ``Last-Event-ID`` does not have them examined
    again.
    """

    def __init__(
        self,
        look: Callable[[int], Awaitable[EventPage]],
        page: EventPage,
        after: int,
        head: Head,
        admit: Callable[[], Awaitable[object]],
    ) -> None:
        self._look = look
        self._admit = admit
        self._page = page
        self._after = after
        self._head = head

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the reader disconnects or the server stops."""
        page, after = self._page, self._after
        over = asyncio.create_task(_wait_for_end(scope, receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
            await _send(send, f"retry: {_RETRY_MILLISECONDS}\n\n".encode("ascii"))
            # An error from here on ends the stream: the reader reconnects, and gets the error then.
            with suppress(*_ENDS):
                while not over.done():
                    await _send(send, _format_events(page, after))
                    # Nothing new: wait for a change, or until a comment has to keep the connection alive.
                    if page.after == after:
                        await _wait_for_either(
                            over, asyncio.create_task(_wait_for_change(self._head, after, self._admit))
                        )
                    after = page.after
                    page = await self._look(after)
            await send({"type": "http.response.body", "body": b""})
        finally:
            over.cancel()


async def _wait_for_end(scope: Scope, receive: Receive) -> None:
    gone = asyncio.create_task(_wait_for_disconnect(receive))
    stopping: asyncio.Event | None = scope.get("state", {}).get(STOPPING)
    try:
        await _wait_for_either(gone, asyncio.create_task(stopping.wait()) if stopping else gone)
    finally:
        gone.cancel()


async def _wait_for_change(head: Head, position: int, admit: Callable[[], Awaitable[object]]) -> None:
    """Wait until there is a change after ``position``, a keep-alive comment is due, or ``admit`` raises. In the last
    case the next ``look`` raises, too."""
    loop = asyncio.get_running_loop()
    moved = asyncio.Event()

    def wake(_: int) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is waiting any more
            loop.call_soon_threadsafe(moved.set)

    stop = head.listen(wake)
    try:
        # Listening begins before this check, so that a change in between is not missed.
        if head.position <= position:
            with suppress(TimeoutError, *_ENDS):
                async with asyncio.timeout(_SIGN_OF_LIFE):
                    await _wait_while_admitted(moved, admit)
    finally:
        stop()


async def _wait_while_admitted(moved: asyncio.Event, admit: Callable[[], Awaitable[object]]) -> None:
    while not moved.is_set():
        await admit()
        with suppress(TimeoutError):
            await asyncio.wait_for(moved.wait(), _ADMITTED)


def _format_events(page: EventPage, after: int) -> bytes:
    """Return the events as text, or a comment that keeps the connection alive if ``page`` is not beyond ``after``."""
    lines = [b"id: %s\ndata: %s\n\n" % (str(event["id"]).encode("ascii"), dump_json(event)) for event in page.events]
    if page.after == after:
        return b":\n\n"
    return b"".join(lines) + b"id: %d\n\n" % page.after


async def _wait_for_either(task: asyncio.Task[None], other: asyncio.Task[Any]) -> None:
    """Wait until one of the tasks ends. ``other`` is cancelled then."""
    try:
        await asyncio.wait((task, other), return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
