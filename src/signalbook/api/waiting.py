"""Responses of a server process while its database is unavailable: it is alive, but not ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.errors import NO_STORE, build_error_response
from signalbook.api.kernel.responses import json_response
from signalbook.api.kernel.streaming import STOPPING
from signalbook.errors import SignalbookError
from signalbook.storage.base import StorageError

_LOG: Final = logging.getLogger("signalbook.api")
_PAUSE_SECONDS: Final = 1.0


class Waiting:
    """An ASGI application that stands in for the application that ``make`` returns.

    ``make`` raises an error until the database is available. Until then, requests get the last error, at first
    ``error``; only ``/health/live`` responds with 200.
    """

    def __init__(self, make: Callable[[], Starlette], error: StorageError) -> None:
        self._make = make
        self._error: SignalbookError = error
        self._app: Starlette | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it while there is none; or run the lifespan."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["path"] == "/health/live":
            await json_response({"status": "ok"}, headers=(NO_STORE,)).send(scope, receive, send)
        else:
            await build_error_response(self._error, scope["path"]).send(scope, receive, send)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        scope["state"][STOPPING] = asyncio.Event()
        async with AsyncExitStack() as stack:
            task = asyncio.create_task(self._wait(stack))
            await send({"type": "lifespan.startup.complete"})
            await receive()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await send({"type": "lifespan.shutdown.complete"})

    async def _wait(self, stack: AsyncExitStack) -> None:
        """Call ``make`` until it succeeds, then start the application."""
        logged = ""
        while True:
            try:
                app = await asyncio.to_thread(self._make)
                break
            except SignalbookError as error:
                self._error = error
                if str(error) != logged:
                    logged = str(error)
                    _LOG.error("this server is not ready: %s", error)
            await asyncio.sleep(_PAUSE_SECONDS)
        await stack.enter_async_context(app.router.lifespan_context(app))
        self._app = app
        _LOG.warning("the database is there: this server is ready")
