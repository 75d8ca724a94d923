"""Bodies as they are said to be: packed, and within bounds unpacked, or text (domain.md K-40, K-43, RFC 9110 8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from signalbook.messages.message import Message
from signalbook.messages.reasons import Reason
from signalbook.values import Finding

MAX_DECOMPRESSED: Final = 256 * 1024 * 1024
_MAX_LAYERS: Final = 4
_PIECE: Final = 4096
_IDENTITY: Final = ("", "identity")
TEXT: Final = "payload_format_indicator"
_UTF_8: Final = 1


class Unreadable(Exception):
    """A body that is not what it is said to be; ``reason`` and ``finding`` say why."""

    def __init__(self, reason: Reason, message: str, rule: str = "content_encoding") -> None:
        self.reason = reason
        self.finding = Finding(path="", rule=rule, message=message)
        super().__init__(message)


def unpacked(message: Message) -> Message:
    """The message with its content encoding undone. Raises ``Unreadable``."""
    body = message.body
    names = [name for part in message.content_encoding.split(",") if (name := part.strip().lower()) not in _IDENTITY]
    if not names or not body:
        return message
    if len(names) > _MAX_LAYERS:
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, f"packed {len(names)} times over; at most {_MAX_LAYERS} are undone")
    for name in reversed(names):
        body = unpack(name, body, MAX_DECOMPRESSED)
    return msgspec.structs.replace(message, body=body, content_encoding="")


def check_text(message: Message) -> None:
    """Raise ``Unreadable`` for a body whose ``TEXT`` says that it is UTF-8, as MQTT 5 has it, and that is none."""
    if message.sections[TEXT] == _UTF_8:
        try:
            (message.body or b"").decode()
        except UnicodeDecodeError as error:
            text = f"the {TEXT} says that the payload is UTF-8, and byte {error.start} is not"
            raise Unreadable(Reason.DECODE_ERROR, text, TEXT) from None


def unpack(encoding: str, body: bytes, limit: int) -> bytes:
    """``body`` with one encoding undone, ``limit`` bytes at most. Raises ``Unreadable``."""
    reader = _READERS.get(encoding)
    if reader is None:
        text = f"no decoder for content encoding {encoding[:50]!r}; there are: {', '.join(_READERS)}"
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, text)
    try:
        found = reader(body, limit)
    except (zlib.error, EOFError, OSError) as error:
        raise Unreadable(Reason.DECODE_ERROR, f"the body is not {encoding}, or cut off: {error}") from None
    if len(found) > limit:
        raise Unreadable(Reason.DECODE_ERROR, f"the {encoding} body unpacks to more than {limit} bytes")
    return found


def _inflated(window: int, body: bytes, limit: int) -> bytes:
    """All members of a zlib or gzip stream; one byte more than ``limit`` tells that there are more.

    Behind each member zlib hands back what it was given too much, so it is given little at a time: there may be
    millions of members, of nothing.
    """
    found, place = bytearray(), 0
    stream = zlib.decompressobj(window)
    while place < len(body) and len(found) <= limit:
        if stream.eof:
            stream = zlib.decompressobj(window)
        piece = body[place : place + _PIECE]
        found += stream.decompress(piece, limit + 1 - len(found))
        place += len(piece) - len(stream.unused_data)
    if len(found) <= limit and not stream.eof:
        raise EOFError("it ends early")
    return bytes(found)


def _by_arrow(codec: str, body: bytes, limit: int) -> bytes:
    """As ``_inflated``, by the codecs that Arrow brings."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        text = f"content encoding {codec} needs pyarrow: pip install 'signalbook[pipeline]'"
        raise Unreadable(Reason.UNSUPPORTED_FORMAT, text) from None
    with pa.input_stream(pa.BufferReader(body), compression=codec) as stream:
        found: bytes = stream.read(limit + 1)
        return found


_READERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "gzip": partial(_inflated, 31),
    "x-gzip": partial(_inflated, 31),
    "deflate": partial(_inflated, 47),
    "br": partial(_by_arrow, "brotli"),
    "zstd": partial(_by_arrow, "zstd"),
}
