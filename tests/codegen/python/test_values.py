"""A value is unchanged after it was built, bound, matched, validated and parsed: random values of all types."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.packages import generated, imported

from signalbook.codegen.runtime import to_data
from signalbook.messages import bind

Case = tuple[Any, st.SearchStrategy[Any]]
STYLE_NAMES = ["dataclass", "msgspec", "pydantic"]
STYLES = st.sampled_from(STYLE_NAMES)
# Keywords, names of types, what is no identifier, and such as differ in what identifiers cannot show.
NAMES = st.sampled_from(
    ["a", "class", "None", "str", "list", "int", "model_x", "copy", "json", "self", "A", "a-b", "a.b", "a_b", "_a",
     "__b", "1", "", " ", "é", "日本", "$ref", "Record", "M1", "payload", "extra_members", "type", "x" * 200, '"', "\\"]
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON_LEAVES: list[Case] = [
    ({"type": "string"}, TEXT),
    ({"type": "integer"}, st.integers(-(2**60), 2**60)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": ["string", "null"]}, st.none() | TEXT),
    ({"enum": ["a", "b c", '"']}, st.sampled_from(["a", "b c", '"'])),
    ({"enum": [1, "1", True, None]}, st.sampled_from([1, "1", True, None])),
    ({"const": "k"}, st.just("k")),
    (True, st.none() | st.booleans() | TEXT | st.lists(TEXT, max_size=2) | st.dictionaries(TEXT, TEXT, max_size=2)),
    ({"type": "object", "additionalProperties": False}, st.just({})),
    ({"type": "string", "minLength": 2, "pattern": "^b"}, st.just("bcd")),
]


@st.composite
def json_cases(draw: st.DrawFn, depth: int = 3) -> Case:
    if depth == 0:
        return draw(st.sampled_from(JSON_LEAVES))
    kind = draw(st.sampled_from(["leaf", "object", "object", "list", "map", "union", "nullable"]))
    if kind == "leaf":
        return draw(st.sampled_from(JSON_LEAVES))
    if kind == "object":
        return draw(json_objects(depth - 1))
    schema, values = draw(json_cases(depth - 1))
    if kind == "list":
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "object", "additionalProperties": schema}, st.dictionaries(NAMES, values, max_size=2)
    if kind == "nullable":
        return {"anyOf": [{"type": "null"}, schema]}, st.none() | values
    # no discriminator: the branches may have the same members
    alternatives = [draw(json_objects(depth - 1)) for _ in range(2)]
    return {"anyOf": [schema, *(values_ for values_, _ in alternatives)]}, st.one_of(
        values, *(values_ for _, values_ in alternatives)
    )


@st.composite
def json_objects(draw: st.DrawFn, depth: int) -> Case:
    """Draw schemas of objects, open and closed ones, with optional members."""
    members = {name: draw(json_cases(depth)) for name in draw(st.lists(NAMES, unique=True, max_size=4))}
    required = [name for name in members if draw(st.booleans())]
    schema: dict[str, Any] = {
        "type": "object", "properties": {name: part for name, (part, _) in members.items()}, "required": required,
    }  # fmt: skip
    extra = draw(st.sampled_from([None, False, {"type": "integer"}]))
    if extra is not None:
        schema["additionalProperties"] = extra
    objects = st.fixed_dictionaries(
        {name: values for name, (_, values) in members.items() if name in required},
        optional={name: values for name, (_, values) in members.items() if name not in required},
    )
    if isinstance(extra, dict):
        more = st.dictionaries(st.sampled_from(["other", "z-z"]), st.integers(0, 9), max_size=2)
        objects = st.builds(lambda additional, declared: {**additional, **declared}, more, objects)
    return schema, objects


AVRO_LEAVES: list[Case] = [
    ("string", TEXT), ("long", st.integers(-(2**63), 2**63 - 1)), ("boolean", st.booleans()),
    ("double", st.floats(allow_nan=False, allow_infinity=False)), ("bytes", st.binary(max_size=4)),
    (["null", "int"], st.none() | st.integers(-9, 9)),
    ({"type": "int", "logicalType": "date"}, st.dates(date(1970, 1, 1), date(2100, 1, 1))),
    ({"type": "long", "logicalType": "timestamp-micros"},
     st.integers(0, 10**12).map(lambda seconds: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=seconds))),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
     st.integers(-999, 999).map(lambda cents: Decimal(cents).scaleb(-2))),
]  # fmt: skip


AVRO_NAMES = ["a", "class_", "None", "str", "model_x", "copy", "R", "self"]


@st.composite
def avro_cases(draw: st.DrawFn, depth: int = 2, path: str = "R") -> Case:
    names = draw(st.lists(st.sampled_from(AVRO_NAMES), unique=True, min_size=1))
    fields: list[dict[str, Any]] = []
    values = {}
    for index, name in enumerate(names):
        kind = draw(st.sampled_from(["leaf", "record", "list", "map", "enum"]))
        leaf = not depth or kind == "leaf"
        schema, inner = draw(st.sampled_from(AVRO_LEAVES) if leaf else avro_cases(depth - 1, f"{path}{index}"))
        if kind == "list":
            schema, inner = {"type": "array", "items": schema}, st.lists(inner, max_size=2)
        elif kind == "map":
            schema, inner = {"type": "map", "values": schema}, st.dictionaries(TEXT, inner, max_size=2)
        elif kind == "enum":
            schema = {"type": "enum", "name": f"{path}{index}E", "symbols": ["x", "class"]}
            inner = st.sampled_from(["x", "class"])
        fields.append({"name": name, "type": schema})
        values[name] = inner
    return {"type": "record", "name": path, "fields": fields}, st.fixed_dictionaries(values)


@contextmanager
def built(cases: list[Case], format: str, **options: str) -> Iterator[list[tuple[ModuleType, st.SearchStrategy[Any]]]]:
    """The modules of messages with these payloads, each with its values."""
    messages = {f"m{index}": {"envelope": "CloudEvents/1.0", "dataschemaformat": format, "dataschema": schema,
                              "envelopemetadata": {"source": {"type": "uritemplate", "value": "/s/{shop}"}}}
                for index, (schema, _) in enumerate(cases)}  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        package = generated(Path(name), {"messagegroups": {"g": {"messages": messages}}}, **options)
        assert package.left_out == {}
        with imported(Path(name)) as modules:
            yield [(modules[f"/messagegroups/g/messages/m{i}"], values) for i, (_, values) in enumerate(cases)]


def check(module: ModuleType, value: Any, protocol: str) -> None:
    payload = module.MESSAGE.typed_of(value)
    assert to_data(payload) == value
    endpoint = {"protocol": protocol, "protocoloptions": {"topic": "t"}}
    read = module.parse(bind(module.build(payload, shop="7"), endpoint))
    assert read.payload == payload
    assert read.data == value


@settings(max_examples=4)
@given(st.lists(json_cases(), min_size=6, max_size=6), STYLES, st.data())
def test_json_schema(cases: list[Case], style: str, data: st.DataObject) -> None:
    with built(cases, "JsonSchema/draft/2020-12", style=style) as built_cases:
        for module, values in built_cases:
            for protocol in ("KAFKA", "HTTP"):
                check(module, data.draw(values), protocol)


@settings(max_examples=4)
@given(st.lists(avro_cases(), min_size=6, max_size=6), STYLES, st.data())
def test_avro(cases: list[Case], style: str, data: st.DataObject) -> None:
    with built(cases, "Avro/1.11", style=style) as built_cases:
        for module, values in built_cases:
            check(module, data.draw(values), "KAFKA")


# Every kind of type, alone and within others, with names that Python or the generated code has a use for.
STRUCTURE: dict[str, Any] = yaml.safe_load("""
$schema: "https://json-structure.org/meta/core/v0/#"
$id: https://x.example/o
name: O
type: object
required: [a, class]
additionalProperties: false
properties:
  a: {type: string}
  class: {type: int32}
  None: {type: int64}
  str: {type: double}
  copy: {type: boolean}
  _x: {type: decimal, precision: 6, scale: 2}
  A: {type: date}
  payload: {type: string, enum: [x, y z]}
  extra_members: {type: [string, "null"]}
  any: {type: any}
  list: {type: array, items: {type: array, items: {type: int32}}}
  map: {type: map, values: {type: object, name: In, properties: {class: {type: date}}, required: [class]}}
  tuple:
    {type: tuple, name: T, properties: {a: {type: int8}, None: {type: array, items: {type: string}}}, tuple: [None, a]}
  choice:
    type: choice
    name: C
    choices:
      a: {type: string}
      class: {type: map, values: {type: double}}
      str: {type: object, name: Str, properties: {_x: {type: string}, A: {type: int64}}}
""")
STRUCTURE_VALUES: list[Any] = [
    {"a": "", "class": -(2**31)},
    {"a": "é", "class": 1, "None": "1152921504606846976", "str": -5, "copy": False, "_x": "-9.25", "A": "2026-01-02",
     "payload": "y z", "extra_members": None, "any": True, "list": [[1], []], "map": {"a": {"class": "1970-01-01"}},
     "tuple": [["x"], 7], "choice": {"a": "x"}},
    {"a": "x", "class": 2, "str": 0.5, "extra_members": "x", "any": None, "list": [], "map": {}, "tuple": [[], -1],
     "choice": {"class": {"_x": 1.5, "None": 0}}},
    {"a": "x", "class": 3, "any": "text", "payload": "x", "choice": {"str": {"_x": "", "A": "-1"}}},
]  # fmt: skip
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:simpleType name="Money"><xs:restriction base="xs:decimal"><xs:totalDigits value="9"/>
  <xs:fractionDigits value="2"/></xs:restriction></xs:simpleType>
<xs:simpleType name="Size"><xs:restriction base="xs:string"><xs:enumeration value="small"/>
  <xs:enumeration value="very large"/></xs:restriction></xs:simpleType>
<xs:simpleType name="Few"><xs:restriction base="xs:int"><xs:enumeration value="1"/><xs:enumeration value="2"/>
  </xs:restriction></xs:simpleType>
<xs:simpleType name="Words"><xs:list itemType="xs:NMTOKEN"/></xs:simpleType>
<xs:complexType name="Item"><xs:simpleContent><xs:extension base="Money"><xs:attribute name="class" type="xs:int"/>
  </xs:extension></xs:simpleContent></xs:complexType>
<xs:element name="order"><xs:complexType><xs:sequence>
  <xs:element name="a" type="xs:string"/><xs:element name="class" type="xs:int"/>
  <xs:element name="None" type="xs:boolean" minOccurs="0"/><xs:element name="str" type="xs:double" minOccurs="0"/>
  <xs:element name="copy" type="xs:base64Binary" minOccurs="0"/><xs:element name="day" type="xs:date" minOccurs="0"/>
  <xs:element name="size" type="Size" minOccurs="0"/><xs:element name="few" type="Few" minOccurs="0" maxOccurs="9"/>
  <xs:element name="words" type="Words" minOccurs="0"/><xs:element name="item" type="Item" minOccurs="0" maxOccurs="9"/>
  <xs:element name="in" minOccurs="0" maxOccurs="9"><xs:complexType><xs:sequence>
    <xs:element name="class" type="Item" minOccurs="0"/></xs:sequence>
    <xs:attribute name="a-b" type="xs:string" use="required"/></xs:complexType></xs:element>
</xs:sequence><xs:attribute name="a-b" type="xs:string" use="required"/></xs:complexType></xs:element></xs:schema>"""
NO_LISTS: dict[str, Any] = {"few": [], "item": [], "in": []}
XSD_VALUES: list[Any] = [
    {"@a-b": "x", "a": "", "class": -(2**31), **NO_LISTS},
    {"@a-b": "y", "a": "é <&>", "class": 1, "None": True, "str": -0.5, "copy": b"\xff\x00", "day": "2026-01-02",
     "size": "very large", "few": [1, 2], "words": ["a", "b"], "item": [{"$": Decimal("9.99"), "@class": 7}],
     "in": [{"@a-b": "x"}, {"@a-b": "y", "class": {"$": Decimal("-0.01")}}]},
    {"@a-b": "x", "a": "x", "class": 2, "None": False, "size": "small", "words": [], **NO_LISTS},
]  # fmt: skip


@pytest.mark.parametrize("style", STYLE_NAMES)
@pytest.mark.parametrize(
    ("format", "document", "values"),
    [("JsonStructure/draft-04", STRUCTURE, STRUCTURE_VALUES), ("XSD/1.1", XSD, XSD_VALUES)],
    ids=["JSON Structure", "XSD"],
)
def test_all_types_of_a_format(format: str, document: Any, values: list[Any], style: str) -> None:
    with built([(document, st.nothing())], format, style=style) as ((module, _),):
        for value in values:
            check(module, value, "HTTP")
