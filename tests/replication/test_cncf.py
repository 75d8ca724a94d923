"""Copies from and to registries that speak a CNCF draft, through the APIs of real servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

import httpx
import pytest

from signalbook.client import ClientError
from signalbook.replication.link import RegistryDialect, Scope
from signalbook.replication.opening import LinkError, copying, link, open_source, open_target
from signalbook.replication.replicating import Replication, StateInMemory
from signalbook.replication.report import CopyReport

from .servers import HTTP, PATIENCE, Server, copy, version, wait_until

SCHEMAS = "/compat/schemaregistry/v0.2"
FIRST = "/compat/messagecatalog/v0"
CATALOG = "/compat/messagecatalog/v0.1"
DOORS = {
    SCHEMAS: RegistryDialect.SCHEMAREGISTRY,
    FIRST: RegistryDialect.MESSAGECATALOG,
    CATALOG: RegistryDialect.MESSAGECATALOG_0_1,
}


def replicate(source: str, target: str, spoken: RegistryDialect | None = None) -> CopyReport:
    """Copy from one URL to another, whatever is there."""
    report = CopyReport()
    with (
        open_source(source, timeout=PATIENCE, dialect=spoken) as ours,
        open_target(target, timeout=PATIENCE, source=source) as theirs,
    ):
        copying(ours, theirs, link(ours, theirs, Scope(), reached=source), report)().everything()
    return report


def register(server: Server, schema: str, text: str, **sent: str) -> httpx.Response:
    headers = {"Content-Type": "application/schema+json; x=1", "Schema-Format": "json-schema", **sent}
    return server.send("POST", f"{SCHEMAS}/schemagroups/g/schemas/{schema}", content=text, headers=headers)


@pytest.fixture
def schemas(trio: list[Server]) -> list[Server]:
    """Three servers, the first with a schema of three versions of which one is gone."""
    one, *_ = trio
    one.send("PUT", f"{SCHEMAS}/schemagroups/g", json={"description": "G"})
    for text in ('{"type": "object"}', '{"type":"object"}', '{"type" : "object"}'):
        register(one, "s", text)
    one.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/2")
    return trio


def lookup(server: Server, uri: str) -> httpx.Response:
    return HTTP.get(f"{server.url}{SCHEMAS}/schema?uri={quote(uri, safe='')}")


@pytest.mark.parametrize(("ours", "theirs"), [("", ""), (SCHEMAS, ""), ("", SCHEMAS), (SCHEMAS, SCHEMAS)])
def test_schemas_by_any_door(schemas: list[Server], ours: str, theirs: str) -> None:
    """D-3 to D-7, D-17: found everywhere by the URI that the source's door gave it, byte for byte; copied once."""
    one, two, _ = schemas
    assert replicate(one.url + ours, two.url + theirs).refused == []
    for number, text in ((1, '{"type": "object"}'), (3, '{"type" : "object"}')):
        uri = f"{one.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/{number}"
        found = lookup(two, uri)
        assert (found.text, found.headers["Content-Type"]) == (text, "application/schema+json; x=1")
        assert (found.headers["Schema-Id"], found.headers["Schema-Authority"]) == (uri, one.url + SCHEMAS)
        assert lookup(one, uri).text == text
    # Numbers are the target's own where a draft is spoken; where xRegistry is, they are the source's.
    numbers = two.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json()
    assert numbers == ([1, 2] if theirs else [1, 3])
    assert replicate(one.url + ours, two.url + theirs).moved == 0
    one.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
    register(one, "s", '{"type":  "object"}')
    assert replicate(one.url + ours, two.url + theirs).refused == []
    assert lookup(two, f"{one.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1").status_code == 404
    assert lookup(two, f"{one.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/4").text == '{"type":  "object"}'


def test_a_hub_of_drafts_keeps_authority_and_uri(schemas: list[Server]) -> None:
    """D-11: draft to xRegistry to draft."""
    one, two, three = schemas
    replicate(one.url + SCHEMAS, two.url)
    replicate(two.url, three.url + SCHEMAS)
    found = lookup(three, f"{one.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
    assert (found.text, found.headers["Schema-Authority"]) == ('{"type": "object"}', one.url + SCHEMAS)
    assert replicate(three.url + SCHEMAS, one.url + SCHEMAS).moved == 0
    assert one.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json() == [1, 3]


def test_what_a_target_has_from_elsewhere_is_not_deleted(schemas: list[Server]) -> None:
    """D-2, D-9: neither its own versions nor those of another authority go with the source's."""
    one, two, _ = schemas
    two.send("PUT", f"{SCHEMAS}/schemagroups/g", json={})
    register(two, "s", '{"title": "mine", "type": "object"}')
    register(two, "s", '{"title": "theirs"}', **{"Schema-Authority": "urn:them", "Schema-Id": "41"})
    replicate(one.url + SCHEMAS, two.url + SCHEMAS)
    one.send("DELETE", f"{SCHEMAS}/schemagroups/g")
    replicate(one.url + SCHEMAS, two.url + SCHEMAS)
    assert two.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json() == [1, 2]
    assert lookup(two, "urn:them:41").text == '{"title": "theirs"}'


def test_what_a_draft_has_no_words_for_is_refused(trio: list[Server]) -> None:
    """A document kept elsewhere; all else goes on."""
    one, two, _ = trio
    away = {"format": "JsonSchema/draft-07", "schemaurl": "https://schemas.example/1"}
    schemas = {"a": {"versions": {"1": away}}, "s": {"versions": {"1": version()}}}
    one.patch({"schemagroups": {"g": {"schemas": schemas}}})
    report = replicate(one.url, two.url + SCHEMAS)
    assert [str(passed.xid) for passed in report.refused] == ["/schemagroups/g/schemas/a/versions/1"]
    assert two.status("/schemagroups/g/schemas/s/versions/1") == 200


EVENT = {"attributes": {"type": "shop.order", "source": "/shop/{id}", "subject": ""}}
TEMPLATES = {"attributes": {name: {"value": value} for name, value in EVENT["attributes"].items()}}


def catalog(server: Server) -> None:
    """A definition of the first draft and one of 0.1."""
    server.send("PUT", f"{FIRST}/messagecatalog/first", json={"format": "CloudEvents"})
    path = f"{FIRST}/messagecatalog/first/messagedefinitions/shop.order"
    server.send("POST", path, content=json.dumps(EVENT, indent=3), headers={"Content-Type": "application/json; x=1"})
    server.send("PUT", f"{CATALOG}/messagecatalog/later", json={"format": "CloudEvents", "specversion": "0.1"})
    body = {"id": "shop.order", "documentation": "An *order*.", "tags": "a,b", "definition": TEMPLATES}
    server.send("POST", f"{CATALOG}/messagecatalog/later/messagedefinitions", json=body)
    body["definition"] = {"attributes": {**TEMPLATES["attributes"], "time": {"value": ""}}}
    server.send("POST", f"{CATALOG}/messagecatalog/later/messagedefinitions", json=body)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("", ""), (FIRST, FIRST), (CATALOG, CATALOG), (FIRST, ""), (CATALOG, ""), ("", CATALOG)]
)
def test_definitions_by_any_door(trio: list[Server], ours: str, theirs: str) -> None:
    """D-3 to D-7, D-17: by their URIs, which are those of the door they came from."""
    one, two, _ = trio
    catalog(one)
    assert replicate(one.url + ours, two.url + theirs).refused == []
    base = one.url + (ours or CATALOG)
    for group, number in (("first", 1), ("later", 1), ("later", 2)):
        path = f"/messagecatalog/{group}/messagedefinitions/shop.order/versions/{number}"
        found = two.send("GET", f"{CATALOG}/messagedefinition?uri={quote(base + path, safe='')}").json()
        assert found["definition"] == one.send("GET", f"{CATALOG}{path}").json()["definition"]
        assert found["authority"] == base
    if (ours, theirs) in (("", ""), (FIRST, FIRST)):
        path = f"{FIRST}/messagecatalog/first/messagedefinitions/shop.order"
        assert two.send("GET", path).content == one.send("GET", path).content
        assert two.send("GET", path).headers["Content-Type"] == "application/json; x=1"
    assert replicate(one.url + ours, two.url + theirs).moved == 0


def test_a_source_that_speaks_a_draft_knocks(serve: Callable[..., Server], trio: list[Server]) -> None:
    """D-36, D-20: its event makes the follower look long before it is time."""
    one, *_ = trio
    one.send("PUT", f"{SCHEMAS}/schemagroups/g", json={})
    register(one, "s", '{"type": "object"}')
    base = one.url + SCHEMAS
    two = serve(follow=(base,), follow_seconds=100_000.0)
    wait_until(lambda: lookup(two, f"{base}/schemagroups/g/schemas/s/versions/1").status_code == 200)
    register(one, "s", '{"type":  "object"}')
    event = {"specversion": "1.0", "type": "io.cloudevents.schemaregistry.updated.v1", "source": base, "id": "1"}
    event["subject"] = "/schemagroups/g/schemas/s/version/2"
    two.send("POST", "/notifications", json=event, headers={"Content-Type": "application/cloudevents+json"})
    wait_until(lambda: lookup(two, f"{base}/schemagroups/g/schemas/s/versions/2").status_code == 200)


def test_the_dialect_is_found_out(trio: list[Server]) -> None:
    """By what each has and no other; what is no registry is said to be none."""
    one, *_ = trio
    for path in (*DOORS, ""):
        with open_source(one.url + path, timeout=PATIENCE) as source:
            assert source.url == one.url + path
    with pytest.raises(LinkError, match="is no known registry"), open_source(f"{one.url}/health", timeout=PATIENCE):
        pass
    with pytest.raises(ClientError, match="cannot reach"), open_source("http://127.0.0.1:9", timeout=PATIENCE):
        pass


@pytest.mark.parametrize("answer", [b"{", b"{}", b'[1, "x"]', b"[[]]", b'"' + b"x" * 1000])
def test_a_source_that_talks_nonsense(answers: Callable[[bytes], str], trio: list[Server], answer: bytes) -> None:
    """Nothing comes of it but an error, or nothing at all."""
    _, two, _ = trio
    url = answers(answer)
    with suppress(ClientError):
        assert replicate(url, two.url, RegistryDialect.SCHEMAREGISTRY).moved == 0
    assert two.content()["schemagroups"] == {}


def test_copies_by_xregistry_are_found_by_the_uri_of_the_draft(schemas: list[Server]) -> None:
    """D-5: what was written through the draft's door has one URI at every registry, whatever way it came."""
    one, two, three = schemas
    copy(one, two)
    copy(two, three)
    uri = f"{one.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1"
    assert [lookup(server, uri).text for server in schemas] == ['{"type": "object"}'] * 3


def test_changes_are_pushed_as_they_come(schemas: list[Server]) -> None:
    """D-1, D-14: into a registry that speaks a draft, by the change feed of one that has it."""
    one, two, _ = schemas
    with open_source(one.url, timeout=PATIENCE) as ours, open_target(two.url + SCHEMAS, timeout=PATIENCE) as theirs:
        way = link(ours, theirs, Scope(), reached=one.url)
        work = Replication(ours, copying(ours, theirs, way, CopyReport()), way, StateInMemory())
        while work.advance():
            pass
        register(one, "s", '{"type":  "object"}')
        register(one, "t", '{"type":  "string"}')
        one.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
        while work.advance():
            pass
    paths = {"s/versions/1": 404, "s/versions/4": 200, "t/versions/1": 200}
    base = f"{one.url}{SCHEMAS}/schemagroups/g/schemas"
    assert {path: lookup(two, f"{base}/{path}").status_code for path in paths} == paths
