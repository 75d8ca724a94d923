"""Metadata that are parsed once: what is remembered is what the files say, whoever wrote them."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromByteStream
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from tests.pipeline.lake import ORDER, Lake

from signalbook.pipeline.columns import DAY
from signalbook.pipeline.places import place_of
from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.pipeline.tables.iceberg_metadata import (
    ParquetFooter,
    RememberingCatalog,
    SharedSchema,
    build_data_file,
    parse_metadata,
    share_schemas,
)
from signalbook.pipeline.tables.iceberg_sql import RememberingSqlCatalog

TEXT = pa.string()
COLUMNS = {"a": pa.int32(), "b": pa.struct([("c", pa.string())])}
ROW = {"a": 1, "b": {"c": "x"}}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake", "iceberg")
    lake.put([ROW], COLUMNS)
    return lake


def table(lake: Lake) -> Table:
    return IcebergTables(lake.output).catalog.load_table(("shop", "order"))


def test_known_table_is_not_parsed_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are its columns copied: together they were most of a commit's time."""
    lake.put([ROW], COLUMNS)
    parsings: list[object] = []
    monkeypatch.setattr(FromByteStream, "table_metadata", lambda *_, **__: parsings.append(None))
    monkeypatch.setattr(Schema, "__deepcopy__", lambda *_: parsings.append(None))
    assert lake.put([ROW], COLUMNS) == ORDER
    assert parsings == []
    assert len(lake.rows()) == 3


def test_replaced_states_do_not_evict_tables(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.pipeline.tables.iceberg_metadata._KEPT", 4)
    names = [TableName("shop", name) for name in "abcd"]
    for name in names:
        lake.put([ROW], COLUMNS, name)
    monkeypatch.setattr(FromByteStream, "table_metadata", None)
    for name in names * 3:
        lake.put([ROW], COLUMNS, name)
    monkeypatch.undo()
    assert [len(lake.rows(name)) for name in names] == [4] * 4


def test_a_new_table_is_made_without_asking_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit does not check if the table or its namespace exists, nor if the table accepts its own columns."""
    lake = Lake(tmp_path / "lake", "iceberg")
    requested: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        ask = getattr(RememberingSqlCatalog, name)

        def counting(*arguments: Any) -> Any:
            requested.append(name)
            return ask(*arguments)

        return counting

    for name in ("load_table", "list_tables"):
        monkeypatch.setattr(RememberingSqlCatalog, name, counted(name))
    monkeypatch.setattr("signalbook.pipeline.tables.iceberg_metadata.check_columns", None)
    assert lake.put([ROW], COLUMNS) == ORDER
    # the commit, which here knows nothing of the decision, asks whether the table is there
    assert (requested.count("load_table"), requested.count("list_tables")) == (1, 1)
    monkeypatch.undo()
    assert len(lake.rows()) == 1


def test_new_table_equals_the_table_of_pyiceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its metadata are not validated, nor made from its columns once more where another table has the same."""
    columns = {**COLUMNS, "d": pa.list_(pa.struct([("e", pa.timestamp("us", "UTC")), ("f", pa.map_(TEXT, TEXT))]))}
    lake, metadata = Lake(tmp_path / "lake", "iceberg"), []
    for name in ("order", "parcel"):
        lake.put([ROW], columns, TableName("shop", name))
        metadata.append(IcebergTables(lake.output).catalog.load_table(("shop", name)).metadata)
        with monkeypatch.context() as context:
            context.delattr(RememberingCatalog, "create_table_transaction")
            context.delattr(RememberingCatalog, "stage_update")
            other = Lake(tmp_path / f"other-{name}", "iceberg", count=lake.count - 1)
            other.put([ROW], columns, TableName("shop", name))
        theirs = IcebergTables(other.output).catalog.load_table(("shop", name)).metadata
        assert _lasting(metadata[-1]) == _lasting(theirs)
        assert [field.name for field in theirs.spec().fields] == [DAY]
    assert metadata[0].schema() is metadata[1].schema()
    assert metadata[0].table_uuid != metadata[1].table_uuid
    assert isinstance(metadata[0].schema(), SharedSchema)


def _lasting(metadata: TableMetadata) -> dict[str, Any]:
    """Return the metadata that do not depend on when and where a table was made."""
    text = metadata.model_dump_json(exclude_none=True)
    for snapshot in metadata.snapshots:
        text = text.replace(str(snapshot.snapshot_id), "1")
    document: dict[str, Any] = json.loads(text)
    for name in ("location", "table-uuid", "last-updated-ms", "snapshot-log"):
        del document[name]
    for snapshot in document["snapshots"]:
        del snapshot["manifest-list"], snapshot["timestamp-ms"], snapshot["summary"]["total-files-size"]
        del snapshot["summary"]["added-files-size"]
    return document


def test_cached_metadata_equals_the_file(lake: Lake) -> None:
    lake.put([ROW], {**COLUMNS, "d": pa.string()})
    table_ = table(lake)
    path = Path(table_.metadata_location.removeprefix("file://"))
    assert table_.metadata == TableMetadataUtil.parse_raw(path.read_text())
    assert table_.metadata == StaticTable.from_metadata(str(path)).metadata
    assert table_.metadata.model_dump_json() == TableMetadataUtil.parse_raw(path.read_text()).model_dump_json()


def test_another_writer_between_batches(lake: Lake) -> None:
    """The snapshots and columns of the other writer are seen and preserved."""
    batch = lake.prepared([{"a": 2, "b": {"c": "y"}}], COLUMNS)
    copied = shutil.copy(str(lake.files()[0]), lake.output / "copy.parquet")
    theirs = StaticTable.from_metadata(table(lake).metadata_location)  # as a program that shares nothing with us
    theirs.catalog = table(lake).catalog
    theirs._identifier = ("shop", "order")
    theirs.add_files([str(copied)])
    lake.commit(batch)
    with table(lake).update_schema() as update:
        update.add_column("e", table(lake).schema().find_type("a"))
    lake.put([{"a": 3, "b": None}], COLUMNS)
    assert sorted(row["a"] for row in lake.rows()) == [1, 1, 2, 3]
    assert "e" in table(lake).schema().column_names
    assert len(table(lake).metadata.snapshots) == 4


def test_copies_share_columns_and_nothing_else(lake: Lake) -> None:
    metadata = share_schemas(table(lake).metadata)
    assert share_schemas(metadata) is metadata
    copied = copy.deepcopy(metadata)
    assert copied == metadata
    assert copied.schemas[0] is metadata.schemas[0]
    assert copied.snapshots[0] is not metadata.snapshots[0]


def test_files_are_described_as_pyiceberg_does(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their columns are compared with those of the table once, where equal files follow."""
    table_ = table(lake)
    path = str(lake.files()[0])
    described = parquet_file_to_data_file(table_.io, table_.metadata, path)
    footer = ParquetFooter(place_of(path))
    assert repr(build_data_file(table_.metadata, footer)) == repr(described)
    monkeypatch.setattr("signalbook.pipeline.tables.iceberg_metadata.check_columns", None)
    assert repr(build_data_file(table_.metadata, footer)) == repr(described)


def test_columns_that_a_table_does_not_take(lake: Lake, tmp_path: Path) -> None:
    table_ = table(lake)
    path = str(tmp_path / "other.parquet")
    pq.write_table(pa.table({"unknown": [1]}), path)
    for made_of in (None, table_.schema().as_arrow()):
        with pytest.raises(ValueError, match="more columns: unknown"):
            build_data_file(table_.metadata, ParquetFooter(place_of(path)), made_of)


def test_compressed_metadata(lake: Lake) -> None:
    with table(lake).transaction() as transaction:
        transaction.set_properties({"write.metadata.compression-codec": "gzip"})
    for number in (2, 3):
        lake.put([{"a": number, "b": None}], COLUMNS)
    table_ = table(lake)
    path = Path(table_.metadata_location.removeprefix("file://"))
    assert parse_metadata(path.read_bytes(), str(path)) == table_.metadata
    assert [row["a"] for row in lake.rows()] == [1, 2, 3]
