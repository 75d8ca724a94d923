"""Request bodies, read with a bound on their size."""

from __future__ import annotations

from starlette.types import Receive, Scope

from signalbook.errors import RegistryError


class Disconnected(Exception):
    """The client went away before its request was complete; there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive, limit: int, subject: str) -> bytes:
    """The whole body, at most ``limit`` bytes; beyond it ``bad_request``, before the rest is read (R312)."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_long(limit, subject)
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
