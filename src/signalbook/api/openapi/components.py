"""The components that operations refer to: the model's attributes as JSON Schema (2020-12), parameters, headers,
responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from signalbook.api.kernel.errors import PROBLEM_TYPE
from signalbook.errors import CATALOGUE, EXTENSIONS
from signalbook.model import Attribute, AttributeSet
from signalbook.values import JSON, JSONObject

ID_PATTERN: Final = "^[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,127}$"

_TEXT_SCHEMA: Final[JSONObject] = {"type": "string"}
_SCALARS: Final[dict[str, JSONObject]] = {
    "boolean": {"type": "boolean"},
    "decimal": {"type": "number"},
    "integer": {"type": "integer"},
    "uinteger": {"type": "integer", "minimum": 0},
    "timestamp": {"type": "string", "format": "date-time"},
    "xid": {"type": "string", "pattern": "^/"},
    "xidtype": {"type": "string", "pattern": "^/"},
}
"""JSON Schemas by the model's types. All other types are texts with rules that JSON Schema's formats cannot express."""
JSON_BODY: Final = "application/json"
TEXT: Final[JSONObject] = {"type": "string"}
_FLAG: Final[JSONObject] = {"type": "string", "maxLength": 0}
_LIST: Final[JSONObject] = {"type": "array", "items": TEXT}
PARAMETERS: Final[dict[str, JSONObject]] = {
    "binary": {"description": "Show inlined documents as base64.", "schema": _FLAG},
    "collections": {"description": "Show nothing but the nested collections, with all beneath them.", "schema": _FLAG},
    "doc": {"description": "Document view: nothing twice, URLs relative to the response.", "schema": _FLAG},
    "epoch": {"description": "Delete only if this is the entity's epoch.", "schema": {"type": "integer", "minimum": 0}},
    "filter": {"description": "Show only what matches: PATH=VALUE, comma for and, repeated for or.", "schema": _LIST},
    "ignore": {"description": "What to ignore in the body.", "schema": _LIST},
    "inline": {"description": "What to show beneath the entity: paths of names, * for all.", "schema": _LIST},
    "setdefaultversionid": {"description": "The Version that becomes the default one.", "schema": TEXT},
    "sort": {"description": "Attribute to sort by, with =desc for descending order.", "schema": TEXT},
    "specversion": {"description": "The version of the specification asked for.", "schema": TEXT},
}
"""The flags of the specification that may be switched on (core/spec.md "Request Flags")."""
CURSOR: Final[JSONObject] = {"description": "From the link to the next page.", "schema": TEXT}
LIMIT: Final[JSONObject] = {"description": "The most entities on a page.", "schema": {"type": "integer", "minimum": 1}}
IF_MATCH: Final = "If-Match"
IF_NONE_MATCH: Final = "If-None-Match"
_HEADER_TEXTS: Final = {
    "ETag": "Changes whenever the response does.",
    "Cache-Control": "Keep it, but ask again.",
    "Location": "Where the new entity is.",
    "Content-Location": "The Version that was created.",
    "Content-Disposition": "The id of the Resource.",
    "Link": "The root of the registry, rel=xregistry-root; of a page others, rel=next, prev, first and last.",
}
_REFUSED: Final = (401, 403)
_ERRORS: Final = {
    400: "The request is wrong; nothing has changed.",
    401: "Credentials are needed, or those that were sent prove nothing.",
    403: "It may not be done, by whoever asks or at all.",
    404: "There is no such entity or path.",
    405: "The path does not take the method, or the registry takes no writes.",
    406: "The response would be too large.",
    409: "It contradicts what is there; nothing has changed.",
    410: "What comes next is kept no longer.",
    412: "A condition of the request does not hold; nothing has changed.",
    415: "A body of this media type is not understood.",
    503: "The server is busy; try again.",
}


def reference(name: str) -> JSONObject:
    """Return a reference to a schema of the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def array_of(schema: JSONObject) -> JSONObject:
    """Return the schema of an array whose items have ``schema``."""
    return {"type": "array", "items": schema}


def object_of(properties: JSONObject, *required: str) -> JSONObject:
    """Return the schema of an object with ``properties``, of which those in ``required`` are always present."""
    return {"type": "object", "properties": properties, "required": list(required)}


def complete_object(properties: JSONObject) -> JSONObject:
    """Return the schema of an object that always has all ``properties``."""
    return object_of(properties, *properties)


def map_of(schema: JSONObject) -> JSONObject:
    """Return the schema of a map of entities by id."""
    return {"type": "object", "additionalProperties": schema}


def build_response_schema(
    attributes: AttributeSet, nested: Mapping[str, JSONObject], required: Iterable[str]
) -> JSONObject:
    """Return the schema of an entity in a response. ``nested`` are the schemas of the entities in it, by attribute."""
    return {**_build_attributes_schema(attributes, nested, written=False), "required": sorted(required)}


def build_request_schema(attributes: AttributeSet, nested: Mapping[str, JSONObject]) -> JSONObject:
    """Return the schema of an entity in a request: null deletes an attribute, and values of read-only attributes are
    ignored (R14)."""
    nullable = {name: _allow_null(schema) for name, schema in nested.items()}
    return _build_attributes_schema(attributes, {"$schema": {}, **nullable}, written=True)


def _build_attributes_schema(
    attributes: AttributeSet, nested: Mapping[str, JSONObject], *, written: bool
) -> JSONObject:
    properties, conditions = _build_properties(attributes, written=written)
    schema: JSONObject = {"type": "object", "properties": {**properties, **nested}}
    if conditions:
        schema["allOf"] = conditions
    wildcard = attributes.get("*")
    # Do not use additionalProperties here, because the attributes that conditions add must be allowed.
    schema["unevaluatedProperties"] = False if wildcard is None else _build_value_schema(wildcard, written=written)
    return schema


def _build_properties(attributes: Mapping[str, Attribute], *, written: bool) -> tuple[JSONObject, list[JSONObject]]:
    properties, conditions = {}, []
    for name, attribute in attributes.items():
        if name != "*":
            properties[name] = _build_value_schema(attribute, written=written)
        for value, branch in attribute.branches.items():
            conditions.append(_build_condition(attribute, value, branch, written=written))
    return properties, conditions


def _build_condition(attribute: Attribute, value: str, branch: Mapping[str, Attribute], *, written: bool) -> JSONObject:
    """Return the condition for one value of an attribute (core/model.md "ifvalues")."""
    when = {"properties": {attribute.name: _build_equality(attribute, value)}, "required": [attribute.name]}
    properties, conditions = _build_properties(branch, written=written)
    then: JSONObject = {"properties": properties}
    if conditions:
        then["allOf"] = conditions
    if "*" in branch:
        then["additionalProperties"] = _build_value_schema(branch["*"], written=written)
    return {"if": when, "then": then}


def _build_equality(attribute: Attribute, value: str) -> JSONObject:
    """Return a schema for a text that equals the value, ignoring case (R88)."""
    if attribute.type == "boolean":
        return {"const": value == "true"}
    if attribute.type in ("integer", "uinteger", "decimal"):
        return {"enum": [_convert_number(value)]}
    return {"type": "string", "pattern": f"^{_build_case_pattern(value)}$"}


def _build_case_pattern(text: str) -> str:
    # JSON Schema's patterns have no flag that ignores case.
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isascii() and c.isalpha() else _escape_character(c) for c in text)


def _escape_character(character: str) -> str:
    # Do not use re.escape, because it escapes characters such as - for which ECMA-262 has no escape.
    return f"\\{character}" if character in r"\^$.|?*+()[]{}/" else character


def _build_enum(values: Sequence[JSON]) -> JSONObject:
    """Return the schema of an enum. Strings match in any case, because the registry compares them so."""
    if not all(isinstance(value, str) for value in values):
        return {"enum": list(values)}
    return {"pattern": f"^({'|'.join(map(_build_case_pattern, values))})$", "examples": list(values)}


def _convert_number(value: str) -> JSON:
    try:
        return int(value)
    except ValueError:
        return float(value)


def _build_value_schema(attribute: Attribute, *, written: bool) -> JSONObject:
    schema = dict(_build_type_schema(attribute, written=written))
    definition = attribute.definition
    if attribute.scalar and definition.get("enum") and definition.get("strict", True):
        schema |= _build_enum(definition["enum"])
    if written and (attribute.readonly or attribute.managed):
        schema = {}
    elif written and schema:
        schema = _allow_null(schema)
    if attribute.readonly and not written:  # in a request, readOnly would forbid the attribute, but it is only ignored
        schema["readOnly"] = True
    if definition.get("description"):
        schema["description"] = definition["description"]
    return schema


def _allow_null(schema: JSONObject) -> JSONObject:
    return {"anyOf": [schema, {"type": "null"}]}


def _build_type_schema(attribute: Attribute, *, written: bool) -> JSONObject:
    match attribute.type:
        case "any":
            return {}
        case "array":
            return {"type": "array", "items": _build_item_schema(attribute, written=written)}
        case "map":
            return {"type": "object", "additionalProperties": _build_item_schema(attribute, written=written)}
        case "object" if attribute.attributes is not None:
            return _build_attributes_schema(attribute.attributes, {}, written=written)
        case kind:
            return _SCALARS.get(kind, _TEXT_SCHEMA)


def _build_item_schema(attribute: Attribute, *, written: bool) -> JSONObject:
    return _build_value_schema(attribute.item, written=written) if attribute.item is not None else {}


def query(name: str, rule: JSONObject) -> JSONObject:
    """Return a query parameter."""
    return {"name": name, "in": "query", **rule}


def identifier(name: str) -> JSONObject:
    """Return a path parameter."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": ID_PATTERN}}


def condition(name: str) -> JSONObject:
    """Return the parameter for a conditional header (RFC9110 13.1)."""
    return {"name": name, "in": "header", "description": "Entity tags, or *.", "schema": TEXT}


def response(
    description: str, *headers: str, content: JSONObject | None = None, json: JSONObject | None = None
) -> JSONObject:
    """Return a successful response. ``json`` is the schema of its body, ``content`` any other body."""
    body = {JSON_BODY: {"schema": json}} if json is not None else content
    result: JSONObject = {"description": description, "headers": {name: header(name) for name in ("Link", *headers)}}
    return result if body is None else {**result, "content": body}


def ok_response(description: str, schema: JSONObject) -> JSONObject:
    """Return the response 200 whose JSON body has ``schema``."""
    return {"200": response(description, json=schema)}


def operation(tag: str, id: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
    """Return an operation with the error responses ``failures`` and 503. ``more`` are its other members."""
    return {"operationId": id, "tags": [tag], **more, "responses": {**responses, **error_responses(*failures, 503)}}


def error_responses(*statuses: int) -> JSONObject:
    """Return error responses by status. The responses for refused access are always included."""
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in (*statuses, *_REFUSED)}


def problem_responses(*statuses: int) -> JSONObject:
    """Return error responses as problem documents (RFC9457), for APIs that do not use xRegistry's errors."""
    return {str(status): {"$ref": f"#/components/responses/{status}.problem"} for status in (*statuses, *_REFUSED)}


def header(name: str) -> JSONObject:
    """Return a reference to a header of the components."""
    return {"$ref": f"#/components/headers/{name}"}


def components(schemas: JSONObject, flags: Iterable[str]) -> JSONObject:
    """Return all referenced components."""
    failures = {str(status): _build_error_response(text, JSON_BODY, "Error") for status, text in _ERRORS.items()}
    problems = {
        f"{status}.problem": _build_error_response(text, PROBLEM_TYPE, "Problem") for status, text in _ERRORS.items()
    }
    return {
        "schemas": {**schemas, "Error": _build_error_schema(), "Problem": _build_problem_schema()},
        "responses": failures | problems,
        "headers": {name: {"description": text, "schema": TEXT} for name, text in _HEADER_TEXTS.items()},
        "parameters": {name: query(name, PARAMETERS[name]) for name in flags},
    }


def _build_error_response(description: str, media: str, schema: str) -> JSONObject:
    return {"description": description, "content": {media: {"schema": reference(schema)}}}


def _build_problem_schema() -> JSONObject:
    members = {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT, "instance": TEXT}
    return {"type": "object", "required": ["type", "title"], "properties": members}


def _build_error_schema() -> JSONObject:
    """Return the schema of an error (core/http.md "Error Processing"). ``faults`` is an extension."""
    fault = {"type": "object", "required": ["path", "rule", "message"], "additionalProperties": TEXT}
    types = [row.type for row in (*CATALOGUE.values(), *EXTENSIONS.values())]
    return {
        "type": "object",
        "required": ["type", "title"],
        "properties": {
            "type": {"type": "string", "enum": [*types, "about:blank"]},
            "title": {"type": "string", "minLength": 1},
            "detail": TEXT,
            "subject": TEXT,
            "args": {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
            "instance": TEXT,
            "source": TEXT,
            "faults": {"type": "array", "items": fault, "minItems": 1},
        },
    }
