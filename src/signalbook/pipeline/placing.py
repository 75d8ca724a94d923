"""Which table of its definition each staged file goes to: decided once, before the batch is entered as prepared.

The journal then holds the decision, so that a commit that has to be repeated, by whatever process, repeats it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from signalbook.pipeline.commit.journal import Batch, DataFile
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.tables.base import Tables
from signalbook.pipeline.tables.evolution import Incompatible
from signalbook.pipeline.tables.naming import DEAD_LETTERS, TableName


def place(tables: Tables, output: Path, batch: Batch) -> Batch:
    """``batch`` with each file in a table that takes it, and in its folder there.

    Raises ``PipelineError`` if someone else changed a table.
    """
    files: list[DataFile] = []
    for table, group in groupby(sorted(batch.files, key=_table), key=_table):
        files += _placed(tables, output, batch, table, list(group))
    return replace(batch, files=tuple(files))


def _table(file: DataFile) -> TableName:
    return file.table


def _placed(tables: Tables, output: Path, batch: Batch, table: TableName, files: Sequence[DataFile]) -> list[DataFile]:
    # the columns depend on the definition alone, so they are those of all files
    chosen = _taker(tables, table, pq.read_schema(output / files[0].staged))
    folder = tables.folder(chosen, batch)
    return [replace(file, table=chosen, name=folder + file.name) for file in files]


def _taker(tables: Tables, table: TableName, columns: pa.Schema) -> TableName:
    """The newest table of a definition that takes ``columns``, or one that is to be made."""
    there = tables.versions(table)
    for version in reversed(there):
        try:
            tables.follow(version, columns)
        except Incompatible as error:
            if table == DEAD_LETTERS:
                raise PipelineError(f"table {table} was changed by someone else: {error}. Rename it away") from error
        else:
            return version
    return table.numbered(there[-1].version + 1) if there else table
