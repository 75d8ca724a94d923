"""An HTTP answer as a value, and how it goes out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from starlette.types import Scope, Send

from signalbook.values import JSON, dump_json

JSON_TYPE: Final = "application/json; charset=utf-8"

Header = tuple[str, str]

_BODILESS: Final = (204, 304)
_OF_THE_UNMODIFIED: Final = ("ETag", "Cache-Control", "Content-Location", "Vary")


@dataclass(frozen=True, kw_only=True)
class Response:
    """Status, headers and body. Header values are ASCII without line breaks. ``etag`` is the tag among them, if any."""

    status: int = 200
    headers: tuple[Header, ...] = ()
    body: bytes = b""
    etag: str = ""

    @cached_property
    def wire_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as ASGI wants them, with the length of the body."""
        headers = [(_wire_name(name), value.encode("ascii")) for name, value in self.headers]
        if self.status not in _BODILESS:
            headers.append((b"content-length", str(len(self.body)).encode("ascii")))
        return headers

    @cached_property
    def unmodified(self) -> Response:
        """What a client gets that has this answer already (RFC9110 15.4.5)."""
        return Response(status=304, headers=tuple(header for header in self.headers if header[0] in _OF_THE_UNMODIFIED))


def json_response(value: JSON, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Response:
    """``value`` as a JSON body."""
    return Response(status=status, headers=(("Content-Type", JSON_TYPE), *headers), body=dump_json(value))


async def send_response(answer: Response, scope: Scope, send: Send) -> None:
    """Send ``answer``; to HEAD without its body (RFC9110 9.3.2)."""
    body = b"" if scope["method"] == "HEAD" else answer.body
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.wire_headers})
    await send({"type": "http.response.body", "body": body})


@lru_cache(maxsize=1024)
def _wire_name(name: str) -> bytes:
    return name.lower().encode("ascii")
