"""Captures in Avro containers have the rows that Spark's own package for Avro makes of them, in folders and stores."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.sources.test_capture_formats import COLUMNS, same, uploaded, written
from tests.pipeline.sources.test_captures import Jobs

from signalbook.pipeline import PipelineError, run
from signalbook.pipeline.places import Storage, StorePlace, place_of
from signalbook.pipeline.sources import avro_captures, salvage
from signalbook.pipeline.sources.capture_formats import read_containers
from signalbook.pipeline.sources.captures import KAFKA
from signalbook.values import JSONObject

# As Azure's Event Hubs captures messages.
_ANY = ["long", "double", "string", "bytes"]
EVENT_DATA: JSONObject = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": {"type": "map", "values": _ANY}},
        {"name": "Properties", "type": {"type": "map", "values": [*_ANY, "null"]}},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}


def record(**fields: Any) -> JSONObject:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": of} for name, of in fields.items()]}


def container(path: Path, schema: JSONObject, rows: Sequence[JSONObject], **more: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, **more)
    return path


def event_data(body: str, **properties: Any) -> JSONObject:
    return {
        "SequenceNumber": 7, "Offset": "4294967296", "EnqueuedTimeUtc": "11/28/2026 4:00:00 PM",
        "SystemProperties": {"x-opt-enqueued-time": 1}, "Properties": properties, "Body": body.encode(),
    }  # fmt: skip


def test_rows_are_those_of_spark(spark_session: SparkSession, tmp_path: Path, store: StorePlace) -> None:
    """The files are those that Spark writes with snappy, in a folder and in a store."""
    written(spark_session, "avro", tmp_path / "in", COLUMNS)
    uploaded(tmp_path / "in", store)
    for root in (store, place_of(tmp_path / "in")):
        assert len(same(spark_session, tmp_path / "in", root, {"format": "avro"})) == 9


@pytest.mark.parametrize(
    "codec", ["deflate", *(pytest.param(codec, marks=pytest.mark.merge) for codec in ("null", "bzip2", "xz"))]
)
def test_types_are_those_of_spark(spark_session: SparkSession, tmp_path: Path, codec: str) -> None:
    """The files are those of other writers: with unions, logical types and null values."""
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    pair = {"type": "record", "name": "Pair", "fields": [
        {"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]},
    ]}  # fmt: skip
    fields: JSONObject = {
        "value": ["null", "string"],
        "KEY": {"type": "fixed", "name": "F", "size": 2},
        "headers": ["null", {"type": "array", "items": pair}],
        "topic": {"type": "enum", "name": "E", "symbols": ["a", "b"]},
        "partition": "int",
        "offset": ["int", "long"],
        "timestamp": ["null", millis],
        "day": {"type": "int", "logicalType": "date"},
        "map": {"type": "map", "values": ["double", "float", "null"]},
    }
    plain = {"day": 5, "map": {"x": 1.5, "y": None}, "KEY": b"ab", "topic": "a", "partition": 1}
    rows: list[JSONObject] = [
        plain | {"value": "x", "offset": 1, "timestamp": 1_700_000_000_123, "headers": [{"key": "h", "value": b"v"}]},
        plain | {"value": None, "offset": 2**40, "timestamp": None, "headers": None, "topic": "b"},
    ]
    path = container(tmp_path / "in" / "a.avro", record(**fields), rows, codec=codec)
    frame = read_containers(spark_session, str(path), ["Value", *list(fields)[1:]], Storage())
    ours = [row.asDict(recursive=True) for row in frame.collect()]
    theirs = [row.asDict(recursive=True) for row in spark_session.read.format("avro").load(str(path)).collect()]
    assert [{name: row[name] for name in fields} for row in ours] == theirs
    assert [row["_signalbook_row"] for row in ours] == [0, 1]


def test_unions_are_text_or_bytes(spark_session: SparkSession, tmp_path: Path) -> None:
    """Text and bytes stay unchanged; other values and recursive types become JSON."""
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": ["null", "Tree"]}]}
    schema = record(value=_ANY, tree=tree, some={"type": "array", "items": ["boolean", "string"]})
    values: list[Any] = ["a b", b"\xffc", 7, 2.5]
    tree_in_tree = {"below": {"below": None}}
    rows: list[JSONObject] = [{"value": value, "tree": tree_in_tree, "some": [True, "x"]} for value in values]
    path = container(tmp_path / "a.avro", schema, rows)
    rows_ = read_containers(spark_session, str(path), ["value", "tree", "some"], Storage()).collect()
    assert [bytes(row["value"]) for row in rows_] == [b"a b", b"\xffc", b"7", b"2.5"]
    assert {(row["tree"], tuple(row["some"])) for row in rows_} == {('{"below":{"below":null}}', ("true", "x"))}


def test_out_of_range_numbers_are_null(spark_session: SparkSession, tmp_path: Path) -> None:
    """A varint of Avro may be any."""
    head = container(tmp_path / "a.avro", record(value="string", partition="int"), []).read_bytes()
    block = b"\x04\x14" + b"\x02a\x06" + b"\x02b\x80\x80\x80\x80\x80\x40"
    block = b"\x04" + bytes([2 * (len(block) - 2)]) + block[2:]
    (tmp_path / "a.avro").write_bytes(head + block + head[-16:])
    rows = read_containers(spark_session, str(tmp_path / "a.avro"), ["value", "partition"], Storage()).collect()
    assert [(row["value"], row["partition"], row["_signalbook_why"]) for row in rows] == [
        ("a", 3, None), ("b", None, None)
    ]  # fmt: skip


def test_out_of_range_times_are_null(spark_session: SparkSession, tmp_path: Path) -> None:
    millis, day = {"type": "long", "logicalType": "timestamp-millis"}, {"type": "int", "logicalType": "date"}
    rows = [{"value": "a", "timestamp": 10**12, "day": 1}, {"value": "b", "timestamp": 10**15, "day": 2**31 - 1}]
    path = container(tmp_path / "a.avro", record(value="string", timestamp=millis, day=day), rows)
    frame = read_containers(spark_session, str(path), ["timestamp", "day"], Storage())
    first, last = frame.selectExpr("unix_millis(timestamp) AS at", "CAST(day AS string) AS day").collect()
    assert (first["at"], first["day"]) == (10**12, "1970-01-02")
    assert (last["at"], last["day"]) == (None, None)


def test_captures_of_event_hubs_land(
    spark_session: SparkSession, job: Jobs, parcels: Any, tmp_path: Path, store: StorePlace
) -> None:
    """The captures are read from a store, without a package of Spark's."""
    bodies = [json.dumps(parcels.event(0)), "{", json.dumps(parcels.event(2))]
    path = container(tmp_path / "in" / "00.avro", EVENT_DATA, [event_data(body, n=1, s="x") for body in bodies])
    (store / "hub" / "0" / "00.avro").write(path.read_bytes())
    report = run(job(store, options={"format": "avro", "value": "Body"}))
    assert (report.landed, report.tally.reasons) == (2, {"decode_error": 1})
    (letter,) = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    assert (letter["source"], letter["position"]) == (f"{store}/hub/0/00.avro", 1)
    properties = {"format": "avro", "value": "Body", "headers": "Properties"}
    row = KAFKA.salvage(spark_session, [str(store)], properties, store.storage).collect()[0]
    assert [(pair["name"], bytes(pair["value"])) for pair in row["headers"]] == [("n", b"1"), ("s", b"x")]


@pytest.fixture
def damaged(tmp_path: Path, parcels: Any) -> Path:
    """A folder of files: whole, with a damaged block in its midst, cut off, no container, nothing, no records."""
    folder = tmp_path / "damaged"
    schema = record(value="string")
    for name, first in (("a", 0), ("b", 100), ("c", 200)):
        events = [{"value": json.dumps(parcels.event(first + number))} for number in range(30)]
        container(folder / f"{name}.avro", schema, events, sync_interval=1)
    content = (folder / "b.avro").read_bytes()
    spoiled = content.index(b'"P110"')
    (folder / "b.avro").write_bytes(content[: spoiled - 300] + b"\xff" * 200 + content[spoiled - 100 :])
    (folder / "c.avro").write_bytes((folder / "c.avro").read_bytes()[:-30])
    (folder / "d.avro").write_bytes(b"x" * 100)
    (folder / "e.avro").write_bytes(b"")
    container(folder / "f.avro", {"type": "string"}, ["a"])  # type: ignore[list-item]
    return folder


def test_truncated_compressed_file_is_one_damage(spark_session: SparkSession, tmp_path: Path) -> None:
    rows = [{"value": Random(number).randbytes(5000).hex()} for number in range(100)]
    path = container(tmp_path / "a.avro", record(value="string"), rows)
    packed = gzip.compress(path.read_bytes())
    (tmp_path / "a.avro.gz").write_bytes(packed[: len(packed) // 2])
    rows_ = read_containers(spark_session, str(tmp_path / "a.avro.gz"), ["value"], Storage()).collect()
    assert [row["_signalbook_rule"] for row in rows_ if row["value"] is None] == ["damaged_file"]
    assert "gzip" in rows_[-1]["_signalbook_why"]
    assert 0 < len(rows_) - 1 < 100
    assert [row["_signalbook_row"] for row in rows_] == list(range(len(rows_)))


def test_wide_records_are_trimmed(spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of several blocks are rows of one batch."""
    wide = {f"n{number}": "null" for number in range(1000)}
    rows = [dict.fromkeys(wide) | {"value": str(number)} for number in range(50)]
    path = container(tmp_path / "a.avro", record(value="string", **wide), rows, sync_interval=1)
    held = list[Any]()
    batch = avro_captures._Records._build_batch

    def noting(records: Any, rows: list[Any], names: list[str]) -> pa.RecordBatch:
        held.extend(rows)
        return batch(records, rows, names)

    monkeypatch.setattr(avro_captures._Records, "_build_batch", noting)
    (file,) = salvage.list_files(spark_session, str(path), Storage())
    schema = pa.schema([("value", pa.string()), ("_signalbook_row", pa.int64())])
    (batch_,) = avro_captures.read_container(file, schema)
    assert held == [[str(number)] for number in range(50)]
    assert batch_.column("_signalbook_row").to_pylist() == list(range(50))


@pytest.mark.parametrize("where", ["s3proxy", pytest.param("local", marks=pytest.mark.merge)])
def test_undamaged_records_land(job: Jobs, damaged: Path, tmp_path: Path, store: StorePlace, where: str) -> None:
    uploaded(damaged, store)
    root = damaged if where == "local" else store
    options = {"format": "avro"}
    with pytest.raises(PipelineError, match=r"^cannot read .*/[bcdf]\.avro: "):
        run(job(root, options=options, on_damaged_file="stop"))
    report = run(job(root, options=options))
    letters = pq.read_table(tmp_path / "out" / "dead_letters").to_pylist()
    letters_by_file = {letter["source"].rpartition("/")[2]: letter for letter in letters}
    rules = {name: letter["violations"][0]["rule"] for name, letter in letters_by_file.items()}
    assert rules == {
        "b.avro": "damaged_file", "c.avro": "damaged_file", "d.avro": "unreadable_file", "f.avro": "unreadable_file",
    }  # fmt: skip
    assert letters_by_file["c.avro"]["position"] == 29
    ids = pq.read_table(tmp_path / "out" / "tables")["id"].to_pylist()
    whole = {f"P{number}" for number in [*range(30), *range(100, 130), *range(200, 229)]}
    assert len(ids) == len(set(ids)) == report.landed
    assert set(ids) < whole
    assert len(whole - set(ids)) in (1, 2)  # in the block of one, or of two, that the damage goes through
    assert {f"P{number}" for number in (*range(100, 109), *range(112, 130))} < set(ids)


def test_blocks_with_wrong_counts(spark_session: SparkSession, tmp_path: Path) -> None:
    """Records without bytes may be any number, bytes may follow the last, and values may end early."""
    head = container(tmp_path / "a.avro", record(value="null"), []).read_bytes()
    sync = head[-16:]
    (tmp_path / "a.avro").write_bytes(head + b"\xfe\xff\xff\xff\xff\xff\x7f" + b"\x00" + sync)
    head = container(tmp_path / "b.avro", record(value="string"), []).read_bytes()
    blocks = [b"\x02\x06\x02ax", b"\x02\x04\x7fa", b"\x04\x06\x02a\x02"]
    (tmp_path / "b.avro").write_bytes(head + b"".join(block + head[-16:] for block in blocks))
    rows = read_containers(spark_session, str(tmp_path), ["value"], Storage()).collect()
    results = [(row["value"], row["_signalbook_row"], row["_signalbook_why"]) for row in rows]
    assert [result[:2] for result in results] == [(None, 0), ("a", 0), (None, 1), (None, 1), ("a", 2), (None, 3)]
    assert [result[2].partition(": ")[2].partition(":")[0] for result in results if result[2]] == [
        "its records take no bytes", "1 bytes follow the last record", "not a record of its schema",
        "not a record of its schema",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("d.avro", r"cannot read file:\S+/d\.avro: it is no Avro object container file"),
        ("f.avro", r"cannot read file:\S+/f\.avro: the Avro container holds no records"),
        ("e.avro", r"/e\.avro holds no files"),
        ("none.avro", r"cannot list .*none\.avro"),
    ],
)
def test_inputs_that_are_refused(job: Jobs, damaged: Path, tmp_path: Path, name: str, words: str) -> None:
    """Rejected inputs leave no output."""
    with pytest.raises(PipelineError, match=words):
        run(job(damaged / name, options={"format": "avro"}))
    assert not (tmp_path / "out").exists()
