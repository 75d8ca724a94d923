"""Messages that Spark brings, from brokers and tables: one canonical form of rows, and batches out of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.pipeline import arrays, columns
from signalbook.pipeline.sources.base import MessageBatch, Offsets

COLUMNS: Final = (
    "protocol string, source string, position long, address string, partition int, key binary, value binary, "
    "headers array<struct<name: string, value: binary>>, received_at timestamp"
)
"""A message as Spark brings it; all but ``protocol``, ``source`` and ``position`` may be null.

``source`` and ``position`` are where it can be found again, ``address`` the topic or subject it was sent to. Messages
of no protocol, which is empty then, are structured CloudEvents in JSON.
"""
_FRAME: Final = 1 << 20
# Microseconds from 1970 to the years 1 and 10000, beyond which Python and most readers of tables have no dates.
_FIRST: Final = -62_135_596_800 * 10**6
_LAST: Final = 253_402_300_800 * 10**6
_CASELESS: Final = frozenset({"NATS"})
_TYPE: Final = "content-type"
_ENCODING: Final = "content-encoding"
_EVENT: Final = (b"application/cloudevents+json", b"application/cloudevents+json; charset=utf-8")


def record_batches(records: pa.RecordBatch) -> Iterator[MessageBatch]:
    """The messages of rows of ``COLUMNS``, in batches of about a megabyte.

    Structured CloudEvents in JSON, by their content type, are in batches of their own, for the fast path.
    """
    for piece in _pieces(_timely(records)):
        fit = is_event(piece)
        for rows, to_batch in ((fit, _lines), (~fit, _values)):
            if rows.all():
                yield to_batch(piece)
            elif rows.any():
                yield to_batch(piece.filter(pa.array(rows)))


def _timely(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without times that are no dates: producers that take one unit for another send such, and worse."""
    index = batch.schema.get_field_index("received_at")
    times = batch.column(index).cast(columns.TIMESTAMP)
    moments = times.view(pa.int64())
    sound = pc.and_(pc.greater_equal(moments, _FIRST), pc.less(moments, _LAST))
    if pc.all(sound).as_py():
        return batch
    return batch.set_column(index, "received_at", pc.if_else(sound, times, None))


def is_event(records: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which records are beyond doubt structured CloudEvents in JSON, with a value and without content encoding."""
    present: npt.NDArray[np.bool_] = records.column("value").is_valid().to_numpy(zero_copy_only=False)
    if not _protocol(records):
        return present
    listed = records.column("headers")
    flat = listed.flatten()
    names = pc.utf8_lower(flat.field("name")) if _protocol(records) in _CASELESS else flat.field("name")
    rows = pc.list_parent_indices(listed).to_numpy()

    def count(mask: pa.Array) -> Offsets:
        return np.bincount(rows[mask.fill_null(False).to_numpy(zero_copy_only=False)], minlength=len(records))

    typed = pc.equal(names, _TYPE)
    event = pc.and_(typed, pc.is_in(flat.field("value"), pa.array(_EVENT, pa.binary())))
    once = (count(typed) == 1) & (count(event) == 1) & (count(pc.equal(names, _ENCODING)) == 0)
    valid: npt.NDArray[np.bool_] = once & present
    return valid


def delivered(records: pa.RecordBatch) -> list[pa.Array]:
    """The first arrays of ``columns.TRANSPORT``, all but where in its source a message is."""
    protocol = _protocol(records)
    found = arrays.header_maps(protocol, records.column("headers"))
    protocols = records.column("protocol") if protocol else pa.nulls(len(records), pa.string())
    return [protocols, addresses(records), found, records.column("received_at").cast(columns.TIMESTAMP)]


def addresses(records: pa.RecordBatch) -> pa.Array:
    """Where records were sent to. Those of Kafka have a topic, an empty one where a capture does not tell."""
    found = records.column("address")
    return found.fill_null("") if _protocol(records) == "KAFKA" else found


def _protocol(records: pa.RecordBatch) -> str:
    return str(records.column("protocol")[0].as_py()) if len(records) else ""


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Neighbours of one source, up to the size of a batch."""
    if not len(batch):
        return
    codes = batch.column("source").dictionary_encode().indices.to_numpy()
    sizes = pc.binary_length(batch.column("value")).fill_null(0).to_numpy()
    filled = np.cumsum(sizes) // _FRAME
    bounds = np.flatnonzero((np.diff(codes) != 0) | (np.diff(filled) != 0)) + 1
    edges = [0, *bounds.tolist(), len(batch)]
    for start, end in pairwise(edges):
        yield batch.slice(start, end - start)


def _lines(records: pa.RecordBatch) -> MessageBatch:
    values = [value or b"" for value in records.column("value").to_pylist()]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths + 1) - 1
    return MessageBatch(
        path=records.column("source")[0].as_py(),
        content=b"\n".join(values) + b"\n",
        starts=ends - lengths,
        ends=ends,
        positions=records.column("position").to_numpy(),
        lines=True,
        records=records,
    )


def _values(records: pa.RecordBatch) -> MessageBatch:
    values = pc.fill_null(records.column("value").cast(pa.binary()), b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    content = values.buffers()[2]
    return MessageBatch(
        path=records.column("source")[0].as_py(),
        content=b"" if content is None else content[int(offsets[0]) : int(offsets[-1])].to_pybytes(),
        starts=offsets[:-1] - offsets[0],
        ends=offsets[1:] - offsets[0],
        positions=records.column("position").to_numpy(),
        records=records,
        binary=True,
    )
