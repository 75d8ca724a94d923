"""Containers of CloudEvents as other programs write them, whole and damaged."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from signalbook.messages.eventformats.avro import CLOUDEVENTS_SCHEMA
from signalbook.pipeline import PipelineError
from signalbook.pipeline.sources import avro, files
from signalbook.pipeline.sources.avro import CONTAINER
from signalbook.pipeline.sources.base import Split, UnreadableMessage

SYNC = b"0123456789abcdef"
ENUM = {"type": "enum", "name": "E", "symbols": ["a"]}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "a", "type": "long"}]}
ReadMessage = tuple[bytes, int, str]
Read = Callable[..., list[ReadMessage]]


def event(number: int, data: Any = None) -> dict[str, Any]:
    return {"attribute": {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}, "data": data}


def container(
    count: int = 9, codec: str = "null", schema: Any = CLOUDEVENTS_SCHEMA, records: Any = None, interval: int = 100
) -> bytes:
    stream = BytesIO()
    events = [event(i, {"a": 1.0}) for i in range(count)] if records is None else records
    fastavro.writer(stream, schema, events, codec=codec, sync_interval=interval, sync_marker=SYNC)
    return stream.getvalue()


def record(number: int) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(CLOUDEVENTS_SCHEMA), event(number, {"a": 1.0}))
    return stream.getvalue()


def block(count: int, content: bytes) -> bytes:
    head = BytesIO()
    fastavro.schemaless_writer(head, "long", count)
    fastavro.schemaless_writer(head, "long", len(content))
    return head.getvalue() + content + SYNC


def header(codec: bytes = b"null", schema: Any = CLOUDEVENTS_SCHEMA) -> bytes:
    stream = BytesIO()
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec}
    fastavro.schemaless_writer(stream, {"type": "map", "values": "bytes"}, meta)
    return b"Obj\x01" + stream.getvalue() + SYNC


@pytest.fixture
def read(tmp_path: Path) -> Read:

    def messages(content: bytes, cuts: tuple[int, ...] = (), name: str = "events.avro") -> list[ReadMessage]:
        path = tmp_path / name
        path.write_bytes(content)
        splits = [Split(path=str(path), start=start, end=end) for start, end in pairwise((0, *cuts, len(content)))]
        return [message for split in splits for message in messages_of(CONTAINER, split)]

    return messages


def messages_of(source: Any, split: Split) -> Iterator[ReadMessage]:
    """Yield each message: its bytes, its position, and why it is unreadable."""
    for batch in source.read(split):
        for index in range(len(batch)):
            try:
                fault = "" if source.message(batch, index).body == batch.raw(index) else "another body"
            except UnreadableMessage as error:
                fault = str(error)
            yield batch.raw(index), int(batch.positions[index]), fault


WHOLE = [(record(number), number, "") for number in range(9)]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_records_are_read_with_any_codec(read: Read, codec: str) -> None:
    """Records are read with every codec (K-22)."""
    assert read(container(codec=codec)) == WHOLE


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_arrow_codecs_are_supported(read: Read, codec: str) -> None:
    content = record(0)
    if codec == "zstandard":
        packed = pa.Codec("zstd").compress(content, asbytes=True)
    else:
        packed = pa.Codec("snappy").compress(content, asbytes=True) + zlib.crc32(content).to_bytes(4, "big")
    assert read(header(codec.encode()) + block(1, packed)) == WHOLE[:1]


def test_splits_have_each_record_once(read: Read) -> None:
    content = container()
    for cut in range(1, len(content), 17):
        assert read(content, cuts=(cut,)) == WHOLE


def test_another_name_and_documentation_do_not_matter(read: Read) -> None:
    """The text of the specification and its schema file use different names of records (K-22)."""
    text = (
        json.dumps(CLOUDEVENTS_SCHEMA).replace('"Event"', '"AvroCloudEvent"').replace('"Value"', '"AvroCloudEventData"')
    )
    schema = json.loads(text.replace('"string"', '{"type": "string", "avro.java.string": "String"}'))
    assert read(container(schema={**schema, "namespace": "io.cloudevents", "doc": "x"})) == WHOLE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PAR1" + b"x" * 100, "it is no Avro object container"),
        (b"Obj\x01", "header of the Avro container is damaged"),
        (container()[:300], "header of the Avro container is damaged"),
        (header(b"lzo"), "no decoder for codec 'lzo'"),
        (header(schema={"type": "nonsense"}), "schema in the Avro container cannot be used"),
        (container(schema=OTHER, records=[{"a": 1}]), "Other.* is not that of the CloudEvents"),
        (container(schema="string", records=["x"]), "not that of the CloudEvents"),
        (container(schema=ENUM, records=["a"]), "not that of the CloudEvents"),
    ],
)
def test_files_that_are_refused(read: Read, content: bytes, words: str) -> None:
    with pytest.raises(PipelineError, match=words):
        read(content)


BLOCKS = [block(2, record(2 * i) + record(2 * i + 1)) for i in range(3)]


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (BLOCKS[1][:-16] + b"x" * 16, "damaged"),
        (b"\xff" * 30, "damaged"),
        (block(-3, record(2)), "damaged"),
        (b"\x04\xff\xff\xff\xff\x7f" + b"x" * 20, "damaged"),
        (block(2, b"\xff" * 50), "not a CloudEvent in Avro"),
    ],
    ids=["marker", "numbers", "count", "size", "record"],
)
def test_reading_continues_after_damage(read: Read, damaged: bytes, words: str) -> None:
    results = read(header() + BLOCKS[0] + damaged + (b"" if damaged.endswith(SYNC) else SYNC) + BLOCKS[2])
    good = [raw for raw, _, fault in results if not fault]
    assert good[:2] + good[-2:] == [record(number) for number in (0, 1, 4, 5)]
    assert [position for _, position, _ in results] == sorted({position for _, position, _ in results})
    assert any(words in fault for _, _, fault in results)


def test_truncated_container_is_read_up_to_the_cut(read: Read) -> None:
    whole = header() + b"".join(BLOCKS)
    for cut in range(len(header()) + 1, len(whole), 13):
        results = read(whole[:cut])
        assert results[: len(results) - 1] == WHOLE[: len(results) - 1]
        assert "cut off" in results[-1][2] or results == WHOLE[: len(results)]


@pytest.mark.parametrize(
    ("content", "count", "words"),
    [
        (record(0) + b"more", 1, "4 bytes follow"),
        (record(0), 2**40, "not a CloudEvent"),
        (record(0)[:-1], 1, "not a CloudEvent"),
    ],
)
def test_blocks_with_a_wrong_count_are_reported(read: Read, content: bytes, count: int, words: str) -> None:
    results = read(header() + block(count, content))
    assert words in results[-1][2]


def test_block_with_an_impossible_count_does_not_affect_others(read: Read) -> None:
    results = read(header() + block(2**62, record(0)) + block(2**62, record(1)) + block(1, record(2)))
    assert [raw for raw, _, fault in results if not fault] == [record(0), record(1), record(2)]
    assert [position for _, position, _ in results] == sorted({position for _, position, _ in results})


def test_a_block_of_many_records_is_frames_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 200)
    path = tmp_path / "events.avro"
    path.write_bytes(header() + block(9, b"".join(raw for raw, _, _ in WHOLE)))
    split = Split(path=str(path), start=0, end=path.stat().st_size)
    batches = list(CONTAINER.read(split))
    assert len(batches) > 2
    assert all(len(batch.content) < 300 for batch in batches)
    assert list(messages_of(CONTAINER, split)) == WHOLE


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_undecompressable_block_is_one_message(read: Read, codec: str) -> None:
    results = read(header(codec.encode()) + block(5, b"garbage"))
    assert [(raw, position) for raw, position, _ in results] == [(b"garbage", 0)]
    assert f"cannot be unpacked by {codec}" in results[0][2]


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_bomb_is_not_unpacked(read: Read, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr(avro, "MAX_BLOCK", 200_000)
    results = read(container(codec=codec, records=[event(0, bytes(1_000_000))]))
    assert len(results) == 1
    assert "cannot be unpacked" in results[0][2] or "more than 200000 bytes" in results[0][2]


def test_damaged_compressed_file_is_decompressed_once(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back in the file means decompressing it again, which would take hours for damage every few bytes."""
    damage = b"\xff" * 12 + SYNC, b"\x04\x80\x80\x40" + b"x" * 9 + SYNC
    back: list[Any] = []
    monkeypatch.setattr("gzip._GzipReader._rewind", lambda reader: back.append(reader))
    results = read(gzip.compress(header() + b"".join(damage) * 500), name="events.avro.gz")
    assert (len(results), back) == (1000, [])
    assert {"damaged" in fault for _, _, fault in results} == {True}


def test_an_empty_file_that_is_packed_has_no_messages(read: Read) -> None:
    assert read(gzip.compress(b""), name="events.avro.gz") == []


def test_a_file_without_markers_is_not_read_to_its_end(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_BLOCK", 1000)
    monkeypatch.setattr(avro, "_PIECE", 100)
    monkeypatch.setattr(avro, "KEPT", 10)
    *before, (raw, position, fault) = read(header() + block(1, record(2)) + b"\xff" * 5000)
    assert (len(before), raw, position) == (1, b"\xff" * 10, 1)
    assert "from here on there is no block" in fault
