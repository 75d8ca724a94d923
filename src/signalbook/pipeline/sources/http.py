"""Logs of HTTP requests: a JSON object in each line, ``{"method","path","headers":{},"body":"..."|"body_base64"}``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from signalbook.messages import Message
from signalbook.messages.bindings.http import request
from signalbook.pipeline.sources import lines
from signalbook.pipeline.sources.base import MessageBatch, Split, Unreadable


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

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The lines that begin in the split."""
        return lines.line_batches(split)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The line's request. Raises ``Unreadable``."""
        if batch.error:
            raise Unreadable(batch.error)
        try:
            logged = _decoder.decode(batch.raw(index))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(f"not a request as JSON: {error}") from None
        if logged.body is not None and logged.body_base64 is not None:
            raise Unreadable("a request has either body or body_base64")
        return request(
            logged.method,
            logged.path,
            ((name, value) for name, values in logged.headers.items() for value in _listed(values)),
            logged.body_base64 if logged.body is None else logged.body.encode(),
        )


JSONL: Final = HttpLines()


def _listed(values: str | list[str]) -> list[str]:
    return values if isinstance(values, list) else [values]
