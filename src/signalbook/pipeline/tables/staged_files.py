"""Write the rows of one task to staged Parquet files, one or more per table, in bounded memory for any mix of messages.

Rows are held until a table has enough for a row group, or until all tables together hold too much. Then only the
fullest tables are written, until a little memory is free: the longer the other tables wait, the fuller they get. So
a stream of one type and a stream of thousands of types both land in few, well-filled row groups.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signalbook.pipeline import columns
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile
from signalbook.pipeline.places import Output, Place, Where, place_of
from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables.evolution import rename_rows

ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
HELD_BYTES: Final = 192 * 1024 * 1024
# The number of held batches that are copied into one, because rows may be slices that keep larger arrays in memory.
_FRAGMENTS: Final = 16
# Each writer has a file open; systems commonly allow a process 1,024.
_OPEN_FILES: Final = 200
# The number of files that are written at the same time after the last row has arrived.
_WRITERS: Final = min(4, os.cpu_count() or 1)
# The same number if the files are written to an object store, for which each waits.
_UPLOADS: Final = 16
# The key in a file's metadata under which Arrow looks for the schema that the file was written with.
_SCHEMA: Final = b"ARROW:schema"
# The number of rows that are read at a time.
_PORTION: Final = 1024
# The share of ``HELD_BYTES`` that is freed when all tables together hold too much.
_RELIEF: Final = 1 / 8
# Bytes per column of a row group below which Snappy is used: zstd makes a workspace for each column, which takes longer
# than compressing so few bytes.
_THIN: Final = 8 * 1024
_SMALL: Final[Mapping[str, Any]] = {"compression": "snappy"}
_USUAL: Final[Mapping[str, Any]] = {"compression": "zstd", "compression_level": 1}
# A column of integers gets a dictionary only if it has this many values, and if each recurs this often on average.
# Other columns are written faster without a dictionary.
_MANY: Final = 1000
_AGAIN: Final = 8
_INTEGERS: Final = (pa.int64(), pa.int32())
# A huge value is compressed only if its first ``_SAMPLE`` bytes compress to less than this share.
_WORTHWHILE: Final = 1 / 2
_SAMPLE: Final = 1024 * 1024


def open_file(output: Output, schema: pa.Schema, settings: Mapping[str, Any] = _USUAL) -> pq.ParquetWriter:
    """Open a data file of a table, and return the writer of row groups. Close it before ``output`` is finished.

    ``settings`` are options of ``pq.ParquetWriter``. Readers see no dictionary types, even if ``schema`` has some.
    """
    settings = {"use_dictionary": list(columns.REPETITIVE), **settings}
    writer = pq.ParquetWriter(output.sink, schema, store_schema=False, **settings)
    writer.add_key_value_metadata({_SCHEMA: b64encode(columns.decode_constants(schema).serialize())})
    return writer


def open_rows(place: Place) -> pq.ParquetFile:
    """Open a data file for reading a row group at once. Without ``pre_buffer``, older Arrow requests each column."""
    return pq.ParquetFile(place.open_for_arrow(), pre_buffer=True)


def read_rows(
    place: Where, description: str, names: Iterable[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a data file in portions, each with the number of its first row.

    ``names`` are the columns to read; ``None`` means all. Raises ``PipelineError`` if the file cannot be read; its text
    calls the file ``description``.
    """
    first = 0
    try:
        with open_rows(place_of(place)) as file:
            column_names = None if names is None else sorted(set(names) & set(file.schema_arrow.names))
            # No portion spans row groups, which are bounded in bytes. So portions of huge messages are bounded, too.
            for group in range(file.num_row_groups):
                for rows in file.iter_batches(_PORTION, row_groups=[group], columns=column_names):
                    yield first, rows
                    first += len(rows)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read {description} {place}: {error}") from error


def rename_file_columns(output: Place, file: DataFile, schema: pa.Schema) -> DataFile:
    """Replace a staged file by one with the columns of ``schema``, and return the new file. Raises ``OSError``.

    ``schema`` is the result of ``rename_columns`` for the columns of the file. The batch must not be in the journal
    yet: if a run is killed here, its batch was never begun, and the next run deletes both files.
    """
    staged = f"{file.staged.removesuffix('.parquet')}-named.parquet"
    with open_rows(output / file.staged) as source, (output / staged).open_output() as target, ExitStack() as stack:
        writer = None
        for number in range(source.num_row_groups):
            rows = rename_rows(source.read_row_group(number), schema)
            writer = writer or stack.enter_context(open_file(target, schema, _choose_settings(rows, rows.nbytes)))
            writer.write_table(rows, row_group_size=len(rows))
        stack.close()
        size = target.finish()
    (output / file.staged).delete()
    return replace(file, staged=staged, bytes=size)


def _choose_settings(rows: pa.Table, size: int) -> Mapping[str, Any]:
    """Return the Parquet settings for a file whose first ``rows`` have about ``size`` bytes."""
    if _is_huge(rows):
        return _build_huge_settings(rows)
    if size < _THIN * rows.num_columns:  # as in small batches of wide tables, whose columns take long to count
        return _SMALL
    kinds = [_list_leaves(kind) for kind in rows.schema.types]
    if size < _THIN * sum(len(leaves) for leaves in kinds):
        return _SMALL
    numbers = [number for number, leaves in enumerate(kinds) if any(leaf in _INTEGERS for leaf in leaves)]
    return {**_USUAL, "use_dictionary": [*columns.REPETITIVE, *_find_repeated(rows, numbers)]}


def _find_repeated(rows: pa.Table, numbers: Iterable[int]) -> Iterator[str]:
    """Yield the Parquet paths of integers that have few distinct values, judged by their range in the longest chunk.

    ``numbers`` are the positions of the columns to check. Writing a dictionary takes half the time of compressing eight
    bytes for each value. All readers support dictionaries, but some readers of Iceberg reject delta encodings.
    """
    for number in numbers:
        longest = max(rows.column(number).chunks, key=len)
        yield from (
            path for path, values in _iterate_integers(rows.field(number).name, longest) if _has_repeats(values)
        )


def _iterate_integers(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the integer columns of the Parquet file that ``array`` becomes, each with its path, below ``path``."""
    kind = array.type
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _iterate_integers(f"{path}.{kind.field(number).name}", array.field(number))
    elif pa.types.is_map(kind):
        yield from _iterate_integers(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind):
        yield from _iterate_integers(f"{path}.list.element", array.values)
    elif kind in _INTEGERS:
        yield path, array


def _has_repeats(integers: pa.Array) -> bool:
    count = len(integers) - integers.null_count
    if count < _MANY:
        return False
    ends = pc.min_max(integers).as_py()
    # a column with a single value is excluded, because it compresses to almost nothing anyway
    return bool(0 < ends["max"] - ends["min"] <= count // _AGAIN)


def _is_huge(rows: pa.Table | pa.RecordBatch) -> bool:
    return len(rows) == 1 and bool(rows.nbytes >= ROW_GROUP_BYTES)


def _build_huge_settings(rows: pa.Table) -> dict[str, Any]:
    """Return the settings for one huge row, with which Parquet makes two copies of it and two of the compressed page.

    With the usual settings, Parquet makes seven copies. Four of them are the bounds of pages and columns. One is
    due to pages of the first version, which are compressed as a whole.
    """
    buffers = [buffer for column in rows.columns for chunk in column.chunks for buffer in chunk.buffers() if buffer]
    sample = max(buffers, key=len)[:_SAMPLE]
    pays = len(pa.compress(sample, "zstd", asbytes=True)) < len(sample) * _WORTHWHILE
    bounded = [field.name for field in rows.schema if pa.types.is_primitive(field.type)]
    codec = _USUAL if pays else {"compression": "none"}
    return {**codec, "write_statistics": bounded, "data_page_version": "2.0"}


def _list_leaves(type: pa.DataType) -> list[pa.DataType]:
    """Return the types of the Parquet columns that a column of ``type`` becomes."""
    fields = type.num_fields
    return [leaf for number in range(fields) for leaf in _list_leaves(type.field(number).type)] if fields else [type]


@dataclass(slots=True, kw_only=True)
class _Table:
    name: TableName
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0
    # measuring a batch takes longer than making it, so most are assumed to have the row size of earlier batches
    row_bytes: float = 0.0
    rows: int = 0
    file: str = ""
    output: Output | None = None
    writer: pq.ParquetWriter | None = None


class StagedFiles:
    """A writer of the rows of one task to files in ``folder``, whose path below the output folder is ``staged``.

    The names of all files begin with ``prefix``, which no other task may use.
    """

    def __init__(self, folder: Where, *, staged: str, prefix: str) -> None:
        self._folder = place_of(folder)
        self._staged = staged
        self._prefix = prefix
        self._tables: dict[TableName, _Table] = {}
        self._open: dict[TableName, _Table] = {}
        self._held = 0
        self._due: _Table | None = None
        self._files: list[DataFile] = []
        self._numbers = count()

    def add(self, name: TableName, rows: pa.RecordBatch) -> None:
        """Take rows for a table. Raises ``OSError`` if they cannot be written."""
        self.settle()
        table = self._tables.get(name) or self._tables.setdefault(name, _Table(name=name))
        if _is_huge(rows):
            self._complete(table)  # so that a huge row has a separate file
        if not table.held or len(rows) == 1:
            # Only some batches are measured, because ``nbytes`` visits every buffer of every column. A single row is
            # always measured, because it may be huge.
            table.row_bytes = rows.nbytes / len(rows)
        table.held.append(rows)
        size = int(table.row_bytes * len(rows))
        table.held_bytes += size
        self._held += size
        if len(table.held) >= _FRAGMENTS:
            self._compact(table)
        if table.held_bytes >= ROW_GROUP_BYTES:
            self._due = table
        elif self._held >= HELD_BYTES:
            self._write_largest()

    def settle(self) -> None:
        """Write the row group that ``add`` has filled, if there is one. Raises ``OSError``.

        ``add`` does not write it, because its caller still holds the values that the rows were made of. For a huge row,
        these values, the row and the copies that Parquet makes would be in memory together.
        """
        if self._due is not None:
            due, self._due = self._due, None
            (self._complete if due.row_bytes >= ROW_GROUP_BYTES else self._write)(due)

    def finish(self) -> tuple[DataFile, ...]:
        """Write all held rows, close all files and return their descriptions. Raises ``OSError``."""
        for table in list(self._open.values()):
            self._complete(table)
        # A small batch of many tables takes most of its time for files. Arrow writes them without the interpreter's
        # lock, so that idle processors can help.
        with ThreadPoolExecutor(_WRITERS if self._folder.folder is not None else _UPLOADS) as pool:
            list(pool.map(self._complete, [table for table in self._tables.values() if table.held]))
        return tuple(self._files)

    def abandon(self) -> None:
        """Close all files without finishing them, because a task failed. They are not used."""
        for table in self._open.values():
            if table.writer is not None and table.output is not None:
                with suppress(OSError):
                    table.writer.close()
                table.output.abandon()

    def _complete(self, table: _Table) -> None:
        """Write the held rows of a table and close its file."""
        self._write(table)
        self._close(table)

    def _compact(self, table: _Table) -> None:
        table.held = pa.Table.from_batches(table.held).combine_chunks().to_batches()
        size = sum(rows.nbytes for rows in table.held)
        table.row_bytes = size / sum(len(rows) for rows in table.held)
        self._held += size - table.held_bytes
        table.held_bytes = size

    def _write_largest(self) -> None:
        # The fullest first: they make the best row groups, and writing a few of them frees enough memory for a while.
        for table in sorted(self._tables.values(), key=lambda table: table.held_bytes, reverse=True):
            if self._held < HELD_BYTES * (1 - _RELIEF):
                break
            self._write(table)

    def _write(self, table: _Table) -> None:
        """Write all held rows of a table as one row group."""
        if not table.held:
            return
        rows = pa.Table.from_batches(table.held)
        self._open_writer(table, rows).write_table(rows, row_group_size=len(rows))
        table.rows += len(rows)
        self._held -= table.held_bytes
        table.held, table.held_bytes = [], 0

    def _open_writer(self, table: _Table, rows: pa.Table) -> pq.ParquetWriter:
        if table.writer is None:
            if len(self._open) >= _OPEN_FILES:
                # the oldest: its table gets another file if more rows come
                self._close(next(iter(self._open.values())))
            table.file = f"{self._prefix}-{next(self._numbers):05d}.parquet"
            table.output = (self._folder / table.file).open_output()
            table.writer = open_file(table.output, rows.schema, _choose_settings(rows, table.held_bytes))
            self._open[table.name] = table
        return table.writer

    def _close(self, table: _Table) -> None:
        if table.writer is None or table.output is None:
            return
        table.writer.close()
        del self._open[table.name]
        size, name = table.output.finish(), table.file
        self._files.append(
            DataFile(table=table.name, staged=f"{self._staged}/{name}", name=name, rows=table.rows, bytes=size)
        )
        table.writer, table.output, table.rows = None, None, 0
