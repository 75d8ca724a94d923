"""The paths of the access policy, API tokens and the audit log. They do not depend on the model."""

from __future__ import annotations

from typing import Final

from signalbook.access.audit import DONE, REFUSED
from signalbook.access.base import ACTIONS, ROLES
from signalbook.access.tokens import MAX_GROUPS, MAX_TEXT
from signalbook.api.openapi.components import (
    CURSOR,
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    TEXT,
    array_of,
    complete_object,
    condition,
    identifier,
    object_of,
    ok_response,
    operation,
    query,
    reference,
    response,
)
from signalbook.values import JSONObject

_TAG: Final = "access"
_POLICY, _RULE, _EXPLANATION, _CALLER = "Access.Policy", "Access.Rule", "Access.Explanation", "Access.Caller"
_IN_FORCE: Final = "Access.Policy.inforce"
_ENTRY: Final = "Audit.Entry"
_AUDITED: Final = response("Entries, the newest first.", "Link", json=array_of(reference(_ENTRY)))
_XID: Final = query("xid", {"description": "The xid of an entity or collection.", "schema": TEXT})
_TOKEN, _MADE, _WANTED, _METADATA = "Token", "Token.made", "Token.wanted", "ResourceMetadata"
_NAME_SCHEMA: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_NAME_LIST: Final[JSONObject] = {**array_of(_NAME_SCHEMA), "maxItems": MAX_GROUPS}
_SCOPES: Final[JSONObject] = {
    "type": ["array", "null"],
    "minItems": 1,
    "items": {"type": "string", "enum": list(ACTIONS)},
}
_TIME: Final[JSONObject] = {"type": ["string", "null"], "format": "date-time"}
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
    explanation = ok_response("The decision and its reasons.", reference(_EXPLANATION))
    caller = ok_response("The caller.", reference(_CALLER))
    ended_sessions = complete_object({"subject": TEXT, "ended": {"type": "integer", "minimum": 0}})
    ended = ok_response("The number of sessions that were ended.", ended_sessions)
    return {
        "/access": {
            "get": operation(_TAG, "getAccess", {"200": response("The policy.", "ETag", json=policy)}, 404),
            "put": operation(_TAG, "putAccess", in_force, 400, 409, 412, parameters=conditions, requestBody=body),
        },
        "/access/explain": {"get": operation(_TAG, "explainAccess", explanation, 400, 404, parameters=parameters)},
        "/access/self": {"get": operation(_TAG, "getAccessOfCaller", caller, 400, parameters=[_XID])},
        "/access/sessions": {"delete": operation(_TAG, "endSessions", ended, 400, parameters=[_SUBJECT])},
        "/audit": {"get": operation(_TAG, "getAudit", {"200": _AUDITED}, 400, parameters=_audit_parameters())},
        **_build_token_paths(),
    }


def access_schemas() -> JSONObject:
    """Return the schemas of the paths."""
    texts, rules = array_of(TEXT), array_of(reference(_RULE))
    actions = array_of({"type": "string", "enum": list(ACTIONS)})
    some = {"minItems": 1, "maxItems": 1000}
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
    rules_shown = array_of(complete_object({"rule": {"type": "integer", "minimum": 0}}))
    explained |= {"allowing": rules_shown, "denying": rules_shown}
    caller: JSONObject = {"name": TEXT, "authenticated": {"type": "boolean"}, "restricted": {"type": "boolean"}}
    caller |= {"policy": {"type": "integer", "minimum": 0}, "hidden": {"type": "boolean"}}
    caller |= {"groups": texts, "xid": TEXT, "may": actions, "somewhere": actions}
    beside: JSONObject = {"subject": TEXT, "issuer": TEXT, "token": TEXT, "scopes": texts}
    one_of = [{"required": [name]} for name in ("role", "allow", "deny")]
    return {
        _RULE: {**object_of(rule, "who"), "additionalProperties": False, "oneOf": one_of},
        _POLICY: {**complete_object({"rules": rules}), "additionalProperties": False},
        _IN_FORCE: object_of({"rules": rules, "warnings": texts}, "rules"),
        _ENTRY: _build_entry_schema(),
        _EXPLANATION: complete_object(explained),
        _CALLER: object_of({**caller, **beside}, *caller),
        **_build_token_schemas(),
    }


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
    count: JSONObject = {"type": "integer", "minimum": 1}
    always: JSONObject = {
        "number": count,
        "time": {"type": "string", "format": "date-time"},
        "who": TEXT,
        "action": TEXT,
        "outcome": {"type": "string", "enum": [DONE, REFUSED]},
        "xids": array_of(TEXT),
    }
    caller = ("subject", "token", "issuer", "session", "peer", "forwarded", "api", "method")
    words = ("correlationid", *caller, "error", "about", "file")
    optional: JSONObject = {**dict.fromkeys(words, TEXT), "more": count, "count": count}
    return object_of({**always, **optional}, *always)


def _build_token_paths() -> JSONObject:
    body = {"required": True, "content": {JSON_BODY: {"schema": reference(_WANTED)}}}
    listed = ok_response("A page of tokens.", array_of(reference(_TOKEN)))
    created_response = {"201": response("The token, with its secret text.", "Location", json=reference(_MADE))}
    token_response = ok_response("The token.", reference(_TOKEN))
    metadata_response = ok_response("The identity providers whose tokens are accepted.", reference(_METADATA))
    pages = [query("limit", LIMIT), query("cursor", CURSOR)]
    return {
        "/access/tokens": {
            "get": operation(_TAG, "getTokens", listed, 400, parameters=pages),
            "post": operation(_TAG, "addToken", created_response, 400, requestBody=body),
        },
        "/access/tokens/{id}": {
            "parameters": [identifier("id")],
            "get": operation(_TAG, "getToken", token_response, 404),
            "delete": operation(_TAG, "revokeToken", {"204": response("Revoked.")}, 404),
        },
        "/.well-known/oauth-protected-resource": {
            "get": operation(_TAG, "getResourceMetadata", metadata_response, 404)
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
        _TOKEN: complete_object(_TOKEN_MEMBERS),
        _MADE: complete_object({**_TOKEN_MEMBERS, "token": TEXT}),
        _WANTED: {**object_of(request, "subject"), "additionalProperties": False},
        _METADATA: object_of({"resource": TEXT, "authorization_servers": array_of(TEXT)}, "resource"),
    }
