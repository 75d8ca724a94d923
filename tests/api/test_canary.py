"""What an identity may not read leaves no trace: a registry in which it is hidden answers as one in which it never was.

Both are crawled as in ``test_tenants``, under random policies; what is hidden has a mark in each id, attribute and
document. Events, log lines and deliveries to subscriptions are compared, too. What cannot be hidden is in
docs/access.md.
"""

import asyncio
import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from signalbook.access.base import Identity
from signalbook.access.control import AccessControl
from signalbook.api.app import create_app
from signalbook.engine.engine import Engine
from signalbook.events.delivery.rights import DeliveryRights
from signalbook.events.dialects import of_source
from signalbook.model import builtin, compile_model
from signalbook.settings import Settings
from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, Client, put_policy
from .crawling import Binding, enumerate_paths, read_parameters
from .tenants import ANN, Request, bind
from .tenants import reads as crawl
from .test_tenants import NUMBERS, Comparison, Difference

SCHEMAS = "/compat/schemaregistry/v0.2"
CATALOGS = ("/compat/messagecatalog/v0.1", "/compat/messagecatalog/v0")
# More of them by hand: CANARY_POLICIES=200 pytest tests/api/test_canary.py
POLICIES = int(os.environ.get("CANARY_POLICIES", "2"))
SHARE = 0.1 if POLICIES < 10 else 1.0
"""The share of the requests of a crawl."""
SHORT_URLS = (Difference("Short URLs are numbers of rows.", r'"shortself":"[^"]*",?|xregistry-shortself: .*'),)
OWNER = Identity(subject="ann")
Rule = dict[str, Any]
Entities = dict[str, dict[str, Any]]
"""Groups and Resources by xid, as they are written."""


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


class LoggedClient(Client):
    """A client that adds the log lines of the server to each response, so that they are compared, too."""

    def __init__(self, app: Starlette, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(app)
        self._caplog = caplog

    def send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        self._caplog.clear()
        answer = super().send(method, path, **sent)
        answer.headers["log"] = repr(self._caplog.messages)
        return answer


@contextmanager
def serve_entities(
    store: Store, caplog: pytest.LogCaptureFixture, entities: Entities, rules: list[Rule]
) -> Iterator[Client]:
    """Serve a registry with these entities, under a policy."""
    chosen = Settings(model="default", registry_id="test", db="sqlite://", allow_hosts=("r.example",), **PROXIED)
    app = create_app(Engine(store, settings=chosen), chosen, direct=True, close=lambda: None)
    with LoggedClient(app, caplog) as client:
        client.send("PATCH", "/capabilities", json={"shortself": True})
        response = client.send("POST", "/", json=nested(entities))
        assert response.is_success, response.text
        put_policy(store, *rules, {"who": ["subject:ann"], "allow": ["subscribe"]})
        yield client


def reads(entities: Entities, random: Random) -> Iterator[str]:
    """Yield paths with the queries that show most, and with filters and URIs of visible and of hidden entities."""
    marks = [xid.rpartition("/")[2] for xid in entities]
    for flags in ("inline=*", "inline=*&doc", "inline=*&binary&doc"):
        yield f"/?{flags}"
    filters = ("schemagroups.name", "schemagroups.schemas.name", "messagegroups.messages.basemessage", "endpoints.name")
    for marker in random.sample(marks, 4):
        yield from (f"/?inline=*&filter={attribute}=*{marker}*" for attribute in filters)
        yield f"/schemagroups?filter=schemas.versions.labels.{marker}={marker}&inline=*"
        yield f"/schemagroups?filter=labels.{marker}={marker}"
    yield "/?filter=schemagroups.schemascount>1&inline=schemagroups"
    yield "/?filter=schemagroups.schemas.versionscount>=2,messagegroups.messages.name!=null&inline=*"
    for xid in entities:
        if "/schemas/" in xid:
            uris = (f"http://r.example{SCHEMAS}{xid}/versions/2", f"http://r.example{xid}/versions/1")
            for uri in (*uris, f"urn:e:{xid.rpartition('/')[2]}"):
                yield f"{SCHEMAS}/schema?uri={quote(uri, safe='')}"
        elif "/messages/" in xid:
            inside = xid.removeprefix("/messagegroups").replace("/messages/", "/messagedefinitions/")
            for mount in CATALOGS:
                uri = quote(f"http://r.example{mount}/messagecatalog{inside}/versions/1", safe="")
                yield f"{mount}/messagedefinition?uri={uri}"
    for query in ("after=0", f"source={SCHEMAS}&after=0", "filter=type%20LIKE%20'%25version%25'&after=0&limit=2"):
        yield f"/events?{query}"
    yield from (f"/{groups}?limit=1&sort=name" for groups in ("schemagroups", "messagegroups", "endpoints"))
    yield "/schemagroups?limit=1&inline=*&filter=name=*qx*"
    yield f"{CATALOGS[0]}/messagecatalog?limit=1"


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


def bindings(xids: list[str]) -> list[Binding]:
    """Return values of the placeholders of paths for each entity."""
    steps = [xid.split("/") for xid in xids]
    return [bind(path[2], path[-1], path[-1], f":.{path[2]}:{path[-1]}", versions="2") for path in steps]


async def read_stream(app: Starlette) -> str:
    """Return what a stream of events sends at once: everything before its first sign of life."""
    sent: list[str] = []
    over = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body") == b":\n\n":
            over.set()
        sent.append(f"{message.get('status', '')}{message.get('body', b'').decode()}")

    header_values = {"accept": "text/event-stream", "host": "r.example", **ANN}
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/events", "scheme": "http"}
    scope |= {"http_version": "1.1", "client": ("127.0.0.1", 1), "query_string": b"after=0"}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in header_values.items()]
    await app(scope, receive, send)
    return "".join(sent)


def events_of(client: Client, store: Store) -> tuple[str, list[str]]:
    """Return what a stream sends at once, and what subscriptions of the identity would have delivered."""
    rights = DeliveryRights(store, AccessControl(store, Settings()))
    rights.renew()
    with store.read() as transaction:
        records = [record for record in transaction.outbox.records(0, 10_000) if rights.allow(OWNER, record)]
    dialect = of_source("http://r.example/", "http://r.example")
    assert dialect is not None
    events = (event for record in records for event in dialect.events(record))
    delivered = [json.dumps(event, separators=(",", ":")) for event in events]
    return client.run(read_stream(client.app)), delivered


def prove(
    caplog: pytest.LogCaptureFixture, full: Store, bare: Store, entities: Entities, rules: list[Rule], random: Random
) -> None:
    """Check that all requests have the same outcome in both registries, and that none reveals a hidden mark."""
    visible = {xid: body for xid, body in entities.items() if readable(rules, xid)}
    hidden = [xid.rpartition("/")[2] for xid in entities.keys() - visible.keys()]

    with (
        serve_entities(full, caplog, entities, rules) as full_client,
        serve_entities(bare, caplog, visible, rules) as other,
    ):
        comparison = Comparison(full_client, other, hidden)
        comparison.allowed += SHORT_URLS

        def compare_events() -> None:
            (stream, delivered), (other_stream, other_delivered) = events_of(full_client, full), events_of(other, bare)
            assert comparison.normalise("".join(delivered)) == comparison.normalise("".join(other_delivered))
            assert not [marker for marker in hidden if marker in stream and marker not in other_stream]

        document = full_client.send("GET", "/openapi.json", headers=ADMINISTRATOR).json()
        paths = enumerate_paths(full_client.app, compile_model(builtin("default")))
        for request in crawl(paths, read_parameters(document), bindings(list(entities)), random, SHARE):
            comparison.compare("tenant", request)
        for path in reads(entities, random):
            comparison.compare("tenant", Request(method="GET", path=path))
        compare_events()
        for key in range(1, 40):
            answer = full_client.send("GET", f"/~{key:x}", headers=ANN)
            if answer.is_success:
                assert readable(rules, answer.headers.get("xRegistry-xid") or answer.json()["xid"]), key
        comparison.allowed += (NUMBERS,)
        for method, path, body in writes(entities):
            if "/compat/" not in path:
                comparison.compare("tenant", Request(method=method, path=f"/check{path}", body=body))
            comparison.compare("tenant", Request(method=method, path=path, body=body))
        for path in ("/?inline=*", "/export"):
            comparison.compare("tenant", Request(method="GET", path=path))
        compare_events()
        assert not comparison.differences, (rules, comparison.differences[:10])
        # A URI that a hidden Version has is taken, and nothing is said of whose it is.
        for marker in hidden:
            schema_of_uri = {"globaluri": f"urn:e:{marker}", "format": "JsonSchema/draft-07", "schema": {}}
            body = {f"new-{marker}": schema_of_uri}
            answer = full_client.send("POST", "/schemagroups/qx00z/schemas", json=body, headers=ANN)
            message = answer.text.replace(marker, "").replace("/schemagroups/qx00z", "")  # which is what was asked for
            assert not [other_marker for other_marker in hidden if other_marker in message], answer.text


@pytest.mark.merge
@given(random=st.randoms(use_true_random=False), data=st.data())
# Without shrinking: a failure says what was asked, and a smaller one takes minutes to find.
@settings(
    max_examples=POLICIES,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_hidden_entities_leave_no_trace(
    sqlite_store: Callable[[], Store], caplog: pytest.LogCaptureFixture, random: Random, data: st.DataObject
) -> None:
    entities = registry(random)
    rules = data.draw(policies(sorted(entities)))
    # A crawl makes more choices than Hypothesis can draw.
    prove(caplog, sqlite_store(), sqlite_store(), entities, rules, Random(random.getrandbits(32)))


@pytest.mark.merge
def test_hidden_entities_leave_no_trace_for_writers(
    store: Store, sqlite_store: Callable[[], Store], caplog: pytest.LogCaptureFixture
) -> None:
    """Parts of Groups are hidden on each database, visible entities refer to them, and the caller can write a lot."""
    random = Random(1)
    entities = registry(random)
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
    prove(caplog, store, sqlite_store(), entities, rules, random)
