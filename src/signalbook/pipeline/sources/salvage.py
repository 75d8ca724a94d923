"""Read the undamaged part of Parquet files that Spark cannot read, by Arrow, one row group after the other.

Spark ends a job at the first damaged page or footer. Then all files are read again by this module: it returns the rows
before the damage in a row group and all other row groups, and a row that describes each damage. It also reads files in
stores for which Spark has no connector; ``capture_formats.py`` does so for other formats.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage, place_of
from signalbook.pipeline.sources.base import DAMAGED, UNREADABLE, RecordSource, Split
from signalbook.pipeline.sources.input_file import ENDLESS
from signalbook.pipeline.sources.inputs import find_files
from signalbook.pipeline.spark import build_numbers, can_reach
from signalbook.pipeline.tables.spark_sql import quote_identifier

FILE: Final = "_signalbook_file"
ROW: Final = "_signalbook_row"
RULE: Final = "_signalbook_rule"
WHY: Final = "_signalbook_why"
"""The names of the added columns: file and number of a row; for a row that stands for damage, also rule and reason."""
_BESIDE: Final = StructType(
    [
        StructField(FILE, StringType()),
        StructField(ROW, LongType()),
        StructField(RULE, StringType()),
        StructField(WHY, StringType()),
    ]
)
# The rows that are read at once, and the rows that are read at once after a failure, to get all undamaged rows.
_PORTION: Final = 1024
_LEAST: Final = 1
# The most tasks of a job. If there are more files, several share a task.
TASKS: Final = 1000
# The columns of Spark's format ``binaryFile``. Further columns come from folder names such as ``topic=a``.
_COMMON: Final = ("path", "modificationTime", "length", "content")
_FOLDER: Final = re.compile(r"([^=/]+)=([^=/]*)")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@runtime_checkable
class SalvagingSource(RecordSource, Protocol):
    """A source that can read the undamaged part of files at which Spark fails."""

    def salvages(self, options: Mapping[str, str]) -> bool:
        """Return True if ``salvage`` can read the undamaged part of files at which Spark fails."""
        ...

    def is_beyond_spark(self, options: Mapping[str, str]) -> bool:
        """Return True if Spark has no reader for such files, so that ``salvage`` always reads them."""
        ...

    def salvage(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], storage: Storage
    ) -> DataFrame:
        """Return the messages like ``load``, and a row for each damage.

        The protocol of such a row is ``DAMAGED`` or ``UNREADABLE``, and its address is the reason. Raises
        ``PipelineError``.
        """
        ...


class DamagedInput(PipelineError):
    """The error if Spark cannot read a file because it is permanently damaged."""


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A file to read. ``shown`` is its name in rows, ``folders`` has the columns that its folder names state."""

    place: Place
    shown: str
    folders: Mapping[str, str | None]

    @property
    def split(self) -> Split:
        """The split of the whole file."""
        return Split(path=str(self.place), start=0, end=ENDLESS, storage=self.place.storage)


ReadFile = Callable[[CaptureFile, pa.Schema], Iterator[pa.RecordBatch]]
"""A function that yields the rows of a file with the columns of a schema, including the added columns."""


@dataclass(frozen=True, slots=True)
class _All:
    """The selection of all files of a folder that are not hidden, as in Spark."""

    endings: tuple[str, ...] = ()


def is_beyond(session: SparkSession, path: str, storage: Storage) -> bool:
    """Return True if the input ``path`` is in a store for which Spark has no connector."""
    try:
        place = place_of(path, storage)
    except PipelineError:  # Spark may support this URL
        return False
    return not can_reach(session, place)


def read_salvaged(session: SparkSession, path: str, column_names: Collection[str], storage: Storage) -> DataFrame:
    """Return the rows of all Parquet files at ``path``: the columns ``column_names`` and the added columns.

    Spark lists the files if it has a connector for the store. Raises ``PipelineError`` if no file has a readable
    footer, or if only Spark can read the store.
    """
    beyond = is_beyond(session, path, storage)
    files = find_capture_files(path, storage) if beyond else list_files(session, path, storage)
    wide = _find_schema(path, files, _read_columns if beyond else partial(_read_columns_by_spark, session))
    return read_files(session, files, wide, column_names, read_parquet)


def read_files(
    session: SparkSession,
    files: Sequence[CaptureFile],
    columns: StructType,
    column_names: Collection[str],
    read: ReadFile,
) -> DataFrame:
    """Return the rows that ``read`` yields for ``files``, with the ``columns`` whose names are in ``column_names``.

    The files are read in tasks when Spark runs the query.
    """
    names = {name.lower() for name in column_names}
    folders = {name.lower(): name for file in files for name in file.folders}
    fields = [field for field in columns if field.name.lower() in names - folders.keys()]
    fields += [StructField(name, StringType()) for key, name in sorted(folders.items()) if key in names]
    numbers = build_numbers(session, len(files), TASKS)
    # Spark gets only the numbers of the files, so that it does not read them as well.
    rows = StructType([*fields, *_BESIDE])
    return numbers.mapInArrow(partial(_read, read, files, _convert_to_arrow(rows)), rows)


def list_files(session: SparkSession, path: str, storage: Storage) -> list[CaptureFile]:
    """Return the files at ``path`` as Spark lists them for its format ``binaryFile``. Raises ``PipelineError``."""
    try:
        frame = session.read.format("binaryFile").load(path)
        folders = [name for name in frame.columns if name not in _COMMON]
        casts = [f"CAST({quote_identifier(name)} AS STRING)" for name in folders]
        listed = frame.selectExpr("path", "_metadata.file_path", *casts).collect()
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"cannot list {path}: {error}") from error
    listing = sorted((str(row[0]), str(row[1]), list(row[2:])) for row in listed)
    return [
        CaptureFile(place_of(file_url, storage), shown_path, dict(zip(folders, texts, strict=True)))
        for file_url, shown_path, texts in listing
    ]


def find_capture_files(path: str, storage: Storage) -> list[CaptureFile]:
    """Return the files at ``path`` in a store that Spark cannot list. Empty files are skipped, as in Spark.

    Raises ``PipelineError`` if there are no files.
    """
    root = str(place_of(path, storage))
    files = [file_path for file_path, size in find_files([path], _All(), storage).files if size]
    if not files:
        raise PipelineError(f"the input {path} holds no files")
    return [
        CaptureFile(place_of(file_path, storage), file_path, _parse_folders(file_path.removeprefix(root)))
        for file_path in files
    ]


def _parse_folders(path: str) -> dict[str, str | None]:
    """Return the columns that the folder names of ``path`` state as ``NAME=VALUE``, as Hadoop programs write them."""
    matches = (_FOLDER.fullmatch(part) for part in path.split("/")[:-1])
    pairs = [tuple(map(urllib.parse.unquote, match.groups())) for match in matches if match]
    return {name: None if value == _NULL else value for name, value in pairs}


def _find_schema(path: str, files: Sequence[CaptureFile], columns: Callable[[Place], StructType]) -> StructType:
    for file in files:
        with suppress(PySparkException, Py4JError, pa.ArrowException):
            return columns(file.place)
    raise PipelineError(f"cannot read {path}: none of its files is Parquet with a footer that can be read")


def _read_columns_by_spark(session: SparkSession, place: Place) -> StructType:
    return session.read.parquet(str(place)).schema


def _read_columns(place: Place) -> StructType:
    """Return the columns of a file for which Spark has types. Raises Arrow's errors, and ``PipelineError``."""
    try:
        with place.open() as source:
            existing = pq.read_schema(source)
    except (pa.ArrowException, OSError) as error:
        raise pa.ArrowInvalid(_describe_error(place, error)) from error
    return convert_to_spark(existing)


def convert_to_spark(columns: pa.Schema) -> StructType:
    """Return the ``columns`` for which Spark has types, as Spark's schema."""
    fields = []
    for field in columns:
        with suppress(PySparkException):
            fields.append(StructField(field.name, from_arrow_type(_convert_type(field.type))))
    return StructType(fields)


def _convert_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type nearest to ``kind`` that Spark supports. Its members may be null."""
    if pa.types.is_dictionary(kind):
        return _convert_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_convert_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_convert_type(kind.key_type), _convert_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _convert_type(field.type)) for field in kind])
    if pa.types.is_unsigned_integer(kind):
        return pa.decimal128(20) if kind == pa.uint64() else pa.int64()
    return {"string_view": pa.string(), "binary_view": pa.binary()}.get(str(kind), kind)


def _convert_to_arrow(schema: StructType) -> pa.Schema:
    """Return ``schema`` as an Arrow schema. Some versions of Spark require the time zone as an argument."""
    zoned = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if zoned else to_arrow_schema(schema)


def _read(
    read: ReadFile, files: Sequence[CaptureFile], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files whose numbers are in ``batches``. Spark's ``mapInArrow`` calls this function."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read(files[number], schema)


def read_parquet(capture: CaptureFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the undamaged rows of a Parquet file, and a row for each damage. Raises ``PipelineError``."""
    place = capture.place
    try:
        opened = place.open()
    except OSError as error:
        raise PipelineError(f"cannot read {place}: {error}") from error
    with opened as source:
        try:
            file = pq.ParquetFile(
                source, page_checksum_verification=True, coerce_int96_timestamp_unit="us", pre_buffer=True
            )
        except (pa.ArrowException, OSError) as error:
            why = f"it is no Parquet file, or its end is lost: {_describe_error(place, error)}"
            yield build_damage_row(schema, capture, 0, UNREADABLE, why)
            return
        first = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            yield from _read_group(file, group, (first, first + count), capture, schema)
            first += count


def _read_group(
    file: pq.ParquetFile, group: int, bounds: tuple[int, int], capture: CaptureFile, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the undamaged rows of a row group, and a row for its damage.

    ``bounds`` are the numbers of its first row and of the row after its last.
    """
    at, end = bounds
    why = ""
    for size in (_PORTION, _LEAST):
        rows_done = at - bounds[0]
        portions = _read_portions(file, group, size, schema)
        try:
            for rows in portions:
                rows_left, rows_done = rows.slice(min(rows_done, len(rows))), max(rows_done - len(rows), 0)
                if len(rows_left):
                    yield complete_rows(rows_left, schema, capture, at)
                    at += len(rows_left)
        except (pa.ArrowException, OSError) as error:
            why = _describe_error(capture.place, error)
        if at == end:
            return
    reason = why or f"there are {end - at} less than it says"
    why = f"rows {at} to {end - 1}, of row group {group}, cannot be read: {reason}"
    yield build_damage_row(schema, capture, at, DAMAGED, why)


def _read_portions(file: pq.ParquetFile, group: int, size: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    column_names = match_names(file.schema_arrow.names, schema)
    yield from file.iter_batches(size, row_groups=[group], columns=column_names)


def match_names(file_names: Sequence[str], schema: pa.Schema) -> list[str]:
    """Return the names in ``file_names`` that match columns of ``schema``, ignoring case."""
    names_by_lower = {name.lower(): name for name in file_names}
    return [names_by_lower[name.lower()] for name in schema.names if name.lower() in names_by_lower]


def build_bare_rows(count: int) -> pa.RecordBatch:
    """Return ``count`` rows without any requested column."""
    return pa.RecordBatch.from_arrays([pa.nulls(count)], ["_"])


def complete_rows(rows: pa.RecordBatch, schema: pa.Schema, capture: CaptureFile, first: int) -> pa.RecordBatch:
    """Return ``rows`` with the columns of ``schema``, including folder columns, file and row number.

    ``first`` is the number of the first row. Missing columns are null. Raises ``PipelineError`` if a column has a type
    that cannot be cast.
    """
    arrays_by_name = {name.lower(): rows.column(number) for number, name in enumerate(rows.schema.names)}
    arrays_by_name |= {
        name.lower(): pa.array([text] * len(rows), pa.string()) for name, text in capture.folders.items()
    }
    arrays_by_name |= {
        FILE: pa.array([capture.shown] * len(rows)),
        ROW: pa.array(range(first, first + len(rows)), pa.int64()),
    }
    try:
        columns = [
            arrays_by_name[field.name.lower()].cast(field.type)
            if field.name.lower() in arrays_by_name
            else pa.nulls(len(rows), field.type)
            for field in schema
        ]
    except pa.ArrowException as error:
        raise PipelineError(
            f"cannot read {capture.place}: its columns are of other types than those of others: {error}"
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def build_damage_row(schema: pa.Schema, capture: CaptureFile, row: int, rule: str, why: str) -> pa.RecordBatch:
    """Return a row that stands for damage from row number ``row`` on, with its ``rule`` and reason ``why``."""
    return pa.RecordBatch.from_pylist([{FILE: capture.shown, ROW: row, RULE: rule, WHY: why}], schema)


def _describe_error(place: Place, error: Exception) -> str:
    """Return the first line of Arrow's error about a file.

    Raises ``PipelineError`` for an error of the store or disk.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise PipelineError(f"cannot read {place}: {error}") from error
    return str(error).partition("\n")[0]
