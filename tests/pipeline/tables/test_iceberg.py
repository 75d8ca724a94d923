"""Tables and catalogs that someone else changed: named, with what to do; the batch is kept, the next run goes on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from tests.pipeline.shelf import ORDER, Shelf

from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.pipeline.tables.iceberg_catalogs import CATALOG
from signalbook.pipeline.tables.naming import home

INT, TEXT = pa.int32(), pa.string()
COLUMNS = {"a": INT, "b": TEXT}
ROW = {"a": 1, "b": "x"}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "lake", "iceberg")
    shelf.put([ROW], COLUMNS)
    return shelf


def table(shelf: Shelf) -> Table:
    return IcebergTables(shelf.output).catalog.load_table(("shop", "order"))


def rename(found: Table) -> None:
    with found.update_schema() as update:
        update.rename_column("b", "c")


def drop(found: Table) -> None:
    with found.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("b")


@pytest.mark.parametrize("change", [rename, drop])
def test_a_column_that_is_gone(shelf: Shelf, change: Callable[[Table], None]) -> None:
    change(table(shelf))
    with pytest.raises(
        PipelineError, match=r"table shop\.order was changed by someone else: it had the columns b that"
    ):
        shelf.put([ROW], COLUMNS)
    with table(shelf).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("b", table(shelf).schema().find_type("a"))
        if change is rename:
            update.delete_column("c")
    assert shelf.put([{"a": 2, "b": 3}], {"a": INT, "b": INT}) == ORDER


@pytest.mark.parametrize("change", [rename, drop])
def test_a_column_that_goes_while_a_batch_is_committed(shelf: Shelf, change: Callable[[Table], None]) -> None:
    """What is prepared lands once the table was moved away."""
    batch = shelf.prepared([ROW], COLUMNS)
    change(table(shelf))
    with pytest.raises(PipelineError, match=r"table shop\.order was changed by someone else and does not take"):
        shelf.commit(batch)
    assert shelf.journal.unfinished() == [batch]
    IcebergTables(shelf.output).catalog.rename_table(("shop", "order"), ("shop", "order_then"))
    complete_unfinished(shelf.journal, lambda _: None)
    assert shelf.rows() == [ROW]


def test_a_table_dropped_while_a_batch_is_committed(shelf: Shelf) -> None:
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    IcebergTables(shelf.output).catalog.drop_table(("shop", "order"))
    shelf.commit(batch)
    assert shelf.rows() == [{"a": 2, "b": "y"}]


def test_a_required_column_of_someone_else(shelf: Shelf) -> None:
    with table(shelf).update_schema(allow_incompatible_changes=True) as update:
        update.add_column("mine", table(shelf).schema().find_type("a"), required=True, default_value=1)
    with pytest.raises(PipelineError, match=r"table shop\.order was changed by someone else and does not take"):
        shelf.put([ROW], COLUMNS)


def test_another_program_may_land_too(shelf: Shelf) -> None:
    """A snapshot between the decision and the commit is no trouble."""
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    theirs = table(shelf)
    copied = shutil.copy(shelf.journal.tables()[ORDER][0], shelf.output / "copy.parquet")
    theirs.add_files([str(copied)])
    shelf.commit(batch)
    assert [row["a"] for row in shelf.rows()] == [1, 1, 2]


def expire(shelf: Shelf) -> None:
    """Leave a table its last snapshot alone, one of someone else."""
    copied = shutil.copy(shelf.journal.tables()[ORDER][0], shelf.output / "copy.parquet")
    table(shelf).add_files([str(copied)])
    found = table(shelf)
    last = found.metadata.current_snapshot_id
    found.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in found.snapshots() if s.snapshot_id != last]
    ).commit()


def test_a_snapshot_that_is_expired_before_its_batch_is_completed(shelf: Shelf) -> None:
    """The driver died between the table's commit and the journal's: its files tell that it was made."""
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    shelf.tables.commit(batch, ORDER)
    expire(shelf)
    complete_unfinished(shelf.journal, lambda _: None)
    assert [row["a"] for row in shelf.rows()] == [1, 1, 2]
    assert shelf.journal.find(batch.id) is not None


def test_snapshots_that_are_expired_before_a_batch_is_committed(shelf: Shelf) -> None:
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    expire(shelf)
    shelf.commit(batch)
    assert [row["a"] for row in shelf.rows()] == [1, 1, 2]


def test_files_of_which_nobody_knows_whether_they_were_committed(shelf: Shelf) -> None:
    """Moved, and neither they nor a snapshot is there: nothing is landed twice, and it is told what to do."""
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    expire(shelf)
    place = shelf.output / home(ORDER, "iceberg") / batch.files[0].name
    place.parent.mkdir(parents=True, exist_ok=True)
    staged = shelf.output / batch.files[0].staged
    staged.rename(place)
    with pytest.raises(PipelineError, match=r"someone else expired snapshots of table shop\.order while batch b002"):
        shelf.commit(batch)
    assert shelf.journal.unfinished() == [batch]
    place.rename(staged)
    shelf.commit(batch)
    assert [row["a"] for row in shelf.rows()] == [1, 1, 2]


def test_a_metadata_file_that_is_gone(shelf: Shelf) -> None:
    for path in (shelf.output / "tables/shop/order/metadata").glob("*.metadata.json"):
        path.unlink()
    with pytest.raises(PipelineError, match=r"table shop\.order has lost a file that its catalog names"):
        shelf.put([ROW], COLUMNS)


def test_a_catalog_that_is_locked(shelf: Shelf) -> None:
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    with sqlite3.connect(shelf.output / CATALOG) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(PipelineError, match=r"database is locked. Another program may hold it"):
            shelf.commit(batch)
        other.rollback()
    other.close()
    complete_unfinished(shelf.journal, lambda _: None)
    assert len(shelf.rows()) == 2


def test_a_catalog_that_is_gone(shelf: Shelf) -> None:
    batch = shelf.prepared([{"a": 2, "b": "y"}], COLUMNS)
    away = (shelf.output / CATALOG).rename(shelf.output / "away")
    with pytest.raises(PipelineError, match=r"catalog\.db is gone"):
        shelf.commit(batch)
    away.rename(shelf.output / CATALOG)
    complete_unfinished(shelf.journal, lambda _: None)
    assert len(shelf.rows()) == 2


def test_a_catalog_that_is_something_else(shelf: Shelf) -> None:
    (shelf.output / CATALOG).write_bytes(b"no database " * 100)
    with pytest.raises(PipelineError, match="file is not a database"):
        shelf.put([ROW], COLUMNS)
