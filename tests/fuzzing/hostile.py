# ruff: noqa: E501  a document takes a line
"""Values that programs choke on: of JSON, in paths, in headers, and as documents of each format."""

import base64
import json
import re
from random import Random
from typing import Any, Final
from urllib.parse import quote

Document = dict[str, Any]

SECRET: Final = "fuzz-s3cret"
"""Stands in every request for what no response and no line of the log may repeat."""

TOKENS: Final[tuple[bytes, ...]] = (
    *(b"null", b"true", b"0", b"-0", b"1.0", b"1e400", b"-1e-400", b"1E5", b"9" * 20, b"-" + b"9" * 400),
    *(b"0.1" + b"0" * 500, b"18446744073709551616", b"9223372036854775808", b"-9223372036854775809", b"1e308"),
    *(b"4.9e-324", b"NaN", b"Infinity", b"-Infinity", b"01", b"0x10", b'""', b'" "', b'"\\u0000"', b'"a\\u0000b"'),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\uffff"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\x00"'),
    *(b'"\xf4\x90\x80\x80"', b'"\\ud83d\\ude00"', b'"' + b"x" * 5000 + b'"', b"{}", b"[]", b"[[[]]]"),
    *(b'{"a": 1, "a": 2}', b'{"": ""}', b'{"\\u0000": "x"}', b'{"\\ud800": "x"}', b'{"$ref": "#"}'),
    *(b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70, b"[" * 50_000, b"[" + b"[]," * 3000 + b"[]]"),
    *(b'"2026-13-45T99:99:99Z"', b'"0000-01-01T00:00:00Z"', b'"9999-12-31T23:59:59-23:59"', b'"2026-01-01T00:00:60Z"'),
    *(b'"urn:\\u0000"', b'"http://["', b'"//"', b'"http://[::1"', b'"http://a:99999999/"'),
    *(b'"/schemagroups/g1/schemas/s1"', b'"#/x"', b'"file:///etc/passwd"', b'"\\u202e"', b'"\' OR 1=1 --"'),
    *(b'"%00%FF%"', b'"${HOME}"', b'"$details"', b'"request"', b'"*"'),
)

_TEXTS: Final = (
    *("", ".", "..", "$details", "~1", "null", "request", "\0", "a\0b", "\ufffe", "\U0010ffff", "e\u0301", "\u202e"),
    *("x" * 129, "x" * 9000, "' OR 1=1 --", "%", "%25", "a/b", "a b", "a:b", "@", "+", "\n", "\r\nX: y", "K", "K"),
    *("\u0131", "ß", "1e9", "-1", "0" * 5000 + "1", "9" * 5000, "{}", "[", "(", "\\", "a.b", "*", "a=b", ",", ";", "&"),
    *("=", "#", "?"),
)
_BYTES: Final = (
    *("%FF", "%C0%80", "%ED%A0%80", "%00", "%2F", "%2f..%2f", "%", "%zz", "%u0041", "..%2F..", "%0A", "%7F", "é"),
)


def token(random: Random) -> bytes:
    """Something in the place of a JSON value."""
    return random.choice(TOKENS)


def text(random: Random) -> str:
    """Something in the place of a text."""
    if random.random() < 0.7:
        return random.choice(_TEXTS)
    return "".join(
        chr(random.choice((random.randrange(128), random.randrange(0xD7FF)))) for _ in range(random.randrange(9))
    )


def segment(random: Random) -> str:
    """Something in the place of an id in a path, as it is sent."""
    if random.random() < 0.4:
        return random.choice(_BYTES)
    return quote(text(random), safe=random.choice(("", "$~", "!*'();:@&=+$,[]")))


_PLACE: Final = re.compile(rb'"@@(\d+)@@"')


def dumped(random: Random, value: Any, *, faults: int) -> bytes:
    """``value`` as JSON, with so many things in it replaced, added, or said twice."""
    tokens: list[bytes] = []
    for _ in range(faults):
        value = _changed(random, value, tokens)
    data = json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    return _PLACE.sub(lambda match: tokens[int(match[1])], data)


def _changed(random: Random, value: Any, tokens: list[bytes]) -> Any:
    def raw() -> str:
        tokens.append(token(random))
        return f"@@{len(tokens) - 1}@@"

    if isinstance(value, dict) and value and random.random() < 0.85:
        name = random.choice(list(value))
        match random.randrange(10):
            case 0:
                return {**value, text(random): raw()}
            case 1:
                return {key: member for key, member in value.items() if key != name}
            case 2:
                return {(text(random) if key == name else key): member for key, member in value.items()}
            case _:
                return {**value, name: _changed(random, value[name], tokens)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            return [*value, raw()]
        return [*value[:at], _changed(random, value[at], tokens), *value[at + 1 :]]
    return raw() if random.random() < 0.8 else text(random)


def spoilt(random: Random, data: bytes) -> bytes:
    """``data`` with some bytes changed, cut off, repeated or put in."""
    at, length = random.randrange(len(data) + 1), random.randrange(1, 20)
    match random.randrange(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + length :]
        case 2:
            return data[:at] + data[at : at + length] * random.choice((2, 3, 1000)) + data[at + length :]
        case 3:
            return data[:at] + random.randbytes(length) + data[at + length :]
        case _:
            return (
                data[:at] + random.choice((b"\0", b"\xff", b'"', b"{", b"}", b",", b"\\", b"\xef\xbb\xbf")) + data[at:]
            )


def _read_lines(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(line) for line in text.strip().splitlines())


_AVRO: Final = _read_lines(r"""
{"type": "record", "name": "R", "namespace": "a.b", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"], "default": null}]}
{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "m", "type": {"type": "map", "values": "long"}}]}
{"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}
{"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 4, "scale": 2}
{"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 1000000}}
["null", "string", {"type": "int", "logicalType": "date"}]
""")
_JSON_SCHEMA: Final = _read_lines(r"""
{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}, "b": {"$ref": "#"}}, "required": ["a"]}
{"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}
{"allOf": [{"minimum": 1}, {"maximum": 1e+308}], "anyOf": [{"type": "string"}, {"not": {}}], "enum": [1, "a", null]}
{"$id": "http://x.example/a", "$ref": "schemagroups/g1/schemas/s2", "if": {"const": 1}, "then": false, "else": true}
{"type": ["object", "null"], "patternProperties": {"(?=a)b|[": {}}, "additionalProperties": {"format": "date-time"}, "multipleOf": 1e-300}
""")
_STRUCTURE: Final = _read_lines(r"""
{"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://x.example/s", "name": "S", "type": "object", "properties": {"a": {"type": "int32"}, "b": {"type": "decimal", "precision": 5, "scale": 2}}, "required": ["a"]}
{"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://x.example/t", "$root": "#/definitions/T", "definitions": {"T": {"type": "map", "values": {"type": {"$ref": "#/definitions/T"}}}}}
""")
_PROTOBUF: Final = (
    b'syntax = "proto3"; package a.b; message M { int32 a = 1; repeated string b = 2; map<string, M> c = 3; oneof o { bool d = 4; E e = 5; } } enum E { Z = 0; ONE = 1; }',
    b'syntax = "proto2"; message M { required int32 a = 1 [default = -1]; optional group G = 2 { optional bytes x = 1; } extensions 100 to max; reserved 5, 7 to 9; }',
    b'import "schemagroups/g1/schemas/s1"; service S { rpc Do(stream A) returns (B) { option idempotency_level = IDEMPOTENT; } } message A {} message B { A a = 536870911; }',
    b"message " * 40 + b"{" * 200,
)
_XSD: Final = (
    b'<?xml version="1.0"?><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t" xmlns="urn:t"><xs:element name="a" type="T"/><xs:complexType name="T"><xs:sequence><xs:element name="b" type="xs:int" minOccurs="0" maxOccurs="unbounded"/><xs:any/></xs:sequence><xs:attribute name="c" use="required"/></xs:complexType></xs:schema>',
    b'<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;"> <!ENTITY x SYSTEM "file:///etc/passwd">]><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:annotation>&d;&x;</xs:annotation></xs:schema>',
    b'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:include schemaLocation="http://127.0.0.1:9/x"/><xs:simpleType name="S"><xs:restriction base="S"><xs:pattern value="(a*)*b"/><xs:maxLength value="99999999999999999999"/></xs:restriction></xs:simpleType></xs:schema>',
    b"<a>" * 3000,
    b'<?xml version="1.0" encoding="UTF-16"?><a/>',
)
FORMATS: Final = {
    "Avro/1.12.0": "application/vnd.apache.avro+json",
    "JsonSchema/draft-07": "application/schema+json",
    "JsonSchema/draft/2020-12": "application/schema+json",
    "JsonStructure/draft-04": "application/json",
    "Protobuf/3": "text/plain",
    "XSD/1.1": "application/xml",
}


def _large(random: Random, format: str) -> Any:
    """A document that is wide or deep, of some ten kilobytes."""
    width = random.randrange(50, 1500)
    if random.random() < 0.3:
        deep: Any = "string"
        for _ in range(width // 20):
            deep = {"type": "array", "items": deep}
        return deep
    if format.startswith("Avro"):
        return {
            "type": "record",
            "name": "R",
            "fields": [{"name": f"f{n % (width - 1)}", "type": "int"} for n in range(width)],
        }
    return {"type": "object", "properties": {f"p{n}": {"enum": [n, str(n)]} for n in range(width)}}


def document(random: Random, format: str) -> tuple[Any, bytes]:
    """A document of ``format``, right or wrong: as a JSON value, or a text if it is none, and as bytes."""
    if format.startswith(("Protobuf", "XSD")):
        data = random.choice(_PROTOBUF if format.startswith("Protobuf") else _XSD)
        if random.random() < 0.5:
            data = spoilt(random, data)
        return data.decode("utf-8", "replace"), data
    if random.random() < 0.02:
        value = _large(random, format)
    else:
        names = {"A": _AVRO, "S": _STRUCTURE}
        value = random.choice(names.get(format[0] if format[:5] != "JsonS" or format[5] != "t" else "S", _JSON_SCHEMA))
    data = dumped(random, value, faults=random.choice((0, 0, 1, 1, 2, 5)))
    if random.random() < 0.05:
        data = spoilt(random, data)
    return value, data


def encoded(data: bytes) -> str:
    """Base64, as JSON carries what is no JSON."""
    return base64.b64encode(data).decode("ascii")
