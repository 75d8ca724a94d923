"""The first bytes of a file show its format."""

import gzip
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import Storage
from signalbook.pipeline.sources.detection import detect_format

EVENT = {"data": {"x": "y" * 100}, "specversion": "1.0", "id": "1", "type": "t", "source": "/s"}
REQUEST = {"method": "POST", "path": "/", "headers": {}, "body": "{}"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps(EVENT) + "\n" + json.dumps(EVENT), "cloudevents-jsonl"),
        (json.dumps([EVENT, EVENT]), "cloudevents-batch"),
        (json.dumps([EVENT, EVENT], indent=1), "cloudevents-batch"),
        (json.dumps({"specversion": "1.0", "data": "x" * 300_000}), "cloudevents-jsonl"),
        (json.dumps([EVENT] * 5000), "cloudevents-batch"),
        (json.dumps(REQUEST), "http-jsonl"),
        (json.dumps({"method": "card", "path": "x"}), "json"),
        ("\n\n" + json.dumps({"event": "a"}) + "\n{broken", "json"),
        (json.dumps([{"event": "a"}] * 50_000), "json"),
        (json.dumps({"event": "a"}, indent=2), "json"),
        ('{"broken', "json"),
        ("broken\n" + json.dumps(EVENT), "cloudevents-jsonl"),
    ],
)
def test_json_formats_are_distinguished_by_their_members(content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    for data in (content.encode(), gzip.compress(content.encode())):
        path.write_bytes(data)
        assert detect_format((str(path),), Storage()) == expected


def test_an_avro_container_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"Obj\x01...")
    (tmp_path / "empty").write_bytes(b"")
    assert detect_format((str(tmp_path),), Storage()) == "cloudevents-avro"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"value": [json.dumps(EVENT)]}, "cloudevents-captures"),
        ({"value": [json.dumps(EVENT)], "topic": ["t"]}, "kafka-captures"),
        ({"value": [b'{"event": "a"}']}, "kafka-captures"),
        ({"value": [None]}, "kafka-captures"),
    ],
)
def test_captures_are_known_by_their_column(columns: dict[str, Any], expected: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)
    if columns["value"] != [None]:
        assert detect_format((str(path),), Storage()) == expected
    fields = [{"name": name, "type": ["null", "string", "bytes"]} for name in columns]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, pa.table(columns).to_pylist())
    assert detect_format((str(path),), Storage()) == expected


def test_files_without_messages_do_not_decide(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Events")
    (tmp_path / "events.jsonl").write_text(json.dumps(EVENT))
    assert detect_format((str(tmp_path),), Storage()) == "cloudevents-jsonl"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,b,c\n1,2,3\n", "no line begins with a JSON object"),
        (b"PAR1...", "begins as Parquet and cannot be read"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "UTF-32"),
    ],
)
def test_other_files_are_refused_with_what_to_do(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(PipelineError, match=words):
        detect_format((str(path),), Storage())
