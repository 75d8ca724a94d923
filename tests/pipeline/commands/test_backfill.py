"""Values that had no column are moved into columns that were declared since, once, even if a backfill is killed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.commands.test_run import KILLED_LAKES, killed_at
from tests.pipeline.lake import ORDER, XID, Lake, counted_reads

from signalbook.messages import Policy
from signalbook.pipeline import columns
from signalbook.pipeline.commands.backfill import Backfill, backfill
from signalbook.pipeline.commands.compact import compact
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import Progress
from signalbook.pipeline.places import Place
from signalbook.pipeline.table_names import TableName
from signalbook.values import JSONObject

LINE = pa.struct([("sku", pa.string())])
FIRST = pa.schema([("id", pa.string()), ("ship", pa.struct([("city", pa.string())])), ("lines", pa.list_(LINE))])
AT = "2026-01-02T03:04:05Z"
ROWS: list[JSONObject] = [
    {"id": "1", "ship": {"city": "c"}, "lines": [{"sku": "a"}], "_rescue": None},
    {"id": "2", "_rescue": '{"total":1.5,"x":{"y":1}}'},
    {"id": "3", "ship": {"city": "c"}, "_rescue": '{"ship":{"zip":"1","map":2}}'},
    {
        "id": "4",
        "lines": [{"sku": "a"}, {"sku": "b"}],
        "_rescue": '{"lines":[null,{"n":2}],"at":"2026-01-02T03:04:05Z"}',
    },
    {"id": "5", "_rescue": '{"total":"much"}'},
    {"id": "6", "_rescue": '{"at":"soon"}'},
]
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def definitions(path: Path, **members: Any) -> str:
    """A registry in which orders have these members, too."""
    lines = {"type": "array", "items": {"type": "object", "properties": {"sku": TEXT, "n": {"type": "integer"}}}}
    ship = {"type": "object", "properties": {"city": TEXT, "zip": TEXT}}
    properties = {"id": TEXT, "ship": ship, "lines": lines, **members}
    schema = {"format": "JsonSchema/draft-07", "schema": {"type": "object", "properties": properties}}
    typed = {"dataschemaformat": "JsonSchema/draft-07", "dataschemauri": "/schemagroups/shop/schemas/order"}
    order = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "order"}}, **typed}
    document: JSONObject = {"messagegroups": {"shop": {"messages": {"order": order}}}}
    document["schemagroups"] = {"shop": {"schemas": {"order": {"versions": {"1": schema}}}}}
    path.write_text(json.dumps(document))
    return str(path)


@pytest.fixture(params=["iceberg", "parquet", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Rows in two files, of which one has nothing to fill."""
    lake = Lake.of(request.param, tmp_path / "lake", request)
    lake.put(ROWS, pa.schema([*FIRST, *columns.RESCUE]))
    lake.put([{"id": "7", "_rescue": '{"x":1}'}], pa.schema([*FIRST, *columns.RESCUE]))
    return lake


def fill(lake: Lake, registry: str, **more: Any) -> list[Backfill]:
    return backfill(lake.place, registry, policy=Policy(columns="typed"), **more)


def rows(lake: Lake, table: TableName = ORDER) -> dict[str, JSONObject]:
    """The rows by id, as far as they have something; pyiceberg has empty lists for those that files lack."""
    return {
        row["id"]: {name: value for name, value in row.items() if value not in (None, []) and name != "id"}
        for row in lake.rows(table)
    }


def test_declared_members_move_into_their_columns(lake: Lake, tmp_path: Path) -> None:
    registry = definitions(tmp_path / "r.json", total=NUMBER, at={"type": "string", "format": "date-time"})
    (result,) = fill(lake, registry)
    assert result == Backfill(table=ORDER, filled=3, unfit=1, files=1)
    stored_rows = rows(lake)
    assert stored_rows["1"]["lines"] == [{"sku": "a", "n": None}]
    assert stored_rows["2"] == {"total": 1.5, "_rescue": '{"x":{"y":1}}'}
    assert stored_rows["3"] == {"ship": {"city": "c", "zip": "1"}, "_rescue": '{"ship":{"map":2}}'}
    assert stored_rows["4"]["lines"] == [{"sku": "a", "n": None}, {"sku": "b", "n": 2}]
    assert stored_rows["4"]["at"].isoformat().startswith("2026-01-02T03:04:05")
    assert "_rescue" not in stored_rows["4"]
    assert stored_rows["5"] == {"_rescue": '{"total":"much"}'}  # which does not conform
    assert stored_rows["6"] == {"_rescue": '{"at":"soon"}'}  # which conforms and is no time
    assert stored_rows["7"] == {"_rescue": '{"x":1}'}
    (again,) = fill(lake, registry)
    assert again == Backfill(table=ORDER, filled=0, unfit=1, files=0)
    assert rows(lake) == stored_rows
    assert len(list(lake.journal.iterate_committed())) == 2  # what is reported


def test_files_gain_different_columns(lake: Lake, tmp_path: Path) -> None:
    lake.put([{"id": "8", "_rescue": '{"late":true}'}], pa.schema([*FIRST, *columns.RESCUE]))
    fill(lake, definitions(tmp_path / "r.json", total=NUMBER, late={"type": "boolean"}))
    assert {"total", "late"} <= set(lake.tables.read_columns(ORDER).names)
    assert rows(lake)["8"] == {"late": True}


def test_members_keep_the_columns_that_the_table_has_them_in(lake: Lake, tmp_path: Path) -> None:
    """Next to `note` the definition alone would have the member `Note` in the column `Note_`."""
    there = pa.schema([("id", pa.string()), ("Note", pa.string()), ("o", pa.struct([("At", pa.string())]))])
    row = {"id": "8", "Note": "N", "o": {"At": "A"}, "_rescue": '{"note":"n","o":{"at":"a"}}'}
    lake.put([row], pa.schema([*there, *columns.RESCUE]))
    inner = {"type": "object", "properties": {"At": TEXT, "at": TEXT}}
    (done,) = fill(lake, definitions(tmp_path / "r.json", Note=TEXT, note=TEXT, o=inner))
    assert done.refused == ()
    assert rows(lake)["8"] == {"Note": "N", "note_": "n", "o": {"At": "A", "at_": "a"}}


def test_backfill_in_a_store(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The store is reached with the settings of the output, not with those that libraries use by default."""
    lake = Lake.of("iceberg-s3proxy", tmp_path / "lake", request)
    lake.put(ROWS, pa.schema([*FIRST, *columns.RESCUE]))
    (result,) = fill(lake, definitions(tmp_path / "r.json", total=NUMBER))
    assert (result.filled, rows(lake)["2"]["total"]) == (3, 1.5)


def test_partially_convertible_value_is_kept_twice(lake: Lake, tmp_path: Path) -> None:
    """The result is as if the rows had landed now, and numbers keep their digits."""
    price = '{"total":12345678901234567890.12,"x":90071992547409.93}'
    texts = [f'{{"at":"{AT[:-1]}.123456789Z"}}', price, '{"total":1.001}', "mine", "12", "[1]"]
    new_rows = [{"id": f"8{number}", "_rescue": text} for number, text in enumerate(texts)]
    lake.put(new_rows, pa.schema([*FIRST, *columns.RESCUE]))
    price_of = {"type": "number", "multipleOf": 0.01}
    registry = definitions(tmp_path / "r.json", total=price_of, at={"type": "string", "format": "date-time"})
    (result,) = fill(lake, registry)
    assert (result.filled, result.files) == (5, 2)
    held = rows(lake)
    assert held["80"] == {"at": datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC), "_rescue": texts[0]}
    assert held["81"] == {"total": Decimal("12345678901234567890.12"), "_rescue": '{"x":90071992547409.93}'}
    assert [held[f"8{number}"] for number in range(2, 6)] == [{"_rescue": text} for text in texts[2:]]
    assert fill(lake, registry) == []
    assert rows(lake) == held


def test_landing_and_compaction_continue(lake: Lake, tmp_path: Path) -> None:
    fill(lake, definitions(tmp_path / "r.json", total=NUMBER))
    lake.put([{"id": "8", "total": 8.0}], pa.schema([("id", pa.string()), ("total", pa.float64())]))
    compact(lake.output)
    stored_rows = rows(lake)
    assert [*stored_rows] == list("12345678")
    assert (stored_rows["2"]["total"], stored_rows["8"]) == (1.5, {"total": 8.0})


def test_a_column_of_another_type_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.put([{"id": "8", "total": "x"}], pa.schema([("id", pa.string()), ("total", pa.string())]))
    (result,) = fill(lake, definitions(tmp_path / "r.json", total=NUMBER, x={"type": "object"}))
    assert (result.refused, result.filled) == (("total",), 3)
    stored_rows = rows(lake)
    assert stored_rows["2"] == {"x": '{"y":1}', "_rescue": '{"total":1.5}'}


def test_row_group_is_read_with_few_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "lake", "parquet")
    more = [pa.field(f"a{number}", pa.int64()) for number in range(60)]
    lake.put(ROWS, pa.schema([*FIRST, *more, *columns.RESCUE]))
    registry = definitions(tmp_path / "r.json", total=NUMBER)
    reads = counted_reads(monkeypatch)
    (result,) = fill(lake, registry)
    assert result.filled == 3
    assert 0 < len(reads) < 20


def test_only_requested_definitions_are_filled(lake: Lake, tmp_path: Path) -> None:
    registry = definitions(tmp_path / "r.json", total=NUMBER)
    with pytest.raises(PipelineError, match=f"no table of /m/x; there are: {XID}"):
        fill(lake, registry, definitions=["/m/x"])
    assert fill(lake, registry, definitions=[XID])[0].filled == 3


def fill_until_killed(job: tuple[Place, str], show: Callable[[Progress], None]) -> None:
    backfill(*job, policy=Policy(columns="typed"), progress=show)


@pytest.mark.parametrize("lake", KILLED_LAKES, indirect=True)
def test_a_killed_backfill_is_completed(lake: Lake, tmp_path: Path) -> None:
    """Every row exists once, with the expected values."""
    registry = definitions(tmp_path / "r.json", total=NUMBER)
    killed_at("committing", 1, fill_until_killed, (lake.place, registry), forked=False)
    assert len(lake.journal.list_unfinished()) == 1
    with lake.journal.lock_output():
        complete_unfinished(lake.journal, lambda _: None)
    lake.check_whole()
    assert [(result.filled, result.files) for result in fill(lake, registry)] == [(0, 0)]
    assert rows(lake)["2"] == {"total": 1.5, "_rescue": '{"x":{"y":1}}'}
    assert sorted(row["id"] for row in lake.rows()) == list("1234567")
    lake.check_whole()
