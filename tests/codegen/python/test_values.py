"""Random definitions: what is built, bound, matched, validated and parsed is the value that was given."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codegen.packages import generated, imported

from signalbook.codegen.runtime import to_data
from signalbook.messages import bind

Case = tuple[Any, st.SearchStrategy[Any]]
STYLES = st.sampled_from(["dataclass", "msgspec", "pydantic"])
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


STRUCTURE_NAMES = st.sampled_from(["a", "class", "None", "str", "copy", "_x", "A", "payload", "extra_members"])
STRUCTURE_LEAVES: list[Case] = [
    ({"type": "string"}, TEXT),
    ({"type": "int32"}, st.integers(-(2**31), 2**31 - 1)),
    ({"type": "int64"}, st.integers(-(2**60), 2**60).map(str)),
    ({"type": "double"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 5)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "decimal", "precision": 6, "scale": 2}, st.integers(-999, 999).map(lambda each: f"{each}.25")),
    ({"type": "date"}, st.dates().map(str)),
    ({"type": "string", "enum": ["x", "y z"]}, st.sampled_from(["x", "y z"])),
    ({"type": ["string", "null"]}, st.none() | TEXT),
    ({"type": "any"}, st.none() | st.booleans() | TEXT),
]


@st.composite
def structure_types(draw: st.DrawFn, depth: int) -> Case:
    kind = draw(st.sampled_from(["leaf", "object", "array", "map", "tuple", "choice"])) if depth else "leaf"
    if kind == "leaf":
        return draw(st.sampled_from(STRUCTURE_LEAVES))
    if kind == "object":
        return draw(structure_objects(depth))
    if kind in ("array", "map"):
        schema, values = draw(structure_types(depth - 1))
        many = st.lists(values, max_size=2) if kind == "array" else st.dictionaries(STRUCTURE_NAMES, values, max_size=2)
        return {"type": kind, "items" if kind == "array" else "values": schema}, many
    names = draw(st.lists(STRUCTURE_NAMES, unique=True, min_size=1, max_size=3))
    members = {name: draw(structure_types(depth - 1)) for name in names}
    schemas = {name: member_values for name, (member_values, _) in members.items()}
    if kind == "tuple":
        items = st.tuples(*(member_values for _, member_values in members.values())).map(list)
        return {"type": "tuple", "name": "T", "properties": schemas, "tuple": names}, items
    choice = st.one_of(*(st.fixed_dictionaries({name: values}) for name, (_, values) in members.items()))
    return {"type": "choice", "name": "C", "choices": schemas}, choice


@st.composite
def structure_objects(draw: st.DrawFn, depth: int) -> Case:
    names = draw(st.lists(STRUCTURE_NAMES, unique=True, min_size=1, max_size=4))
    members = {name: draw(structure_types(depth - 1)) for name in names}
    required_names = [name for name in names if draw(st.booleans())]
    schema: dict[str, Any] = {
        "type": "object", "name": "O", "properties": {name: part for name, (part, _) in members.items()},
        "additionalProperties": False,
    }  # fmt: skip
    return schema | ({"required": required_names} if required_names else {}), st.fixed_dictionaries(
        {name: values for name, (_, values) in members.items() if name in required_names},
        optional={name: values for name, (_, values) in members.items() if name not in required_names},
    )


@settings(max_examples=4)
@given(st.lists(structure_objects(2), min_size=6, max_size=6), STYLES, st.data())
def test_json_structure(cases: list[Case], style: str, data: st.DataObject) -> None:
    head = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://x.example/o"}
    documents = [(head | schema, values) for schema, values in cases]
    with built(documents, "JsonStructure/draft-04", style=style) as built_cases:
        for module, values in built_cases:
            check(module, data.draw(values), "HTTP")


XSD_LEAVES: list[Case] = [
    ("xs:string", TEXT.map(lambda each: "".join(c for c in each if c.isprintable()))),
    ("xs:int", st.integers(-(2**31), 2**31 - 1)),
    ("xs:boolean", st.booleans()),
    ("xs:double", st.floats(allow_nan=False, allow_infinity=False)),
    ("xs:base64Binary", st.binary(max_size=4)),
    ("xs:date", st.dates().map(str)),
    ("Money", st.integers(-999, 999).map(lambda each: Decimal(each) / 100)),
    ("Size", st.sampled_from(["small", "very large"])),
    ("Few", st.sampled_from([1, 2])),
    ("Words", st.lists(st.sampled_from(["a", "b"]), max_size=3)),
]
XSD_TYPES = """
<xs:simpleType name="Money"><xs:restriction base="xs:decimal"><xs:totalDigits value="9"/>
  <xs:fractionDigits value="2"/></xs:restriction></xs:simpleType>
<xs:simpleType name="Size"><xs:restriction base="xs:string"><xs:enumeration value="small"/>
  <xs:enumeration value="very large"/></xs:restriction></xs:simpleType>
<xs:simpleType name="Few"><xs:restriction base="xs:int"><xs:enumeration value="1"/><xs:enumeration value="2"/>
  </xs:restriction></xs:simpleType>
<xs:simpleType name="Words"><xs:list itemType="xs:NMTOKEN"/></xs:simpleType>"""


ROOT = 2


@st.composite
def xsd_elements(draw: st.DrawFn, name: str, depth: int, occurs: str = "") -> Case:
    """An element with attributes and children, or a value, and what it is decoded to."""
    # A root that is one value is that value, and as text or bytes would be the document itself to ``build``.
    if not depth or (depth < ROOT and draw(st.booleans())):
        kind, values = draw(st.sampled_from(XSD_LEAVES))
        if draw(st.booleans()):
            return f'<xs:element name="{name}" type="{kind}"{occurs}/>', values
        extended = f'<xs:extension base="{kind}"><xs:attribute name="class" type="xs:int"/></xs:extension>'
        body = f"<xs:complexType><xs:simpleContent>{extended}</xs:simpleContent></xs:complexType>"
        simple = st.fixed_dictionaries({"$": values}, optional={"@class": st.integers(0, 9)})
        return f'<xs:element name="{name}"{occurs}>{body}</xs:element>', simple
    children: list[str] = []
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for child in draw(st.lists(st.sampled_from(["a", "class", "None", "item"]), unique=True, min_size=1)):
        bounds = draw(st.sampled_from(["", ' minOccurs="0"', ' minOccurs="0" maxOccurs="9"']))
        text, values = draw(xsd_elements(child, depth - 1, bounds))
        children.append(text)
        if "max" in bounds:
            required[child] = st.lists(values, max_size=2)
        else:
            (optional if bounds else required)[child] = values
    attribute = '<xs:attribute name="a-b" type="xs:string" use="required"/>'
    body = f"<xs:complexType><xs:sequence>{''.join(children)}</xs:sequence>{attribute}</xs:complexType>"
    complex_values = st.fixed_dictionaries({**required, "@a-b": st.sampled_from(["x", "y"])}, optional=optional)
    return f'<xs:element name="{name}"{occurs}>{body}</xs:element>', complex_values


@settings(max_examples=4)
@given(st.lists(xsd_elements("order", ROOT), min_size=6, max_size=6), STYLES, st.data())
def test_xml(cases: list[Case], style: str, data: st.DataObject) -> None:
    around = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}{}</xs:schema>'
    with built(
        [(around.format(XSD_TYPES, text), case_values) for text, case_values in cases], "XSD/1.1", style=style
    ) as built_cases:
        for module, values in built_cases:
            check(module, data.draw(values), "HTTP")
