"""Definitions that ask for keys, headers and other properties of a protocol: events come to the same both ways."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import AT
from tests.pipeline.processing.test_binary import check, read_requests, spooled_row

from signalbook.brokers.amqp.messages import AMQPMessage, DescribedValue, Symbol, Timestamp, Ulong, encode, to_bytes
from signalbook.messages import Contract, parse_flags
from signalbook.messages.bindings.mqtt import publish
from signalbook.pipeline import arrays
from signalbook.pipeline.frames.messages import SOURCE as FRAME
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing import properties
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.amqp import SOURCE as QUEUE
from signalbook.pipeline.sources.base import RECORD_TYPES, MessageBatch
from signalbook.pipeline.sources.files import HTTP_JSONL
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA
from signalbook.pipeline.sources.mqtt import MQTT5
from signalbook.pipeline.sources.nats import SOURCE as NATS

MQTT = "MQTT/5.0"
AMQP = "AMQP/1.0"
PREFIXES = {"KAFKA": "ce_", "HTTP": "ce-", "NATS": "ce-", MQTT: "", AMQP: "cloudEvents_"}
HEADERS = RECORD_TYPES.field("headers").type
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "KAFKA": [
        {"topic": "orders", "key": "k-{number}"},
        {"key": "{depot}"},
        {"key": "k", "headers": {"trace": {"value": "t-{trace}"}}},
        {"key_base64": "aw=="},
        {"partition": 1},
        {"topic": "{topic}", "headers": {"stage": {"value": "late"}, "trace": {"required": True}}},
    ],
    "HTTP": [
        {"method": "put", "path": "/orders/{number}"},
        {"path": "/{depot}", "query": [{"name": "x", "value": "{x}"}]},
        {"headers": [{"name": "Stage", "value": "late"}, {"name": "trace", "value": "t-{trace}"}]},
        {"query": {"x": {"value": "1"}, "y": {"required": True}}},
    ],
    "NATS": [
        {"subject": "orders.{number}"},
        {"subject": "orders.{depot}", "headers": {"Stage": {"value": "late"}}},
        {"reply-to": "r"},
        {"headers": {"trace": {"value": "t-{trace}", "required": True}}},
    ],
    MQTT: [
        {"topic_name": "orders/{number}", "user_properties": [{"name": "stage", "value": "late"}]},
        {"user_properties": {"trace": {"value": "t-{trace}"}, "content-type": {"value": "x"}}},
        {"content_type": "application/json", "response_topic": "r"},
        {"qos": 1, "topic_name": "orders/{depot}"},
    ],
    AMQP: [
        {"properties": {"message-id": {"value": "m-{number}"}, "to": {"value": "q"}}},
        {"properties": {"subject": {"value": "late", "required": True}}},
        {"application-properties": {"tries": {"type": "integer", "value": 1}, "trace": {"value": "t-{trace}"}}},
        {"application-properties": {"tries": {"type": "boolean", "value": True}}},
        {"message-annotations": {"x-opt": {"value": "{depot}"}}, "header": {"priority": {"value": 4}}},
        {"properties": {"creation-time": {"required": True}}, "footer": {"deep": {"type": "any"}}},
    ],
}
POLICIES = ((), ("strict_delivery=true",))


def kind(protocol: str, number: int) -> str:
    return f"parcel.{protocol[:4].lower()}.{number}"


@pytest.fixture(scope="module")
def contracts(parcels: Any) -> list[Contract]:
    """A definition for each set of options."""
    document = parcels.catalogue()
    messages = document["messagegroups"]["parcels"]["messages"]
    typed = {name: messages["parcel.accepted"][name] for name in ("dataschemaformat", "dataschemauri")}
    for protocol, option_sets in OPTIONS.items():
        for number, options in enumerate(option_sets):
            name = kind(protocol, number)
            messages[name] = parcels.message(name, protocol=protocol, protocoloptions=options, **typed)
    snapshot = Snapshot.of_documents([("parcels", document)])
    return [snapshot.compile(parse_flags(flags)) for flags in POLICIES]


WORDS = st.sampled_from(["late", "k", "k-1", "k-%41", "t-7", "t-", "7", "8", "1", "m-1", "r", "", "ü", "a/b"])
BYTES = st.one_of(WORDS.map(str.encode), st.just(b"\xff"))
PLACES: dict[str, list[str | None]] = {
    "KAFKA": ["orders", "other", "", None],
    "HTTP": ["/orders/1", "/7?x=1", "/7?x=1&x=2&y=", "/orders/1?y=%C3%BC", "/", "", None],
    "NATS": ["orders.1", "orders.7", "orders"],
    MQTT: ["orders/1", "orders/7", "orders"],
    AMQP: ["q", "p", None],
}
SIMPLE: list[Any] = [1, True, 1.5, b"\xff", "1", "late", "7", "t-1", None, Timestamp(5), Symbol("late"), [1]]
Event = dict[str, Any]


@st.composite
def events(draw: st.DrawFn, protocol: str) -> Event:
    number = draw(st.integers(0, len(OPTIONS[protocol]) - 1))
    attributes = {"specversion": "1.0", "id": "1", "type": kind(protocol, number), "source": "/depots/7"}
    if draw(st.integers(0, 5)) == 0:
        attributes["source"] = draw(st.sampled_from(["/depots/8", "/x", ""]))
    # Properties of AMQP are a map, in which none comes twice.
    name_of = (lambda pair: pair[0]) if protocol == AMQP else None
    header_names = st.sampled_from(["stage", "Stage", "trace", "TRACE", "x", "content-type", "y"])
    return {
        "attributes": attributes,
        "data": draw(st.sampled_from([{"id": "P", "weight": 1}] * 3 + [{"id": 1}])),
        "place": draw(st.sampled_from(PLACES[protocol])),
        "key": draw(st.none() | BYTES),
        "partition": draw(st.integers(0, 1)),
        "headers": draw(st.lists(st.tuples(header_names, BYTES), max_size=3, unique_by=name_of)),
        "structured": draw(st.integers(0, 4)) == 0,
        "values": draw(st.lists(st.sampled_from(SIMPLE), min_size=6, max_size=6)),
    }


def headers_of(protocol: str, event: Event) -> list[tuple[str, bytes]]:
    header_pairs = [(name, text) for name, text in event["headers"] if name != "content-type" or protocol == MQTT]
    if event["structured"]:
        return [("content-type", b"application/cloudevents+json"), *header_pairs]
    attributes = [(PREFIXES[protocol] + name, text.encode()) for name, text in event["attributes"].items()]
    return [("content-type", b"application/json"), *attributes, *header_pairs]


def body_of(event: Event) -> bytes:
    whole = {**event["attributes"], "data": event["data"]} if event["structured"] else event["data"]
    return json.dumps(whole).encode()


def records(protocol: str, sample_events: Sequence[Event]) -> pa.RecordBatch:
    """Return events as rows of a DataFrame, or of Kafka or NATS."""
    rows = [
        {
            "protocol": protocol,
            "source": "source",
            "position": number,
            "received_at": AT,
            "address": event["place"],
            "partition": event["partition"],
            "value": body_of(event),
            "key": event["key"] if protocol == "KAFKA" else None,
            "headers": [{"name": name, "value": text} for name, text in headers_of(protocol, event)],
        }
        for number, event in enumerate(sample_events)
    ]
    return pa.RecordBatch.from_pylist(rows, RECORD_TYPES)


def published(sample_events: Sequence[Event]) -> pa.RecordBatch:
    """Return the rows of a spool with MQTT packets."""
    rows = records(MQTT, sample_events).to_pylist()
    for row, event in zip(rows, sample_events, strict=True):
        (_, content_type), *header_pairs = headers_of(MQTT, event)
        pairs = [(name, text.decode(errors="replace")) for name, text in header_pairs]
        sections = {"qos": 1, "retain": False, "content_type": content_type.decode(), "user_properties": pairs}
        row["key"] = msgspec.msgpack.encode(sections | ({"response_topic": "r"} if event["partition"] else {}))
        headers = arrays.encode_headers(arrays.list_headers(publish(MQTT, row["value"], sections)))
        row["headers"] = [{"name": name, "value": text} for name, text in headers]
    return pa.RecordBatch.from_pylist(rows, RECORD_TYPES)


def queued(sample_events: Sequence[Event]) -> pa.RecordBatch:
    """Return events as messages of AMQP that wait in a spool."""
    rows = []
    for number, event in enumerate(sample_events):
        (_, content_type), *header_pairs = headers_of(AMQP, event)
        first, second, third, *further_values = event["values"]
        properties = {
            "content-type": content_type.decode(),
            **({} if event["place"] is None else {"to": event["place"]}),
            **({} if first is None else {"message-id": "m-1", "subject": first}),
            **({} if second is None else {"creation-time": Timestamp(5)}),
        }
        application = {name: text.decode(errors="replace") for name, text in header_pairs} | {"tries": third}
        sent = AMQPMessage(body=body_of(event), properties=properties, application_properties=application)
        annotations = encode(DescribedValue(Ulong(0x72), {Symbol("x-opt"): further_values[0]}))
        footer = encode(DescribedValue(Ulong(0x78), {Symbol("deep"): further_values[1]}))
        rows.append(spooled_row(annotations + to_bytes(sent) + footer, number))
    return pa.RecordBatch.from_pylist(rows, RECORD_TYPES)


def lines(sample_events: Sequence[Event]) -> list[MessageBatch]:
    lines_ = []
    for event in sample_events:
        listed: dict[str, list[str]] = {}
        for name, text in headers_of("HTTP", event):
            listed.setdefault(name, []).append(text.decode(errors="replace"))
        method = "Put" if event["partition"] else "POST"
        line = {"method": method, "path": event["place"] or "", "headers": listed, "body": body_of(event).decode()}
        lines_.append(json.dumps(line))
    return read_requests(lines_)


def framed(batch: pa.RecordBatch) -> list[MessageBatch]:
    return list(base.read_record_batches(batch))


OWN: dict[str, tuple[Any, Callable[[Sequence[Event]], list[MessageBatch]]]] = {
    "KAFKA": (KAFKA, lambda found: framed(records("KAFKA", found))),
    "HTTP": (HTTP_JSONL, lines),
    "NATS": (NATS, lambda found: framed(records("NATS", found))),
    MQTT: (MQTT5, lambda found: framed(published(found))),
    AMQP: (QUEUE, lambda found: framed(queued(found))),
}


@pytest.mark.parametrize(
    "protocol", [pytest.param(name, marks=pytest.mark.merge if name == "NATS" else ()) for name in OPTIONS]
)
@given(data=st.data(), policy=st.sampled_from(range(len(POLICIES))))
@settings(max_examples=examples(60), deadline=None)
def test_both_paths_have_equal_outcomes(contracts: list[Contract], protocol: str, policy: int, data: Any) -> None:
    """The property holds for any options of a definition and any messages (K-7, K-16, K-26, K-34)."""
    sample_events = data.draw(st.lists(events(protocol), min_size=1, max_size=8))
    source, frames = OWN[protocol]
    check(contracts[policy], source, frames(sample_events))
    check(contracts[policy], FRAME, framed(records(protocol, sample_events)))


def sound(protocol: str, number: int, **more: Any) -> Event:
    attributes = {"specversion": "1.0", "id": "1", "type": kind(protocol, number), "source": "/depots/7"}
    return {
        "attributes": attributes, "data": {"id": "P", "weight": 1}, "place": None, "key": None, "partition": 0,
        "headers": [], "structured": False, "values": [None] * 6, **more,
    }  # fmt: skip


def test_application_properties_of_rows_that_are_not_text_stay_bytes(contracts: list[Contract]) -> None:
    pairs = [("stage", b"\xff"), ("trace", b"t")]
    sent = sound(AMQP, 0, place="q", headers=pairs, structured=True)
    _, tables = check(contracts[0], FRAME, framed(records(AMQP, [sent])))
    (row,) = tables["parcels.parcel.amqp.0"]
    assert [(header["name"], header["value"]) for header in row["_raw_headers"]][1:] == pairs


@pytest.mark.parametrize(
    ("protocol", "number", "more", "context"),
    [
        ("KAFKA", 0, {"place": "orders", "key": b"k-9"}, {"depot": "7", "number": "9"}),
        ("KAFKA", 1, {"key": b"7"}, {"depot": "7"}),
        ("KAFKA", 2, {"key": b"k", "headers": [("trace", b"t-1")]}, {"depot": "7", "trace": "1"}),
        ("KAFKA", 3, {"key": b"k"}, {"depot": "7"}),
        ("HTTP", 0, {"place": "/orders/5?z", "partition": 1}, {"depot": "7", "number": "5"}),
        ("HTTP", 1, {"place": "/7?x=3"}, {"depot": "7", "x": "3"}),
        ("HTTP", 2, {"place": "/", "headers": [("STAGE", b"late")]}, {"depot": "7"}),
        ("NATS", 1, {"place": "orders.7", "headers": [("stage", b"late")]}, {"depot": "7"}),
        (MQTT, 0, {"place": "orders/2", "headers": [("stage", b"late")]}, {"depot": "7", "number": "2"}),
        (AMQP, 0, {"place": "q", "values": ["x", None, None, None, None, None]}, {"depot": "7", "number": "1"}),
        (AMQP, 2, {"values": [None, None, 1, None, None, None]}, {"depot": "7"}),
    ],
)
def test_events_of_such_definitions_take_the_fast_path(
    contracts: list[Contract], monkeypatch: pytest.MonkeyPatch, protocol: str, number: int, more: Event, context: Any
) -> None:
    monkeypatch.setattr("signalbook.pipeline.processing.pending_payloads.PendingPayloads.take", None)
    source, frames = OWN[protocol]
    for structured in (False, True) if protocol != "HTTP" else (False,):  # as requests in lines are read
        _, tables = check(contracts[0], source, frames([sound(protocol, number, structured=structured, **more)] * 9))
        (landed,) = tables.values()
        assert [dict(row["_context"]) for row in landed] == [context] * 9


@pytest.mark.parametrize(
    ("protocol", "name", "expected"),
    [
        *[("KAFKA", "key", True), ("KAFKA", "headers.a", True), ("KAFKA", "offset", False), ("HTTP", "status", False)],
        *[("HTTP", "query.a", True), ("NATS", "reply-to", False), (MQTT, "qos", False), ("MQTT/3.1.1", "qos", False)],
        *[(MQTT, "user_properties.a", True), (MQTT, "user_properties.content-type", False), (AMQP, "footer.a", True)],
    ],
)
def test_properties_with_and_without_columns(protocol: str, name: str, expected: bool) -> None:
    assert properties.is_known(protocol, name) is expected


def test_headers_that_come_again_take_no_longer_than_others() -> None:
    """The occurrences in each message are all found, and the work is proportional to their number."""
    count = 4000
    listed = pa.array([[{"name": "a", "value": b"%d" % number}] * 50 for number in range(count)], HEADERS)
    batch = pa.RecordBatch.from_pylist([{"protocol": "NATS", "source": "s", "position": 1}] * count, RECORD_TYPES)
    batch = batch.set_column(7, "headers", listed)
    (part,) = (frame for frame in base.read_record_batches(batch) if len(frame) == count)
    codes, values = properties.encode_property("NATS", "headers.a", [(part, batch)])
    assert [values[code] for code in codes.tolist()] == [(str(number),) * 50 for number in range(count)]


@pytest.mark.parametrize(("first", "other"), [(1, True), (0.0, -0.0), ("1", b"1"), ({"a": 1}, {"a": 2}), (None, "")])
def test_values_are_distinguished(first: Any, other: Any) -> None:
    assert properties.make_hashable(first) == properties.make_hashable(first)
    assert properties.make_hashable(first) != properties.make_hashable(other)
