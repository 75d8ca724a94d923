"""Read the undamaged part of Parquet files that Spark cannot read, by Arrow, one row group after the other.

Spark ends a job at the first damaged page or footer. Then all files are read again by this module: it returns the rows
before the damage in a row group and all other row groups, and a row that describes each damage. It also reads files in
stores for which Spark has no connector; ``capture_formats.py`` does so for other formats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
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
from signalbook.pipeline.sources.base import RecordSource
from signalbook.pipeline.sources.capture_files import (
    FILE,
    ROW,
    RULE,
    WHY,
    CaptureFile,
    ReadFile,
    describe_read_error,
    find_capture_files,
    read_parquet,
)
from signalbook.pipeline.spark import build_numbers, can_reach
from signalbook.pipeline.tables.spark_sql import quote_identifier

_BESIDE: Final = StructType(
    [
        StructField(FILE, StringType()),
        StructField(ROW, LongType()),
        StructField(RULE, StringType()),
        StructField(WHY, StringType()),
    ]
)
# The most tasks of a job. If there are more files, several share a task.
TASKS: Final = 1000
# The columns of Spark's format ``binaryFile``. Further columns come from folder names such as ``topic=a``.
_COMMON: Final = ("path", "modificationTime", "length", "content")


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
        raise pa.ArrowInvalid(describe_read_error(place, error)) from error
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
