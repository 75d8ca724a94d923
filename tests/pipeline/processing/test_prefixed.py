"""Records that say by which schema they were written: the fast path says what going message by message says."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import PROTO, PROTO_VALUES, batches, write_datum
from tests.pipeline.processing.test_routing import Outcome, check_batches, processed

from signalbook.client.schemaversions import SchemaVersion
from signalbook.messages import Contract, parse_flags
from signalbook.messages.matching.outcome import rejected_payload
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.subjects import Strategy, Subjects
from signalbook.pipeline.processing import prefixed
from signalbook.pipeline.sources.kafka import SOURCE as KAFKA

LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
FIRST = [
    {"name": "id", "type": "string"},
    {"name": "n", "type": "int"},
    {"name": "weight", "type": "float"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "old", "type": ["null", "long"], "default": None},
    {"name": "how", "type": {"type": "enum", "name": "How", "symbols": ["HAND", "BELT"]}},
    {"name": "lines", "type": {"type": "array", "items": LINE}},
    {"name": "first", "type": ["null", "Line"], "default": None},
    {"name": "either", "type": ["int", "string"]},
]
WIDE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "n", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "sku", "type": ["null", "string"]},
        {"name": "marks", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
    ],
}
SECOND = [
    {"name": "added", "type": "string", "default": "none"},
    {"name": "since", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1_700_000_000_000},
    {"name": "raw", "type": "bytes", "default": "\u00ff"},
    {"name": "how", "type": {"type": "enum", "name": "How", "symbols": ["BELT", "AIR", "HAND"]}},
    {"name": "weight", "type": "double"},
    {"name": "id", "type": ["null", "string"], "default": None},
    {"name": "n", "type": "float"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "lines", "type": {"type": "array", "items": WIDE}},
    {"name": "first", "type": ["null", "Line"], "default": None},
    {
        "name": "size",
        "type": {"type": "record", "name": "S", "fields": [{"name": "l", "type": "int"}]},
        "default": {"l": 5},
    },
    {"name": "either", "type": ["int", "string"]},
]
ORDER_1 = {"type": "record", "name": "Order", "namespace": "shop", "fields": FIRST}
ORDER_2 = {"type": "record", "name": "Order", "namespace": "shop", "fields": SECOND}
# What columns do not say: of a value that may be null one that may not, of a string bytes.
ODD_1 = {"type": "record", "name": "Odd", "fields": [{"name": "a", "type": ["null", "int"]}]}
ODD_2 = {"type": "record", "name": "Odd", "fields": [{"name": "a", "type": "int"}]}
PROTO_1 = PROTO.replace('proto3";', 'proto3"; package shop;\nmessage Item { string id = 1; }')
PROTO_2 = """syntax = "proto3"; package shop;
message Scan {
  enum How { HAND = 0; BELT = 1; }
  message Size { sint32 l = 1; string unit = 3; }
  optional string note = 7; string place = 8;
  string id = 1; optional double weight = 2; How how = 3; repeated int32 sides = 4; Size size = 5;
}
message Item { string id = 1; message Part { string id = 1; } }"""
SIZE = {"type": "object", "properties": {"l": {"type": "integer"}}}
JSON_1 = {
    "title": "Paid", "type": "object", "required": ["id"],
    "properties": {"id": {"type": "string"}, "n": {"type": "integer"}, "gone": {"type": "string"}, "size": SIZE},
}  # fmt: skip
JSON_2 = {
    "title": "Paid", "type": "object", "required": ["id"],
    "properties": {
        "id": {"type": "string"}, "n": {"type": "integer"}, "size": {**SIZE, "properties": {"w": {"type": "number"}}},
        "at": {"type": "string", "format": "date-time"},
    },
}  # fmt: skip
GUIDS = {number: str(UUID(int=number)) for number in range(1, 20)}


def versions(subject: str, type: str, schemas: dict[int, Any]) -> list[SchemaVersion]:
    return [
        SchemaVersion(
            subject=subject, version=place, id=number, guid=GUIDS[number],
            body={"schemaType": type, "schema": schema if isinstance(schema, str) else json.dumps(schema)},
        )
        for place, (number, schema) in enumerate(schemas.items(), 1)
    ]  # fmt: skip


NAMES: dict[Strategy, Sequence[str]] = {
    "topic": ("orders-value", "odd-value", "scans-value", "paid-value"),
    "record": ("shop.Order", "Odd", "shop.Scan", "Paid"),
    "topic-record": ("orders-shop.Order", "odd-Odd", "scans-shop.Scan", "paid-Paid"),
}


def definitions_of(
    schema_versions: Sequence[SchemaVersion], strategy: Strategy
) -> tuple[dict[str, Any], dict[str, Any]]:
    latest = {version.subject: version.version for version in schema_versions}
    return Subjects(
        {(version.subject, version.version): version for version in schema_versions}, latest
    ).build_definitions(strategy)


@cache
def contract(strategy: Strategy, *flags: str) -> Contract:
    order, odd, scan, paid = NAMES[strategy]
    schema_versions = [
        *versions(order, "AVRO", {1: ORDER_1, 2: ORDER_2}),
        *versions(odd, "AVRO", {3: ODD_1, 4: ODD_2}),
        *versions(scan, "PROTOBUF", {5: PROTO_1, 6: PROTO_2}),
        *versions(paid, "JSON", {7: JSON_1, 8: JSON_2}),
        *versions("shop.Item", "PROTOBUF", {5: PROTO_1, 6: PROTO_2}),
    ]
    messages, schemas = definitions_of(schema_versions, strategy)
    policy = parse_flags(flags)
    snapshot = Snapshot(messages=messages, schemas=schemas, selected=tuple(sorted(messages)), subjects=strategy)
    return Snapshot.from_json(snapshot.check(policy).to_json()).compile(policy)


ORDER: dict[str, Any] = {
    "id": "a", "n": 2**24 + 1, "weight": 0.1, "at": 1_700_000_000_123, "old": 7, "how": "BELT", "either": "x",
    "lines": [{"sku": "x", "n": -1}, {"sku": "", "n": 2**31 - 1}], "first": {"sku": "y", "n": 0},
}  # fmt: skip
LATER = {
    "added": "z", "since": 5, "raw": b"",
    "how": "AIR", "weight": 0.1, "id": None, "n": 1.5, "at": 0, "size": {"l": 1}, "either": 5,
    "lines": [{"n": 0.5, "note": "n", "sku": None, "marks": []}], "first": None,
}  # fmt: skip
EMPTY: dict[str, Any] = {"old": None, "first": None, "lines": [], "either": 5}
SOUND = {
    1: [write_datum(ORDER_1, order) for order in (ORDER, ORDER | EMPTY)],
    2: [write_datum(ORDER_2, LATER)],
    3: [write_datum(ODD_1, {"a": 5}), write_datum(ODD_1, {"a": None})],
    4: [write_datum(ODD_2, {"a": 5})],
    5: [b"\2\2" + each for each in PROTO_VALUES] + [b"\0\x0a\1i"],
    6: [b"\0" + each for each in (*PROTO_VALUES, b"\x3a\1n\x2a\4\x1a\2kg")]
    + [b"\2\0\x0a\1i", b"\2\2\x0a\1i", b"\4\2\0\x0a\1i"],
    7: [b'{"id": "a"}', b'{"id": "a", "n": 5, "size": {"l": 1}}', b'{"id": "a", "gone": "x"}',
        b'{"id": "a", "at": "2026-01-01T00:00:00Z"}', b'{"id": "a", "id": "b"}',
        b'{"n": 1}', b'{"id": "a", "size": {}}'],
    8: [b'{"id": "a", "at": "2026-01-01T00:00:00Z", "more": 1}', b'{"id": "a", "size": {"w": 1.5}}', b'{"id": 5}'],
}  # fmt: skip
TOPICS = {1: "orders", 2: "orders", 3: "odd", 4: "odd", 5: "scans", 6: "scans", 7: "paid", 8: "paid"}
Record = tuple[bytes | None, list[tuple[str, bytes | None]]]


def sent(number: int, payload: bytes, *, header: bool = False) -> Record:
    """A record, with the id before its value, or the guid in the header, which has the indices, too."""
    if not header:
        return b"\0" + number.to_bytes(4, "big") + payload, []
    indices = (1 if payload[:1] == b"\0" else 1 + len(payload[1:2]) * (payload[0] >> 1)) if number in (5, 6) else 0
    header_value = b"\1" + UUID(GUIDS[number]).bytes + payload[:indices]
    return payload[indices:], [("__value_schema_id", header_value)]


def both(contract_: Contract, topic: str, *records: Record) -> Outcome:
    """Return what becomes of the records of a topic, by the fast path and message by message."""
    return check_batches(contract_, batches(*records, topic=topic))


POLICIES = ((), ("columns=as_sent",), ("rescue=drop",), ("/messagegroups/subjects:on_schema_violation=tag",))
STRATEGIES: tuple[Strategy, ...] = ("topic", "record", "topic-record")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("flags", POLICIES)
def test_records_of_all_versions(strategy: Strategy, flags: tuple[str, ...]) -> None:
    compiled = contract(strategy, *flags)
    for topic in dict.fromkeys(TOPICS.values()):
        sound = [(number, payload) for number in SOUND if TOPICS[number] == topic for payload in SOUND[number]]
        records = [sent(number, payload, header=header) for number, payload in sound for header in (False, True)]
        assert both(compiled, topic, *records * 2)[0].landed


ANY: st.SearchStrategy[Record] = st.one_of(
    st.tuples(st.sampled_from(list(SOUND)), st.integers(0, 40), st.booleans()).map(
        lambda drawn: sent(drawn[0], SOUND[drawn[0]][drawn[1] % len(SOUND[drawn[0]])], header=drawn[2])
    ),
    st.tuples(st.integers(0, 10), st.binary(max_size=8)).map(lambda drawn: sent(*drawn)),
    st.tuples(st.one_of(st.none(), st.binary(max_size=7)), st.just([])),
)
HEADERS = st.sampled_from([
    ("content-type", b"application/json"), ("content-type", b""), ("__value_schema_id", b"\0\0\0\0\1"), ("trace", b"x"),
    ("__value_schema_id", None), ("ce_id", b"1"), ("content-encoding", b"gzip"),
    ("__value_schema_id", b"\1" + bytes(15)),
    ("__value_schema_id", b"\1" + bytes(16) + b"x"), ("__value_schema_id", b"\1" + UUID(GUIDS[5]).bytes + b"\2\2"),
])  # fmt: skip


@settings(max_examples=examples(150))
@given(
    st.sampled_from(STRATEGIES),
    st.sampled_from(POLICIES),
    st.sampled_from([*TOPICS.values(), "elsewhere"]),
    st.lists(st.tuples(ANY, st.lists(HEADERS, max_size=2)), max_size=20),
)
def test_any_records(strategy: Strategy, flags: tuple[str, ...], topic: str, pairs: list[Any]) -> None:
    records = [(value, [*headers, *more]) for (value, headers), more in pairs]
    if records:
        both(contract(strategy, *flags), topic, *records)


REFUSED: dict[str, list[Record]] = {
    "orders": [sent(1, b""), sent(2, b"x"), sent(9, b"x"), (b"{}", []), (b"\0\0", []), sent(2, b"x", header=True)],
    "odd": [sent(4, b""), sent(4, SOUND[4][0] + b"x"), (b"", []), (b"x", [("__value_schema_id", b"\1" + bytes(16))])],
    "scans": [
        *(sent(6, b"\0\xff"), sent(6, b"\2\4"), sent(9, b"\0"), sent(9, b"\x80"), sent(5, b"\4\2\2")),
        (b"\3" * 9, []),
    ],
    "paid": [sent(7, b"{"), sent(8, b"{}"), sent(8, b'{"id":5}'), sent(7, b'{"n":"x"}', header=True), sent(8, b"\xff")],
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("topic", REFUSED)
def test_nor_are_those_that_are_rejected(strategy: Strategy, topic: str) -> None:
    """The rejected payloads have an unknown schema, no schema, or one that cannot read them (K-40, K-44)."""
    records = REFUSED[topic] * 3
    tally, _ = check_batches(contract(strategy), batches(*records, topic=topic), fast=True)
    assert tally.dead_lettered == len(records)


def test_one_record_speaks_for_those_of_the_same_unknown_schema() -> None:
    records = [*(sent(9, bytes([n])) for n in range(50)), *((b"{%d" % n, []) for n in range(50))]
    with patch.object(prefixed, "rejected_payload", side_effect=rejected_payload) as mock:
        tally, _ = both(contract("topic"), "orders", *records)
    assert mock.call_count == 2
    assert tally.reasons == {"schema_not_found": 50, "decode_error": 50}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_valid_records_are_not_processed_individually(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = contract(strategy)
    for name in ("process", "presumed"):
        monkeypatch.setattr(Contract, name, lambda *_: pytest.fail("a message by itself"))
    plain = {5: [b"\2\2\x0a\1P"], 6: [b"\0\x0a\1P\x3a\1n"], 7: [b'{"id": "a"}', b'{"id": "a", "n": 5}']}
    for number, count in {1: 2, 2: 1, 4: 1, 5: 1, 6: 1, 7: 2, 8: 2}.items():
        payloads = plain.get(number, SOUND[number])[:count]
        records = [sent(number, payload, header=header) for payload in payloads for header in (False, True)]
        assert processed(compiled, KAFKA, batches(*records, topic=TOPICS[number]))[0].landed.total() == 2 * count


def test_nested_message_types_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subjects are no definitions of them, but others may be."""
    _, schemas = definitions_of(versions("shop", "PROTOBUF", {6: PROTO_2}), "topic")
    latest = next(xid for xid in schemas if xid.endswith("/versions/1"))
    messages: dict[str, Any] = {
        f"/messagegroups/g/messages/{name}": {
            "protocol": "KAFKA", "protocoloptions": {"topic": "scans"}, "dataschemauri": f"{latest}:shop.{name}",
        }
        for name in ("Item", "Item.Part")
    }  # fmt: skip
    policy = parse_flags(["wire_prefix=confluent"])
    compiled = Snapshot(messages=messages, schemas=schemas, selected=tuple(messages)).compile(policy)
    records = [sent(6, payload) for payload in (b"\4\2\0\x0a\1i", b"\2\2\x0a\1i", b"\4\2\0")]
    both(compiled, "scans", *records, sent(6, b"\4\2"), sent(6, b"\4\2\2x"), sent(6, b"\x14" + b"\2" * 10))
    monkeypatch.setattr(Contract, "process", lambda *_: pytest.fail("a message by itself"))
    _, tables = processed(compiled, KAFKA, batches(*records, topic="scans"))
    assert sorted(map(len, tables.values())) == [1, 2]


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def part(*fields: dict[str, Any], name: str = "P") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": None}
# Types, each with values of it.
KINDS: list[tuple[Any, list[Any]]] = [
    ("int", [0, -(2**31), 2**24 + 1]),
    ("long", [0, 2**63 - 1, 2**53 + 1]),
    ("float", [0.1, -1e30]),
    ("double", [0.1, 1e300, 2**53 + 1.0]),
    ("string", ["", "ü"]),
    ("bytes", [b"", b"x", b"\xff"]),
    ("boolean", [True, False]),
    ("null", [None]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [0, 1_700_000_000_123]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [0, 1_700_000_000_000_123]),
    ({"type": "int", "logicalType": "date"}, [0, 20_000]),
    (enum("X", "Y"), ["X", "Y"]),
    (enum("Y", "Z", "X"), ["Z", "X"]),
    (enum("Y", default="Y"), ["Y"]),
    ({"type": "fixed", "name": "F", "size": 2}, [b"ab"]),
    ({"type": "fixed", "name": "F", "size": 1}, [b"a"]),
    (part(A), [{"a": 1}]),
    (part(A, B), [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
    (part(B, {"name": "a", "type": "double", "default": 1}), [{"a": 0.5, "b": None}]),
    (part({**A, "name": "c", "aliases": ["a"]}), [{"c": 5}]),
    (part(A, name="Other"), [{"a": 1}]),
    (["int", "string"], [1, "x"]),
    (["string", "null", "int"], [None, 1, "x"]),
    (["double", "long"], [0.5, 5]),
    ({"type": "map", "values": "int"}, [{}, {"k": 1}]),
]


@st.composite
def typed(draw: st.DrawFn, kinds: Sequence[tuple[Any, list[Any]]] = KINDS) -> tuple[Any, list[Any]]:
    """A type, maybe one that may be null, or of lists."""
    kind, values = draw(st.sampled_from(kinds))
    match draw(st.sampled_from(["as it is", "as it is", "optional", "list", "list of optional"])):
        case "optional" if not isinstance(kind, list) and kind != "null":
            return draw(st.permutations([kind, "null"])), [*values, None]
        case "list":
            return {"type": "array", "items": kind}, [[], values, values[:1]]
        case "list of optional" if not isinstance(kind, list) and kind != "null":
            return {"type": "array", "items": ["null", kind]}, [[None, *values], []]
    return kind, values


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[Any, Any, list[bytes]]:
    """Two versions of a schema, and payloads of the first."""
    written, read, values = [], [], []
    for name in ("one", "two", "three")[: draw(st.integers(1, 3))]:
        kind, samples = draw(typed())
        written.append({"name": name, "type": kind})
        values.append((name, samples))
        near = draw(st.sampled_from([None, "same", "same", "near", "any"]))
        if near == "same":
            read.append(written[-1])
        elif near is not None:
            # a number that becomes a time is one by its units, which may be none that Python has
            alike = [kind_ for kind_ in KINDS if _logical(kind_[0]) == _logical(kind)]
            alike = [kind_ for kind_ in alike if near == "any" or _kind(kind_[0]) == _kind(kind)] or alike
            read.append({"name": name, "type": draw(typed(alike))[0]})
    more: list[dict[str, Any]] = [{"type": "long", "default": 5}, {"type": "string", "default": "x"}, {"type": "int"}]
    read.append({"name": "more", **draw(st.sampled_from(more))})
    read = draw(st.permutations(read))
    sent = [{name: draw(st.sampled_from(samples)) for name, samples in values} for _ in range(4)]
    both = [_once({"type": "record", "name": "R", "fields": fields}) for fields in (written, read)]
    return both[0], both[1], [write_datum(both[0], kind_) for kind_ in sent]


def _kind(node: Any) -> Any:
    return node["type"] if isinstance(node, dict) else node


def _logical(node: Any) -> Any:
    inner = node["items"] if _kind(node) == "array" else node
    inner = next((branch for branch in inner if branch != "null"), None) if isinstance(inner, list) else inner
    return inner.get("logicalType") if isinstance(inner, dict) else None


def _once(schema: Any, met: set[str] | None = None) -> Any:
    """Return the schema with a new name for each repeated named type, since it may be another type there."""
    met = set() if met is None else met
    if isinstance(schema, list):
        return [_once(branch, met) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _once(value, met) if key in ("type", "items", "values") else value for key, value in schema.items()}
    if "fields" in renamed:
        renamed["fields"] = [_once(branch, met) for branch in renamed["fields"]]
    if "name" in renamed and renamed["type"] in ("record", "enum", "fixed"):
        while renamed["name"] in met:
            renamed["name"] += "_"
        met.add(renamed["name"])
    return renamed


@settings(max_examples=examples(150))
@given(evolutions())
def test_any_two_versions(evolution: tuple[Any, Any, list[bytes]]) -> None:
    written, read, payloads = evolution
    messages, schemas = definitions_of(versions("t-value", "AVRO", {1: written, 2: read}), "topic")
    snapshot = Snapshot(messages=messages, schemas=schemas, selected=tuple(messages), subjects="topic")
    both(snapshot.compile(parse_flags(())), "t", *(sent(1, payload) for payload in payloads))
