"""Logs of HTTP requests: a JSON object in each line, ``{"method","path","headers":{},"body":"..."|"body_base64"}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from signalbook.messages import Message
from signalbook.pipeline.sources import lines
from signalbook.pipeline.sources.base import Frame, Split, Unreadable


class _Request(msgspec.Struct):
    method: str
    path: str
    headers: dict[str, str | list[str]] = {}
    body: str | None = None
    body_base64: bytes | None = None


_decoder: Final = msgspec.json.Decoder(_Request)


class HttpLines:
    """One request in each line; a header's value is text, or a list where it was sent several times."""

    name = "http-jsonl"
    divisible = True
    cloudevents_json = False

    def frames(self, split: Split) -> Iterator[Frame]:
        """The lines that begin in the split."""
        return lines.frames(split)

    def message(self, frame: Frame, index: int) -> Message:
        """The line's request. Raises ``Unreadable``."""
        try:
            request = _decoder.decode(frame.raw(index))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(f"not a request as JSON: {error}") from None
        if request.body is not None and request.body_base64 is not None:
            raise Unreadable("a request has either body or body_base64")
        headers = tuple((name, value) for name, values in request.headers.items() for value in _listed(values))
        return Message(
            protocol="HTTP",
            content_type=_header(headers, "content-type"),
            content_encoding=_header(headers, "content-encoding"),
            body=request.body_base64 if request.body is None else request.body.encode(),
            sections={"method": request.method, "path": request.path, "headers": headers},
        )


JSONL: Final = HttpLines()


def _listed(values: str | list[str]) -> list[str]:
    return values if isinstance(values, list) else [values]


def _header(headers: tuple[tuple[str, str], ...], wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")
