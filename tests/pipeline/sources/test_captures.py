"""Rows of messages in Parquet files, as Spark and connectors write them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.commands.following import follow

from signalbook.messages import of_record
from signalbook.pipeline import Job, PipelineError, run
from signalbook.pipeline.places import Storage, StorePlace
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.capture_records import read_records
from signalbook.pipeline.sources.captures import KAFKA

AT = datetime(2026, 1, 2, tzinfo=UTC)
TYPE = [{"key": "content-type", "value": b"application/cloudevents+json"}]
Rows = Callable[..., list[dict[str, Any]]]
Jobs = Callable[..., Job]


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., str]:
    def written(name: str = "capture.parquet", **columns: Any) -> str:
        path = tmp_path / name
        pq.write_table(pa.table(columns), path)
        return str(path)

    return written


@pytest.fixture
def rows(spark_session: SparkSession, capture: Callable[..., str]) -> Rows:
    """The canonical rows of a file with such columns."""

    def brought(options: dict[str, str] | None = None, **columns: Any) -> list[dict[str, Any]]:
        path = capture(**columns)
        frame = KAFKA.load(spark_session, [path], options or {})
        rows_of_spark = [row.asDict(recursive=True) for row in frame.collect()]
        if options is None:
            assert [_normalize(row) for row in rows_of_spark] == [_normalize(row) for row in _read_without_spark(path)]
        return rows_of_spark

    return brought


def _read_without_spark(path: str) -> list[dict[str, Any]]:
    batches = read_records(Split(path=path, start=0, end=1), KAFKA.protocol, KAFKA.roles)
    return [row for batch in batches for row in batch.to_pylist()]


def _normalize(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with times in UTC, and without the scheme that Spark adds to the file."""
    time = row["received_at"] and row["received_at"].astimezone(UTC)
    return {**row, "received_at": time, "source": row["source"].removeprefix("file:")}


def test_a_value_is_enough(rows: Rows) -> None:
    (first, second) = rows(value=pa.array([b"a", None]))
    assert (first["value"], second["value"], second["position"]) == (b"a", None, 1)
    assert first["source"].endswith("capture.parquet")
    assert {first[name] for name in ("address", "partition", "key", "headers", "received_at")} == {None}


def test_rows_have_their_place_whatever_the_case_of_the_format(rows: Rows) -> None:
    (row,) = rows({"format": "Parquet"}, value=pa.array([b"a"]))
    assert (Path(row["source"]).name, row["position"]) == ("capture.parquet", 0)


def test_columns_of_spark_captures(rows: Rows) -> None:
    """Each known part of a record has its column (K-7)."""
    (row, lost) = rows(
        value=pa.array([b"a", b"b"]), key=pa.array([b"k", None]), topic=pa.array(["t", "t"]),
        partition=pa.array([3, None], pa.int32()), offset=pa.array([70, 71], pa.int64()),
        timestamp=pa.array([AT, None], pa.timestamp("us", tz="UTC")), headers=pa.array([TYPE, None]),
    )  # fmt: skip
    expected = ("kafka:t/3", 70, 3, "t", b"k")
    assert (row["source"], row["position"], row["partition"], row["address"], row["key"]) == expected
    assert row["headers"] == [{"name": "content-type", "value": b"application/cloudevents+json"}]
    assert row["received_at"].astimezone(UTC) == AT
    assert (lost["source"].rpartition("/")[2], lost["position"], lost["partition"]) == ("capture.parquet", 1, None)


def test_columns_by_other_names_and_types(rows: Rows) -> None:
    (row,) = rows(
        {"value": "body", "headers": "meta", "timestamp": "ts"},
        body=pa.array(["text"]), ts=pa.array([1767312000000]),
        meta=pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
    )  # fmt: skip
    assert (row["value"], row["headers"]) == (b"text", [{"name": "a", "value": b"b"}])
    assert row["received_at"].astimezone(UTC) == AT


@pytest.mark.parametrize(
    "times",
    [
        pa.array([datetime(2026, 1, 2), None], pa.timestamp("us")),
        pa.array([AT.date(), None]),
        pa.array(["2026-01-02T00:00:00Z", "soon"]),
        pa.array(["1767312000000", ""]),
        pa.array([1767312000000, 2**62]),
        pa.array([1767312000000.0, float("inf")]),
    ],
    ids=lambda times: str(times.type),
)
def test_times_of_other_writers(rows: Rows, times: pa.Array) -> None:
    first, second = rows(value=pa.array([b"a", b"b"]), timestamp=times)
    assert (first["received_at"].astimezone(UTC), second["received_at"]) == (AT, None)


def test_keys_and_headers_may_be_of_any_type(rows: Rows) -> None:
    """Spark infers the types of keys in JSON: numbers land as text, objects as JSON, null as null."""
    rows_ = rows(
        value=pa.array([b"a"] * 2), key=pa.array([17, None]),
        headers=pa.array([[{"key": "h", "value": 1.5}, {"key": "h", "value": None}], None]),
    )  # fmt: skip
    assert [row["key"] for row in rows_] == [b"17", None]
    assert rows_[0]["headers"] == [{"name": "h", "value": b"1.5"}, {"name": "h", "value": None}]
    (row,) = rows(value=pa.array([b"a"]), key=pa.array([{"id": 17}]))
    assert row["key"] == b'{"id":17}'


def test_unconvertible_row_does_not_stop_the_others(rows: Rows) -> None:
    rows_ = rows(
        value=pa.array([b"a"] * 4), topic=pa.array([b"t", b"\xff", b"t", b"t"]),
        partition=pa.array(["3", "3", "x", str(2**40)]), offset=pa.array(["7", "8", "9", "10"]),
        headers=pa.array([[{"k": b"\xff", "v": b"\xff"}]] * 4),
    )  # fmt: skip
    expected = [("3", 8, 3), ("capture.parquet", 2, None), ("capture.parquet", 3, None)]
    assert [(row["source"].rpartition("/")[2], row["position"], row["partition"]) for row in rows_[1:]] == expected
    assert {(header["name"], header["value"]) for row in rows_ for header in row["headers"]} == {("\ufffd", b"\xff")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value": "lost"}, "no column 'lost' for the value.*payload, headers"),
        ({}, "no column 'value'"),
        ({"value": "payload", "key": "lost"}, "no column 'lost' for the key"),
        ({"value": "payload"}, "holds no headers"),
        ({"colour": "red"}, "has no option 'colour'"),
        ({"format": "orc"}, "cannot read .* as orc"),
    ],
)
def test_captures_that_are_refused(rows: Rows, options: dict[str, str], words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        rows(options, payload=pa.array([b"a"]), headers=pa.array(["x"]))


def test_invalid_parquet_file_is_an_error(spark_session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 100)
    with pytest.raises(PipelineError, match=r"cannot read .*footer"):
        KAFKA.load(spark_session, [str(path)], {})


def test_events_of_a_column_land(job: Jobs, capture: Callable[..., str], parcels: Any, tmp_path: Path) -> None:
    """An invalid row is identified by its file and number (K-45)."""
    texts = [json.dumps(parcels.event(0)), "{", json.dumps(parcels.event(2))]
    report = run(job(capture(event=pa.array(texts)), options={"value": "event"})).to_json()
    assert (report["read"], report["landed"], report["dead_lettered"]) == (3, 2, 1)
    (letter,) = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    assert (letter["original"], letter["position"], letter["reason"]) == (b"{", 1, "decode_error")
    assert letter["source"].endswith("/capture.parquet")
    landed = pq.read_table(tmp_path / "out" / "tables").to_pylist()
    assert {(row["id"], row["_position"], row["_protocol"]) for row in landed} == {("P0", 0, None), ("P2", 2, None)}


def binary_headers(parcels: Any) -> list[dict[str, Any]]:
    names = ("id", "source", "type", "specversion")
    return [{"key": f"ce_{name}", "value": str(parcels.event()[name]).encode()} for name in names]


def test_captured_records_land(job: Jobs, capture: Callable[..., str], parcels: Any, tmp_path: Path) -> None:
    """Structured and binary events are captured as on the topic, with key and headers (K-21)."""
    odd: list[Any] = [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    sent = TYPE + odd
    path = capture(
        value=pa.array([json.dumps(parcels.event(0)).encode(), json.dumps({"id": "P1", "weight": 1}).encode(), None]),
        headers=pa.array([sent, binary_headers(parcels), odd]), topic=pa.array(["t"] * 3),
        key=pa.array([b"k", None, b"\xff"]), partition=pa.array([0] * 3), offset=pa.array([5, 6, 7]),
    )  # fmt: skip
    report = run(job(path, input_format=KAFKA.name)).to_json()
    assert (report["landed"], report["reasons"]) == (2, {"not_cloudevent": 1})
    landed = pq.read_table(tmp_path / "out" / "tables").to_pylist()
    values = {(row["id"], row["_source"], row["_position"], row["_key"]) for row in landed}
    assert values == {("P0", "kafka:t/0", 5, b"k"), ("P1", "kafka:t/0", 6, None)}
    exact = [{"name": header["key"], "value": header["value"]} for header in sent]
    assert {row["id"]: row["_raw_headers"] for row in landed} == {"P0": exact, "P1": None}
    (letter,) = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    again = of_record(letter["message"], letter["original"])
    assert again.sections["key"] == b"\xff"
    assert again.sections["headers"] == (("h", b"\xff"), ("h", None))


def spoil(path: Path, part: bytes) -> None:
    content = path.read_bytes()
    assert content.count(part) == 1
    path.write_bytes(content.replace(part, b"\xff" * len(part)))


@pytest.fixture
def damaged(tmp_path: Path, parcels: Any) -> Path:
    """A folder of three files: one whole, one with a page that is damaged, one that is cut off."""
    folder = tmp_path / "damaged"
    folder.mkdir()
    for name, first in (("a.parquet", 0), ("b.parquet", 100), ("c.parquet", 200)):
        texts = [json.dumps(parcels.event(first + number)) for number in range(100)]
        # Pages of one value, each with its checksum, in two row groups.
        pq.write_table(
            pa.table({"value": texts}), folder / name, row_group_size=50, use_dictionary=False, compression="none",
            data_page_size=1, write_batch_size=1, write_page_checksum=True, write_statistics=False,
        )  # fmt: skip
    spoil(folder / "b.parquet", b'"P120"')
    cut = (folder / "c.parquet").read_bytes()[:-30]
    (folder / "c.parquet").write_bytes(cut)
    return folder


@pytest.mark.parametrize("assumed", [False, True])
def test_structured_events_without_their_content_type(
    job: Jobs, parcels: Any, capture: Callable[..., str], tmp_path: Path, assumed: bool
) -> None:
    """The events become dead letters with an explanation, or land with the option; tombstones and other records are
    unaffected.
    """
    text = pa.array([json.dumps(parcels.event(0)).encode(), None, b'{"id": "P1", "weight": 1}', b"{}"])
    stated = [{"key": "content-type", "value": b"application/json"}]
    headers = pa.array([None, None, binary_headers(parcels), stated])
    path = capture(value=text, headers=headers, topic=pa.array(["t"] * 4))
    options = {"assume": "cloudevents"} if assumed else {}
    report = run(job(path, input_format=KAFKA.name, options=options)).to_json()
    assert (report["landed"], report["reasons"]) == (1 + assumed, {"not_cloudevent": 3 - assumed})
    letters = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    assert {violation["rule"] for letter in letters for violation in letter["violations"]} == {"content_mode"}


@pytest.mark.parametrize("lost", ["b.parquet", "c.parquet", ""])
def test_undamaged_rows_of_captures_land(job: Jobs, damaged: Path, tmp_path: Path, lost: str) -> None:
    """The damage becomes a dead letter with the file and the first unreadable row."""
    if lost:
        (damaged / lost).unlink()
    report = run(job(damaged))
    letters = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    letters_by_place = {
        (row["source"].rpartition("/")[2], row["position"], row["violations"][0]["rule"]): row for row in letters
    }
    expected = {("b.parquet", 20, "damaged_file"), ("c.parquet", 0, "unreadable_file")}
    assert letters_by_place.keys() == {damage for damage in expected if damage[0] != lost}
    ids = pq.read_table(tmp_path / "out" / "tables")["id"].to_pylist()
    assert len(ids) == len(set(ids)) == report.landed
    whole = {f"P{number}" for number in range(100)}
    if lost != "b.parquet":
        words = letters_by_place["b.parquet", 20, "damaged_file"]["violations"][0]["message"]
        assert words.startswith("rows 20 to 49, of row group 0, cannot be read: ")
        whole |= {f"P{100 + number}" for number in [*range(20), *range(50, 100)]}
    assert set(ids) == whole
    assert not (tmp_path / "out" / ".staging").exists()


def test_unreadable_captures_are_an_error(job: Jobs, damaged: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        (damaged / name).unlink()
    with pytest.raises(PipelineError, match="none of its files is Parquet with a footer that can be read"):
        run(job(damaged))


# Rows of programs whose types are not Spark's.
PAIR = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])


@pytest.mark.parametrize(
    "folders",
    [
        pytest.param("", marks=pytest.mark.merge),
        "topic=o%20s/partition=01/day=2026-01-02",
        pytest.param("partition=__HIVE_DEFAULT_PARTITION__", marks=pytest.mark.merge),
    ],
)
def test_columns_of_salvaged_captures(spark_session: SparkSession, tmp_path: Path, folders: str) -> None:
    """The columns equal those that Spark derives from the files and their folders, with the places of the rows."""
    (tmp_path / folders).mkdir(parents=True, exist_ok=True)
    path = tmp_path / folders / "x.parquet"
    columns = {
        "value": pa.array([b"a", None]), "Topic": pa.array(["t", "t"]), "partition": pa.array([3, None], pa.int32()),
        "offset": pa.array([70, 71], pa.int64()), "timestamp": pa.array([AT, None], pa.timestamp("ns", tz="UTC")),
        "headers": pa.array([TYPE, None]), "other": pa.array([1, 2]),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path, version="2.4")
    for input_path in (path, tmp_path):
        whole = KAFKA.load(spark_session, [str(input_path)], {}).collect()
        assert KAFKA.salvage(spark_session, [str(input_path)], {}, Storage()).collect() == whole


# Rows of programs whose types are not Spark's.
OTHERS: dict[str, Any] = {
    "value": pa.array(["a", None], pa.string_view()),
    "topic": pa.array(["t", None], pa.large_string()),
    "partition": pa.array([3, None], pa.uint8()),
    "offset": pa.array([70, 2**63], pa.uint64()),
    "timestamp": pa.array([AT, None], pa.timestamp("ms", tz="Europe/Berlin")),
    "headers": pa.array([[{"key": "a", "value": b"b"}], None], pa.large_list(PAIR)),
}


def test_columns_of_captures_in_a_store(spark_session: SparkSession, tmp_path: Path, store: StorePlace) -> None:
    """The columns equal those that Spark derives from the same file in a folder, whatever wrote it."""
    written = tmp_path / "x.parquet"
    pq.write_table(pa.table(OTHERS), written)
    (store / "x.parquet").write(written.read_bytes())
    (store / "y.parquet").write(b"")
    whole = KAFKA.load(spark_session, [str(written)], {}).collect()
    for text in (f"{store}/x.parquet", str(store), f"{store}/*.parquet"):
        rows_ = KAFKA.salvage(spark_session, [text], {}, store.storage).collect()
        assert [row.asDict() | {"source": ""} for row in rows_] == [row.asDict() | {"source": ""} for row in whole]
        assert {row["source"] for row in rows_} == {"kafka:t/3", f"{store}/x.parquet"}
    several = KAFKA.salvage(spark_session, [f"{store}/x.parquet"] * 3, {}, store.storage)
    assert several.rdd.getNumPartitions() == 3


def test_damaged_captures_in_a_store(job: Jobs, damaged: Path, tmp_path: Path, store: StorePlace) -> None:
    """The undamaged parts land, or the run stops and names the file."""
    for path in damaged.iterdir():
        (store / path.name).write(path.read_bytes())
    letters = tmp_path / "out" / "dead_letters"
    with pytest.raises(PipelineError, match=rf"^cannot read {store}/[bc].parquet: "):
        run(job(store, on_damaged_file="stop"))
    assert not letters.exists()
    assert run(job(store)).landed == 170
    rows = pq.read_table(letters).to_pylist()
    damages = {(row["source"], row["position"], row["violations"][0]["rule"]) for row in rows}
    assert damages == {(f"{store}/b.parquet", 20, "damaged_file"), (f"{store}/c.parquet", 0, "unreadable_file")}


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("none", {}, "the input .*/none is not there"),
        ("empty.parquet", {}, "the input .*/empty.parquet holds no files"),
        ("none.parquet", {}, r"cannot read .*/none.parquet: none of its files is Parquet"),
        ("x.parquet", {"key": "lost"}, "has no column 'lost' for the key"),
        ("x.parquet", {"format": "xml"}, "cannot read .*/x.parquet: for xml Spark needs a connector .* by --jars"),
    ],
)
def test_captures_in_a_store_that_are_refused(
    job: Jobs, tmp_path: Path, store: StorePlace, name: str, options: dict[str, str], words: str
) -> None:
    pq.write_table(pa.table({"value": ["a"]}), tmp_path / "x.parquet")
    for file, content in (("x", (tmp_path / "x.parquet").read_bytes()), ("none", b"PAR1none"), ("empty", b"")):
        (store / f"{file}.parquet").write(content)
    with pytest.raises(PipelineError, match=words):
        run(job(store / name, input_format=KAFKA.name, options=options))


def test_a_stream_of_captures_in_a_store_is_refused(job: Jobs, store: StorePlace) -> None:
    """The stream is read by Spark, which needs its own connector."""
    with pytest.raises(PipelineError, match=rf'cannot read {store} as parquet: .*scheme "?s3"?: give it the jars'):
        follow(job(store))
