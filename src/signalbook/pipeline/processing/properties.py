"""Read protocol properties of many messages at once: topics, keys, headers and the like.

Names and values are those of ``messages.bindings`` (F.7, K-7). A value is text, or has another type of the protocol. If
a property may occur several times, its value is a tuple of all occurrences. ``None`` means that it does not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import parse_sections
from signalbook.messages.bindings.mqtt import V5
from signalbook.messages.bindings.options import decode_text
from signalbook.pipeline.arrays import HeaderNames, Offsets, decode_escaped, list_property_pairs
from signalbook.pipeline.sources.amqp_sections import build_sections, read_sections
from signalbook.pipeline.sources.base import MessageBatch, read_addresses

_AMQP: Final = "AMQP/1.0"
# The property of each protocol that is the address of its records.
ADDRESSES: Final = {"KAFKA": "topic", "HTTP": "path", "NATS": "subject", V5: "topic_name"}
# The properties that are columns of Kafka records, each with its column and the function that converts values.
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "key": ("key", decode_text),
    "key_base64": ("key", bytes),
    "partition": ("partition", int),
}
_QUERY: Final = "query."


@dataclass(frozen=True, slots=True)
class _Headers:
    """The properties of a protocol that are headers.

    ``prefix`` begins their names, ``folded`` says that names are case-insensitive, ``read`` converts a value.
    """

    prefix: str
    folded: bool
    read: Callable[[bytes], Any]


_HEADERS: Final = {
    "KAFKA": _Headers("headers.", folded=False, read=decode_text),
    "HTTP": _Headers("headers.", folded=True, read=decode_escaped),
    "NATS": _Headers("headers.", folded=True, read=decode_escaped),
    V5: _Headers("user_properties.", folded=False, read=decode_escaped),
}
# The number of each message's value, and values by number.
_Column = tuple[Offsets, list[Any]]
# Messages of one batch, and the records that they came in.
Part = tuple[MessageBatch, pa.RecordBatch]


def is_known(protocol: str, name: str) -> bool:
    """Return True if the property ``name`` of ``protocol`` can be read as a column."""
    return _find_reader(protocol, name) is not None


def encode_property(protocol: str, name: str, parts: Sequence[Part]) -> _Column:
    """Return the code of each message's value of a property, and the values by code, for messages of some batches.

    ``is_known`` must be True for the property.
    """
    read = _find_reader(protocol, name)
    assert read is not None
    return _join_columns(read(*part) for part in parts)


def _find_reader(protocol: str, name: str) -> Callable[[MessageBatch, pa.RecordBatch], _Column] | None:
    """Return the function that reads a property as a column, or None if it cannot be read as a column."""
    headers = _HEADERS.get(protocol)
    if headers is not None and name.startswith(headers.prefix):
        header, manner = name.removeprefix(headers.prefix), headers
        # The content type of MQTT is among the headers of records, but is not a user property.
        if protocol == V5 and header == "content-type":
            return None
        return lambda messages, records: _read_header(messages, records, header, manner)
    if name == ADDRESSES.get(protocol):
        return lambda _, records: _encode_values(read_addresses(records), str)
    if protocol == _AMQP:
        section, _, member = name.partition(".")
        return lambda _, records: _read_section(records, section, member)
    if protocol == "KAFKA" and name in _COLUMNS:
        source, read = _COLUMNS[name]
        return lambda _, records: _encode_values(records.column(source), read)
    if protocol == "HTTP" and name == "method":
        return _read_methods
    if protocol == "HTTP" and name.startswith(_QUERY):
        parameter = name.removeprefix(_QUERY)
        return lambda _, records: _encode_values(
            records.column("address"), lambda target: _read_parameter(target, parameter)
        )
    return None


def _read_methods(messages: MessageBatch, records: pa.RecordBatch) -> _Column:
    """Return the methods of requests. Requests from DataFrames have the method that ``http.request`` uses."""
    methods = records.column("key") if messages.transport else pa.array([b"POST"] * len(records), pa.binary())
    return _encode_values(methods, bytes.decode)


def _encode_values(values: pa.Array, read: Callable[[Any], Any]) -> _Column:
    encoded = values.dictionary_encode()
    decoded = list(map(read, encoded.dictionary.to_pylist()))
    codes = encoded.indices.fill_null(len(decoded)).to_numpy().astype(np.int64)
    return codes, [*decoded, None]


def _read_header(messages: MessageBatch, records: pa.RecordBatch, name: str, manner: _Headers) -> _Column:
    listed, whole = records.column("headers"), len(records) == len(messages)
    names = messages.header_names(folded=manner.folded) if whole else HeaderNames.of(listed, folded=manner.folded)
    places = names.find_places([name])
    if not len(places):
        return np.zeros(len(listed), np.int64), [None]
    owners = pc.list_parent_indices(listed).to_numpy()[places]
    values = pc.fill_null(listed.flatten().field("value"), b"").take(pa.array(places))
    codes, texts = _encode_values(values, manner.read)
    distinct_values: list[Any] = [(text,) for text in texts]
    numbers = np.full(len(listed), len(distinct_values), np.int64)
    numbers[owners] = codes
    distinct_values.append(None)
    repeated = np.unique(owners[1:][owners[1:] == owners[:-1]])
    first, last = (np.searchsorted(owners, repeated, side).tolist() for side in ("left", "right"))
    for owner, start, end in zip(repeated.tolist(), first, last, strict=True):
        numbers[owner] = len(distinct_values)
        distinct_values.append(tuple(texts[code] for code in codes[start:end].tolist()))
    return numbers, distinct_values


def _read_parameter(target: str, name: str) -> tuple[str, ...] | None:
    pairs = parse_qsl(target.partition("?")[2], keep_blank_values=True)
    return tuple(value for key, value in pairs if key == name) or None


def _read_section(records: pa.RecordBatch, section: str, name: str) -> _Column:
    """Return a field of a section of AMQP messages. Messages without sections are rows of a DataFrame."""
    texts = read_sections(records.column("key").cast(pa.binary()))[0].to_pylist()
    values: list[Any] = []
    for number, text in enumerate(texts):
        sections = _build_sections(records, number) if text is None else parse_sections(text)
        values.append(sections.get(section, {}).get(name))
    return np.arange(len(values)), values


def _build_sections(records: pa.RecordBatch, number: int) -> dict[str, Any]:
    address, headers = (records.column(name)[number].as_py() for name in ("address", "headers"))
    return build_sections(address, list_property_pairs(headers))


def make_hashable(value: Any) -> Hashable:
    """Return a hashable key of ``value``. The keys of 1 and ``True`` differ, and so do those of 0.0 and -0.0."""
    if isinstance(value, (str, tuple)):
        return value
    return value.__class__, repr(value) if isinstance(value, float) or not isinstance(value, Hashable) else value


def _join_columns(parts: Iterable[_Column]) -> _Column:
    """Join columns, so that each distinct value has one code."""
    numbers: dict[Hashable, int] = {}
    distinct_values, joined = list[Any](), list[Offsets]()
    for codes, values in parts:
        mine = np.empty(len(values), np.int64)
        for place, value in enumerate(values):
            number = mine[place] = numbers.setdefault(make_hashable(value), len(distinct_values))
            if number == len(distinct_values):
                distinct_values.append(value)
        joined.append(mine[codes])
    return np.concatenate(joined), distinct_values
