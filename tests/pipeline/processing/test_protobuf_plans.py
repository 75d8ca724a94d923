"""Protobuf natively into columns says what decoding message by message says."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.processing.payloads import check, check_as, slow, spoilt

from signalbook.formats.protobuf import FORMAT
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.pipeline.processing.decoding import find_decoder
from signalbook.values import dump_json

TEXT = st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace").decode())
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(), "string": TEXT, "bytes": st.binary(max_size=3), "How": st.sampled_from([0, 1, 5]),
    "double": st.floats(), "float": st.floats(width=32),
    "int32": INT32, "sint32": INT32, "sfixed32": INT32, "uint32": UINT32, "fixed32": UINT32,
    "int64": INT64, "sint64": INT64, "sfixed64": INT64, "uint64": UINT64, "fixed64": UINT64,
}  # fmt: skip
ENUM = "enum How { NONE = 0; HAND = 1; BELT = 5; }"
JSON = "application/json"
LABELS = {"proto3": ["", "optional ", "repeated "], "proto2": ["optional ", "required ", "repeated "]}
Member = tuple[str, str, st.SearchStrategy[Any]]


@st.composite
def members(draw: st.DrawFn, syntax: str) -> list[Member]:
    members_ = []
    for number in draw(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True)):
        label, kind = draw(st.sampled_from(LABELS[syntax])), draw(st.sampled_from(list(SCALARS)))
        values = st.lists(SCALARS[kind], max_size=4) if label == "repeated " else SCALARS[kind]
        packed = label == "repeated " and kind not in ("string", "bytes") and draw(st.booleans())
        option = f" [packed = {str(syntax == 'proto2').lower()}]" if packed else ""
        members_.append((f"f{number}", f"{label}{kind} f{number} = {number}{option};", values))
    return members_


KEYS = {"string": TEXT, "bool": st.booleans(), "int32": INT32, "sint64": INT64, "fixed64": UINT64, "uint32": UINT32}


@st.composite
def mapped(draw: st.DrawFn) -> list[Member]:
    members_ = []
    for number in draw(st.lists(st.integers(80, 90), max_size=2, unique=True)):
        key, kind = draw(st.sampled_from(list(KEYS))), draw(st.sampled_from([*SCALARS]))
        values = st.dictionaries(KEYS[key], SCALARS[kind], max_size=3)
        members_.append((f"f{number}", f"map<{key}, {kind}> f{number} = {number};", values))
    return members_


@st.composite
def types(draw: st.DrawFn) -> tuple[ProtobufSchema, list[Member], list[Member]]:
    """A message type with one in it, and a choice, and their members."""
    syntax = draw(st.sampled_from(list(LABELS)))
    inner, outer = draw(members(syntax)), [*draw(members(syntax)), *draw(mapped())]
    label = draw(st.sampled_from(LABELS[syntax]))
    choice = f"oneof one {{ string x = {draw(st.integers(50, 51))}; Inner y = 60; }}"
    body = f"{' '.join(text for _, text, _ in outer)} {label}Inner inner = {draw(st.sampled_from([45, 70]))}; {choice}"
    within = " ".join(text for _, text, _ in inner)
    return parse(f'syntax = "{syntax}"; {ENUM} message Inner {{ {within} }} message M {{ {body} }}'), outer, inner


def parse(text: str) -> ProtobufSchema:
    return FORMAT.parse(text.encode(), "Protobuf", link="M")


def fill(data: st.DataObject, message: Any, members_: list[Member]) -> Any:
    """Set some fields, and all that are required."""
    for name, text, values in members_:
        if data.draw(st.booleans()) or text.startswith("required"):
            value = data.draw(values)
            if isinstance(value, list):
                getattr(message, name).extend(value)
            elif isinstance(value, dict):
                getattr(message, name).update(value)
            else:
                setattr(message, name, value)
    return message


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_columns_are_what_decoding_gives(data: st.DataObject) -> None:
    """The columns equal those of the slow path (K-41)."""
    schema, outer, inner = data.draw(types())
    payloads, texts = [], []
    for _ in range(data.draw(st.integers(1, 6))):
        message = fill(data, schema.message_type(), outer)
        for _ in range(data.draw(st.integers(0, 2))):
            repeated = schema.descriptor.fields_by_name["inner"].is_repeated
            fill(data, message.inner.add() if repeated else message.inner, inner)
        match data.draw(st.sampled_from(["", "x", "y"])):
            case "x":
                message.x = "x"
            case "y":
                fill(data, message.y, inner)
        payloads.append(message.SerializePartialToString())
        texts.append(written(message, use_proto_names=data.draw(st.booleans())))
    for sent, kind, spoil in ((payloads, "", spoilt), (texts, JSON, damaged)):
        conforming = [n for n, payload in enumerate(sent) if slow(schema, payload, schema.shape(), kind)]
        assert list(check(schema, sent, kind)) == conforming
        check(schema, [data.draw(spoil(payload)) for payload in sent], kind)


def written(message: Any, *, use_proto_names: bool) -> bytes:
    """A message in JSON, under the document's own names or those of the mapping."""
    return json_format.MessageToJson(message, preserving_proto_field_name=use_proto_names, indent=None).encode()


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """JSON with something put in its middle, in place of some of it."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.sampled_from(FRAGMENTS)) + text[end:]


FRAGMENTS = [
    *(b"", b" ", b"null", b"0", b"-", b"1.0", b"1e3", b"true", b'"', b'""', b'"1"', b"{}", b"[]", b",", b"\\u0031"),
    *(b"=", b'"NaN"', b'"HAND"', b"5", b"2", b'"x":"x",', b'"a":1,', b"99999999999999999999", b"-0", b"3.5e38"),
    b"\xff",
]


DOCUMENT = f"""syntax = "proto3"; {ENUM} message In {{ int32 n = 1; }}
message M {{ int32 a = 1; repeated int32 b = 2; string c = 3; How d = 4; In e = 5; bool f = 6;
  oneof g {{ string h = 7; In i = 8; }} repeated fixed32 j = 9; repeated string k = 10;
  sint32 l = 11; uint64 m = 12; }}"""


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\x00", b"\x08", b"\x08\x01\x08\x02", b"\x88\x00\x01", b"\x88\x80\x80\x80\x80\x00\x01", b"\x12\x00"),
        *(b"\x08\xff\xff\xff\xff\x0f", b"\x08" + b"\xff" * 9 + b"\x01", b"\x08" + b"\xff" * 9 + b"\x02"),
        *(b"\x08\x81\x80\x00", b"\x10\x01\x10\x02", b"\x12\x02\x01\x02\x10\x03", b"\x10\x03\x12\x02\x01\x02"),
        *(b"\x12\x01\x80", b"\x12\x0b" + b"\xff" * 10 + b"\x01", b"\x12\x82\x00\x01\x02", b"\x1a\x02\xc3\x28"),
        *(b"\x20\x07", b"\x20\x81\x80\x80\x80\x10", b"\x2a\x00", b"\x2a\x02\x08\x01\x2a\x00", b"\x2a\x02\x10\x01"),
        *(b"\x2a\x03\x08\x01", b"\x30\x02", b"\x3a\x01a\x42\x00", b"\x42\x00\x3a\x01a"),
        b"\x4a\x05\x01\x00\x00\x00\x02",
        *(b"\x4d\x01\x00\x00\x00\x4d\x02\x00\x00\x00", b"\x52\x00" * 102, b"\x58\xff\xff\xff\xff\x1f"),
        *(b"\x60" + b"\xff" * 9 + b"\x01", b"\x18\x01", b"\x0b\x0c", b"\x70\x01", b"\x20\x01\x08\x01"),
    ],
)
def test_odd_bytes(payload: bytes) -> None:
    """Overlong, truncated, unknown, out of order, twice."""
    check(parse(DOCUMENT), [payload])
    check(parse(DOCUMENT), [b"\x08\x01", payload, b"\x12\x02\x03\x04"])


@pytest.mark.parametrize("body", ["optional group G = 1 { optional int32 n = 2; }", ""])
def test_message_without_columns_has_no_decoder(body: str) -> None:
    schema = parse(f'syntax = "proto2"; message M {{ {body} }}')
    assert find_decoder(schema) is None
    assert find_decoder(schema, JSON) is None


RECURSIVE = """syntax = "proto3"; import "google/protobuf/any.proto";
message M { int32 n = 1; M next = 2; repeated M all = 3; map<string, M> by = 4; google.protobuf.Any any = 5; }"""


@pytest.mark.parametrize(
    "text", ['{"next":{"n":2}}', '{"all":[{}]}', '{"by":{"a":{}}}', '{"any":{}}', '{"next":null}', '{"all":[]}']
)
def test_unsupported_member_may_be_absent(text: str) -> None:
    """Messages inside of those of their own type, and of any type."""
    schema = parse(RECURSIVE)
    payload = json_format.Parse(text, schema.message_type()).SerializeToString()
    assert 1 in check(schema, [payload, b"\x08\x07"])
    assert 1 in check(schema, [text.encode(), b'{"n":7}'], JSON)
    assert (0 in check(schema, [payload])) == (not payload)


def test_defaults_and_nulls() -> None:
    schema = parse(DOCUMENT)
    payload = json_format.ParseDict({"a": 1, "i": {}}, schema.message_type()).SerializeToString()
    rows = [[row[name] for name in "acdeik"] for row in check(schema, [b"", payload]).values()]
    assert rows == [[0, "", "NONE", None, None, []], [1, "", "NONE", None, {"n": 0}, []]]


def test_numbers_with_several_names() -> None:
    """The last name is the one that is reported."""
    text = 'syntax = "proto3"; enum E { option allow_alias = true; A = 0; Z = 0; B = 1; C = 1; N = -1; } '
    check(parse(text + "message M { E e = 1; repeated E r = 2; }"), [b"", b"\x08\x01\x12\x02\x01\x00"])


def test_fields_may_come_in_any_order() -> None:
    """Also the items of a list, packed or not, with others between them."""
    document = parse('syntax = "proto3"; message M { int32 a = 1; repeated int32 r = 2; string s = 3; }')
    payload = b"\x1a\x01x" + b"\x10\x01" + b"\x08\x07" + b"\x12\x02\x02\x03" + b"\x10\x04"
    assert check(document, [payload]) == {0: {"a": 7, "r": [1, 2, 3, 4], "s": "x"}}


def test_lists_may_be_long() -> None:
    document = parse('syntax = "proto3"; message M { repeated int32 r = 1; }')
    payloads = [b"\x0a\x03\x01\x02\x03"] * 3 + [b"", b"\x0a\x90\x4e" + b"\x01" * 10_000]
    assert [len(row["r"]) for row in check(document, payloads).values()] == [3, 3, 3, 0, 10_000]


JSONS = [
    *("{}", ' {"a" : 1 , "b":[1,2]} ', '{"a":1,"a":2}', '{"@type":"x"}', "[]", "null", "", "{", '{"a":null}'),
    *('{"a":"7"}', '{"a":"007"}', '{"a":7.0}', '{"a":7.5}', '{"a":"7.0"}', '{"a":" 7"}', '{"a":"1_0"}', '{"a":"+7"}'),
    *('{"a":true}', '{"a":2147483648}', '{"a":-2147483648}', '{"a":-0}', '{"a":""}', '{"a":"-"}', '{"a":"1e3"}'),
    *('{"b":null}', '{"b":[null]}', '{"b":1}', '{"b":[1],"b":[2]}', '{"b":["1",2.0]}', '{"b":[1,]}', '{"\\u0061":1}'),
    *('{"c":1}', '{"c":"\\ud83d\\ude00"}', '{"c":"\\ud83d"}', '{"c":"a\\nb"}', '{"c":"\n"}'),
    *('{"d":"HAND"}', '{"d":1}', '{"d":7}', '{"d":"7"}', '{"d":"hand"}', '{"d":1.0}', '{"d":"1"}', '{"d":null}'),
    *('{"e":{}}', '{"e":{"n":3}}', '{"e":[]}', '{"e":null}', '{"e":{"n":3},"e":{}}', '{"f":true}', '{"f":"true"}'),
    *('{"h":"x"}', '{"h":"x","i":{}}', '{"i":{},"h":"x"}', '{"h":null,"i":{}}', '{"j":[4294967295,"1"]}', '{"j":[-1]}'),
    *('{"l":"-5"}', '{"m":"18446744073709551615"}', '{"m":18446744073709551615}', '{"m":18446744073709551616}'),
    *('{"m":-1}', '{"m":"-0"}', '{"m":1e19}', '{"longName":1}', '{"long_name":1}', '{"longName":1,"long_name":2}'),
    *('{"LongName":1}', '{"named":2}', '{"other":2}', '{"n":"YQ=="}', '{"n":"YQ"}', '{"n":"YQ="}', '{"n":"YR=="}'),
    *('{"n":"-_+/"}', '{"n":"Y"}', '{"n":"YW Jj"}', '{"n":""}', '{"n":"===="}', '{"n":[]}', '{"n":"YWJj="}'),
    *('{"o":1e39}', '{"o":3.4028235e38}', '{"o":3.4028236e38}', '{"o":0.1}', '{"o":"NaN"}', '{"o":"-Infinity"}'),
    *('{"o":"nan"}', '{"o":"1.5"}', '{"o":"Infinity"}', '{"o":NaN}', '{"o":-0.0}', '{"o":-0}', '{"o":1}'),
]  # fmt: skip
TAKEN_JSONS = [
    *("{}", ' {"a" : 1 , "b":[1,2]} ', '{"a":"7"}', '{"d":1}', '{"longName":1}', '{"long_name":1}', '{"other":2}'),
    *('{"m":"18446744073709551615"}', '{"n":"YQ=="}', '{"o":"NaN"}', '{"e":{"n":3}}', '{"h":"x"}'),
]


@pytest.mark.parametrize("text", JSONS)
def test_odd_json(text: str) -> None:
    """Accepted payloads have the value that the library reads."""
    more = 'sint64 long_name = 13; bytes n = 14; float o = 15; int32 named = 16 [json_name = "other"]; }'
    schema = parse(DOCUMENT.rstrip("}") + more)
    payload = text.encode()
    rows = check(schema, [b"{}", payload, b'{"b":[7]}'], JSON)
    assert {0, 2} <= rows.keys()
    assert 1 in rows or text not in TAKEN_JSONS


KNOWN = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M { google.protobuf.Timestamp at = 1; repeated google.protobuf.Timestamp all = 2;
  google.protobuf.Int64Value n = 3; google.protobuf.StringValue s = 4; google.protobuf.BytesValue b = 5;
  repeated google.protobuf.DoubleValue d = 6; google.protobuf.BoolValue t = 7;
  oneof one { google.protobuf.UInt64Value u = 8; google.protobuf.Timestamp v = 9; }
  google.protobuf.FloatValue f = 10; }"""
FREE = """syntax = "proto3"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/field_mask.proto"; import "google/protobuf/empty.proto";
import "google/protobuf/timestamp.proto";
message In { int32 n = 1; }
message M { google.protobuf.Duration d = 1; repeated google.protobuf.Duration ds = 2; google.protobuf.Struct s = 3;
  repeated google.protobuf.Struct ss = 4; google.protobuf.Value v = 5; google.protobuf.ListValue l = 6;
  google.protobuf.FieldMask m = 7; oneof one { google.protobuf.Empty e = 8; google.protobuf.Value w = 9; }
  map<string, google.protobuf.Value> by = 10; map<int32, In> ins = 11; map<string, google.protobuf.Duration> ds2 = 12;
  google.protobuf.Timestamp t = 13; }"""
TIMES = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}Z".format,
    *(st.integers(1, 9999), st.integers(1, 12), st.integers(1, 28), st.integers(0, 23), st.integers(0, 59)),
    *(st.integers(0, 59), st.sampled_from(["", ".5", ".123456", ".000001", ".999999", ".123456789", ".123456000"])),
)


DURATIONS = st.builds(
    "{}{}{}s".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 315_576_000_000 - 1),
    st.sampled_from(["", ".5", ".000001", ".123456789"]),
)


def draw_message(data: st.DataObject, schema: ProtobufSchema, members: dict[str, Any]) -> tuple[Any, bytes, bytes]:
    """Return a message with some of such members: its value, in JSON, and in binary."""
    value = data.draw(st.fixed_dictionaries({}, optional=members))
    return value, dump_json(value), json_format.ParseDict(value, schema.message_type()).SerializeToString()


def check_spoilt(data: st.DataObject, schema: ProtobufSchema, text: bytes, payload: bytes) -> None:
    check(schema, [data.draw(damaged(text)) for _ in range(4)], JSON)
    check(schema, [data.draw(spoilt(payload)) for _ in range(4)])


NUMBERS = st.integers(-(10**6), 10**6).map(float) | st.sampled_from([0.001, 0.5, 123456.789])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)


@given(st.data())
@settings(max_examples=examples(40), deadline=None)
def test_durations_and_json_in_messages(data: st.DataObject) -> None:
    """The columns equal those of the slow path (K-41)."""
    schema = parse(FREE)
    value, text, payload = draw_message(data, schema, {
        "d": DURATIONS, "ds": st.lists(DURATIONS, max_size=3), "s": OBJECTS, "ss": st.lists(OBJECTS, max_size=2),
        "v": VALUES, "l": st.lists(VALUES, max_size=3), "m": st.sampled_from(["", "a", "fooBar,a.b1", "x,,y"]),
        "e": st.just({}), "by": OBJECTS, "ins": st.dictionaries(INT32.map(str), st.sampled_from([{}, {"n": 7}])),
        "ds2": st.dictionaries(TEXT, DURATIONS, max_size=2), "t": TIMES,
    })  # fmt: skip
    finer = value.get("t", "").endswith("789Z")
    # In a column of text there is room for all digits.
    for typed, is_taken in ((True, not finer), (False, True)):
        assert (0 in check_as(schema, [text], JSON, typed=typed)) == is_taken
        assert (0 in check_as(schema, [payload], typed=typed)) == is_taken
    check_spoilt(data, schema, text, payload)


@pytest.mark.parametrize(
    "inner",
    [
        *(b"", b"\x08\x01", b"\x08\x00", b"\x08\x80\x00", b"\x10\x01", b"\x20\x01", b"\x20\x02", b"\x1a\x01a"),
        *(b"\x1a\x01\xff", b"\x11" + b"\0" * 6 + b"\xf0\x7f", b"\x11" + b"\0" * 6 + b"\xf0\x3f", b"\x2a\x00"),
        *(b"\x20\x01\x1a\x01a", b"\x32\x00", b"\x0a\x03\x0a\x01a", b"\x0a\x05\x0a\x01a\x12\x00"),
        b"\x0a\x02\x12\x00" * 2,
        *(b"\x08\x01\x10" + b"\xff" * 9 + b"\x01", b"\x08" + b"\xff" * 9 + b"\x01\x10\x01", b"\x0a\x03a_b"),
        b"\x0a\x01A",
        *(b"\x0a\x02_a", b"\x0a\x00", b"\x0a\x00\x0a\x00", b"\x0a\x02a_", b"\x0a\x03a_1", b"\x0a\x04a__b"),
        *(b"\x0a\x05\x12\x00\x0a\x01a", b"\x32\x02\x0a\x00", b"\x2a\x07\x0a\x05\x0a\x01a\x12\x00", b"\x12\x01a"),
        *(b"\x0a\x01a\x0a\x01a", b"\x0a\x01a\x18\x01"),
    ],
)
def test_odd_messages_of_well_known_types(inner: bytes) -> None:
    for field in range(1, 14):
        payload = bytes([field << 3 | 2, len(inner)]) + inner
        check(parse(FREE), [payload, payload + payload])


@pytest.mark.parametrize(
    "text",
    [
        *('{"d":"1s"}', '{"d":"-0s"}', '{"d":"01s"}', '{"d":"1.s"}', '{"d":"1.5"}', '{"d":"+1s"}', '{"d":" 1s"}'),
        *('{"d":"-0.5s"}', '{"d":"315576000000s"}', '{"d":"315576000001s"}', '{"d":"315576000000.5s"}', '{"d":"1e3s"}'),
        *('{"d":".5s"}', '{"d":"0.1234567891s"}', '{"d":null}', '{"d":1}', '{"d":"s"}', '{"d":"-s"}', '{"d":"--1s"}'),
        *('{"s":{"a":1,"a":2}}', '{"s":[]}', '{"s":null}', '{"l":{}}', '{"l":null}', '{"v":null}', '{"v":[null,{}]}'),
        *('{"v":1e300}', '{"v":-0.0}', '{"v":12345678901234567890}', '{"v":"\\ud83d"}'),
        *('{"v":"\\u0007\x7f"}', '{"ss":[null]}'),
        *('{"m":"a_b"}', '{"m":"A"}', '{"m":"a,"}', '{"m":",a"}', '{"m":","}', '{"m":"é"}', '{"m":null}', '{"m":1}'),
        *('{"e":{}}', '{"e":{"a":1}}', '{"e":null}', '{"e":[]}', '{"w":null}', '{"e":{},"w":1}', '{"by":{"a":null}}'),
        *('{"ins":{"1":{},"01":{}}}', '{"ins":{"+1":{}}}', '{"ins":{"-0":{}}}'),
        *('{"ins":{"1.0":{}}}', '{"ins":{"a":{}}}'),
        *('{"ins":{"2147483648":{}}}', '{"ins":{"1":null}}', '{"by":[]}', '{"by":null}', '{"by":{"a":1,"a":2}}'),
        *(f'{{"v":{"[" * depth}1{"]" * depth}}}' for depth in (9, 40, 63)),
        '{"v":' + '{"a":' * 40 + "1" + "}" * 41,
    ],
)  # fmt: skip
def test_odd_json_of_well_known_types(text: str) -> None:
    schema = parse(FREE)
    check(schema, [text.encode(), b"{}"], JSON)
    with suppress(json_format.ParseError, ValueError, RecursionError):
        check(schema, [json_format.Parse(text, schema.message_type()).SerializeToString()])


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_times_and_wrappers(data: st.DataObject) -> None:
    """The columns equal those of the slow path (K-41)."""
    schema = parse(KNOWN)
    value, text, payload = draw_message(data, schema, {
        "at": TIMES, "all": st.lists(TIMES, max_size=3), "n": INT64.map(str), "s": TEXT, "b": st.just("YQ=="),
        "d": st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3), "t": st.booleans(),
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False), "u": UINT64.map(str),
    })  # fmt: skip
    finer = any(time.endswith("789Z") for time in [value.get("at", ""), *value.get("all", ())])
    assert (0 in check(schema, [text], JSON)) != finer
    assert (0 in check(schema, [payload])) != finer
    check_spoilt(data, schema, text, payload)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-02T03:04:05+01:00", "2026-01-02T03:04:60Z", "2026-01-02t03:04:05Z", "2026-01-02T03:04:05z"),
        *("2026-01-02T03:04:05", "2026-02-30T03:04:05Z", "2026-01-02 03:04:05Z", "0000-01-02T03:04:05Z", "", "Z"),
        *("2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.1234567Z", "2026-01-02T03:04:05.123456000Z"),
        *("2026-1-02T03:4:05Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "2026-01-02T24:00:00Z"),
        "2026-01-02T03:04:05ZZ",
    ],
)
def test_odd_times(text: str) -> None:
    check(parse(KNOWN), [dump_json({"at": text}), dump_json({"all": [text]})], JSON)


@pytest.mark.parametrize(
    "inner",
    [
        *(b"", b"\x08\x01", b"\x10\x01", b"\x10\xe8\x07", b"\x10\xe8\x07\x08\x01", b"\x08\x01\x08\x02", b"\x18\x01"),
        *(b"\x08" + b"\xff" * 9 + b"\x01", b"\x10" + b"\xff" * 9 + b"\x01", b"\x10\x80\x94\xeb\xdc\x03", b"\x08"),
        *(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x10\xe8\x87\x80\x80\x10", b"\x88\x00\x01", b"\x0a\x01a"),
    ],
)
def test_odd_times_and_wrappers_in_binary(inner: bytes) -> None:
    for field in range(1, 11):
        payload = bytes([field << 3 | 2, len(inner)]) + inner
        check(parse(KNOWN), [payload, payload + payload])


def test_types_that_are_well_known_themselves_have_no_decoder() -> None:
    """Their JSON is no object."""
    timestamp = parse(KNOWN).descriptor.fields_by_name["at"].message_type
    assert timestamp is not None
    schema = replace(parse(KNOWN), descriptor=timestamp)
    assert find_decoder(schema) is find_decoder(schema, JSON) is None
