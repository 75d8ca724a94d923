"""JSON, timestamps and findings."""

import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook import values
from signalbook.values import (
    Finding,
    JSONError,
    canonical_json,
    digest,
    dump_json,
    fingerprint,
    format_count,
    format_timestamp,
    now,
    parse_json,
    parse_timestamp,
    step_into,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_json_reads_back(value: object) -> None:
    assert parse_json(dump_json(value)) == value
    assert parse_json(dump_json(value, indent=2)) == value
    assert parse_json(canonical_json(value)) == value
    assert parse_json(dump_json(value, indent=2), unique=True) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '[[{"x": {"a" : 1, "b": 2, "\\u0061": 3}}]]',
        '{"a": "\\"a\\":", "b": {"c": 1, "c"\t: [' + "9" * 300 + ".0]}}",
        '{"": 1, "": {}}',
    ],
)
def test_duplicate_names_are_rejected(text: str) -> None:
    """RFC8259 4: refused where asked for, with the name."""
    parse_json(text)
    with pytest.raises(JSONError, match="twice"):
        parse_json(text, unique=True)


@pytest.mark.parametrize(
    "text", ['{"a": "b:", "b": "\\"a\\": 1"}', '[{"a": 1}, {"a": 2}]', '"a:"', '{"a": {"a": ":"}}', "1"]
)
def test_different_names_are_accepted(text: str) -> None:
    assert parse_json(text, unique=True) == parse_json(text)


def test_equal_values_have_one_fingerprint() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", "nul", "{} {}", b"\xff", '"\ud800"', "NaN", "'a'"])
def test_invalid_json_is_rejected(text: str | bytes) -> None:
    with pytest.raises(JSONError):
        parse_json(text)


def test_depth_is_bounded() -> None:
    assert parse_json("[[[]]]", max_depth=3) == [[[]]]
    with pytest.raises(JSONError, match="nested deeper than 2 levels"):
        parse_json('[{"a": []}]', max_depth=2)
    with pytest.raises(JSONError, match="nested deeper than 64 levels"):
        parse_json("[" * 1_000_000)


def test_values_are_bounded() -> None:
    """Characters in strings do not count; an empty array is one value."""
    assert parse_json('["a,b,c,[[{\\",", 1]', max_values=3) == ['a,b,c,[[{",', 1]
    for text in ("[1,2,3,4]", b"[[],[]]", '[{"a":"\ud800"},[1],2]'):
        with pytest.raises(JSONError, match="more than 3 values"):
            parse_json(text, max_values=3)


@pytest.mark.parametrize("piece", [1, 2, 3, 5])
def test_values_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(values, "_PIECE", piece)
    text = rb'[",\\",{"[\",{":"\\\"["},2,"\\\\",[]]'
    assert parse_json(text, max_values=8) == parse_json(text)
    with pytest.raises(JSONError, match="more than 6 values"):
        parse_json(text, max_values=6)


@pytest.mark.merge
def test_counting_values_takes_no_memory_for_each_string() -> None:
    text = b"[" + b'"abc", ' * 1_000_000 + b"1]"
    tracemalloc.start()
    with pytest.raises(JSONError, match="more than 900000 values"):
        parse_json(text, max_values=900_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * len(text), most / len(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2030-12-19T06:00:00Z", datetime(2030, 12, 19, 6, tzinfo=UTC)),
        ("2030-12-19t06:00:00z", datetime(2030, 12, 19, 6, tzinfo=UTC)),
        ("2030-12-19T06:00:00", datetime(2030, 12, 19, 6, tzinfo=UTC)),  # R7: no zone is UTC
        ("2030-12-19T06:00:00+02:30", datetime(2030, 12, 19, 3, 30, tzinfo=UTC)),
        ("2030-12-19T06:00:00.1234567Z", datetime(2030, 12, 19, 6, 0, 0, 123456, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:60+01:00", datetime(9999, 12, 31, 23, tzinfo=UTC)),
    ],
)
def test_timestamps(text: str, expected: datetime) -> None:
    assert parse_timestamp(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "2030-12-19", "2030-12-19 06:00:00Z", "2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z",
        "2030-01-01T24:00:00Z", "2030-01-01T00:00:00+24:00", "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:60Z", "9999-12-31T23:59:60-01:00", "٢٠٣٠-12-19T06:00:00Z",
    ],
)  # fmt: skip
def test_invalid_timestamp_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC3339|time zone|year|day|month|hour"):
        parse_timestamp(text)


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]),
        min_value=datetime(2, 1, 1),
        max_value=datetime(9998, 1, 1),
    )
)
def test_timestamps_read_back(stamp: datetime) -> None:
    text = format_timestamp(stamp)
    assert text.endswith("Z")
    assert parse_timestamp(text) == stamp


def test_now_is_in_utc() -> None:
    assert now().tzinfo is UTC


def test_finding_contains_path_and_message() -> None:
    assert str(Finding(path="/a", rule="enum", message="is none of these")) == "/a: is none of these [enum]"


@pytest.mark.parametrize(
    ("finding", "body"),
    [
        (Finding(path="a", rule="r", message="m"), {"path": "a", "rule": "r", "message": "m"}),
        (
            Finding(path="a", rule="r", message="m", severity="warning", old=1, new={"x": 2}),
            {"path": "a", "rule": "r", "message": "m", "severity": "warning", "old": 1, "new": {"x": 2}},
        ),
    ],
)
def test_a_finding_as_json(finding: Finding, body: dict[str, object]) -> None:
    assert finding.to_json() == body
    assert Finding.from_json(body) == finding


@pytest.mark.parametrize(
    ("value", "token", "expected"),
    [({"a/b": 1}, "a~1b", 1), ({"~1": 1}, "~01", 1), ({"0": 1}, "0", 1), (["a", "b"], "1", "b")],
)
def test_pointer_token_selects_a_member(value: Any, token: str, expected: Any) -> None:
    assert step_into(value, token) == expected


@pytest.mark.parametrize(
    ("value", "token"), [({}, "a"), ([1], "1"), ([1], "-1"), ([1], "-"), ([1], "9" * 5000), ("text", "0"), (None, "")]
)
def test_a_token_that_names_nothing_is_a_lookup_error(value: Any, token: str) -> None:
    with pytest.raises(LookupError):
        step_into(value, token)


@pytest.mark.parametrize(
    ("count", "words", "expected"),
    [
        (1, ("byte",), "1 byte"),
        (0, ("byte",), "0 bytes"),
        (1200, ("batch", "batches"), "1,200 batches"),
        (1, ("more is", "more are"), "1 more is"),
    ],
)
def test_counted_words_are_singular_or_plural(count: int, words: tuple[str, ...], expected: str) -> None:
    assert format_count(count, *words) == expected
