"""Make the dead-letter records of many messages at once, without creating ``Message`` objects.

The records are equal to the results of ``messages.to_record``, but they are built column by column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages.message import format_sections
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import HeaderNames, list_header_pairs
from signalbook.pipeline.native import PayloadSpans, load_module, read_columns
from signalbook.pipeline.sources.base import MessageBatch

_TEXT: Final = pa.schema([("", pa.string())])
# In a time as Arrow writes it: the end of the date, the end of the seconds, and the fraction of a whole second.
_DATE: Final = 10
_SECOND: Final = 19
_WHOLE: Final = ".000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecords:
    """The dead-letter records of messages as columns. ``texts`` are the records as JSON, without the bodies."""

    texts: pa.StringArray
    protocol: str
    content_types: pa.StringArray
    addresses: pa.StringArray
    received_at: pa.Array

    @classmethod
    def of(
        cls,
        protocol: str,
        rows: pa.RecordBatch,
        *,
        addresses: pa.StringArray,
        content_types: pa.StringArray,
        encodings: pa.StringArray,
        references: pa.StringArray,
        sections: pa.StringArray,
    ) -> MessageRecords:
        """Return the records of rows of ``RECORD_COLUMNS``. Nulls, and empty content types and encodings, are omitted.

        The other arguments are columns, ``references`` and ``sections`` as JSON.
        """
        types, encodings = (_drop_empty(texts) for texts in (content_types, encodings))
        texts = join_texts(
            f'{{"protocol":{json.dumps(protocol)}',
            _format_member("content_type", quote_texts(types)),
            _format_member("content_encoding", quote_texts(encodings)),
            _format_member("reference", references),
            _format_member("received_at", _format_times(rows.column("received_at"))),
            pc.if_else(rows.column("value").is_null(), ',"body":null', ""),
            _format_member("sections", sections),
            "}",
        )
        return cls(
            texts=texts,
            protocol=protocol,
            content_types=types,
            addresses=addresses,
            received_at=rows.column("received_at").cast(columns.TIMESTAMP),
        )


@runtime_checkable
class Recording(Protocol):
    """The interface of a ``Source`` that can make the records of many messages at once."""

    def to_records(self, batch: MessageBatch, indices: Sequence[int]) -> MessageRecords | None:
        """Return the records of the messages at ``indices``, or None if they must be made one by one."""
        ...


def select_rows(batch: MessageBatch, indices: Sequence[int]) -> pa.RecordBatch:
    """Return the rows of ``RECORD_COLUMNS`` of the messages at ``indices``."""
    assert batch.records is not None
    whole = np.array_equal(indices, np.arange(len(batch)))
    return batch.records if whole else batch.records.take(pa.array(indices, pa.int64()))


def join_texts(*parts: pa.StringArray | str) -> pa.StringArray:
    """Return the concatenation of ``parts``, row by row. Nulls are skipped."""
    return pc.binary_join_element_wise(*parts, "", null_handling="skip")


def quote_texts(texts: pa.StringArray) -> pa.StringArray:
    """Return ``texts`` as JSON strings. It is fast if many of them are equal."""
    encoded = texts.dictionary_encode()
    return pa.array([json.dumps(text) for text in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def format_numbers(values: pa.Array) -> pa.StringArray:
    """Return integers as JSON."""
    return values.cast(pa.string()).fill_null("null")


def format_reference(path: str, count: int) -> pa.StringArray:
    """Return ``path`` as a JSON string for each of ``count`` messages, null if it is empty."""
    return pa.repeat(pa.scalar(json.dumps(path) if path else None, pa.string()), count)


def format_references(path: str, positions: pa.Array) -> pa.StringArray:
    """Return ``path/POSITION`` as a JSON string for each of ``positions``."""
    return join_texts(json.dumps(f"{path}/")[:-1], positions.cast(pa.string()), '"')


def format_bytes(values: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as JSON in the form of ``messages.to_record``."""
    texts = read_columns(load_module().byte_texts(PayloadSpans.of(values).places), _TEXT)[0]
    return pc.if_else(values.is_valid(), texts, "null")


def format_headers(listed: pa.ListArray, names: HeaderNames, *, readable: bool) -> pa.StringArray:
    """Return the headers of each message as a JSON array of pairs, each with a name and a value.

    Values are bytes in the form of ``messages.to_record``, or texts if ``readable``.
    """
    values = pc.fill_null(listed.flatten().field("value"), b"").cast(pa.binary())
    ends = pc.fill_null(pc.list_value_length(listed), 0).to_numpy().astype(np.int64).cumsum()
    batch = load_module().header_texts(
        [json.dumps(name) for name in names.numbers], names.codes, ends, PayloadSpans.of(values).places, readable
    )
    texts = read_columns(batch, _TEXT)[0]
    return _restore_nulls(texts, listed) if listed.flatten().field("value").null_count and not readable else texts


def _restore_nulls(texts: pa.StringArray, listed: pa.ListArray) -> pa.StringArray:
    """Return ``texts`` with null header values, which the native module writes as empty values."""
    rows = pc.unique(pc.list_parent_indices(listed).filter(listed.flatten().field("value").is_null()))
    exact = [format_sections({"": tuple(list_header_pairs(headers))}) for headers in listed.take(rows).to_pylist()]
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, mask, pc.utf8_slice_codeunits(pa.array(exact, pa.string()), len('{"":'), -1))


def read_stated_texts(
    listed: pa.ListArray, names: HeaderNames, name: str, read: Callable[[bytes], str]
) -> pa.StringArray:
    """Return the last header called ``name`` of each message, decoded by ``read``; null if it has no such header."""
    places = names.find_places([name])
    owners = pc.list_parent_indices(listed).to_numpy()[places]
    encoded = pc.fill_null(listed.flatten().field("value"), b"").take(pa.array(places)).dictionary_encode()
    texts = pa.array(list(map(read, encoded.dictionary.to_pylist())), pa.string())
    indices = np.full(len(listed), -1, np.int64)
    indices[owners] = encoded.indices.to_numpy()  # the last header of a message overwrites earlier ones
    return texts.take(pa.array(indices, mask=indices < 0))


def _drop_empty(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _format_member(name: str, values: pa.StringArray) -> pa.StringArray:
    """Return JSON ``values`` as members of an object, with a leading comma and ``name``; an empty text for null."""
    return pc.binary_join_element_wise(f',"{name}":', values, "")


def _format_times(times: pa.Array) -> pa.StringArray:
    """Return times as JSON strings in ISO 8601, in the same form as Python writes them."""
    texts = times.cast(columns.TIMESTAMP).cast(pa.string())
    behind = pc.utf8_slice_codeunits(texts, _SECOND, _SECOND + len(_WHOLE))
    date, clock = pc.utf8_slice_codeunits(texts, 0, _DATE), pc.utf8_slice_codeunits(texts, _DATE + 1, _SECOND)
    fraction = pc.if_else(pc.equal(behind, _WHOLE), "", behind)
    return pc.binary_join_element_wise('"', date, "T", clock, fraction, '+00:00"', "")
