"""The tables a run made, as any reader of Iceberg or Parquet sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue

from signalbook.demo.traffic import Place
from signalbook.pipeline.tables.catalogs import NAME
from signalbook.pipeline.tables.iceberg_catalogs import CATALOG

_COLUMNS: Final = ("source", "position", "reason")
_LANDED: Final = ("_source", "_position")
_LETTERS: Final = ("signalbook", "dead_letters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """An output folder of the pipeline and the format of its tables."""

    folder: Path
    table_format: Literal["iceberg", "parquet"]

    def dead_letters(self, batch: str) -> pa.Table:
        """Where each dead letter of a batch came from, and why it is one."""
        if self.table_format == "iceberg":
            return self._rows(_LETTERS, _COLUMNS, f"batch == '{batch}'")
        found = ds.dataset(self.folder / "dead_letters", format="parquet")
        return found.to_table(columns=list(_COLUMNS), filter=pc.field("batch") == batch)

    def head(self, group: str, message: str, count: int, having: str = "") -> pa.Table:
        """The first rows of a landed table, in Iceberg of those that have the column ``having``."""
        if self.table_format == "iceberg":
            return self._rows((group, message), ("*",), f"{having} IS NOT NULL" if having else "", count)
        return ds.dataset(self.folder / "tables" / group / message, format="parquet").head(count)

    def columns(self, group: str, message: str) -> list[str]:
        """The names of the columns of a landed table."""
        return list(self.head(group, message, 1).column_names)

    def ends(self, groups: Iterable[str]) -> Iterator[tuple[Place, str]]:
        """What became of each message in an Iceberg output: its xid or a reason, by where it was read."""
        letters = self._rows(_LETTERS, _COLUMNS)
        yield from zip(_places(letters, _COLUMNS), letters["reason"].to_pylist(), strict=True)
        for group in groups:
            name = group.rpartition("/")[2]
            for table in self._catalog().list_tables((name,)):
                landed = self._rows((name, table[-1]), _LANDED)
                yield from ((place, f"{group}/messages/{table[-1]}") for place in _places(landed, _LANDED))

    def _rows(
        self, table: tuple[str, str], columns: tuple[str, ...], wanted: str = "", most: int | None = None
    ) -> pa.Table:
        return self._catalog().load_table(table).scan(wanted or AlwaysTrue(), columns, limit=most).to_arrow()

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(NAME, uri=f"sqlite:///{self.folder.absolute() / CATALOG}")


def _places(rows: pa.Table, columns: tuple[str, ...]) -> Iterator[Place]:
    source, position = (rows[name].to_pylist() for name in columns[:2])
    return zip(source, position, strict=True)
