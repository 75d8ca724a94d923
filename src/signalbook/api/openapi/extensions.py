"""The paths beside the registry, whatever the model: changes, checks, search, subscriptions (D-28 to D-32), reports."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from signalbook.api.openapi.components import (
    IF_MATCH,
    IF_NONE_MATCH,
    JSON_BODY,
    LIMIT,
    TEXT,
    condition,
    error_responses,
    identifier,
    problem_responses,
    query,
    reference,
    response,
)
from signalbook.engine.read.impact import MAX_DEPTH
from signalbook.engine.search.finding import FACETS
from signalbook.engine.search.query import MAX_QUERY
from signalbook.events.dialects import API_PATHS
from signalbook.events.filters import MAX_FILTERS
from signalbook.events.sinks.base import sink_protocols
from signalbook.events.subscription import CREDENTIAL_TYPES, SECRET_MEMBERS
from signalbook.events.subscriptions.documents import LONGEST, MOST_TYPES, OLD_TYPE
from signalbook.formats.compatibility import RULES
from signalbook.pipeline_reports import BatchReport
from signalbook.values import JSONObject, dump_json, parse_json

_TAG: Final = "subscriptions"
_SHOWN, _INPUT, _FILTER = "Subscription", "Subscription.input", "Filter"
_TEXT: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_FARTHEST: Final = 2**63 - 1
_PIPELINES: Final = "pipelines"
_PREFIX: Final = "Pipeline."
_PIPELINE, _KEPT, _FILED = "Pipeline", "Pipeline.kept", "Pipeline.filed"
_REPORT: Final = f"{_PREFIX}Report"
_PUBLISHED: Final = {
    "BatchReport": "Report",
    "DefinitionCounts": "OfMessage",
    "ReportedViolation": "Violation",
    "ReportedExample": "Example",
}
"""Names in the document, where those of the classes are others."""
_NUMBER: Final[JSONObject] = {"type": "integer", "minimum": 1}
_BATCH: Final = "application/cloudevents-batch+json"
_VERDICT, _EVENT = "Verdict", "Event"
_FOUND: Final = "Found"
_IMPACT, _TRIAL = "Impact", "Impact.trial"
_QUERY: Final[JSONObject] = {"type": "string", "maxLength": MAX_QUERY}
_WRITES: Final = ("put", "patch", "post", "delete")
_RULE: Final[JSONObject] = {
    "description": "Check by this rule, whatever that of a Resource is.",
    "schema": {"type": "string", "enum": list(RULES)},
}
_POSITION: Final[JSONObject] = {"type": "integer", "minimum": 0, "maximum": _FARTHEST}
_POSITIONS: Final = (
    query("after", {"description": "The id of the last event that is known.", "schema": _POSITION}),
    {"name": "Last-Event-ID", "in": "header", "description": "The same.", "schema": _POSITION},
    query("limit", {"description": "The most events on a page.", "schema": {"type": "integer", "maximum": 10_000}}),
    query("source", {"description": "The API whose events are wanted, by its URL or path.", "schema": TEXT}),
    query(
        "filter", {"description": "CloudEvents SQL, or a filter in JSON.", "schema": {"type": "array", "items": TEXT}}
    ),
)
_CURSOR: Final[JSONObject] = {"description": "From the link to the next page.", "schema": TEXT}
_PAGES: Final = [query("limit", LIMIT), query("cursor", _CURSOR)]
_SUBSCRIPTION: Final[JSONObject] = {"name": "id", "in": "path", "required": True, "schema": TEXT}
_KEY: Final[JSONObject] = {"description": "From the request for consent.", "schema": TEXT}


def service_paths(host: str) -> JSONObject:
    """Changes, checks, health; discovery at the root of the ``host``. OPTIONS and HEAD go without saying."""
    kept = {"304": response("The client has it already.", "ETag"), **error_responses(400, 503)}
    registries: JSONObject = {"type": "array", "items": {"type": "string", "minLength": 1}}
    answer = {"parameters": [query("compatibility", _RULE)], "requestBody": {"content": {"*/*": {}}}}
    verdict = {"200": response("What the write would do.", json=reference(_VERDICT)), **error_responses(400, 503)}
    path = {"name": "path", "in": "path", "required": True, "description": "That of the write.", "schema": TEXT}
    return {
        "/events": {
            "get": {
                **_head("events", "getEvents"),
                "parameters": [*_POSITIONS, condition(IF_NONE_MATCH)],
                "responses": {"200": _feed(), **kept, **error_responses(410)},
            }
        },
        "/check": {method: {**_head("check", f"{method}Check"), **answer, "responses": verdict} for method in _WRITES},
        "/check/{path}": {
            "parameters": [path],
            **{m: {**_head("check", f"{m}CheckOf"), **answer, "responses": verdict} for m in _WRITES},
        },
        "/health/live": {"get": {**_head("health", "getLive"), "responses": {"200": _state("The process answers.")}}},
        "/health/ready": {
            "get": {
                **_head("health", "getReady"),
                "responses": {"200": _state("The store can be read."), "503": _state("It cannot.")},
            }
        },
        "/metrics": {
            "get": {
                **_head("health", "getMetrics"),
                "responses": {"200": response("For Prometheus.", content={"text/plain": {"schema": TEXT}})},
            }
        },
        "/notifications": {"post": _notify()},
        "/.well-known/xregistry": {
            "servers": [{"url": host}],
            "get": {
                **_head("registry", "getRegistries"),
                "parameters": [condition(IF_NONE_MATCH)],
                "responses": {
                    "200": response("The registries of this host.", "ETag", json=_complete({"registries": registries})),
                    **kept,
                },
            },
        },
    }


def service_schemas() -> JSONObject:
    """Return the schemas of the paths."""
    objects: JSONObject = {"type": "array", "items": {"type": "object"}}
    verdict = {"accepted": {"type": "boolean"}, "changes": objects, "errors": objects, "findings": objects}
    return {_VERDICT: _complete(verdict), _EVENT: _event()}


def _head(tag: str, id: str) -> JSONObject:
    return {"operationId": id, "tags": [tag]}


def _feed() -> JSONObject:
    events = {"schema": {"type": "array", "items": reference(_EVENT)}}
    streamed = {"schema": TEXT}
    content = {_BATCH: events, "text/event-stream": streamed}
    return response("Changes, oldest first, or a stream of them.", "ETag", content=content)


def _event() -> JSONObject:
    names = ("specversion", "id", "source", "type")
    members: JSONObject = {name: {"type": "string", "minLength": 1} for name in names}
    return {"type": "object", "properties": members, "required": list(names)}


def _state(text: str) -> JSONObject:
    return response(text, json={"type": "object", "properties": {"status": TEXT}, "required": ["status"]})


def _notify() -> JSONObject:
    """Return the operation that receives events, in each of the three content modes."""
    event = {"schema": reference(_EVENT)}
    batch = {"schema": {"type": "array", "items": reference(_EVENT)}}
    return {
        **_head("events", "notify"),
        "parameters": [{"name": f"ce-{name}", "in": "header", "schema": TEXT} for name in _event()["required"]],
        "requestBody": {"content": {"application/cloudevents+json": event, _BATCH: batch, "*/*": {}}},
        "responses": {"204": response("Known now."), **problem_responses(400, 415, 503)},
    }


def subscription_paths() -> JSONObject:
    """Subscriptions at the root and at the drafts' mounts, and consent; OPTIONS and HEAD go without saying."""
    agreed = {"200": response("Events are delivered from now on.", content={"text/plain": {"schema": TEXT}})}
    found = {path: item for mount in ("", *API_PATHS) for path, item in _subscriptions_below(mount).items()}
    consent = {
        "parameters": [_SUBSCRIPTION, query("key", _KEY)],
        "get": _operation(_TAG, "consent", agreed, 400, 404),
        "post": _operation(_TAG, "consentByPost", agreed, 400, 404),
    }
    return found | {"/subscriptions/{id}/consent": consent}


def _subscriptions_below(mount: str) -> JSONObject:
    taken = {"required": True, "content": _either(reference(_INPUT))}
    shown = response("As it is now.", "ETag", content=_either(reference(_SHOWN)))
    made = {"201": response("Created.", "ETag", "Location", content=_either(reference(_SHOWN)))}
    conditions = [condition(name) for name in (IF_MATCH, IF_NONE_MATCH)]
    where = "_".join(mount.split("/")[2:])

    def operation(name: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
        return _operation(_TAG, "_".join(filter(None, (name, where))), responses, *failures, **more)

    return {
        f"{mount}/subscriptions": {
            "get": operation("getSubscriptions", _list("A page of them.", _SHOWN), 400, parameters=_PAGES),
            "post": operation("createSubscription", made, 400, requestBody=taken),
        },
        f"{mount}/subscriptions/{{id}}": {
            "parameters": [_SUBSCRIPTION],
            "get": operation("getSubscription", {"200": shown}, 404),
            "put": operation(
                "updateSubscription", {"200": shown}, 400, 404, 412, parameters=conditions, requestBody=taken
            ),
            "delete": operation("deleteSubscription", {"200": shown}, 404, 412, parameters=conditions),
        },
    }


def subscription_schemas() -> JSONObject:
    """Return the schemas of the paths."""
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
    shown = {**common, "sinkcredential": _credential(secrets=False), "id": TEXT, "status": {"type": "object"}}
    return {
        _INPUT: {**_object(taken, "sink", "protocol"), "not": {"required": ["filter", "filters"]}},
        _SHOWN: _object(shown, "id", "sink", "protocol", "status"),
        _FILTER: _filter(),
    }


def _either(schema: JSONObject) -> JSONObject:
    return {JSON_BODY: {"schema": schema}, OLD_TYPE: {"schema": schema}}


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
        "sql": TEXT,
    }
    return {**_object(dialects), "minProperties": 1, "maxProperties": 1}


def search_paths() -> JSONObject:
    """``/search`` and ``/impact``; OPTIONS and HEAD go without saying."""
    several: JSONObject = {"type": "array", "items": TEXT, "maxItems": 20}
    asked = {"description": "Words, phrases in quotes, field:NAME, name:WORD; - excludes.", "schema": _QUERY}
    facets = [query(name, {"description": f"Only with one of these: {name}.", "schema": several}) for name in FACETS]
    deprecated: JSONObject = {"description": "Only what is, or is not.", "schema": {"type": "boolean"}}
    versions: JSONObject = {"description": "Of which Versions.", "schema": {"enum": ["default", "all"]}}
    parameters = [query("q", asked), *facets, query("deprecated", deprecated), query("versions", versions), *_PAGES]
    found = {"200": response("A page of what was found.", "ETag", json=reference(_FOUND))}
    kept = {"304": response("The client has it already.", "ETag")}
    depth: JSONObject = {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH}
    about = {"description": "That of a group, resource or version.", "required": True, "schema": TEXT}
    steps = [query("xid", about), query("depth", {"description": "How many steps away, at most.", "schema": depth})]
    depends = {"200": response("What depends on it.", "ETag", json=reference(_IMPACT)), **kept}
    return {
        "/search": {"get": _operation("search", "search", {**found, **kept}, 400, parameters=parameters)},
        "/impact": {
            "get": _operation("search", "impact", depends, 400, 404, parameters=steps),
            "post": _operation(
                "search",
                "tryImpact",
                {"200": response("What the document would break.", json=reference(_TRIAL))},
                *(400, 404, 503),
                parameters=[
                    query("xid", {**about, "description": "That of a schema or a version of one."}),
                    query("format", {"description": "That of the document, if it is another one.", "schema": TEXT}),
                    query("compatibility", _RULE),
                ],
                requestBody={"required": True, "content": {"*/*": {}}},
            ),
        },
    }


def search_schemas() -> JSONObject:
    """Return the schemas of the path."""
    ranges: JSONObject = {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}}
    snippet = _complete({"kind": {"enum": ["attribute", "field"]}, "path": TEXT, "text": TEXT, "ranges": ranges})
    snippet["properties"]["schema"] = TEXT
    named = dict.fromkeys(("xid", "type", "group", "id", "name"), TEXT)
    hit: JSONObject = {
        **named,
        "kind": {"enum": ["group", "resource", "version"]},
        "score": {"type": "number"},
        "deprecated": {"type": "boolean"},
        "snippets": {"type": "array", "items": snippet},
    }
    more = dict.fromkeys(("format", "protocol", "envelope"), TEXT)
    counted = _complete({"value": TEXT, "count": {"type": "integer", "minimum": 1}})
    counts = _complete({name: {"type": "array", "items": counted} for name in (*FACETS, "deprecated")})
    shown = {"type": "object", "properties": {**hit, **more}, "required": list(hit)}
    page = {
        "count": {"type": "integer", "minimum": 0},
        "complete": {"type": "boolean"},
        "hits": {"type": "array", "items": shown},
        "facets": counts,
    }
    level: JSONObject = {"type": "integer", "minimum": 1}
    dependent = _complete({"xid": TEXT, "relation": TEXT, "on": TEXT, "depth": level})
    xids: JSONObject = {"type": "array", "items": TEXT}
    impact = {
        "xid": TEXT,
        "complete": {"type": "boolean"},
        "dependents": {"type": "array", "items": dependent},
        "pipelines": {"type": "array", "items": _complete({"name": TEXT, "messages": xids})},
        "subscriptions": {"type": "array", "items": _complete({"id": TEXT, "protocol": TEXT, "xids": xids})},
    }
    return {_FOUND: _complete(page), _IMPACT: _complete(impact), _TRIAL: _trial(impact, dependent)}


def _trial(impact: JSONObject, dependent: JSONObject) -> JSONObject:
    """Return the answer of ``POST /impact``: the same, with the outcome for each dependent."""
    effect: JSONObject = {
        "outcome": {"enum": ["breaks", "holds", "unknown"]},
        "rule": {"enum": list(RULES)},
        "why": TEXT,
        "findings": {"type": "array", "items": {"type": "object"}},
    }

    def with_effect(known: JSONObject) -> JSONObject:
        return _object({**known["properties"], **effect}, *known["required"], "outcome")

    pipeline = with_effect(impact["pipelines"]["items"])
    flag: JSONObject = {"type": "boolean"}
    more: JSONObject = {
        "dependents": {"type": "array", "items": with_effect(dependent)},
        "pipelines": {"type": "array", "items": pipeline},
    }
    return with_effect(_complete({**impact, **more, "safe": flag, "default": flag, "check": reference(_VERDICT)}))


def pipeline_paths() -> JSONObject:
    """``/pipelines`` and what is beneath it; OPTIONS and HEAD go without saying."""
    name, filed = identifier("name"), reference(_FILED)
    body = {"required": True, "content": {JSON_BODY: {"schema": reference(_REPORT)}}}
    added = {
        "200": response("The batch was known.", "Location", json=filed),
        "201": response("Kept.", "Location", json=filed),
    }
    operation = partial(_operation, _PIPELINES)
    return {
        "/pipelines": {"get": operation("getPipelines", _list("A page of them.", _PIPELINE), 400, parameters=_PAGES)},
        "/pipelines/{name}": {
            "parameters": [name],
            "get": operation("getPipeline", _one("With its newest report.", _PIPELINE), 404),
            "delete": operation("deletePipeline", {"204": response("Forgotten.")}, 404),
        },
        "/pipelines/{name}/reports": {
            "parameters": [name],
            "get": operation("getReports", _list("The newest first.", _KEPT), 400, 404, parameters=_PAGES),
            "post": operation("addReport", added, 400, requestBody=body),
        },
        "/pipelines/{name}/reports/{number}": {
            "parameters": [name, {"name": "number", "in": "path", "required": True, "schema": _NUMBER}],
            "get": operation("getReport", _one("One of them.", _KEPT), 404),
        },
    }


def pipeline_schemas() -> JSONObject:
    """Return the schemas of the paths; those of reports are the ones they are checked by."""
    _, found = msgspec.json.schema_components([BatchReport], ref_template=f"#/components/schemas/{_PREFIX}{{name}}")
    text = dump_json(found).decode()
    for name, published in _PUBLISHED.items():  # as key, as title, and at the end of references
        text = text.replace(f'{_PREFIX}{name}"', f'{_PREFIX}{published}"').replace(f'"{name}"', f'"{published}"')
    kept = {"number": _NUMBER, "received": TEXT, "report": reference(_REPORT)}
    return {
        **{f"{_PREFIX}{name}": schema for name, schema in parse_json(text.encode()).items()},
        _KEPT: _complete(kept),
        _FILED: _complete({"pipeline": TEXT, "number": _NUMBER}),
        _PIPELINE: _complete({"name": TEXT, "last": {"type": ["object", "null"]}}),
    }


def _operation(tag: str, id: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
    return {"operationId": id, "tags": [tag], **more, "responses": {**responses, **error_responses(*failures, 503)}}


def _one(text: str, schema: str) -> JSONObject:
    return {"200": response(text, json=reference(schema))}


def _list(text: str, schema: str) -> JSONObject:
    return {"200": response(text, json={"type": "array", "items": reference(schema)})}


def _complete(properties: JSONObject) -> JSONObject:
    return {"type": "object", "properties": properties, "required": list(properties)}
