"""Avro natively into columns says what decoding datum by datum says."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.pipeline.kafkarows import write_datum
from tests.pipeline.processing.payloads import check, slow, spoilt

from signalbook.formats import SchemaError
from signalbook.formats.avro import FORMAT
from signalbook.formats.avro.format import AvroSchema
from signalbook.pipeline.processing.decoding import find_decoder

TEXT = st.text(max_size=5)
AWARE = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 3}
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("bytes", st.binary(max_size=4)),
    ("string", TEXT),
    ("null", st.none()),
    ({"type": "long", "logicalType": "timestamp-millis"}, AWARE),
    ({"type": "long", "logicalType": "timestamp-micros"}, AWARE),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "int", "logicalType": "time-millis"}, st.times()),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    ({"type": "string", "logicalType": "uuid"}, TEXT),
    ({"type": "long", "logicalType": "timestamp-nanos"}, st.integers(-(10**15), 10**15).map(lambda n: n * 1000)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "int", "logicalType": "minutes"}, st.integers(-(2**31), 2**31 - 1)),
    (DECIMAL, st.decimals("-99999.999", "99999.999", places=3)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 38}, st.integers(1 - 10**38, 10**38 - 1).map(Decimal)),
]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, name: str = "R") -> tuple[Any, st.SearchStrategy[Any]]:
    """A record that has a decoder, and its values."""
    fields, values = [], {}
    for number in range(draw(st.integers(1, 4))):
        kind, value = draw(nodes(depth, f"{name}{number}"))
        fields.append({"name": f"f{number}", "type": kind})
        values[f"f{number}"] = value
    return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(values)


@st.composite
def nodes(draw: st.DrawFn, depth: int, name: str) -> tuple[Any, st.SearchStrategy[Any]]:
    inner = ["fixed", "decimal", "array", "map", "record", "null"] if depth else []
    match draw(st.sampled_from(["leaf", "leaf", "enum", *inner])):
        case "array":
            kind, value = draw(nodes(depth - 1, name))
            return {"type": "array", "items": kind}, st.lists(value, max_size=3)
        case "map":
            kind, value = draw(nodes(depth - 1, name))
            return {"type": "map", "values": kind}, st.dictionaries(TEXT, value, max_size=3)
        case "decimal":
            kind = {"type": "fixed", "name": f"{name}D", "size": 5, "logicalType": "decimal", "precision": 9}
            return {**kind, "scale": 9}, st.decimals("-0.999999999", "0.999999999", places=9)
        case "record":
            kind, value = draw(schemas(depth - 1, name))
            return kind, value
        case "null":
            plain = nodes(depth - 1, name).filter(lambda node: node[0] != "null" and type(node[0]) is not list)
            kind, value = draw(plain)
            return draw(st.permutations(["null", kind])), st.none() | value
        case "enum":
            return {"type": "enum", "name": f"{name}E", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
        case "fixed":
            return {"type": "fixed", "name": f"{name}F", "size": 3}, st.binary(min_size=3, max_size=3)
    leaf, value = draw(st.sampled_from(LEAVES))
    return leaf, value


def parse(schema: Any) -> AvroSchema:
    return parse_text(json.dumps(schema).encode())


@lru_cache(maxsize=4)
def parse_text(document: bytes) -> AvroSchema:
    return FORMAT.parse(document, "Avro/1.11")


def written(schema: Any, value: Any) -> bytes:
    return write_datum(parse(schema).parsed, value)


@given(st.data())
@settings(max_examples=examples(100))
def test_columns_are_what_decoding_gives(data: st.DataObject) -> None:
    """The columns equal those of the slow path (K-41)."""
    schema, values = data.draw(schemas())
    try:
        parsed = parse(schema)
    except SchemaError:
        reject()  # an array of nothing may be of any length
    payloads = [written(schema, value) for value in data.draw(st.lists(values, min_size=1, max_size=8))]
    assert list(check(parsed, payloads)) == list(range(len(payloads)))
    check(parsed, [data.draw(spoilt(payload)) for payload in payloads])


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_truncated_datum_does_not_continue_in_the_next() -> None:
    schema = parse(record(f={"type": "array", "items": "boolean"}, g="boolean"))
    assert check(schema, [b"\x00", b"\x00\x01"]) == {1: {"f": [], "g": True}}


def test_lists_may_be_long() -> None:
    schema = record(f={"type": "array", "items": "string"})
    lists = [["x"] * count for count in (1, 100, 101, 100_000)]
    rows = check(parse(schema), [written(schema, {"f": texts}) for texts in lists])
    assert [len(row["f"]) for row in rows.values()] == list(map(len, lists))


def test_lists_in_lists() -> None:
    kind: Any = "int"
    for _ in range(3):
        kind = {"type": "array", "items": kind}
    schema = record(f=kind, g="int", h=["null", "int"])
    lists: list[Any] = [[[[1]]], [[[7] * 30] * 30] * 30, [], [[[0], [], [0]], []]]
    values = [{"f": nested, "g": 0, "h": None} for nested in lists]
    assert [*check(parse(schema), [written(schema, value) for value in values]).values()] == values


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00"),
        ({"type": "array", "items": "int"}, b"\x02\x02\x04\x04\x06\x00"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("long", b"\xff" * 9 + b"\x01"),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 9 + b"\x81\x00"),
        ("long", b"\x80\x80\x00"),
        ("string", b"\x01"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("string", b"\x06\xed\xa0\x80"),
        ("boolean", b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04"),
        ({"type": "string", "logicalType": "uuid"}, b"\x40" + b"A" * 32),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\x7f"),
        (["null", "int"], b"\x03"),
    ],
)
def test_odd_bytes(kind: Any, payload: bytes) -> None:
    check(parse(record(f=kind)), [payload])


@pytest.mark.parametrize("schema", [record(f={**DECIMAL, "precision": 39}), ["null", record(f="int")], "null"])
def test_schema_without_columns_has_no_decoder(schema: Any) -> None:
    assert find_decoder(parse(schema)) is None


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "map", "values": "int"}, [{}, {"a": 1, "b": 2}]),
        ({"type": "array", "items": ["null", "string"]}, [[], ["a", None]]),
        ("string", ["", "x"]),
        (DECIMAL, [Decimal("1.234")]),
    ],
)
def test_payloads_need_not_be_records(schema: Any, values: list[Any]) -> None:
    assert len(check(parse(schema), [written(schema, value) for value in values])) == len(values)


def test_names_of_a_map_come_once() -> None:
    schema = record(f={"type": "map", "values": "int"})
    many = {f"k{number}": number for number in range(500)}
    rows = check(parse(schema), [written(schema, {"f": many}), b"\x04\x02a\x02\x02a\x04\x00", b"\x01\x06\x02a\x02\x00"])
    assert {number: dict(row["f"]) for number, row in rows.items()} == {0: many, 2: {"a": 1}}


def test_more_digits_than_the_column_has_are_left() -> None:
    payloads = [b"\x04\x03\xe8", b"\x04\x03\xe7", b"\x04\xfc\x18", b"\x00", b"\x22" + b"\0" * 16 + b"\x01"]
    rows = check(parse(record(f={**DECIMAL, "precision": 3})), payloads)
    assert {number: row["f"] for number, row in rows.items()} == {1: Decimal("0.999"), 3: Decimal("0.000")}


def test_types_inside_themselves_are_text() -> None:
    by = {"type": "map", "values": ["string", "R"]}
    schema = record(v="int", next=["null", "R"], all={"type": "array", "items": "R"}, by=by)
    leaf: Any = {"v": 1, "next": None, "all": [], "by": {}}
    deep: Any = leaf
    for number in range(100):
        deep = {"v": number, "next": deep, "all": [], "by": {}}
    payloads = [written(schema, value) for value in (leaf, {**leaf, "next": leaf, "all": [leaf, leaf]}, deep)]
    payloads.append(written(schema, {**leaf, "by": {"a": "x", "b": {**leaf, "next": leaf}}}))
    rows = check(parse(schema), payloads)
    assert list(rows) == [0, 1, 3]  # beyond 64 levels the slow path has the word
    assert rows[0]["next"] == "null"


@st.composite
def unions(draw: st.DrawFn, depth: int = 2, name: str = "U") -> tuple[list[Any], st.SearchStrategy[Any]]:
    record, record_values = draw(written_as_text(depth, f"{name}R"))
    choices: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
        "null": ("null", st.none()),
        "boolean": ("boolean", st.booleans()),
        "long": ("long", st.integers(-(2**63), 2**63 - 1)),
        "double": ("double", st.floats() | st.floats(0.001, 1000) | st.integers(-(10**15), 10**15).map(float)),
        "string": ("string", st.text(max_size=5) | st.sampled_from(['\x00\x1f\x7f"\\\n\r\t\b\f', "é😀\u2028"])),
        "enum": ({"type": "enum", "name": f"{name}E", "symbols": ["A", "B"]}, st.sampled_from("AB")),
        "record": (record, record_values),
        "array": ({"type": "array", "items": "boolean"}, st.lists(st.booleans(), max_size=3)),
        "map": ({"type": "map", "values": "int"}, st.dictionaries(TEXT, st.integers(0, 9), max_size=3)),
    }
    # Logical types, each in place of what it is written as.
    times = draw(st.sampled_from(["timestamp-millis", "timestamp-micros", "time-micros"]))
    moments = ({"type": "long", "logicalType": times}, st.times() if times == "time-micros" else AWARE)
    choices["long"] = draw(st.sampled_from([choices["long"], moments]))
    choices["int"] = ({"type": "int", "logicalType": "date"}, st.dates())
    scale = draw(st.sampled_from([0, 2, 12]))
    amount = {**DECIMAL, "precision": 12, "scale": scale}
    exactly = st.integers(1 - 10**12, 10**12 - 1).map(lambda digits: Decimal(digits).scaleb(-scale))
    choices["bytes"] = draw(st.sampled_from([("bytes", st.binary(max_size=5)), (amount, exactly)]))
    names = draw(st.lists(st.sampled_from(list(choices)), min_size=3, max_size=6, unique=True))
    kinds = [choices[kind_name][0] for kind_name in names]
    values = [_branch(kind_name, choices[kind_name], f"{name}R", f"{name}E") for kind_name in names]
    return kinds, st.one_of(values)


def _branch(name: str, choice: tuple[Any, st.SearchStrategy[Any]], *types: str) -> st.SearchStrategy[Any]:
    """Values that say which branch of a union they are of, as fastavro wants it."""
    of = {"record": types[0], "enum": types[1]}.get(name, name)
    return choice[1] if name == "null" else choice[1].map(lambda value: (of, value))


@st.composite
def written_as_text(draw: st.DrawFn, depth: int, name: str) -> tuple[Any, st.SearchStrategy[Any]]:
    kinds: list[tuple[Any, st.SearchStrategy[Any]]] = [
        ("int", st.integers(-(2**31), 2**31 - 1)),
        ("float", st.floats(width=32)),
        (["null", "string"], st.none() | TEXT),
    ]
    if depth:
        kinds.append(draw(unions(depth - 1, f"{name}U")))
        inner, values = draw(unions(depth - 1, f"{name}A"))
        kinds.append(({"type": "array", "items": inner}, st.lists(values, max_size=2)))
    chosen = draw(st.lists(st.sampled_from(kinds), max_size=3, unique_by=lambda kind: str(kind[0])))
    fields = [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(chosen)]
    values = st.fixed_dictionaries({f"f{number}": value for number, (_, value) in enumerate(chosen)})
    return {"type": "record", "name": name, "fields": fields}, values


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_unions_equal_the_text_of_the_slow_path(data: st.DataObject) -> None:
    """The texts are equal to the byte, because readers compare them (K-41)."""
    kinds, values = data.draw(unions())
    schema = record(u=kinds, n="int")
    parsed = parse(schema)
    drawn = [{"u": value, "n": 1} for value in data.draw(st.lists(values, min_size=1, max_size=6))]
    payloads = [written(schema, value) for value in drawn]
    rows = check(parsed, payloads)
    for number, row in rows.items():
        assert row == slow(parsed, payloads[number], parsed.shape())
    # Only fractions that writers write in different ways, and decimals with exponents, are left to others.
    odd = any(word in str(kinds) for word in ("float", "double", "'scale': 12"))
    assert odd or len(rows) == len(payloads)
    check(parsed, [data.draw(spoilt(payload)) for payload in payloads])


def test_unions_of_scalars() -> None:
    schema = record(u=["null", "string", "long", "double", "boolean"])
    values = [None, "a", 5, 0.5, True, 1e16, 0.0, float("nan")]
    rows = check(parse(schema), [written(schema, {"u": value}) for value in values])
    assert [row["u"] for row in rows.values()] == ["null", '"a"', "5", "0.5", "true", "0.0"]
    # Numbers that JSON does not have are left to the slow path, which has names for them.
    assert check(parse(schema), [written(schema, {"u": real}) for real in (math.nan, math.inf, -math.inf)]) == {}
    assert check(parse(schema), [b"\x0a", b"\x01", b"\x08\x02", b"\x02\x02\xff", b"\x04", b"\x02\x04a"]) == {}
