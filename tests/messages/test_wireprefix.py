from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.messages import Accepted, Contract, Message, Outcome, Policy, Rejected, SchemaDocument, content
from signalbook.messages.bindings.kafka import record
from signalbook.values import JSON, dump_json

S = "/schemagroups/g/schemas/s"
OLD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
NEW = {**OLD, "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}]}
PREFIXED = Policy(wire_prefix="confluent")
PROTO = (
    'syntax = "proto3"; message A { int32 n = 1; } message B { int32 n = 1; message M { } message C { int32 n = 1; } }'
)


def outcome(body: bytes | None, versions: dict[int, JSON], format: str, link: str = "", **more: Any) -> Outcome:
    """Return the outcome of a record if the schema's Versions have these numbers; the last one is the definition's."""
    documents = {
        xid: SchemaDocument(
            content=text.encode() if isinstance(text, str) else dump_json(text), format=format, xid=f"{S}/versions/{n}"
        )
        for n, text in versions.items()
        for xid in (S, content.reference_of_number(S, n))
    }
    definition = {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}, "dataschemauri": S + link, **more}
    contract = Contract.compile({"/g/m/a": definition}, documents.get, Policy(wire_prefix="confluent"))
    (result,) = contract.process(record("t", body))
    return result


def reason(outcome_: Outcome) -> str:
    assert isinstance(outcome_, Rejected)
    return outcome_.reason.value


def prefixed(number: int, payload: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + payload


def test_payload_is_decoded_with_the_schema_of_its_prefix() -> None:
    """The result has the schema of the definition (K-39, K-40)."""
    versions: dict[int, JSON] = {7: OLD, 300: NEW}
    for body, expected in ((b"\x06", {"a": 3, "b": "none"}), (b"\x06\x02x", {"a": 3, "b": "x"})):
        result = outcome(prefixed(7 if len(body) == 1 else 300, body), versions, "Avro/1.11")
        assert isinstance(result, Accepted)
        assert (result.data, result.payload()) == (expected, body)


@pytest.mark.parametrize(
    ("indices", "link"), [(b"\x00", ":A"), (b"\x02\x00", ":A"), (b"\x02\x02", ":B"), (b"\x04\x02\x02", ":B.C")]
)
def test_a_protobuf_payload_has_indices_too(indices: bytes, link: str) -> None:
    result = outcome(prefixed(1, indices + b"\x08\x05"), {1: PROTO}, "Protobuf/3", link)
    assert isinstance(result, Accepted)
    assert result.data == {"n": 5}


@pytest.mark.parametrize("indices", [b"\x00", b"\x02\x04", b"\x04\x02\x00", b"\x04\x02\x80\x01", b"\x02\x01"])
def test_a_protobuf_payload_of_another_message_type(indices: bytes) -> None:
    assert reason(outcome(prefixed(1, indices + b"\x08\x05"), {1: PROTO}, "Protobuf/3", ":B")) == "decode_error"


GUID = UUID("0b9a7f5e-1f2a-4c3d-8e4f-5a6b7c8d9e0f")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"\1" + GUID.bytes, {"a": 3, "b": "none"}),
        (b"\0\0\0\0\7", {"a": 3, "b": "none"}),
        (b"\1" + bytes(16), "schema_not_found"),
        (b"\1" + GUID.bytes + b"x", "decode_error"),
        (b"\1\2", "decode_error"),
        (b"", "decode_error"),
    ],
)
def test_header_can_identify_the_schema(header: bytes, expected: Any) -> None:
    """The payload has no prefix then."""
    documents = {
        xid: SchemaDocument(content=dump_json(text), format="Avro/1.11", xid=f"{S}/versions/{n}")
        for n, text, ids in ((1, OLD, (7, GUID)), (2, NEW, (8,)))
        for xid in (S, *(content.reference_of_number(S, str(schema_id)) for schema_id in ids))
    }
    contract = Contract.compile({"/g/m/a": {"protocol": "KAFKA", "dataschemauri": S}}, documents.get, PREFIXED)
    (result,) = contract.process(record("t", b"\x06", [("__value_schema_id", header)]))
    if isinstance(expected, str):
        assert reason(result) == expected
    else:
        assert isinstance(result, Accepted)
        assert (result.data, result.payload()) == (expected, b"\x06")
    assert contract.presumed(record("t", b"\x06", [("__value_schema_id", header)])) is None


def test_last_of_several_headers_identifies_the_schema() -> None:
    """Serializers add the header, so a forwarded record that was serialized again has two."""
    documents = {
        xid: SchemaDocument(content=dump_json(NEW), format="Avro/1.11", xid=f"{S}/versions/1")
        for xid in (S, content.reference_of_number(S, str(GUID)))
    }
    contract = Contract.compile({"/g/m/a": {"protocol": "KAFKA", "dataschemauri": S}}, documents.get, PREFIXED)
    own, other = (("__value_schema_id", b"\1" + guid) for guid in (GUID.bytes, bytes(16)))
    (result,) = contract.process(record("t", b"\x06\x02x", [other, own]))
    assert isinstance(result, Accepted)
    assert result.data == {"a": 3, "b": "x"}
    (result,) = contract.process(record("t", b"\x06\x02x", [own, other]))
    assert reason(result) == "schema_not_found"
    (result,) = contract.process(record("t", b"\x06\x02x", [own, ("__value_schema_id", None)]))
    assert reason(result) == "decode_error"


def test_writing_schema_selects_among_several_definitions() -> None:
    """The others have nothing to say of it; where it is of none, that is all there is to say."""
    documents = {
        xid: SchemaDocument(content=dump_json(text), format="Avro/1.11", xid=f"{resource}/versions/1")
        for resource, number, text in ((f"{S}1", 7, OLD), (f"{S}2", 8, NEW))
        for xid in (resource, content.reference_of_number(resource, number))
    }
    definitions = {f"/g/m/{n}": {"protocol": "KAFKA", "dataschemauri": f"{S}{n}"} for n in (1, 2)}
    contract = Contract.compile(definitions, documents.get, PREFIXED)
    for number, expected in ((7, "/g/m/1"), (8, "/g/m/2")):
        (result,) = contract.process(record("t", prefixed(number, b"\x06\x02x"[: 1 if number == 7 else 3])))
        assert isinstance(result, Accepted)
        assert result.definition.xid == expected
    for number, names in ((8, ("/g/m/2",)), (9, ())):
        (result,) = contract.process(record("t", prefixed(number, b"")))
        assert isinstance(result, Rejected)
        assert result.candidates == names
        assert len(result.violations) == 1


def test_a_json_payload_is_validated() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for body, good in ((b'{"n": 1}', True), (b'{"n": "x"}', False)):
        result = outcome(prefixed(1, body), {1: schema}, "JsonSchema/draft-07")
        assert isinstance(result, Accepted) == good
        assert good or reason(result) == "schema_violation"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (prefixed(8, b"\x06"), "schema_not_found"),
        (b"\x06", "decode_error"),
        (b"\x00\x00\x00", "decode_error"),
        (b"", "decode_error"),
        (prefixed(7, b""), "decode_error"),
        (None, "schema_violation"),
    ],
)
def test_undecodable_payloads_are_rejected(body: bytes | None, expected: str) -> None:
    """A message with an unknown number waits for its schema (K-44)."""
    assert reason(outcome(body, {7: OLD}, "Avro/1.11")) == expected


@pytest.mark.parametrize("indices", [b"", b"\x80", b"\x01", b"\x04\x02", b"\xff\xff\xff\xff\x0f"])
def test_invalid_indices_are_a_decode_error(indices: bytes) -> None:
    assert reason(outcome(prefixed(1, indices), {1: PROTO}, "Protobuf/3", ":B")) == "decode_error"


def test_an_inline_schema_has_but_one_version() -> None:
    definition = {"protocol": "KAFKA", "dataschemaformat": "Avro/1.11", "dataschema": OLD}
    contract = Contract.compile({"/g/m/a": definition}, lambda _: None, Policy(wire_prefix="confluent"))
    (result,) = contract.process(record("t", prefixed(5, b"\x06")))
    assert isinstance(result, Accepted)
    assert result.data == {"a": 3}


def test_events_in_json_have_no_prefix() -> None:
    definition = {"envelope": "CloudEvents/1.0", "dataschemaformat": "JsonSchema/draft-07", "dataschema": {}}
    contract = Contract.compile({"/g/m/t": definition}, lambda _: None, Policy(wire_prefix="confluent"))
    event = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": 5}'
    (result,) = contract.process(Message(content_type="application/cloudevents+json", body=event))
    assert isinstance(result, Accepted)
    assert result.data == 5


@given(st.binary(max_size=20), st.sampled_from(["Avro", "Protobuf"]))
def test_any_bytes_have_a_prefix_or_not(payload: bytes, format: str) -> None:
    try:
        writer = content.read_writer_schema(record("t", payload), payload, format)
    except ValueError:
        return
    if payload[0]:
        assert str(UUID(bytes=payload[1:17])) == writer.id
    else:
        assert int.from_bytes(payload[1:5], "big") == writer.id
    assert payload.endswith(writer.payload)


def test_duplicate_names_after_a_prefix_are_reported() -> None:
    result = outcome(prefixed(7, b'{"a":1,"a":2}'), {7: {"type": "object"}}, "JsonSchema/draft-07")
    assert isinstance(result, Accepted)
    assert (result.data, [warning.rule for warning in result.warnings]) == ({"a": 2}, ["duplicate"])
