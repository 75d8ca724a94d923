"""Read the sections of AMQP messages from the bytes in a spool."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from signalbook.brokers.amqp.messages import DescribedValue, Timestamp, sections
from signalbook.messages import Message, format_sections
from signalbook.messages.bindings.amqp import MEDIA, message
from signalbook.pipeline.native import PayloadSpans, load_module, read_columns

# The columns that the native module returns: sections, content types and encodings of messages.
_STATED: Final = pa.schema([(name, pa.string()) for name in ("sections", "content_type", "content_encoding")])


def build_message(around: bytes, value: bytes, received_at: datetime | None = None, reference: str = "") -> Message:
    """Return the message with the body ``value``, and the other sections encoded in ``around``.

    Raises ``AMQPError``.
    """
    stated = {name: _convert_value(fields) for name, fields in sections(around).items()}
    return message(value, stated, received_at=received_at, reference=reference)


def build_sections(
    address: str | None, headers: Sequence[tuple[str, str | bytes]]
) -> dict[str, dict[str, str | bytes]]:
    """Return the sections of a message from a DataFrame row, which has only an address and headers."""
    stated = dict(headers)
    properties = {"to": address, **{name: stated.get(name) for name in MEDIA}}
    return {
        "properties": {name: value for name, value in properties.items() if value is not None},
        "application-properties": {name: value for name, value in headers if name not in MEDIA},
    }


def read_sections(around: pa.BinaryArray) -> list[pa.StringArray]:
    """Return the sections as JSON (null if there are none), the content types and the encodings of messages.

    ``around`` has the encoded sections of each message except the body.
    """
    batch, unknown = load_module().section_texts(PayloadSpans.of(around).places)
    stated = read_columns(batch, _STATED)
    if not unknown:
        return stated
    columns = [column.to_pylist() for column in stated]
    for number in unknown:
        for column, text in zip(columns, _format_stated(build_message(around[number].as_py(), b"")), strict=True):
            column[number] = text
    return [pa.array(column, pa.string()) for column in columns]


def _format_stated(sent: Message) -> tuple[str | None, str, str]:
    """Return the columns of ``_STATED``."""
    return format_sections(sent.sections) if sent.sections else None, sent.content_type, sent.content_encoding


def _convert_value(value: Any) -> Any:
    """Return a value as a Python object."""
    if type(value) is str:  # the usual case
        return value
    if isinstance(value, Timestamp):
        return value.moment()
    if isinstance(value, DescribedValue):
        return _convert_value(value.value)
    if isinstance(value, dict):
        return {_convert_value(key): _convert_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_convert_value(item) for item in value]
    if isinstance(value, bool):
        return value
    plain = next((kind for kind in (int, str) if isinstance(value, kind)), None)
    return value if plain is None else plain(value)
