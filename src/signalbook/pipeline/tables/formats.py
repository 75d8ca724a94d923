"""Open the tables of an output folder in their format. The libraries of a format are imported only if it is used."""

from __future__ import annotations

from collections.abc import Sequence

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import DataFile, Journal, TableFormat
from signalbook.pipeline.places import Where
from signalbook.pipeline.table_names import TableName, find_table_folder
from signalbook.pipeline.tables.base import Tables
from signalbook.pipeline.tables.parquet import ParquetTables
from signalbook.plugins import install


def open_tables(output: Where, table_format: TableFormat) -> Tables:
    """Return the tables of ``output``. They cache what they read, so open them again for each batch."""
    if table_format == "parquet":
        return ParquetTables(output)
    if table_format == "delta":
        return _open_delta(output)
    # Imported here, because pyiceberg takes a second to import and other formats do not need it.
    from signalbook.pipeline.tables.iceberg import IcebergTables

    return IcebergTables(output)


def _open_delta(output: Where) -> Tables:
    try:
        from signalbook.pipeline.tables.delta import DeltaTables
    except ModuleNotFoundError as error:
        raise PipelineError(f"tables of Delta need {error.name}: {install('pipeline', 'delta')}") from error
    return DeltaTables(output)


def find_visible_files(journal: Journal, table: TableName, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the ``files`` of ``table`` in the journal that readers of the table see.

    Another program may have dropped the table or rewritten files. The old files of Iceberg and Delta tables remain in
    their folder then. Raises ``PipelineError`` if the table cannot be read.
    """
    table_format = journal.find_table_format()
    if table_format is None:
        return []
    folder = journal.output / find_table_folder(table, table_format)
    live = open_tables(journal.output, table_format).find_live_paths(table)
    return [file for file in files if str(folder / file.name) in live]
