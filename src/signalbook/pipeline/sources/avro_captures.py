"""Read captures in Avro object container files from any place, because Spark has no built-in reader for Avro.

Columns have the same types as in Spark's Avro package, except decimals, which are bytes. A union of ``int`` and
``long``, or of ``float`` and ``double``, has the wider type. Another union of several types is a column of text, or of
bytes if ``bytes`` is one of the types. Texts and bytes in such a column stay as they are, and other values become JSON.
A value that does not fit its column is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any, Final

import fastavro
import msgspec
import pyarrow as pa

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT, AvroSchema
from signalbook.formats.avro.document import Type, is_recursive
from signalbook.pipeline import columns
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources import capture_files
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
from signalbook.pipeline.sources.capture_files import CaptureFile
from signalbook.pipeline.sources.input_file import ENDLESS, open_input
from signalbook.values import JSONObject

AVRO: Final = "avro"
"""The name of the format in Spark."""
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
# The microseconds of one unit, and the time zone.
_TIMES: Final = {
    "timestamp-millis": (1000, _UTC),
    "timestamp-micros": (1, _UTC),
    "local-timestamp-millis": (1000, None),
    "local-timestamp-micros": (1, None),
}
# The ranges of integer columns. Numbers in an Avro file may be larger.
_INTEGERS: Final = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
# Unions of two numeric types, and the type of their column, as in Spark.
_WIDER: Final = ((frozenset({"int", "long"}), "long"), (frozenset({"float", "double"}), "double"))
# A function that converts a value of fastavro to a value of the column, or None if no conversion is needed.
_Convert = Callable[[Any], Any] | None


def read_columns(path: str, files: Sequence[CaptureFile]) -> pa.Schema:
    """Return the columns of the first of ``files`` with a readable header.

    Raises ``PipelineError`` if no header can be read. ``path`` is the input for its text.
    """
    why = f"{path} holds no files"
    for file in files:
        try:
            with open_input(file.split) as source:
                window = FileWindow(source)
                if window.read_at(0, 1):
                    return _Records(file.shown, read_header(file.shown, window).schema).columns
        except DamagedFile as damage:
            why = str(damage)
    raise PipelineError(why)


def read_container(capture: CaptureFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with the columns of ``schema``, and a row for each damage."""
    behind = 0
    try:
        with open_input(capture.split) as source:
            window = FileWindow(source)
            if not window.read_at(0, 1):
                return
            header = read_header(capture.shown, window)
            records = _Records(capture.shown, header.schema)
            names = capture_files.match_names(records.columns.names, schema)
            for number, part in records.read_rows(header.codec, read_blocks(window, header, 0, ENDLESS), names):
                behind = number
                if isinstance(part, pa.RecordBatch):
                    yield capture_files.complete_rows(part, schema, capture, number)
                    behind += len(part)
                elif window.damage is None:  # otherwise the file itself is damaged, which is reported below
                    yield capture_files.build_damage_row(schema, capture, number, DAMAGED, part)
            if window.damage is not None:
                raise window.damage
    except DamagedFile as damage:
        yield capture_files.build_damage_row(schema, capture, behind, damage.rule, damage.why)


class _Records:
    """The reader of the records of one container, by its schema. Raises ``DamagedFile`` for an invalid schema."""

    def __init__(self, path: str, document: bytes) -> None:
        try:
            schema = FORMAT.parse(document, "Avro")
        except SchemaError as error:
            raise DamagedFile(path, f"the schema in the Avro container cannot be used: {error}", UNREADABLE) from None
        assert isinstance(schema, AvroSchema)
        node = schema.names.types.get(schema.type, schema.type) if isinstance(schema.type, str) else schema.type
        if not isinstance(node, dict) or node["type"] != "record":
            raise DamagedFile(path, "the Avro container holds no records", UNREADABLE)
        self._schema = schema
        types = schema.names.types
        self._fields = {
            part["name"]: (pa.string(), _encode_text)
            if is_recursive(part["type"], types)
            else _plan_column(part["type"], types)
            for part in node["fields"]
        }
        self.columns = pa.schema([(name, kind) for name, (kind, _) in self._fields.items()])

    @cached_property
    def _parsed(self) -> Any:
        # Omit logical types: a value out of range, such as the year 10000, would make the rest of its block unreadable.
        return fastavro.parse_schema(self._schema.names.complete(self._schema.type, logical=False))

    def read_rows(
        self, codec: str, blocks: Iterable[tuple[int, ContainerBlock]], names: Sequence[str]
    ) -> Iterator[tuple[int, pa.RecordBatch | str]]:
        """Yield batches of rows with the columns ``names``, each with the number of its first row in the file.

        For a damaged block the reason is yielded instead of a batch.
        """
        # Keep only the requested fields, because a record of a few bytes may have thousands of fields.
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
                        yield first, self._build_batch(held, names)
                        held = []
            except DamagedBlock as damage:
                if held:
                    yield first, self._build_batch(held, names)
                    held = []
                yield behind, f"{block}: {damage}"
        if held:
            yield first, self._build_batch(held, names)

    def _read(self, stream: BytesIO) -> Any:
        return self._schema.read_datum(stream, self._parsed, None)

    def _build_batch(self, records: Sequence[Sequence[Any]], names: Sequence[str]) -> pa.RecordBatch:
        if not names:
            return capture_files.build_bare_rows(len(records))
        arrays = []
        for name, values in zip(names, zip(*records, strict=True), strict=True):
            kind, convert = self._fields[name]
            arrays.append(pa.array([_convert_optional(value, convert) for value in values], kind))
        return pa.RecordBatch.from_arrays(arrays, names)


def _plan_column(node: Type, types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    """Return the column type and the conversion of values for the Avro type ``node``, which is not recursive."""
    if isinstance(node, list):
        return _plan_alternatives(node, types)
    node = types.get(node, {"type": node}) if isinstance(node, str) else node
    kind = node["type"]
    if isinstance(kind, (dict, list)):
        return _plan_column(kind, types)
    if kind == "array":
        item, convert = _plan_column(node["items"], types)
        return pa.list_(item), None if convert is None else lambda values: [
            _convert_optional(value, convert) for value in values
        ]
    if kind == "map":
        item, convert = _plan_column(node["values"], types)
        return pa.map_(pa.string(), item), lambda pairs: [
            (name, _convert_optional(value, convert)) for name, value in pairs.items()
        ]
    if kind == "record":
        return _plan_struct(node, types)
    return _plan_scalar(kind, str(node.get("logicalType", "")))


def _plan_alternatives(node: Sequence[Type], types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    branches = [branch for branch in node if branch != "null"]
    if len(branches) == 1:
        return _plan_column(branches[0], types)
    for both, wider in _WIDER:
        if all(isinstance(branch, str) and branch in both for branch in branches):
            return _plan_scalar(wider, "")
    return (pa.binary(), _encode_bytes) if "bytes" in branches else (pa.string(), _encode_text)


def _plan_struct(node: JSONObject, types: Mapping[str, JSONObject]) -> tuple[pa.DataType, _Convert]:
    parts = {part["name"]: _plan_column(part["type"], types) for part in node["fields"]}
    kind = pa.struct([(name, arrow_type) for name, (arrow_type, _) in parts.items()])
    converts = {name: convert for name, (_, convert) in parts.items() if convert is not None}
    if not converts:
        return kind, None
    return (
        kind,
        lambda record: record | {name: _convert_optional(record[name], convert) for name, convert in converts.items()},
    )


def _plan_scalar(kind: str, logical: str) -> tuple[pa.DataType, _Convert]:
    if kind == "long" and logical in _TIMES:
        factor, zone = _TIMES[logical]
        return pa.timestamp("us", zone), lambda value: _limit(value * factor, columns.MICROSECONDS)
    if (kind, logical) == ("int", "date"):
        return pa.date32(), lambda value: _limit(value, columns.DAYS)
    if kind in _INTEGERS:
        return _PLAIN[kind], lambda value: _limit(value, _INTEGERS[kind])
    return _PLAIN[kind], None


def _convert_optional(value: Any, convert: _Convert) -> Any:
    return value if value is None or convert is None else convert(value)


def _limit(value: int, bounds: tuple[int, int]) -> int | None:
    """Return ``value``, or None if it is outside of ``bounds`` and does not fit its column."""
    return value if bounds[0] <= value <= bounds[1] else None


def _encode_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _encode_text(value: Any) -> str:
    return _encode_bytes(value).decode("utf-8", "replace")  # values of fixed types may be any bytes
