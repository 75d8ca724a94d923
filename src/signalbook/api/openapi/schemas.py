"""Attributes of the model as JSON Schema (2020-12), as they are shown and as they may be sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from signalbook.model import Attribute, AttributeSet
from signalbook.values import JSON, JSONObject

ID_PATTERN: Final = "^[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,127}$"

_TEXT: Final[JSONObject] = {"type": "string"}
_SCALARS: Final[dict[str, JSONObject]] = {
    "boolean": {"type": "boolean"},
    "decimal": {"type": "number"},
    "integer": {"type": "integer"},
    "uinteger": {"type": "integer", "minimum": 0},
    "timestamp": {"type": "string", "format": "date-time"},
    "xid": {"type": "string", "pattern": "^/"},
    "xidtype": {"type": "string", "pattern": "^/"},
}
"""By the model's types; all others are text, whose rules are stricter than the formats of JSON Schema can say."""


def reference(name: str) -> JSONObject:
    """A schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def map_of(schema: JSONObject) -> JSONObject:
    """Entities by id."""
    return {"type": "object", "additionalProperties": schema}


def shown(attributes: AttributeSet, nested: Mapping[str, JSONObject], required: Iterable[str]) -> JSONObject:
    """An entity in a response. ``nested`` are the schemas of the entities in it, by attribute."""
    return {**_object(attributes, nested, written=False), "required": sorted(required)}


def written(attributes: AttributeSet, nested: Mapping[str, JSONObject]) -> JSONObject:
    """An entity in a request: null deletes an attribute, and values of read-only ones are ignored (R14)."""
    known = {name: _or_null(schema) for name, schema in nested.items()}
    return _object(attributes, {"$schema": {}, **known}, written=True)


def _object(attributes: AttributeSet, nested: Mapping[str, JSONObject], *, written: bool) -> JSONObject:
    properties, conditions = _properties(attributes, written=written)
    schema: JSONObject = {"type": "object", "properties": {**properties, **nested}}
    if conditions:
        schema["allOf"] = conditions
    rest = attributes.get("*")
    # Not additionalProperties: what the conditions bring is to be seen.
    schema["unevaluatedProperties"] = False if rest is None else _value(rest, written=written)
    return schema


def _properties(attributes: Mapping[str, Attribute], *, written: bool) -> tuple[JSONObject, list[JSONObject]]:
    properties, conditions = {}, []
    for name, attribute in attributes.items():
        if name != "*":
            properties[name] = _value(attribute, written=written)
        for value, branch in attribute.branches.items():
            conditions.append(_condition(attribute, value, branch, written=written))
    return properties, conditions


def _condition(attribute: Attribute, value: str, branch: Mapping[str, Attribute], *, written: bool) -> JSONObject:
    """What one value of an attribute brings with it (core/model.md "ifvalues")."""
    when = {"properties": {attribute.name: _equal(attribute, value)}, "required": [attribute.name]}
    properties, conditions = _properties(branch, written=written)
    then: JSONObject = {"properties": properties}
    if conditions:
        then["allOf"] = conditions
    if "*" in branch:
        then["additionalProperties"] = _value(branch["*"], written=written)
    return {"if": when, "then": then}


def _equal(attribute: Attribute, value: str) -> JSONObject:
    """Equal in any case (R88)."""
    if attribute.type == "boolean":
        return {"const": value == "true"}
    if attribute.type in ("integer", "uinteger", "decimal"):
        return {"enum": [_number(value)]}
    letters = (f"[{c.upper()}{c.lower()}]" if c.isascii() and c.isalpha() else re.escape(c) for c in value)
    return {"type": "string", "pattern": f"^{''.join(letters)}$"}


def _number(value: str) -> JSON:
    try:
        return int(value)
    except ValueError:
        return float(value)


def _value(attribute: Attribute, *, written: bool) -> JSONObject:
    schema = dict(_type(attribute, written=written))
    definition = attribute.definition
    if definition.get("enum") and definition.get("strict", True) and not attribute.caseless:
        schema["enum"] = list(definition["enum"])
    if written and (attribute.readonly or attribute.managed):
        schema = {}
    elif written and schema:
        schema = _or_null(schema)
    if attribute.readonly and not written:  # in a request it would be forbidden, and it is ignored
        schema["readOnly"] = True
    if definition.get("description"):
        schema["description"] = definition["description"]
    return schema


def _or_null(schema: JSONObject) -> JSONObject:
    return {"anyOf": [schema, {"type": "null"}]}


def _type(attribute: Attribute, *, written: bool) -> JSONObject:
    match attribute.type:
        case "any":
            return {}
        case "array":
            return {"type": "array", "items": _item(attribute, written=written)}
        case "map":
            return {"type": "object", "additionalProperties": _item(attribute, written=written)}
        case "object" if attribute.attributes is not None:
            return _object(attribute.attributes, {}, written=written)
        case kind:
            return _SCALARS.get(kind, _TEXT)


def _item(attribute: Attribute, *, written: bool) -> JSONObject:
    return _value(attribute.item, written=written) if attribute.item is not None else {}
