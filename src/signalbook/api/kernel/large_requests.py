"""Handle requests with large bodies in a separate process, which ends when it has been idle for a while.

Processing 60 MB holds the interpreter's lock for seconds, up to a quarter of a second at a time, and most of the memory
it takes is never returned. In a separate process, it neither delays other requests nor keeps memory of the server.
One large request is handled at a time.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import IO, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.responses import write_all
from signalbook.settings import Settings
from signalbook.storage.base import StorageBusy

_IDLE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 10.0
_PART: Final = 1 << 16
_SENT: Final = frozenset(
    {"type", "http_version", "method", "scheme", "path", "raw_path", "root_path", "query_string", "headers"}
    | {"client", "server", "certificate", "base_url"}
)
"""The members of a scope that are sent to the other process. That process identifies the caller again."""

Start = Callable[[socket.socket], "subprocess.Popen[bytes]"]


class LargeRequests:
    """The separate process for large requests. For one event loop.

    ``start`` starts the process with a socket. The process reads the ``settings`` from it, and then handles requests
    until the socket is closed.
    """

    def __init__(self, start: Start, settings: Settings) -> None:
        self._start = start
        self._settings = settings
        self._turns = Workers(threads=1, timeout=settings.request_timeout)
        self._idle: asyncio.TimerHandle | None = None
        self._running: _Running | None = None
        """Used only by the one thread of ``_turns``."""

    async def respond(self, scope: Scope, body: IO[bytes]) -> LargeResponse:
        """Return the response to a request whose body is in a file. Raises ``StorageBusy``."""
        if self._idle is not None:
            self._idle.cancel()
        sent = {name: value for name, value in scope.items() if name in _SENT}
        try:
            return await self._turns.read(partial(self._send_request, sent, body))
        finally:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._turns.begin, self._stop)

    def close(self) -> None:
        """Finish the running request, and end the process."""
        if self._idle is not None:
            self._idle.cancel()
        self._turns.close(drop=True)
        self._stop()

    def _send_request(self, sent: Mapping[str, object], body: IO[bytes]) -> LargeResponse:
        if self._running is not None and self._running.process.poll() is not None:
            self._stop()
        if self._running is None:
            self._running = _Running(self._start, self._settings)
        connection = self._running.connection
        try:
            with body:
                connection.send(sent)
                send_handle(connection, body.fileno(), self._running.process.pid)
            status, headers = connection.recv()
            return LargeResponse(status, headers, os.fdopen(recv_handle(connection), "rb"))
        except (OSError, EOFError, RuntimeError):  # the last where there are no more descriptors
            self._stop()
            detail = "the process for large requests ended, perhaps for want of memory; look whether this one was done"
            raise StorageBusy(detail) from None

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None


class _Running:
    """The running process and the connection to it."""

    def __init__(self, start: Start, settings: Settings) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = start(theirs)
        self.connection = Connection(ours.detach())
        self.connection.send(settings)

    def stop(self) -> None:
        """End the process, by force if it does not end in time."""
        self.connection.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOP_SECONDS)
        self.process.kill()
        self.process.wait()


class LargeResponse:
    """The response of the separate process, with its body in a file."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: IO[bytes]) -> None:
        self._status = status
        self._headers = headers
        self._body = body

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  see Sendable
        """Send the response, a part at a time."""
        with self._body as file:
            await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
            file.seek(0)
            while part := file.read(_PART):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def serve(find: Callable[[Scope], ASGIApp], connection: Connection) -> None:
    """Handle the requests of a connection in this process, one after the other, until the connection ends.

    ``find`` returns the application for a request. The process that received the request adds the headers that all
    responses share.
    """
    while True:
        try:
            scope = connection.recv()
        except EOFError:
            return
        await asyncio.sleep(0)  # end the turn of the event loop, so that its cached generation is dropped
        with os.fdopen(recv_handle(connection), "rb") as file:
            file.seek(0)
            body = file.read()
        with tempfile.TemporaryFile(prefix="signalbook-", buffering=0) as answer:
            start = await _run_request(find(scope), scope, body, answer)
            connection.send((start["status"], start["headers"]))
            send_handle(connection, answer.fileno(), os.getppid())


async def _run_request(app: ASGIApp, scope: Scope, body: bytes, answer: IO[bytes]) -> Message:
    """Run ``app`` and write the response's body to the file ``answer``. Return the message that begins the response."""
    messages = [{"type": "http.request", "body": body}]
    begun: list[Message] = []

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # this process cannot see whether the client disconnects
        return messages.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.append(message)
        else:
            write_all(answer, message.get("body", b""))

    await app(scope, receive, send)
    return begun[0]
