"""Rows go to the table of their definition that takes their columns, in both formats."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from tests.pipeline.lake import KINDS, NOON, ORDER, XID, Lake

from signalbook.formats import Field, ListOf, Scalar, Struct
from signalbook.pipeline import columns
from signalbook.pipeline.commit import complete_unfinished
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, build_table_name, find_definition
from signalbook.pipeline.tables.iceberg import IcebergTables

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
SECOND = ORDER.with_version(2)


def loaded(lake: Lake) -> Table:
    tables = IcebergTables(lake.output)
    return tables.catalog.load_table(tables.build_identifier(ORDER))


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake.of(request.param, tmp_path / "lake", request)


@pytest.fixture(params=["iceberg", "rest"])
def iceberg(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake.of(request.param, tmp_path / "lake", request)


@pytest.fixture
def parquet(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake", "parquet")


def test_table_accepts_new_and_missing_columns(lake: Lake) -> None:
    assert lake.put([{"a": 1, "b": "x"}], {"a": INT, "b": TEXT}) == ORDER
    assert lake.put([{"a": 2, "c": "y"}], {"a": INT, "c": TEXT}) == ORDER
    assert lake.rows() == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": "y"}]
    assert [name for name in lake.tables.read_columns(ORDER).names if name != "_landed_at"] == ["a", "b", "c"]


def test_tables_of_earlier_versions_gain_keys_and_headers(lake: Lake) -> None:
    new = {name: columns.TRANSPORT.field(name).type for name in ("_key", "_raw_headers")}
    headers = [{"name": "h", "value": None}]
    assert lake.put([{"a": 1}], {"a": INT}) == ORDER
    assert lake.put([{"a": 2, "_key": b"k", "_raw_headers": headers}], {"a": INT, **new}) == ORDER
    expected = [{"a": 1, "_key": None, "_raw_headers": None}, {"a": 2, "_key": b"k", "_raw_headers": headers}]
    assert lake.rows() == expected


def test_incompatible_columns_go_to_the_next_table(lake: Lake) -> None:
    """Once there, a definition that goes back to its old columns finds its old table."""
    assert lake.put([{"a": 1}], {"a": INT}) == ORDER
    assert lake.put([{"a": "x"}], {"a": TEXT}) == SECOND
    assert lake.put([{"a": "y", "b": 1}], {"a": TEXT, "b": INT}) == SECOND
    assert lake.put([{"a": 2}], {"a": INT}) == ORDER
    assert lake.put([{"a": 0.5}], {"a": pa.float64()}) == ORDER.with_version(3)
    assert (len(lake.rows()), len(lake.rows(SECOND))) == (2, 2)
    assert {find_definition(table) for table in lake.tables.find_versions(ORDER)} == {XID}


@pytest.mark.parametrize("nested", [False, True])
def test_a_member_keeps_its_column(lake: Lake, nested: bool) -> None:
    """Of `a`, `A` and `A_` the definition alone has `A_` in the column `A_`, and `A` next to `a` alone."""

    def put(**members: str) -> TableName:
        fields = tuple(Field(name=name, attribute="", shape=Scalar(kind="string")) for name in members)
        inner = columns.build_payload(Struct(fields=fields))
        row: dict[str, Any] = dict(zip(inner.names, members.values(), strict=True))
        if not nested:
            return lake.put([row], inner)
        shape = Struct(fields=(Field(name="o", attribute="", shape=ListOf(item=Struct(fields=fields))),))
        return lake.put([{"o": [row]}], columns.build_payload(shape))

    tables = [put(a="0", A="1"), put(a="2", A="3", A_="4"), put(A="5"), put(A_="6", b="7"), put(a="8", A_="9")]
    assert set(tables) == {ORDER}
    rows = [row["o"][0] if nested else row for row in lake.rows()]
    found = {frozenset((name, value) for name, value in row.items() if value is not None) for row in rows}
    assert found == {
        frozenset(row.items())
        for row in (
            {"a": "0", "A_": "1"},
            {"a": "2", "A_": "3", "A__": "4"},
            {"A_": "5"},
            {"A__": "6", "b": "7"},
            {"a": "8", "A__": "9"},
        )
    }


def test_names_with_a_common_prefix_are_no_versions(lake: Lake) -> None:
    for xid in (XID, f"{XID}@2", f"{XID}s", f"{XID}@v2"):
        lake.put([{"a": 1}], {"a": INT}, build_table_name(xid))
    assert lake.tables.find_versions(ORDER) == [ORDER]


def test_iceberg_promotes_types_in_place(iceberg: Lake) -> None:
    """Old files are read as the wider type, and narrow ones may still come."""
    narrow, wide = pa.decimal128(9, 2), pa.decimal128(12, 2)
    nested = pa.struct([("m", INT)]), pa.struct([("m", LONG), ("n", TEXT)])
    for index, value in ((0, 1), (1, 2**40), (0, 2)):
        columns = {"a": (INT, LONG)[index], "d": (narrow, wide)[index], "s": nested[index], "f": pa.float32()}
        assert iceberg.put([{"a": value, "d": None, "s": {"m": value}, "f": 0.5}], columns) == ORDER
    assert [row["a"] for row in iceberg.rows()] == [1, 2**40, 2]
    assert {row["s"]["m"] for row in iceberg.rows()} == {1, 2**40, 2}
    assert iceberg.tables.read_columns(ORDER).field("d").type == wide


def test_parquet_never_mixes_types(parquet: Lake) -> None:
    """Readers that merge what files say refuse two types of one column, those that do not take the first."""
    assert parquet.put([{"a": 1}], {"a": INT}) == ORDER
    assert parquet.put([{"a": 2**40}], {"a": LONG}) == SECOND


def test_a_repeated_commit_repeats_the_choice(lake: Lake) -> None:
    """A process may die between the commit of a table and the entry in the journal."""
    lake.put([{"a": 1}], {"a": INT})
    batch = lake.prepared([{"a": "x"}], {"a": TEXT})
    assert {file.table for file in batch.files} == {SECOND}
    lake.tables.commit(batch, SECOND)
    complete_unfinished(lake.journal, lambda _: None)
    assert (lake.rows(SECOND), lake.journal.list_unfinished()) == ([{"a": "x"}], [])


def test_columns_have_descriptions(lake: Lake) -> None:
    """Descriptions follow the definition, nested ones too."""
    for word in ("old", "new"):
        member = pa.field("m", INT, metadata={"doc": f"{word} member"})
        columns = pa.schema([pa.field("s", pa.struct([member]), metadata={"doc": f"{word} column"})])
        lake.put([{"s": {"m": 1}}], columns)
    column = lake.tables.read_columns(ORDER).field("s")
    assert column.metadata == {b"doc": b"new column"}
    if lake.table_format == "iceberg":
        table = loaded(lake)
        assert table.schema().find_field("s.m").doc == "new member"


def test_a_day_is_a_partition(lake: Lake) -> None:
    lake.put([{"a": 1}], {"a": INT})
    lake.at(NOON + timedelta(days=1)).put([{"a": 2}], {"a": INT})
    assert len(lake.rows()) == 2
    folders = {path.parent.name for path in lake.output.rglob("*.parquet")}
    assert folders == {"landed_on=2026-11-21", "landed_on=2026-11-22"}


def test_the_days_of_iceberg_prune_files(iceberg: Lake) -> None:
    for days in range(3):
        iceberg.at(NOON + timedelta(days=days)).put([{"a": days}], {"a": INT})
    table = loaded(iceberg)
    assert [field.name for field in table.spec().fields] == ["landed_on"]
    tasks = list(table.scan("_landed_at >= '2026-11-23T00:00:00+00:00'").plan_files())
    assert len(tasks) == 1


def test_tables_stay_as_they_were_made(lake: Lake) -> None:
    """Spark does not see files that lie beside folders of days."""
    for first, then in (("none", "day"), ("day", "none")):
        table = ORDER if first == "none" else ORDER.with_version(2)
        columns = {"a": INT if first == "none" else TEXT}
        for partition in (first, then):
            lake.partition = "day" if partition == "day" else "none"
            assert lake.put([{"a": None}], columns) == table
    assert [
        len({path.parent for path in lake.output.rglob(f"{table}/**/*.parquet")}) for table in ("order", "order@2")
    ] == [1, 1]


def test_dead_letters_have_one_table(lake: Lake) -> None:
    lake.put([{"reason": "x"}], {"reason": TEXT}, DEAD_LETTERS)
    with pytest.raises(PipelineError, match=r"signalbook\.dead_letters was changed by someone else: column reason is"):
        lake.put([{"reason": 1}], {"reason": INT}, DEAD_LETTERS)


def test_dropped_table_can_be_started_again(lake: Lake) -> None:
    lake.put([{"a": 1}], {"a": INT})
    if lake.table_format == "iceberg":
        tables = IcebergTables(lake.output)
        tables.catalog.drop_table(tables.build_identifier(ORDER))
    else:
        shutil.rmtree(lake.output / "tables/shop/order")
    assert lake.put([{"a": "x"}], {"a": TEXT}) == ORDER
    assert lake.rows() == [{"a": "x"}]
