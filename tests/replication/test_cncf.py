"""Copies from and to registries that speak a CNCF draft, through the APIs of real servers."""

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
    first, *_ = trio
    first.send("PUT", f"{SCHEMAS}/schemagroups/g", json={"description": "G"})
    for text in ('{"type": "object"}', '{"type":"object"}', '{"type" : "object"}'):
        register(first, "s", text)
    first.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/2")
    return trio


def lookup(server: Server, uri: str) -> httpx.Response:
    return HTTP.get(f"{server.url}{SCHEMAS}/schema?uri={quote(uri, safe='')}")


@pytest.mark.parametrize(("ours", "theirs"), [("", ""), (SCHEMAS, ""), ("", SCHEMAS), (SCHEMAS, SCHEMAS)])
def test_schemas_are_copied_between_all_apis(schemas: list[Server], ours: str, theirs: str) -> None:
    """Each schema is found everywhere by the URI of the source API, with the same bytes, and is copied once (D-3 to
    D-7, D-17).
    """
    source, two, _ = schemas
    assert replicate(source.url + ours, two.url + theirs).refused == []
    for number, text in ((1, '{"type": "object"}'), (3, '{"type" : "object"}')):
        uri = f"{source.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/{number}"
        response = lookup(two, uri)
        assert (response.text, response.headers["Content-Type"]) == (text, "application/schema+json; x=1")
        assert (response.headers["Schema-Id"], response.headers["Schema-Authority"]) == (uri, source.url + SCHEMAS)
        assert lookup(source, uri).text == text
    # Numbers are the target's own where a draft is spoken; where xRegistry is, they are the source's.
    numbers = two.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json()
    assert numbers == ([1, 2] if theirs else [1, 3])
    assert replicate(source.url + ours, two.url + theirs).moved == 0
    source.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
    register(source, "s", '{"type":  "object"}')
    assert replicate(source.url + ours, two.url + theirs).refused == []
    assert lookup(two, f"{source.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1").status_code == 404
    assert lookup(two, f"{source.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/4").text == '{"type":  "object"}'


def test_a_hub_of_drafts_keeps_authority_and_uri(schemas: list[Server]) -> None:
    """The copies go from a draft to xRegistry and to a draft (D-11)."""
    source, two, three = schemas
    replicate(source.url + SCHEMAS, two.url)
    replicate(two.url, three.url + SCHEMAS)
    response = lookup(three, f"{source.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
    assert (response.text, response.headers["Schema-Authority"]) == ('{"type": "object"}', source.url + SCHEMAS)
    assert replicate(three.url + SCHEMAS, source.url + SCHEMAS).moved == 0
    assert source.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json() == [1, 3]


def test_other_versions_of_the_target_are_not_deleted(schemas: list[Server]) -> None:
    """The target keeps its own versions and those of another authority (D-2, D-9)."""
    source, two, _ = schemas
    two.send("PUT", f"{SCHEMAS}/schemagroups/g", json={})
    register(two, "s", '{"title": "mine", "type": "object"}')
    register(two, "s", '{"title": "theirs"}', **{"Schema-Authority": "urn:them", "Schema-Id": "41"})
    replicate(source.url + SCHEMAS, two.url + SCHEMAS)
    source.send("DELETE", f"{SCHEMAS}/schemagroups/g")
    replicate(source.url + SCHEMAS, two.url + SCHEMAS)
    assert two.send("GET", f"{SCHEMAS}/schemagroups/g/schemas/s/versions").json() == [1, 2]
    assert lookup(two, "urn:them:41").text == '{"title": "theirs"}'


def test_unsupported_document_is_refused(trio: list[Server]) -> None:
    """A document kept elsewhere; all else goes on."""
    source, two, _ = trio
    away = {"format": "JsonSchema/draft-07", "schemaurl": "https://schemas.example/1"}
    schemas = {"a": {"versions": {"1": away}}, "s": {"versions": {"1": version()}}}
    source.patch({"schemagroups": {"g": {"schemas": schemas}}})
    report = replicate(source.url, two.url + SCHEMAS)
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
def test_definitions_are_copied_between_all_apis(trio: list[Server], ours: str, theirs: str) -> None:
    """Each definition is found by the URI of its source API (D-3 to D-7, D-17)."""
    source, two, _ = trio
    catalog(source)
    assert replicate(source.url + ours, two.url + theirs).refused == []
    base = source.url + (ours or CATALOG)
    for group, number in (("first", 1), ("later", 1), ("later", 2)):
        path = f"/messagecatalog/{group}/messagedefinitions/shop.order/versions/{number}"
        definition = two.send("GET", f"{CATALOG}/messagedefinition?uri={quote(base + path, safe='')}").json()
        assert definition["definition"] == source.send("GET", f"{CATALOG}{path}").json()["definition"]
        assert definition["authority"] == base
    if (ours, theirs) in (("", ""), (FIRST, FIRST)):
        path = f"{FIRST}/messagecatalog/first/messagedefinitions/shop.order"
        assert two.send("GET", path).content == source.send("GET", path).content
        assert two.send("GET", path).headers["Content-Type"] == "application/json; x=1"
    assert replicate(source.url + ours, two.url + theirs).moved == 0


def test_event_of_a_draft_source_triggers_a_comparison(serve: Callable[..., Server], trio: list[Server]) -> None:
    """The event triggers the comparison long before its scheduled time (D-36, D-20)."""
    source, *_ = trio
    source.send("PUT", f"{SCHEMAS}/schemagroups/g", json={})
    register(source, "s", '{"type": "object"}')
    base = source.url + SCHEMAS
    two = serve(follow=(base,), follow_seconds=100_000.0)
    wait_until(lambda: lookup(two, f"{base}/schemagroups/g/schemas/s/versions/1").status_code == 200)
    register(source, "s", '{"type":  "object"}')
    event = {"specversion": "1.0", "type": "io.cloudevents.schemaregistry.updated.v1", "source": base, "id": "1"}
    event["subject"] = "/schemagroups/g/schemas/s/version/2"
    two.send("POST", "/notifications", json=event, headers={"Content-Type": "application/cloudevents+json"})
    wait_until(lambda: lookup(two, f"{base}/schemagroups/g/schemas/s/versions/2").status_code == 200)


def test_the_dialect_is_found_out(trio: list[Server]) -> None:
    """An API is recognised by a path that only this API has; a server without any is reported."""
    first, *_ = trio
    for path in (*DOORS, ""):
        with open_source(first.url + path, timeout=PATIENCE) as source:
            assert source.url == first.url + path
    with (
        pytest.raises(LinkError, match=r"is no known registry.*write confluent\+ before"),
        open_source(f"{first.url}/health", timeout=PATIENCE),
    ):
        pass
    with pytest.raises(ClientError, match="cannot reach"), open_source("http://127.0.0.1:9", timeout=PATIENCE):
        pass


@pytest.mark.parametrize("answer", [b"{", b"{}", b'[1, "x"]', b"[[]]", b'"' + b"x" * 1000])
def test_invalid_source_copies_nothing(answers: Callable[[bytes], str], trio: list[Server], answer: bytes) -> None:
    """The copy ends with an error or copies nothing."""
    _, two, _ = trio
    url = answers(answer)
    with suppress(ClientError):
        assert replicate(url, two.url, RegistryDialect.SCHEMAREGISTRY).moved == 0
    assert two.content()["schemagroups"] == {}


def test_copies_by_xregistry_are_found_by_the_uri_of_the_draft(schemas: list[Server]) -> None:
    """A version written through the API of a draft has one URI at every registry (D-5)."""
    first, two, three = schemas
    copy(first, two)
    copy(two, three)
    uri = f"{first.url}{SCHEMAS}/schemagroups/g/schemas/s/versions/1"
    assert [lookup(server, uri).text for server in schemas] == ['{"type": "object"}'] * 3


def test_changes_are_pushed_as_they_come(schemas: list[Server]) -> None:
    """The target has the API of a draft, and the source has a change feed (D-1, D-14)."""
    source, two, _ = schemas
    with open_source(source.url, timeout=PATIENCE) as ours, open_target(two.url + SCHEMAS, timeout=PATIENCE) as theirs:
        way = link(ours, theirs, Scope(), reached=source.url)
        work = Replication(ours, copying(ours, theirs, way, CopyReport()), way, StateInMemory())
        while work.advance():
            pass
        register(source, "s", '{"type":  "object"}')
        register(source, "t", '{"type":  "string"}')
        source.send("DELETE", f"{SCHEMAS}/schemagroups/g/schemas/s/versions/1")
        while work.advance():
            pass
    paths = {"s/versions/1": 404, "s/versions/4": 200, "t/versions/1": 200}
    base = f"{source.url}{SCHEMAS}/schemagroups/g/schemas"
    assert {path: lookup(two, f"{base}/{path}").status_code for path in paths} == paths
