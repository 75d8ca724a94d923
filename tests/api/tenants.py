"""A registry of two tenants, with and without what is hidden from one of them, and the requests of a crawl."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from urllib.parse import urlencode

from .conftest import ADMINISTRATOR, Client
from .crawling import READ_METHODS, SHORT_PATH, WRITE_METHODS, Binding, fill_path, normalise_path

ANN: Final = {"X-User": "ann"}
CALLERS: Final[dict[str, dict[str, str]]] = {"tenant": ANN, "stranger": {"X-User": "bob"}, "anonymous": {}}
"""Callers from whom the same things are hidden: a tenant, somebody without any right, and an anonymous caller."""
RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "who": ["subject:ann"],
        "role": "owner",
        "on": ["/schemagroups/open", "/messagegroups/open", "/endpoints/open", "/pipelines/a*", "/pipelines/z"],
    },
    {"who": ["subject:ann"], "allow": ["subscribe"], "on": ["/schemagroups/open"]},
    {"who": ["anyone"], "allow": ["read"], "on": ["/schemagroups/open", "/messagegroups/open", "/schemagroups/a-*"]},
    {"who": ["anyone"], "deny": ["read", "list"], "on": ["/*/*/*/hush*"]},
)
CONFLUENT: Final = "/compat/confluent"
_JSON_SCHEMA: Final = "JsonSchema/draft-07"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; ``body`` is sent as JSON unless it is None."""

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A write that makes the registry what it is. One that is ``hidden`` is left out of the registry to compare."""

    request: Request
    hidden: bool
    headers: tuple[tuple[str, str], ...] = tuple(ADMINISTRATOR.items())


def populate(client: Client, *, with_hidden: bool) -> dict[str, str]:
    """Write everything, or all but what is hidden from the callers. Return the GUIDs of schemas by their subjects."""
    guids = {}
    for step in _steps():
        if with_hidden or not step.hidden:
            request = step.request
            answer = client.send(request.method, request.path, json=request.body, headers=dict(step.headers))
            assert answer.is_success, (request, answer.text)
            if request.path.startswith(f"{CONFLUENT}/subjects/") and request.method == "POST":
                guids[request.path.split("/")[4]] = answer.json()["guid"]
    return guids


def _steps() -> Iterator[Step]:
    """Yield visible and hidden writes by turns, so that hidden things are before, between and behind visible ones."""

    def visible(method: str, path: str, body: Any = None) -> Step:
        return Step(request=Request(method=method, path=path, body=body), hidden=False)

    def hidden(method: str, path: str, body: Any = None) -> Step:
        return Step(request=Request(method=method, path=path, body=body), hidden=True)

    yield hidden("PUT", "/endpoints/hush", _endpoint("open"))
    yield visible("PUT", "/endpoints/open", _endpoint("open", "hush"))
    for kind in ("schemagroups", "messagegroups"):
        yield hidden("PUT", f"/{kind}/hush", {"name": "hush"})
        yield visible("PUT", f"/{kind}/open", {"name": "open"})
    yield visible("PUT", "/schemagroups/a-first", {"name": "first"})
    schemas, messages = "/schemagroups/open/schemas", "/messagegroups/open/messages"
    # Visible schemas come first: later ones have numbers that depend on how many hidden ones there are.
    yield visible("PUT", f"{schemas}/order$details", _schema("order"))
    yield visible("POST", f"{schemas}/order/versions", {"2": _schema("order", "/schemagroups/hush/schemas/hush-pay")})
    yield visible("PUT", f"{schemas}/to-hidden/meta", {"xref": f"{schemas}/hush-pay"})
    yield visible("PUT", f"{schemas}/to-group/meta", {"xref": "/schemagroups/hush/schemas/hush-pay"})
    yield from _confluent_steps()
    yield hidden("PUT", f"{schemas}/hush-pay$details", _schema("pay", f"{schemas}/order"))
    yield hidden("PUT", "/schemagroups/hush/schemas/hush-pay$details", _schema("order"))
    yield hidden("PUT", f"{schemas}/hush-xref/meta", {"xref": f"{schemas}/order"})
    yield visible("PUT", f"{messages}/placed", _message("order", "hush-base"))
    yield hidden("PUT", f"{messages}/hush-base", _message("order"))
    yield hidden("PUT", "/messagegroups/hush/messages/hush-base", _message("order"))
    yield visible("PUT", f"{messages}/billed", _message("hush-pay"))
    for name in ("a", "hush", "z"):
        report = Request(method="POST", path=f"/pipelines/{name}/reports", body=_report(name))
        yield Step(request=report, hidden=name == "hush")
    sink = {"sink": "https://93.184.215.14/hush", "protocol": "HTTP"}
    subscribe = Request(method="POST", path="/subscriptions", body=sink)
    yield Step(request=subscribe, hidden=True)
    yield Step(request=subscribe, hidden=False, headers=tuple(ANN.items()))
    yield hidden("POST", "/access/tokens", {"subject": "hush"})


def _confluent_steps() -> Iterator[Step]:
    """Yield writes of subjects, among them softly deleted ones, configurations, aliases and associations."""

    def step(method: str, path: str, body: Any = None, *, hidden: bool) -> Step:
        return Step(request=Request(method=method, path=f"{CONFLUENT}{path}", body=body), hidden=hidden)

    def register(subject: str, document: Any, *, hidden: bool, **more: Any) -> Step:
        return step("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(document), **more}, hidden=hidden)

    refers = {"references": [{"name": "record_sale", "subject": ":.open:sale-value", "version": 1}]}
    yield register(":.open:sale-value", _record("sale"), hidden=False)
    yield register(":.open:late-value", _record("late"), hidden=False)
    yield register(":.open:late-value", _record("late", "later"), hidden=False)
    yield step("DELETE", "/subjects/:.open:late-value/versions/1", hidden=False)
    yield register(":.open:hush-value", _record("hush"), hidden=True)
    yield register(":.open:hush-same", _record("sale"), hidden=True)
    yield register(":.hush:sale-value", _record("sale"), hidden=True)
    yield register(":.open:hush-refers", [_record("wide"), "record_sale"], hidden=True, **refers)
    yield register(":.open:hush-gone", _record("gone"), hidden=True)
    yield step("DELETE", "/subjects/:.open:hush-gone", hidden=True)
    yield step("PUT", "/config/:.open:sale-value", {"compatibility": "FULL"}, hidden=False)
    yield step("PUT", "/config/:.open:alias-to-hidden", {"alias": ":.open:hush-value"}, hidden=False)
    yield step("PUT", "/config/:.open:hush-alias", {"alias": ":.open:sale-value"}, hidden=True)
    yield step("POST", "/associations", associate("topic-both", "hush-value", kind="key"), hidden=True)
    yield step("POST", "/associations", associate("topic-both", "sale-value"), hidden=False)
    yield step("POST", "/associations", associate("topic-hush", "hush-value"), hidden=True)
    for name in (":.open:hush-value", ":.hush:sale-value", ":.hush:"):
        yield step("PUT", f"/config/{name}", {"compatibility": "NONE"}, hidden=True)
        yield step("PUT", f"/mode/{name}", {"mode": "READONLY"}, hidden=True)


def associate(topic: str, subject: str, kind: str = "value") -> dict[str, Any]:
    """Return the body of a request for an association of a topic with a subject of the open group."""
    association = {"associationType": kind, "subject": f":.open:{subject}", "lifecycle": "WEAK"}
    return {"resourceName": topic, "resourceNamespace": "lkc", "resourceId": topic, "associations": [association]}


def _record(name: str, *fields: str) -> dict[str, Any]:
    members = [{"name": field, "type": "string", "default": ""} for field in (name, *fields)]
    return {"type": "record", "name": f"record_{name}", "fields": members}


def _schema(field: str, reference: str = "") -> dict[str, Any]:
    """Return a schema with a field, of which another field refers to a schema."""
    properties: dict[str, Any] = {field: {"type": "string", "description": f"about {field}"}}
    if reference:
        properties["r"] = {"$ref": f"http://r.example{reference}"}
    return {"format": _JSON_SCHEMA, "name": field, "schema": {"type": "object", "properties": properties}}


def _message(schema: str, base: str = "") -> dict[str, Any]:
    data_schema = {"dataschemaformat": _JSON_SCHEMA, "dataschemaxid": f"/schemagroups/open/schemas/{schema}"}
    bases = {"basemessage": f"/messagegroups/open/messages/{base}"} if base else {}
    return {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": f"com.{schema}"}},
        **data_schema,
        **bases,
    }


def _endpoint(*groups: str) -> dict[str, Any]:
    return {"usage": ["producer"], "messagegroups": [f"/messagegroups/{group}" for group in groups]}


def _report(name: str) -> dict[str, Any]:
    xids = ("/messagegroups/open/messages/placed", "/messagegroups/hush/messages/hush-base")
    counts = {xid: {"landed": 1, "rejected": 0} for xid in xids}
    zeros = {"dead_lettered": 0, "dropped": 0, "reasons": {}}
    numbers = {"read": 2, "landed": 2, "seconds": 1.0, "events_per_second": 2.0}
    return {"batch": f"b-{name}", "fingerprint": "f", **numbers, **zeros, "by_message": counts}


def bind(group: str, schema: str, message: str, subject: str, **extra: str) -> Binding:
    """Return values for all placeholders: the names of what a request is about, be it visible, hidden or absent."""
    groups = dict.fromkeys(("schemagroups", "messagegroups", "endpoints", "messagecatalog"), group)
    subjects = dict.fromkeys(("subjects", "config", "mode"), subject)
    numbers = {"versions": "1", "ids": "1", "guids": "0" * 32, "reports": "1", "~": "5", "subscriptions": "0" * 28}
    names = {
        "contexts": f".{group}",
        "resources": "topic-both",
        "resources+": "topic-both",
        "pipelines": "a",
        "pipelines+": "1",
    }
    messages = {"messages": message, "messagedefinitions": message}
    names |= {"schemas": schema, "tokens": "t", "static": "explorer.css"}
    return {**groups, **subjects, **numbers, **names, **messages, **extra}


VISIBLE: Final = bind("open", "order", "placed", ":.open:sale-value")
_HUSH: Final = {"pipelines": "hush", "resources": "topic-hush"}
HIDDEN_GROUP: Final = bind("hush", "hush-pay", "hush-base", ":.hush:sale-value", ids="2", **_HUSH)
HIDDEN_RESOURCE: Final = bind("open", "hush-pay", "hush-base", ":.open:hush-value", ids="3", versions="2", **_HUSH)
HIDDEN_DELETED: Final = bind("open", "hush-gone", "hush-gone", ":.open:hush-gone", ids="4", pipelines="b")
DANGLING: Final = bind("open", "to-hidden", "billed", ":.open:alias-to-hidden", ids="5", pipelines="z", versions="2")
OTHER_CASE: Final = bind("open", "HUSH-PAY", "HUSH-BASE", ":.open:HUSH-value", pipelines="HUSH", resources="TOPIC-HUSH")
ABSENT: Final = bind("absent", "absent", "absent", ":.absent:value", pipelines="absent", resources="absent", ids="99")
BINDINGS: Final = (VISIBLE, HIDDEN_GROUP, HIDDEN_RESOURCE, HIDDEN_DELETED, DANGLING, OTHER_CASE, ABSENT)

_XIDS: Final = ("/schemagroups/open/schemas/order", "/schemagroups/open/schemas/hush-pay", "/schemagroups/hush")
_BOOLEAN: Final = ("true",)
QUERY_VALUES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("binary", "collections", "doc"), ("",)),
    **dict.fromkeys(("deleted", "deletedAsNegative", "deletedOnly", "latestOnly", "fetchMaxId"), _BOOLEAN),
    **dict.fromkeys(("defaultToGlobal", "findTags", "normalize", "verbose"), _BOOLEAN),
    **dict.fromkeys(("key", "protocol", "referenceFormat", "ruleType", "value"), ("hush",)),
    **dict.fromkeys(("from", "to"), ("2020-01-01T00:00:00Z",)),
    "associationType": ("key", "value"),
    "action": ("create",),
    "after": ("0", "99999"),
    "contextPrefix": (":.", ":.h"),
    "cursor": ("hush", "a"),
    "definitions": ("full", ""),
    "deprecated": ("true",),
    "depth": ("5",),
    "envelope": ("CloudEvents/1.0",),
    "filter": ("name=*hush*", "schemas.name=order", "messages.basemessage=*hush*", "xid!=null"),
    "format": ("resolved", "serialized", "hush"),
    "group": ("/schemagroups/hush", "/schemagroups/open"),
    "ignore": ("*",),
    "inline": ("*", "schemas.versions,schemas.meta", "messages"),
    "lifecycle": ("WEAK",),
    "limit": ("1", "2"),
    "offset": ("1", "3"),
    "outcome": ("done",),
    "q": ("hush", "order", "about"),
    "resourceType": ("topic",),
    "sort": ("name", "name=desc"),
    "source": ("/compat/schemaregistry/v0.2", "/"),
    "specversion": ("1.0-rc4", "0"),
    "subject": (":.open:hush-value", ":.open:sale-value", ":.hush:"),
    "subjectPrefix": (":.open:", ":.hush:", ":*:"),
    "type": ("schema", "message"),
    "uri": tuple(f"http://r.example{xid}/versions/1" for xid in _XIDS),
    "versions": ("all",),
    "what": ("read",),
    "who": ("subject:hush", "subject:ann"),
    "xid": _XIDS,
}
"""Values of query parameters. A new parameter needs values here: the crawl fails without."""
PAGE_QUERIES: Final = (
    *("after=hush", "after=a", "before=99999", "limit=1", "q=hush", "q=order", "steps=3", "sort=name"),
    *(f"of={xid}" for xid in _XIDS),
    f"of={_XIDS[0]}&old=1&new=2",
)
"""Queries of the explorer's pages, which no document describes."""
_LIST_SHARE: Final = 0.3
"""The least share of the reads of a path without placeholders."""


def bindings_of(guids: Mapping[str, str]) -> list[Binding]:
    """Return all bindings with the GUIDs of their subjects."""
    return [{**binding, "guids": guids.get(binding["subjects"], binding["guids"])} for binding in BINDINGS]


def reads(
    paths: list[str], parameters: dict[str, list[str]], everything: list[Binding], random: Random, share: float
) -> Iterator[Request]:
    """Yield a GET of every path, and a share of all other reads: of each binding, with each method and parameter."""
    for template in paths:
        bindings = list(everything) if "{" in template else [VISIBLE]
        random.shuffle(bindings)
        requests = [Request(method="GET", path=fill_path(template, binding)) for binding in bindings]
        requests += [Request(method=method, path=requests[0].path) for method in READ_METHODS[1:]]
        queries = [
            urlencode({name: value})
            for name in parameters.get(normalise_path(template), ())
            for value in QUERY_VALUES[name]
        ]
        if template.startswith("/ui") and template.count("{") < 2:
            queries += PAGE_QUERIES
        requests += [
            Request(method="GET", path=f"{fill_path(template, random.choice(bindings))}?{query}") for query in queries
        ]
        yield from requests[:1]
        # Lists and searches differ most by their parameters.
        chance = share if "{" in template else max(share, _LIST_SHARE)
        yield from (request for request in requests[1:] if random.random() < chance)


def writes(paths: list[str], random: Random, share: float) -> Iterator[Request]:
    """Yield a write of every path, and a share of all others: with each method, about hidden or dangling names.

    Short URLs are left out: one number stands for different entities in the two registries.
    """
    for template in paths:
        if template == SHORT_PATH:
            continue
        bindings = BINDINGS[1:] if "{" in template else [VISIBLE]
        requests = [
            Request(method=method, path=fill_path(template, binding), body=random.choice(_bodies(template)))
            for method in WRITE_METHODS
            for binding in bindings
        ]
        random.shuffle(requests)
        yield from requests[:1]
        yield from (request for request in requests[1:] if random.random() < share)


def _bodies(template: str) -> tuple[Any, ...]:
    """Return bodies that handlers of a path take, so that they do not stop at the form of the body."""
    if "confluent" in template or "ccompat" in template:
        words = [segment for segment in template.split("/") if "{" not in segment]
        return _CONFLUENT_BODIES.get(words[-1], ({"schema": json.dumps(_record("new"))},))
    if template.startswith("/pipelines"):
        return (_report("a"),)
    if template.endswith(("$details", "/schemas/{}/versions/{}")):
        return (_schema("new"), _schema("new", "/schemagroups/open/schemas/hush-pay"))
    last = template.rpartition("/")[2]
    return _BODIES.get(last, ({"description": "new"}, {}, {"hush-pay": {}, "new": {}}))


_BODIES: Final[dict[str, tuple[Any, ...]]] = {
    "meta": ({"xref": "/schemagroups/open/schemas/hush-pay"}, {"defaultversionid": "2", "defaultversionsticky": True}),
    "schemas": ({"hush-pay": _schema("new")}, {"new": {"meta": {"xref": "/schemagroups/open/schemas/hush-pay"}}}),
    "messages": ({"hush-base": _message("order")}, {"new": _message("hush-pay", "hush-base")}),
    "messagedefinitions": ({"id": "hush-base", "definition": {"attributes": {"type": {"value": "t"}}}},),
    "endpoints": ({"hush": _endpoint("open")},),
    "subscriptions": ({"sink": "https://93.184.215.14/new", "protocol": "HTTP"},),
}
_CONFLUENT_BODIES: Final[dict[str, tuple[Any, ...]]] = {
    "config": ({"compatibility": "FULL"}, {"alias": ":.open:hush-value"}, {"alias": ":.open:nothing"}),
    "mode": ({"mode": "READONLY"}, {"mode": "IMPORT"}),
    "tags": ({"newVersion": 2, "tagsToAdd": []},),
    "associations": (associate("topic-hush", "hush-value"), associate("topic-new", "hush-value")),
    "resources": (associate("topic-hush", "hush-value"), associate("topic-both", "hush-value", kind="key")),
    "associations:batchGet": ({"requests": [{"resourceId": "topic-hush"}, {"resourceId": "topic-both"}]},),
    "associations:batchMutate": (
        {"requests": [associate("topic-hush", "hush-value"), associate("topic-new", "nothing")]},
    ),
    "versions": (
        {"schema": json.dumps(_record("sale"))},
        {
            "schema": json.dumps(_record("new")),
            "references": [{"name": "r", "subject": ":.open:hush-value", "version": 1}],
        },
    ),
}


def own_writes() -> Iterator[Request]:
    """Yield writes that the tenant may do: the text, alias or association of something hidden, and references to it."""
    for number, name in enumerate(("hush", "gone", "new", "sale")):
        subject, body = f"{CONFLUENT}/subjects/:.open:mine-{number}", {"schema": json.dumps(_record(name))}
        yield Request(method="POST", path=f"{subject}/versions", body=body)
        yield Request(method="POST", path=subject, body=body)
        yield Request(method="GET", path=f"{subject}/versions/latest")
    yield Request(method="PUT", path=f"{CONFLUENT}/config/:.open:mine-0", body={"alias": ":.open:hush-value"})
    yield Request(method="POST", path=f"{CONFLUENT}/subjects/:.open:mine-0/versions", body=body)
    yield Request(method="GET", path=f"{CONFLUENT}/subjects/:.open:mine-0/versions/latest")
    yield Request(method="DELETE", path=f"{CONFLUENT}/subjects/:.open:mine-0")
    yield Request(method="POST", path=f"{CONFLUENT}/associations", body=associate("topic-mine", "mine-1"))
    yield Request(
        method="POST", path=f"{CONFLUENT}/associations", body=associate("topic-mine", "hush-value", kind="key")
    )
    schema, hidden = "/schemagroups/open/schemas/mine", "/schemagroups/{}/schemas/hush-pay"
    yield Request(method="PUT", path=f"{schema}$details", body=_schema("m", hidden.format("open")))
    yield Request(method="POST", path=f"{schema}/versions", body={"2": _schema("m", hidden.format("hush"))})
    yield Request(method="PATCH", path="/schemagroups/open", body={"description": "new"})
    yield Request(method="POST", path="/pipelines/aa/reports", body=_report("aa"))


def own_deletions() -> Iterator[Request]:
    """Yield deletions of what the tenant may delete, and of what has something hidden in it."""
    for path in (
        f"{CONFLUENT}/associations/resources/topic-both?cascadeLifecycle=true",
        f"{CONFLUENT}/subjects/:.open:sale-value",
        f"{CONFLUENT}/subjects/:.open:sale-value?permanent=true",
        f"{CONFLUENT}/contexts/.open",
        "/pipelines/a",
        "/messagegroups/open/messages/placed",
        "/schemagroups/open/schemas/order",
        "/schemagroups/open",
    ):
        yield Request(method="DELETE", path=path)
