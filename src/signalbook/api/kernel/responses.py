"""Responses as values, and how they are sent; encoding of header values; headers for documents of clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import IO, Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from signalbook.values import JSON, dump_json

JSON_TYPE: Final = "application/json; charset=utf-8"

Header = tuple[str, str]
Headers = Iterable[tuple[bytes, bytes]]

_BODILESS: Final = (204, 304)
_OF_THE_UNMODIFIED: Final = ("ETag", "Cache-Control", "Content-Location", "Vary")
OCTETS: Final = "application/octet-stream"
# Documents come from clients: a browser must not guess their type or run them as part of this site (R317).
UNTRUSTED: Final[tuple[Header, ...]] = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
)
_MEDIA_TYPE: Final = re.compile(r"[\x20-\x7e]+", re.ASCII)
_BROKEN: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_UNSAFE: Final = re.compile(r"[^!#$&-~]")
_LAID_OUT_BYTES: Final = 1 << 20
"""The largest body that is indented on request. Indenting takes milliseconds, during which the event loop
is blocked."""
_INDENT: Final = re.compile(rb";[ \t]*indent=([1-8])(?![0-9])", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Response:
    """A response: status, headers and body. Header values are ASCII without line breaks. ``etag`` repeats the ETag
    header.

    ``is_json`` is True if the body is JSON made by this server, so that it may be formatted differently. ``encodings``
    caches its compressed forms.
    """

    status: int = 200
    headers: tuple[Header, ...] = ()
    body: bytes = b""
    etag: str = ""
    is_json: bool = False
    encodings: dict[str, Response] = field(init=False, default_factory=dict, compare=False, repr=False)

    @cached_property
    def wire_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as ASGI expects them, with the length of the body."""
        headers = [(_encode_name(name), value.encode("ascii")) for name, value in self.headers]
        if self.status not in _BODILESS:
            headers.append((b"content-length", str(len(self.body)).encode("ascii")))
        return headers

    @cached_property
    def head(self) -> bytes:
        """The status line and headers as bytes, cached for many requests.

        Raises ``ValueError`` if a header contains control characters such as line breaks.
        """
        lines = [b"%s: %s\r\n" % header for header in self.wire_headers]
        if any(_BROKEN.search(line, 0, len(line) - 2) for line in lines):
            raise ValueError("a header with control characters")
        return b"".join((status_line(self.status), *lines))

    @cached_property
    def unmodified(self) -> Response:
        """The 304 response for a client that has this response already (RFC9110 15.4.5)."""
        return Response(status=304, headers=tuple(header for header in self.headers if header[0] in _OF_THE_UNMODIFIED))

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  see Sendable
        """Send the response; for HEAD without its body (RFC9110 9.3.2)."""
        body = b"" if scope["method"] == "HEAD" else self.body
        await send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": self.wire_headers,
                "head": self.head,
                "length": 0 if self.status in _BODILESS else len(self.body),
            }
        )
        await send({"type": "http.response.body", "body": body})


class Sendable(Protocol):
    """A response that can be sent: a complete value, or a response that is sent while it is made."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response to the client."""


@lru_cache
def status_line(status: int) -> bytes:
    """Return the first line of a response."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode("ascii")


def build_options_response(methods: Iterable[str], allowed: Iterable[str] | None = None) -> Response:
    """Return the response to OPTIONS, including the preflight of a browser (R138).

    ``allowed`` are those of the ``methods`` that the caller may use; None means all.
    """
    all_methods = ", ".join(methods)
    # Browsers send the preflight without credentials, so it lists all methods of the path.
    allow = all_methods if allowed is None else ", ".join(allowed)
    return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", all_methods)))


def json_response(value: JSON, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Response:
    """Return ``value`` as a JSON response. The body ends with a newline, for people who read it in a terminal."""
    headers = (("Content-Type", JSON_TYPE), *headers)
    return Response(status=status, headers=headers, body=dump_json(value) + b"\n", is_json=True)


def format_laid_out(response: Response, request_headers: Iterable[tuple[bytes, bytes]]) -> Response:
    """Return ``response`` with its JSON indented if ``Accept`` requests it: ``application/json; indent=2``.

    Since the bytes differ then, the entity tag becomes a weak one (RFC9110 8.8.1).
    """
    if not response.is_json or len(response.body) > _LAID_OUT_BYTES:
        return response
    for name, value in request_headers:
        if name == b"accept" and (match := _INDENT.search(value)):
            body = msgspec.json.format(response.body, indent=int(match[1])) + b"\n"
            headers = tuple((n, f"W/{v}" if n == "ETag" else v) for n, v in response.headers)
            return replace(response, body=body, headers=(*headers, ("Vary", "Accept")))
    return response


@lru_cache(maxsize=1024)
def _encode_name(name: str) -> bytes:
    return name.lower().encode("ascii")


def media_type(contenttype: str | None) -> str | None:
    """Return a stored content type as a header value. One that is not valid in a header becomes ``OCTETS``; None stays
    None."""
    return contenttype if contenttype is None or _MEDIA_TYPE.fullmatch(contenttype) else OCTETS


def encode(text: str) -> str:
    """Percent-encode a value: space, quote, percent and everything outside printable ASCII (R166)."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), text)


def decode(value: str) -> str:
    """Decode a header value: the inverse of ``encode``. It also resolves double-quoted strings (R167).

    ``value`` holds one character per byte. Raises ``ValueError`` for broken quotes, broken escapes and bytes that are
    not UTF-8.
    """
    data = bytearray()
    position, text = 0, _unquote(value)
    while position < len(text):
        if text[position] == "%":
            data.append(_decode_byte(text[position + 1 : position + 3]))
            position += 3
        else:
            data += text[position].encode("latin-1")
            position += 1
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} of the decoded value is not UTF-8") from None


def _decode_byte(digits: str) -> int:
    if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return int(digits, 16)
    raise ValueError(f'"%{digits}" is no percent-encoded byte')


def _unquote(value: str) -> str:
    value = value.strip(" \t")
    if '"' not in value:
        return value
    result, quoted, position = [], False, 0
    while position < len(value):
        character = value[position]
        if character == '"':
            quoted = not quoted
        elif character == "\\" and quoted:
            position += 1
            result.append(value[position : position + 1])
        else:
            result.append(character)
        position += 1
    if quoted:
        raise ValueError("a double quote is not closed")
    return "".join(result)


def write_all(file: IO[bytes], content: bytes) -> int:
    """Write ``content`` to an unbuffered file, whose own ``write`` may end early on a disk that is nearly full.

    Returns its size. Raises ``OSError``.
    """
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[file.write(remaining) :]
    return len(content)
