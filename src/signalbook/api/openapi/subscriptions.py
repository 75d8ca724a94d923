"""The paths of the Subscriptions API, which are the same whatever the model (D-28 to D-32)."""

from __future__ import annotations

from typing import Final

from signalbook.api.openapi import parts
from signalbook.api.openapi.schemas import reference
from signalbook.events.filters import MAX_FILTERS
from signalbook.events.sinks.base import sink_protocols
from signalbook.events.subscriptions.documents import LONGEST, MOST_TYPES, OLD_TYPE
from signalbook.events.subscriptions.subscription import CREDENTIAL_TYPES, SECRET_MEMBERS
from signalbook.values import JSONObject

_TAG: Final = "subscriptions"
_SHOWN, _INPUT, _FILTER = "Subscription", "Subscription.input", "Filter"
_TEXT: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_FARTHEST: Final = 2**63 - 1
_CONDITIONS: Final = (parts.IF_MATCH, parts.IF_NONE_MATCH)


def paths() -> JSONObject:
    """``/subscriptions`` and ``/subscriptions/{id}``; OPTIONS and HEAD go without saying."""
    taken = {"required": True, "content": _either(reference(_INPUT))}
    shown = parts.answer("As it is now.", "ETag", content=_either(reference(_SHOWN)))
    made = parts.answer("Created.", "ETag", "Location", content=_either(reference(_SHOWN)))
    several = parts.answer("A page of them.", json={"type": "array", "items": reference(_SHOWN)})
    return {
        "/subscriptions": {
            "get": {
                **_named("getSubscriptions"),
                "parameters": [parts.query("limit", parts.LIMIT)],
                "responses": {"200": several, **parts.errors(400, 503)},
            },
            "post": {
                **_named("createSubscription"),
                "requestBody": taken,
                "responses": {"201": made, **parts.errors(400, 503)},
            },
        },
        "/subscriptions/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": parts.TEXT}],
            "get": {**_named("getSubscription"), "responses": {"200": shown, **parts.errors(404, 503)}},
            "put": {
                **_named("updateSubscription"),
                "parameters": [parts.condition(name) for name in _CONDITIONS],
                "requestBody": taken,
                "responses": {"200": shown, **parts.errors(400, 404, 412, 503)},
            },
            "delete": {
                **_named("deleteSubscription"),
                "parameters": [parts.condition(name) for name in _CONDITIONS],
                "responses": {"200": shown, **parts.errors(404, 412, 503)},
            },
        },
    }


def schemas() -> JSONObject:
    """What the paths refer to."""
    common: JSONObject = {
        "source": _TEXT,
        "types": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": MOST_TYPES},
        "filters": {"type": "array", "items": reference(_FILTER), "maxItems": MAX_FILTERS},
        "filter": reference(_FILTER),
        "config": _config(),
        "sink": _TEXT,
        "protocol": {"type": "string", "enum": [*sink_protocols(), "HTTPS"]},
        "protocolsettings": {"type": "object"},
    }
    # What is ignored may be anything.
    taken = {**common, "sinkcredential": _credential(secrets=True), "id": {}, "status": {}}
    shown = {**common, "sinkcredential": _credential(secrets=False), "id": parts.TEXT, "status": {"type": "object"}}
    return {
        _INPUT: {**_object(taken, "sink", "protocol"), "not": {"required": ["filter", "filters"]}},
        _SHOWN: _object(shown, "id", "sink", "protocol", "status"),
        _FILTER: _filter(),
    }


def _named(operation: str) -> JSONObject:
    return {"operationId": operation, "tags": [_TAG]}


def _either(schema: JSONObject) -> JSONObject:
    return {parts.JSON: {"schema": schema}, OLD_TYPE: {"schema": schema}}


def _object(properties: JSONObject, *required: str) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _config() -> JSONObject:
    number: JSONObject = {"type": "integer", "minimum": 0, "maximum": _FARTHEST}
    text: JSONObject = {"type": "string", "pattern": "^[0-9]{1,18}$"}
    return _object({"after": {"description": "The position to begin behind.", "anyOf": [number, text]}})


def _credential(*, secrets: bool) -> JSONObject:
    names = {name for kind in CREDENTIAL_TYPES.values() for name in (*kind.required, *kind.optional)}
    members = {name: _secret(name) for name in sorted(names) if secrets or name not in SECRET_MEMBERS}
    return _object({"credentialtype": {"type": "string", "enum": list(CREDENTIAL_TYPES)}, **members}, "credentialtype")


def _secret(name: str) -> JSONObject:
    return {"type": "string", "minLength": 1, **({"writeOnly": True} if name in SECRET_MEMBERS else {})}


def _filter() -> JSONObject:
    """A filter expression (subscriptions/spec.md 3.2.4): one member, named by its dialect."""
    pairs = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string", "minLength": 1},
    }
    several = {"type": "array", "items": reference(_FILTER), "minItems": 1}
    dialects: JSONObject = {
        **dict.fromkeys(("exact", "prefix", "suffix"), pairs),
        **dict.fromkeys(("all", "any"), several),
        "not": reference(_FILTER),
        "sql": parts.TEXT,
    }
    return {**_object(dialects), "minProperties": 1, "maxProperties": 1}
