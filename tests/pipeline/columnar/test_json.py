"""JSON into columns natively says what typed decoders say."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.jsonschema.cases import cases

from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.fastpath import json, native
from signalbook.pipeline.fastpath.payloads import ColumnReader, Text, ValueReader, reader
from signalbook.pipeline.landing.rows import Mark, Target
from signalbook.values import MAX_DEPTH, dump_json, now, parse_json

FRAGMENTS = st.sampled_from(
    [
        *(b"", b" ", b"\n", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x1f", b",", b":", b"{", b"}", b"["),
        *(b"0", b"-", b"-0", b"00", b"1.0", b"1.", b".5", b"1e2", b"1E+400", b"-1e400", b"1e-400", b"+1", b"NaN"),
        *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809"),
        *(b"123456789012345678901234567890", b"0.1234567890123456789012345", b"2.2250738585072011e-308", b"5e-324"),
        *(b"9007199254740993", b"9007199254740993.0", b"18446744073709551615", b"1" + b"0" * 308, b"1" + b"0" * 309),
        *(b"null", b"true", b"false", b"nul", b"True", b'"', b'"a"', b'"\\u0061"', b'"\\ud83d\\ude00"', b"\\"),
        *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud800\\u0061"', b'"\\x"', b'"\\u12"', b'"\\/\\b\\f\\n\\r\\t\\"\\\\"'),
        *(b'"\xc3\xa9"', b'"\xc3"', b'"\x7f"', b'{"a":1,"a":2}', b'"a":1,', b'"b":null,', b"[" * 64, b"[1]"),
    ]
)  # fmt: skip


def parse(document: Any) -> JsonSchema:
    return FORMAT.parse(dump_json(document), "JsonSchema/draft-07")


def taken(schema: JsonSchema, payloads: list[bytes]) -> list[int]:
    """The numbers of payloads that are taken natively, none of which the validator refuses."""
    decode = json.decoder(schema)
    if decode is None:
        return []
    _, refused = decode(pa.array(payloads, pa.binary()))
    numbers = sorted({*range(len(payloads))} - {*refused})
    assert [schema.validate(parse_json(payloads[number])) for number in numbers] == [[]] * len(numbers)
    return numbers


def check(schema: JsonSchema, payloads: list[bytes]) -> list[dict[str, Any]] | None:
    """Read natively, amid others, and by typed decoders; the rows, or ``None`` where a value does not fit."""
    target = Target("/messagegroups/g/messages/m", "1", schema, Mark(fingerprint="f", batch="b", landed_at=now()))
    array = pa.array([b"before", *payloads, b"behind"], pa.binary()).slice(1, len(payloads))
    try:
        expected, refused = Text(ValueReader(schema.typed(), target)).read(array)
    except MISFITS:
        return None
    found, others = reader(schema, "", target).read(array)
    assert others == refused
    table = pa.Table.from_arrays(found, schema=columns.payload(schema.shape()))
    table.validate(full=True)
    rows: list[dict[str, Any]] = table.to_pylist()
    # as text, for -0.0 is 0.0
    assert str(rows) == str(pa.Table.from_arrays(expected, schema=table.schema).to_pylist())
    return rows


@st.composite
def spoilt(draw: st.DrawFn, payload: bytes) -> bytes:
    """A payload as it is, or with something put in its middle, in place of some of it."""
    if draw(st.booleans()):
        return payload
    start = draw(st.integers(0, len(payload)))
    end = draw(st.integers(start, min(len(payload), start + 4)))
    return payload[:start] + draw(FRAGMENTS) + payload[end:]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), st.data())
def test_columns_are_what_typed_decoders_give(case: tuple[dict[str, Any], Any], data: st.DataObject) -> None:
    """K-41"""
    schema, payload = parse(case[0]), dump_json(case[1])
    payloads = [payload, *data.draw(st.lists(spoilt(payload), max_size=8))]
    taken(schema, payloads)
    check(schema, payloads)


WHOLE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "size"],
    "properties": {
        "id": {"type": "string", "pattern": "^P[0-9]{2}$"},
        "size": {"type": "object", "required": ["l"], "properties": {"l": {"type": "integer", "minimum": 1}}},
        "weight": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "status": {"enum": ["new", "old", None]},
        "codes": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "stops": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "string"}}}},
        "flag": {"type": "boolean"},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
        "extra": {},
        "nothing": {"type": "null"},
        "code": {"type": ["string", "integer"]},
    },
}
SOUND: list[dict[str, Any]] = [
    {"id": "P01", "size": {"l": 1}},
    {"size": {"more": [1, {}], "l": 9}, "id": "P02", "weight": 1, "status": "old", "codes": [], "flag": True},
    {"id": "P03", "size": {"l": 2}, "weight": None, "status": None, "codes": [1, -2, 3], "stops": [{}, {"at": "ü\n"}]},
    {"id": "P04", "size": {"l": 3}, "labels": {"a": "é😀", "": ""}, "extra": {"a": [None, 1.5]}, "nothing": None},
    {"id": "P05", "size": {"l": 2**63 - 1}, "weight": 1e-7, "extra": None, "labels": {}, "stops": [], "code": 5},
]


PARSED = parse(WHOLE)


class Nobody:
    """Reads nothing at all."""

    most = 1

    def read(self, payloads: pa.BinaryArray) -> Any:
        raise AssertionError(payloads)


def test_sound_payloads_are_taken() -> None:
    schema, payloads = parse(WHOLE), [*map(dump_json, SOUND)]
    assert taken(schema, payloads) == [*range(len(payloads))]
    decode = json.decoder(schema)
    assert decode is not None
    _, refused = ColumnReader(decode, Nobody()).read(pa.array(payloads, pa.binary()))
    assert refused == []
    rows = check(schema, payloads)
    assert rows is not None
    assert [row["id"] for row in rows] == ["P01", "P02", "P03", "P04", "P05"]


def test_odd_payloads_are_put_in_their_places() -> None:
    schema = parse({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
    payloads = [b'{"n": 1}', b'{"n": 2.0}', b'{"n": 3}', b'{"n": "x", "n": 4}', b'{"n": "x"}', b'{"\\u006e": 5}', b" {"]
    assert taken(schema, payloads) == [0, 2]
    assert check(schema, payloads) == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}, {"n": 5}]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ({"type": "number"}, b"1e400"),
        ({"type": "number"}, b"NaN"),
        ({"type": "number"}, b"01"),
        ({"type": "integer"}, b"9223372036854775808"),
        ({"type": "string"}, b'"\\ud800"'),
        ({"type": "string"}, b'"\\ud800\\ud800"'),
        ({"type": "string"}, b'"\x01"'),
        ({"type": "string"}, b'"\xff"'),
        ({"type": "string"}, b'"\xed\xa0\x80"'),
        ({"type": "string", "minLength": 2}, '"é"'.encode()),
        ({"type": "string", "maxLength": 1}, b'"ab"'),
        ({"type": "string", "pattern": "^(?:a|b)$"}, b'"ab"'),
        ({"enum": ["a", "b"]}, b'"c"'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, b'{"a": 1, "a": 2}'),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, b"[]"),
        ({}, b"[" * 64 + b"]" * 64),
        ({}, b'"\\ud800"'),
        ({}, b'["\x00"]'),
        ({}, b"[1,]"),
        ({}, b'{"a" 1}'),
        ({}, b"1 2"),
        ({}, b""),
    ],
)  # fmt: skip
def test_doubtful_payloads_are_left_to_others(kind: Any, text: bytes) -> None:
    schema = parse({"type": "object", "properties": {"v": kind}})
    payloads = [b"{}", b'{"v": ' + text + b"}", b"{}"]
    assert taken(schema, payloads) == [0, 2]
    check(schema, payloads)


def test_depth_is_that_of_decoding() -> None:
    schema = parse({"type": "object", "properties": {"v": {}}})
    payloads = [b'{"v": ' + b"[" * count + b"]" * count + b"}" for count in (MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH)]
    assert taken(schema, payloads) == [0, 1]
    check(schema, payloads)


def test_what_a_guard_refuses_is_of_one_payload() -> None:
    """Guarded members are checked for all payloads at once."""
    part = {"type": "object", "properties": {"k": {"type": ["string", "integer"], "minimum": 1, "minLength": 1}}}
    schema = parse({"type": "object", "properties": {"parts": {"type": "array", "items": part}, "p": part}})
    values = [
        {"parts": [{}, {"k": "a"}]},
        {"parts": [{"k": 1}, {"k": 0}]},
        {"parts": [], "p": {"k": ""}},
        {"p": {"k": 2}},
    ]
    payloads = [*map(dump_json, values)]
    assert taken(schema, payloads) == [0, 3]
    rows = check(schema, payloads)
    assert rows is not None
    assert [row["p"] for row in rows] == [None, {"k": "2"}]


def test_many_members_are_told_apart() -> None:
    names = [f"n{number}" for number in range(100)]
    schema = parse(
        {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names[:50]}
    )
    value = {name: number for number, name in enumerate(names)}
    backward = dict(reversed(value.items()))
    payloads = [*map(dump_json, [value, backward, {**backward, "m": 1}, {"n1": 1}, dict(list(value.items())[:50])])]
    assert taken(schema, payloads) == [0, 1, 2, 4]
    check(schema, payloads)


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.text('{}[]",:\\u0dn1.e- ', max_size=30).map(str.encode)), max_size=5)
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_may_come(payloads: list[bytes]) -> None:
    check(PARSED, [*payloads, dump_json(SOUND[1]), *(dump_json(SOUND[3])[:-1] + payload for payload in payloads)])


@pytest.mark.parametrize(
    "document",
    [
        {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1},
        {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]},
    ],
)
def test_what_can_only_be_validated_as_a_whole_has_no_decoder(document: Any) -> None:
    assert json.decoder(parse(document)) is None


def test_names_that_json_escapes_have_none() -> None:
    assert json.decoder(parse({"type": "object", "properties": {'a"b': {"type": "string"}}})) is None


@pytest.mark.parametrize("shape", [{"type": "array", "items": {"type": "string"}}, {"type": "integer"}, {}])
def test_payloads_need_not_be_objects(shape: Any) -> None:
    payloads = [b'["a"]', b" 1 ", b"[]", b"null", b'{"a": [1 , 2]}']
    assert check(parse(shape), payloads)
    assert taken(parse(shape), payloads)


def test_zeros_below_zero_are_those_of_fractions() -> None:
    """-0 is an integer, and so 0."""
    assert str(check(parse({"type": "number"}), [b"-0", b"-0.0", b"-0e0", b"0"])) == str(
        [{"data": value} for value in (0.0, -0.0, -0.0, 0.0)]
    )


def test_without_the_module_all_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "signalbook_native", None)
    native.module.cache_clear()
    try:
        schema = parse(WHOLE)
        assert json.decoder(schema) is None
        rows = check(schema, [*map(dump_json, SOUND), b"{}"])
    finally:
        native.module.cache_clear()
    assert rows is not None
    assert len(rows) == len(SOUND)


def test_the_module_checks_what_it_is_given() -> None:
    decoder = native.module().Decoder
    with pytest.raises(ValueError, match="no columns of kind"):
        decoder(("else", False))
    with pytest.raises(IndexError):
        decoder(("int", False))
    made = decoder(("int", False, None, None, None, None))
    with pytest.raises(ValueError, match="outside"):
        made.read(b"12", np.array([0, 1, 3], np.int32).tobytes())
    with pytest.raises(ValueError, match="outside"):
        made.read(b"12", np.array([-1, 1], np.int32).tobytes())
    assert made.read(b"12", np.array([0, 1, 2], np.int32).tobytes())[0][0] == 2  # nothing is left of the others
    assert made.read(b"", b"") == ((0, 0, [None, b""], []), [])
