"""Values become arrays, in either form, and back."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signalbook.formats import Anything, Field, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.protobuf import FORMAT as PROTOBUF
from signalbook.formats.xsd import FORMAT as XSD
from signalbook.pipeline import arrays, columns
from signalbook.pipeline.arrays import (
    MISFITS,
    ValueForm,
    build_opaque_arrays,
    build_text_map,
    build_text_maps,
    find_unfitting_value,
    make_payload_builder,
    parse_timestamps,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, 5, UTC)
SIZE = Struct(fields=(Field(name="l", attribute="l", shape=Scalar(kind="int64"), required=True),), nullable=True)


def struct(**shapes: Shape) -> Struct:
    return Struct(fields=tuple(Field(name=name, attribute=f"f_{name}", shape=shape) for name, shape in shapes.items()))


def typed(value: Any, shape: Shape) -> Any:
    """A decoded value as a typed decoder would give it."""
    if value is None or isinstance(shape, Anything):
        return msgspec.Raw(msgspec.json.encode(value)) if isinstance(shape, Anything) else None
    if isinstance(shape, Struct):
        attributes = {f.attribute: typed(value[f.name], f.shape) for f in shape.fields if f.name in value}
        return SimpleNamespace(**{f.attribute: msgspec.UNSET for f in shape.fields} | attributes)
    if isinstance(shape, ListOf):
        return [typed(item, shape.item) for item in value]
    if isinstance(shape, MapOf):
        return {key: typed(item, shape.value) for key, item in value.items()}
    return value


def build(shape: Shape, values: list[Any], form: ValueForm) -> list[list[Any]]:
    return [array.to_pylist() for array in make_payload_builder(shape, form)(values)]


@pytest.mark.parametrize("form", ValueForm)
@pytest.mark.parametrize(
    ("shape", "values", "column"),
    [
        (Scalar(kind="int64"), [1, None, 2.0], [1, None, 2]),
        (Scalar(kind="uint64"), [2**64 - 1], [Decimal(2**64 - 1)]),
        (Scalar(kind="float64"), [1, 2.5, 2**60], [1.0, 2.5, 2.0**60]),
        (Scalar(kind="timestamp"), ["2026-01-02T14:00:00.000005+02:00", None], [NOON, None]),
        (Scalar(kind="timestamp"), ["2026-01-02T12:00:00.0000051234Z"], [NOON]),
        (Scalar(kind="date"), ["2026-01-02"], [date(2026, 1, 2)]),
        (Scalar(kind="time"), ["12:00:05"], [time(12, 0, 5)]),
        (Scalar(kind="decimal", precision=5, scale=2), [Decimal("1.50")], [Decimal("1.50")]),
        (ListOf(item=SIZE), [[{"l": 1}, None], None, []], [[{"l": 1}, None], None, []]),
        (MapOf(value=SIZE), [{"a": {"l": 1}}, None], [[("a", {"l": 1})], None]),
        (ListOf(item=ListOf(item=Scalar(kind="string"))), [[["a"], []]], [[["a"], []]]),
        (Struct(fields=()), [{}, None], ["{}", None]),
    ],
)
def test_one_column(shape: Shape, values: list[Any], column: list[Any], form: ValueForm) -> None:
    wrapped = [{"x": value} for value in values]
    inputs = [typed(value, struct(x=shape)) for value in wrapped] if form is ValueForm.TYPED else wrapped
    assert build(struct(x=shape), inputs, form) == [column]


@pytest.mark.parametrize("form", ValueForm)
def test_absent_and_null_members_are_null(form: ValueForm) -> None:
    shape = struct(size=SIZE, any=Anything(), n=Scalar(kind="int32"))
    values = [{"size": {"l": 1}, "any": [1], "n": 1}, {"size": None, "any": None}, {}, None]
    inputs = [None if v is None else typed(v, shape) for v in values] if form is ValueForm.TYPED else values
    expected = [[{"l": 1}, None, None, None], ["[1]", "null", None, None], [1, None, None, None]]
    assert build(shape, inputs, form) == expected


def test_decoded_dates_and_bytes_are_kept() -> None:
    shape = struct(t=Scalar(kind="timestamp"), b=Scalar(kind="bytes"))
    assert build(shape, [{"t": NOON, "b": b"\0"}], ValueForm.DECODED) == [[NOON], [b"\0"]]


XML = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order"><xs:complexType><xs:sequence>
<xs:element name="item" minOccurs="0" maxOccurs="9"><xs:complexType><xs:attribute name="n" type="xs:int"/>
</xs:complexType></xs:element><xs:element name="note" type="xs:string" nillable="true" minOccurs="0"/></xs:sequence>
<xs:attribute name="raw" type="xs:hexBinary"/></xs:complexType></xs:element></xs:schema>"""


def test_values_of_xml_fit_their_columns() -> None:
    """The XML has attributes, lists, and nil or missing values (K-40)."""
    schema = XSD.parse(XML.encode(), "XSD/1.1")
    sent = [b'<order raw="00FF"><item n="1"/><item/></order>', b"<order><note>x</note></order>"]
    columns = build(schema.shape(), [schema.decode(payload) for payload in sent], ValueForm.DECODED)
    assert columns == [[b"\x00\xff", None], [[{"@n": 1}, {"@n": None}], []], [None, "x"]]


def test_messages_of_protobuf_that_are_not_set_are_null() -> None:
    """A Value that is set to null is JSON's null."""
    document = b"""
        syntax = "proto3";
        import "google/protobuf/struct.proto"; import "google/protobuf/any.proto";
        message A {
          google.protobuf.Struct struct = 1; google.protobuf.Value value = 2; google.protobuf.ListValue list = 3;
          google.protobuf.Any any = 4; A self = 5; repeated google.protobuf.Value values = 6;
        }
    """
    schema = PROTOBUF.parse(document, "Protobuf/3")
    build = make_payload_builder(schema.shape(), ValueForm.DECODED)
    texts = (b"{}", b'{"value": null, "list": [], "struct": {}, "values": [null], "self": {}}')
    columns = build([schema.decode(text, "application/json") for text in texts])
    assert [column.to_pylist() for column in columns] == [
        [None, "{}"], [None, "null"], [None, "[]"], [None, None], [None, '{"values":[]}'], [[], ["null"]],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (Scalar(kind="int64"), 2**63),
        (Scalar(kind="int32"), 2**31),
        (Scalar(kind="timestamp"), "soon"),
        (Scalar(kind="string"), "\ud800"),
    ],
)
def test_a_value_that_does_not_fit_is_reported(shape: Shape, value: Any) -> None:
    with pytest.raises(MISFITS):
        build(struct(x=shape), [{"x": value}], ValueForm.DECODED)


def test_payloads_without_schema() -> None:
    expected = [["a", None, None], [None, b"\xff", None]]
    assert [array.to_pylist() for array in build_opaque_arrays([b"a", b"\xff", None])] == expected


def test_text_maps_and_timestamps() -> None:
    assert build_text_map([None, [("a", "b")]]).to_pylist() == [None, [("a", "b")]]
    assert build_text_map([None, None]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "text", ["2026-01-02T12:00:00.000005Z", "2026-01-02t12:00:00.000005z", "2026-01-02T12:00:00.000005999Z"]
)
def test_timestamps_of_every_spelling(text: str) -> None:
    assert parse_timestamps(pa.array([text, None])).to_pylist() == [NOON, None]


def test_maps_contain_the_set_columns() -> None:
    columns = {"a": ["x", None, ""], "b": ["y", None, None]}
    maps = build_text_maps({name: pa.array(texts, pa.string()) for name, texts in columns.items()})
    assert maps.equals(build_text_map([[("a", "x"), ("b", "y")], None, [("a", "")]]))
    assert maps.slice(1).to_pylist() == [None, [("a", "")]]


ODD_PAIRS = [("a", b"\xff"), ("b", b"\xc3\xbc")]
TYPE = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    ("protocol", "pairs", "texts", "exact"),
    [
        ("HTTP", [], None, None),
        ("HTTP", [("A", "1"), ("b", "2")], [("a", "1"), ("b", "2")], None),
        ("HTTP", [("A", "1"), ("a", "2")], [("a", "1, 2")], [("A", b"1"), ("a", b"2")]),
        ("KAFKA", [("A", b"1"), ("a", b"2")], [("A", "1"), ("a", "2")], None),
        ("KAFKA", [("a", b"1"), ("a", b"1")], [("a", "1, 1")], [("a", b"1"), ("a", b"1")]),
        ("KAFKA", ODD_PAIRS, [("a", "\\xff"), ("b", "ü")], ODD_PAIRS),
        ("KAFKA", [("a", b""), ("b", b"\\xff")], [("a", ""), ("b", "\\xff")], None),
        ("KAFKA", [("a", None)], [("a", "")], [("a", None)]),
    ],
)
def test_headers_as_columns(protocol: str, pairs: list[arrays.Header], texts: object, exact: Any) -> None:
    """Raw headers are kept if a name occurs twice, or a value is null or not text."""
    maps, lists = arrays.build_header_columns([("KAFKA", ()), (protocol, pairs)])
    assert maps.to_pylist() == [None, texts]
    assert lists.to_pylist() == [None, exact and [{"name": name, "value": value} for name, value in exact]]


NAMES, VALUES = st.sampled_from("abB"), st.sampled_from([b"", b"1", b"\xff", None, "ü".encode()])


@given(
    st.lists(st.none() | st.lists(st.fixed_dictionaries({"name": NAMES, "value": VALUES}), max_size=3)),
    st.booleans(),
    st.sampled_from(["KAFKA", "HTTP", ""]),
)
def test_header_columns_equal_those_of_single_rows(
    header_rows: list[list[dict[str, bytes | str | None]] | None], sliced: bool, protocol: str
) -> None:
    array = pa.array(header_rows, TYPE)
    array, header_rows = (array.slice(1), header_rows[1:]) if sliced else (array, header_rows)
    names = arrays.HeaderNames.of(array, folded=protocol in arrays.LOWERED)
    pairs: Any = arrays.list_header_pairs if protocol == "KAFKA" else arrays.list_text_pairs
    assert arrays.build_header_arrays(protocol, array, names) == arrays.build_header_columns(
        (protocol, pairs(e)) for e in header_rows
    )


# Mostly the same names in all messages, as producers send them; "ab", "" and "a", "b" have the same bytes.
ALIKE = st.lists(st.sampled_from(["a", "b", "ab", "B", ""]), max_size=3)
LISTS = st.tuples(ALIKE, st.integers(0, 4), st.lists(st.none() | ALIKE, max_size=2)).flatmap(
    lambda parts: st.permutations([parts[0]] * parts[1] + parts[2])
)


def listed(name_lists: list[list[str] | None]) -> pa.Array:
    """Headers with such names; a first message is cut off."""
    rows = [None if names is None else [{"name": name, "value": b"1"} for name in names] for names in name_lists]
    return pa.array([[{"name": "x", "value": b"0"}], *rows], TYPE).slice(1)


@given(LISTS, st.booleans())
def test_names_of_headers(name_lists: list[list[str] | None], folded: bool) -> None:
    names = arrays.HeaderNames.of(listed(name_lists), folded=folded)
    rows = [[name.lower() if folded else name for name in row or ()] for row in name_lists]
    flat = [name for row in rows for name in row]
    assert list(names.numbers) == list(dict.fromkeys(flat))
    assert names.codes.tolist() == [names.numbers[name] for name in flat]
    assert names.find_places(["b", "", "x"]).tolist() == [place for place, name in enumerate(flat) if name in ("b", "")]
    assert not names.alike or all(row == rows[0] and len(set(row)) == len(row) for row in rows)


def test_shared_header_names_are_recognised() -> None:
    assert arrays.HeaderNames.of(listed([["a", "b"]] * 3), folded=False).alike
    assert not arrays.HeaderNames.of(listed([["b", "B"]] * 3), folded=True).alike


@given(LISTS, st.data())
def test_maps_are_selected_by_position(name_lists: list[list[str] | None], data: st.DataObject) -> None:
    rows = [[] if names is None else [(name, str(number)) for number, name in enumerate(names)] for names in name_lists]
    maps = pa.array([[("x", "0")], *rows], columns.TEXT_MAP).slice(1)
    places = np.array(data.draw(st.lists(st.integers(0, max(len(maps) - 1, 0)), unique=True, max_size=len(maps))), int)
    some = arrays.take_elements(maps, places)
    some.validate(full=True)
    assert some.equals(maps.take(pa.array(places, pa.int64())))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"n": 2**70}, ("n",)),
        ({"n": 1, "list": [{"n": 1}] * 9 + [{"n": 2**70}, {"n": 2**80}]}, ("list", 9, "n")),
        ({"map": {"a/b": 1, "": 2**64}}, ("map", "")),
        ({"other": 2**70, "n": 1}, None),
        ({"list": "text"}, ("list",)),
        ([], ()),
        (None, None),
    ],
)
def test_unfitting_value_has_its_path(value: Any, path: Any) -> None:
    whole = Scalar(kind="int64")
    shape = struct(n=whole, list=ListOf(item=struct(n=whole)), map=MapOf(value=whole))
    result = find_unfitting_value(shape, value)
    assert (result and result[0]) == path
