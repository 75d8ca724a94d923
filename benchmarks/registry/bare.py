"""The floor: an ASGI handler that answers every request with one document from memory, served as the registry is."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

BODY = b'{"title":"Record","type":"object","properties":{"name":{"type":"string"}}}' * 6


async def app(
    scope: dict[str, Any], _receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    if scope["type"] == "http":
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})


if __name__ == "__main__":
    # The same parser and event loop as the registry's, in one process too.
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", access_log=False)
