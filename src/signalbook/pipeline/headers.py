"""Headers of messages as text, for the column of them that landed tables have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import Message
from signalbook.messages.bindings.mqtt import V5
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import text_map
from signalbook.values import format_timestamp

_CASELESS: Final = frozenset({"HTTP"})
_TYPE: Final = "content-type"
_MEDIA: Final = (_TYPE, "content-encoding")
_AMQP: Final = "AMQP/1.0"


def texts(protocol: str, pairs: Iterable[tuple[str, str | bytes]]) -> list[tuple[str, str]] | None:
    """Headers by name; those sent several times joined as RFC 9110 5.2 says.

    Names are in lower case where the protocol does not tell cases apart. Bytes that are no UTF-8 are escaped as
    ``\\xff``.
    """
    joined: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower() if protocol in _CASELESS else name
        text = value if isinstance(value, str) else value.decode(errors="backslashreplace")
        joined[key] = f"{joined[key]}, {text}" if key in joined else text
    return list(joined.items()) or None


def carried(message: Message) -> Iterable[tuple[str, str | bytes]]:
    """What a message has besides its payload, in the form of headers.

    Of MQTT and AMQP those are what the payload is said to be, and the properties that applications choose.
    """
    sections = message.sections
    if message.protocol == V5:
        return _named({_TYPE: sections.get("content_type")}, sections.get("user_properties", ()))
    if message.protocol == _AMQP:
        stated = sections.get("properties", {})
        return _named({name: stated.get(name) for name in _MEDIA}, sections.get("application-properties", {}).items())
    found: Iterable[tuple[str, str | bytes]] = sections.get("headers", ())
    return found


def encoded(headers: Iterable[tuple[str, str | bytes]]) -> tuple[tuple[str, bytes], ...]:
    """Headers as bytes."""
    return tuple((name, value if isinstance(value, bytes) else value.encode()) for name, value in headers)


def _named(stated: Mapping[str, Any], chosen: Iterable[tuple[Any, Any]]) -> list[tuple[str, str | bytes]]:
    """Both kinds together. Where a chosen name is one of the stated ones, that is there too: one is not the other."""
    texts = [(str(name), _text(value)) for name, value in chosen]
    names = {name for name, _ in texts}
    return [(name, _text(value)) for name, value in stated.items() if value is not None or name in names] + texts


def _text(value: Any) -> str | bytes:
    if value is None or isinstance(value, (str, bytes)):
        return value or ""
    if isinstance(value, bool):
        return str(value).lower()
    return format_timestamp(value) if isinstance(value, datetime) else str(value)


def maps(protocol: str, headers: pa.ListArray) -> pa.Array:
    """``texts`` of many messages, whose headers are structs of ``name`` and ``value``, as a ``columns.TEXT_MAP``."""
    found = None if protocol in _CASELESS else _at_once(headers)
    return text_map([texts(protocol, pairs(each)) for each in headers.to_pylist()]) if found is None else found


def pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[tuple[str, bytes]]:
    """The headers of one message out of Arrow; one without a value has an empty one."""
    return [(header["name"] or "", header["value"] or b"") for header in headers or ()]


def _alike(codes: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> bool:
    """Whether all messages have the same names in the same order, each once."""
    width = int(lengths[0]) if len(lengths) else 0
    if not width or not (lengths == width).all() or len(set(codes[:width].tolist())) < width:
        return False
    return bool((codes.reshape(-1, width) == codes[:width]).all())


def _at_once(headers: pa.ListArray) -> pa.Array | None:
    """The maps without looking at each message, unless one has a name twice, or bytes that are no text."""
    flat, rows = headers.flatten(), pc.list_parent_indices(headers)
    if flat.field("name").null_count:
        return None
    codes = flat.field("name").dictionary_encode().indices.to_numpy()
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    if not _alike(codes, lengths):
        keys = np.sort(rows.to_numpy() * (codes.max(initial=0) + 1) + codes)
        if (keys[1:] == keys[:-1]).any():
            return None
    try:
        values = pc.fill_null(flat.field("value"), b"").cast(pa.string())
    except pa.ArrowInvalid:
        return None
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    none = pa.array(np.concatenate([lengths == 0, [False]]))
    return pa.MapArray.from_arrays(pc.if_else(none, None, offsets), flat.field("name"), values, columns.TEXT_MAP)
