"""The paths of the access policy, API tokens and the audit log. They do not depend on the model."""

from __future__ import annotations

from typing import Final

from signalbook.access.audit import DONE, REFUSED
from signalbook.access.base import ACTIONS, ROLES
from signalbook.access.tokens import MAX_GROUPS, MAX_TEXT
from signalbook.api.openapi.components import (
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    TEXT,
    condition,
    error_responses,
    identifier,
    query,
    reference,
    response,
)
from signalbook.values import JSONObject

_TAG: Final = "access"
_POLICY, _RULE, _EXPLANATION, _CALLER = "Access.Policy", "Access.Rule", "Access.Explanation", "Access.Caller"
_IN_FORCE: Final = "Access.Policy.inforce"
_ENTRY: Final = "Audit.Entry"
_AUDITED: Final = response("Entries, the newest first.", "Link", json={"type": "array", "items": reference(_ENTRY)})
_XID: Final = query("xid", {"description": "The xid of an entity or collection.", "schema": TEXT})
_TOKEN, _MADE, _WANTED, _METADATA = "Token", "Token.made", "Token.wanted", "ResourceMetadata"
_NAME_SCHEMA: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_NAME_LIST: Final[JSONObject] = {"type": "array", "items": _NAME_SCHEMA, "maxItems": MAX_GROUPS}
_SCOPES: Final[JSONObject] = {
    "type": ["array", "null"],
    "minItems": 1,
    "items": {"type": "string", "enum": list(ACTIONS)},
}
_TIME: Final[JSONObject] = {"type": ["string", "null"], "format": "date-time"}
_CURSOR: Final[JSONObject] = {"description": "From the link to the next page.", "schema": TEXT}
_TOKEN_MEMBERS: Final[JSONObject] = {
    "id": TEXT,
    "subject": _NAME_SCHEMA,
    "groups": _NAME_LIST,
    "scopes": _SCOPES,
    "note": {"type": "string"},
    "created": TEXT,
    "expires": _TIME,
    "used": _TIME,
    "expired": {"type": "boolean"},
}

_SUBJECT: Final = query("subject", {"description": "Whose sessions are to end.", "required": True, "schema": TEXT})


def access_paths() -> JSONObject:
    """Return ``/access``, the paths below it, ``/audit``, and the metadata of a protected resource (RFC 9728).

    OPTIONS and HEAD are left out.
    """
    policy = reference(_POLICY)
    body = {"required": True, "content": {JSON_BODY: {"schema": policy}}}
    in_force = {
        "200": response("It is in force.", "ETag", json=reference(_IN_FORCE)),
        "201": response("The first one is in force.", "ETag", json=reference(_IN_FORCE)),
    }
    parameters = [
        query("who", {"description": "Principals, with commas between them.", "required": True, "schema": TEXT}),
        query("what", {"required": True, "schema": {"type": "string", "enum": list(ACTIONS)}}),
        _XID,
    ]
    conditions = [condition(name) for name in (IF_MATCH, IF_NONE_MATCH)]
    return {
        "/access": {
            "get": _build_operation("getAccess", {"200": response("The policy.", "ETag", json=policy)}, 404),
            "put": _build_operation("putAccess", in_force, 400, 409, 412, parameters=conditions, requestBody=body),
        },
        "/access/explain": {
            "get": _build_operation(
                "explainAccess", _build_ok_response("Whether, and why.", _EXPLANATION), 400, 404, parameters=parameters
            )
        },
        "/access/self": {
            "get": _build_operation(
                "getAccessOfCaller", _build_ok_response("Who asks.", _CALLER), 400, parameters=[_XID]
            )
        },
        "/access/sessions": {
            "delete": _build_operation("endSessions", _build_ended_response(), 400, parameters=[_SUBJECT])
        },
        "/audit": {"get": _build_operation("getAudit", {"200": _AUDITED}, 400, parameters=_audit_parameters())},
        **_build_token_paths(),
    }


def access_schemas() -> JSONObject:
    """Return the schemas of the paths."""
    texts: JSONObject = {"type": "array", "items": {"type": "string"}}
    actions: JSONObject = {"type": "array", "items": {"type": "string", "enum": list(ACTIONS)}}
    some, rules = {"minItems": 1, "maxItems": 1000}, {"type": "array", "items": reference(_RULE)}
    rule: JSONObject = {
        "who": {**texts, **some},
        "role": {"type": "string", "enum": list(ROLES)},
        "allow": {**actions, **some},
        "deny": {**actions, **some},
        "on": {**texts, **some},
        "description": {"type": "string", "maxLength": 512},
    }
    explained: JSONObject = {"allowed": {"type": "boolean"}, "reason": TEXT, "missing": actions}
    explained |= {"who": TEXT, "what": TEXT, "xid": TEXT}
    numbered = {"type": "object", "properties": {"rule": {"type": "integer", "minimum": 0}}, "required": ["rule"]}
    rules_shown: JSONObject = {"type": "array", "items": numbered}
    explained |= {"allowing": rules_shown, "denying": rules_shown}
    caller: JSONObject = {"name": TEXT, "authenticated": {"type": "boolean"}, "restricted": {"type": "boolean"}}
    caller |= {"policy": {"type": "integer", "minimum": 0}, "hidden": {"type": "boolean"}}
    caller |= {"groups": texts, "xid": TEXT, "may": actions, "somewhere": actions}
    beside: JSONObject = {"subject": TEXT, "issuer": TEXT, "token": TEXT, "scopes": texts}
    one_of = [{"required": [name]} for name in ("role", "allow", "deny")]
    return {
        _RULE: {
            "type": "object",
            "properties": rule,
            "required": ["who"],
            "additionalProperties": False,
            "oneOf": one_of,
        },
        _POLICY: {
            "type": "object",
            "properties": {"rules": rules},
            "required": ["rules"],
            "additionalProperties": False,
        },
        _IN_FORCE: _build_object_schema({"rules": rules, "warnings": texts}, "rules"),
        _ENTRY: _build_entry_schema(),
        _EXPLANATION: _build_object_schema(explained, *explained),
        _CALLER: _build_object_schema({**caller, **beside}, *caller),
        **_build_token_schemas(),
    }


def _build_ended_response() -> JSONObject:
    schema = _build_object_schema({"subject": TEXT, "ended": {"type": "integer", "minimum": 0}}, "subject", "ended")
    return {"200": response("How many sessions there were.", json=schema)}


def _audit_parameters() -> list[JSONObject]:
    time: JSONObject = {"type": "string", "format": "date-time"}
    number: JSONObject = {"type": "integer", "minimum": 1}
    return [
        query("who", {"description": "The name of who did it, in full.", "schema": TEXT}),
        query("action", {"description": "What was done, such as update.", "schema": TEXT}),
        query("outcome", {"schema": {"type": "string", "enum": [DONE, REFUSED]}}),
        query("xid", {"description": "What one of the xids begins with.", "schema": TEXT}),
        query("from", {"description": "The earliest time.", "schema": time}),
        query("to", {"description": "The first time that is too late.", "schema": time}),
        query("after", {"description": "Only entries with higher numbers.", "schema": number}),
        query("limit", {"description": "The most entries on a page.", "schema": number}),
        query("cursor", {"description": "From the link to the next page.", "schema": number}),
    ]


def _build_entry_schema() -> JSONObject:
    """Return the schema of an audit entry. Members other than the required ones are present if they are known."""
    texts: JSONObject = {"type": "array", "items": {"type": "string"}}
    count: JSONObject = {"type": "integer", "minimum": 1}
    always: JSONObject = {
        "number": count,
        "time": {"type": "string", "format": "date-time"},
        "who": TEXT,
        "action": TEXT,
        "outcome": {"type": "string", "enum": [DONE, REFUSED]},
        "xids": texts,
    }
    caller = ("subject", "token", "issuer", "session", "peer", "forwarded", "api", "method")
    words = ("correlationid", *caller, "error", "about", "file")
    optional: JSONObject = {**dict.fromkeys(words, TEXT), "more": count, "count": count}
    return _build_object_schema({**always, **optional}, *always)


def _build_token_paths() -> JSONObject:
    body = {"required": True, "content": {JSON_BODY: {"schema": reference(_WANTED)}}}
    listed = {"200": response("A page of them.", json={"type": "array", "items": reference(_TOKEN)})}
    created_response = {"201": response("With the token itself.", "Location", json=reference(_MADE))}
    token_response = {"200": response("One of them.", json=reference(_TOKEN))}
    metadata_response = {"200": response("Whose tokens are taken here.", json=reference(_METADATA))}
    pages = [query("limit", LIMIT), query("cursor", _CURSOR)]
    return {
        "/access/tokens": {
            "get": _build_operation("getTokens", listed, 400, parameters=pages),
            "post": _build_operation("addToken", created_response, 400, requestBody=body),
        },
        "/access/tokens/{id}": {
            "parameters": [identifier("id")],
            "get": _build_operation("getToken", token_response, 404),
            "delete": _build_operation("revokeToken", {"204": response("Revoked.")}, 404),
        },
        "/.well-known/oauth-protected-resource": {
            "get": _build_operation("getResourceMetadata", metadata_response, 404)
        },
    }


def _build_token_schemas() -> JSONObject:
    request = {
        "subject": _NAME_SCHEMA,
        "groups": _NAME_LIST,
        "scopes": _SCOPES,
        "expires": _TIME,
        "note": {"type": "string"},
    }
    return {
        _TOKEN: _build_object_schema(_TOKEN_MEMBERS, *_TOKEN_MEMBERS),
        _MADE: _build_object_schema({**_TOKEN_MEMBERS, "token": TEXT}, *_TOKEN_MEMBERS, "token"),
        _WANTED: {**_build_object_schema(request, "subject"), "additionalProperties": False},
        _METADATA: _build_object_schema(
            {"resource": TEXT, "authorization_servers": {"type": "array", "items": TEXT}}, "resource"
        ),
    }


def _build_operation(id: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
    head: JSONObject = {"operationId": id, "tags": [_TAG]}
    return {**head, **more, "responses": {**responses, **error_responses(*failures, 503)}}


def _build_ok_response(text: str, schema: str) -> JSONObject:
    return {"200": response(text, json=reference(schema))}


def _build_object_schema(properties: JSONObject, *required: str) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}
