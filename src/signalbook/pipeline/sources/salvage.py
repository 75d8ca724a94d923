"""Parquet files of which Spark cannot read all: by Arrow, row group by row group, with what is damaged named.

Spark ends a job at the first page or footer that is damaged. Then the files are read again, all of them: rows before
the damage of a row group are whole, and so are other row groups.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage, place_of
from signalbook.pipeline.sources.base import DAMAGED, UNREADABLE, RecordSource

FILE: Final = "_signalbook_file"
ROW: Final = "_signalbook_row"
RULE: Final = "_signalbook_rule"
WHY: Final = "_signalbook_why"
"""The columns beside those of a file: where a row is, and the rule and the reason of one that stands for damage."""
_BESIDE: Final = StructType(
    [
        StructField(FILE, StringType()),
        StructField(ROW, LongType()),
        StructField(RULE, StringType()),
        StructField(WHY, StringType()),
    ]
)
# How Spark 3.5 and 4 say it; a file that is gone, or of other columns, is none of these.
_DAMAGE: Final = re.compile(
    r"FAILED_READ_FILE\.NO_HINT|FAILED_READ_FILE\.CANNOT_READ_FILE_FOOTER|CANNOT_READ_FILE_FOOTER|Could not read footer"
    r"|is not a Parquet file|Encountered error while reading file"
)
_OTHER: Final = re.compile(
    r"FILE_NOT_EXIST|FileNotFoundException|COLUMN_DATA_TYPE_MISMATCH|AccessDenied|Permission denied"
)
# Rows that are read at once, and where that fails once more from the last that were whole.
_PORTION: Final = 1024
_LEAST: Final = 1
# Of a session of Spark: more files share a task.
_TASKS: Final = 1000


@runtime_checkable
class SalvagingSource(RecordSource, Protocol):
    """Those that bring what is whole where Spark fails at a damaged file."""

    def salvage(
        self, session: SparkSession, inputs: Sequence[str], options: Mapping[str, str], storage: Storage
    ) -> DataFrame:
        """The same as ``load``; a row whose protocol is ``DAMAGED`` or ``UNREADABLE`` has why as its address.

        Raises ``PipelineError``.
        """
        ...


class DamagedInput(PipelineError):
    """Spark cannot read a file for good."""


def is_damage(error: BaseException) -> bool:
    """Whether Spark failed at a file that is damaged."""
    text = f"{error} {error.__cause__ or ''}"
    return _DAMAGE.search(text) is not None and _OTHER.search(text) is None


def salvaged(session: SparkSession, path: str, wanted: Collection[str], storage: Storage) -> DataFrame:
    """The rows of all files that Spark finds at ``path``, with the columns ``wanted``, in any case, and those above.

    Raises ``PipelineError`` where none of the files has a footer, or they are where only Spark reads.
    """
    try:
        # Of binary files Spark looks at what it lists, by its own rules, and no further.
        listed = session.read.format("binaryFile").load(path).select("path", "_metadata.file_path").collect()
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"cannot list {path}: {error}") from error
    found = sorted((str(row[0]), str(row[1])) for row in listed)
    wide = _schema(session, path, [file for file, _ in found])
    names = {name.lower() for name in wanted}
    schema = StructType([each for each in wide if each.name.lower() in names])
    files = [(place_of(file, storage), shown) for file, shown in found]
    numbers = session.range(0, len(files), 1, min(len(files), _TASKS))
    # Not to be read twice: numbers are all that Spark knows of the files.
    rows = StructType([*schema, *_BESIDE])
    return numbers.mapInArrow(partial(_read, files, _arrow(rows)), rows)


def _schema(session: SparkSession, path: str, files: Sequence[str]) -> StructType:
    for file in files:
        with suppress(PySparkException, Py4JError):
            return session.read.parquet(file).schema
    raise PipelineError(f"cannot read {path}: none of its files is Parquet with a footer that can be read")


def _arrow(schema: StructType) -> pa.Schema:
    """The same as Arrow has it; some versions of Spark need the zone of times."""
    zoned = "timezone" in signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if zoned else to_arrow_schema(schema)


def _read(
    files: Sequence[tuple[Place, str]], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow``: numbers of files in, their rows out."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            place, shown = files[number]
            yield from _read_file(place, shown, schema)


def _read_file(place: Place, shown: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        opened = place.open()
    except OSError as error:
        raise PipelineError(f"cannot read {place}: {error}") from error
    with opened as source:
        try:
            file = pq.ParquetFile(source, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
        except (pa.ArrowException, OSError) as error:
            why = f"it is no Parquet file, or its end is lost: {_reason(place, error)}"
            yield _damage(schema, shown, 0, UNREADABLE, why)
            return
        first = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            yield from _read_group(file, group, (first, first + count), place, shown, schema)
            first += count


def _read_group(
    file: pq.ParquetFile, group: int, bounds: tuple[int, int], place: Place, shown: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group from its first to its end, and its damage."""
    at, end = bounds
    why = ""
    for size in (_PORTION, _LEAST):
        done = at - bounds[0]
        portions = _portions(file, group, size, schema)
        try:
            for rows in portions:
                left, done = rows.slice(min(done, len(rows))), max(done - len(rows), 0)
                if len(left):
                    yield _beside(left, schema, shown, at, place)
                    at += len(left)
        except (pa.ArrowException, OSError) as error:
            why = _reason(place, error)
        if at == end:
            return
    said = why or f"there are {end - at} less than it says"
    why = f"rows {at} to {end - 1}, of row group {group}, cannot be read: {said}"
    yield _damage(schema, shown, at, DAMAGED, why)


def _portions(file: pq.ParquetFile, group: int, size: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    there = {name.lower(): name for name in file.schema_arrow.names}
    own = [there[name.lower()] for name in schema.names if name.lower() in there]
    yield from file.iter_batches(size, row_groups=[group], columns=own)


def _beside(rows: pa.RecordBatch, schema: pa.Schema, shown: str, first: int, place: Place) -> pa.RecordBatch:
    """Rows as Spark has them, with where they are."""
    there = {name.lower(): rows.column(number) for number, name in enumerate(rows.schema.names)}
    there |= {FILE: pa.array([shown] * len(rows)), ROW: pa.array(range(first, first + len(rows)), pa.int64())}
    try:
        columns = [
            there[field.name.lower()].cast(field.type)
            if field.name.lower() in there
            else pa.nulls(len(rows), field.type)
            for field in schema
        ]
    except pa.ArrowException as error:
        raise PipelineError(
            f"cannot read {place}: its columns are of other types than those of others: {error}"
        ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _damage(schema: pa.Schema, shown: str, row: int, rule: str, why: str) -> pa.RecordBatch:
    """One row that stands for what cannot be read."""
    return pa.RecordBatch.from_pylist([{FILE: shown, ROW: row, RULE: rule, WHY: why}], schema)


def _reason(place: Place, error: Exception) -> str:
    """What Arrow says of a file. Raises ``PipelineError`` where it could not be got at, which is no damage."""
    if isinstance(error, OSError) and error.errno is not None:
        raise PipelineError(f"cannot read {place}: {error}") from error
    return str(error).partition("\n")[0]
