"""The floor: an ASGI handler that answers every request with one document from memory, served as the registry is."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels

BODY = b'{"title":"Record","type":"object","properties":{"name":{"type":"string"}}}' * 6


async def app(
    scope: dict[str, Any], _receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    if scope["type"] == "http":
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})


if __name__ == "__main__":
    Granian(
        "bare:app",
        address="127.0.0.1",
        port=int(sys.argv[1]),
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        log_level=LogLevels.warning,
    ).serve()
