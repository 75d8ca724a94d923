"""Messages that are no events: the fast path says what going message by message says, also where events share it."""

import gzip
import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import (
    AVRO,
    AVRO_VALUES,
    CONTENT_TYPES,
    JSON_VALUES,
    PROTO,
    PROTO_VALUES,
    event_headers,
    kafka_records,
    rows,
    written,
)
from tests.pipeline.processing.test_routing import check_batches, processed, read

from signalbook.messages import Contract, parse_flags
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.attributes import EnvelopeChecks
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.pipeline.sources.captures import KAFKA as CAPTURES
from signalbook.pipeline.sources.plain import PLAIN_JSON
from signalbook.values import JSONObject

POLICIES = (
    (),
    ("on_schema_violation=tag", "on_no_match=drop", "columns=as_sent"),
    ("native_mapping=true", "strict_delivery=true"),
    ("on_duplicate_names=dead_letter", "required_schema=true"),
    ("on_ambiguous=all", "/messagegroups/plain/messages/opened:prefer_specific=true"),
    ("wire_prefix=confluent", "/messagegroups/plain/messages/taken:wire_prefix=none"),
)
Record = tuple[bytes | None, Sequence[tuple[str, bytes | None]]]


def ticket(*states: str, **more: Any) -> JSONObject:
    members = {"id": {"type": "string"}, "state": {"enum": list(states)}, "weight": {"type": "number", "minimum": 0}}
    return {"type": "object", "required": ["id", "state"], "properties": members, **more}


def nested(kind: str) -> JSONObject:
    inner = {"type": "object", "required": ["kind"], "properties": {"kind": {"const": kind}, "n": {"type": "integer"}}}
    return {"type": "object", "required": ["meta"], "properties": {"meta": inner}}


SCHEMAS: dict[str, JSONObject] = {
    "opened": ticket("opened", "reopened"),
    "closed": ticket("closed"),
    "moved": ticket("moved", additionalProperties=False),
    "lost": ticket("lost", "closed"),
    "x": nested("x"),
    "y": nested("y"),
    "one": {"type": "object", "required": ["v"], "properties": {"v": {"const": 1}}},
    "true": {"type": "object", "required": ["v"], "properties": {"v": {"const": True}}},
}


def to_topic(topic: str, schema: str = "", **more: Any) -> JSONObject:
    formats = {"parcel": "JsonSchema/draft-07", "measure": "Avro/1.11", "scan": "Protobuf/3"}
    payload = written(formats.get(schema, "JsonSchema/draft-07"), schema) if schema else {}
    options = {"topic": topic, **more.pop("options", {})}
    return {"protocol": "KAFKA", "protocoloptions": options, **payload, **more}


def kind(value: str, *, required: bool = True) -> JSONObject:
    return {"options": {"headers": [{"name": "kind", "value": value, "required": required}]}}


@pytest.fixture(scope="module")
def contracts(parcels: Any) -> list[Contract]:
    """Events, and definitions without an envelope that topics, headers, keys or payloads tell apart."""
    document = parcels.catalogue()
    typed = written("JsonSchema/draft-07", "parcel")
    document["messagegroups"]["parcels"]["messages"] |= {
        "measured": parcels.message("parcel.measured", **written("Avro/1.11", "measure")),
        "scanned": parcels.message("parcel.scanned", **written("Protobuf/3", "scan")),
        "mapped": {**parcels.message("parcel.mapped", **typed), "protocol": "KAFKA", "protocoloptions": {"topic": "m"}},
    }
    document["messagegroups"]["plain"] = {
        "messages": {
            "taken": to_topic("taken", "parcel"),
            "measured.plain": to_topic("measures", "measure"),
            "scanned.plain": to_topic("scans", "scan"),
            "raw": to_topic("raw"),
            "text": to_topic("text", datacontenttype="text/plain"),
            "regional": to_topic("regions/{region}", "parcel", options={"key": "{parcel}"}),
            "a": to_topic("kinds", "parcel", **kind("a")),
            "b": to_topic("kinds", "measure", **kind("b")),
            "c": to_topic("kinds", "closed", **kind("c", required=False)),
            "removed": to_topic("removed", "parcel", deprecated={"removal": "2020-01-01T00:00:00Z"}),
            "partial": to_topic("partial", "parcel", options={"partition": 0}),
            "opened": to_topic("tickets", "opened"),
            "closed": to_topic("tickets", "closed"),
            "moved": to_topic("tickets", "moved"),
            "lost.1": to_topic("lost", "lost"),
            "lost.2": to_topic("lost", "closed"),
            "x": to_topic("nested", "x"),
            "y": to_topic("nested", "y", options={"headers": [{"name": "kind", "value": "{kind}"}]}),
            "one": to_topic("values", "one"),
            "true": to_topic("values", "true"),
            "either.parcel": to_topic("either", "parcel"),
            "either.ticket": to_topic("either", "closed"),
        }
    }
    texts = {name: ("JsonSchema/2020-12", schema) for name, schema in SCHEMAS.items()}
    for name, (form, text) in {**texts, "measure": ("Avro/1.11", AVRO), "scan": ("Protobuf/3", PROTO)}.items():
        version = {"format": form, "schema": text, "labels": {"confluent.id": "7"}}
        document["schemagroups"]["parcels"]["schemas"][name] = {"versions": {"1": version}}
    snapshot = Snapshot.of_documents([("parcels", document)])
    policies = [parse_flags(flags) for flags in POLICIES]
    return [Snapshot.from_json(snapshot.check(policy).to_json()).compile(policy) for policy in policies]


TICKETS = (
    *(json.dumps({"id": "T", "state": state}).encode() for state in ("opened", "reopened", "closed", "moved", "lost")),
    *(b'{"id":"T","state":"opened","state":"closed"}', b'{"id":"T","\\u0073tate":"\\u0063losed","weight":-1}'),
    *(b'{"id":"T","state":"moved","more":1}', b'{"state":"closed"}', b'{"id":"T","state":5}', b'{"id":"T"}'),
    *(b'{"id":"T","state":["opened"]}', b'{"id":"T","state":"opened"', b'{"id":"\xff","state":"opened"}', b"[]"),
    b'{"id":"T","state":"opened","x":{"y":1,"y":2}}',
)
NESTED = (
    *(b'{"meta":{"kind":"x"}}', b'{"meta":{"kind":"y","n":5}}', b'{"meta":{"kind":"y","n":"5"}}', b'{"meta":"x"}'),
    *(b'{"meta":{"kind":"z"}}', b'{"meta":{}}', b'{"meta":{"kind":"x"},"meta":{"kind":"y"}}', b'{"meta":null}'),
)
CONSTANTS = tuple(b'{"v":' + value + b"}" for value in (b"1", b"1.0", b"true", b"1e0", b"2", b"null", b"1e999", b"{}"))
JSONS = (*JSON_VALUES[:5], *JSON_VALUES[8:], *TICKETS, *NESTED, *CONSTANTS)
HEADERS = st.one_of(
    st.tuples(st.just("kind"), st.sampled_from([b"a", b"a", b"b", b"c", b"d", b"\xff", None])),
    st.tuples(st.just("content-type"), st.sampled_from(CONTENT_TYPES)),
    st.sampled_from([("ce_id", b"1"), ("ce_x", b"\xff"), ("content-encoding", b"gzip"), ("trace", b"x")]),
    st.just(("__value_schema_id", b"\0\0\0\0\7")),
)
TOPICS = [
    *("taken", "measures", "scans", "raw", "text", "regions/eu", "regions/", "kinds", "kinds", "removed", "partial"),
    *("tickets", "tickets", "lost", "nested", "values", "either", "m", "elsewhere", ""),
]


@st.composite
def plain_records(draw: st.DrawFn) -> Record:
    """A record without an envelope."""
    value = draw(st.sampled_from([*JSONS, *JSONS, *AVRO_VALUES[:4], *PROTO_VALUES[:4], None]))
    headers = draw(st.lists(HEADERS, max_size=2))
    if value is None:
        return None, headers
    match draw(st.integers(0, 9)):
        case 0:
            return gzip.compress(value), [*headers, ("content-encoding", b"gzip")]
        case 1:
            return b"\0\0\0\0\7" + value, headers
    return value, headers


def records_of(found: Sequence[tuple[str | None, Record]]) -> list[MessageBatch]:
    """Return records of several topics."""
    batch = rows(*(record for _, record in found), keys=(b"k", b"P", None, b"\xff"))
    topics = pa.array([topic for topic, _ in found], pa.string())
    return list(base.read_record_batches(batch.set_column(batch.schema.get_field_index("address"), "address", topics)))


@settings(max_examples=examples(300))
@given(
    st.sampled_from(range(len(POLICIES))),
    st.lists(
        st.tuples(st.sampled_from([*TOPICS, None]), st.one_of(plain_records(), plain_records(), kafka_records())),
        min_size=1,
        max_size=14,
    ),
)
def test_paths_agree_about_records(contracts: list[Contract], policy: int, found: list[tuple[str, Record]]) -> None:
    """Plain records and events, in one contract and one batch."""
    check_batches(contracts[policy], records_of(found), CAPTURES)


PARCEL = JSON_VALUES[0]


@pytest.mark.parametrize(
    ("topic", "record", "landed"),
    [
        ("taken", (PARCEL, []), "taken"),
        ("taken", (gzip.compress(PARCEL), [("content-encoding", b"gzip"), ("content-type", b"text/json")]), "taken"),
        ("measures", (AVRO_VALUES[0], []), "measured.plain"),
        ("scans", (PROTO_VALUES[0], [("content-type", b"application/protobuf")]), "scanned.plain"),
        ("raw", (b"\xff", []), "raw"),
        ("text", (b"x", [("content-type", b"text/plain")]), "text"),
        ("regions/eu", (PARCEL, []), "regional"),
        ("kinds", (PARCEL, [("kind", b"a"), ("trace", b"x")]), "a"),
        ("kinds", (AVRO_VALUES[0], [("kind", b"b")]), "b"),
        ("tickets", (TICKETS[1], []), "opened"),
        ("tickets", (TICKETS[3], []), "moved"),
        ("lost", (TICKETS[4], []), "lost.1"),
        ("nested", (NESTED[0], []), "x"),
        ("nested", (NESTED[1], [("kind", b"k")]), "y"),
    ],
)
def test_plain_records_take_the_fast_path(contracts: list[Contract], topic: str, record: Record, landed: str) -> None:
    tally, tables = check_batches(contracts[0], records_of([(topic, record)] * 3), CAPTURES, fast=True)
    assert tally.landed == {f"/messagegroups/plain/messages/{landed}": 3}
    (found,) = tables.values()
    context = {"regional": [("region", "eu"), ("parcel", "k")], "y": [("kind", "k")]}.get(landed)
    assert (found[0]["_context"], found[0]["ce_datacontenttype"]) == (context, None)


def test_content_types_share_the_checks_of_properties(contracts: list[Contract]) -> None:
    """Senders may make up content types, and each ``EnvelopeChecks`` caches values."""
    found: list[tuple[str, Record]] = [
        ("regions/eu", (PARCEL, [("content-type", f"application/{number}+json".encode())])) for number in range(2)
    ]
    with patch.object(EnvelopeChecks, "__init__", autospec=True, side_effect=EnvelopeChecks.__init__) as mock:
        tally, _ = processed(contracts[0], CAPTURES, records_of(found))
    assert (tally.landed.total(), mock.call_count) == (2, 1)


def test_events_take_it_next_to_plain_definitions(contracts: list[Contract]) -> None:
    """Wherever no definition without an envelope may take them, whatever becomes of them."""
    changes: list[dict[str, bytes | None]] = [{}, {"ce_source": b"/else"}, {"ce_id": b""}]
    found = [("orders", (PARCEL, event_headers(change))) for change in changes]
    tally, _ = check_batches(contracts[0], records_of(found), CAPTURES, fast=True)
    assert tally.reasons == {"metadata_violation": 1, "invalid_cloudevent": 1}


def test_rejected_plain_records_take_it(contracts: list[Contract]) -> None:
    found: list[tuple[str, Record]] = [("taken", (value, [])) for value in (PARCEL, b'{"id":1}', b"{", b'{"id":1}')]
    tally, _ = check_batches(contracts[0], records_of(found), CAPTURES, fast=True)
    assert (tally.landed.total(), tally.reasons) == (1, {"schema_violation": 2, "decode_error": 1})


def kinds(*names: str) -> Contract:
    """Return a contract of messages in files, with these schemas."""
    messages = {name: {"dataschemaformat": "JsonSchema/2020-12", "dataschema": SCHEMAS[name]} for name in names}
    return Snapshot.of_documents([("d", {"messagegroups": {"g": {"messages": messages}}})]).compile(parse_flags(()))


FILES: dict[tuple[str, ...], Contract] = {
    names: kinds(*names) for names in (("opened", "closed", "moved"), ("x", "y"), ("closed",), ("one", "lost"))
}


@settings(max_examples=examples(150))
@given(
    st.sampled_from(list(FILES)),
    st.lists(st.one_of(st.sampled_from(JSONS), st.sampled_from([b"", b"  ", b" {}", b"\r", b"\0", b"1"])), max_size=14),
)
def test_paths_agree_about_files(names: tuple[str, ...], lines: list[bytes]) -> None:
    check_batches(FILES[names], read(PLAIN_JSON, b"\n".join(lines)), PLAIN_JSON)


MANY = [*TICKETS[:4], *TICKETS[:4]]


@pytest.mark.parametrize("text", [b"\n".join(MANY) + b"\n", b"[" + b", ".join(MANY) + b"]"])
def test_lines_and_arrays_of_several_kinds_take_the_fast_path(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(Contract, "process", lambda *_: pytest.fail("a message by itself"))
    batches = read(PLAIN_JSON, text)
    tally, _ = processed(FILES["opened", "closed", "moved"], PLAIN_JSON, batches)
    assert sorted(tally.landed.values()) == [2, 2, 4]
