"""The sections of messages of AMQP, out of the bytes that a spool keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from signalbook.brokers.amqp.messages import DescribedValue, Timestamp, sections
from signalbook.messages import Message, format_sections
from signalbook.messages.bindings.amqp import MEDIA, message
from signalbook.pipeline.fastpath.native import PayloadSpans, load_module, read_columns

# What the native module says of messages: their sections, content types and encodings.
_STATED: Final = pa.schema([(name, pa.string()) for name in ("sections", "content_type", "content_encoding")])


def message_of(around: bytes, value: bytes, received_at: datetime | None = None, reference: str = "") -> Message:
    """The message with a value as its body, and the sections around that. Raises ``AMQPError``."""
    known = {name: _plain(fields) for name, fields in sections(around).items()}
    return message(value, known, received_at=received_at, reference=reference)


def sections_of_headers(
    address: str | None, headers: Sequence[tuple[str, str | bytes]]
) -> dict[str, dict[str, str | bytes]]:
    """Return the sections of a message that is a row of a DataFrame, which has no more than these."""
    stated = dict(headers)
    properties = {"to": address, **{name: stated.get(name) for name in MEDIA}}
    return {
        "properties": {name: value for name, value in properties.items() if value is not None},
        "application-properties": {name: value for name, value in headers if name not in MEDIA},
    }


def stated_sections(around: pa.BinaryArray) -> list[pa.StringArray]:
    """Return the sections around bodies in JSON (null without any), content types and encodings."""
    found, unknown = load_module().section_texts(PayloadSpans.of(around).places)
    stated = read_columns(found, _STATED)
    if not unknown:
        return stated
    columns = [column.to_pylist() for column in stated]
    for number in unknown:
        for column, text in zip(columns, _stated(message_of(around[number].as_py(), b"")), strict=True):
            column[number] = text
    return [pa.array(column, pa.string()) for column in columns]


def _stated(said: Message) -> tuple[str | None, str, str]:
    """Return the columns of ``_STATED``."""
    return format_sections(said.sections) if said.sections else None, said.content_type, said.content_encoding


def _plain(value: Any) -> Any:
    """A value as Python has it."""
    if type(value) is str:  # as most are
        return value
    if isinstance(value, Timestamp):
        return value.moment()
    if isinstance(value, DescribedValue):
        return _plain(value.value)
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool):
        return value
    plain = next((kind for kind in (int, str) if isinstance(value, kind)), None)
    return value if plain is None else plain(value)
