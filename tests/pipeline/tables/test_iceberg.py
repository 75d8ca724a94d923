"""Tables and catalogs that someone else changed: named, with what to do; the batch is kept, the next run goes on."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from tests.pipeline.lake import ORDER, Lake

from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.table_names import CATALOG_DATABASE, find_table_folder
from signalbook.pipeline.tables.iceberg import IcebergTables

INT, TEXT = pa.int32(), pa.string()
COLUMNS = {"a": INT, "b": TEXT}
ROW = {"a": 1, "b": "x"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake", "iceberg")
    lake.put([ROW], COLUMNS)
    return lake


def table(lake: Lake) -> Table:
    return IcebergTables(lake.output).catalog.load_table(("shop", "order"))


def rename(table_: Table) -> None:
    with table_.update_schema() as update:
        update.rename_column("b", "c")


def drop(table_: Table) -> None:
    with table_.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("b")


@pytest.mark.parametrize("change", [rename, drop])
def test_renamed_or_dropped_column_is_an_error(lake: Lake, change: Callable[[Table], None]) -> None:
    change(table(lake))
    with pytest.raises(
        PipelineError, match=r"table shop\.order was changed by someone else: it had the columns b that"
    ):
        lake.put([ROW], COLUMNS)
    with table(lake).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("b", table(lake).schema().find_type("a"))
        if change is rename:
            update.delete_column("c")
    assert lake.put([{"a": 2, "b": 3}], {"a": INT, "b": INT}) == ORDER


@pytest.mark.parametrize("change", [rename, drop])
def test_column_dropped_during_a_commit_is_an_error(lake: Lake, change: Callable[[Table], None]) -> None:
    """The prepared batch lands once the table is moved away."""
    batch = lake.prepared([ROW], COLUMNS)
    change(table(lake))
    with pytest.raises(PipelineError, match=r"table shop\.order was changed by someone else and does not take"):
        lake.commit(batch)
    assert lake.journal.list_unfinished() == [batch]
    IcebergTables(lake.output).catalog.rename_table(("shop", "order"), ("shop", "order_then"))
    complete_unfinished(lake.journal, lambda _: None)
    assert lake.rows() == [ROW]


def test_a_table_dropped_while_a_batch_is_committed(lake: Lake) -> None:
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    IcebergTables(lake.output).catalog.drop_table(("shop", "order"))
    lake.commit(batch)
    assert lake.rows() == [{"a": 2, "b": "y"}]


def test_a_required_column_of_someone_else(lake: Lake) -> None:
    with table(lake).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("mine", table(lake).schema().find_type("a"), required=True, default_value=1)
    with pytest.raises(PipelineError, match=r"table shop\.order was changed by someone else and does not take"):
        lake.put([ROW], COLUMNS)


def expire(lake: Lake) -> None:
    """Leave a table its last snapshot alone, one of someone else."""
    copied = shutil.copy(str(lake.files()[0]), lake.output / "copy.parquet")
    table(lake).add_files([str(copied)])
    table_ = table(lake)
    last = table_.metadata.current_snapshot_id
    table_.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in table_.snapshots() if s.snapshot_id != last]
    ).commit()


def test_a_snapshot_that_is_expired_before_its_batch_is_completed(lake: Lake) -> None:
    """The driver died between the table's commit and the journal's: its files tell that it was made."""
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    lake.tables.commit(batch, ORDER)
    expire(lake)
    complete_unfinished(lake.journal, lambda _: None)
    assert [row["a"] for row in lake.rows()] == [1, 1, 2]
    assert lake.journal.find(batch.id) is not None


def test_snapshots_that_are_expired_before_a_batch_is_committed(lake: Lake) -> None:
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    expire(lake)
    lake.commit(batch)
    assert [row["a"] for row in lake.rows()] == [1, 1, 2]


def test_unknown_commit_state_is_an_error(lake: Lake) -> None:
    """Moved, and neither they nor a snapshot is there: nothing is landed twice, and the error says what to do."""
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    expire(lake)
    place = lake.output / find_table_folder(ORDER, "iceberg") / batch.files[0].name
    place.parent.mkdir(parents=True, exist_ok=True)
    staged = lake.output / batch.files[0].staged
    staged.rename(place)
    with pytest.raises(PipelineError, match=r"someone else expired snapshots of table shop\.order while batch b002"):
        lake.commit(batch)
    assert lake.journal.list_unfinished() == [batch]
    place.rename(staged)
    lake.commit(batch)
    assert [row["a"] for row in lake.rows()] == [1, 1, 2]


def test_missing_metadata_file_is_an_error(lake: Lake) -> None:
    for path in (lake.output / "tables/shop/order/metadata").glob("*.metadata.json"):
        path.unlink()
    with pytest.raises(PipelineError, match=r"table shop\.order has lost a file that its catalog names"):
        lake.put([ROW], COLUMNS)


def test_locked_catalog_is_an_error(lake: Lake) -> None:
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    with sqlite3.connect(lake.output / CATALOG_DATABASE) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(PipelineError, match=r"database is locked. Another program may hold it"):
            lake.commit(batch)
        other.rollback()
    other.close()
    complete_unfinished(lake.journal, lambda _: None)
    assert len(lake.rows()) == 2


def test_missing_catalog_is_an_error(lake: Lake) -> None:
    batch = lake.prepared([{"a": 2, "b": "y"}], COLUMNS)
    away = (lake.output / CATALOG_DATABASE).rename(lake.output / "away")
    with pytest.raises(PipelineError, match=r"catalog\.db is gone"):
        lake.commit(batch)
    away.rename(lake.output / CATALOG_DATABASE)
    complete_unfinished(lake.journal, lambda _: None)
    assert len(lake.rows()) == 2


def test_invalid_catalog_database_is_an_error(lake: Lake) -> None:
    (lake.output / CATALOG_DATABASE).write_bytes(b"no database " * 100)
    with pytest.raises(PipelineError, match="file is not a database"):
        lake.put([ROW], COLUMNS)
