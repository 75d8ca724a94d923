"""The paths of API tokens, and of where other tokens come from."""

from __future__ import annotations

from typing import Final

from signalbook.access.base import ACTIONS
from signalbook.access.tokens import MAX_GROUPS, MAX_TEXT
from signalbook.api.openapi.components import (
    JSON_BODY,
    LIMIT,
    TEXT,
    error_responses,
    identifier,
    query,
    reference,
    response,
)
from signalbook.values import JSONObject

_TAG: Final = "access"
_TOKEN, _MADE, _WANTED, _METADATA = "Token", "Token.made", "Token.wanted", "ResourceMetadata"
_NAME: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_NAMES: Final[JSONObject] = {"type": "array", "items": _NAME, "maxItems": MAX_GROUPS}
_SCOPES: Final[JSONObject] = {
    "type": ["array", "null"],
    "minItems": 1,
    "items": {"type": "string", "enum": list(ACTIONS)},
}
_TIME: Final[JSONObject] = {"type": ["string", "null"], "format": "date-time"}
_CURSOR: Final[JSONObject] = {"description": "From the link to the next page.", "schema": TEXT}
_SHOWN: Final[JSONObject] = {
    "id": TEXT,
    "subject": _NAME,
    "groups": _NAMES,
    "scopes": _SCOPES,
    "note": {"type": "string"},
    "created": TEXT,
    "expires": _TIME,
    "used": _TIME,
    "expired": {"type": "boolean"},
}


def token_paths() -> JSONObject:
    """``/access/tokens``, and the metadata of RFC 9728; OPTIONS and HEAD go without saying."""
    body = {"required": True, "content": {JSON_BODY: {"schema": reference(_WANTED)}}}
    listed = {"200": response("A page of them.", json={"type": "array", "items": reference(_TOKEN)})}
    made = {"201": response("With the token itself.", "Location", json=reference(_MADE))}
    shown = {"200": response("One of them.", json=reference(_TOKEN))}
    known = {"200": response("Whose tokens are taken here.", json=reference(_METADATA))}
    pages = [query("limit", LIMIT), query("cursor", _CURSOR)]
    return {
        "/access/tokens": {
            "get": _operation("getTokens", listed, 400, parameters=pages),
            "post": _operation("addToken", made, 400, requestBody=body),
        },
        "/access/tokens/{id}": {
            "parameters": [identifier("id")],
            "get": _operation("getToken", shown, 404),
            "delete": _operation("revokeToken", {"204": response("Revoked.")}, 404),
        },
        "/.well-known/oauth-protected-resource": {"get": _operation("getResourceMetadata", known, 404)},
    }


def token_schemas() -> JSONObject:
    """What the paths refer to."""
    wanted = {"subject": _NAME, "groups": _NAMES, "scopes": _SCOPES, "expires": _TIME, "note": {"type": "string"}}
    return {
        _TOKEN: _object(_SHOWN, *_SHOWN),
        _MADE: _object({**_SHOWN, "token": TEXT}, *_SHOWN, "token"),
        _WANTED: {**_object(wanted, "subject"), "additionalProperties": False},
        _METADATA: _object({"resource": TEXT, "authorization_servers": {"type": "array", "items": TEXT}}, "resource"),
    }


def _operation(id: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
    return {"operationId": id, "tags": [_TAG], **more, "responses": {**responses, **error_responses(*failures, 503)}}


def _object(properties: JSONObject, *required: str) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}
