from base64 import b64encode
from typing import Any, Literal

import pytest
from tests.messages.builders import define

from signalbook.formats import PayloadError
from signalbook.messages import Accepted, Contract, Policy, Rejected, payload
from signalbook.messages.bindings.http import request
from signalbook.messages.definitions.schemas import NONE, SchemaUse
from signalbook.messages.message import Message
from signalbook.messages.payload import UNSET, Payload, encode_payload


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/vnd.x+json", b"[]", []),
        ("", b"5", 5),
        ("text/plain", b"5", payload.UNSET),
        ("application/json", b"{", payload.UNSET),
        ("application/json", None, payload.UNSET),
    ],
)
def test_json_is_decoded_by_content_type(content_type: str, body: bytes | None, expected: object) -> None:
    """Only payloads with a JSON content type are decoded (K-30)."""
    payload = Payload(Message(body=body, content_type=content_type), None)
    payload.decode_json()
    assert payload.value == expected


AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
PROTO = 'syntax = "proto3"; message R { int32 n = 1; }'
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="n" type="xs:int"/></xs:schema>'
STRUCTURE = {
    "$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/doc", "name": "R",
    "type": "object", "properties": {"n": {"type": "int32"}},
}  # fmt: skip


def use(document: Any, format: str) -> SchemaUse:
    return define(dataschema=document, dataschemaformat=format).schema_use


@pytest.mark.parametrize(
    ("document", "format", "content_type", "value", "payload"),
    [
        ({"required": ["n"]}, "JsonSchema/draft-07", "application/json", {"n": 1}, b'{"n":1}'),
        (STRUCTURE, "JsonStructure/draft-04", "application/json", {"n": 1}, b'{"n":1}'),
        (AVRO, "Avro/1.11", "application/avro", {"n": 1}, b"\x02"),
        (AVRO, "Avro/1.11", "application/json", {"n": 1}, b'{"n":1}'),
        (PROTO, "Protobuf/3", "application/protobuf", {"n": 1}, b"\x08\x01"),
        (PROTO, "Protobuf/3", "application/json", {"n": 1}, b'{"n":1}'),
        (XSD, "XSD/1.1", "application/xml", "<n> 1 </n>", b"<n> 1 </n>"),
        (XSD, "XSD/1.1", "text/xml", 1, b"<?xml version='1.0' encoding='utf-8'?>\n<n>1</n>"),
        (AVRO, "Avro/1.11", "application/avro", b"\x02", b"\x02"),
        (PROTO, "Protobuf/3", "application/protobuf", b"\x08\x01", b"\x08\x01"),
    ],
)
def test_payloads(document: Any, format: str, content_type: str, value: Any, payload: bytes) -> None:
    """The test uses every format, with values and encoded payloads (K-52)."""
    assert encode_payload(use(document, format), value, content_type) == payload


@pytest.mark.parametrize(
    ("document", "format", "content_type", "value"),
    [
        ({"required": ["n"]}, "JsonSchema/draft-07", "application/json", {}),
        ({"required": ["n"]}, "JsonSchema/draft-07", "application/json", b"{"),
        ({"required": ["n"]}, "JsonSchema/draft-07", "application/json", UNSET),
        ({"required": ["n"]}, "JsonSchema/draft-07", "application/xml", {"n": 1}),
        (AVRO, "Avro/1.11", "application/avro", {"n": 2**31}),
        (AVRO, "Avro/1.11", "application/avro", b"\x02\x02"),
        (PROTO, "Protobuf/3", "application/protobuf", {"m": 1}),
        (XSD, "XSD/1.1", "application/xml", "<n>x</n>"),
        ({"type": 5}, "JsonSchema/draft-07", "application/json", {}),
    ],
)
def test_violations_are_not_encoded(document: Any, format: str, content_type: str, value: Any) -> None:
    """K-3, K-52"""
    with pytest.raises(PayloadError) as caught:
        encode_payload(use(document, format), value, content_type)
    assert caught.value.findings


@pytest.mark.parametrize(
    ("value", "content_type", "payload"),
    [
        (UNSET, "", None),
        (None, "", b"null"),
        (b"\xff", "image/png", b"\xff"),
        ({"a": 1}, "application/problem+json", b'{"a":1}'),
        ("é", "text/plain; charset=utf-8", "é".encode()),
        ("<a/>", "application/atom+xml", b"<a/>"),
    ],
)
def test_payloads_without_schema(value: Any, content_type: str, payload: bytes | None) -> None:
    """K-42, K-52"""
    assert encode_payload(NONE, value, content_type) == payload


@pytest.mark.parametrize(("value", "content_type"), [("x", "image/png"), (5, "text/plain"), ("\ud800", "text/plain")])
def test_unsupported_payload_is_not_encoded(value: Any, content_type: str) -> None:
    """Values without an encoding are rejected (K-52)."""
    with pytest.raises(PayloadError):
        encode_payload(NONE, value, content_type)


@pytest.mark.parametrize(
    "body", ['{"n":1,"n":2}', '{"n":1,"x":{"m":1,"m":2}}', '{"n":"x","n":"y"}', '{"n":1}', '{"n":', ""]
)
@pytest.mark.parametrize(
    ("document", "format"),
    [({"properties": {"n": {"type": "number"}}}, "JsonSchema/draft-07"), (AVRO, "Avro/1.11"), (PROTO, "Protobuf/3")],
)
@pytest.mark.parametrize("policy", ["last", "dead_letter"])
def test_duplicate_names_are_found_in_every_mode(
    document: Any, format: str, body: str, policy: Literal["last", "dead_letter"]
) -> None:
    """The outcome is the same in binary mode, in ``data_base64``, without an envelope and in a structured event."""
    kind = "application/json"
    schema = {"dataschema": document, "dataschemaformat": format}

    def outcome(message: Message, **more: Any) -> tuple[str, list[str]]:
        contract = Contract.compile({"/g/m/t": schema | more}, lambda _: None, Policy(on_duplicate_names=policy))
        (result,) = contract.process(message)
        if isinstance(result, Accepted):
            return "accepted", [finding.rule for finding in result.warnings]
        assert isinstance(result, Rejected)
        return result.reason.value, [finding.rule for finding in result.violations]

    def event(data: str) -> tuple[str, list[str]]:
        text = f'{{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"{kind}",{data}}}'
        message = Message(content_type="application/cloudevents+json", body=text.encode())
        return outcome(message, envelope="CloudEvents/1.0")

    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    headers = [("content-type", kind), *((f"ce-{name}", value) for name, value in attributes.items())]
    binary = outcome(request("POST", "/", headers, body.encode()), envelope="CloudEvents/1.0")
    assert event(f'"data_base64":"{b64encode(body.encode()).decode()}"') == binary
    assert outcome(Message(content_type=kind, body=body.encode())) == binary
    if body.endswith("}"):
        assert event(f'"data":{body}') == binary
    twice = body.count('"n"') == 2 or body.count('"m"') == 2
    assert ("duplicate" in binary[1]) is (twice and (policy == "dead_letter" or binary[0] == "accepted"))
