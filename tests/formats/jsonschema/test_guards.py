"""Guards accept nothing but what the schema accepts, and say the same in attributes."""

from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.formats.jsonschema.cases import EVENT, ODD, cases

from signalbook.formats import Anything, ListOf, MapOf, PayloadError, Shape, Struct
from signalbook.formats.jsonschema import FORMAT, JsonSchema
from signalbook.formats.jsonschema.document import _load_closed as documents_load
from signalbook.formats.jsonschema.guards import REFUSALS, guard
from signalbook.values import JSON, dump_json

VALIDATORS = {
    "JsonSchema/draft-07": jsonschema.Draft7Validator,
    "JsonSchema/draft/2020-12": jsonschema.Draft202012Validator,
}
FORMATS = st.sampled_from(sorted(VALIDATORS))


def accepts(schema: JsonSchema, payload: bytes) -> bool:
    try:
        schema.decode(payload)
    except PayloadError as error:
        return error.reason != "schema_violation"
    return True


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), FORMATS)
def test_accepts_what_two_validators_accept(case: tuple[dict[str, Any], Any], format: str) -> None:
    document, value = case
    schema = FORMAT.parse(dump_json(document), format)
    valid = not schema.validate(value)
    assert accepts(schema, dump_json(value)) == valid
    assert fast(schema, dump_json(value)) <= valid  # never accepts what the validator refuses
    if ascii(value) == repr(value) and "a\n" not in flat(value):  # Python's $, \\w and \\d are not those of ECMA-262
        assert VALIDATORS[format](document).is_valid(value) == valid


def guarded(schema: JsonSchema, payload: bytes) -> Any:
    """Return the result of the guard for a payload, or raise one of ``REFUSALS``."""
    check = guard(schema.document, schema.node)
    assert check is not None
    return check(payload)


def fast(schema: JsonSchema, payload: bytes) -> bool:
    try:
        guarded(schema, payload)
    except REFUSALS:
        return False
    return True


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *(item for member in value.values() for item in flat(member))]
    if isinstance(value, list):
        return [item for member in value for item in flat(member)]
    return [value]


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases())
def test_guarded_result_equals_the_declared_values(case: tuple[dict[str, Any], Any]) -> None:
    document, value = case
    schema = FORMAT.parse(dump_json(document), "JsonSchema/draft-07")
    if fast(schema, dump_json(value)):
        assert plain(guarded(schema, dump_json(value)), schema.shape()) == declared(value, schema.shape())


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
    expected = {"string": "str", "float64": "float", "bool": "bool"}.get(shape.sent or shape.kind, "int")
    assert type(value).__name__ == expected
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


def test_attributes_follow_the_shape() -> None:
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    decoded = guarded(schema, b'{"n": 1, "x-y": null, "any": {"a": [1.50]}, "surplus": 1}')
    shape = schema.shape()
    assert isinstance(shape, Struct)
    n, text, anything, on = (getattr(decoded, field.attribute) for field in shape.fields)
    assert (n, text, bytes(anything), on) == (1, None, b'{"a": [1.50]}', msgspec.UNSET)


@pytest.mark.parametrize(("payload", "accepted"), ODD)
def test_odd_payloads(payload: bytes, accepted: bool) -> None:
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    try:
        schema.decode(payload)
    except PayloadError:
        assert not accepted
    else:
        assert accepted


def test_takes_raw_json() -> None:
    """Members of an envelope need no copy."""
    schema = FORMAT.parse(dump_json(EVENT), "JsonSchema/draft-07")
    check = guard(schema.document, schema.node)
    assert check is not None
    assert check(msgspec.Raw(b'{"n":1}')).n == 1


def test_patterns_next_to_containers_use_the_validator() -> None:
    """A msgspec union of them breaks reference counts and crashes the interpreter some thousand decoders later."""
    choices = [{"type": "object"}, {"type": "array"}, {"type": "string", "pattern": "^[a-z]+$"}]
    schema = dump_json({"type": "object", "properties": {"a": {"anyOf": choices}}})
    for _ in range(200):
        documents_load.cache_clear()
        assert fast(FORMAT.parse(schema, "JsonSchema/draft-07"), b'{"a":"abc"}')
    assert not fast(FORMAT.parse(schema, "JsonSchema/draft-07"), b'{"a":"ABC"}')


def test_recursive_schemas_are_decoded() -> None:
    kids = {"kids": {"type": "array", "items": {"$ref": "#"}}}
    tree = {"type": "object", "properties": kids, "additionalProperties": False}
    schema = FORMAT.parse(dump_json(tree), "JsonSchema/draft-07")
    assert fast(schema, b'{"kids":[{"kids":[{},{}]}]}')
    assert not fast(schema, b'{"kids":[{"kids":[{"kid":1}]}]}')
