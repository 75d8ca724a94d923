"""Tables as folders of Parquet files: ``tables/<group>/<message>/*.parquet`` and ``dead_letters/*.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from signalbook.pipeline.journal import DataFile
from signalbook.pipeline.naming import TableName, home
from signalbook.pipeline.tables.base import move_in


@dataclass(frozen=True, slots=True)
class ParquetTables:
    """The folders below ``output``."""

    output: Path

    def commit(self, table: TableName, files: Sequence[DataFile]) -> None:
        """Rename each file into its folder; readers see whole files only."""
        move_in(self.output, self.output / home(table, "parquet"), files)
