"""What is prepared is committed, or forgotten where that has become impossible and nothing hangs on it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.lake import NOON, Lake

from signalbook.messages import Policy
from signalbook.pipeline import commit as commit_module
from signalbook.pipeline.commit import Withdrawn, check_tables, complete_unfinished, land
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Job, Progress
from signalbook.pipeline.job.runner import LocalRunner
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.tasks import BatchAttempt, Intake
from signalbook.pipeline.journal import PREPARED, Journal, JournalEntry
from signalbook.pipeline.table_names import DEAD_LETTERS
from signalbook.pipeline.tables.catalogs import CatalogChoice, read_catalog_choice
from signalbook.pipeline.tables.iceberg import IcebergTables

COLUMNS = {"a": pa.int32()}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A row, and a dead letter."""
    lake = Lake(tmp_path / "lake", "iceberg")
    lake.put([{"a": 1}], COLUMNS)
    lake.put([{"a": 2}], COLUMNS, DEAD_LETTERS)
    return lake


def replayed(lake: Lake) -> JournalEntry:
    """A prepared batch that lands the letter."""
    return lake.prepared([{"a": 2}], COLUMNS, removed=lake.journal.find_files()[DEAD_LETTERS])


def test_replaced_files_are_committed_first(lake: Lake) -> None:
    lake.commit(replayed(lake))
    assert (lake.rows(), lake.rows(DEAD_LETTERS)) == ([{"a": 1}, {"a": 2}], [])


def test_progress_and_seconds_include_each_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Progress] = []
    moments = iter([100.0, 102.5])
    monkeypatch.setattr(commit_module, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    lake.commit(replace(replayed(lake), seconds=0.5), shown.append)
    assert [(progress.stage, progress.done, progress.total) for progress in shown] == [
        ("committing", 0, 2),
        ("committing", 1, 2),
        ("committing", 2, 2),
        ("committed", 2, 2),
    ]
    (entry,) = [entry for entry in lake.journal.iterate_committed() if entry.removed]
    assert entry.seconds == 3.0


def test_staged_files_of_repeated_tasks_are_removed(lake: Lake) -> None:
    batch = lake.prepared([{"a": 3}], COLUMNS)
    staged = lake.output / ".staging" / "attempt" / "f.parquet"
    staged.parent.mkdir()
    staged.touch()
    lake.commit(batch)
    assert list((lake.output / ".staging").rglob("*.parquet")) == []


@pytest.mark.parametrize("died", [False, True])
def test_removed_letters_withdraw_the_replay(lake: Lake, died: bool) -> None:
    """Before, the batch stayed prepared for ever, and nothing else could land."""
    batch = replayed(lake)
    IcebergTables(lake.output).catalog.drop_table(("signalbook", "dead_letters"))
    if died:
        complete_unfinished(lake.journal, lambda _: None)
    else:
        with pytest.raises(Withdrawn, match=r"signalbook\.dead_letters was changed by someone else.*: run it again"):
            lake.commit(batch)
    assert lake.journal.list_unfinished() == []
    lake.put([{"a": 3}], COLUMNS)
    assert lake.rows() == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize("kind", ["parquet", "parquet-s3proxy"])
def test_concurrently_landed_batch_is_landed_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run is delayed while it enters the batch, and killed afterwards: the rows of the other run exist,
    once.
    """
    lake = Lake.of(kind, tmp_path / "lake", request)
    other = Lake(lake.output, lake.table_format, stored=lake.stored)
    create = type(lake.place).create

    def held_up(place: Any, content: bytes) -> bool:
        if "prepared" not in str(place.parent):
            return create(place, content)
        monkeypatch.undo()
        other.put([{"a": 1}], COLUMNS)
        assert create(place, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(lake.place), "create", held_up)
    with pytest.raises(KeyboardInterrupt):
        lake.prepared([{"a": 1}], COLUMNS)
    assert len(lake.journal.list_unfinished()) == 1
    assert complete_unfinished(other.journal, lambda _: None) == {}
    other.put([{"a": 2}], COLUMNS)
    assert [row["a"] for row in lake.rows()] == [1, 2]
    assert not [entry for entry in lake.place.list_files(deep=True) if entry.path.startswith((".staging", PREPARED))]


def test_concurrently_created_tables_of_another_format_are_an_error(lake: Lake) -> None:
    """A stream may have begun when there was nothing yet."""
    attempt = BatchAttempt(
        journal=lake.journal,
        batch_id="b",
        intake=Intake(source="kafka", origin="o"),
        snapshot=Snapshot(messages={}, schemas={}, selected=()),
        table_format="parquet",
        partition="day",
        policy=Policy(),
        landed_at=NOON,
    )
    with pytest.raises(PipelineError, match="are iceberg: choose that format"):
        land(attempt, LocalRunner(), lambda _: None)


def test_the_catalog_of_a_job_is_recorded(tmp_path: Path) -> None:
    """Unless the tables have another format, which is the first thing to report."""
    job = Job(output=tmp_path / "lake", registry="r", inputs=("i",), catalog=CatalogChoice(name="prod"))
    other = Lake(tmp_path / "other", "parquet")
    other.put([{"a": 1}], COLUMNS)
    with pytest.raises(PipelineError, match="are parquet: choose that format"):
        check_tables(other.journal, job)
    assert read_catalog_choice(other.output) is None
    check_tables(Journal.open(tmp_path / "lake"), job)
    choice = read_catalog_choice(tmp_path / "lake")
    assert choice is not None
    assert choice.name == "prod"
