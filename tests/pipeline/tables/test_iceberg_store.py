"""The catalog that a store is by itself."""

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.pipeline.lake import Lake

from signalbook.pipeline.commit import commit
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.places import StorePlace, place_of
from signalbook.pipeline.places.base import TOGETHER
from signalbook.pipeline.table_names import TableName
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.pipeline.tables.iceberg_store import StoreCatalog


def test_tables_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream does this in each batch: one after the other, it would take seconds."""
    names = [f"t{number:02}" for number in range(TOGETHER)]
    all_at_once = threading.Barrier(TOGETHER, timeout=300)

    def folders(place: StorePlace) -> list[str]:
        if place.name == "shop":
            return names
        all_at_once.wait()
        return ["data"] if place.name == "t03" else ["data", "metadata"]

    monkeypatch.setattr(StorePlace, "list_folders", folders)
    tables = StoreCatalog("lake", place_of("s3://lake/tables")).list_tables("shop")
    assert tables == [("shop", name) for name in names if name != "t03"]


def test_tables_of_a_group_are_listed_with_one_request(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and also if one of them has no metadata yet."""
    lake = Lake.of("iceberg-s3proxy", tmp_path, request)
    with lake.journal.lock_output():
        for number in range(3):
            lake.put([{"a": 1}], {"a": pa.int32()}, TableName("shop", f"t{number}"))
        (lake.place / "tables/shop/t9/f.parquet").write(b"")
        requested, folders = list[str](), StorePlace.list_folders

        def counted(place: StorePlace) -> list[str]:
            requested.append(str(place))
            return folders(place)

        monkeypatch.setattr(StorePlace, "list_folders", counted)
        lake.prepared([{"a": 2}], {"a": pa.int32()}, TableName("shop", "t0"))
        assert requested == [str(lake.place / "tables/shop")]
        assert lake.tables.find_versions(TableName("shop", "t9")) == []


def test_tables_are_committed_together(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A commit in a store mostly waits for requests."""
    meeting = threading.Barrier(2)

    class Meeting(IcebergTables):
        def commit(self, batch: JournalEntry, table: TableName) -> None:
            meeting.wait(60)
            super().commit(batch, table)

    lake = Lake.of("iceberg-s3proxy", tmp_path, request)
    first, other = TableName("shop", "one"), TableName("shop", "other")
    with lake.journal.lock_output():
        batches = [
            lake.prepared([{"a": number}], {"a": pa.int32()}, table) for number, table in enumerate((first, other))
        ]
        both = replace(batches[0], files=tuple(file for batch in batches for file in batch.files))
        commit(lake.journal, Meeting(lake.place), both, lambda _: None)
    assert (lake.rows(first), lake.rows(other)) == ([{"a": 0}], [{"a": 1}])
