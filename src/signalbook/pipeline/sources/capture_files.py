"""Read rows of capture files by Arrow, one row group after the other, up to and after damage.

A row that describes damage stands for the rows that cannot be read. ``salvage.py`` makes Spark's rows of these.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Place, Storage, place_of
from signalbook.pipeline.sources.base import DAMAGED, UNREADABLE, Split
from signalbook.pipeline.sources.input_file import ENDLESS
from signalbook.pipeline.sources.inputs import find_files

FILE: Final = "_signalbook_file"
ROW: Final = "_signalbook_row"
RULE: Final = "_signalbook_rule"
WHY: Final = "_signalbook_why"
"""The names of the added columns: file and number of a row; for a row that stands for damage, also rule and reason."""
# The rows that are read at once, and the rows that are read at once after a failure, to get all undamaged rows.
_PORTION: Final = 1024
_LEAST: Final = 1
_FOLDER: Final = re.compile(r"([^=/]+)=([^=/]*)")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


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


def find_capture_files(path: str, storage: Storage) -> list[CaptureFile]:
    """Return the files at ``path`` in a store that Spark cannot list. Empty files are skipped, as in Spark.

    Raises ``PipelineError`` if there are no files.
    """
    root = str(place_of(path, storage))
    files = [file_path for file_path, size in find_files([path], _All(), storage).files if size]
    if not files:
        raise PipelineError(f"the input {path} holds no files")
    return [
        CaptureFile(place_of(file_path, storage), file_path, parse_folders(file_path.removeprefix(root)))
        for file_path in files
    ]


def parse_folders(path: str) -> dict[str, str | None]:
    """Return the columns that the folder names of ``path`` state as ``NAME=VALUE``, as Hadoop programs write them."""
    matches = (_FOLDER.fullmatch(part) for part in path.split("/")[:-1])
    pairs = [tuple(map(urllib.parse.unquote, match.groups())) for match in matches if match]
    return {name: None if value == _NULL else value for name, value in pairs}


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
            why = f"it is no Parquet file, or its end is lost: {describe_read_error(place, error)}"
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
            why = describe_read_error(capture.place, error)
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


def describe_read_error(place: Place, error: Exception) -> str:
    """Return the first line of Arrow's error about a file.

    Raises ``PipelineError`` for an error of the store or disk.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise PipelineError(f"cannot read {place}: {error}") from error
    return str(error).partition("\n")[0]
