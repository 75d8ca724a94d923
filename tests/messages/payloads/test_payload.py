from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.formats import PayloadError
from signalbook.messages import CompiledDefinition
from signalbook.messages.definitions.schemas import NONE, SchemaUse
from signalbook.messages.message import Message
from signalbook.messages.payloads import payload
from signalbook.messages.payloads.payload import UNSET, Payload, encode_payload


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
def test_json_is_decoded_where_it_is_json(content_type: str, body: bytes | None, expected: object) -> None:
    """K-30"""
    payload = Payload(Message(body=body, content_type=content_type), None)
    payload.decode_json()
    assert payload.value == expected


Define = Callable[..., CompiledDefinition]
AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
PROTO = 'syntax = "proto3"; message R { int32 n = 1; }'
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="n" type="xs:int"/></xs:schema>'
STRUCTURE = {
    "$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://example.com/doc", "name": "R",
    "type": "object", "properties": {"n": {"type": "int32"}},
}  # fmt: skip


def use(define: Define, document: Any, format: str) -> SchemaUse:
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
def test_payloads(define: Define, document: Any, format: str, content_type: str, value: Any, payload: bytes) -> None:
    """K-52: every format, from values and as given."""
    assert encode_payload(use(define, document, format), value, content_type) == payload


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
def test_what_does_not_conform_is_not_sent(
    define: Define, document: Any, format: str, content_type: str, value: Any
) -> None:
    """K-3, K-52"""
    with pytest.raises(PayloadError) as caught:
        encode_payload(use(define, document, format), value, content_type)
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
def test_what_nothing_writes(value: Any, content_type: str) -> None:
    """K-52"""
    with pytest.raises(PayloadError):
        encode_payload(NONE, value, content_type)
