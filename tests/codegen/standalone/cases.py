"""Schemas and values for the checks that generated programs do by themselves, whatever their language."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from tests.formats.jsonschema.cases import cases

from signalbook.codegen.standalone.avro import AvroSchemas
from signalbook.codegen.standalone.jsonschema import JsonSchemas
from signalbook.codegen.standalone.patterns import portable
from signalbook.codegen.standalone.protobuf import ProtobufFiles
from signalbook.codegen.standalone.rules import SchemaRules
from signalbook.codegen.standalone.wire import WireNodes
from signalbook.formats.avro.format import FORMAT as AVRO
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import Resolve
from signalbook.formats.jsonschema.format import FORMAT, JsonSchema
from signalbook.formats.protobuf.format import FORMAT as PROTOBUF
from signalbook.formats.protobuf.format import ProtobufSchema

NEW = "JsonSchema/draft/2020-12"
OLD = "JsonSchema/draft-07"
OLDEST = "JsonSchema/draft-04"
MIDDLE = "JsonSchema/draft/2019-09"
_TREE = {
    "$id": "https://x.example/tree", "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "/tree"}}}}},
}  # fmt: skip
TABLE: list[tuple[str, Any, list[Any]]] = [
    (NEW, {"multipleOf": 0.1}, [0.3, 0.35, 1, 1e-7, -0.2, "x"]),
    (NEW, {"multipleOf": 1e-7}, [1e-7, 3e-7, 1.5e-7, 12]),
    (NEW, {"type": "string", "minLength": 2, "maxLength": 2}, ["😀😀", "😀", "ab", "abc", "é"]),
    (NEW, {"enum": [1, "1", True, None, {"a": [1]}]}, [1, 1.0, "1", True, False, None, 0, {"a": [1]}, {"a": [2]}]),
    (NEW, {"const": 1, "enum": [1, 2]}, [1, 2, 3]),
    (NEW, {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 1},
     [[], ["a"], ["a", 1], ["a", "b"], [1]]),
    (OLD, {"items": [{"type": "string"}], "additionalItems": False}, [[], ["a"], ["a", 1], [1]]),
    (NEW, {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[], [1], [1, 1], [1, 1, 1, 1], [1, 2, 1]]),
    (NEW, {"uniqueItems": True}, [[1, 1.0], [1, True], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ["1", 1], [[], {}]]),
    (NEW, {"properties": {"a": {"type": "integer"}}, "patternProperties": {"^a": {"minimum": 2}, "b$": False},
           "additionalProperties": {"type": "string"}},
     [{"a": 1}, {"a": 3}, {"ab": 3}, {"c": "x"}, {"c": 1}, {"b": 1}, {"a/b": "x"}, {"__proto__": 1}]),
    (NEW, {"propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1, "maxProperties": 2},
     [{}, {"a": 1}, {"A": 1}, {"a": 1, "b": 1, "c": 1}, {"": 1}]),
    (NEW, {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
     [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {"c": 1, "d": 1}, {}]),
    (OLD, {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {"d": 1}]),
    (NEW, {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
     [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {}]),
    (NEW, {"not": {"type": "integer"}, "anyOf": [{"minLength": 2}, {"type": "null"}]}, [1, "a", "ab", None, 1.5]),
    (NEW, {"oneOf": [{"minimum": 2}, {"maximum": 4}]}, [1, 3, 5, "x"]),
    (NEW, {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False},
     [{"a": 1}, {"b": 1}, {"a": 1, "c": 1}, {}]),
    (NEW, {"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}],
           "unevaluatedProperties": {"type": "string"}}, [{"a": 1}, {"a": 2, "b": "x"}, {"a": 1, "b": 2}, {"b": "x"}]),
    (NEW, {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "unevaluatedProperties": False},
     [{"a": 1}, {"a": 2}, {}]),
    (NEW, {"prefixItems": [True], "contains": {"type": "string"}, "unevaluatedItems": False},
     [[1], [1, "a"], [1, 2], ["a", "b", 3]]),
    (MIDDLE, {"items": [True], "contains": {"type": "string"}, "unevaluatedItems": False}, [["a"], [1, "a"], ["a", 1]]),
    (NEW, _TREE, [{"n": 1}, {"n": 1, "kids": [{"n": 2, "kids": []}]}, {"n": 1, "kids": [{}]}, 1]),
    (NEW, {"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "integer"}}}, [1, "x"]),
    (OLD, {"$ref": "#/definitions/a~1b", "minimum": 5, "definitions": {"a/b": {"type": "integer"}}}, [1, 9, "x"]),
    (NEW, {"$ref": "#/$defs/x", "minimum": 5, "$defs": {"x": {"type": "integer"}}}, [1, 9, "x"]),
    (NEW, {"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n", "type": "integer"}}}, [1, "x"]),
    (MIDDLE, {"properties": {"a": {"$recursiveRef": "#"}}, "additionalProperties": False}, [{"a": {"a": {}}}, {"b": 1},
                                                                                       {"a": {"b": 1}}]),
    (OLDEST, {"minimum": 2, "exclusiveMinimum": True, "maximum": 4}, [2, 3, 4, 5]),
    (NEW, {"exclusiveMinimum": 2, "exclusiveMaximum": 4}, [2, 3, 4]),
    (OLDEST, {"const": 1, "if": False, "contains": False, "propertyNames": False}, [2, [1], {"a": 1}]),
    (NEW, {"pattern": "^\\p{L}+$"}, ["é", "1", "日本"]),
    (NEW, {"pattern": r"^\s\S$"}, ["\u00a0a", "\u2003a", "\ufeffa", "\u0085a", "\x0ba", " a", "a "]),
    (NEW, {"pattern": r"^[\s-][^\S]$"}, ["\u00a0\u2003", "- ", "a ", "  a", "\u0085 "]),
    (NEW, {"pattern": r"^\d\w$"}, ["1a", "\u0661a", "1\u00e9", "1_"]),
    (NEW, {"pattern": "^.[.]$"}, ["\r.", "\u2028.", "\n.", "a.", "ab"]),
    (NEW, {"pattern": r"^[\-_]?\d{3}\-\d\@\_\:\"$"}, ['123-4@_:"', '-123-4@_:"', '1234@_:"']),
    (NEW, {"required": ["constructor", "toString"]}, [{}, {"constructor": 1, "toString": 1}]),
    (NEW, True, [1, {}]),
    (NEW, False, [1, {}]),
    (NEW, {"format": "email", "contentEncoding": "base64"}, ["x", 1]),
]  # fmt: skip
"""Schemas with values, of which some conform."""


def random_table(size: int) -> st.SearchStrategy[list[tuple[str, Any, list[Any]]]]:
    """Draw random tables like ``TABLE``, without numbers that some languages cannot represent."""
    row = cases().map(lambda case: (OLD, _small(case[0]), [_small(case[1])]))
    return st.lists(row, min_size=size, max_size=size)


def _small(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _small(element) for name, element in value.items()}
    if isinstance(value, list):
        return list(map(_small, value))
    return value % 100 if isinstance(value, (int, float)) and abs(value) >= 2**31 else value


def tasks(
    table: list[tuple[str, Any, list[Any]]],
    pattern: Callable[[str], str] = portable,
    resolve: Resolve | None = None,
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the check tasks for a program as JSON, and the expected verdict of the pipeline's validator.

    ``pattern`` translates patterns for the library that the program calls.
    """
    for version, schema, values in table:
        parsed = parse(schema, version, resolve)
        rules = SchemaRules(parsed.document)
        schemas = JsonSchemas(parsed.document, pattern)
        task = {"root": rules.of(parsed), "rules": rules.document}
        task |= {"format": "json", "name": schemas.of(parsed), "document": schemas.document}
        for value in values:
            yield {**task, "value": value}, parsed.allows(value)


def parse(schema: Any, format: str = NEW, resolve: Resolve | None = None) -> JsonSchema:
    return FORMAT.parse(json.dumps(schema).encode(), format, resolve=resolve)


PROTO = """syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message All {
  double d = 1; float f = 2; int32 i = 3; int64 l = 4; uint32 u = 5; uint64 ul = 6; sint32 s = 7; sint64 sl = 8;
  fixed32 x = 9; fixed64 xl = 10; sfixed32 sx = 11; sfixed64 sxl = 12; bool b = 13; string t = 14; bytes y = 15;
  Kind kind = 16; repeated int32 many = 17; repeated string texts = 18; repeated Kind kinds = 19;
  map<string, All> named = 20; map<int32, sint32> numbered = 21; All next = 22; repeated All all = 23;
  oneof choice { string one = 24; int32 two = 25; }
  optional int32 maybe = 26; google.protobuf.Timestamp at = 27; google.protobuf.Duration took = 28;
  google.protobuf.Int64Value wrapped = 29; repeated int32 loose = 30 [packed = false]; map<bool, bytes> flags = 100;
}
enum Kind { NONE = 0; SOME = 5; LESS = -1; }"""
MESSAGES: list[dict[str, Any]] = [
    {},
    {
        "d": 1.5,
        "f": 0.25,
        "i": -1,
        "l": -(2**53) + 1,
        "u": 2**32 - 1,
        "ul": 2**53 - 1,
        "s": -(2**31),
        "sl": -5,
        "x": 2**32 - 1,
        "xl": 7,
        "sx": -7,
        "sxl": -(2**40),
        "b": True,
        "t": "é😀",
        "y": b"\x00\xff",
        "kind": "LESS",
    },
    {"many": [0, -1, 300], "texts": ["", "a"], "kinds": ["SOME", "NONE"], "loose": [1, 0]},
    {"named": {"a": {"i": 1}, "": {}}, "numbered": {"-5": -6, "0": 0}, "flags": {"true": b"x", "false": b""}},
    {"next": {"next": {"t": "deep"}}, "all": [{}, {"i": 2}], "one": "", "maybe": 0},
    {"two": 7, "at": "2020-02-29T23:59:59.123456789Z", "took": "-1.500s", "wrapped": 0},
    {"at": "1969-12-31T23:59:59.500Z", "took": "3s", "wrapped": -9},
]
"""Of ``All``, as its schema decodes them, but for what is not set."""

LARGE = re.compile(r"\d{16,}")
"""In the text of a value: a number that is another one as a double."""
AVRO_RECORD: dict[str, Any] = {
    "type": "record", "name": "Every", "namespace": "a.b", "fields": [
        {"name": "f", "type": "float"}, {"name": "z", "type": "null"},
        {"name": "x", "type": {"type": "fixed", "name": "Four", "size": 4}}, {"name": "again", "type": "Four"},
        {"name": "money", "type": {"type": "fixed", "name": "Money", "size": 6, "logicalType": "decimal",
                                   "precision": 9, "scale": 2}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "B"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "either", "type": ["null", "int", "string", {"type": "record", "name": "P", "fields": [
            {"name": "p", "type": "int"}]}, {"type": "record", "name": "Q", "fields": [{"name": "q", "type": "int"}]}]},
        {"name": "next", "type": ["null", "Every"], "default": None},
        {"name": "inner", "type": "P", "default": {"p": 3}},
    ],
}  # fmt: skip
_EVERY: dict[str, Any] = {
    "f": 0.5, "z": None, "x": b"abcd", "again": b"\x00\x01\x02\x03", "money": Decimal("-12.34"),
    "ms": datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "time": time(23, 59, 59, 1), "either": None,
}  # fmt: skip
AVRO_VALUES: list[dict[str, Any]] = [
    _EVERY,
    {**_EVERY, "either": "x", "kind": "A", "raw": b"", "inner": {"p": -1}},
    {**_EVERY, "either": {"q": 1}, "next": {**_EVERY, "kind": "A", "raw": b"", "inner": {"p": 1}, "next": None}},
    {**_EVERY, "either": -5, "money": Decimal("9999999.99")},
]


def unwritable() -> list[tuple[Any, Any, str]]:
    """Tables, values that their schemas forbid, and the paths of what is wrong."""
    record, message = wire(avro(AVRO_RECORD)), wire(protobuf())
    every = plain(_EVERY)
    return [
        (record, {**every, "f": "x"}, "data/f"),
        (record, {**every, "more": 1}, "data/more"),
        (record, {name: member for name, member in every.items() if name != "x"}, "data/x"),
        (record, {**every, "x": "YQ=="}, "data/x"),
        (record, {**every, "kind": "C"}, "data/kind"),
        (record, {**every, "money": "1.234"}, "data/money"),
        (record, {**every, "money": "123456789.00"}, "data/money"),
        (record, {**every, "time": "24:00:00"}, "data/time"),
        (record, {**every, "ms": "yesterday"}, "data/ms"),
        (record, {**every, "either": True}, "data/either"),
        (record, [], "data"),
        (message, {"i": 2**31}, "data/i"),
        (message, {"u": -1}, "data/u"),
        (message, {"i": 1.5}, "data/i"),
        (message, {"kind": "OTHER"}, "data/kind"),
        (message, {"one": "x", "two": 1}, "data/two"),
        (message, {"more": 1}, "data/more"),
        (message, {"named": {"a": {"t": 1}}}, "data/named/a/t"),
        (message, {"all": [{}, {"b": 1}]}, "data/all/1/b"),
        (message, {"took": "1"}, "data/took"),
        (message, {"y": "?"}, "data/y"),
    ]


def unreadable() -> list[tuple[Any, bytes]]:
    """Tables, and bytes that are not of their schemas."""
    record, message = wire(avro(AVRO_RECORD)), wire(protobuf())
    many = wire(avro({"type": "array", "items": "int"}))
    return [
        (record, b""),
        (record, b"\x00" * 8),
        (wire(avro("string")), b"\x02\xff"),
        (wire(avro("string")), b"\x7f"),
        (wire(avro("int")), b"\x02\x02"),
        (wire(avro(["null", "int"])), b"\x04"),
        (wire(avro("long")), b"\xff" * 11),
        (many, b"\xfe\xff\xff\xff\x1f"),
        (message, b"\x08"),
        (message, b"\x72\x05a"),
        (message, b"\x0f"),
        (message, b"\x72\x01\xff"),
        (message, b"\xb2\x01\x00" * 3 + b"\xb2\x01"),
    ]


def avro(schema: Any) -> AvroSchema:
    return AVRO.parse(json.dumps(schema).encode(), "Avro/1.11")


def protobuf() -> ProtobufSchema:
    return PROTOBUF.parse(PROTO.encode(), "Protobuf/3", link="All")


def wire(schema: AvroSchema | ProtobufSchema) -> dict[str, Any]:
    """The table of a schema, and the place of its type, for a program.

    For languages that use a library: the document that it reads, and the name of the type in it.
    """
    nodes = WireNodes("avro" if isinstance(schema, AvroSchema) else "protobuf")
    root = nodes.of(schema)
    task = {"format": nodes.format, "wire": nodes.nodes, "root": root}
    document = AvroSchemas() if isinstance(schema, AvroSchema) else ProtobufFiles()
    name = document.of(schema)
    return {**task, "name": name, "document": document.document}


def plain(value: Any) -> Any:
    """A decoded value as programs have it: bytes are base64, decimals and times text without zeros at the end."""
    match value:
        case dict():
            return {name: plain(element) for name, element in value.items()}
        case list():
            return list(map(plain, value))
        case bytes():
            return b64encode(value).decode()
        case Decimal():
            return f"{value:f}"
        case datetime():
            return _short(value.replace(tzinfo=None).isoformat()) + "Z"
        case time():
            return _short(value.isoformat())
        case date():
            return value.isoformat()
    return value


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
