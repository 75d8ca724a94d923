"""The paths of the access policy, API tokens and the audit, whatever the model."""

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

_SUBJECT: Final = query("subject", {"description": "Whose sessions are to end.", "required": True, "schema": TEXT})


def access_paths() -> JSONObject:
    """``/access`` and what is beneath it, ``/audit``, and where other tokens come from (RFC 9728).

    OPTIONS and HEAD go without saying.
    """
    policy = reference(_POLICY)
    body = {"required": True, "content": {JSON_BODY: {"schema": policy}}}
    in_force = {
        "200": response("It is in force.", "ETag", json=reference(_IN_FORCE)),
        "201": response("The first one is in force.", "ETag", json=reference(_IN_FORCE)),
    }
    asked = [
        query("who", {"description": "Principals, with commas between them.", "required": True, "schema": TEXT}),
        query("what", {"required": True, "schema": {"type": "string", "enum": list(ACTIONS)}}),
        _XID,
    ]
    conditions = [condition(name) for name in (IF_MATCH, IF_NONE_MATCH)]
    return {
        "/access": {
            "get": _operation("getAccess", {"200": response("The policy.", "ETag", json=policy)}, 404),
            "put": _operation("putAccess", in_force, 400, 409, 412, parameters=conditions, requestBody=body),
        },
        "/access/explain": {
            "get": _operation("explainAccess", _shown("Whether, and why.", _EXPLANATION), 400, 404, parameters=asked)
        },
        "/access/self": {"get": _operation("getAccessOfCaller", _shown("Who asks.", _CALLER), 400, parameters=[_XID])},
        "/access/sessions": {"delete": _operation("endSessions", _ended(), 400, parameters=[_SUBJECT])},
        "/audit": {"get": _operation("getAudit", {"200": _AUDITED}, 400, parameters=_audit_parameters())},
        **_token_paths(),
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
        _IN_FORCE: _object({"rules": rules, "warnings": texts}, "rules"),
        _ENTRY: _entry_schema(),
        _EXPLANATION: _object(explained, *explained),
        _CALLER: _object({**caller, **beside}, *caller),
        **_token_schemas(),
    }


def _ended() -> JSONObject:
    shown = _object({"subject": TEXT, "ended": {"type": "integer", "minimum": 0}}, "subject", "ended")
    return {"200": response("How many sessions there were.", json=shown)}


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


def _entry_schema() -> JSONObject:
    """The members beside these are there where they are known."""
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
    known: JSONObject = {**dict.fromkeys(words, TEXT), "more": count, "count": count}
    return _object({**always, **known}, *always)


def _token_paths() -> JSONObject:
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


def _token_schemas() -> JSONObject:
    wanted = {"subject": _NAME, "groups": _NAMES, "scopes": _SCOPES, "expires": _TIME, "note": {"type": "string"}}
    return {
        _TOKEN: _object(_SHOWN, *_SHOWN),
        _MADE: _object({**_SHOWN, "token": TEXT}, *_SHOWN, "token"),
        _WANTED: {**_object(wanted, "subject"), "additionalProperties": False},
        _METADATA: _object({"resource": TEXT, "authorization_servers": {"type": "array", "items": TEXT}}, "resource"),
    }


def _operation(id: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
    head: JSONObject = {"operationId": id, "tags": [_TAG]}
    return {**head, **more, "responses": {**responses, **error_responses(*failures, 503)}}


def _shown(text: str, schema: str) -> JSONObject:
    return {"200": response(text, json=reference(schema))}


def _object(properties: JSONObject, *required: str) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required)}
