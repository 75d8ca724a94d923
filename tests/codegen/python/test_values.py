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
    """A JSON Schema, with values that conform to it."""
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
    others = [draw(json_objects(depth - 1)) for _ in range(2)]
    return {"anyOf": [schema, *(each for each, _ in others)]}, st.one_of(values, *(each for _, each in others))


@st.composite
def json_objects(draw: st.DrawFn, depth: int) -> Case:
    """Of objects, open and closed ones, with members that may be absent."""
    members = {name: draw(json_cases(depth)) for name in draw(st.lists(NAMES, unique=True, max_size=4))}
    required = [name for name in members if draw(st.booleans())]
    schema: dict[str, Any] = {
        "type": "object", "properties": {name: each for name, (each, _) in members.items()}, "required": required,
    }  # fmt: skip
    extra = draw(st.sampled_from([None, False, {"type": "integer"}]))
    if extra is not None:
        schema["additionalProperties"] = extra
    known = st.fixed_dictionaries(
        {name: values for name, (_, values) in members.items() if name in required},
        optional={name: values for name, (_, values) in members.items() if name not in required},
    )
    if isinstance(extra, dict):
        more = st.dictionaries(st.sampled_from(["other", "z-z"]), st.integers(0, 9), max_size=2)
        known = st.builds(lambda rest, own: {**rest, **own}, more, known)
    return schema, known


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


@st.composite
def avro_cases(draw: st.DrawFn, depth: int = 2, path: str = "R") -> Case:
    """An Avro record, with values."""
    names = draw(
        st.lists(
            st.sampled_from(["a", "class_", "None", "str", "model_x", "copy", "R", "self"]), unique=True, min_size=1
        )
    )
    fields: list[dict[str, Any]] = []
    values = {}
    for index, name in enumerate(names):
        kind = draw(st.sampled_from(["leaf", "record", "list", "map", "enum"]))
        schema, inner = draw(
            avro_cases(depth - 1, f"{path}{index}") if depth and kind != "leaf" else st.sampled_from(AVRO_LEAVES)
        )
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
        found = generated(Path(name), {"messagegroups": {"g": {"messages": messages}}}, **options)
        assert found.left_out == {}
        with imported(Path(name)) as modules:
            yield [(modules[f"/messagegroups/g/messages/m{i}"], values) for i, (_, values) in enumerate(cases)]


def check(module: ModuleType, value: Any, protocol: str) -> None:
    payload = module.MESSAGE.typed_of(value)
    assert to_data(payload) == value
    read = module.parse(
        bind(module.build(payload, shop="7"), {"protocol": protocol, "protocoloptions": {"topic": "t"}})
    )
    assert read.payload == payload
    assert read.data == value


@settings(max_examples=4)
@given(st.lists(json_cases(), min_size=6, max_size=6), st.sampled_from(["dataclass", "msgspec", "pydantic"]), st.data())
def test_json_schema(cases: list[Case], style: str, data: st.DataObject) -> None:
    with built(cases, "JsonSchema/draft/2020-12", style=style) as found:
        for module, values in found:
            for protocol in ("KAFKA", "HTTP"):
                check(module, data.draw(values), protocol)


@settings(max_examples=4)
@given(st.lists(avro_cases(), min_size=6, max_size=6), st.sampled_from(["dataclass", "msgspec", "pydantic"]), st.data())
def test_avro(cases: list[Case], style: str, data: st.DataObject) -> None:
    with built(cases, "Avro/1.11", style=style) as found:
        for module, values in found:
            check(module, data.draw(values), "KAFKA")
