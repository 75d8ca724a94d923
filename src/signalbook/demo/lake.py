"""The tables a run made, as any reader of Iceberg or Parquet sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog

from signalbook.pipeline.tables.iceberg import CATALOG, NAME

_COLUMNS = ("source", "position", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """An output folder of the pipeline and the format of its tables."""

    folder: Path
    table_format: Literal["iceberg", "parquet"]

    def dead_letters(self, batch: str) -> pa.Table:
        """Where each dead letter of a batch came from, and why it is one."""
        if self.table_format == "iceberg":
            table = self._catalog().load_table(("signalbook", "dead_letters"))
            return table.scan(row_filter=f"batch == '{batch}'", selected_fields=_COLUMNS).to_arrow()
        found = ds.dataset(self.folder / "dead_letters", format="parquet")
        return found.to_table(columns=list(_COLUMNS), filter=pc.field("batch") == batch)

    def head(self, group: str, message: str, count: int) -> pa.Table:
        """The first rows of a landed table."""
        if self.table_format == "iceberg":
            return self._catalog().load_table((group, message)).scan(limit=count).to_arrow()
        return ds.dataset(self.folder / "tables" / group / message, format="parquet").head(count)

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(NAME, uri=f"sqlite:///{self.folder.absolute() / CATALOG}")
