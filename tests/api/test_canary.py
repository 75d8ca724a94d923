"""What an identity may not read leaves no trace: a registry in which it is hidden answers as one in which it never was.

Both get the same requests, of every API in the OpenAPI document, under random policies; what is hidden has a mark in
each id, attribute and document. What cannot be hidden is in docs/access.md. ``test_tenants`` crawls all routes under
one policy, the explorer, the Confluent-compatible API and its writes among them.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from signalbook.access.base import Identity
from signalbook.access.control import AccessControl
from signalbook.api.app import create_app
from signalbook.engine.engine import Engine
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.dialects import of_source
from signalbook.settings import Settings
from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, Client, put_policy
from .walking import CATALOGS, SCHEMAS, Request, lookups, streamed, walk

ANN = {"X-User": "ann"}
# More of them by hand: CANARY_POLICIES=200 pytest tests/api/test_canary.py
POLICIES = int(os.environ.get("CANARY_POLICIES", "2"))
MOST = 8 if POLICIES < 10 else 99
"""Requests for one path without flags."""
OWNER = Identity(subject="ann")
Rule = dict[str, Any]
Entities = dict[str, dict[str, Any]]
"""Groups and Resources by xid, as they are written."""

# What the clock and the number of writes make of an entity: the latter goes up with what is hidden in it, too.
MOVING = {"epoch", "modifiedat", "createdat", "time", "xregcorrelationid", "shortself"}
MOVING |= {"createdtimeutc", "updatedtimeutc", "ts"}
MOVING_HEADERS = {"date", "etag", "content-length", "schema-createdtimeutc", *(f"xregistry-{name}" for name in MOVING)}


def mark(number: int) -> str:
    return f"qx{number:02}z"


FORMATS = ("JsonSchema/draft-07", "Avro/1.12.0", "Protobuf/3")


def schema(form: str, marker: str, other: str) -> dict[str, Any]:
    """Return the attributes of a Version, whose document has its own mark and refers to another document."""
    attributes: dict[str, Any] = {"format": form}
    if form.startswith("JsonSchema"):
        properties = {marker: {"type": "string"}, **({"r": {"$ref": f"http://r.example{other}"}} if other else {})}
        document = {"type": "object", "description": marker, "properties": properties}
        return attributes | {"contenttype": "application/schema+json", "schema": document}
    if form.startswith("Avro"):
        more = [{"name": "r", "type": "string", "doc": f"#{other}"}] if other else []
        fields = [{"name": marker, "type": "string"}, *more]
        return attributes | {"schema": {"type": "record", "name": marker, "doc": marker, "fields": fields}}
    line = f'import "{other[-5:]}.proto";\n' if other else ""
    text = f'syntax = "proto3";\n{line}message {marker.upper()} {{ string {marker} = 1; }}\n'
    return attributes | {"contenttype": "text/plain", "schemabase64": base64.b64encode(text.encode()).decode()}


def registry(random: Random) -> Entities:
    """Two Groups of each type with some Resources, which refer to each other."""
    entities: Entities = {}
    number = iter(range(99))

    def texts(marker: str) -> dict[str, Any]:
        return {
            "name": marker,
            "description": f"about {marker}",
            "labels": {marker: marker},
            "documentation": f"https://e.example/{marker}",
        }

    for groups in ("schemagroups", "messagegroups", "endpoints"):
        for _ in range(2):
            marker = mark(next(number))
            entities[f"/{groups}/{marker}"] = texts(marker)
    for xid in [xid for xid in entities if xid.startswith("/schemagroups/")]:
        for _ in range(random.randint(2, 3)):
            marker = mark(next(number))
            candidates = [other for other in entities if "/schemas/" in other and "versions" in entities[other]]
            if candidates and random.random() < 0.4:
                entities[f"{xid}/schemas/{marker}"] = {"meta": {"xref": random.choice(candidates)}}
                continue
            version = schema(random.choice(FORMATS), marker, random.choice(candidates) if candidates else "")
            versions = {
                "1": {**version, **texts(marker), "globaluri": f"urn:e:{marker}"},
                "2": {**version, **texts(marker)},
            }
            meta = random.choice(({}, {"meta": {"compatibility": "backward"}}))
            entities[f"{xid}/schemas/{marker}"] = {"versions": versions, **meta}
    schemas = [xid for xid in entities if "/schemas/" in xid]
    for xid in [xid for xid in entities if xid.startswith("/messagegroups/")]:
        for _ in range(random.randint(2, 3)):
            marker = mark(next(number))
            referred = random.choice(schemas)
            schema_of = {"dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": referred}
            message = {**texts(marker), "envelope": "CloudEvents/1.0", "envelopemetadata": {}, **schema_of}
            message["dataschemauri"] = f"#{referred}"
            candidates = [other for other in entities if "/messages/" in other]
            if candidates:
                message["basemessage"] = random.choice(candidates)
            entities[f"{xid}/messages/{marker}"] = {"versions": {"1": message}}
    for xid in [xid for xid in entities if xid.startswith("/endpoints/")]:
        referred = random.choice([other for other in entities if re.fullmatch("/messagegroups/[^/]+", other)])
        alternative = random.choice(sorted(entities))
        entities[xid] |= {"usage": ["producer"], "messagegroups": [referred]}
        entities[xid]["deprecated"] = {"alternative": f"http://r.example{alternative}"}
    return entities


def patterns(xids: list[str]) -> st.SearchStrategy[str]:
    wild = [re.sub(r"qx\d(\d)z", r"qx*\1z", xid) for xid in xids]
    types = ["/", "/schemagroups", "/messagegroups", "/endpoints", "/*/*/schemas", "/schemagroups/*/schemas/qx*"]
    return st.sampled_from([*types, *xids, *xids, *wild])


def policies(xids: list[str]) -> st.SearchStrategy[list[Rule]]:
    """Rules about reading some of the registry and writing some of that; at least one that allows to read."""

    def rules(effect: str, actions: st.SearchStrategy[list[str]], least: int, on: st.SearchStrategy[str]) -> Any:
        rule_strategy = st.fixed_dictionaries(
            {"who": st.just(["subject:ann"]), effect: actions, "on": st.lists(on, min_size=1, max_size=3)}
        )
        return st.lists(rule_strategy, min_size=least, max_size=3)

    read = st.just(["read"])
    write = st.lists(st.sampled_from(["create", "update", "delete"]), min_size=1, max_size=3, unique=True)
    below = st.sampled_from(xids)  # who may create any Group knows their ids
    parts = (
        rules("allow", read, 1, patterns(xids)),
        rules("deny", read, 0, patterns(xids)),
        rules("allow", write, 0, below),
    )
    return st.tuples(*parts).map(lambda groups: [rule for some in groups for rule in some])


def readable(rules: list[Rule], xid: str) -> bool:
    """The rule in a few lines: a denied xid is hidden with all beneath; who reads beneath reads what it is in."""
    parts = xid.strip("/").split("/") if xid != "/" else []

    def fits(pattern: str, *, above: bool) -> bool:
        pattern_parts = pattern.strip("/").split("/") if pattern != "/" else []
        near = len(pattern_parts) <= len(parts) or above
        return near and all(
            fnmatchcase(part.lower(), want.lower()) for want, part in zip(pattern_parts, parts, strict=False)
        )

    def some(effect: str, *, above: bool) -> bool:
        return any("read" in rule.get(effect, ()) and fits(on, above=above) for rule in rules for on in rule["on"])

    return some("allow", above=True) and not some("deny", above=False)


def nested(entities: Entities) -> dict[str, Any]:
    """Return all entities as one document."""
    root: dict[str, Any] = {}
    for xid, body in entities.items():
        at = root
        for part in xid.strip("/").split("/"):
            at = at.setdefault(part, {})
        at.update(json.loads(json.dumps(body)))
    return root


def found(store: Store, stack: ExitStack, entities: Entities, rules: list[Rule]) -> Client:
    """A registry with these entities, under a policy."""
    chosen = Settings(model="default", registry_id="test", db="sqlite://", allow_hosts=("r.example",), **PROXIED)
    app = create_app(Engine(store, settings=chosen), chosen, direct=True, close=lambda: None)
    client = stack.enter_context(Client(app))
    client.send("PATCH", "/capabilities", json={"shortself": True})
    response = client.send("POST", "/", json=nested(entities))
    assert response.is_success, response.text
    put_policy(store, *rules, {"who": ["subject:ann"], "allow": ["subscribe"]})
    return client


def plain(value: Any) -> Any:
    """JSON without what moves, and events without those that only say that something is in it."""
    if isinstance(value, dict):
        event = "specversion" in value and "source" in value
        return {k: plain(v) for k, v in value.items() if k not in MOVING and not (event and k == "id")}
    if isinstance(value, list):
        return [plain(element) for element in value if not _is_of_owner(element)]
    return value


def _is_of_owner(value: Any) -> bool:
    kind = value.get("type", "") if isinstance(value, dict) else ""
    return kind in ("io.xregistry.registry.updated", "io.xregistry.group.updated") and "subject" in value


def comparable(answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body but for what moves."""
    headers = {name: value for name, value in answer.headers.items() if name not in MOVING_HEADERS}
    if "link" in headers:
        headers["link"] = re.sub(r"after=\d+", "after=N", headers["link"])
    try:
        body = plain(json.loads(answer.content))
    except ValueError:
        body = answer.content
    return answer.status_code, headers, body


def reads(document: dict[str, Any], entities: Entities, random: Random) -> Iterator[Request]:
    """Every path that reads, with every flag, of what is there and what is hidden; and what only some flags show."""
    yield from walk(document, list(entities), random, MOST)
    marks = [xid.rpartition("/")[2] for xid in entities]
    for flags in ("inline=*", "inline=*&doc", "inline=*&binary&doc"):
        yield "GET", f"/?{flags}"
    for marker in random.sample(marks, 4):
        for path in (
            "schemagroups.name",
            "schemagroups.schemas.name",
            "messagegroups.messages.basemessage",
            "endpoints.name",
        ):
            yield "GET", f"/?inline=*&filter={path}=*{marker}*"
        yield "GET", f"/schemagroups?filter=schemas.versions.labels.{marker}={marker}&inline=*"
    yield "GET", "/?filter=schemagroups.schemascount>1&inline=schemagroups"
    yield "GET", "/?filter=schemagroups.schemas.versionscount>=2,messagegroups.messages.name!=null&inline=*"
    for xid in entities:
        if "/schemas/" in xid:
            yield from (("GET", f"{SCHEMAS}/schema?uri={uri}") for uri in lookups(xid))
        elif "/messages/" in xid:
            inside = xid.removeprefix("/messagegroups").replace("/messages/", "/messagedefinitions/")
            for mount in CATALOGS:
                uri = quote(f"http://r.example{mount}/messagecatalog{inside}/versions/1", safe="")
                yield "GET", f"{mount}/messagedefinition?uri={uri}"
    for query in ("after=0", f"source={SCHEMAS}&after=0", "filter=type%20LIKE%20'%25version%25'&after=0&limit=2"):
        yield "GET", f"/events?{query}"


PAGED = (
    *(f"/{groups}?limit=1&sort=name" for groups in ("schemagroups", "messagegroups", "endpoints")),
    "/schemagroups?limit=1&inline=*&filter=name=*qx*",
    f"{CATALOGS[0]}/messagecatalog?limit=1",
)
"""Where a page leads to the next one."""


def writes(entities: Entities) -> Iterator[tuple[str, str, Any]]:
    """Writes of all that is there and hidden, and of what is new, that meet what is hidden."""
    for number, xid in enumerate(entities):
        resource = xid.count("/") == 4
        target = f"{xid}$details" if "/schemas/" in xid else xid
        body: dict[str, Any] = {"description": "new"}
        if xid.startswith("/endpoints/"):
            body["usage"] = ["consumer"]
        yield "PATCH", target, body
        yield "PUT", re.sub("qx", "QX", target), body
        owner = xid.rpartition("/")[0]
        yield "POST", owner, {xid.rpartition("/")[2]: body, f"new{number}": body}
        if resource:
            yield "PUT", f"{owner}/new{number}/meta", {"xref": xid}
            yield "PUT", f"{xid}/meta", {"defaultversionid": "1", "defaultversionsticky": True}
        if "/schemas/" in xid:
            other = owner.replace("/schemagroups/", f"{SCHEMAS}/schemagroups/")
            document = {"$ref": f"http://r.example{xid}", "n": number}
            yield "POST", f"{other}/n{number}?format=JsonSchema/draft-07", document
            new = schema(FORMATS[number % 3], f"n{number}", xid)
            yield "POST", f"{owner}$details" if number % 2 else owner, {f"n{number}": new}
            # Compared with the Versions there are, whatever these refer to.
            yield "PUT", f"{xid}/versions/3$details", schema("JsonSchema/draft-07", f"n{number}", xid)
            yield "PATCH", f"{xid}/meta", {"compatibility": "full", "compatibilityauthority": "server"}
        if xid.startswith("/messagegroups/"):
            inside = xid.removeprefix("/messagegroups").replace("/messages/", "/messagedefinitions/")
            event = {"id": f"n{number}", "definition": {"attributes": {"type": {"value": "t"}}}, "relatedto": xid[-5:]}
            for mount in CATALOGS:
                path = f"{mount}/messagecatalog{inside}"
                if not resource:
                    yield "PUT", path, {"specversion": "0.1", "format": "CloudEvents"}
                    yield "POST", f"{path}/messagedefinitions", event
                else:
                    yield "POST", path, event["definition"]
            if number % 5 == 3:
                yield "DELETE", f"{CATALOGS[0]}/messagecatalog{inside}", None
        if number % 5 == 4:
            yield "DELETE", xid, None
    yield "POST", "/", {"schemagroups": {mark(0): {"description": "new"}}}
    yield "DELETE", "/schemagroups", None
    yield "DELETE", "/messagegroups", {mark(2): {}, mark(3): {}}


@contextmanager
def logged() -> Iterator[list[str]]:
    """Yield the list of messages that are logged in the context."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


def compare_events(*both: tuple[Client, Store], hidden: list[str]) -> None:
    """Compare what a stream sends at once, and what subscriptions of the identity would have delivered."""
    texts, delivered = [], []
    for client, store in both:
        texts.append(client.run(streamed(client.app, ANN, "after=0")))
        rights = DeliveryRights(store, AccessControl(store, Settings()))
        rights.renew()
        with store.read() as transaction:
            records = [item for item in transaction.outbox.records(0, 10_000) if rights.allow(OWNER, item)]
        dialect = of_source("http://r.example/", "http://r.example")
        assert dialect is not None
        sent = [event for item in records for event in dialect.events(item)]
        delivered.append([plain(event) for event in sent if not _is_of_owner(event)])
    assert delivered[0] == delivered[1]
    sent_text = texts[0] + json.dumps(delivered[0])
    assert not [item for item in hidden if item in sent_text and item not in texts[1]]


def prove(full: Store, bare: Store, entities: Entities, rules: list[Rule], random: Random) -> None:
    """Check that all requests have the same outcome in both registries, and that none reveals a hidden mark."""
    visible = {xid: body for xid, body in entities.items() if readable(rules, xid)}
    hidden = [xid.rpartition("/")[2] for xid in entities.keys() - visible.keys()]

    with ExitStack() as stack:
        full_client, other = found(full, stack, entities, rules), found(bare, stack, visible, rules)
        with logged() as lines:

            def compare(method: str, path: str, **sent: Any) -> str:
                """Returns where the next page is."""
                answers, texts = [], []
                for client in (full_client, other):
                    lines.clear()
                    answers.append(client.send(method, path, headers=ANN, **sent))
                    texts.append(f"{answers[-1].headers}{answers[-1].text}{lines}")
                assert comparable(answers[0]) == comparable(answers[1]), (method, path, sent, rules)
                leaks = [request for request in hidden if request in texts[0] and request not in texts[1]]
                assert not leaks, (method, path, sent, rules)
                following = httpx.URL(answers[0].links.get("next", {}).get("url", ""))
                return following.raw_path.decode() if following.host else ""

            document = full_client.send("GET", "/openapi.json", headers=ADMINISTRATOR).json()
            for method, path in reads(document, entities, random):
                compare(method, path)
            for path in PAGED:
                while path:
                    path = compare("GET", path)
            compare_events((full_client, full), (other, bare), hidden=hidden)
            for key in range(1, 40):
                answer = full_client.send("GET", f"/~{key:x}", headers=ANN)
                if answer.is_success:
                    assert readable(rules, answer.headers.get("xRegistry-xid") or answer.json()["xid"]), key
            for method, path, body in writes(entities):
                if "/compat/" not in path:
                    compare(method, f"/check{path}", json=body)
                compare(method, path, json=body)
            for path in ("/?inline=*", "/export"):
                compare("GET", path)
            compare_events((full_client, full), (other, bare), hidden=hidden)
            # A URI that a hidden Version has is taken, and nothing is said of whose it is.
            for marker in hidden:
                new_schema = {
                    "globaluri": f"urn:e:{marker}",
                    "schema": {"type": "string"},
                    "format": "JsonSchema/draft-07",
                }
                answer = full_client.send(
                    "POST", "/schemagroups/qx00z/schemas", json={f"new-{marker}": new_schema}, headers=ANN
                )
                message = answer.text.replace(marker, "").replace(
                    "/schemagroups/qx00z", ""
                )  # which is what was asked for
                assert not [request for request in hidden if request in message], answer.text


@pytest.mark.merge
@given(random=st.randoms(use_true_random=False), data=st.data())
# Without shrinking: a failure says what was asked, and a smaller one takes minutes to find.
@settings(
    max_examples=POLICIES,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_hidden_entities_leave_no_trace(sqlite_store: Callable[[], Store], random: Random, data: st.DataObject) -> None:
    entities = registry(random)
    prove(sqlite_store(), sqlite_store(), entities, data.draw(policies(sorted(entities))), random)


@pytest.mark.merge
def test_hidden_entities_leave_no_trace_for_writers(store: Store, sqlite_store: Callable[[], Store]) -> None:
    """Parts of Groups are hidden on each database, visible entities refer to them, and the caller can write a lot."""
    entities = registry(Random(1))
    actions, written = ["create", "update", "delete"], ["/schemagroups/qx00z", "/messagegroups/qx02z"]
    rules: list[Rule] = [
        {"who": ["subject:ann"], "allow": ["read"], "on": ["/"]},
        {"who": ["subject:ann"], "deny": ["read"], "on": ["/*/*/schemas/qx*7z", "/messagegroups/*/messages/qx*2z"]},
        {"who": ["subject:ann"], "deny": ["read"], "on": ["/schemagroups/qx01z", "/endpoints/qx05z"]},
        {"who": ["subject:ann"], "allow": actions, "on": written},
        {"who": ["subject:ann"], "allow": ["update"], "on": ["/endpoints/qx*", "/schemagroups/qx01z"]},
    ]
    visible = [xid for xid in entities if readable(rules, xid)]
    hidden = entities.keys() - visible
    assert min(len(visible), len(hidden)) > 4
    # What is shown refers to what is hidden.
    assert any(xid in json.dumps(entities[other]) for xid in hidden for other in visible)
    prove(store, sqlite_store(), entities, rules, Random(2))
