"""JSON natively into columns says what decoding payload by payload says."""

import json
import re
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.jsonschema.cases import EVENT, ODD, cases
from tests.pipeline.processing.payloads import check

from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.formats.jsonschema.pattern import translate
from signalbook.pipeline import native, rescue
from signalbook.pipeline.native import NoPlan, PayloadSpans
from signalbook.pipeline.processing.json_plans import build_json_decoder, build_pattern_program
from signalbook.values import MAX_DEPTH, dump_json, parse_json

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
    decode = build_json_decoder(schema, schema.shape())
    _, refused = decode(PayloadSpans.of_list(payloads))
    numbers = sorted({*range(len(payloads))} - {*refused})
    assert [schema.validate(parse_json(payloads[number])) for number in numbers] == [[]] * len(numbers)
    return numbers


@st.composite
def spoilt(draw: st.DrawFn, payload: bytes) -> bytes:
    """A payload as it is, or with something put in its middle, in place of some of it."""
    if draw(st.booleans()):
        return payload
    start = draw(st.integers(0, len(payload)))
    end = draw(st.integers(start, min(len(payload), start + 4)))
    return payload[:start] + draw(FRAGMENTS) + payload[end:]


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), st.data())
def test_columns_are_what_decoding_gives(case: tuple[dict[str, Any], Any], data: st.DataObject) -> None:
    """The columns equal those of the slow path (K-41)."""
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


def test_sound_payloads_are_taken() -> None:
    schema, payloads = parse(WHOLE), [*map(dump_json, SOUND)]
    assert taken(schema, payloads) == [*range(len(payloads))]
    rows = check(schema, payloads)
    assert [row["id"] for row in rows.values()] == ["P01", "P02", "P03", "P04", "P05"]


SCALARS: list[dict[str, Any]] = [
    *({"type": kind} for kind in ("null", "boolean", "integer", "number", "string")),
    *({"type": "string", "maxLength": 2}, {"type": "string", "format": "date-time"}),
    {"type": "string", "pattern": "^a+$"},
    *({"type": "integer", "minimum": 1, "maximum": 9}, {"type": "number", "exclusiveMinimum": 0}, {"const": True}),
    *({"enum": ["a", "b", None]}, {"enum": [1, 2.0]}, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
    *({"type": "object"}, {"type": "object", "additionalProperties": False}, {"type": "array", "uniqueItems": True}),
    {"type": ["string", "integer"], "minLength": 1, "minimum": 3},
    {"type": "object", "properties": {"x": {"enum": [1]}}},
]
PARTS = st.sampled_from(
    [
        *(None, True, False, 0, 1, 2, 3, 10, -1, 1.0, 1.5, -0.0, 2**70, "", "a", "aa", "aaa", "b"),
        "2026-01-02T03:04:05Z",
        *([], [1], [1, 2, 3], [1.5], [1, 1], {}, {"a": 1}, {"x": 1}, {"x": 2, "y": [{}]}),
    ]
)


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(SCALARS), min_size=2, max_size=4),
    st.sampled_from(["anyOf", "oneOf"]),
    st.lists(PARTS, min_size=1, max_size=8),
    st.data(),
)
def test_unions_of_scalar_types(kinds: list[Any], keyword: str, values: list[Any], data: st.DataObject) -> None:
    """The union is the payload itself, or a member of it."""
    whole = {keyword: kinds}
    for schema, payloads in (
        (parse(whole), [dump_json(value) for value in values]),
        (
            parse({"type": "object", "properties": {"u": whole, "n": {}}}),
            [dump_json({"u": value_}) for value_ in values],
        ),
    ):
        taken(schema, payloads)
        check(schema, [payload for payload in payloads if payload != b"null"])
        check(schema, [data.draw(spoilt(payload)) for payload in payloads])


def test_types_that_no_guard_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.pipeline.processing.json_plans.guard", None)
    union = {"type": ["string", "integer", "null", "boolean"], "maxLength": 3, "minimum": 0}
    lists = {"oneOf": [{"type": "string"}, {"type": "array"}]}
    schema = parse({"type": "object", "properties": {"u": union, "l": lists}})
    scalars: list[Any] = ["a", "abcd", 1, -1, None, True, 1.0, 1.5, []]
    several: list[Any] = ["a", [], [{"a": 1}], {}, 1]
    payloads = [*(dump_json({"u": value}) for value in scalars), *(dump_json({"l": value}) for value in several)]
    assert taken(schema, payloads) == [0, 2, 4, 5, 6, 9, 10, 11]
    assert check(schema, payloads)[6]["u"] == "1.0"


OBJECT = {"type": "object"}


def shape(kind: Any, **members: Any) -> dict[str, Any]:
    properties = {"kind": kind, **members}
    return {**OBJECT, "required": list(properties), "properties": properties}


ALTERNATIVES: list[dict[str, Any]] = [
    shape({"const": "a"}, n={"type": "integer"}),
    shape({"const": "b"}, n={"type": ["string", "integer"]}, at={"type": "string", "format": "date-time"}),
    shape({"enum": ["c", "d"]}, l={"type": "array", "items": {"oneOf": [{"type": "null"}, shape({"const": 1})]}}),
    {**shape({"enum": ["b", "e"]}), "additionalProperties": False},
    shape({"type": "string"}, n={"type": "integer"}),
    {**shape({"const": "f"}, n={"type": "number", "multipleOf": 0.5}), "minProperties": 3},
    {**shape({"const": "g"}), "not": {"required": ["n"]}},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object", "required": ["x"], "properties": {"x": {"type": "boolean"}}, "maxProperties": 1},
]
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from([*"abcdefg", 1, None]),
        "n": st.sampled_from([1, 1.0, 1.5, "x", None]),
        "at": st.just("2026-01-02T03:04:05Z"),
        "l": st.sampled_from([[], [None], [{"kind": 1}], [{"kind": 2}]]),
        "x": st.booleans(),
    },
)


@settings(max_examples=examples(100))
@given(
    st.lists(st.sampled_from(ALTERNATIVES), min_size=2, max_size=4),
    st.sampled_from(["anyOf", "oneOf"]),
    st.sampled_from([{}, {"type": "object"}, {"required": ["n"]}, {"properties": {"n": {"type": "integer"}}}]),
    st.lists(MEMBERS, min_size=1, max_size=8),
    st.data(),
)
def test_unions_of_objects(kinds: list[Any], keyword: str, around: Any, values: list[Any], data: st.DataObject) -> None:
    """The union is the payload, or in a list in it (K-41)."""
    whole = {**around, keyword: kinds}
    payloads = [dump_json(value) for value in values]
    for schema, texts in (
        (parse(whole), payloads),
        (parse({"properties": {"all": {"type": "array", "items": whole}}, **OBJECT}), [dump_json({"all": values})]),
    ):
        taken(schema, texts)
        check(schema, texts)
        check(schema, [data.draw(spoilt(text)) for text in texts])


def test_discriminated_alternatives_need_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbook.pipeline.processing.json_plans.guard", None)
    first: list[Any] = [{"kind": "a", "n": 1, "more": {}}, {"kind": "b", "n": "x", "at": "soon"}]
    first.append({"kind": "c", "l": [None, {"kind": 1.0}]})
    odd_payloads: list[Any] = [
        {"kind": "a"},
        {"kind": "b", "n": 1.5, "at": ""},
        {"kind": "d"},
        {"kind": "z", "n": 1},
        [],
    ]
    schema = parse({"oneOf": ALTERNATIVES[:3]})
    rows = check(
        schema, [dump_json(payload) for payload in [*first, *odd_payloads]] + [b'{"kind":"a","n":1,"x":{"y":1,"y":2}}']
    )
    assert [json.loads(row["data"]) for row in rows.values()] == first
    # Both may be: which is for the validator.
    either = parse({"oneOf": [ALTERNATIVES[0], ALTERNATIVES[4]]})
    with pytest.raises(TypeError):
        build_json_decoder(either, either.shape())


@pytest.mark.parametrize(("payload", "accepted"), ODD)
def test_odd_payloads(payload: bytes, accepted: bool) -> None:
    assert accepted or taken(parse(EVENT), [payload]) == []
    check(parse(EVENT), [payload])


def test_payloads_are_accepted_in_order_of_any_number() -> None:
    """Large and small ones, such as conform, such as do not, and what is no text: in two blocks of some 200 KB."""
    schema = parse({"type": "object", "properties": {"n": {"type": "integer"}}})
    all_payloads = [b'{"n": %d, "x": "%s"}' % (number, b"y" * (number % 13 * 60)) for number in range(1000)]
    lost = set(range(5, 1000, 7))
    payloads = [(b'{"n": "%d"}' % number if number % 2 else b"\xff") if number in lost else payload
                for number, payload in enumerate(all_payloads)]  # fmt: skip
    rows = check(schema, payloads)
    assert {number: row["n"] for number, row in rows.items()} == {n: n for n in range(1000) if n not in lost}


def test_a_long_text_makes_no_room_for_many_such() -> None:
    """Room is made for as long texts as there were before; 4,096 of 32 MB no machine has."""
    schema = parse({"type": "object", "properties": {"x": {"type": "string"}}})
    decode = build_json_decoder(schema, schema.shape())
    for values in (["y" * (1 << 25)], [str(number) for number in range(4096)]):
        columns, refused = decode(PayloadSpans.of_list([b'{"x": "%s"}' % value.encode() for value in values]))
        assert (columns[0].to_pylist(), refused) == (values, [])


def test_doubt_is_about_single_payloads() -> None:
    schema = parse({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
    payloads = [b'{"n": 1}', b'{"n": 2.0}', b'{"n": 3}', b'{"n": "x", "n": 4}', b'{"n": "x"}', b'{"\\u006e": 5}', b" {"]
    assert taken(schema, payloads) == [0, 1, 2, 5]
    assert check(schema, payloads) == {number: {"n": number + 1} for number in (0, 1, 2)} | {5: {"n": 5}}


FRACTIONS = [
    *(b"2.0", b"2e0", b"20e-1", b"-0.0", b"9007199254740992.0", b"1.5", b"1e300", b"1e17"),
    *(b"9007199254740993.0", b"1.234567890123456789e18", b"-9223372036854775808.0", b"-9223372036854775809.0"),
    *(b"9223372036854775808.0", b"9007199254740992.5", b"0.00", b"0e5", b"1e-5", b"10e-1", b"1e-0"),
]


@pytest.mark.parametrize("text", FRACTIONS)
def test_integers_may_be_written_as_fractions(text: bytes) -> None:
    schema = parse({"type": "object", "properties": {"n": {"type": "integer"}}})
    rows = check(schema, [b'{"n": ' + text + b"}"])
    number = Decimal(text.decode())
    assert bool(rows) == (number == number.to_integral_value() and -(2**63) <= number < 2**63)


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


def test_depth_limit_equals_that_of_decoding() -> None:
    schema = parse({"type": "object", "properties": {"v": {}}})
    payloads = [b'{"v": ' + b"[" * count + b"]" * count + b"}" for count in (MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH)]
    assert taken(schema, payloads) == [0, 1]
    check(schema, payloads)


def test_guard_rejects_single_payloads() -> None:
    """Guarded members are checked for all payloads at once."""
    part = {"type": "object", "properties": {"k": {"type": ["string", "integer"], "minimum": 1, "minLength": 1}}}
    schema = parse({"type": "object", "properties": {"parts": {"type": "array", "items": part}, "p": part}})
    payloads = [b'{"parts":[{},{"k":"a"}]}', b'{"parts":[{"k":1},{"k":0}]}', b'{"parts":[],"p":{"k":""}}']
    payloads.append(b'{"p":{"k":2}}')
    assert taken(schema, payloads) == [0, 3]
    assert [row["p"] for row in check(schema, payloads).values()] == [None, {"k": "2"}]


def test_many_members_are_distinguished() -> None:
    names = [f"n{number}" for number in range(100)]
    members = {name: {"type": "integer"} for name in names}
    schema = parse({"type": "object", "properties": members, "required": names[:50]})
    value = {name: number for number, name in enumerate(names)}
    backward = dict(reversed(value.items()))
    payloads = [*map(dump_json, [value, backward, {**backward, "m": 1}, {"n1": 1}, dict(list(value.items())[:50])])]
    assert taken(schema, payloads) == [0, 1, 2, 4]
    check(schema, payloads)


@given(
    st.lists(st.one_of(st.binary(max_size=30), st.text('{}[]",:\\u0dn1.e- ', max_size=30).map(str.encode)), max_size=5)
)
@settings(max_examples=examples(300))
def test_any_bytes_may_come(payloads: list[bytes]) -> None:
    check(PARSED, [*payloads, dump_json(SOUND[1]), *(dump_json(SOUND[3])[:-1] + payload for payload in payloads)])


@pytest.mark.parametrize(
    ("document", "plan"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, ("object", "string")),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, ("object", "choice")),
        ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, ("object", "guarded")),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1}, ("guarded",)),
        ({"oneOf": [{**OBJECT, "properties": {name: {}}} for name in "ab"]}, ("guarded",)),
        ({"type": "array", "uniqueItems": True}, ("guarded",)),
    ],
)
def test_rules_without_plan_are_guarded(document: Any, plan: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard gets as little of a payload as possible, or all of it."""
    module = Mock()
    monkeypatch.setattr(native, "load_module", lambda: module)
    build_json_decoder(parse(document), parse(document).shape())
    described, _ = module.JsonDecoder.call_args.args
    assert (described[0], *(inner[0] for _, _, inner in (described[3] if described[0] == "object" else ()))) == plan


def test_escaped_names_have_no_plan() -> None:
    schema = parse({"type": "object", "properties": {'a"b': {"type": "string"}}})
    with pytest.raises(NoPlan):
        build_json_decoder(schema, schema.shape())


def test_whole_payloads_are_validated() -> None:
    schema = parse({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "minProperties": 1})
    payloads = [b'{"a": 1}', b"{}", b'{"a": 1.0}', b'{"a": "x"}', b'{"b": [ 1 ], "a": 2}', b'{"c": 1}', b"{"]
    assert taken(schema, payloads) == [0, 4, 5]
    assert check(schema, payloads)[4] == {"a": 2, "b": "[ 1 ]"}


@pytest.mark.parametrize("text", ["[]" * 9, "[" * 70 + "]" * 70, "[" * 63 + "]" * 63, '"' + "[" * 99 + '"', ""])
def test_only_nested_brackets_count(text: str) -> None:
    check(parse({}), [b"[]", text.encode(), b"{}"])


@pytest.mark.parametrize("shape", [{"type": "array", "items": {"type": "string"}}, {"type": "integer"}, {}])
def test_payloads_need_not_be_objects(shape: Any) -> None:
    payloads = [b'["a"]', b" 1 ", b"[]", b"null", b'{"a": [1 , 2]}']
    assert check(parse(shape), payloads)
    assert taken(parse(shape), payloads)


def test_zeros_below_zero_are_those_of_fractions() -> None:
    """The number -0 is an integer, and therefore 0."""
    rows = check(parse({"type": "number"}), [b"-0", b"-0.0", b"-0e0", b"0"])
    assert str([row["data"] for row in rows.values()]) == str([0.0, -0.0, -0.0, 0.0])


def test_native_module_checks_its_arguments() -> None:
    decoder = native.load_module().JsonDecoder
    with pytest.raises(ValueError, match="no columns of kind"):
        decoder(("else", False), rescue.ALL)
    with pytest.raises(ValueError, match="nothing is held"):
        decoder(("null", False), ("else",))
    with pytest.raises(IndexError):
        decoder(("int", False), rescue.ALL)
    json_decoder_ = decoder(("int", False, None, None, None, None), rescue.ALL)
    columns = pa.schema([("", pa.int64()), ("", pa.string())])

    def read(counts: list[int], starts: list[int], ends: list[int]) -> list[Any]:
        places = (np.array(bounds, np.int64) for bounds in (counts, starts, ends))
        columns_, refused = json_decoder_.read(([b"12"] * len(counts), *places))
        return [*(array.to_pylist() for array in native.read_columns(columns_, columns)), refused]

    outside = [([2], [0, 1], [1, 3]), ([1], [-1], [1]), ([1], [1], [0]), ([1], [0, 1], [1, 2])]
    for counts, starts, ends in (*outside, ([], [0], [1]), ([2], [0, 1], [1])):
        with pytest.raises(ValueError, match="outside"):
            read(counts, starts, ends)
    with pytest.raises(ValueError, match="no arrays"):
        json_decoder_.read(([b"12"], *([np.arange(4)[::2]] * 3)))
    assert read([2], [0, 1], [1, 2]) == [[1, 2], [None, None], []]  # nothing is left of the others
    assert read([1, 0, 2], [0, 1, 0], [1, 2, 2]) == [[1, 2, 12], [None] * 3, []]
    assert read([], [], []) == [[], [], []]


PATTERNS = (
    *("^P[0-9]{9}$", "^[a-z]+$", "b", "^.$", "[^a]", "^\\w*$", "^\\d{1,2}$", "", "^", "$", "^$", "a?", "a{2}b?$"),
    *("^a{1,}-b$", "^[a-c-]{2}$", "^[-a]$", "^[^a-z0-9]$", "^é+$", "^[à-ü]$", "^[^é]a$", "^a.*b$",),
    *("\\.\\$", "^[\\]\\\\]$", "^a?b?a?b?$"),
)  # fmt: skip
TEXTS = (
    *("", "a", "b", "ab", "aab", "ba", "-", "a-", "a--b", "é", "éé", "éa", "ü", "😀", "😀a", "\n", "a\n"),
    *("a\nb", "]", "\\"),
    *("P123456789", "P12345678", "P1234567890", "xP123456789", "1", "12", "123", "٣", "_", "a.$", "a-b"),
    *("aaa-b", "abab"),
)  # fmt: skip


def found(pattern: str, texts: list[str]) -> list[bool]:
    translated = translate(pattern)
    assert translated is not None
    decoder = native.load_module().JsonDecoder(
        ("string", False, 0, None, None, build_pattern_program(translated)), rescue.ALL
    )
    raw = [*map(dump_json, texts)]
    _, refused = decoder.read(PayloadSpans.of_list(raw).places)
    return [number not in refused for number in range(len(texts))]


def expected(pattern: str, texts: list[str]) -> list[bool]:
    translated: Any = translate(pattern)
    return [re.search(translated, text) is not None for text in texts]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: str) -> None:
    assert found(pattern, [*TEXTS]) == expected(pattern, [*TEXTS])


@given(st.text("ab^$.|?*+()[]{}\\dw-,12é", max_size=10), st.lists(st.text("ab1-é\n", max_size=6), max_size=8))
@settings(max_examples=examples(500))
def test_any_pattern(pattern: str, texts: list[str]) -> None:
    try:
        build_pattern_program(translate(pattern) or "(")
        re.compile(translate(pattern) or "")
    except (NoPlan, re.error):
        return
    assert found(pattern, texts) == expected(pattern, texts)


@pytest.mark.parametrize("pattern", ["^(?:a|ab)$", "[+-a-z]"])
def test_complex_pattern_has_no_program(pattern: str) -> None:
    translated = translate(pattern)
    assert translated is not None
    with pytest.raises(NoPlan):
        build_pattern_program(translated)
