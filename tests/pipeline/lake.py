"""Tables filled without Spark: rows become a staged file, and go the way of a batch from there."""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.s3 import place, s3_properties

from signalbook.pipeline.columns import TIMESTAMP
from signalbook.pipeline.commit import assign_tables, commit
from signalbook.pipeline.job.jobs import OutputOptions, Progress
from signalbook.pipeline.journal import DataFile, Journal, JournalEntry, Partition, TableFormat
from signalbook.pipeline.places import LocalPlace, Place, StorePlace, place_of
from signalbook.pipeline.report import Tally
from signalbook.pipeline.table_names import TableName, find_table_folder
from signalbook.pipeline.tables.base import Tables
from signalbook.pipeline.tables.catalogs import CatalogChoice, set_catalog
from signalbook.pipeline.tables.formats import open_tables

ORDER = TableName("shop", "order")
XID = "/messagegroups/shop/messages/order"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Columns: TypeAlias = dict[str, pa.DataType] | pa.Schema


KINDS = ("iceberg", "rest", "parquet", "delta")


def rest_choice(request: pytest.FixtureRequest) -> CatalogChoice:
    """A new namespace in the REST catalog, or in ``own_catalog`` if the test asks for that, too."""
    name = "own_catalog" if "own_catalog" in request.fixturenames else "rest_catalog"
    port = request.getfixturevalue(name).ports["plain"]
    properties = {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
    return CatalogChoice(name="tests", namespace=(f"lake{secrets.token_hex(4)}",), properties=properties)


def folder(job: OutputOptions) -> Path:
    local_folder = job.place.folder
    assert local_folder is not None
    return local_folder


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets the bytes of each read of a data file from now on: one for each column, as older Arrow does unless told."""
    sizes: list[int] = []

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            content = super().read(size)
            sizes.append(len(content))
            return content

    monkeypatch.setattr(LocalPlace, "open_for_arrow", lambda place: Counted(place.path.read_bytes()))
    monkeypatch.setattr(pq, "ParquetFile", partial(pq.ParquetFile, pre_buffer=False))
    return sizes


@dataclass(slots=True)
class Lake:
    """An output folder, and batches of one file each that are put there."""

    output: Path
    table_format: TableFormat
    partition: Partition = "day"
    landed_at: datetime = NOON
    count: int = field(default=0)
    catalog: CatalogChoice | None = None
    stored: Place | None = None
    _journal: Journal | None = None

    def __post_init__(self) -> None:
        set_catalog(self.journal, self.catalog)

    @classmethod
    def of(cls, kind: str, folder: Path, request: pytest.FixtureRequest) -> Lake:
        """An output folder of one of ``KINDS``; ``rest`` is Iceberg in a real REST catalog."""
        table_format, dash, server = kind.partition("-")
        if dash:
            return cls(folder, cast("TableFormat", table_format), stored=place(server, folder, request))
        if kind == "rest":
            return cls(folder, "iceberg", catalog=rest_choice(request))
        return cls(folder, cast("TableFormat", kind))

    @property
    def place(self) -> Place:
        """The output folder, or one in a store."""
        return self.stored or place_of(self.output)

    @property
    def journal(self) -> Journal:
        # One for all, where it is in a store: it has the lease.
        if self.stored is None:
            return Journal.open(self.place)
        self._journal = self._journal or Journal.open(self.place)
        return self._journal

    @property
    def tables(self) -> Tables:
        return open_tables(self.place, self.table_format)

    def files(self, table: TableName = ORDER) -> list[Place]:
        folder = self.place / find_table_folder(table, self.table_format)
        return [folder / file.name for file in self.journal.find_files()[table]]

    def prepared(
        self,
        rows: list[dict[str, Any]],
        columns: Columns,
        table: TableName = ORDER,
        removed: Sequence[DataFile] = (),
    ) -> JournalEntry:
        """Enter a batch with these rows, and when they landed, in place of the ``removed`` files."""
        self.count += 1
        name = f"b{self.count:03}"
        attempt = f"{name}-{secrets.token_hex(4)}"
        folder = self.journal.make_staging(attempt)
        staged = (folder / "f.parquet").open_output()
        fields = columns if isinstance(columns, pa.Schema) else columns.items()
        schema = pa.schema([*fields, ("_landed_at", TIMESTAMP)])
        pq.write_table(
            pa.Table.from_pylist([{**row, "_landed_at": self.landed_at} for row in rows], schema), staged.sink
        )
        path, size = f".staging/{attempt}/f.parquet", staged.finish()
        file = DataFile(table=table, staged=path, name=f"{name}.parquet", rows=len(rows), bytes=size)
        batch = JournalEntry(
            id=name,
            fingerprint="f",
            origin="o",
            table_format=self.table_format,
            tally=Tally(read=len(rows)),
            files=(file,),
            removed=tuple(removed),
            seconds=0.0,
            partition=self.partition,
            landed_at=self.landed_at,
        )
        batch = assign_tables(self.tables, self.place, batch)
        self.journal.prepare(batch)
        return batch

    def commit(self, batch: JournalEntry, show: Callable[[Progress], None] = lambda _: None) -> None:
        commit(self.journal, self.tables, batch, show)

    def put(self, rows: list[dict[str, Any]], columns: Columns, table: TableName = ORDER) -> TableName:
        """Land rows; tells in which table."""
        batch = self.prepared(rows, columns, table)
        self.commit(batch)
        return batch.files[0].table

    def rows(self, table: TableName = ORDER) -> list[dict[str, Any]]:
        """The rows a reader of the format sees, without ``_landed_at``, by their first column."""
        if self.table_format == "iceberg":
            from pyiceberg.io.pyarrow import PyArrowFileIO

            from signalbook.pipeline.tables.iceberg import IcebergTables

            tables = IcebergTables(self.place)
            there = tables.catalog.load_table(tables.build_identifier(table))
            if isinstance(self.stored, StorePlace):  # with pyiceberg's own way to a store
                there.io = PyArrowFileIO(s3_properties(self.stored.storage))
            table_ = there.scan().to_arrow()
            tables.catalog.close()
        elif self.table_format == "delta":
            from deltalake import DeltaTable

            from signalbook.pipeline.tables.delta import build_delta_options

            folder = self.place / find_table_folder(table, "delta")
            table_ = DeltaTable(str(folder), storage_options=build_delta_options(folder)).to_pyarrow_table()
            table_ = table_.drop_columns(list({"landed_on"} & set(table_.column_names)))
        else:
            folder = self.place / find_table_folder(table, "parquet")
            files = sorted(file.path for file in folder.list_files(deep=True) if file.path.endswith(".parquet"))
            parts = [pq.ParquetFile((folder / file).open_for_arrow()).read() for file in files]
            table_ = pa.concat_tables(parts, promote_options="default")
        rows = [{name: value for name, value in row.items() if name != "_landed_at"} for row in table_.to_pylist()]
        return sorted(rows, key=lambda row: str(next(iter(row.values()))))

    def check_whole(self) -> None:
        """Check that nothing is half done or left over, and that readers find exactly the files in the journal."""
        assert self.journal.list_unfinished() == []
        staged = [entry.path for entry in (self.place / ".staging").list_files(deep=True)]
        # Which says in a store that an attempt was swept, and stays for a day.
        assert all(path.endswith("/claim") for path in staged), staged
        for table, files in self.journal.find_files().items():
            folder = self.place / find_table_folder(table, self.table_format)
            live = {str(folder / file.name) for file in files}
            assert live == self.tables.find_live_paths(table)
            if self.table_format == "parquet":
                there = {path for entry in folder.list_files(deep=True) if (path := entry.path).endswith(".parquet")}
                assert live == {str(folder / path) for path in there}

    def at(self, landed_at: datetime) -> Lake:
        """The same folder on another day."""
        self.landed_at = landed_at
        return self
