"""What is prepared is committed, or forgotten where that has become impossible and nothing hangs on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.shelf import NOON, Shelf

from signalbook.messages import Policy
from signalbook.pipeline.commit import Withdrawn, complete_unfinished, land
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.journal import JournalEntry
from signalbook.pipeline.landing.tasks import Attempt, Intake
from signalbook.pipeline.tables.iceberg import IcebergTables
from signalbook.pipeline.tables.naming import DEAD_LETTERS

COLUMNS = {"a": pa.int32()}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A row, and a dead letter."""
    shelf = Shelf(tmp_path / "lake", "iceberg")
    shelf.put([{"a": 1}], COLUMNS)
    shelf.put([{"a": 2}], COLUMNS, DEAD_LETTERS)
    return shelf


def replayed(shelf: Shelf) -> JournalEntry:
    """A prepared batch that lands the letter."""
    letters = tuple(shelf.journal.files()[DEAD_LETTERS])
    batch = replace(shelf.prepared([{"a": 2}], COLUMNS), removed=letters)
    shelf.journal.prepare(batch)
    return batch


def test_what_loses_files_comes_first(shelf: Shelf) -> None:
    shelf.commit(replayed(shelf))
    assert (shelf.rows(), shelf.rows(DEAD_LETTERS)) == ([{"a": 1}, {"a": 2}], [])


@pytest.mark.parametrize("died", [False, True])
def test_letters_that_someone_took_away_stop_nothing(shelf: Shelf, died: bool) -> None:
    """Before, the batch stayed prepared for ever, and nothing else could land."""
    batch = replayed(shelf)
    IcebergTables(shelf.output).catalog.drop_table(("signalbook", "dead_letters"))
    if died:
        complete_unfinished(shelf.journal, lambda _: None)
    else:
        with pytest.raises(Withdrawn, match=r"signalbook\.dead_letters was changed by someone else.*: run it again"):
            shelf.commit(batch)
    assert shelf.journal.unfinished() == []
    shelf.put([{"a": 3}], COLUMNS)
    assert shelf.rows() == [{"a": 1}, {"a": 3}]


def test_tables_of_another_format_that_came_meanwhile(shelf: Shelf) -> None:
    """A stream may have begun when there was nothing yet."""
    attempt = Attempt(
        journal=shelf.journal,
        batch_id="b",
        intake=Intake(source="kafka", origin="o"),
        snapshot=Snapshot(messages={}, schemas={}, selected=()),
        table_format="parquet",
        partition="day",
        policy=Policy(),
        landed_at=NOON,
    )
    with pytest.raises(PipelineError, match="are iceberg: choose that format"):
        land(attempt, cast("SparkSession", None), lambda _: None)
