"""Small files are merged, and no row is lost or doubled, even if a compaction is killed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.commands.test_run import KILLED_LAKES, killed_at
from tests.pipeline.lake import KINDS, NOON, ORDER, XID, Lake

from signalbook.pipeline.commands import compact as compact_command
from signalbook.pipeline.commands.compact import TARGET, Compaction, compact
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Progress
from signalbook.pipeline.places import Place
from signalbook.pipeline.table_names import TableName

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Six rows in three files of one day and one of another, with different columns."""
    lake = Lake.of(request.param, tmp_path / "lake", request)
    for number in range(3):
        lake.put([{"a": 2 * number}, {"a": 2 * number + 1}], {"a": INT})
    lake.put([{"a": 7, "b": "x"}], {"a": INT, "b": TEXT})
    lake.at(NOON + timedelta(days=1)).put([{"a": 8}], {"a": INT})
    return lake


def quiet(_: Progress) -> None:
    pass


def names(lake: Lake) -> list[str]:
    return [file.name for file in lake.journal.find_files()[ORDER]]


def test_neighbours_of_a_day_become_one_file(lake: Lake) -> None:
    before = lake.rows()
    (result,) = compact(lake.output, (), TARGET, quiet)
    assert (result.table, result.files_before, result.files_after, result.rows) == (ORDER, 4, 1, 7)
    assert lake.rows() == before
    assert [name.partition("/")[0] for name in sorted(names(lake))] == ["landed_on=2026-11-21", "landed_on=2026-11-22"]
    assert compact(lake.output, [XID], TARGET, quiet) == []
    assert len(list(lake.journal.iterate_committed())) == 5


def test_landing_continues_after_a_compaction(lake: Lake) -> None:
    compact(lake.output, (), TARGET, quiet)
    lake.put([{"a": 9, "c": 1}], {"a": INT, "c": INT})
    compact(lake.output, (), TARGET, quiet)
    assert [row["a"] for row in lake.rows()] == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    assert {len(paths) for paths in lake.journal.find_files().values()} == {2}


def test_no_file_grows_beyond_the_target(lake: Lake) -> None:
    size = max(file.bytes for file in lake.journal.find_files()[ORDER])
    compact(lake.output, (), 2 * size, quiet)
    assert len(names(lake)) == 3
    assert len(lake.rows()) == 8


def test_row_groups_are_written_as_they_fill(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_command, "ROW_GROUP_BYTES", 1)
    compact(lake.output, (), TARGET, quiet)
    compacted_file = next(path for path in lake.files() if "compact-" in path.name)
    assert pq.ParquetFile(compacted_file.open_for_arrow()).num_row_groups == 4


def compact_until_killed(output: Place, show: Callable[[Progress], None]) -> None:
    compact(output, (), TARGET, show)


@pytest.mark.parametrize("lake", KILLED_LAKES, indirect=True)
def test_a_killed_compaction_is_completed(lake: Lake) -> None:
    before = lake.rows()
    killed_at("committing", 1, compact_until_killed, lake.place, forked=False)
    assert len(lake.journal.list_unfinished()) == 1
    with lake.journal.lock_output():
        complete_unfinished(lake.journal, quiet)
    assert lake.rows() == before
    assert len(names(lake)) == 2
    lake.check_whole()
    assert compact(lake.place, (), TARGET, quiet) == []
    assert lake.rows() == before


@pytest.mark.parametrize("lost", [1, 2])
def test_interrupted_compaction_that_cannot_be_completed_is_discarded(tmp_path: Path, lost: int) -> None:
    """Someone else removed files from the table between preparation and commit: nothing hangs on ours."""
    from signalbook.pipeline.tables.iceberg import IcebergTables

    lake = Lake(tmp_path / "lake", "iceberg")
    for number in range(2):
        lake.put([{"a": number}], {"a": INT})

    def interfere(progress: Progress) -> None:
        if progress.stage == "prepared":
            table = IcebergTables(lake.output).catalog.load_table(("shop", "order"))
            with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
                for task in list(table.scan().plan_files())[:lost]:
                    overwrite.delete_data_file(task.file)

    with pytest.raises(PipelineError, match=rf"shop\.order was changed by someone else: {lost} of the files"):
        compact(lake.output, (), TARGET, interfere)
    assert lake.journal.list_unfinished() == []
    assert lake.put([{"a": 2}], {"a": INT}) == ORDER
    assert len(lake.rows()) == 3 - lost


def test_a_table_that_was_dropped_holds_up_no_other(tmp_path: Path) -> None:
    """The files of the dropped table still exist."""
    from signalbook.pipeline.tables.iceberg import IcebergTables

    lake, other = Lake(tmp_path / "lake", "iceberg"), TableName("shop", "zebra")
    for number in range(2):
        lake.put([{"a": number}], {"a": INT})
        lake.put([{"a": number}], {"a": INT}, other)
    IcebergTables(lake.output).catalog.drop_table(("shop", "order"))
    assert [result.table for result in compact(lake.output, (), TARGET, quiet)] == [other]


def test_promoted_columns_are_written_wide(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "iceberg")
    for kind, value in ((INT, 1), (LONG, 2**40)):
        nested = pa.struct([("m", kind)]) if kind == INT else pa.struct([("m", kind), ("n", TEXT)])
        lake.put([{"a": value, "s": {"m": value}}], {"a": kind, "s": nested})
    compact(lake.output, (), TARGET, quiet)
    assert lake.rows() == [{"a": 1, "s": {"m": 1, "n": None}}, {"a": 2**40, "s": {"m": 2**40, "n": None}}]


def test_altered_files_are_not_compacted(lake: Lake) -> None:
    path = lake.files()[0]
    pq.write_table(pq.ParquetFile(path.open_for_arrow()).read().slice(0, 1), path.open_for_arrow())
    with pytest.raises(PipelineError, match="hold 6 rows where the journal counts 7"):
        compact(lake.output, (), TARGET, quiet)
    path.write(b"no parquet")
    with pytest.raises(PipelineError, match="cannot be read"):
        compact(lake.output, (), TARGET, quiet)
    assert len(names(lake)) == 5
    assert not list(lake.output.glob(".staging/*"))


def test_the_batch_of_a_stream_is_waited_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_command, "PATIENCE", 600.0)
    with ThreadPoolExecutor(1) as pool:
        with lake.journal.lock_output():
            future = pool.submit(compact, lake.output, (), TARGET, quiet)
        assert len(future.result()) == 1


def test_a_definition_without_a_table(lake: Lake) -> None:
    with pytest.raises(PipelineError, match=f"has no table of /messagegroups/a/messages/b; there are: {XID}"):
        compact(lake.output, ["/messagegroups/a/messages/b"], TARGET, quiet)


def test_result_as_json() -> None:
    compaction = Compaction(table=ORDER, files_before=9, files_after=1, bytes_before=90, bytes_after=60, rows=5)
    assert compaction.to_json() == {
        "table": "shop.order",
        "definition": XID,
        "rows": 5,
        "files": {"before": 9, "after": 1},
        "bytes": {"before": 90, "after": 60},
    }
