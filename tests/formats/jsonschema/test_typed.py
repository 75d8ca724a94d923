"""The typed decoder accepts exactly what the schema accepts, and says the same in attributes."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.jsonschema.cases import cases

from signalbook.formats import Anything, ListOf, MapOf, PayloadError, Shape, Struct
from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.formats.jsonschema.document import _load_closed as documents_load
from signalbook.values import JSON, dump_json

VALIDATORS = {
    "JsonSchema/draft-07": jsonschema.Draft7Validator,
    "JsonSchema/draft/2020-12": jsonschema.Draft202012Validator,
}
FORMATS = st.sampled_from(sorted(VALIDATORS))


def accepts(schema: JsonSchema, payload: bytes) -> bool:
    try:
        schema.typed().decode(payload)
    except PayloadError as error:
        return error.reason != "schema_violation"
    return True


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), FORMATS)
def test_accepts_what_two_validators_accept(case: tuple[dict[str, Any], Any], format: str) -> None:
    document, value = case
    schema = FORMAT.parse(dump_json(document), format)
    valid = not schema.validate(value)
    assert accepts(schema, dump_json(value)) == valid
    assert fast(schema, dump_json(value)) <= valid  # never accepts what the validator refuses
    if ascii(value) == repr(value) and "a\n" not in flat(value):  # Python's $, \\w and \\d are not those of ECMA-262
        assert VALIDATORS[format](document).is_valid(value) == valid


def fast(schema: JsonSchema, payload: bytes) -> bool:
    try:
        schema.typed().quick(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *(item for member in value.values() for item in flat(member))]
    if isinstance(value, list):
        return [item for member in value for item in flat(member)]
    return [value]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases())
def test_says_what_the_payload_says(case: tuple[dict[str, Any], Any]) -> None:
    document, value = case
    schema = FORMAT.parse(dump_json(document), "JsonSchema/draft-07")
    if not schema.validate(value):
        typed = schema.typed().decode(dump_json(value))
        assert plain(typed, schema.shape()) == declared(value, schema.shape())


def plain(value: Any, shape: Shape) -> Any:
    """A typed object as the JSON it came from."""
    if isinstance(shape, Anything):
        return msgspec.json.decode(value)
    if value is None:
        assert shape.nullable
        return None
    if isinstance(shape, Struct):
        members = [(field, getattr(value, field.attribute)) for field in shape.fields]
        assert all(member is not msgspec.UNSET for field, member in members if field.required)
        return {field.name: plain(member, field.shape) for field, member in members if member is not msgspec.UNSET}
    if isinstance(shape, ListOf):
        return [plain(item, shape.item) for item in value]
    if isinstance(shape, MapOf):
        return {name: plain(item, shape.value) for name, item in value.items()}
    assert type(value).__name__ == {"string": "str", "float64": "float", "bool": "bool"}.get(shape.kind, "int")
    return value


def declared(value: Any, shape: Shape) -> JSON:
    """``value`` without the members that its shape does not know, numbers as a column has them."""
    if isinstance(shape, Struct) and isinstance(value, dict):
        fields = [field for field in shape.fields if field.name in value]
        return {field.name: declared(value[field.name], field.shape) for field in fields}
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [declared(item, shape.item) for item in value]
    if isinstance(shape, MapOf) and isinstance(value, dict):
        return {name: declared(item, shape.value) for name, item in value.items()}
    if getattr(shape, "kind", "") == "float64" and isinstance(value, int):
        return float(value)
    return value


EVENT = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "x-y": {"type": ["string", "null"]}, "any": {}, "on": {"const": True}},
    "required": ["n"],
}


def test_attributes_follow_the_shape() -> None:
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    found = schema.typed().decode(b'{"n": 1, "x-y": null, "any": {"a": [1.50]}, "surplus": 1}')
    shape = schema.shape()
    assert isinstance(shape, Struct)
    n, text, anything, on = (getattr(found, field.attribute) for field in shape.fields)
    assert (n, text, bytes(anything), on) == (1, None, b'{"a": [1.50]}', msgspec.UNSET)


@pytest.mark.parametrize(
    ("payload", "accepted"),
    [
        (b'{"n": 1.0}', True),  # 1.0 is an integer
        (b'{"n": 1e2}', True),
        (b'{"n": "x", "n": 1}', True),  # of a member given twice the last one counts
        (b'{"n": 1, "n": "x"}', False),
        (b'{"n": true}', False),
        (b'{"n": 1, "on": 1}', False),
        (b'{"n": 1, "on": true}', True),
        (b'{"n": 1180591620717411303424}', True),
        (b'{"n": 1, "surplus": "\xff"}', False),  # not UTF-8, though nobody looks at it
        (b'{"n": 1, "any": "\xff"}', False),
        (b'{"n": 1, "any": "\\ud800"}', False),
        (b'{"n": 1, "surplus": [1,]}', False),
        (b'{"n": 1, "surplus": 1e400}', False),  # beyond a double, though nobody looks at it
        (b'{"n": 1, "any": [-1E+00309]}', False),
        (b'{"n": 1, "any": ' + b"9" * 240 + b"e99}", False),
        (b'{"n": 1, "any": ' + b"9" * 400 + b".0}", False),
        (b'{"n": 1, "any": "1e400", "surplus": 1e308}', True),
        (b'{"n": 1', False),
        (b'{"n": 1} ', True),
        (b'{"n": 1} 2', False),
        (b"", False),
        (b'{"n": 1, "surplus": ' + b"[" * 100_000, False),
    ],
)
def test_odd_payloads(payload: bytes, accepted: bool) -> None:
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    for decode in (schema.decode, schema.typed().decode):
        try:
            decode(payload)
        except PayloadError:
            assert not accepted
        else:
            assert accepted


def test_takes_raw_json() -> None:
    """Members of an envelope need no copy."""
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    assert schema.typed().decode(msgspec.Raw(b'{"n":1}')).n == 1
    assert schema.typed().decode(msgspec.Raw(b'{"n":1.0}')).n == 1


@pytest.mark.parametrize(
    ("schema", "engine"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "typed"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "mixed"),
        ({"type": "object", "properties": {"a": {"not": {"type": "string"}}}}, "mixed"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1}, "checked"),
        ({"type": "array", "uniqueItems": True}, "checked"),
    ],
)
def test_the_fastest_exact_engine_is_chosen(schema: Any, engine: str) -> None:
    assert FORMAT.parse(dump_json(schema), "JsonSchema/draft-07").typed().engine == engine


def test_patterns_beside_containers_are_left_to_the_validator() -> None:
    """A msgspec union of them breaks reference counts and crashes the interpreter some thousand decoders later."""
    choices = [{"type": "object"}, {"type": "array"}, {"type": "string", "pattern": "^[a-z]+$"}]
    schema = dump_json({"type": "object", "properties": {"a": {"anyOf": choices}}})
    for _ in range(200):
        documents_load.cache_clear()
        assert accepts(FORMAT.parse(schema, "JsonSchema/draft-07"), b'{"a":"abc"}')
    assert not accepts(FORMAT.parse(schema, "JsonSchema/draft-07"), b'{"a":"ABC"}')


def test_recursive_schemas_are_decoded() -> None:
    tree = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    schema = FORMAT.parse(dump_json(tree), "JsonSchema/draft-07")
    assert accepts(schema, b'{"kids":[{"kids":[{},{}]}]}')
    assert not accepts(schema, b'{"kids":[{"kids":[{"kid":1}]}]}')
