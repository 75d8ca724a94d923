"""Events come apart into columns, and nothing is taken that the slow path judges otherwise."""

import json
from base64 import b64decode
from collections.abc import Sequence
from itertools import accumulate
from types import NoneType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import rows

from signalbook.pipeline.columns import ATTRIBUTES
from signalbook.pipeline.processing.batch import MOST_EXTENSIONS, NO_DATA, EventColumns
from signalbook.pipeline.processing.binary import BinaryMode
from signalbook.pipeline.processing.modes import StructuredMode
from signalbook.pipeline.sources import base
from signalbook.pipeline.sources.base import MessageBatch
from signalbook.values import MAX_DEPTH, JSONError, parse_json

EXTENSIONS = ("trace", "n")


def structured() -> StructuredMode:
    """Return a structured mode that knows the extensions."""
    mode = StructuredMode()
    mode.read_events(frame(event(f'"data":1,{",".join(f"{json.dumps(name)}:null" for name in EXTENSIONS)}')))
    return mode


def frame(*messages: bytes) -> MessageBatch:
    """Messages with a byte between them."""
    starts = np.array([0, *accumulate(len(message) + 1 for message in messages)][:-1], np.int64)
    ends = starts + np.array(list(map(len, messages)), np.int64)
    return MessageBatch(path="f", content=b"\n".join(messages) + b"\n", starts=starts, ends=ends, positions=starts)


Found = dict[int, tuple[dict[str, Any], bytes | None]]


def events(block: EventColumns) -> Found:
    """Attributes and data of each event, by its index."""
    assert all(len(array) == len(block) for array in (*block.arrays, block.data))
    texts = {name: array.to_pylist() for name, array in zip(ATTRIBUTES, block.arrays, strict=True)}
    texts["specversion"] = ["1.0"] * len(block) if block.versions is None else block.versions.to_pylist()
    events_: Found = {}
    for place, (index, data) in enumerate(zip(block.indices.tolist(), block.data.to_list(), strict=True)):
        attributes = {name: column[place] for name, column in texts.items()}
        attributes |= {name: extension.value(place) for name, extension in block.extensions.items()}
        there = block.forms is None or block.forms[place] != NO_DATA
        events_[index] = (
            {name: value for name, value in attributes.items() if value is not None},
            data if there else None,
        )
    return events_


def taken(messages: Sequence[bytes]) -> Found:
    block, refused = structured().read_events(frame(*messages))
    events_ = events(block)
    assert sorted([*events_, *refused]) == list(range(len(messages)))
    return events_


def event(members: str) -> bytes:
    return f'{{"specversion":"1.0","id":"1","source":"/s","type":"t",{members}}}'.encode()


REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
DEEP = "[" * MAX_DEPTH + "]" * MAX_DEPTH


@pytest.mark.parametrize(
    ("members", "attributes", "data"),
    [
        ('"data":{"a":[1,{"b":"}\\""}]}', {}, '{"a":[1,{"b":"}\\""}]}'),
        (' "data" : null , "subject" : null ', {}, "null"),
        ('"data":-1e3,"subject":"é\\n\\u00e9\\ud83d\\ude00"', {"subject": "é\né😀"}, "-1e3"),
        ('"data":"x","dataschema":"https://x/y"', {"dataschema": "https://x/y"}, '"x"'),
        ('"trace":"a","n":true,"data":[]', {"trace": "a", "n": True}, "[]"),
        ('"trace":"","n":-7,"data":{}', {"trace": "", "n": -7}, "{}"),
        ('"trace":"1","n":null,"data":false', {"trace": "1"}, "false"),
        ('"data_base64":"eyJhIjogMX0=","datacontenttype":"x/y"', {"datacontenttype": "x/y"}, '{"a": 1}'),
        ('"data_base64":"\\u0059Q==","trace":"a"', {"trace": "a"}, "a"),
        ('"data_base64":"","n":1', {"n": 1}, ""),
        ('"data_base64":null,"data":1', {}, "1"),
        ('"data_base64":null', {}, None),
        ('"trace":"x"', {"trace": "x"}, None),
        (f'"data":{DEEP}', {}, DEEP),
    ],
)
def test_events_are_split_into_attributes_and_data(members: str, attributes: dict[str, Any], data: str | None) -> None:
    """A null attribute is not set (K-22)."""
    events_ = taken([event(members), event(members)])
    expected = REQUIRED | attributes
    assert events_ == dict.fromkeys((0, 1), (expected, None if data is None else data.encode()))
    assert all(type(value) is type(expected[name]) for name, value in events_[0][0].items())


def test_data_in_base64_as_json_and_missing() -> None:
    events_ = [event(members) for members in ('"data":1', '"n":1', '"data_base64":"YQ=="', '"n":2', '"data":[2]')]
    assert [data for _, data in taken(events_).values()] == [b"1", None, b"a", None, b"[2]"]


def test_every_specversion_is_accepted() -> None:
    """Invalid versions are reported for many events together (K-24)."""
    versioned = [event('"data":1').replace(b'"1.0"', version) for version in (b'"0.3"', b'""', b"null", b'"1.0"')]
    assert [attributes.get("specversion") for attributes, _ in taken(versioned).values()] == ["0.3", "", None, "1.0"]


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_required_attribute_is_accepted(name: str) -> None:
    """The missing attribute is null in a column, so it is reported for many events together (K-24)."""
    there = {key: value for key, value in REQUIRED.items() if key != name}
    without = [json.dumps({**there, **more, "data": 1}).encode() for more in ({}, {name: None})]
    assert taken(without) == dict.fromkeys((0, 1), (there, b"1"))


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"  ", b"[]", b"null"),
        event('"data":1') + b"}",
        event('"data":1,'),
        event('"data":1,"Unknown":1'),
        event('"data":1,"data_base64":"AAAA"'),
        event('"data_base64":"AAAA","data":null'),
        event('"data_base64":"AAAA","data_base64":null'),
        *(event(f'"data_base64":{text}') for text in ("1", '"A"', '"AAA"', '"AA-_"', '"A A="', '"AAAA="')),
        event('"data":1,"subject":1'),
        event('"data":1,"subject":"\t"'),
        event('"data":1,"n":1.0'),
        event('"data":1,"n":[]'),
        event('"data":1,"trace":"\xff"').replace("\xff".encode(), b"\xff"),
        event('"data":"\xff"').replace("\xff".encode(), b"\xff"),
        event(f'"data":[{DEEP}]'),
        event('"data":1').replace(b'"1.0"', b"1.0"),
        event('"data":1').replace(b'"t"', b"1"),
        b"\xef\xbb\xbf" + event('"data":1'),
    ],
)  # fmt: skip
def test_odd_message_is_not_taken(message: bytes) -> None:
    sound = event('"data":1')
    assert list(taken([sound, message, sound])) == [0, 2]
    assert taken([message]) == {}


SPACE = st.sampled_from(["", "", "", " ", "\t\r"])
VALUES = st.sampled_from(
    ["null", "1", "-0", "true", "1.0", "9" * 20, *('"a"', '"YWI="', '""', '"é"', '"\\u0000\\/"', '"\\ud800"', '"\\x"')]
)
DATA = st.sampled_from(
    ['{"a":[1,{"b":"}\\""}]}', "{}", "null", "-1", '"x\\"y"', "tru", "{]", '{"a":1]', "[1}", DEEP, f"[{DEEP}]", ""]
)
NAMES = st.sampled_from([*ATTRIBUTES, *EXTENSIONS, "data_base64", "else", "\\u0069d"])


VERSIONS = st.sampled_from([['"1.0"'], ['"1.0"'], ['"1.0"'], ['"0.3"'], ["null"], []])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """An event, with members doubled and missing, and bytes spoilt now and then."""
    members = [("id", '"1"'), ("source", '"/s"'), ("type", '"t"')]
    members += [("specversion", version) for version in draw(VERSIONS)]
    members += [("data", data) for data in draw(st.lists(DATA, max_size=1))]
    members += draw(st.lists(st.tuples(NAMES, VALUES), max_size=4))
    order = draw(st.permutations(members))
    parts = [f'{draw(SPACE)}"{name}"{draw(SPACE)}:{draw(SPACE)}{value}' for name, value in order]
    raw = bytearray(f"{{{','.join(parts)}{draw(SPACE)}}}{draw(SPACE)}".encode())
    spoilt = st.tuples(st.integers(0, 300), st.sampled_from(b'{}[]":,\\ \x00\xff0t'))
    for place, byte in draw(st.lists(spoilt, max_size=1)):
        raw[place : place + 1] = bytes([byte])
    return bytes(raw)


@given(st.lists(messages(), max_size=6))
@settings(max_examples=examples(300))
def test_taken_events_have_their_values(messages: list[bytes]) -> None:
    """Valid JSON data has its value; invalid data is rejected later by its reader."""
    for index, (attributes, data) in taken(messages).items():
        try:
            members = parse_json(messages[index], max_depth=MAX_DEPTH + 1, unique=True)
            opaque = members.pop("data_base64", None)
            value = parse_json(data) if opaque is None and data is not None else None
        except JSONError:
            continue
        assert opaque is None or b64decode(opaque, validate=True) == data
        stated = {name: member for name, member in members.items() if member is not None or name == "data"}
        assert stated == attributes | ({"data": value} if opaque is None and data is not None else {})
        assert all(type(members[name]) is type(member) for name, member in attributes.items())


@given(st.lists(messages(), max_size=6))
@settings(max_examples=examples(200))
def test_plain_events_are_taken(messages: list[bytes]) -> None:
    """Members as envelopes may have them, each once, with data that ends where it should."""
    here = taken(messages)
    for index, raw in enumerate(messages):
        try:
            members = parse_json(raw, max_depth=MAX_DEPTH + 1, unique=True)
        except JSONError:
            continue
        if isinstance(members, dict) and is_plain(members, raw):
            assert index in here


# What data is nested with, and what hides that, over more than the bytes that are looked at together.
MARKS = st.text(st.sampled_from('"\\{}[]a'), max_size=150)
NESTED = st.recursive(MARKS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MARKS, inner, max_size=4))


@given(st.lists(st.lists(NESTED, max_size=3), min_size=1, max_size=3))
@settings(max_examples=examples(300))
def test_data_ends_with_its_closing_bracket(values: list[Any]) -> None:
    texts = [json.dumps(value) for value in values]
    events_ = taken([event(f'"data":{text},"subject":"]"') for text in texts])
    assert events_ == {place: (REQUIRED | {"subject": "]"}, text.encode()) for place, text in enumerate(texts)}


def is_plain(members: dict[str, Any], raw: bytes) -> bool:
    context_values = [members.get(name) for name in ("specversion", *ATTRIBUTES)]
    extensions = [members.get(name) for name in EXTENSIONS]
    return (
        members.keys() <= {"specversion", "data", *ATTRIBUTES, *EXTENSIONS}
        and all(isinstance(value, (str, NoneType)) for value in context_values)
        and all(isinstance(value, (str, int, NoneType)) for value in extensions)
        and not any(isinstance(value, int) and value.bit_length() > 63 for value in extensions)
        and b"\\u0069d" not in raw  # a name with an escape
    )


@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(-5, 50), st.integers(-5, 50)), max_size=5))
def test_bounds_may_be_anything(block: bytes, bounds: list[tuple[int, int]]) -> None:
    starts, ends = (np.array([pair[side] for pair in bounds], np.int64) for side in (0, 1))
    batch = MessageBatch(path="f", content=block, starts=starts, ends=ends, positions=starts)
    assert StructuredMode().read_events(batch)[1] == list(range(len(bounds)))


def test_number_of_learnt_extensions_is_bounded() -> None:
    mode = StructuredMode()
    message = event('"data":1,"trace":"x","n":1')
    assert len(mode.read_events(frame(message))[0]) == 1
    for odd in ('"data":1,"trace":"x","Bad":"x"', '"data":1,"odd":[1]', '"data":1'):
        assert mode.read_events(frame(message, event(odd), message))[1] == ([] if odd == '"data":1' else [1])
    for number in range(2 * MOST_EXTENSIONS):
        mode.read_events(frame(event(f'"data":1,"x{number}":"y"')))
    last = [f'"data":1,"x{number}":"y"' for number in (0, MOST_EXTENSIONS)]
    assert mode.read_events(frame(*map(event, last)))[1] == [1]


@pytest.mark.parametrize("odd", [b"", b"{", b"[]", b'{"type":"0.3","x":1}', b"\xff", b"[" * 2000, b'{"x":1}'])
def test_invalid_event_teaches_no_extensions(odd: bytes) -> None:
    mode = StructuredMode()
    assert mode.read_events(frame(odd))[1] == [0]
    assert mode._extensions == ()


EVENT = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/s"), ("ce_type", b"t")]


def test_number_of_extensions_is_bounded() -> None:
    """Events with more extensions than a task allows take the slow path."""
    mode = BinaryMode("KAFKA")
    taken_count = 0
    for turn in range(4):
        batch = rows(*[(b"{}", [*EVENT, (f"ce_x{turn}n{number}", b"v")]) for number in range(20)], (b"{}", EVENT))
        (frame,) = base.read_record_batches(batch)
        block, refused = mode.read_events(frame)
        assert len(block.indices) + len(refused) == 21
        assert 20 in block.indices
        taken_count += len(block.indices) - 1
    assert taken_count == MOST_EXTENSIONS


def test_names_that_were_met_are_taken_again() -> None:
    mode = BinaryMode("KAFKA")
    batch = rows((b"{}", [*EVENT, ("ce_trace", b"v")]), (b"{}", EVENT))
    for _ in range(2):
        (frame,) = base.read_record_batches(batch)
        block, refused = mode.read_events(frame)
        assert (block.extensions["trace"].texts.to_pylist(), refused) == (["v", None], [])
