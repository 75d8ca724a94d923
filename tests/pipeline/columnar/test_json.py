"""JSON into columns natively says what typed decoders say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.jsonschema.cases import cases

from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import MISFITS
from signalbook.pipeline.columnar import json
from signalbook.pipeline.payloads import Text, ValueReader, reader
from signalbook.pipeline.rows import Mark, Target
from signalbook.values import dump_json, now, parse_json

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
