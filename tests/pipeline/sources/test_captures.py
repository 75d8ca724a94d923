"""Rows of messages in Parquet files, as Spark and connectors write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from signalbook.pipeline import Job, PipelineError, run
from signalbook.pipeline.sources.captures import CLOUDEVENTS, KAFKA

AT = datetime(2026, 1, 2, tzinfo=UTC)
TYPE = [{"key": "content-type", "value": b"application/cloudevents+json"}]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., str]:
    """A Parquet file of such columns."""

    def written(name: str = "capture.parquet", **columns: Any) -> str:
        path = tmp_path / name
        pq.write_table(pa.table(columns), path)
        return str(path)

    return written


@pytest.fixture
def rows(spark_session: SparkSession, capture: Callable[..., str]) -> Rows:
    """The canonical rows of a file with such columns."""

    def brought(options: dict[str, str] | None = None, **columns: Any) -> list[dict[str, Any]]:
        frame = KAFKA.load(spark_session, [capture(**columns)], options or {})
        return [row.asDict(recursive=True) for row in frame.collect()]

    return brought


def test_a_value_is_enough(rows: Rows) -> None:
    (first, second) = rows(value=pa.array([b"a", None]))
    assert (first["value"], second["value"], second["position"]) == (b"a", None, 1)
    assert first["source"].endswith("capture.parquet")
    assert {first[name] for name in ("address", "partition", "key", "headers", "received_at")} == {None}


def test_columns_as_spark_writes_them(rows: Rows) -> None:
    """K-7: what there is of a record has its place."""
    (row, lost) = rows(
        value=pa.array([b"a", b"b"]), key=pa.array([b"k", None]), topic=pa.array(["t", "t"]),
        partition=pa.array([3, None], pa.int32()), offset=pa.array([70, 71], pa.int64()),
        timestamp=pa.array([AT, None], pa.timestamp("us", tz="UTC")), headers=pa.array([TYPE, None]),
    )  # fmt: skip
    assert (row["source"], row["position"], row["partition"], row["address"], row["key"]) == (
        "kafka:t/3",
        70,
        3,
        "t",
        b"k",
    )
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
def test_times_as_programs_write_them(rows: Rows, times: pa.Array) -> None:
    first, second = rows(value=pa.array([b"a", b"b"]), timestamp=times)
    assert (first["received_at"].astimezone(UTC), second["received_at"]) == (AT, None)


def test_a_row_that_does_not_fit_its_columns_ends_nothing(rows: Rows) -> None:
    found = rows(
        value=pa.array([b"a"] * 4), topic=pa.array([b"t", b"\xff", b"t", b"t"]),
        partition=pa.array(["3", "3", "x", str(2**40)]), offset=pa.array(["7", "8", "9", "10"]),
        headers=pa.array([[{"k": b"\xff", "v": b"\xff"}]] * 4),
    )  # fmt: skip
    assert [(row["source"].rpartition("/")[2], row["position"], row["partition"]) for row in found[1:]] == [
        ("3", 8, 3),
        ("capture.parquet", 2, None),
        ("capture.parquet", 3, None),
    ]
    assert {(header["name"], header["value"]) for row in found for header in row["headers"]} == {("\ufffd", b"\xff")}


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


def test_a_file_that_is_none(spark_session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 100)
    with pytest.raises(PipelineError, match=r"cannot read .*footer"):
        KAFKA.load(spark_session, [str(path)], {})


def test_events_of_a_column_land(
    spark_session: SparkSession, capture: Callable[..., str], definitions: Path, parcels: Any, tmp_path: Path
) -> None:
    """K-45: a bad row is found by its file and number."""
    texts = [json.dumps(parcels.event(0)), "{", json.dumps(parcels.event(2))]
    path = capture(event=pa.array(texts))
    job = Job(
        registry=str(definitions), inputs=(path,), output=tmp_path / "out", table_format="parquet",
        input_format=CLOUDEVENTS.name, options={"value": "event"},
    )  # fmt: skip
    report = run(job).to_json()
    assert (report["read"], report["landed"], report["dead_lettered"]) == (3, 2, 1)
    (letter,) = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    assert (letter["original"], letter["position"], letter["reason"]) == (b"{", 1, "decode_error")
    assert letter["source"].endswith("/capture.parquet")
    landed = pq.read_table(tmp_path / "out" / "tables").to_pylist()
    assert {(row["id"], row["_position"], row["_protocol"]) for row in landed} == {("P0", 0, None), ("P2", 2, None)}


def test_captured_records_land(
    spark_session: SparkSession, capture: Callable[..., str], definitions: Path, parcels: Any, tmp_path: Path
) -> None:
    """K-21: structured and binary events, as they were on the topic."""
    head = [
        {"key": f"ce_{name}", "value": str(parcels.event()[name]).encode()}
        for name in ("id", "source", "type", "specversion")
    ]
    path = capture(
        value=pa.array([json.dumps(parcels.event(0)).encode(), json.dumps({"id": "P1", "weight": 1}).encode(), None]),
        headers=pa.array([TYPE, head, None]), topic=pa.array(["t"] * 3),
        partition=pa.array([0] * 3), offset=pa.array([5, 6, 7]),
    )  # fmt: skip
    job = Job(
        registry=str(definitions), inputs=(path,), output=tmp_path / "out", table_format="parquet",
        input_format=KAFKA.name,
    )  # fmt: skip
    report = run(job).to_json()
    assert (report["landed"], report["reasons"]) == (2, {"not_cloudevent": 1})
    landed = pq.read_table(tmp_path / "out" / "tables").to_pylist()
    assert {(row["id"], row["_source"], row["_position"]) for row in landed} == {
        ("P0", "kafka:t/0", 5),
        ("P1", "kafka:t/0", 6),
    }
