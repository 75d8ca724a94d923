"""What comes with a request: its body, read with a bound on size and time, and the URL that clients know us by."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from typing import Final

from starlette.types import Receive, Scope

from signalbook.errors import RegistryError
from signalbook.settings import Settings

_DIGITS: Final = 18
"""Of a length: no number is made of more."""


class Disconnected(Exception):
    """The client went away before its request was complete; there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive, subject: str, *, limit: int, timeout: float) -> bytes:
    """The whole body, at most ``limit`` bytes; beyond it ``bad_request``, before the rest is read (R312).

    So are a body that takes longer than ``timeout`` seconds, and a compressed one: it would be stored as it came, under
    a name that does not tell.
    """
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"").lstrip(b"0")
    if declared.isdigit() and (len(declared) > _DIGITS or int(declared) > limit):
        raise _too_long(limit, subject)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        detail = "the body has a Content-Encoding; send it without one"
        raise RegistryError("bad_request", subject=subject, error_detail=detail)
    try:
        async with asyncio.timeout(timeout):
            return await _received(receive, limit, subject)
    except TimeoutError:
        detail = f"the body did not arrive within {timeout:g} seconds (setting body_timeout)"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None


async def _received(receive: Receive, limit: int, subject: str) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_long(limit, subject)
        parts.append(part)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(limit: int, subject: str) -> RegistryError:
    detail = f"the body is larger than the {limit} bytes this server takes (setting max_body_bytes)"
    return RegistryError("bad_request", subject=subject, error_detail=detail)


_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)


def base_url(scope: Scope, settings: Settings) -> str:
    """Without a trailing slash: the setting ``base_url``, or else scheme and host of the request.

    A ``Host`` that is none is not repeated: it goes into URLs and headers.
    """
    if settings.base_url:
        return settings.base_url.rstrip("/")
    given = b""
    for name, value in scope["headers"]:
        if name == b"host":
            given = value
            break
    return _url(scope.get("scheme", "http"), given, scope.get("server"), scope.get("root_path", ""))


@lru_cache(maxsize=128)
def _url(scheme: str, given: bytes, server: tuple[str, int | None] | None, path: str) -> str:
    host = given.decode("latin-1")
    if not _HOST.fullmatch(host):
        host, port = server or ("localhost", None)
        host = f"{host}:{port}" if port else host
    return f"{scheme}://{host}{path}"
