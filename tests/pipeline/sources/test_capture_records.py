"""Captured messages are read without Spark. ``test_captures`` compares the rows with those of Spark."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signalbook.pipeline import PipelineError
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.captures import CLOUDEVENTS, KAFKA

AT = datetime(2026, 1, 2, tzinfo=UTC)
TYPE = [{"key": "content-type", "value": b"application/cloudevents+json"}]


def read(path: Path) -> list[tuple[Any, ...]]:
    """Return place, body, key and headers of each message."""
    split = Split(path=str(path), start=0, end=path.stat().st_size)
    messages = [(batch, index) for batch in KAFKA.read(split) for index in range(len(batch))]
    rows = [(batch.location(index), KAFKA.message(batch, index)) for batch, index in messages]
    return [(at.path, at.position, row.body, row.sections["key"], row.sections["headers"]) for at, row in rows]


def test_kafka_records_are_read_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "capture.parquet"
    columns = {
        "Value": pa.array([b"a", None]), "key": pa.array(["k", None]), "topic": pa.array(["t", "t"]),
        "partition": pa.array(["3", "x"]), "offset": pa.array([70, 71]), "headers": pa.array([TYPE, None]),
        "timestamp": pa.array([AT, None], pa.timestamp("ns")),
    }  # fmt: skip
    pq.write_table(pa.table(columns), path)
    assert read(path) == [
        ("kafka:t/3", 70, b"a", b"k", (("content-type", b"application/cloudevents+json"),)),
        (str(path), 1, None, None, ()),
    ]


@pytest.mark.parametrize("kind", ["bytes", "string"])
def test_avro_containers_are_captures_too(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "topic=orders" / "capture.avro"
    path.parent.mkdir()
    schema = {"type": "record", "name": "r", "fields": [{"name": "value", "type": ["null", kind]}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"value": b"a" if kind == "bytes" else "a"}, {"value": None}])
    assert [row[1:3] for row in read(path)] == [(0, b"a"), (1, None)]
    split = Split(path=str(path), start=0, end=1)
    (batch,) = KAFKA.read(split)
    assert batch.record(0, "address") == {"address": "orders"}


def test_cloudevents_of_a_capture_have_no_transport(tmp_path: Path) -> None:
    path = tmp_path / "capture.parquet"
    pq.write_table(pa.table({"value": ["{}"], "topic": ["t"]}), path)
    (batch,) = CLOUDEVENTS.read(Split(path=str(path), start=0, end=1))
    message = CLOUDEVENTS.message(batch, 0)
    assert (message.protocol, message.content_type, message.body) == ("", "application/cloudevents+json", b"{}")


def test_damaged_file_is_an_unreadable_message(tmp_path: Path) -> None:
    path = tmp_path / "capture.parquet"
    path.write_bytes(b"PAR1" + b"\xff" * 100)
    (batch,) = KAFKA.read(Split(path=str(path), start=0, end=1))
    assert (batch.rule, len(batch)) == ("unreadable_file", 1)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"body": pa.array([b"a"])}, "no column 'value' with the bytes of messages; its columns are: body"),
        ({"value": pa.array([1.5])}, "is double, and messages are bytes or text"),
        ({"value": pa.array([[b"a"]])}, "is list<.*>, and messages are bytes or text"),
    ],
)
def test_tables_of_other_things_are_rejected(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(PipelineError, match=words):
        read(path)


def test_message_with_a_nested_topic_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"value": [b"a"], "topic": pa.array([[b"t"]])}), path)
    assert [body for _, _, body, _, _ in read(path)] == [b"a"]
