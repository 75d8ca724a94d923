"""Which table formats there are."""

from __future__ import annotations

from pathlib import Path

from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.tables.base import Tables
from signalbook.pipeline.tables.parquet import ParquetTables


def open_tables(output: Path, table_format: TableFormat) -> Tables:
    """The tables of an output folder. What is read of them is kept for a while: open them anew for each batch."""
    if table_format == "parquet":
        return ParquetTables(output)
    # pyiceberg takes a second to import; runs on plain Parquet do without
    from signalbook.pipeline.tables.iceberg import IcebergTables

    return IcebergTables(output)
