"""Events of a type that several definitions have: the fast path says what going message by message says."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import batches
from tests.pipeline.processing.test_routing import check, check_batches, outcome, read

from signalbook.formats.jsonschema import JsonSchema
from signalbook.messages import Contract, parse_flags
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing import attributes as envelopes
from signalbook.pipeline.processing import routing
from signalbook.pipeline.sources.files import JSONL

GROUP = "/messagegroups/g"
A: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {"a": {"type": "integer"}, "at": {"format": "date-time"}},
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "a": A,
    "b": {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}, "a": {"type": "string"}}},
    "c": {**A, "required": ["kind"], "properties": {**A["properties"], "kind": {"const": "c"}}},
    "d": {**A, "required": ["kind"], "properties": {**A["properties"], "kind": {"enum": ["d", "e"]}}},
    "either": {"anyOf": [{"required": ["b"]}, {"required": ["kind"]}], **A, "required": []},
    "closed": {**A, "additionalProperties": False},
    "list": {"type": "array", "items": {"type": "integer"}},
}
PROTO = 'syntax = "proto3"; message A { int32 a = 1; }'


def by_topic(topic: str) -> dict[str, Any]:
    return {"protocol": "KAFKA", "protocoloptions": {"topic": topic}}


# Of each type the schemas of its definitions, with what else is said of these.
TYPES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "by.structure": [("a", {}), ("b", {})],
    "by.constant": [("a", {}), ("c", {}), ("d", {})],
    "by.source": [("a", {"source": "/shops/{shop}"}), ("b", {"source": "/{any}/7"}), ("closed", {})],
    "by.protocol": [("a", {"protocol": "HTTP"}), ("b", {"protocol": "KAFKA"}), ("d", {})],
    "variants": [("a", {}), ("a", {"protocol": "HTTP"}), ("a", by_topic("{topic}s"))],
    "by.topic": [("a", {}), ("a", by_topic("others"))],
    "of.proto": [("proto", {"protocol": "KAFKA"}), ("proto", {"protocol": "HTTP"}), ("proto", {})],
    "elsewhere": [("a", {"protocol": "HTTP"}), ("b", {"protocol": "NATS"})],
    "entangled": [("either", {}), ("a", {})],
    "untyped": [("a", {}), ("", {})],
    "alike": [("a", {}), ("closed", {})],
    "of.lists": [("list", {}), ("b", {})],
    "many": [(name, {}) for name in [*SCHEMAS, "c"]],
}
POLICIES = (
    *((), ("on_schema_violation=tag",), ("on_ambiguous=all",), ("on_ambiguous=best",), ("prefer_specific=true",)),
    *(("on_duplicate_names=dead_letter",), ("rescue=drop", "columns=as_sent"), ("on_no_match=drop",)),
)


def document() -> dict[str, Any]:
    messages = {}
    for name, definitions in TYPES.items():
        for number, (schema, more) in enumerate(definitions):
            message_metadata = {key: value for key, value in more.items() if key != "source"}
            source = {"type": "uritemplate", "value": more["source"]} if "source" in more else {}
            if schema:
                message_metadata["dataschemaformat"] = "Protobuf/3" if schema == "proto" else "JsonSchema/draft-07"
                message_metadata["dataschemauri"] = f"/schemagroups/g/schemas/{schema}"
            metadata = {"type": {"value": name}, "source": source, "subject": {"required": number == 1}}
            messages[f"{name}.{number}"] = {
                "envelope": "CloudEvents/1.0", "envelopemetadata": metadata, **message_metadata,
            }  # fmt: skip
    texts = [(name, "JsonSchema/draft-07", schema) for name, schema in SCHEMAS.items()]
    schemas = {
        name: {"versions": {"1": {"format": kind, "schema": text}}}
        for name, kind, text in [*texts, ("proto", "Protobuf/3", PROTO)]
    }
    return {"messagegroups": {"g": {"messages": messages}}, "schemagroups": {"g": {"schemas": schemas}}}


@pytest.fixture(scope="module")
def contracts() -> list[Contract]:
    snapshot = Snapshot.of_documents([("g", document())])
    return [snapshot.compile(parse_flags(flags)) for flags in POLICIES]


DATA = st.one_of(
    st.sampled_from(
        [
            *('{"a":1}', '{"b":"x"}', '{"a":1,"b":"x"}', '{"a":"x","b":"x"}', '{"a":1,"kind":"c"}'),
            *('{"kind":"d","x":[1]}', '{"a":1,"kind":"e","b":"y"}', '{"a":1.0}', '{"a":99999999999999999999}'),
            *('{"a":1,"a":2}', '{"a":1,"x":1,"x":2}', '{"a":1,"at":"soon"}', '{"a":1,"b":"\\ud800"}', '{"a":', ""),
            *("{}", "[]", "[1]", '["x"]', "null", '"x"'),
        ]
    ),
    st.dictionaries(st.sampled_from(["a", "b", "kind"]), st.sampled_from([1, "c", "d", None, 1.5])).map(json.dumps),
)
SENT = st.tuples(
    st.sampled_from(list(TYPES)),
    st.sampled_from(["/shops/1", "/shops/7", "/else/7", "/"]),
    st.sampled_from(["s", "s", None]),
    DATA,
)


def attributes(number: int, type: str, source: str, subject: str | None) -> dict[str, str]:
    attributes_ = {"specversion": "1.0", "id": str(number), "source": source, "type": type}
    return attributes_ if subject is None else {**attributes_, "subject": subject}


def line(number: int, sent: tuple[str, str, str | None, str]) -> bytes:
    head = json.dumps(attributes(number, *sent[:3]))[:-1]
    return f'{head},"data":{sent[3]}}}\n'.encode()


@given(st.sampled_from(range(len(POLICIES))), st.lists(SENT, max_size=12))
@settings(max_examples=examples(150))
def test_both_paths_have_equal_outcomes(contracts: list[Contract], policy: int, sent: list[Any]) -> None:
    """K-28 to K-31, K-46."""
    check(contracts[policy], b"".join(line(number, values) for number, values in enumerate(sent)))


@given(st.sampled_from(range(len(POLICIES))), st.lists(SENT, max_size=12))
@settings(max_examples=examples(150))
def test_both_paths_have_equal_outcomes_for_records(contracts: list[Contract], policy: int, sent: list[Any]) -> None:
    """Definitions for another protocol are not asked."""
    pairs = [(values[3].encode(), headers_of(number, *values[:3])) for number, values in enumerate(sent)]
    check_batches(contracts[policy], batches(*pairs))


def headers_of(number: int, type: str, source: str, subject: str | None) -> list[tuple[str, bytes]]:
    return [(f"ce_{name}", text.encode()) for name, text in attributes(number, type, source, subject).items()]


@pytest.mark.parametrize(
    ("type", "data", "place"),
    [
        ("by.structure", '{"a":1}', 0),
        ("by.structure", '{"b":"x"}', 1),
        ("by.constant", '{"b":1,"kind":"c"}', 1),
        ("by.constant", '{"kind":"e"}', 2),
        ("by.source", '{"b":"x"}', 1),
        ("by.source", '{"a":1,"b":"x"}', 0),
        ("entangled", '{"kind":"c"}', 0),
        ("of.lists", "[1,2]", 0),
        ("by.protocol", '{"a":1,"b":"x","kind":"d"}', 2),
        ("by.protocol", '{"a":1}', 0),
        ("variants", '{"a":1}', 0),
    ],
)
def test_events_of_one_definition_land_together(contracts: list[Contract], type: str, data: str, place: int) -> None:
    text = b"".join(line(number, (type, "/shops/7", "s", data)) for number in range(30))
    tally, _ = check(contracts[0], text, fast=True)
    assert tally.landed == {f"{GROUP}/messages/{type}.{place}": 30}


@pytest.mark.parametrize(
    ("type", "subject", "data", "reason"),
    [
        ("by.structure", "s", ['{"a":"x","more":%d}', '{"a":true}', "[]"], "schema_violation"),
        ("by.structure", None, ['{"a":"x"}', '{"b":%d}', "7"], "schema_violation"),
        ("by.constant", "s", ['{"a":%d,"kind":"c"}', '{"kind":"d","a":7}'], "ambiguous"),
        ("by.constant", "s", ['{"a":"x","kind":"c"}', '{"kind":"f"}'], "schema_violation"),
        ("by.source", "s", ['{"a":%d}'], "ambiguous"),
        ("of.lists", None, ['{"a":%d}', '["x"]'], "schema_violation"),
    ],
)
def test_equal_rejections_are_evaluated_once(
    contracts: list[Contract], type: str, subject: str | None, data: list[str], reason: str
) -> None:
    """Each rejection has its own violations (K-28 to K-31)."""
    texts = [data_text.replace("%d", str(number)) for number in range(10) for data_text in data]
    text = b"".join(line(number, (type, "/shops/7", subject, data_text)) for number, data_text in enumerate(texts))
    with patch.object(Contract, "process", autospec=True, side_effect=Contract.process) as mock:
        outcome(contracts[0], text)
    assert mock.call_count <= 10 + len(data)
    assert check(contracts[0], text, fast=True)[0].reasons == {reason: len(texts)}


def test_messages_with_unmatched_attributes_are_rejected_together(contracts: list[Contract]) -> None:
    """The data of the messages do not matter if they can be read (K-28)."""
    data = ['{"a":', "tru", *(f'{{"a":{number}}}' for number in range(20)), '{"a":1,"a":2}', '{"x":}']
    sources = ["/depots/1", "/", "/shops/1"]
    sent = [("by.source", sources[number % 2], None, data_text) for number, data_text in enumerate(data)]
    sent += [("untyped", sources[number % 3], None, '{"a":"x"}') for number in range(9)]
    tally, _ = check(contracts[0], b"".join(line(number, data_text) for number, data_text in enumerate(sent)))
    assert tally.reasons["decode_error"] == 3


def test_accepted_messages_are_not_evaluated_twice(contracts: list[Contract]) -> None:
    """The policy lands messages that conform to several definitions for all of them."""
    sent = [("by.source", "/shops/7", "s", f'{{"a":{number}}}') for number in range(300)]
    text = b"".join(line(number, values) for number, values in enumerate(sent))
    with patch.object(Contract, "process", autospec=True, side_effect=Contract.process) as mock:
        outcome(contracts[2], text)
    assert mock.call_count < 400
    assert check(contracts[2], text)[0].landed.total() == 600


def test_other_schemas_are_asked_once_for_those_that_break_the_same(contracts: list[Contract]) -> None:
    """Their common violation is the key: the value of ``a``, which one of the definitions requires to be text."""
    values = [f'{{"a":{1000 + number % 3},"more":{number}}}' for number in range(30)]
    text = b"".join(line(number, ("by.structure", "/", "s", value)) for number, value in enumerate(values))
    with patch.object(JsonSchema, "allows", autospec=True, side_effect=JsonSchema.allows) as mock:
        for _ in range(2):
            assert outcome(contracts[0], text)[0].landed.total() == 30
    assert mock.call_count == 3


def test_a_definition_for_another_protocol_takes_nothing_from_the_fast_path(contracts: list[Contract]) -> None:
    headers = headers_of(1, "by.protocol", "/", "s")
    values = [b'{"b":"x"}', b'{"a":1,"kind":"d"}', b'{"a":1}', b'{"b":"x","kind":"e"}'] * 5
    tally, _ = check_batches(contracts[0], batches(*((value, headers) for value in values)))
    assert tally.landed == {f"{GROUP}/messages/by.protocol.1": 10, f"{GROUP}/messages/by.protocol.2": 5}
    assert tally.reasons == {"schema_violation": 5}


@pytest.mark.parametrize(("type", "place"), [("variants", 2), ("by.topic", 0), ("of.proto", 0)])
def test_records_land_as_the_variant_for_kafka(contracts: list[Contract], type: str, place: int) -> None:
    headers = [*headers_of(1, type, "/", "s"), ("content-type", b"application/json")]
    tally, _ = check_batches(contracts[0], batches(*[(b'{"a":1}', headers)] * 5), fast=True)
    assert tally.landed == {f"{GROUP}/messages/{type}.{place}": 5}


def test_definitions_that_differ_in_their_schema_forget_contexts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share cached contexts, whose limit the second batch reaches."""
    monkeypatch.setattr(envelopes, "_MOST_CONTEXTS", 10)
    monkeypatch.setattr(routing, "MIN_BATCH_BYTES", 0)
    monkeypatch.setattr(routing, "_MAX_BATCH_BYTES", 0)
    metadata = {"type": {"value": "t"}, "source": {"type": "uritemplate", "value": "/{shop}/{order}"}}
    messages = {
        name: {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": metadata,
            "dataschemaformat": "JsonSchema/draft-07",
            "dataschema": SCHEMAS[name],
        }
        for name in ("a", "b")
    }
    contract = Snapshot.of_documents([("g", {"messagegroups": {"g": {"messages": messages}}})]).compile(parse_flags(()))
    found = []
    for first in (0, 6, 12):
        sent = [("t", f"/shop{first + number}/7", None, ('{"a":1}', '{"b":"x"}')[number % 2]) for number in range(6)]
        found += read(JSONL, b"".join(line(first + number, values) for number, values in enumerate(sent)))
    tally, tables = check_batches(contract, found, JSONL, fast=True)
    assert tally.landed == {f"{GROUP}/messages/a": 9, f"{GROUP}/messages/b": 9}
    contexts = {row["ce_source"]: dict(row["_context"]) for rows in tables.values() for row in rows}
    assert contexts == {f"/shop{number}/7": {"shop": f"shop{number}", "order": "7"} for number in range(18)}
