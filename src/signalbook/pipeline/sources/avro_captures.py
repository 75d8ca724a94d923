"""Captures in Avro object container files, wherever they lie: Spark has no reader for them of its own.

Columns have the types that Spark gives them, but decimals, which are bytes. Unions of several types are text, or
bytes where one is: as they stand, other values as JSON. A value that its column has no room for is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, Final

import fastavro
import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT, AvroSchema
from signalbook.formats.avro.document import Type, is_recursive
from signalbook.pipeline import columns
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Storage
from signalbook.pipeline.sources import salvage
from signalbook.pipeline.sources.avro import (
    ContainerBlock,
    DamagedBlock,
    FileWindow,
    read_blocks,
    read_header,
    read_records,
    unpack,
)
from signalbook.pipeline.sources.base import DAMAGED, UNREADABLE, DamagedFile
from signalbook.pipeline.sources.reading import ENDLESS, reading
from signalbook.pipeline.sources.salvage import CaptureFile
from signalbook.values import JSONObject

AVRO: Final = "avro"
"""What Spark calls the format."""
_ROWS: Final = 1024
_BYTES: Final = 4 * 1024 * 1024
_UTC: Final = "UTC"
_PLAIN: Final = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
# Microseconds that a unit is, and the zone.
_TIMES: Final = {
    "timestamp-millis": (1000, _UTC),
    "timestamp-micros": (1, _UTC),
    "local-timestamp-millis": (1000, None),
    "local-timestamp-micros": (1, None),
}
# What columns of integers have room for: what Avro writes may be longer.
_INTEGERS: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
# Types whose values are one in a union of both, as Spark has them.
_WIDER: Final = ((frozenset({"int", "long"}), "long"), (frozenset({"float", "double"}), "double"))
# What makes of a value as fastavro reads it one that a column takes; None where that is the same.
_Convert = Callable[[Any], Any] | None


def rows_of_containers(session: SparkSession, path: str, wanted: Collection[str], storage: Storage) -> DataFrame:
    """The rows of all files at ``path``, as ``salvage.salvaged`` has those of Parquet. Raises ``PipelineError``.

    Columns are those of the first file that says what it has.
    """
    beyond = salvage.is_beyond(session, path, storage)
    files = salvage.found_files(path, storage) if beyond else salvage.listed_files(session, path, storage)
    return salvage.rows_of_files(session, files, salvage.spark_types(_columns(path, files)), wanted, _read)


def _columns(path: str, files: Sequence[CaptureFile]) -> pa.Schema:
    why = f"{path} holds no files"
    for file in files:
        try:
            with reading(file.split) as source:
                window = FileWindow(source)
                if window.at(0, 1):
                    return _Records(file.shown, read_header(file.shown, window).schema).columns
        except DamagedFile as damage:
            why = str(damage)
    raise PipelineError(why)


def _read(own: CaptureFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, and its damage."""
    behind = 0
    try:
        with reading(own.split) as source:
            window = FileWindow(source)
            if not window.at(0, 1):
                return
            header = read_header(own.shown, window)
            records = _Records(own.shown, header.schema)
            names = salvage.own_names(records.columns.names, schema)
            for number, found in records.rows(header.codec, read_blocks(window, header, 0, ENDLESS), names):
                behind = number
                if isinstance(found, pa.RecordBatch):
                    yield salvage.beside(found, schema, own, number)
                    behind += len(found)
                elif window.damage is None:  # else it is the file's, not the container's
                    yield salvage.damage(schema, own, number, DAMAGED, found)
            if window.damage is not None:
                raise window.damage
    except DamagedFile as damage:
        yield salvage.damage(schema, own, behind, damage.rule, damage.why)


class _Records:
    """The fields in a container's records. Raises ``DamagedFile`` for an invalid schema."""

    def __init__(self, path: str, document: bytes) -> None:
        try:
            found = FORMAT.parse(document, "Avro")
        except SchemaError as error:
            raise DamagedFile(path, f"the schema in the Avro container cannot be used: {error}", UNREADABLE) from None
        assert isinstance(found, AvroSchema)
        node = found.names.types.get(found.type, found.type) if isinstance(found.type, str) else found.type
        if not isinstance(node, dict) or node["type"] != "record":
            raise DamagedFile(path, "the Avro container holds no records", UNREADABLE)
        self._schema = found
        types = found.names.types
        self._fields = {
            part["name"]: (pa.string(), _text) if is_recursive(part["type"], types) else _column(part["type"], types)
            for part in node["fields"]
        }
        self.columns = pa.schema([(name, kind) for name, (kind, _) in self._fields.items()])

    @cached_property
    def _parsed(self) -> Any:
        # Without logical types: values out of range, such as a year 10000, would end the reading of their block.
        return fastavro.parse_schema(self._schema.names.complete(self._schema.type, logical=False))

    def rows(
        self, codec: str, blocks: Iterable[tuple[int, ContainerBlock]], names: Sequence[str]
    ) -> Iterator[tuple[int, pa.RecordBatch | str]]:
        """Rows of numbered blocks with the columns ``names``, or why there are none, by the number of the first."""
        # Of each record no more than is wanted: a few bytes may be thousands of fields.
        held, first, size = list[list[Any]](), 0, 0
        for number, block in blocks:
            begin, behind = 0, number
            try:
                content = unpack(codec, block)
                for record, end in read_records(content, block.count, self._read, "a record of its schema"):
                    if not held:
                        first, size = behind, 0
                    held.append([record[name] for name in names])
                    size, begin, behind = size + end - begin, end, behind + 1
                    if len(held) >= _ROWS or size >= _BYTES:
                        yield first, self._batch(held, names)
                        held = []
            except DamagedBlock as damage:
                if held:
                    yield first, self._batch(held, names)
                    held = []
                yield behind, f"{block}: {damage}"
        if held:
            yield first, self._batch(held, names)

    def _read(self, stream: BytesIO) -> Any:
        return self._schema.read_datum(stream, self._parsed, None)

    def _batch(self, records: Sequence[Sequence[Any]], names: Sequence[str]) -> pa.RecordBatch:
        if not names:
            return salvage.bare_rows(len(records))
        arrays = []
        for name, values in zip(names, zip(*records, strict=True), strict=True):
            kind, convert = self._fields[name]
            arrays.append(pa.array([_made(value, convert) for value in values], kind))
        return pa.RecordBatch.from_arrays(arrays, names)


def _column(node: Type, types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    """The type of a column, and what makes values for it, of a type that does not contain itself."""
    if isinstance(node, list):
        return _alternatives(node, types)
    node = types.get(node, {"type": node}) if isinstance(node, str) else node
    kind = node["type"]
    if isinstance(kind, (dict, list)):
        return _column(kind, types)
    if kind == "array":
        item, convert = _column(node["items"], types)
        return pa.list_(item), None if convert is None else lambda values: [_made(each, convert) for each in values]
    if kind == "map":
        item, convert = _column(node["values"], types)
        return pa.map_(pa.string(), item), lambda pairs: [(name, _made(each, convert)) for name, each in pairs.items()]
    if kind == "record":
        return _struct(node, types)
    return _scalar(kind, str(node.get("logicalType", "")))


def _alternatives(node: Sequence[Type], types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    others = [branch for branch in node if branch != "null"]
    if len(others) == 1:
        return _column(others[0], types)
    for both, wider in _WIDER:
        if all(isinstance(branch, str) and branch in both for branch in others):
            return _scalar(wider, "")
    return (pa.binary(), _content) if "bytes" in others else (pa.string(), _text)


def _struct(node: JSONObject, types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    parts = {part["name"]: _column(part["type"], types) for part in node["fields"]}
    kind = pa.struct([(name, found) for name, (found, _) in parts.items()])
    converts = {name: convert for name, (_, convert) in parts.items() if convert is not None}
    if not converts:
        return kind, None
    return kind, lambda record: record | {name: _made(record[name], convert) for name, convert in converts.items()}


def _scalar(kind: str, logical: str) -> tuple[pa.DataType, _Convert]:
    if kind == "long" and logical in _TIMES:
        factor, zone = _TIMES[logical]
        return pa.timestamp("us", zone), lambda value: _within(value * factor, columns.MICROSECONDS)
    if (kind, logical) == ("int", "date"):
        return pa.date32(), lambda value: _within(value, columns.DAYS)
    if kind in _INTEGERS:
        return _PLAIN[kind], lambda value: _within(value, _INTEGERS[kind])
    return _PLAIN[kind], None


def _made(value: Any, convert: _Convert) -> Any:
    return value if value is None or convert is None else convert(value)


def _within(value: int, bounds: tuple[int, int]) -> int | None:
    """The value, or null for one that is none for columns: they ignore what does not fit."""
    return value if bounds[0] <= value <= bounds[1] else None


def _content(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _text(value: Any) -> str:
    return _content(value).decode("utf-8", "replace")  # of a fixed type, which may be any bytes
