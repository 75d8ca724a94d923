"""What columns of times, dates and decimals hold of values, and the native module's word on the same texts."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from signalbook.formats import Scalar
from signalbook.formats.jsonschema import FORMAT
from signalbook.pipeline import exact, rescue
from signalbook.pipeline.arrays import MISFITS, ValueForm, make_payload_builder
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.json_plans import build_json_decoder
from signalbook.values import JSON, dump_json, parse_json

TIME = Scalar(kind="timestamp", sent="string")
DAY = Scalar(kind="date", sent="string")
ZONED = Scalar(kind="date", sent="string", zoned=True)
PRICE = Scalar(kind="decimal", sent="float64", precision=38, scale=2)
DIGITS = Scalar(kind="decimal", sent="string", precision=38, scale=2)
SPAN = Scalar(kind="duration", sent="string")
NUMBER = Scalar(kind="float64", sent="float64")
NANOS = Scalar(kind="timestamp", sent="int64")


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        (TIME, "2026-01-02T03:04:05Z", (at(2026, 1, 2, 3, 4, 5), True)),
        (TIME, "2026-01-02t03:04:05.123456000z", (at(2026, 1, 2, 3, 4, 5, 123456), True)),
        (TIME, "2026-01-02T03:04:05.5+01:30", (at(2026, 1, 2, 1, 34, 5, 500000), True)),
        (TIME, "2026-01-02T03:04:05.123456789Z", (at(2026, 1, 2, 3, 4, 5, 123456), False)),
        (TIME, "2016-12-31T23:59:60Z", (at(2017, 1, 1), False)),
        (TIME, "2026-01-02T03:04:05", (None, False)),
        (TIME, "2026-01-02 03:04:05Z", (None, False)),
        (TIME, "2026-02-30T03:04:05Z", (None, False)),
        (TIME, "0000-01-01T00:00:00Z", (None, False)),
        (TIME, "0001-01-01T00:00:00+01:00", (None, False)),
        (TIME, "2026-01-02T24:00:00Z", (None, False)),
        (TIME, "soon", (None, False)),
        (TIME, 1_700_000_000_000, (None, False)),
        (NANOS, True, (None, False)),
        (NANOS, 1_000_000_123_456_000, (at(1970, 1, 12, 13, 46, 40, 123456), True)),
        (NANOS, -1, (at(1969, 12, 31, 23, 59, 59, 999999), False)),
        (NANOS, 2**63 - 1, (at(2262, 4, 11, 23, 47, 16, 854775), False)),
        (DAY, "2024-02-29", (date(2024, 2, 29), True)),
        (DAY, "2024-02-29Z", (None, False)),  # RFC 3339, 5.6: full-date
        (ZONED, "2024-02-29+01:00", (date(2024, 2, 29), False)),
        (DAY, "2023-02-29", (None, False)),
        (DAY, "20240229", (None, False)),
        (DAY, "2024-02-29T", (None, False)),
        (PRICE, 12.34, (Decimal("12.34"), True)),
        (PRICE, 5, (Decimal("5.00"), True)),
        (PRICE, 0.001, (None, False)),
        (PRICE, 1e37, (None, False)),
        (PRICE, True, (None, False)),
        (PRICE, "12.34", (None, False)),
        (DIGITS, "-12.3e1", (Decimal("-123.00"), True)),
        (DIGITS, " 1_2 ", (None, False)),
        (DIGITS, "NaN", (None, False)),
        (DIGITS, 12.34, (None, False)),
        (SPAN, "1.5s", (Decimal("1.500000000"), True)),
        (SPAN, "-315576000000.999999999s", (Decimal("-315576000000.999999999"), True)),
        (SPAN, "1m", (None, False)),
        (SPAN, "NaNs", (None, False)),
    ],
)
def test_values_of_columns(shape: Scalar, value: JSON, expected: tuple[Any, bool]) -> None:
    assert exact.find_held_part(shape, value) == expected


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (TIME, "2026-01-02T03:04:05.500000Z"), (DAY, "2024-02-29"), (PRICE, 12.34), (PRICE, 12345678901234567890),
        (SPAN, "1.500s"), (SPAN, "1000s"), (SPAN, "-0.000001s"), (NANOS, 1_000_000_123_456_000),
    ],
)  # fmt: skip
def test_a_value_comes_back(shape: Scalar, value: JSON) -> None:
    assert exact.restore_sent(shape, exact.find_held_part(shape, value)[0]) == value
    assert exact.restore_sent(shape, value) == value  # out of a table that has it as it was sent


@pytest.mark.parametrize(
    "text", ["90071992547409.93", "999999999999999.99", "1E-3999", "1E+400", "0.1000000000000000055", "1.5", "7"]
)
def test_digits_are_read_and_written(text: str) -> None:
    assert exact.dump(parse_json(f'{{"a":[{text}]}}', exact=True)) == f'{{"a":[{text}]}}'.encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", (0.1, True)), ("-0.0", (-0.0, True)), ("5", (5.0, True)), ("10000000000000000000000000", (1e25, True)),
        ("9007199254740993", (9007199254740992.0, False)), ("9007199254740993.0", (9007199254740992.0, False)),
        ("0.1234567890123456789", (0.12345678901234568, False)), ("1e-400", (0.0, False)), ("1e-3999", (0.0, False)),
        ("1e400", (None, False)), ("9" * 400, (None, False)), ("true", (None, False)), ('"1"', (None, False)),
    ],
)  # fmt: skip
def test_inexact_floats_are_marked(text: str, expected: tuple[float | None, bool]) -> None:
    assert exact.find_held_part(Scalar(kind="float64", sent="float64"), parse_json(text, exact=True)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), (1e23, 10**23), (Decimal("9007199254740993.0"), 9007199254740993), (Decimal("1E+400"), 10**400)],
)
def test_integers_keep_their_digits(value: float | Decimal, expected: int) -> None:
    assert exact.to_integer(value) == expected


@pytest.mark.parametrize("value", [1.5, math.inf, math.nan, Decimal("0.5"), Decimal("1E-3999")])
def test_non_integer_is_not_truncated(value: float | Decimal) -> None:
    with pytest.raises(ValueError, match="is no integer"):
        exact.to_integer(value)


def test_unsupported_object_is_not_written() -> None:
    with pytest.raises(TypeError, match="object"):
        exact.dump(object())


MEMBERS: dict[str, JSON] = {
    "t": {"type": ["string", "null"], "format": "date-time", "maxLength": 40},
    "d": {"type": "string", "format": "date"},
    "n": {"type": "object", "minProperties": 1, "properties": {"t": {"type": "string", "format": "date-time"}}},
    "p": {"type": "number", "multipleOf": 0.01},
    "f": {"type": "number"},
}
DOCUMENT = {"type": "object", "additionalProperties": False, "properties": MEMBERS}
SCHEMA = FORMAT.parse(dump_json(DOCUMENT), "JsonSchema/draft-07")


def near(text_: str) -> st.SearchStrategy[str]:
    """A text, or one that differs in a few places."""
    return st.lists(st.tuples(st.integers(0, 40), st.sampled_from("0123456789-+:.TtZz 6")), max_size=2).map(
        lambda changes: "".join(dict([*enumerate(text_), *changes])[place] for place in range(len(text_)))
    )


FRACTIONS = st.sampled_from(["", ".", ".5", ".123456", ".1234560", ".1234567", ".123456789012", ".1234567890123"])
ZONES = st.sampled_from(["Z", "z", "", "+00:00", "-23:59", "+24:00", "+1:00", "-00:60", "Zx"])
TIMES = st.builds(
    lambda moment, fraction, zone: f"{moment.year:04}{moment:-%m-%dT%H:%M:%S}{fraction}{zone}",
    st.datetimes(), FRACTIONS, ZONES,
).flatmap(near)  # fmt: skip
DATES = st.builds(
    lambda day, zone: f"{day.year:04}{day:-%m-%d}{zone}", st.dates(), st.sampled_from(["", "", "Z", "+01:00"])
).flatmap(near)
PRICES = st.one_of(
    st.integers(-(10**20), 10**20), st.integers(-(10**6), 10**6).map(lambda cents: cents / 100), st.just(1e40)
)
FLOATS = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
PAYLOADS = st.fixed_dictionaries(
    {},
    optional={"t": st.none() | TIMES, "d": DATES, "n": st.fixed_dictionaries({"t": TIMES}), "p": PRICES, "f": FLOATS},
)


@settings(max_examples=examples(300))
@given(st.lists(PAYLOADS, min_size=1, max_size=6))
def test_both_paths_hold_equal_values(payloads: list[dict[str, JSON]]) -> None:
    shape = SCHEMA.shape()
    payloads = [payload for payload in payloads if not SCHEMA.validate(payload)]
    for payload in payloads:
        expected = make_payload_builder(shape, ValueForm.JSON)([payload])
        rests = rescue.build_rescue_array(shape, [payload])
        if payload.get("p") == 1e40:
            with pytest.raises(MISFITS):  # which leaves it to the slow path
                _natively(payload)
        else:
            native_arrays, refused = _natively(payload)
            assert refused == []
            assert [array.to_pylist() for array in native_arrays] == [array.to_pylist() for array in (*expected, rests)]
        assert (rests[0].as_py() is None) == _whole(payload)


def _natively(payload: JSON) -> tuple[list[pa.Array], list[int]]:
    return build_json_decoder(SCHEMA, SCHEMA.shape())(PayloadSpans.of_list([dump_json(payload)]))


def _whole(payload: dict[str, Any]) -> bool:
    """Return True if the columns hold the whole payload."""
    parts = ((TIME, payload.get("t")), (TIME, payload.get("n", {}).get("t")), (DAY, payload.get("d")))
    if not exact.find_held_part(NUMBER, payload.get("f", 0))[1]:
        return False
    return payload.get("p") != 1e40 and all(
        value is None or exact.find_held_part(shape, value)[1] for shape, value in parts
    )


def test_unfitting_values_are_rescued() -> None:
    payload = {"t": "2026-01-02T03:04:05.1234567Z", "d": "someday", "n": {"t": "2026-01-02T03:04:05Z"}, "p": 12.34}
    (times, days, inner, prices, _, rescued), _ = _natively(payload)
    assert times.to_pylist() == [at(2026, 1, 2, 3, 4, 5, 123456)]
    assert days.to_pylist() == [None]
    assert inner.to_pylist() == [{"t": at(2026, 1, 2, 3, 4, 5)}]
    assert prices.to_pylist() == [Decimal("12.34")]
    assert rescued.to_pylist() == ['{"t":"2026-01-02T03:04:05.1234567Z","d":"someday"}']
    assert rescue.RescuedPaths(SCHEMA.shape()).count(rescued) == {"/t": 1, "/d": 1}


def test_numbers_that_json_does_not_have_have_names() -> None:
    """Null, and a number larger than all floats, stay as they were sent."""
    value = {"a": [math.nan, None, (1.5, -math.inf)], "b": Decimal("1E+400"), "c": math.inf, "d": b"x"}
    assert exact.dump(value) == b'{"a":["NaN",null,[1.5,"-Infinity"]],"b":1E+400,"c":"Infinity","d":"eA=="}'
