"""Large answers on their way: a thread writes one to a temporary file, the event loop sends it from there meanwhile.

So the transaction lasts as long as the work and not as long as the slowest reader, memory holds a piece at a time, and
an answer that is not large after all goes out like any other.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import IO, Final

from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response

_LARGE: Final = 1 << 20
"""Bytes from which an answer begins before it is complete."""
_PART: Final = 1 << 16


class Abandoned(Exception):
    """The client went away: nobody wants the rest."""


class SpooledResponse:
    """One answer between the thread that makes it and the event loop that sends it.

    ``timeout`` is how many seconds the client may take to fetch it. ``begun`` is the head of the answer, as soon as it
    has turned out to be large.
    """

    def __init__(self, *, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = timeout
        self.begun: asyncio.Future[Response] = self._loop.create_future()
        self._file: IO[bytes] | None = None
        self._abandoned = False
        # What follows belongs to the event loop; the thread only sends word.
        self._users = 2
        self._size = 0
        self._over = self._complete = False
        self._news = asyncio.Event()

    def fill(self, small: Response, large: Response, pieces: Iterator[bytes]) -> Response:
        """In a thread: make the answer whose body is ``pieces``.

        Returns ``small`` with that body, or ``large`` once all of it is in the file. Raises what ``pieces`` raise, and
        ``Abandoned``.
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
        """Send what has begun. What fails on the way ends the connection: no client shall take it for complete."""
        head = self.begun.result()
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: self._news.set())
        try:
            async with asyncio.timeout(self._timeout):
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

    def abandon(self) -> None:
        """Once, by who would have sent it: nobody wants the rest."""
        self._abandoned = True
        self._release()

    async def _send_parts(self, send: Send, gone: asyncio.Future[None]) -> None:
        sent = 0
        while sent < self._size or not self._over:
            if gone.done():
                raise Abandoned
            if sent == self._size:
                self._news.clear()
                await self._news.wait()
                continue
            part = os.pread(self._number, min(_PART, self._size - sent), sent)
            await send({"type": "http.response.body", "body": part, "more_body": True})
            sent += len(part)
        if not self._complete:
            raise Abandoned

    def _keep(self, head: Response, pieces: Iterator[bytes]) -> None:
        self._file = tempfile.TemporaryFile(prefix="signalbook-", buffering=0)  # noqa: SIM115  see _release
        self._tell(self.begun.set_result, head)
        complete = False
        try:
            for part in _parts(pieces):
                if self._abandoned:
                    raise Abandoned
                self._tell(self._grow, os.write(self._number, part))
            complete = True
        finally:
            self._tell(self._end, complete)

    @property
    def _number(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def _tell(self, change: Callable[..., object], *news: object) -> None:
        self._loop.call_soon_threadsafe(change, *news)

    def _grow(self, size: int) -> None:
        self._size += size
        self._news.set()

    def _end(self, complete: bool) -> None:
        self._over, self._complete = True, complete
        self._news.set()
        self._release()

    def _release(self) -> None:
        """The file goes with the second of its users."""
        self._users -= 1
        if not self._users and self._file is not None:
            self._file.close()


def _parts(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """``pieces`` joined to what is worth a system call."""
    waiting, size = [], 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _PART:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
