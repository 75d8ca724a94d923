"""Folders of Parquet files, as other programs read them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.lake import ORDER, Lake

from signalbook.pipeline.commit import assign_tables, commit
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName
from signalbook.pipeline.tables import parquet as parquet_module
from signalbook.pipeline.tables.parquet import COLUMNS

INT, TEXT = pa.int32(), pa.string()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake", "parquet")
    lake.put([{"a": 1}], {"a": INT})
    return lake


def test_arrow_sees_the_days(lake: Lake) -> None:
    (row,) = pq.read_table(lake.output / "tables/shop/order").to_pylist()
    assert (row["a"], row["landed_on"]) == (1, "2026-11-21")


def test_a_folder_without_common_metadata_is_read_from_its_files(lake: Lake) -> None:
    """Earlier releases wrote such folders."""
    (lake.output / "tables/shop/order" / COLUMNS).unlink()
    assert lake.tables.read_columns(ORDER).names == ["a", "_landed_at"]
    assert lake.put([{"a": "x"}], {"a": TEXT}) == ORDER.with_version(2)
    assert lake.put([{"b": "x"}], {"b": TEXT}) == ORDER.with_version(2)
    assert lake.put([{"a": 2}], {"a": INT}) == ORDER
    assert (lake.output / "tables/shop/order" / COLUMNS).exists()


@pytest.mark.parametrize("name", [COLUMNS, "landed_on=2026-11-21/b001.parquet"])
def test_invalid_parquet_file_is_an_error(lake: Lake, name: str) -> None:
    folder = lake.output / "tables/shop/order"
    (folder / name).write_bytes(b"no parquet")
    if name != COLUMNS:
        (folder / COLUMNS).unlink()
    with pytest.raises(PipelineError, match=r"table shop\.order has a file that is no Parquet"):
        lake.put([{"a": 2}], {"a": INT})


def test_columns_of_new_files_are_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading hundreds of columns again would take most of a commit's time."""
    tables = lake.tables
    batch = assign_tables(tables, lake.place, lake.prepared([{"a": 2}], {"a": INT}))
    monkeypatch.setattr(parquet_module, "_read_schema", None)
    commit(lake.journal, tables, batch, lambda _: None)
    assert lake.rows() == [{"a": 1}, {"a": 2}]


def test_a_folder_that_was_removed_while_a_batch_was_committed(lake: Lake) -> None:
    import shutil

    batch = lake.prepared([{"a": 2}], {"a": INT})
    shutil.rmtree(lake.output / "tables/shop/order")
    lake.commit(batch)
    assert lake.rows() == [{"a": 2}]


@pytest.mark.parametrize(("table", "looks"), [(DEAD_LETTERS, 0), (ORDER, 1)])
def test_looks_for_folders_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: TableName, looks: int
) -> None:
    """A look in a store needs one request for each thousand files."""
    lake = Lake(tmp_path / "lake", "parquet", partition="none")
    lake.put([{"a": 1}], {"a": INT}, table)
    batch = lake.prepared([{"a": 2}], {"a": INT}, table)
    requested: list[str] = []

    def nothing(place: LocalPlace, **_: bool) -> list[str]:
        requested.append(str(place))
        return []

    for name in ("list_files", "list_folders"):
        monkeypatch.setattr(LocalPlace, name, nothing)
    assert (lake.tables.choose_folder(table, batch), len(requested)) == ("", looks)
