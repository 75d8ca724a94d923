"""A driver that crashes after any operation on its output: the next one leaves each message in one table, once."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.commands.test_backfill import NUMBER, definitions
from tests.pipeline.faulty import Crashed, Disk, MemoryStores
from tests.pipeline.lake import ORDER, Lake

from signalbook.messages import Policy
from signalbook.pipeline import columns, journal, locks
from signalbook.pipeline.commands.backfill import backfill
from signalbook.pipeline.commands.compact import compact
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.places import Place, place_of, stores
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName

UNUSED = Path("unused")
COLUMNS = pa.schema([("id", pa.string()), *columns.RESCUE])
State = dict[TableName, tuple[int, list[str], list[str]]]
"""The number of files, the columns and the rows of each table."""
Work = Callable[[Lake, str], object]


def fill(output: Place, table_format: TableFormat) -> None:
    """Land two orders and a dead letter."""
    lake = Lake(UNUSED, table_format, stored=output)
    with lake.journal.lock_output():
        lake.put([{"id": "1", "_rescue": '{"total":1.5}'}], COLUMNS)
        lake.put([{"id": "2"}], COLUMNS)
        lake.put([{"id": "3"}], COLUMNS, DEAD_LETTERS)


def state(output: Place, table_format: TableFormat) -> State:
    """Return what readers see."""
    lake = Lake(UNUSED, table_format, stored=output)
    live = {table: sorted(lake.tables.find_live_paths(table)) for table in (ORDER, DEAD_LETTERS)}
    files = {
        table: [place_of(path, output.storage).open_for_arrow() for path in paths] for table, paths in live.items()
    }
    rows_by_table = {
        table: [json.dumps(row, default=str) for file in files[table] for row in rows(file)] for table in live
    }
    return {
        table: (len(files[table]), lake.tables.read_columns(table).names, sorted(rows_by_table[table]))
        for table in live
    }


def rows(source: Any) -> list[dict[str, Any]]:
    """Return the rows of a file, with the values that they have."""
    all_rows = pq.ParquetFile(source).read().to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in all_rows]


def land(lake: Lake, registry: str) -> None:
    """Land a batch with a new column, unless it was landed."""
    with lake.journal.lock_output():
        complete_unfinished(lake.journal, lambda _: None)
        lake.count = 3
        if lake.journal.find("b004") is None:
            lake.put([{"id": "4", "more": 1}], pa.schema([*COLUMNS, ("more", pa.int32())]))


def replay(lake: Lake, registry: str) -> None:
    """Land the dead letter, unless it was landed: one table loses a file that another gets."""
    with lake.journal.lock_output():
        complete_unfinished(lake.journal, lambda _: None)
        lake.count = 4
        if letters := lake.journal.find_files().get(DEAD_LETTERS):
            lake.commit(lake.prepared([{"id": "3"}], COLUMNS, removed=letters))


def check_a_day_later(lake: Lake) -> None:
    """Check that nothing is left over, once the claims of dead attempts are swept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_FORGOTTEN", 0)
        lake.journal.sweep()
    lake.check_whole()


WORKS: dict[str, Work] = {
    "replay": replay,
    "backfill": lambda lake, registry: backfill(lake.place, registry, policy=Policy(columns="typed")),
    "landing": land,
    "compaction": lambda lake, _: compact(lake.place),
}


@pytest.fixture(autouse=True)
def _of_dead_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat leases of this process as free, because the crashed driver is a part of it."""
    monkeypatch.setattr(locks, "_is_alive", lambda _: False)


@pytest.mark.parametrize(
    ("table_format", "work"),
    [
        ("parquet", "landing"),
        *(pytest.param("parquet", work, marks=pytest.mark.merge) for work in WORKS if work != "landing"),
        pytest.param("iceberg", "replay", marks=pytest.mark.merge),
        *(pytest.param("iceberg", work, marks=pytest.mark.soak) for work in WORKS if work != "replay"),
    ],
)
def test_a_crash_in_a_store(
    table_format: TableFormat, work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = definitions(tmp_path / "registry.json", total=NUMBER)
    there = MemoryStores({})
    monkeypatch.setattr(stores, "connect", there.connect)
    fill(there.sound, table_format)
    before, objects, works = state(there.sound, table_format), there.objects(), [WORKS[work]]
    WORKS[work](Lake(UNUSED, table_format, stored=there.sound), registry)
    states = [before, state(there.sound, table_format)]
    for operations in count():
        there = MemoryStores(objects, operations)
        monkeypatch.setattr(stores, "connect", there.connect)
        finished = is_finished(there.crashing, table_format, works, registry)
        check_recovery(Lake(UNUSED, table_format, stored=there.sound), works, registry, states)
        if finished:
            break
    assert operations > 25


@pytest.mark.parametrize(
    ("table_format", "works"),
    [("parquet", WORKS.values()), pytest.param("iceberg", [replay, land], marks=pytest.mark.merge)],
)
def test_output_is_consistent_after_a_crash_of_the_machine(
    table_format: TableFormat, works: Iterable[Work], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsynced changes are lost. The last work may be lost although the next one is on the disk."""
    registry, folder, filled = definitions(tmp_path / "registry.json", total=NUMBER), tmp_path / "lake", tmp_path / "b"
    output = place_of(folder)
    fill(output, table_format)
    shutil.copytree(folder, filled)
    states = [state(output, table_format)]
    for work in works:
        work(Lake(folder, table_format), registry)
        states.append(state(output, table_format))
    for operations in count():
        shutil.rmtree(folder)
        shutil.copytree(filled, folder)
        disk = Disk(operations)
        with monkeypatch.context() as patch:
            disk.watch(patch)
            finished = is_finished(output, table_format, works, registry)
        disk.crash()
        check_recovery(Lake(folder, table_format), works, registry, states)
        if finished:
            break
    assert operations > 30


def is_finished(output: Place, table_format: TableFormat, works: Iterable[Work], registry: str) -> bool:
    """Return False if the driver crashed before its work was done."""
    try:
        lake = Lake(UNUSED, table_format, stored=output)
        for work in works:
            work(lake, registry)
    except Crashed:
        return False
    return True


def check_recovery(lake: Lake, works: Iterable[Work], registry: str, states: Sequence[State]) -> None:
    """Check that the next driver finds each work done or not begun, and that it does the rest."""
    with lake.journal.lock_output():
        complete_unfinished(lake.journal, lambda _: None)
    check_a_day_later(lake)
    assert state(lake.place, lake.table_format) in states
    for work in works:
        work(lake, registry)
    check_a_day_later(lake)
    assert state(lake.place, lake.table_format) == states[-1]
