"""Protobuf natively into columns says what decoding message by message says."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pipeline.fastpath.payloads import check, slow

from signalbook.formats.protobuf import FORMAT
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.pipeline.fastpath.payloads import decoder

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
LABELS = {"proto3": ["", "optional ", "repeated "], "proto2": ["optional ", "required ", "repeated "]}
Member = tuple[str, str, st.SearchStrategy[Any]]


@st.composite
def members(draw: st.DrawFn, syntax: str) -> list[Member]:
    """Fields of a message type, and their values."""
    found = []
    for number in draw(st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True)):
        label, kind = draw(st.sampled_from(LABELS[syntax])), draw(st.sampled_from(list(SCALARS)))
        values = st.lists(SCALARS[kind], max_size=4) if label == "repeated " else SCALARS[kind]
        packed = label == "repeated " and kind not in ("string", "bytes") and draw(st.booleans())
        option = f" [packed = {str(syntax == 'proto2').lower()}]" if packed else ""
        found.append((f"f{number}", f"{label}{kind} f{number} = {number}{option};", values))
    return found


@st.composite
def types(draw: st.DrawFn) -> tuple[ProtobufSchema, list[Member], list[Member]]:
    """A message type with one in it, and a choice, and their members."""
    syntax = draw(st.sampled_from(list(LABELS)))
    inner, outer = draw(members(syntax)), draw(members(syntax))
    label = draw(st.sampled_from(LABELS[syntax]))
    one = f"oneof one {{ string x = {draw(st.integers(50, 51))}; Inner y = 60; }}"
    body = f"{' '.join(text for _, text, _ in outer)} {label}Inner inner = {draw(st.sampled_from([45, 70]))}; {one}"
    within = " ".join(text for _, text, _ in inner)
    return parse(f'syntax = "{syntax}"; {ENUM} message Inner {{ {within} }} message M {{ {body} }}'), outer, inner


def parse(text: str) -> ProtobufSchema:
    return FORMAT.parse(text.encode(), "Protobuf", link="M")


def fill(data: st.DataObject, message: Any, found: list[Member]) -> Any:
    """Set some fields, and all that are required."""
    for name, text, values in found:
        if data.draw(st.booleans()) or text.startswith("required"):
            value = data.draw(values)
            if isinstance(value, list):
                getattr(message, name).extend(value)
            else:
                setattr(message, name, value)
    return message


@st.composite
def spoilt(draw: st.DrawFn, payload: bytes) -> bytes:
    """The payload as it is, or with a byte changed, more bytes, fewer, or once more."""
    place = draw(st.integers(0, len(payload)))
    match draw(st.sampled_from(["as it is", "as it is", "byte", "more", "cut", "twice"])):
        case "byte":
            return payload[:place] + draw(st.binary(min_size=1, max_size=1)) + payload[place + 1 :]
        case "more":
            return (
                payload[:place] + draw(st.sampled_from([b"\x00", b"\x80", b"\xff" * 11, b"\x08\x01"])) + payload[place:]
            )
        case "cut":
            return payload[:place]
        case "twice":
            return payload + payload
    return payload


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_columns_are_what_decoding_gives(data: st.DataObject) -> None:
    """K-41"""
    schema, outer, inner = data.draw(types())
    payloads, spoilts = [], []
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
        spoilts.append(data.draw(spoilt(payloads[-1])))
    assert list(check(schema, payloads)) == [
        n for n, payload in enumerate(payloads) if slow(schema, payload, schema.shape())
    ]
    check(schema, spoilts)


DOCUMENT = f"""syntax = "proto3"; {ENUM} message In {{ int32 n = 1; }}
message M {{ int32 a = 1; repeated int32 b = 2; string c = 3; How d = 4; In e = 5; bool f = 6;
  oneof g {{ string h = 7; In i = 8; }} repeated fixed32 j = 9; repeated string k = 10;
  sint32 l = 11; uint64 m = 12; }}"""


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x08",
        b"\x08\x01\x08\x02",
        b"\x88\x00\x01",
        b"\x88\x80\x80\x80\x80\x00\x01",
        b"\x08\xff\xff\xff\xff\x0f",
        b"\x08" + b"\xff" * 9 + b"\x01",
        b"\x08" + b"\xff" * 9 + b"\x02",
        b"\x08\x81\x80\x00",
        b"\x10\x01\x10\x02",
        b"\x12\x02\x01\x02\x10\x03",
        b"\x10\x03\x12\x02\x01\x02",
        b"\x12\x01\x80",
        b"\x12\x0b" + b"\xff" * 10 + b"\x01",
        b"\x12\x00",
        b"\x12\x82\x00\x01\x02",
        b"\x1a\x02\xc3\x28",
        b"\x20\x07",
        b"\x20\x81\x80\x80\x80\x10",
        b"\x2a\x00",
        b"\x2a\x02\x08\x01\x2a\x00",
        b"\x2a\x02\x10\x01",
        b"\x2a\x03\x08\x01",
        b"\x30\x02",
        b"\x3a\x01a\x42\x00",
        b"\x42\x00\x3a\x01a",
        b"\x4a\x05\x01\x00\x00\x00\x02",
        b"\x4d\x01\x00\x00\x00\x4d\x02\x00\x00\x00",
        b"\x52\x00" * 102,
        b"\x58\xff\xff\xff\xff\x1f",
        b"\x60" + b"\xff" * 9 + b"\x01",
        b"\x18\x01",
        b"\x0b\x0c",
        b"\x70\x01",
        b"\x20\x01\x08\x01",
    ],
)
def test_odd_bytes(payload: bytes) -> None:
    """Overlong, truncated, unknown, out of order, twice."""
    check(parse(DOCUMENT), [payload])
    check(parse(DOCUMENT), [b"\x08\x01", payload, b"\x12\x02\x03\x04"])


@pytest.mark.parametrize(
    "body",
    [
        "map<string, int32> a = 1;",
        "M a = 1;",
        "google.protobuf.Timestamp a = 1;",
        "google.protobuf.Int32Value a = 1;",
        "message Nothing {} Nothing a = 1;",
        "",
    ],
)
def test_what_has_no_columns_has_no_decoder(body: str) -> None:
    imports = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";'
    text = f'syntax = "proto3"; {imports if "google" in body else ""} message M {{ {body} }}'
    assert decoder(parse(text)) is None


def test_defaults_and_nulls() -> None:
    rows = check(
        parse(DOCUMENT),
        [b"", json_format.ParseDict({"a": 1, "i": {}}, parse(DOCUMENT).message_type()).SerializeToString()],
    )
    assert [(row["a"], row["c"], row["d"], row["e"], row["i"], row["k"]) for row in rows.values()] == [
        (0, "", "NONE", None, None, []),
        (1, "", "NONE", None, {"n": 0}, []),
    ]


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
