"""What many operations share: parameters, headers and answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from signalbook.api.openapi.schemas import ID_PATTERN, reference
from signalbook.errors import CATALOGUE
from signalbook.values import JSONObject

JSON: Final = "application/json"
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
LIMIT: Final[JSONObject] = {"description": "The most entities on a page.", "schema": {"type": "integer", "minimum": 1}}
IF_MATCH: Final = "If-Match"
IF_NONE_MATCH: Final = "If-None-Match"

_HEADERS: Final = {
    "ETag": "Changes whenever the answer does.",
    "Cache-Control": "Keep it, but ask again.",
    "Location": "Where the new entity is.",
    "Content-Location": "The Version that was created.",
    "Content-Disposition": "The id of the Resource.",
    "Link": "The root of the registry, rel=xregistry-root; of a page the next one, rel=next.",
}
_ERRORS: Final = {
    400: "The request is wrong; nothing has changed.",
    404: "There is no such entity or path.",
    406: "The answer would be too large.",
    412: "A condition of the request does not hold; nothing has changed.",
    503: "The server is busy; try again.",
}


def query(name: str, rule: JSONObject) -> JSONObject:
    """A query parameter."""
    return {"name": name, "in": "query", **rule}


def identifier(name: str) -> JSONObject:
    """A path parameter."""
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": ID_PATTERN}}


def condition(name: str) -> JSONObject:
    """A conditional header (RFC9110 13.1)."""
    return {"name": name, "in": "header", "description": "Entity tags, or *.", "schema": TEXT}


def answer(
    description: str, *headers: str, content: JSONObject | None = None, json: JSONObject | None = None
) -> JSONObject:
    """A successful answer; ``json`` is the schema of its body, ``content`` any other body."""
    body = {JSON: {"schema": json}} if json is not None else content
    result: JSONObject = {"description": description, "headers": {name: header(name) for name in ("Link", *headers)}}
    return result if body is None else {**result, "content": body}


def errors(*statuses: int) -> JSONObject:
    """Answers of failure, by status."""
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def header(name: str) -> JSONObject:
    """A header of the components."""
    return {"$ref": f"#/components/headers/{name}"}


def components(schemas: JSONObject, flags: Iterable[str]) -> JSONObject:
    """Everything that is referred to."""
    return {
        "schemas": {**schemas, "Error": _error()},
        "responses": {str(status): _failure(text) for status, text in _ERRORS.items()},
        "headers": {name: {"description": text, "schema": TEXT} for name, text in _HEADERS.items()},
        "parameters": {name: query(name, PARAMETERS[name]) for name in flags},
    }


def _failure(description: str) -> JSONObject:
    return {"description": description, "content": {JSON: {"schema": reference("Error")}}}


def _error() -> JSONObject:
    """core/http.md "Error Processing"; ``faults`` is an extension."""
    fault = {"type": "object", "required": ["path", "rule", "message"], "additionalProperties": TEXT}
    types = [row.type for row in CATALOGUE.values()]
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
