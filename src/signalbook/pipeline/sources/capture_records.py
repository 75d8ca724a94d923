"""Read the rows of capture files as messages without Spark: Parquet by Arrow, Avro by Python.

The messages are those that ``capture_frames`` selects with Spark: a value of another type than its part of a message
is ignored, and columns may also come from folder names such as ``topic=orders``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signalbook.pipeline import columns
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import place_of
from signalbook.pipeline.sources import avro_captures
from signalbook.pipeline.sources.avro import MAGIC
from signalbook.pipeline.sources.base import RECORD_TYPES, Split
from signalbook.pipeline.sources.capture_files import (
    FILE,
    ROW,
    RULE,
    WHY,
    CaptureFile,
    ReadFile,
    parse_folders,
    read_parquet,
)

ROLES: Final = ("value", "key", "headers", "topic", "partition", "offset", "timestamp")
"""The columns of captures of Kafka records. Captures of CloudEvents have only the first one."""
_ADDED: Final = pa.schema([(FILE, pa.string()), (ROW, pa.int64()), (RULE, pa.string()), (WHY, pa.string())])
_HEADERS: Final = RECORD_TYPES.field("headers").type
_MILLISECOND: Final = 1000  # in microseconds


def read_records(split: Split, protocol: str, roles: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet or Avro file as ``RECORD_TYPES``, and a row for each damage.

    ``protocol`` is that of the messages. ``roles`` are the names of the columns to read, the first of which must exist.
    Raises ``PipelineError``.
    """
    place = place_of(split.path, split.storage)
    capture = CaptureFile(place, split.path, parse_folders(split.path))
    read, file_columns = _open_capture(capture)
    types = {field.name.lower(): field.type for field in file_columns or ()}
    if file_columns is not None and roles[0] not in types:
        raise PipelineError(
            f"{split.path} has no column {roles[0]!r} with the bytes of messages; its columns are: "
            f"{', '.join(file_columns.names)}"
        )
    kind = types.get(roles[0], pa.binary())
    if not _is_binary(kind) and not _is_text(kind):
        raise PipelineError(f"the column {roles[0]!r} of {split.path} is {kind}, and messages are bytes or text")
    types |= {name.lower(): pa.string() for name in capture.folders}
    for rows in read(capture, pa.schema([(role, types[role]) for role in roles if role in types] + list(_ADDED))):
        yield _build_records(rows, protocol)


def read_capture_columns(split: Split) -> pa.Schema | None:
    """Return the columns of a Parquet or Avro file, None if its footer cannot be read. Raises ``PipelineError``."""
    return _open_capture(CaptureFile(place_of(split.path, split.storage), split.path, {}))[1]


def _open_capture(capture: CaptureFile) -> tuple[ReadFile, pa.Schema | None]:
    """Return the function that reads a file, and its columns; None if these cannot be read."""
    is_avro, file_columns = False, None
    # ``read`` opens the file again, and reports what is wrong with it.
    with suppress(pa.ArrowException, OSError, PipelineError), capture.place.open() as source:
        is_avro = source.read(len(MAGIC)) == MAGIC
        source.seek(0)
        file_columns = avro_captures.read_columns(capture.shown, [capture]) if is_avro else pq.read_schema(source)
    return avro_captures.read_container if is_avro else read_parquet, file_columns


def _build_records(rows: pa.RecordBatch, protocol: str) -> pa.RecordBatch:
    def find(role: str, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
        place = rows.schema.get_field_index(role)
        return pa.nulls(len(rows), kind) if place < 0 else convert(rows.column(place))

    topics = find("topic", _decode_text, pa.string())
    partitions = find("partition", lambda array: _try_cast(array, pa.int32()), pa.int32())
    offsets = find("offset", lambda array: _try_cast(array, pa.int64()), pa.int64())
    placed = pc.and_(pc.and_(topics.is_valid(), partitions.is_valid()), offsets.is_valid())
    sources = pc.binary_join_element_wise(
        pc.binary_join_element_wise("kafka:", topics, ""), partitions.cast(pa.string()), "/"
    )
    arrays = {
        "protocol": pc.fill_null(rows.column(RULE), protocol),
        "source": pc.if_else(placed, sources, rows.column(FILE)),
        "position": pc.if_else(placed, offsets, rows.column(ROW)),
        "address": pc.coalesce(rows.column(WHY), topics),
        "partition": pc.if_else(placed, partitions, pa.scalar(None, pa.int32())),
        "key": find("key", _convert_to_bytes, pa.binary()),
        "value": find("value", _convert_to_bytes, pa.binary()),
        "headers": find("headers", _convert_headers, _HEADERS),
        "received_at": find("timestamp", _convert_times, columns.TIMESTAMP),
    }
    return pa.RecordBatch.from_arrays([arrays[field.name] for field in RECORD_TYPES], schema=RECORD_TYPES)


def _try_cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ``array`` cast to ``kind``, with null for each value that cannot be cast."""
    try:
        return array.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(array), kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
        middle = len(array) // 2
        return pa.concat_arrays([_try_cast(array[:middle], kind), _try_cast(array[middle:], kind)])


def _decode_text(array: pa.Array) -> pa.Array:
    """Return values as text, with invalid UTF-8 replaced."""
    if not _is_binary(array.type):
        return _try_cast(array, pa.string())
    texts = [None if value is None else value.decode("utf-8", "replace") for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _convert_to_bytes(array: pa.Array) -> pa.Array:
    """Return values as bytes: text in UTF-8, a number as its text, a list or an object as JSON."""
    if pa.types.is_nested(array.type):
        texts: list[Any] = [None if value is None else msgspec.json.encode(value) for value in array.to_pylist()]
        return pa.array(texts, pa.binary())
    return (array if _is_binary(array.type) else array.cast(pa.string())).cast(pa.binary())


def _is_binary(kind: pa.DataType) -> bool:
    return "binary" in str(kind) and not pa.types.is_nested(kind)


def _is_text(kind: pa.DataType) -> bool:
    return "string" in str(kind) and not pa.types.is_nested(kind)


def _convert_headers(array: pa.Array) -> pa.Array:
    """Return headers from a map, or from a list of pairs. Values of other types are ignored."""
    kind = array.type
    if pa.types.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        array = array.cast(pa.list_(pair))
    elif not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        return pa.nulls(len(array), _HEADERS)
    flat = array.flatten()
    names, values = (flat.field(number) for number in range(2))
    pairs = pa.StructArray.from_arrays(
        [pc.fill_null(_decode_text(names), ""), _convert_to_bytes(values)], fields=list(_HEADERS.value_type)
    )
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=_HEADERS, mask=array.is_null())


def _convert_times(array: pa.Array) -> pa.Array:
    """Return times. Numbers are milliseconds since 1970; text may be a number or a time."""
    if pa.types.is_temporal(array.type):
        return array.cast(columns.TIMESTAMP, safe=False)
    counts = _try_cast(array, pa.int64())
    first, last = (bound // _MILLISECOND for bound in columns.MICROSECONDS)
    sound = pc.if_else(pc.and_(pc.greater_equal(counts, first), pc.less_equal(counts, last)), counts, None)
    times = pc.multiply(sound, _MILLISECOND).cast(columns.TIMESTAMP)
    return pc.coalesce(times, _try_cast(array, columns.TIMESTAMP)) if _is_text(array.type) else times
