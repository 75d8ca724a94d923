"""Records of a Kafka topic, as Spark brings them, and events in binary mode with all that can be wrong with them."""

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import RECORD_TYPES

AT = datetime(2026, 1, 2, tzinfo=UTC)


def rows(
    *pairs: tuple[bytes | None, Sequence[tuple[str, bytes | None]]],
    partition: int = 0,
    topic: str | None = "orders",
    keys: Sequence[bytes | None] = (b"k",),
) -> pa.RecordBatch:
    rows_ = [
        {
            "protocol": "KAFKA",
            "source": f"kafka:orders/{partition}",
            "position": 7 + number,
            "address": topic,
            "partition": partition,
            "key": keys[number % len(keys)],
            "value": value,
            "headers": [{"name": name, "value": text} for name, text in headers] or None,
            "received_at": AT,
        }
        for number, (value, headers) in enumerate(pairs)
    ]
    return pa.RecordBatch.from_pylist(rows_, RECORD_TYPES)


def batches(
    *pairs: tuple[bytes | None, Sequence[tuple[str, bytes | None]]],
    topic: str | None = "orders",
    keys: Sequence[bytes | None] = (b"k",),
) -> list[base.MessageBatch]:
    """Return the records of a topic in batches, as sources yield them."""
    return list(base.read_record_batches(rows(*pairs, topic=topic, keys=keys)))


HEAD = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/depots/7", "ce_type": b"parcel.accepted"}


def event_headers(changes: Mapping[str, bytes | None] | None = None) -> list[tuple[str, bytes]]:
    """Return the headers of an event in binary mode with changes, where None removes one."""
    return [(name, value) for name, value in {**HEAD, **(changes or {})}.items() if value is not None]


TIMES = (
    *("2026-01-02T03:04:05.123456789Z", "2026-01-02t03:04:05z", "2026-01-02T03:04:05+02:00", "2026-01-02T03:04:60Z"),
    *("2026-02-30T03:04:05Z", "0000-01-01T00:00:00Z", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05", "", None),
)
OLD_AVRO = {"type": "record", "name": "Measure", "fields": [{"name": "id", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "Measure",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "weight", "type": ["null", "double"], "default": None},
        {"name": "sides", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "how", "type": {"type": "enum", "name": "How", "symbols": ["HAND", "BELT"]}, "default": "HAND"},
    ],
}
PROTO = """syntax = "proto3";
message Scan {
  enum How { HAND = 0; BELT = 1; }
  message Size { sint32 l = 1; uint64 w = 2; }
  string id = 1; optional double weight = 2; How how = 3; repeated int32 sides = 4; Size size = 5;
  repeated string marks = 6;
}"""


def written(format: str, schema: str) -> dict[str, str]:
    return {"dataschemaformat": format, "dataschemauri": f"/schemagroups/parcels/schemas/{schema}"}


def write_datum(schema: Any, value: Any) -> bytes:
    """Return a value in Avro, without its schema."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def _by_arrow(codec: str, body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda body: _by_arrow("brotli", body),
    "zstd": lambda body: _by_arrow("zstd", body),
    "GZIP, identity": gzip.compress,
    "deflate,gzip": lambda body: gzip.compress(zlib.compress(body)),
    "compress": lambda body: body,
    " identity ": lambda body: body,
}

TYPED = {
    **{f"parcel.{name}": "application/json" for name in ("accepted", "pushed", "sorted", "routed", "sent", "lost")},
    "parcel.noted": "text/plain",
    "parcel.gone": "",
    "parcel.measured": "application/avro",
    "parcel.scanned": "application/protobuf",
}
JSON_VALUES = (
    *(json.dumps(data).encode() for data in ({"id": "P", "weight": 1}, {"id": "ü", "weight": 2.5, "size": {"l": 1.0}})),
    *(b'{"id":"P","weight":-1}', b'{"id":"P","weight":1,"x":"\xff"}'),
    b'{"id":"P","weight":1,"size":{"l":99999999999999999999}}',
    *(b'{"id":"P","weight":1,"extra":' + b"[" * depth + b"]" * depth + b"}" for depth in (3, 400, 70_000)),
    *(b'{"id":"P","id":"Q","weight":1}', b'{"id":"P","weight":1,"x":{"y":1,"y":2}}', b'{"id":1,"id":2,"weight":1}'),
    *(b"", b"{", b"null", b"\xef\xbb\xbf{}", b'{"id":"P","weight":1}\n', b'{"id":"P","weight":1} {}'),
)
AVRO_VALUES = (
    write_datum(AVRO, {"id": "P", "weight": 1.5, "sides": [1, -2, 300], "how": "BELT"}),
    write_datum(AVRO, {"id": "", "weight": None, "sides": [], "how": "HAND"}),
    *(b"", b"\x02P", b"\x02P\x00\x00\x04", b"\x02P\x00\x00\x02x", b"\x02\xff\x00\x00\x00", b"\x02P\x04\x00\x00"),
    *(b"\x02P\x00\x01\x02\x06\x00\x00", b"\x02P\x00\x02\xfe\xff\xff\xff\x1f\x00\x00"),
    *(b"\xff" * 20, b"\x01P\x00\x00\x00"),
)
PROTO_VALUES = (
    b"\x0a\x01P\x11\x00\x00\x00\x00\x00\x00\xf0?\x18\x01\x22\x03\x01\xac\x02\x2a\x04\x08\x03\x10\x05\x32\x01a\x32\x00",
    b"\x22\x0a" + b"\xff" * 9 + b"\x01\x2a\x00",
    *(b"", b"\x0a\x01P\x0a\x01Q", b"\x18\x05", b"\x20\x07\x20\x08", b"\x0a\x02\xff\xfe"),
    *(b"\x0a\x05P", b"\x38\x01", b"\x08\x01"),
    *(b"\x2a\x02\x08\x01\x2a\x02\x10\x02", b"\xff" * 12, b"\x0b" * 50, b"\x18\x01\x0a\x01P", b"\x8a\x00\x01P"),
)
VALUES = st.one_of(
    *(st.sampled_from(found) for found in (JSON_VALUES, AVRO_VALUES, PROTO_VALUES)), st.binary(max_size=9)
)
CONTENT_TYPES = (
    *(b"application/json", b"application/avro", b"application/protobuf", b"application/octet-stream"),
    *(b"text/plain", b""),
    *(b"application/vnd.apache.avro; charset=x", b"avro/binary", b"application/x+json", b"\xff", b"x", None),
    *(b"application/cloudevents+json", b"APPLICATION/CloudEvents+avro", b"application/cloudevents-batch+json"),
)
WIRE_PREFIXES = (b"\0\0\0\0\6", b"\0\0\0\0\7", b"\0\0\0\0\x08\0", b"\0\0\0\0\x09", b"\0\0")
DATASCHEMA = b"https://x/schemagroups/parcels/schemas/"
CHANGES = st.one_of(
    st.tuples(st.just("content-type"), st.sampled_from(CONTENT_TYPES)),
    st.tuples(
        st.sampled_from(["ce_id", "ce_source", "ce_specversion", "ce_type"]),
        st.sampled_from([b"1.0", b"", b"\xff", None]),
    ),
    st.tuples(st.just("ce_source"), st.sampled_from([b"/depots/9", b"/depots/a b", b"/elsewhere", b"/depots/%41"])),
    st.tuples(st.just("ce_time"), st.sampled_from([(text or "soon").encode() for text in TIMES])),
    st.tuples(
        st.just("ce_dataschema"),
        st.sampled_from([DATASCHEMA + b"measure/versions/1", DATASCHEMA + b"parcel/versions/1", b"/x"]),
    ),
    st.tuples(
        st.sampled_from(["ce_subject", "ce_flag", "ce_partition", "ce_Bad", "ce_data", "ce_", "ce_datacontenttype"]),
        st.sampled_from([b"s", b"", "ü".encode(), b"\x00", b"\xc3", None]),
    ),
    st.tuples(
        st.sampled_from(["content-encoding", "Content-Type", "trace", "CE_id"]),
        st.sampled_from([b"gzip", b"", b"\xff"]),
    ),
)


@st.composite
def kafka_records(draw: st.DrawFn) -> tuple[bytes | None, list[tuple[str, bytes | None]]]:
    """Mostly an event in binary mode that fits its definition, then changed in several ways, or in none."""
    kind, content_type = draw(st.sampled_from(list(TYPED.items())))
    headers: list[tuple[str, bytes | None]] = [*event_headers({"ce_type": kind.encode()})]
    attributes = {name.removeprefix("ce_"): (text or b"").decode() for name, text in headers}
    if content_type:
        headers.append(("content-type", content_type.encode()))
    fitting = {"application/avro": AVRO_VALUES, "application/protobuf": PROTO_VALUES}.get(content_type, JSON_VALUES)
    value = draw(st.one_of(st.just(fitting[0]), st.sampled_from(fitting), st.sampled_from(fitting), VALUES, st.none()))
    if value is not None and draw(st.integers(0, 4)) == 0:
        value = draw(st.sampled_from(WIRE_PREFIXES)) + value
    if value is not None and draw(st.integers(0, 4)) == 0:
        encoding, encode = draw(st.sampled_from(list(ENCODINGS.items())))
        value = encode(value)
        headers.append(("content-encoding", encoding.encode()))
    if draw(st.integers(0, 5)) == 0:  # in structured mode after all
        value = json.dumps({**attributes, "data": {"id": "P", "weight": 1}}).encode()
        headers = [("content-type", b"application/cloudevents+json")]
        if draw(st.booleans()):
            encoding, encode = draw(st.sampled_from(list(ENCODINGS.items())))
            value = encode(value)
            headers.append(("content-encoding", encoding.encode()))
    for name, text in draw(st.lists(CHANGES, max_size=3)):
        match draw(st.sampled_from(["set", "set", "add", "drop"])):
            case "add":
                headers.append((name, text))
            case "set":
                headers = [pair for pair in headers if pair[0] != name] + [(name, text)]
            case "drop":
                headers = [pair for pair in headers if pair[0] != name]
    return value, headers if draw(st.booleans()) else draw(st.permutations(headers))
