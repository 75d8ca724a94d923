"""Request bodies, read with a bound on their size."""

from __future__ import annotations

from starlette.types import Receive, Scope

from signalbook.errors import RegistryError


class Disconnected(Exception):
    """The client went away before its request was complete; there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive, limit: int, subject: str) -> bytes:
    """The whole body, at most ``limit`` bytes; beyond it ``bad_request``, before the rest is read (R312).

    So is a compressed body: it would be stored as it came, under a name that does not tell.
    """
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_long(limit, subject)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        detail = "the body has a Content-Encoding; send it without one"
        raise RegistryError("bad_request", subject=subject, error_detail=detail)
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
