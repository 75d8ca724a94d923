"""Payloads decoded natively, and one by one: what is taken comes to the same, and is nothing that does not conform."""

from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from signalbook.formats import Anything, ListOf, MapOf, PayloadError, Schema, Shape, Struct, as_sent
from signalbook.formats.base import read_json
from signalbook.formats.jsonschema import JsonSchema
from signalbook.pipeline import columns, rescue
from signalbook.pipeline.arrays import MISFITS, ValueForm, make_payload_builder
from signalbook.pipeline.native import PayloadSpans
from signalbook.pipeline.processing.decoding import find_decoder

Row = dict[str, Any]


def check(schema: Schema, payloads: list[bytes], content_type: str = "") -> dict[int, Row]:
    """Decode natively, amid others; the rows of those that are taken, by number, in columns that are typed."""
    for typed in (False, True):
        rows = check_as(schema, payloads, content_type, typed=typed)
    return rows


def amid_others(payloads: list[bytes]) -> PayloadSpans:
    """Payloads in two blocks, with others before and behind them in these."""
    half = len(payloads) // 2
    parts = [[b"before", *part, b"behind"] for part in (payloads[:half], payloads[half:])]
    arrays = [pa.array(part, pa.binary()).slice(1, len(part) - 2) for part in parts]
    ends = np.cumsum([len(payload) for payload in parts[1]])
    within = PayloadSpans.within(b"".join(parts[1]), ends[:-2], ends[1:-1])
    return PayloadSpans.join([PayloadSpans.of(arrays[0]), within])


def check_as(schema: Schema, payloads: list[bytes], content_type: str = "", *, typed: bool) -> dict[int, Row]:
    """The same for columns that are typed, or not."""
    decode = find_decoder(schema, content_type, typed=typed)
    shape = schema.shape() if typed else as_sent(schema.shape())
    assert decode is not None
    columns_, refused = decode(amid_others(payloads))
    kinds = columns.build_payload(shape)
    accepted = [number for number in range(len(payloads)) if number not in refused]
    if not accepted:
        return {}
    assert [column.type for column in columns_[: len(kinds)]] == [field.type for field in kinds]
    rests = columns_[len(kinds) :]
    assert [column.type for column in rests] == [pa.string()] * isinstance(schema, JsonSchema)
    for column in rests:
        column.validate(full=True)
        expected = rescue.build_rescue_array(shape, [read_json(payloads[number]) for number in accepted]).to_pylist()
        assert [text and read_json(text.encode()) for text in column.to_pylist()] == [
            text and read_json(text.encode()) for text in expected
        ]
    if not rests:  # there is no column for what the others do not hold
        values = [schema.decode(payloads[number], content_type) for number in accepted]
        assert rescue.build_rescue_array(shape, values).null_count == len(accepted)
    table = pa.Table.from_arrays(columns_[: len(kinds)], schema=kinds)
    table.validate(full=True)
    rows = dict(zip(accepted, table.to_pylist(), strict=True))
    for number, row in rows.items():
        expected = slow(schema, payloads[number], shape, content_type)
        assert expected is not None, payloads[number]
        # as text: nan is not itself, and -0.0 is 0.0
        assert str(plain(row, shape)) == str(plain(expected, shape))
    return rows


@st.composite
def spoilt(draw: st.DrawFn, payload: bytes) -> bytes:
    """Return the payload unchanged, with another byte, with more or fewer bytes, or twice."""
    place = draw(st.integers(0, len(payload)))
    match draw(st.sampled_from(["as it is", "as it is", "byte", "more", "cut", "twice"])):
        case "byte":
            return payload[:place] + draw(st.binary(min_size=1, max_size=1)) + payload[place + 1 :]
        case "more":
            more = draw(st.sampled_from([b"\x00", b"\x80", b"\xff" * 11, b"x", b"\x08\x01"]))
            return payload[:place] + more + payload[place:]
        case "cut":
            return payload[:place]
        case "twice":
            return payload + payload
    return payload


def slow(schema: Schema, payload: bytes, shape: Shape, content_type: str = "") -> Row | None:
    """The row of one payload, if it conforms and its values fit their columns."""
    try:
        arrays = make_payload_builder(shape, ValueForm.of(schema))([schema.decode(payload, content_type)])
    except (PayloadError, *MISFITS):
        return None
    rows: list[Row] = pa.Table.from_arrays(arrays, schema=columns.build_payload(shape)).to_pylist()
    return rows[0]


def plain(row: Row, shape: Shape) -> list[Any]:
    """The values of a row, where a column of JSON text has any JSON that says the same, and names have no order."""
    parts = [field.shape for field in shape.fields] if isinstance(shape, Struct) and shape.fields else [shape]
    return [_value(value, part) for value, part in zip(row.values(), parts, strict=True)]


def _value(value: Any, shape: Shape) -> Any:
    if value is None:
        return None
    match shape:
        case Anything():
            return _sorted(read_json(value.encode()))
        case Struct() if shape.fields:
            parts = zip(value.items(), shape.fields, strict=True)
            return {name: _value(member, field.shape) for (name, member), field in parts}
        case ListOf():
            return [_value(item, shape.item) for item in value]
        case MapOf():
            return {name: _value(item, shape.value) for name, item in sorted(value, key=itemgetter(0))}
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value
