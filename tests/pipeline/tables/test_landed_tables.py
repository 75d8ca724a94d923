"""All tables of a definition are one to Spark, in both formats."""

import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.brokers.program import Broker
from tests.pipeline.lake import KINDS, ORDER, XID, Lake
from tests.pipeline.s3 import storage_of
from tests.pipeline.storeway import Answer, Asked, Deliver, store_way
from typer.testing import CliRunner

from signalbook.cli.app import app
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.journal import Journal, Partition, TableFormat
from signalbook.pipeline.places import Storage, place_of
from signalbook.pipeline.table_names import DEAD_LETTERS, TableName, build_table_name
from signalbook.pipeline.tables import landed_tables
from signalbook.pipeline.tables.landed_tables import LandedTables, convert_expression, read, view_name, views

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
AT = datetime(2026, 1, 2, 3, tzinfo=UTC)
ITEM = pa.struct([("sku", TEXT), ("n", INT)])
FIRST = {"id": INT, "total": INT, "items": pa.list_(pa.field("element", ITEM)), "who": pa.struct([("a", INT)])}
SECOND = {
    "id": INT,
    "total": TEXT,
    "items": pa.list_(pa.field("element", pa.struct([("n", LONG), ("sku", TEXT)]))),
    "who": TEXT,
    "paid": pa.bool_(),
}


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Two tables: one with an added column, and one whose columns are of other types."""
    lake = Lake.of(request.param, tmp_path / "lake", request)
    lake.put([{"id": 1, "total": 5, "items": [{"sku": "x", "n": 1}], "who": {"a": 1}}], FIRST)
    lake.put([{"id": 2, "total": 6, "note": "hi"}], {**FIRST, "note": TEXT})
    lake.put([{"id": 3, "total": "7.5", "items": [{"sku": "y", "n": 2**40}], "who": "w", "paid": True}], SECOND)
    return lake


ROWS: list[dict[str, Any]] = [
    {"id": 1, "total": "5", "items": [{"sku": "x", "n": 1}], "who": '{"a":1}', "note": None, "paid": None},
    {"id": 2, "total": "6", "items": None, "who": None, "note": "hi", "paid": None},
    {"id": 3, "total": "7.5", "items": [{"sku": "y", "n": 2**40}], "who": "w", "note": None, "paid": True},
]


def test_all_tables_of_a_definition_are_one_frame(lake: Lake, spark_session: SparkSession) -> None:
    frame = read(spark_session, lake.output, XID).drop("_landed_at", "landed_on").orderBy("id")
    assert [row.asDict(recursive=True) for row in frame.collect()] == ROWS


def test_view_shows_the_rows_of_all_tables(tmp_path: Path, spark_session: SparkSession) -> None:
    """The table is a Parquet table, because Spark needs its own catalog for Iceberg."""
    lake = Lake(tmp_path / "lake", "parquet")
    lake.put([{"id": 1, "total": 5}], {"id": INT, "total": INT})
    lake.put([{"id": 2, "total": 6, "note": "hi"}], {"id": INT, "total": INT, "note": TEXT})
    lake.put([{"id": 3, "total": "x"}], {"id": INT, "total": TEXT})
    (view,) = views(lake.output, (), "lake")
    assert (view["definition"], view["view"]) == (XID, "shop__order")
    assert view["tables"] == ["shop.order", "shop.order@2"]
    query = view["sql"].partition(" AS\n")[2]
    rows = spark_session.sql(f"SELECT id, total, note FROM ({query}) ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "5", None), (2, "6", "hi"), (3, "x", None)]


def test_every_type_is_read(tmp_path: Path, spark_session: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", "parquet")
    values: dict[str, tuple[pa.DataType, Any]] = {
        "b": (pa.bool_(), True),
        "f": (pa.float32(), 0.5),
        "d": (pa.decimal128(20, 0), Decimal(2**63)),
        "x": (pa.binary(), b"\xff"),
        "on": (pa.date32(), date(2026, 1, 2)),
        "ts": (pa.timestamp("us", "UTC"), AT),
        "t": (pa.time64("us"), time(1, 2, 3, 4)),
        "m": (pa.map_(TEXT, INT), {"k": 1}),
        "a`b.c": (TEXT, "x"),
    }
    row = {name: list(value.items()) if name == "m" else value for name, (_, value) in values.items()}
    lake.put([row], {name: kind for name, (kind, _) in values.items()})
    frame = read(spark_session, lake.output, XID)
    (result_row,) = frame.selectExpr("* EXCEPT (_landed_at, landed_on, ts)", "unix_micros(ts) AS ts").collect()
    expected = {name: value for name, (_, value) in values.items() if name != "t"}
    assert result_row.asDict() == expected | {"ts": int(AT.timestamp() * 1_000_000)}


HOSTILE_NAMES = ("${env:HOME}", "it's", "`", '"', "a\\", "a;b", "a\nb", "-- x", "*/", "{{ x }}")


def test_hostile_names_are_escaped(tmp_path: Path, spark_session: SparkSession) -> None:
    """Names of columns and members reach no statement as anything else, where Spark would substitute variables."""
    lake = Lake(tmp_path / "lake", "parquet")
    for key, kind in ((1, INT), ("2", LONG)):  # the second has a table of its own, whose types differ
        values = dict.fromkeys(HOSTILE_NAMES, int(key))
        kinds = dict.fromkeys(HOSTILE_NAMES, kind)
        columns = {"id": INT if key == 1 else TEXT, **kinds, "all": pa.struct(list(kinds.items()))}
        lake.put([{"id": key, **values, "all": values}], columns)
    rows = [row.asDict(recursive=True) for row in read(spark_session, lake.output, XID).collect()]
    assert {row["id"] for row in rows} == {"1", "2"}
    for row in rows:
        expected = dict.fromkeys(HOSTILE_NAMES, int(row["id"]))
        assert ({name: row[name] for name in HOSTILE_NAMES}, row["all"]) == (expected, expected)
    if tuple(map(int, spark_session.version.split(".")[:2])) >= (4, 1):  # which takes IDENTIFIER behind AS
        (view,) = views(lake.output)
        assert spark_session.sql(view["sql"].partition(" AS\n")[2]).columns == list(rows[0])


@pytest.mark.parametrize("zone", ["America/New_York", pytest.param("UTC", marks=pytest.mark.merge)])
def test_times_as_text_keep_microseconds_and_zone(spark_session: SparkSession, zone: str) -> None:
    """The columns have different types in several tables, and the time zone of the session does not matter."""
    at = pa.timestamp("us", "UTC")
    kinds = {"t": at, "o": pa.struct([("c", at)]), "l": pa.list_(at)}
    before = spark_session.conf.get("spark.sql.session.timeZone")
    spark_session.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark_session.sql(
            "SELECT timestamp_micros(v) t, named_struct('c', timestamp_micros(v)) o, array(timestamp_micros(v)) l "
            "FROM VALUES (1767225600123456L), (1762063200000000L), (-62135596800000000L), (253402300799999999L) AS x(v)"
        )
        rows_ = rows.selectExpr(
            *(convert_expression(name, kind, pa.string()) for name, kind in kinds.items())
        ).collect()
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", str(before))
    assert [tuple(row) for row in rows_] == [
        (f"{time}{fraction}Z", f'{{"c":"{time}{fraction or ".000000"}Z"}}', f'["{time}{fraction or ".000000"}Z"]')
        for time, fraction in (
            ("2026-01-01T00:00:00", ".123456"),
            ("2025-11-02T06:00:00", ""),
            ("0001-01-01T00:00:00", ""),
            ("9999-12-31T23:59:59", ".999999"),
        )
    ]


def test_a_view_of_iceberg_names_its_tables(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake", "iceberg")
    lake.put([{"a": 1}], {"a": INT})
    lake.put([{"a": "x"}], {"a": TEXT})
    (view,) = views(lake.output, [XID], "lake")
    day = "`lake`.system.days(`_landed_at`) AS `landed_on`"
    assert view["sql"] == (
        "CREATE OR REPLACE VIEW `shop__order` AS\n"
        f"SELECT CAST(`a` AS STRING) AS `a`, `_landed_at` AS `_landed_at`, {day}\nFROM `lake`.`shop`.`order`\n"
        "UNION ALL\n"
        f"SELECT `a` AS `a`, `_landed_at` AS `_landed_at`, {day}\nFROM `lake`.`shop`.`order@2`"
    )


@pytest.fixture(params=[(kind, partition) for kind in KINDS for partition in ("day", "none")], ids="-".join)
def days(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A row late on one day and one on the next, by UTC, in tables divided by day or not."""
    kind, partition = request.param
    lake = Lake.of(kind, tmp_path / "lake", request)
    lake.partition = partition
    lake.at(datetime(2026, 1, 2, 23, 59, tzinfo=UTC)).put([{"id": 1}], {"id": INT})
    lake.at(datetime(2026, 1, 3, tzinfo=UTC)).put([{"id": 2}], {"id": INT})
    return lake


def spoil(lake: Lake, name: str) -> None:
    """Make garbage of the file of a batch: whoever reads it fails."""
    (path,) = (lake.output / "tables").rglob(name)
    path.write_bytes(b"x" * path.stat().st_size)
    path.with_name(f".{name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", pytest.param("UTC", marks=pytest.mark.merge)])
def test_the_day_of_landing_is_a_column(days: Lake, spark_session: SparkSession, zone: str) -> None:
    """The day is in UTC, whatever the time zone of the session; days that a filter excludes are not read where days
    are folders.
    """
    before = spark_session.conf.get("spark.sql.session.timeZone")
    spark_session.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = read(spark_session, days.output, XID)
        days_by_id = {row["id"]: row["landed_on"] for row in frame.collect()}
        assert days_by_id == {1: date(2026, 1, 2), 2: date(2026, 1, 3)}
        if days.partition == "day":
            spoil(days, "b001.parquet")
        frame = read(spark_session, days.output, XID).where("landed_on = DATE'2026-01-03'")
        assert [row["id"] for row in frame.collect()] == [2]
    finally:
        spark_session.conf.set("spark.sql.session.timeZone", str(before))


class Reads:
    """Counts what is asked of the data files of a lake in a store that Spark has no connector for."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.bytes = 0

    def __call__(self, request: Asked, deliver: Deliver) -> Answer:
        answer = deliver()
        name = request.path.rpartition("/")[2]
        if request.method == "GET" and name.startswith("b0") and name.endswith(".parquet"):
            self.files.add(name.removesuffix(".parquet"))
            self.bytes += len(answer.body)
        return answer


@pytest.fixture
def reads(s3proxy: Broker) -> Iterator[tuple[Reads, Storage]]:
    """The requests to an S3 server, and how it is reached so that they are counted."""
    with store_way(s3proxy.ports["plain"]) as way:
        counted = Reads()
        way.fate = counted
        yield counted, storage_of(way.own)


def four_days(table_format: TableFormat, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    """A row of each of four days, in a file each, the last in another table."""
    lake = Lake.of(f"{table_format}-s3proxy", tmp_path / "lake", request)
    for day in range(4):
        kind = INT if day < 3 else TEXT
        row = {"id": day, "total": day if day < 3 else "3", "note": secrets.token_hex(200_000)}
        lake.at(datetime(2026, 1, 2 + day, tzinfo=UTC)).put([row], {"id": INT, "total": kind, "note": TEXT})
    return lake


@pytest.mark.parametrize(
    "table_format", ["parquet", *(pytest.param(name, marks=pytest.mark.merge) for name in ("iceberg", "delta"))]
)
def test_files_of_other_days_are_not_requested(
    tmp_path: Path,
    spark_session: SparkSession,
    request: pytest.FixtureRequest,
    table_format: TableFormat,
    reads: tuple[Reads, Storage],
) -> None:
    """Filters on the day work in any notation, and unused columns are not read either."""
    lake, (counted, storage) = four_days(table_format, tmp_path, request), reads
    place = place_of(str(lake.place), storage)
    frame = read(spark_session, place, XID)
    for condition, ids, files in (
        ("landed_on = DATE'2026-01-03'", {1}, {"b002"}),
        ("landed_on >= '2026-01-04' AND id < 3", {2}, {"b003", "b004"}),
        ("landed_on IN (DATE'2026-01-02', DATE'2026-01-05')", {0, 3}, {"b001", "b004"}),
        ("landed_on < DATE'2026-01-02'", set(), set()),
        ("year(landed_on) = 2026", {0, 1, 2, 3}, {"b001", "b002", "b003", "b004"}),
    ):
        counted.files.clear()
        assert {row["id"] for row in frame.where(condition).select("id").collect()} == ids, condition
        assert counted.files == files, condition
    assert frame.rdd.getNumPartitions() == 4
    counted.bytes = 0
    (row,) = read(spark_session, place, XID, columns=["total", "landed_on"]).where("total = '3'").collect()
    assert row.asDict() == {"total": "3", "landed_on": date(2026, 1, 5)}
    some, counted.bytes = counted.bytes, 0
    assert frame.count() == 4
    assert 0 < some < counted.bytes / 2


def test_many_days_share_frames(
    tmp_path: Path,
    spark_session: SparkSession,
    request: pytest.FixtureRequest,
    reads: tuple[Reads, Storage],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark plans faster with few frames: files of adjacent days may be read, and their rows are filtered out."""
    monkeypatch.setattr(landed_tables, "_FRAMES", 2)
    lake, (counted, storage) = four_days("parquet", tmp_path, request), reads
    frame = read(spark_session, place_of(str(lake.place), storage), XID)
    for condition, ids, files in (
        ("landed_on = DATE'2026-01-04'", {2}, {"b003"}),
        ("landed_on < DATE'2026-01-03'", {0}, {"b001", "b002"}),
        ("landed_on > '2026-01-05'", set(), set()),
        ("landed_on IN (DATE'2026-01-02', DATE'2026-01-06')", {0}, {"b001", "b002"}),
        ("month(landed_on) = 2", set(), set()),
    ):
        counted.files.clear()
        assert {row["id"] for row in frame.where(condition).collect()} == ids, condition
        assert counted.files == files, condition
    days_by_id = {row["id"]: row["landed_on"] for row in frame.collect()}
    assert days_by_id == {day: date(2026, 1, 2 + day) for day in range(4)}


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (4, [1, 1, 1, 1]), (5, [2, 2, 1]), (9, [3, 3, 3]), (13, [4, 4, 4, 1])]
)
def test_number_of_frames_is_bounded(count: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed_tables, "_FRAMES", 4)
    days = [date(2026, 1, 1 + number) for number in range(count)]
    groups = landed_tables._group_days(reversed(days))
    assert [len(group) for group in groups] == sizes
    assert [day for group in groups for day in group] == days
    assert landed_tables._group_days([*days, None]) == [*groups, [None]]


@pytest.mark.parametrize("partition", ["day", pytest.param("none", marks=pytest.mark.merge)])
def test_views_have_the_day_too(tmp_path: Path, spark_session: SparkSession, partition: Partition) -> None:
    lake = Lake(tmp_path / "lake", "parquet", partition=partition)
    lake.at(datetime(2026, 1, 2, 23, 59, tzinfo=UTC)).put([{"id": 1}], {"id": INT})
    lake.at(datetime(2026, 1, 3, tzinfo=UTC)).put([{"id": 2}], {"id": INT})
    (view,) = views(lake.output)
    query = view["sql"].partition(" AS\n")[2]
    if partition == "day":
        spoil(lake, "b001.parquet")
    rows = spark_session.sql(f"SELECT id, landed_on FROM ({query}) WHERE landed_on > DATE'2026-01-02'").collect()
    assert [tuple(row) for row in rows] == [(2, date(2026, 1, 3))]


def test_views_name_the_catalog_as_pyiceberg_does(tmp_path: Path) -> None:
    """The name of the catalog in a folder is the default one, in Python and on the command line."""
    lake = Lake(tmp_path / "lake", "iceberg")
    lake.put([{"id": 1}], {"id": INT})
    table = f".`{ORDER.group}`.`{ORDER.message}`"
    for catalog, name in (("", "default"), ("prod", "prod")):
        (view,) = views(lake.output, catalog=catalog)
        assert f"`{name}`.system.days(`_landed_at`) AS `landed_on`\nFROM `{name}`{table}" in view["sql"]
    printed = CliRunner().invoke(app, ["pipeline", "views", "--output", str(lake.output)]).output
    assert printed == f"{views(lake.output)[0]['sql']};\n\n"


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_definitions_are_found_without_the_journal(
    tmp_path: Path, kind: TableFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal grows with each batch."""
    lake = Lake(tmp_path / "lake", kind)
    lake.put([{"a": 1}], {"a": INT})
    lake.put([{"a": "x"}], {"a": TEXT})
    other = "/endpoints/shop/messages/order:placed"
    lake.put([{"a": 1}], {"a": INT}, build_table_name(other))
    lake.put([{"reason": "x"}], {"reason": TEXT}, DEAD_LETTERS)
    if kind != "parquet":
        (lake.output / "tables/shop/begun").mkdir()  # by a batch that died
    monkeypatch.setattr(Journal, "find_files", None)
    monkeypatch.setattr(Journal, "iterate_committed", None)
    landed = LandedTables.of(lake.output)
    assert landed.choose_tables([XID]) == {XID: ORDER}
    assert landed.choose_tables([]) == {other: build_table_name(other), XID: ORDER}


@pytest.mark.parametrize("table_format", ["parquet", pytest.param("iceberg", marks=pytest.mark.merge)])
def test_columns_may_be_chosen(tmp_path: Path, spark_session: SparkSession, table_format: TableFormat) -> None:
    """The columns are in the requested order, and names are compared without case, as in SQL."""
    lake = Lake(tmp_path / "lake", table_format)
    lake.put([{"id": 1, "a`b.c": 2, "other": 3}], {"id": INT, "a`b.c": INT, "other": INT})
    lake.put([{"id": 2, "a`b.c": "x"}], {"id": INT, "a`b.c": TEXT})
    frame = read(spark_session, lake.output, XID.removeprefix("/"), columns=["A`b.c", "landed_on", "id"])
    assert frame.columns == ["a`b.c", "landed_on", "id"]
    assert [tuple(row) for row in frame.orderBy("id").collect()] == [
        ("2", date(2026, 11, 21), 1),
        ("x", date(2026, 11, 21), 2),
    ]
    with pytest.raises(
        PipelineError, match=r"has no column 'lost'; there are: id, a`b\.c, other, _landed_at, landed_on"
    ):
        read(spark_session, lake.output, XID, columns=["id", "lost"])


def test_names_of_views() -> None:
    assert view_name(TableName("com.example", "Order.placed@3")) == "com_example__order_placed"


def test_unknown_definition_is_an_error(tmp_path: Path) -> None:
    Journal.open(tmp_path)
    with pytest.raises(PipelineError, match="nothing has landed in"):
        views(tmp_path, (), "lake")
    lake = Lake(tmp_path / "lake", "parquet")
    lake.put([{"a": 1}], {"a": INT}, ORDER)
    with pytest.raises(PipelineError, match=f"has no table of /messagegroups/a/messages/b; there are: {XID}"):
        views(lake.output, ["/messagegroups/a/messages/b"], "lake")
