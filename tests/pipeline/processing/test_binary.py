"""Events in binary mode by HTTP, NATS, MQTT and AMQP come to what they come to message by message (design.md 3.9)."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import (
    AT,
    AVRO,
    AVRO_VALUES,
    JSON_VALUES,
    PROTO,
    PROTO_VALUES,
    TYPED,
    kafka_records,
    rows,
    written,
)
from tests.pipeline.processing.test_routing import Outcome, processed, same

from signalbook.brokers.amqp.messages import (
    AMQPError,
    AMQPMessage,
    DescribedValue,
    Symbol,
    Timestamp,
    Ulong,
    encode,
    sections,
    split_body,
    to_bytes,
)
from signalbook.messages import Contract, format_sections, parse_flags
from signalbook.messages.bindings.mqtt import publish
from signalbook.pipeline import arrays, native
from signalbook.pipeline.frames.messages import SOURCE as FRAME
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.binary import BinaryMode
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.amqp import SOURCE as QUEUE
from signalbook.pipeline.sources.amqp import _build_spooled_message
from signalbook.pipeline.sources.amqp_sections import _convert_value
from signalbook.pipeline.sources.base import RECORD_TYPES, MessageBatch, Split
from signalbook.pipeline.sources.files import HTTP_JSONL
from signalbook.pipeline.sources.mqtt import MQTT5
from signalbook.pipeline.sources.nats import SOURCE as NATS
from signalbook.values import JSONObject

MQTT = "MQTT/5.0"
AMQP = "AMQP/1.0"
PREFIXES = {"HTTP": "ce-", "NATS": "ce-", MQTT: "", AMQP: "cloudEvents_"}
PLACES = {"HTTP": "path", "NATS": "subject", MQTT: "topic_name"}
POLICIES = ((), ("strict_delivery=true", "on_schema_violation=tag"), ("wire_prefix=confluent",))
Record = tuple[bytes | None, Sequence[tuple[str, bytes | None]]]


@pytest.fixture(scope="module")
def contracts(parcels: Any) -> list[Contract]:
    """Events with payloads in each encoding, some of them bound to a place of each protocol."""
    return compiled(parcels, {})


@pytest.fixture(scope="module")
def mixed_contracts(parcels: Any) -> list[Contract]:
    """The same with messages of each protocol that are no events, one of which a header or the payload tells apart."""
    typed = written("JsonSchema/draft-07", "parcel")
    more: dict[str, JSONObject] = {}
    for protocol in PREFIXES:
        address = "/7" if protocol == "HTTP" else "7"
        place: JSONObject = {PLACES[protocol]: address} if protocol in PLACES else {"properties": {"to": address}}
        for name, options in (("plain", place), ("traced", {**place, **_traced(protocol)})):
            more[f"{name}.{protocol[:4].lower()}"] = {"protocol": protocol, "protocoloptions": options, **typed}
    return compiled(parcels, more)


def _traced(protocol: str) -> JSONObject:
    """Return options that require a header."""
    header = {"value": "x", "required": True}
    if protocol == AMQP:
        return {"application-properties": {"trace": header}}
    return {"user_properties" if protocol == MQTT else "headers": [{"name": "trace", **header}]}


def compiled(parcels: Any, more: Mapping[str, JSONObject]) -> list[Contract]:
    document = parcels.catalogue()
    messages = document["messagegroups"]["parcels"]["messages"]
    typed = {name: messages["parcel.accepted"][name] for name in ("dataschemaformat", "dataschemauri")}
    messages |= {
        "measured": parcels.message("parcel.measured", **written("Avro/1.11", "measure")),
        "scanned": parcels.message("parcel.scanned", **written("Protobuf/3", "scan")),
        "pushed": parcels.message("parcel.pushed", envelopeoptions={"mode": "binary"}, **typed),
        "sent": parcels.message("parcel.sent", protocol="HTTP", protocoloptions={"method": "PUT"}, **typed),
    }
    messages["sorted.amqp"] = parcels.message("parcel.sorted.amqp", protocol=AMQP, **typed)
    for protocol, place in PLACES.items():
        name = f"sorted.{protocol[:4].lower()}"
        options = {place: "orders" if protocol == "NATS" else "{depot}"}
        messages[name] = parcels.message(f"parcel.{name}", protocol=protocol, protocoloptions=options, **typed)
    messages |= more
    for name, kind, text in (("measure", "Avro/1.11", AVRO), ("scan", "Protobuf/3", PROTO)):
        version = {"format": kind, "schema": text, "labels": {"confluent.id": "7"}}
        document["schemagroups"]["parcels"]["schemas"][name] = {"versions": {"1": version}}
    snapshot = Snapshot.of_documents([("parcels", document)])
    return [snapshot.compile(parse_flags(flags)) for flags in POLICIES]


def read_requests(lines: Sequence[str]) -> list[MessageBatch]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "requests.jsonl")
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return list(HTTP_JSONL.read(Split(path=str(path), start=0, end=path.stat().st_size)))


def lines(pairs: Sequence[Record], target: str = "/orders?x=1") -> list[MessageBatch]:
    """Return requests as they are logged, in batches as they are read."""
    lines_ = []
    for value, headers in pairs:
        listed: dict[str, list[str]] = {}
        for name, text in headers:
            listed.setdefault(name, []).append((text or b"").decode("utf-8", "replace"))
        line = {"method": "put", "path": target, "headers": {n: v if len(v) > 1 else v[0] for n, v in listed.items()}}
        lines_.append(json.dumps(line | ({"body_base64": msgspec.to_builtins(value)} if value is not None else {})))
    return read_requests([*lines_, "", "{", '{"method":"POST","path":"/","body":"{}","body_base64":""}'])


def packets(pairs: Sequence[Record], topic: str | None) -> pa.RecordBatch:
    """Packets of MQTT as they wait in a spool."""
    encoded, keys = list[Record](), list[bytes]()
    for value, headers in pairs:
        properties = [(name, (text or b"").decode("utf-8", "replace")) for name, text in headers]
        stated = dict(properties).get("content-type")
        sections: dict[str, Any] = {"user_properties": [pair for pair in properties if pair[0] != "content-type"]}
        if stated is not None:
            sections["content_type"] = stated
        if any(name == "trace" for name, _ in properties):
            sections["payload_format_indicator"] = 1
        keys.append(msgspec.msgpack.encode(sections))
        message = publish(MQTT, value or b"", sections | {"topic_name": topic or ""})
        encoded.append((value, arrays.encode_headers(arrays.list_headers(message))))
    batch = records(MQTT, encoded, topic)
    return batch.set_column(5, "key", pa.array(keys, pa.binary()))


# Values that AMQP has types for, by what other protocols have in their place.
# Values that AMQP has types for, by what other protocols have in their place.
TYPES: dict[bytes | None, Any] = {
    b"s": 5,
    b"\xc3": True,
    "ü".encode(): Timestamp(1500),
    b"\x00": b"\xff",
    b"/depots/a b": Symbol("/depots/8"),
    b"soon": Timestamp(2**62),
    b"2026-01-02T03:04:05.123456789Z": Timestamp(1_767_323_045_123),
    b"0.3": 1.5,
    b"%ff": [1],
    b" s ": {"a": 1},
    b"a": UUID(int=7),
    None: None,
    b"x": DescribedValue(Symbol("x"), "x"),
}


def spooled_row(content: bytes, number: int) -> dict[str, Any]:
    """Return the row of a message of AMQP that waits in a spool."""
    row = msgspec.structs.asdict(_build_spooled_message(content))
    row["headers"] = [{"name": name, "value": text} for name, text in row["headers"]]
    return row | {"protocol": AMQP, "source": "amqp:q", "position": number, "received_at": AT}


def _ascii(value: Any) -> str:
    return str(value).encode("ascii", "replace").decode()


def queued(pairs: Sequence[Record], place: str) -> pa.RecordBatch:
    """Return messages of AMQP as they wait in a spool; those without a value are none."""
    encoded = []
    for number, (value, headers) in enumerate(pairs):
        named_values = {name: TYPES.get(text, (text or b"").decode("utf-8", "replace")) for name, text in headers}
        media = ("content-type", "content-encoding")
        properties = {"to": place, **{name: _ascii(named_values.pop(name)) for name in media if name in named_values}}
        sent = AMQPMessage(body=value or b"", properties=properties, application_properties=named_values)
        encoded.append(spooled_row(to_bytes(sent) if value is not None else b"\x00", number))
    return pa.RecordBatch.from_pylist(encoded, RECORD_TYPES)


def records(protocol: str, pairs: Sequence[Record], topic: str | None) -> pa.RecordBatch:
    batch = rows(*pairs, topic=topic)
    return batch.set_column(0, "protocol", pa.array([protocol] * len(batch), pa.string()))


def ordered(outcome: Outcome) -> Outcome:
    """Return the outcome with headers sorted by name, because their order is insignificant and differs between the
    paths.
    """
    tally, tables = outcome
    for row in (row for table in tables.values() for row in table):
        if row.get("_headers"):
            row["_headers"] = sorted(row["_headers"])
    return tally, tables


def check(contract: Contract, source: Any, frames: Sequence[MessageBatch]) -> Outcome:
    quick = ordered(processed(contract, source, frames))
    same(quick, ordered(processed(contract, source, [replace(frame, slow_path=True) for frame in frames])))
    return quick


ODD = st.sampled_from(
    [b'"quoted"', b"%41", b" s ", b"\xc2\xa0s", b"100%", b"%ff", b'a "b" c', "ü".encode(), b"", b"application/json"]
)


@st.composite
def events(draw: st.DrawFn, protocol: str) -> Record:
    """Events of Kafka, with names as this protocol has them, and what may be odd about values."""
    value, headers = draw(kafka_records())
    if value is not None and len(value) > 10_000:
        value = b"{"
    prefix, header_pairs, colon = PREFIXES[protocol], [], protocol == AMQP and draw(st.integers(0, 3)) == 0
    for name, text in headers:
        header_name = prefix + name.removeprefix("ce_") if name.startswith("ce_") else name
        if colon:
            header_name = header_name.replace("cloudEvents_", "cloudEvents:")
        if draw(st.integers(0, 15)) == 0:
            header_name = header_name.title()
        header_pairs.append((header_name, draw(ODD) if draw(st.integers(0, 25)) == 0 else text))
    return value, header_pairs


@given(st.data(), st.sampled_from(range(len(POLICIES))), st.sampled_from(list(PREFIXES)), st.booleans())
@settings(max_examples=examples(200))
def test_both_paths_have_equal_outcomes(
    contracts: list[Contract], mixed_contracts: list[Contract], data: Any, policy: int, protocol: str, mixed: bool
) -> None:
    """The property holds for the attributes of each binding with any headers and values (K-21)."""
    plain = events(protocol).map(lambda drawn: (drawn[0], [pair for pair in drawn[1] if not pair[0].endswith("id")]))
    pairs = data.draw(st.lists(st.one_of(events(protocol), plain), min_size=1, max_size=10))
    place = data.draw(st.sampled_from(["orders", "7", "/7?x=1", "", None]))
    contract = (mixed_contracts if mixed else contracts)[policy]
    check(contract, *frames_of(protocol, pairs, place or ("/7" if protocol == "HTTP" else "")))
    check(contract, FRAME, list(base.read_record_batches(records(protocol, pairs, place))))


def event(protocol: str, kind: str, value: bytes, content_type: str = "", **more: str) -> Record:
    attributes = {"specversion": "1.0", "id": "1", "source": "/depots/7", "type": kind, "stage": "late", **more}
    headers = [(PREFIXES[protocol] + name, text.encode()) for name, text in attributes.items()]
    cased = protocol in ("HTTP", "NATS")
    return value, [*headers, ("Content-Type" if cased else "content-type", content_type.encode())]


def frames_of(protocol: str, pairs: Sequence[Record], place: str) -> tuple[Any, list[MessageBatch]]:
    """Return the protocol's source, and what it reads of such messages."""
    if protocol == "HTTP":
        return HTTP_JSONL, lines(pairs, place)
    if protocol == "NATS":
        return NATS, list(base.read_record_batches(records(protocol, pairs, place)))
    if protocol == AMQP:
        return QUEUE, list(base.read_record_batches(queued(pairs, place)))
    return MQTT5, list(base.read_record_batches(packets(pairs, place)))


@pytest.mark.parametrize("protocol", list(PREFIXES))
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("parcel.accepted", JSON_VALUES[0]),
        ("parcel.pushed", JSON_VALUES[1]),
        ("parcel.measured", AVRO_VALUES[0]),
        ("parcel.scanned", PROTO_VALUES[0]),
        ("sorted", JSON_VALUES[0]),
    ],
)
def test_binary_mode_takes_the_fast_path(
    contracts: list[Contract], monkeypatch: pytest.MonkeyPatch, protocol: str, kind: str, value: bytes
) -> None:
    monkeypatch.setattr("signalbook.pipeline.processing.pending_payloads.PendingPayloads.take", None)
    name = f"parcel.sorted.{protocol[:4].lower()}" if kind == "sorted" else kind
    place = "orders" if protocol == "NATS" else "7"
    pairs = [event(protocol, name, value, TYPED.get(name, "application/json")) for _ in range(9)]
    source, frames = frames_of(protocol, pairs, place)
    _, tables = check(contracts[0], source, [frame for frame in frames if len(frame)])
    landed = tables[f"parcels.{name if name == 'parcel.accepted' else name.removeprefix('parcel.')}"]
    assert len(landed) == 9
    row = landed[0]
    assert (row["_protocol"], row["_address"], row["ce_type"]) == (protocol, place, name)
    assert (row["ce_extensions"], row["_context"]) == ([("stage", "late")], [("depot", "7")])


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({}, True),
        ({"time": Timestamp(1500)}, True),
        ({"time": Timestamp(2**62)}, False),
        ({"subject": Symbol("s"), "stage": None}, True),
        ({"subject": 5}, False),
        ({"specversion": 1.0}, True),
        ({"stage": True}, True),
        ({"stage": 2**40, "step": Ulong(7)}, True),
        ({"stage": b"x\xff", "step": UUID(int=7)}, True),
        ({"stage": 1.5}, True),
        ({"stage": [1]}, False),
        ({"stage": DescribedValue(Symbol("x"), "x")}, False),
    ],
)
@pytest.mark.parametrize("separator", "_:")
def test_amqp_attribute_types(
    contracts: list[Contract], separator: str, changes: dict[str, Any], is_taken: bool
) -> None:
    """CloudEvents AMQP 3.1.3.2: where headers do not say what they are. Other properties may be anything."""
    attributes = {"specversion": "1.0", "id": "1", "source": "/depots/7", "type": "parcel.accepted", **changes}
    attribute_values = {f"cloudEvents{separator}{name}": value for name, value in attributes.items()}
    sent = AMQPMessage(
        body=JSON_VALUES[0],
        properties={"message-id": 7, "to": "q", "creation-time": Timestamp(0)},
        application_properties={"tries": 5, "x": [1, {"a": 1.5}], **attribute_values, "y" * 300: UUID(int=7)},
    )
    annotations = encode(DescribedValue(Ulong(0x72), {Symbol("x-opt"): b"z" * 300}))
    waiting = [spooled_row(annotations + to_bytes(sent), 1)] * 2
    (frame,) = base.read_record_batches(pa.RecordBatch.from_pylist(waiting, RECORD_TYPES))
    assert BinaryMode(AMQP).read_events(frame)[1] == ([] if is_taken else [0, 1])
    check(contracts[0], QUEUE, [frame])


KINDS: dict[Any, int] = {(str, Timestamp): 0, bool: 1, int: 2, bytes: 3}
SECTIONS = split_body(
    to_bytes(AMQPMessage(properties={"content-type": "x"}, application_properties={"cloudEvents_id": "1", "n": 1}))
)[0]


@given(st.binary(max_size=12) | st.binary(max_size=40).map(lambda some: SECTIONS[: len(some)] + some))
def test_sections_of_amqp_may_be_any_bytes(some: bytes) -> None:
    """Sections that Python reads differently are rejected, never misread."""
    places = PayloadSpans.of_list([some, SECTIONS]).places
    typed, refused = native.load_module().attribute_types(places)
    assert 1 not in refused
    if 0 not in refused:
        with contextlib.suppress(AMQPError):
            for name, value in sections(some).get("application-properties", {}).items():
                kind = next((kind for types, kind in KINDS.items() if isinstance(value, types)), 0)
                if str(name).startswith("cloudEvents"):
                    assert typed.get(name, ([0], b"\0")) == ([0], bytes([kind]))
    texts, refused = native.load_module().section_texts(places)
    assert 1 not in refused
    if 0 not in refused:
        values = {name: _convert_value(fields) for name, fields in sections(some).items()}
        text = native.read_columns(texts, pa.schema([(name, pa.string()) for name in "abc"]))[0][0].as_py()
        assert text == (format_sections(values) if values else None)


@pytest.mark.parametrize("text", ["%41", '"a"', " a", "a\u00a0"])
@pytest.mark.parametrize(("protocol", "is_taken"), [("HTTP", False), ("NATS", False), (MQTT, True)])
def test_encoded_attributes_take_the_slow_path(protocol: str, is_taken: bool, text: str) -> None:
    batch = records(protocol, [event(protocol, "t", b"{}", subject=text), event(protocol, "t", b"{}")], "orders")
    (frame,) = base.read_record_batches(batch)
    assert BinaryMode(protocol).read_events(frame)[1] == ([] if is_taken else [0])


def test_a_promise_of_text_is_kept_or_looked_at(contracts: list[Contract]) -> None:
    """MQTT 5, 3.3.2.3.2: a payload that is said to be UTF-8."""
    kinds = (("parcel.accepted", JSON_VALUES[0]), ("parcel.scanned", PROTO_VALUES[1]))
    marked, broken = ((value, [*event(MQTT, kind, b"")[1], ("trace", b"x")]) for kind, value in kinds)
    for sent, refused in (([marked], []), ([marked, broken], [0, 1])):
        frames = list(base.read_record_batches(packets(sent, "7")))
        assert BinaryMode(MQTT).read_events(*frames)[1] == refused
    tally, _ = check(contracts[0], MQTT5, frames)
    assert (tally.landed.total(), tally.reasons) == (1, {"decode_error": 1})


def test_lines_that_are_no_requests_are_dead_letters_or_nothing(contracts: list[Contract]) -> None:
    tally, _ = check(contracts[0], HTTP_JSONL, lines([event("HTTP", "parcel.accepted", JSON_VALUES[0])]))
    assert (tally.read, tally.landed.total(), tally.reasons) == (3, 1, {"decode_error": 2})


@pytest.mark.parametrize(("target", "path"), [("/a?x=1", "/a"), ("/a", "/a"), ("", "/"), (None, "/")])
@pytest.mark.parametrize("structured", [True, False])
def test_rows_of_requests_land_with_their_path(
    contracts: list[Contract], parcels: Any, structured: bool, target: str | None, path: str
) -> None:
    pair = event("HTTP", "parcel.accepted", JSON_VALUES[0])
    if structured:
        pair = json.dumps(parcels.event(1)).encode(), [("Content-Type", b"application/cloudevents+json")]
    _, tables = check(contracts[0], FRAME, list(base.read_record_batches(records("HTTP", [pair], target))))
    assert [row["_address"] for row in tables["parcels.parcel.accepted"]] == [path]


def test_marked_batches_take_the_slow_path(contracts: list[Contract], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BinaryMode, "read_events", None)
    frames = [replace(batch, slow_path=True) for batch in lines([event("HTTP", "parcel.accepted", JSON_VALUES[0])])]
    assert processed(contracts[0], HTTP_JSONL, frames)[0].landed.total() == 1
