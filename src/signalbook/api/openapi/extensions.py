"""The paths that do not depend on the model: changes, checks, search, subscriptions (D-28 to D-32), reports."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

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
    problem_responses,
    query,
    reference,
    response,
)
from signalbook.engine.read.impact import MAX_DEPTH
from signalbook.engine.search.query import MAX_QUERY_CHARS
from signalbook.engine.search.search import FACETS
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
_TEXT_SCHEMA: Final[JSONObject] = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_FARTHEST: Final = 2**63 - 1
_PIPELINES: Final = "pipelines"
_SCHEMA_PREFIX: Final = "Pipeline."
_PIPELINE, _KEPT, _FILED = "Pipeline", "Pipeline.kept", "Pipeline.filed"
_REPORT: Final = f"{_SCHEMA_PREFIX}Report"
_PUBLISHED: Final = {
    "BatchReport": "Report",
    "DefinitionCounts": "OfMessage",
    "ReportedViolation": "Violation",
    "ReportedExample": "Example",
}
"""The names of schemas in the document that differ from the names of their classes."""
_POSITIVE: Final[JSONObject] = {"type": "integer", "minimum": 1}
_BATCH_TYPE: Final = "application/cloudevents-batch+json"
_VERDICT, _EVENT = "Verdict", "Event"
_FOUND: Final = "Found"
_IMPACT, _TRIAL = "Impact", "Impact.trial"
_QUERY: Final[JSONObject] = {"type": "string", "maxLength": MAX_QUERY_CHARS}
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
    query("filter", {"description": "CloudEvents SQL, or a filter in JSON.", "schema": array_of(TEXT)}),
)
_PAGES: Final = [query("limit", LIMIT), query("cursor", CURSOR)]
_SUBSCRIPTION: Final[JSONObject] = {"name": "id", "in": "path", "required": True, "schema": TEXT}
_KEY_PARAMETER: Final[JSONObject] = {"description": "From the request for consent.", "schema": TEXT}


def service_paths(host: str) -> JSONObject:
    """Return the paths of changes, checks, health, metrics and notifications, and of discovery at the root of ``host``.

    OPTIONS and HEAD are left out.
    """
    unchanged = {"304": response("The client has it already.", "ETag")}
    feed = {"200": _build_feed_response(), **unchanged}
    registries = complete_object({"registries": array_of({"type": "string", "minLength": 1})})
    listed = {"200": response("The registries of this host.", "ETag", json=registries), **unchanged}
    answer = {"parameters": [query("compatibility", _RULE)], "requestBody": {"content": {"*/*": {}}}}
    verdict = ok_response("What the write would do.", reference(_VERDICT))
    path = {"name": "path", "in": "path", "required": True, "description": "The path of the write.", "schema": TEXT}
    return {
        "/events": {
            "get": operation("events", "getEvents", feed, 400, 410, parameters=[*_POSITIONS, condition(IF_NONE_MATCH)])
        },
        "/check": {method: operation("check", f"{method}Check", verdict, 400, **answer) for method in _WRITES},
        "/check/{path}": {
            "parameters": [path],
            **{method: operation("check", f"{method}CheckOf", verdict, 400, **answer) for method in _WRITES},
        },
        "/health/live": {
            "get": _build_health_operation("getLive", {"200": _build_state_response("The process answers.")})
        },
        "/health/ready": {
            "get": _build_health_operation(
                "getReady",
                {
                    "200": _build_state_response("The store can be read."),
                    "503": _build_state_response("The store cannot be read."),
                },
            )
        },
        "/metrics": {
            "get": _build_health_operation(
                "getMetrics", {"200": response("Metrics for Prometheus.", content={"text/plain": {"schema": TEXT}})}
            )
        },
        "/notifications": {"post": _notify()},
        "/.well-known/xregistry": {
            "servers": [{"url": host}],
            "get": operation("registry", "getRegistries", listed, 400, parameters=[condition(IF_NONE_MATCH)]),
        },
    }


def service_schemas() -> JSONObject:
    """Return the schemas of the paths."""
    objects = array_of({"type": "object"})
    verdict = {"accepted": {"type": "boolean"}, "changes": objects, "errors": objects, "findings": objects}
    return {_VERDICT: complete_object(verdict), _EVENT: _build_event_schema()}


def _build_health_operation(id: str, responses: JSONObject) -> JSONObject:
    """Return an operation on the state of the server. It has no other responses than ``responses``."""
    return {"operationId": id, "tags": ["health"], "responses": responses}


def _build_feed_response() -> JSONObject:
    events = {"schema": array_of(reference(_EVENT))}
    streamed = {"schema": TEXT}
    content = {_BATCH_TYPE: events, "text/event-stream": streamed}
    return response("Changes, oldest first, or a stream of them.", "ETag", content=content)


def _build_event_schema() -> JSONObject:
    names = ("specversion", "id", "source", "type")
    return complete_object({name: {"type": "string", "minLength": 1} for name in names})


def _build_state_response(text: str) -> JSONObject:
    return response(text, json=complete_object({"status": TEXT}))


def _notify() -> JSONObject:
    """Return the operation that receives events, in each of the three content modes."""
    event = {"schema": reference(_EVENT)}
    batch = {"schema": array_of(reference(_EVENT))}
    return {
        "operationId": "notify",
        "tags": ["events"],
        "parameters": [
            {"name": f"ce-{name}", "in": "header", "schema": TEXT} for name in _build_event_schema()["required"]
        ],
        "requestBody": {"content": {"application/cloudevents+json": event, _BATCH_TYPE: batch, "*/*": {}}},
        "responses": {"204": response("Known now."), **problem_responses(400, 415, 503)},
    }


def subscription_paths() -> JSONObject:
    """Return the paths of subscriptions, at the root and at the drafts' mounts, and of consent.

    OPTIONS and HEAD are left out.
    """
    agreed = {"200": response("Events are delivered from now on.", content={"text/plain": {"schema": TEXT}})}
    paths = {path: item for mount in ("", *API_PATHS) for path, item in _build_subscription_paths(mount).items()}
    consent = {
        "parameters": [_SUBSCRIPTION, query("key", _KEY_PARAMETER)],
        "get": operation(_TAG, "consent", agreed, 400, 404),
        "post": operation(_TAG, "consentByPost", agreed, 400, 404),
    }
    return paths | {"/subscriptions/{id}/consent": consent}


def _build_subscription_paths(mount: str) -> JSONObject:
    body = {"required": True, "content": _build_both_contents(reference(_INPUT))}
    current = response("As it is now.", "ETag", content=_build_both_contents(reference(_SHOWN)))
    created = {"201": response("Created.", "ETag", "Location", content=_build_both_contents(reference(_SHOWN)))}
    conditions = [condition(name) for name in (IF_MATCH, IF_NONE_MATCH)]
    where = "_".join(mount.split("/")[2:])

    def build_operation(name: str, responses: JSONObject, *failures: int, **more: object) -> JSONObject:
        return operation(_TAG, "_".join(filter(None, (name, where))), responses, *failures, **more)

    return {
        f"{mount}/subscriptions": {
            "get": build_operation(
                "getSubscriptions",
                ok_response("A page of subscriptions.", array_of(reference(_SHOWN))),
                400,
                parameters=_PAGES,
            ),
            "post": build_operation("createSubscription", created, 400, requestBody=body),
        },
        f"{mount}/subscriptions/{{id}}": {
            "parameters": [_SUBSCRIPTION],
            "get": build_operation("getSubscription", {"200": current}, 404),
            "put": build_operation(
                "updateSubscription", {"200": current}, 400, 404, 412, parameters=conditions, requestBody=body
            ),
            "delete": build_operation("deleteSubscription", {"200": current}, 404, 412, parameters=conditions),
        },
    }


def subscription_schemas() -> JSONObject:
    """Return the schemas of the paths."""
    common: JSONObject = {
        "source": _TEXT_SCHEMA,
        "types": {**array_of({"type": "string", "minLength": 1}), "maxItems": MOST_TYPES},
        "filters": {**array_of(reference(_FILTER)), "maxItems": MAX_FILTERS},
        "filter": reference(_FILTER),
        "config": _build_config_schema(),
        "sink": _TEXT_SCHEMA,
        "protocol": {"type": "string", "enum": [*sink_protocols(), "HTTPS"]},
        "protocolsettings": {"type": "object"},
    }
    # Ignored members may have any value.
    request_members = {**common, "sinkcredential": _build_credential_schema(secrets=True), "id": {}, "status": {}}
    response_members = {
        **common,
        "sinkcredential": _build_credential_schema(secrets=False),
        "id": TEXT,
        "status": {"type": "object"},
    }
    return {
        _INPUT: {
            **_build_closed_object(request_members, "sink", "protocol"),
            "not": {"required": ["filter", "filters"]},
        },
        _SHOWN: _build_closed_object(response_members, "id", "sink", "protocol", "status"),
        _FILTER: _filter(),
    }


def _build_both_contents(schema: JSONObject) -> JSONObject:
    return {JSON_BODY: {"schema": schema}, OLD_TYPE: {"schema": schema}}


def _build_closed_object(properties: JSONObject, *required: str) -> JSONObject:
    return {**object_of(properties, *required), "additionalProperties": False}


def _build_config_schema() -> JSONObject:
    number: JSONObject = {"type": "integer", "minimum": 0, "maximum": _FARTHEST}
    text: JSONObject = {"type": "string", "pattern": "^[0-9]{1,18}$"}
    return _build_closed_object({"after": {"description": "The position to begin behind.", "anyOf": [number, text]}})


def _build_credential_schema(*, secrets: bool) -> JSONObject:
    names = {name for kind in CREDENTIAL_TYPES.values() for name in (*kind.required, *kind.optional)}
    members = {name: _build_secret_schema(name) for name in sorted(names) if secrets or name not in SECRET_MEMBERS}
    return _build_closed_object(
        {"credentialtype": {"type": "string", "enum": list(CREDENTIAL_TYPES)}, **members}, "credentialtype"
    )


def _build_secret_schema(name: str) -> JSONObject:
    return {"type": "string", "minLength": 1, **({"writeOnly": True} if name in SECRET_MEMBERS else {})}


def _filter() -> JSONObject:
    """Return the schema of a filter expression (subscriptions/spec.md 3.2.4): one member, named by its dialect."""
    pairs = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string", "minLength": 1},
    }
    several = {**array_of(reference(_FILTER)), "minItems": 1}
    dialects: JSONObject = {
        **dict.fromkeys(("exact", "prefix", "suffix"), pairs),
        **dict.fromkeys(("all", "any"), several),
        "not": reference(_FILTER),
        "sql": TEXT,
    }
    return {**_build_closed_object(dialects), "minProperties": 1, "maxProperties": 1}


def search_paths() -> JSONObject:
    """Return the paths ``/search`` and ``/impact``. OPTIONS and HEAD are left out."""
    several: JSONObject = {**array_of(TEXT), "maxItems": 20}
    query_parameter = {"description": "Words, phrases in quotes, field:NAME, name:WORD; - excludes.", "schema": _QUERY}
    facets = [query(name, {"description": f"Only with one of these: {name}.", "schema": several}) for name in FACETS]
    deprecated: JSONObject = {"description": "Only what is, or is not.", "schema": {"type": "boolean"}}
    versions: JSONObject = {"description": "Of which Versions.", "schema": {"enum": ["default", "all"]}}
    parameters = [
        query("q", query_parameter),
        *facets,
        query("deprecated", deprecated),
        query("versions", versions),
        *_PAGES,
    ]
    page = {"200": response("A page of what was found.", "ETag", json=reference(_FOUND))}
    unchanged = {"304": response("The client has it already.", "ETag")}
    depth: JSONObject = {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH}
    about = {"description": "That of a group, resource or version.", "required": True, "schema": TEXT}
    steps = [query("xid", about), query("depth", {"description": "How many steps away, at most.", "schema": depth})]
    depends = {"200": response("What depends on it.", "ETag", json=reference(_IMPACT)), **unchanged}
    return {
        "/search": {"get": operation("search", "search", {**page, **unchanged}, 400, parameters=parameters)},
        "/impact": {
            "get": operation("search", "impact", depends, 400, 404, parameters=steps),
            "post": operation(
                "search",
                "tryImpact",
                {"200": response("What the document would break.", json=reference(_TRIAL))},
                400,
                404,
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
    ranges = array_of(array_of({"type": "integer", "minimum": 0}))
    snippet = complete_object({"kind": {"enum": ["attribute", "field"]}, "path": TEXT, "text": TEXT, "ranges": ranges})
    snippet["properties"]["schema"] = TEXT
    texts = dict.fromkeys(("xid", "type", "group", "id", "name"), TEXT)
    hit: JSONObject = {
        **texts,
        "kind": {"enum": ["group", "resource", "version"]},
        "score": {"type": "number"},
        "deprecated": {"type": "boolean"},
        "snippets": array_of(snippet),
    }
    more = dict.fromkeys(("format", "protocol", "envelope"), TEXT)
    counted = complete_object({"value": TEXT, "count": {"type": "integer", "minimum": 1}})
    counts = complete_object({name: array_of(counted) for name in (*FACETS, "deprecated")})
    page = {
        "count": {"type": "integer", "minimum": 0},
        "complete": {"type": "boolean"},
        "hits": array_of(object_of({**hit, **more}, *hit)),
        "facets": counts,
    }
    level: JSONObject = {"type": "integer", "minimum": 1}
    dependent = complete_object({"xid": TEXT, "relation": TEXT, "on": TEXT, "depth": level})
    xids = array_of(TEXT)
    impact = {
        "xid": TEXT,
        "complete": {"type": "boolean"},
        "dependents": array_of(dependent),
        "pipelines": array_of(complete_object({"name": TEXT, "messages": xids})),
        "subscriptions": array_of(complete_object({"id": TEXT, "protocol": TEXT, "xids": xids})),
        "cut": array_of({"enum": ["pipelines", "subscriptions"]}),
    }
    return {
        _FOUND: complete_object(page),
        _IMPACT: complete_object(impact),
        _TRIAL: _build_trial_schema(impact, dependent),
    }


def _build_trial_schema(impact: JSONObject, dependent: JSONObject) -> JSONObject:
    """Return the response of ``POST /impact``: that of GET, with the outcome for each dependent."""
    effect: JSONObject = {
        "outcome": {"enum": ["breaks", "holds", "unknown"]},
        "rule": {"enum": list(RULES)},
        "why": TEXT,
        "findings": array_of({"type": "object"}),
    }

    def with_effect(schema: JSONObject) -> JSONObject:
        return _build_closed_object({**schema["properties"], **effect}, *schema["required"], "outcome")

    flag: JSONObject = {"type": "boolean"}
    more: JSONObject = {
        "dependents": array_of(with_effect(dependent)),
        "pipelines": array_of(with_effect(impact["pipelines"]["items"])),
    }
    return with_effect(complete_object({**impact, **more, "safe": flag, "default": flag, "check": reference(_VERDICT)}))


def pipeline_paths() -> JSONObject:
    """Return ``/pipelines`` and the paths below it. OPTIONS and HEAD are left out."""
    name, filed = identifier("name"), reference(_FILED)
    body = {"required": True, "content": {JSON_BODY: {"schema": reference(_REPORT)}}}
    added = {
        "200": response("The batch was known.", "Location", json=filed),
        "201": response("Kept.", "Location", json=filed),
    }
    build_operation = partial(operation, _PIPELINES)
    pipelines, reports = (array_of(reference(name)) for name in (_PIPELINE, _KEPT))
    return {
        "/pipelines": {
            "get": build_operation(
                "getPipelines", ok_response("A page of pipelines.", pipelines), 400, parameters=_PAGES
            )
        },
        "/pipelines/{name}": {
            "parameters": [name],
            "get": build_operation(
                "getPipeline", ok_response("The pipeline with its newest report.", reference(_PIPELINE)), 404
            ),
            "delete": build_operation("deletePipeline", {"204": response("Forgotten.")}, 404),
        },
        "/pipelines/{name}/reports": {
            "parameters": [name],
            "get": build_operation(
                "getReports", ok_response("Reports, the newest first.", reports), 400, 404, parameters=_PAGES
            ),
            "post": build_operation("addReport", added, 400, requestBody=body),
        },
        "/pipelines/{name}/reports/{number}": {
            "parameters": [name, {"name": "number", "in": "path", "required": True, "schema": _POSITIVE}],
            "get": build_operation("getReport", ok_response("The report.", reference(_KEPT)), 404),
        },
    }


def pipeline_schemas() -> JSONObject:
    """Return the schemas of the paths. Reports are checked by the same schemas."""
    _, definitions = msgspec.json.schema_components(
        [BatchReport], ref_template=f"#/components/schemas/{_SCHEMA_PREFIX}{{name}}"
    )
    text = dump_json(definitions).decode()
    for name, published in _PUBLISHED.items():  # as key, as title, and at the end of references
        text = text.replace(f'{_SCHEMA_PREFIX}{name}"', f'{_SCHEMA_PREFIX}{published}"').replace(
            f'"{name}"', f'"{published}"'
        )
    stored = {"number": _POSITIVE, "received": TEXT, "report": reference(_REPORT)}
    return {
        **{f"{_SCHEMA_PREFIX}{name}": schema for name, schema in parse_json(text.encode()).items()},
        _KEPT: complete_object(stored),
        _FILED: complete_object({"pipeline": TEXT, "number": _POSITIVE}),
        _PIPELINE: complete_object({"name": TEXT, "last": {"type": ["object", "null"]}}),
    }
