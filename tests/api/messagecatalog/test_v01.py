"""The API of 0.1."""

from typing import Any
from urllib.parse import quote

import pytest
from tests.api.conftest import Client, Serve

from signalbook.engine import capabilities
from signalbook.storage.store import Store

FIRST = "/compat/messagecatalog/v0"
MOUNT = "/compat/messagecatalog/v0.1"
ROOT = f"{MOUNT}/messagecatalog"
DEFINITIONS = f"{ROOT}/g/messagedefinitions"
EVENT = {"attributes": {"type": {"value": "a.b", "required": True}, "subject": {"required": True}}}
STAMPS = ("createdtimeutc", "updatedtimeutc")


def post(book: Client, definition: Any = EVENT, id: str = "a.b", **document: Any) -> Any:
    return book.send("POST", DEFINITIONS, json={"id": id, "definition": definition, **document})


def event(id: str) -> Any:
    return {"attributes": {"type": {"value": id}}}


def told(answer: Any) -> Any:
    """The body without what only the server knows."""
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name not in (*STAMPS, "specversion")}


@pytest.fixture
def group(book: Client) -> Client:
    """A registry with one group of CloudEvents."""
    assert book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "CloudEvents"}).status_code == 200
    return book


def test_groups(book: Client) -> None:
    """Groups are created by POST or PUT, and listed as objects (C-2, C-28, C-30, C-32)."""
    document = {"id": "g", "specversion": "0.1", "format": "MQTT", "tags": "b,a", "documentation": "# T"}
    created = book.send("POST", ROOT, json=document)
    assert (created.status_code, created.headers["Location"]) == (201, f"http://r.example{ROOT}/g")
    assert book.send("POST", ROOT, json=document).status_code == 409
    changed = book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "MQTT", "description": "d"})
    assert changed.headers["Location"] == created.headers["Location"]
    assert told(changed) == {"id": "g", "format": "MQTT", "description": "d"}
    assert told(book.get(f"{ROOT}/g")) == told(changed)
    assert book.get(ROOT).json() == [book.get(f"{ROOT}/g").json()]
    assert book.get(f"{ROOT}/g").json()["specversion"] == "0.1"
    assert book.send("DELETE", f"{ROOT}/g").status_code == 204
    assert book.get(f"{ROOT}/g").status_code == 404


def test_response_has_the_correlation_id_of_its_events(book: Client) -> None:
    """The correlation id of the events (E) is in the answer, through this API too."""
    answer = book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "CloudEvents"})
    ids = {event["xregcorrelationid"] for event in book.get("/events").json()}
    assert answer.headers["xRegistry-xregcorrelationid"] in ids


def test_id_and_format_of_a_group_are_fixed(book: Client) -> None:
    """The rule also applies to a group without definitions (C-2, C-30)."""
    book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "MQTT"})
    assert book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "AMQP"}).status_code == 409
    assert book.put(f"{ROOT}/g", {"id": "h", "format": "MQTT"}).status_code == 400
    assert book.put(f"{ROOT}/g", {"format": "MQTT", "specversion": "0.2"}).status_code == 400


def test_versions(group: Client) -> None:
    """C-4, C-6, C-7, C-10, C-33 to C-35, A-19, A-45."""
    first = post(group, description="d", version=17)
    assert told(first) == {"id": "a.b", "format": "CloudEvents", "description": "d", "version": 1, "definition": EVENT}
    assert first.headers["Location"] == f"http://r.example{DEFINITIONS}/a.b/versions/1"
    assert post(group).json() == first.json()
    second = post(group, documentation="of all versions")
    assert second.json()["version"] == 2
    assert group.get(f"{DEFINITIONS}/a.b").json() == second.json()
    versions = group.get(f"{DEFINITIONS}/a.b/versions").json()
    assert [(version["version"], version["documentation"]) for version in versions] == [
        (n, "of all versions") for n in (1, 2)
    ]
    assert group.get(f"{DEFINITIONS}/a.b/versions/1").json() == versions[0]
    assert group.get(DEFINITIONS).json() == [second.json()]
    for path in ("a.b", "a.b/versions/1"):
        head = group.send("HEAD", f"{DEFINITIONS}/{path}")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == str(len(group.get(f"{DEFINITIONS}/{path}").content))
    assert [group.send("DELETE", f"{DEFINITIONS}/a.b/versions/{number}").status_code for number in (2, 1)] == [204, 204]
    assert group.get(f"{DEFINITIONS}/a.b").status_code == 404  # C-8


def test_trailing_slash_is_ignored(group: Client) -> None:
    """A slash at the end of the path is ignored (C-34)."""
    answer = group.send("POST", f"{DEFINITIONS}/", json={"id": "a.b", "definition": EVENT})
    assert told(answer)["version"] == 1
    assert group.get(f"{ROOT}/").json()[0]["id"] == "g"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
@pytest.mark.parametrize("path", ["a.b", "a.b/versions/1"])
def test_versions_are_never_modified(group: Client, method: str, path: str) -> None:
    """Methods that would modify a version are rejected with 405 (C-7)."""
    post(group)
    answer = group.send(method, f"{DEFINITIONS}/{path}", json={})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS, DELETE")


def test_fixed_attributes_cannot_change(group: Client) -> None:
    """B-6, C-3, C-10."""
    post(group, authority="urn:example:x")
    assert post(group, event("c")).status_code == 409
    assert post(group, authority="urn:example:y").status_code == 409
    assert post(group, format="AMQP").status_code == 400


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="C-3 an id"),
        pytest.param({"id": "a b", "definition": EVENT}, id="L-4"),
        pytest.param({"id": "a.b"}, id="C-4 a definition"),
        pytest.param({"id": "a.b", "versions": []}, id="C-8 a version"),
        pytest.param({"id": "a.b", "definition": event("c")}, id="C-25"),
        pytest.param({"id": "a.b", "definition": EVENT, "authority": "cloudevents.io"}, id="L-19"),
        pytest.param({"id": "a.b", "definition": EVENT, "relatedto": "none"}, id="C-15"),
        pytest.param({"id": "a.b", "definition": EVENT, "relatedvia": "none"}, id="C-17"),
        pytest.param({"id": "a.b", "definition": {**EVENT, "data": {}}}, id="C-25 a section that is none"),
        pytest.param({"id": "a.b", "definition": EVENT, "specversion": "1"}, id="C-3 specversion"),
        pytest.param({"id": "a.b", "definition": []}, id="C-4 an object"),
        pytest.param({"id": "a.b", "versions": [5]}, id="C-9 objects"),
        pytest.param({"id": "a.b", "versions": [{"version": 1, "definition": EVENT, "format": "AMQP"}]}, id="C-10"),
        pytest.param([], id="no object"),
    ],
)
def test_invalid_definitions_are_rejected(group: Client, document: Any) -> None:
    answer = group.send("POST", DEFINITIONS, json=document)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert group.get(DEFINITIONS).json() == []


def test_every_fault_is_reported(group: Client) -> None:
    answer = post(group, {"attributes": {"A": {}, "time": {"value": "now"}}}, authority="x").json()
    paths = "definition.attributes.A definition.attributes.time.value definition.attributes.type authority"
    assert " ".join(fault["path"] for fault in answer["faults"]) == paths


def test_a_document_with_several_versions_is_posted_as_such(group: Client) -> None:
    """The response has several versions too (C-9)."""
    other = {"attributes": {**EVENT["attributes"], "colour": {"value": "red"}}}
    versions = [{"version": 1, "definition": EVENT}, {"version": 2, "definition": other}]
    document = {"id": "a.b", "description": "d", "versions": versions}
    answer = told(group.send("POST", DEFINITIONS, json=document))
    assert [(version["version"], version["definition"]) for version in answer["versions"]] == [(1, EVENT), (2, other)]
    assert answer["description"] == "d"
    assert group.get(f"{DEFINITIONS}/a.b").json()["version"] == 2


def test_groups_with_definitions(book: Client) -> None:
    """Relations may point forward, definitions may be lists or maps, and unnamed definitions are kept (C-1, C-12, C-15,
    C-31).
    """
    definitions = [
        {"id": "reply", "relatedto": "ask", "relation": "reply", "definition": {"pub": {"subject": {"value": "r"}}}},
        {"id": "ask", "definition": {"pub": {"subject": {"value": "q"}}}},
    ]
    body = {"specversion": "0.1", "format": "NATS", "definitions": definitions}
    assert book.put(f"{ROOT}/g", body).status_code == 200
    assert [definition["id"] for definition in book.get(DEFINITIONS).json()] == ["ask", "reply"]
    assert book.put(f"{ROOT}/g", {**body, "definitions": {"more": definitions[1] | {"id": "more"}}}).is_success
    assert book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "NATS"}).is_success
    whole = book.get(f"{ROOT}/g?definitions=all").json()
    assert list(whole["definitions"]) == ["ask", "more", "reply"]
    assert whole["definitions"]["reply"]["versions"][0]["definition"] == definitions[0]["definition"]
    assert book.put(f"{ROOT}/copy", {**whole, "id": "copy"}).is_success
    assert len(book.get(f"{ROOT}/copy/messagedefinitions").json()) == 3
    wrong = {**body, "definitions": {"a": {"id": "b", "definition": {}}}}
    assert book.put(f"{ROOT}/h", wrong).status_code == 400
    assert book.get(f"{ROOT}/h").status_code == 404


def test_group_requires_its_specversion(book: Client) -> None:
    """The rule applies to POST and PUT, and to new and existing groups (C-2)."""
    body = {"id": "g", "format": "NATS"}
    for method, path in (("POST", ROOT), ("PUT", f"{ROOT}/g")):
        refused = book.send(method, path, json=body)
        assert (refused.status_code, [fault["path"] for fault in refused.json()["faults"]]) == (400, ["specversion"])
        assert book.send(method, path, json={**body, "specversion": "0.1"}).is_success
        assert book.send(method, path, json={**body, "specversion": None}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/messagegroups/g/messages/ask", f"{DEFINITIONS}/ask", f"{DEFINITIONS}/ask/versions/1"]
)
def test_a_relation_ends_with_the_definition(group: Client, path: str) -> None:
    """The deletion may come through either API; a group can be put as it was shown, and the next version has no
    relation (C-15).
    """
    post(group, event("ask"), "ask")
    assert post(group, event("reply"), "reply", relatedto="ask", relation="reply").json()["relatedto"] == "ask"
    assert group.send("DELETE", path).status_code == 204
    group_document = group.get(f"{ROOT}/g?definitions=all").json()
    definition = group_document["definitions"]["reply"]
    for stored in (definition, group.get(f"{DEFINITIONS}/reply").json(), group.get(DEFINITIONS).json()[0]):
        assert ("relatedto" in stored, stored["relation"]) == (False, "reply")
    assert group.get(f"{DEFINITIONS}?filter=relatedto").json() == []
    assert group.put(f"{ROOT}/copy", {**group_document, "id": "copy"}).status_code == 200
    later = post(group, {"attributes": {**event("reply")["attributes"], "colour": {}}}, "reply")
    assert (later.json()["version"], "relatedto" in later.json()) == (2, False)
    post(group, event("ask"), "ask")
    assert "relatedto" not in group.get(f"{DEFINITIONS}/reply").json()


def test_version_numbers_are_not_reused(group: Client) -> None:
    """A definition that is created again continues the numbers, regardless of what was deleted through which API (A-19,
    B-5).
    """
    catalog, at_root = f"{ROOT}/g", "/messagegroups/g"
    paths = (f"{DEFINITIONS}/a.b", f"{at_root}/messages/a.b", DEFINITIONS, catalog, at_root)
    for number, path in enumerate(paths, 1):
        if not group.get(catalog).is_success:
            group.put(catalog, {"specversion": "0.1", "format": "CloudEvents"})
        assert post(group).json()["version"] == number
        assert group.send("DELETE", path).status_code == 204


def test_search_by_one_tag(group: Client) -> None:
    """Definitions and groups can be searched; the tags together are a value too (C-29)."""
    post(group, tags="red, blue,green")
    group.put(f"{ROOT}/h", {"specversion": "0.1", "format": "NATS", "tags": "red,small"})
    for tag, count in [("red", 1), ("blue", 1), ("green", 1), ("re", 0), ("red, blue,green", 1), ("red,green", 0)]:
        assert len(group.get(DEFINITIONS, params={"filter": f"tags={tag}"}).json()) == count
    assert [entity["id"] for entity in group.get(f"{ROOT}?filter=tags=small").json()] == ["h"]


def test_cycles_of_relations_are_allowed(group: Client) -> None:
    """Definitions can be related to each other in a cycle (C-18)."""
    post(group, event("a"), "a")
    post(group, event("b"), "b", relatedto="a", relation="followup")
    assert post(group, event("a"), "a", relatedto="b", relation="our own").status_code == 200
    assert group.get(f"{DEFINITIONS}/a").json()["relatedto"] == "b"


def test_features(book: Client) -> None:
    """The features are listed with the methods, and for a preflight too (C-27, L-21)."""
    preflight = {"Origin": "http://x.example", "Access-Control-Request-Method": "GET"}
    for headers in ({}, preflight):
        answer = book.send("OPTIONS", ROOT, headers=headers)
        assert answer.status_code == 200
        features = answer.json()
        assert "id" in features["filterattributes"]
        assert features["pagination"] is features["update"] is features["updates"] is True
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, POST"
        assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, OPTIONS, POST"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert book.send("OPTIONS", f"{ROOT}/g").content == b""
    assert book.send("OPTIONS", "/compat/messagecatalog/v0/messagecatalog").content == b""


def test_a_read_only_catalog(group: Client) -> None:
    """A read-only catalog lists no methods that write (C-37)."""
    post(group)
    available = capabilities.list_initial()["available"] | {"entities": {"mutable": False}}
    assert group.send("PATCH", "/capabilities", json={"available": available}).status_code == 200
    assert group.send("OPTIONS", ROOT).json()["update"] is False
    for method, path in (("POST", ROOT), ("PUT", f"{ROOT}/g"), ("POST", DEFINITIONS), ("DELETE", f"{DEFINITIONS}/a.b")):
        answer = group.send(method, path, json={})
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    first = "/compat/messagecatalog/v0/messagecatalog/g"
    assert group.put(first, {"format": "CloudEvents"}).status_code == 405
    assert group.get(f"{DEFINITIONS}/a.b").status_code == 200


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        pytest.param("filter=id=a", ["a"], id="equal"),
        pytest.param("filter=id=A", [], id="case counts"),
        pytest.param("filter=description", ["b", "c"], id="not empty"),
        pytest.param("filter=description=x&filter=id=c", ["c"], id="all of them"),
        pytest.param("filter=version=1&unknown=1", ["a", "b", "c"], id="a number, an unknown parameter"),
        pytest.param("filter=definition.attributes.colour.value=red", ["b"], id="nested"),
    ],
)
def test_filters(group: Client, query: str, ids: list[str]) -> None:
    """Definitions can be filtered by their attributes (C-29)."""
    post(group, event("a"), "a")
    post(group, {"attributes": {**event("b")["attributes"], "colour": {"value": "red"}}}, "b", description="x")
    post(group, event("c"), "c", description="x")
    answer = group.get(f"{DEFINITIONS}?{query}")
    assert (answer.status_code, [definition["id"] for definition in answer.json()]) == (200, ids)


def test_group_filters_and_unknown_filters(book: Client) -> None:
    """Groups can be filtered; unknown filters are rejected (C-29)."""
    for name, form in (("a", "NATS"), ("b", "AMQP")):
        book.put(f"{ROOT}/{name}", {"specversion": "0.1", "format": form})
    assert [group["id"] for group in book.get(f"{ROOT}?filter=format=AMQP").json()] == ["b"]
    for query in ("filter=colour=red", "filter=definition.x"):
        assert book.get(f"{ROOT}?{query}").status_code == 400


@pytest.mark.parametrize("filter", ["", "&filter=format=NATS"])
def test_pages(book: Client, filter: str) -> None:
    """Lists are paginated, with and without a filter (C-38)."""
    for number in range(5):
        book.put(f"{ROOT}/g{number}", {"specversion": "0.1", "format": "NATS"})
    url, seen = f"{ROOT}?limit=2{filter}", []
    while url:
        answer = book.get(url)
        seen.append([group["id"] for group in answer.json()])
        links = {part.split(";")[1]: part for part in answer.headers["Link"].split(", ") if "cursor" in part}
        assert all(part.endswith("count=5") for part in links.values())
        assert ("rel=first" in links) is (len(seen) > 1)
        url = links["rel=next"][1:].partition(">")[0] if "rel=next" in links else ""
    assert seen == [["g0", "g1"], ["g2", "g3"], ["g4"]]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", f"limit={2**64}", "cursor=x", "limit=1&cursor=x"])
def test_invalid_page_is_rejected(book: Client, query: str) -> None:
    """Invalid limits and cursors are rejected (C-38)."""
    assert book.get(f"{ROOT}?{query}").status_code == 400


def test_a_cursor_is_of_one_list(group: Client) -> None:
    for name in ("a", "b"):
        post(group, event(name), name)
    link = next(part for part in group.get(f"{DEFINITIONS}?limit=1").headers["Link"].split(", ") if "next" in part)
    cursor = link.partition("cursor=")[2].partition(">")[0]
    assert group.get(f"{DEFINITIONS}?cursor={cursor}").json()[0]["id"] == "b"
    assert group.get(f"{ROOT}?cursor={cursor}").status_code == 400


def test_lookup(group: Client) -> None:
    """An imported version has its URI in an attribute (C-4, C-36, L-5)."""
    post(group, versionuri="urn:x:1")
    assert group.get(f"{MOUNT}/messagedefinition?uri=urn:x:1").json()["versionuri"] == "urn:x:1"
    assert group.send("HEAD", f"{MOUNT}/messagedefinition?uri=urn:x:1").status_code == 200
    second = {"attributes": {**EVENT["attributes"], "colour": {}}}
    assert "versionuri" not in post(group, second).json()
    assert post(group, {"attributes": {**EVENT["attributes"], "size": {}}}, versionuri="urn:x:1").status_code == 409


def test_a_versions_path_is_its_own(group: Client) -> None:
    """The path is reserved in both catalogs, before and after the definition is created (B-5, C-36)."""
    path = "/messagecatalog/g/messagedefinitions/future/versions/1"
    for before in (True, False):
        for claim in (path, *(f"{root}{api}{path}" for root in ("http://r.example", "") for api in (MOUNT, FIRST))):
            refused = post(group, event("evil"), "evil", versionuri=claim)
            assert (refused.status_code, "future" in refused.json()["detail"]) == (409, True)
            first = f"/compat/messagecatalog/v0/messagecatalog/g/messagedefinitions/evil?id={quote(claim, safe='')}"
            assert group.send("POST", first, json={"attributes": {"type": "evil"}}).status_code == 409
        if before:
            assert post(group, event("future"), "future").status_code == 200
    assert group.get(f"{MOUNT}/messagedefinition", params={"uri": path}).json()["id"] == "future"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/messagecatalogue", 404),
        ("GET", "/messagecatalog/g/messages", 404),
        ("GET", "/messagecatalog/g/messagedefinitions/a/versions/0", 404),
        ("GET", "/messagecatalog/g/messagedefinitions/a/versions/99999999999999999999", 404),
        ("GET", "/messagecatalog/g/messagedefinitions/a/versions/1/x", 404),
        ("GET", "/messagecatalog/" + "x" * 5000, 400),
        ("GET", "/messagecatalog/..%2F..", 404),
        ("GET", "/messagecatalog?" + "a&" * 200, 400),
        ("GET", "/messagecatalog?filter=%FF", 400),
        ("TRACE", "/messagecatalog", 405),
        ("PATCH", "/messagecatalog", 405),
    ],
)
def test_hostile_requests(book: Client, method: str, path: str, status: int) -> None:
    assert book.send(method, f"{MOUNT}{path}").status_code == status


def test_a_model_without_messages_has_no_catalog(store: Store, serve: Serve) -> None:
    book = serve(store, model="empty")
    assert book.get(ROOT).status_code == 404
    assert book.put(f"{ROOT}/g", {"specversion": "0.1", "format": "NATS"}).status_code == 404
    for path in (ROOT, f"{ROOT}/g", "/compat/messagecatalog/v0/messagecatalog"):
        assert book.send("OPTIONS", path).status_code == 404, path


def test_change_is_visible_to_all_readers(group: Client) -> None:
    """The API has no epochs, but they grow (J-22)."""
    tag = group.get(f"{ROOT}/g").headers["ETag"]
    assert group.get(f"{ROOT}/g", headers={"If-None-Match": tag}).status_code == 304
    epoch = group.get("/messagegroups/g").json()["epoch"]
    group.put(f"{ROOT}/g", {"specversion": "0.1", "format": "CloudEvents", "description": "new"})
    assert group.get(f"{ROOT}/g", headers={"If-None-Match": tag}).status_code == 200
    assert group.get("/messagegroups/g").json()["epoch"] > epoch


@pytest.mark.parametrize(("header", "right"), [("If-None-Match", False), ("If-Match", True)])
def test_conditions_of_writes(group: Client, header: str, right: bool) -> None:
    tag = group.get(f"{ROOT}/g").headers["ETag"]
    body = {"specversion": "0.1", "format": "CloudEvents", "description": "new"}
    assert group.send("PUT", f"{ROOT}/g", json=body, headers={header: tag}).is_success is right
    assert group.send("PUT", f"{ROOT}/h", json=body, headers={"If-Match": "*"}).status_code == 412


def test_documents_of_a_group_are_written_atomically(group: Client) -> None:
    """A single transaction writes all documents, and its changes are events of every dialect (J-21)."""
    document = {"id": "a.b", "versions": [{"definition": EVENT}, {"definition": event("c")}]}
    before = group.get("/events").json()
    assert group.send("POST", DEFINITIONS, json=document).status_code == 400
    assert group.get("/events").json() == before
    post(group)
    subjects = [changed["subject"] for changed in group.get("/events").json()[len(before) :]]
    assert "/messagegroups/g/messages/a.b/versions/1" in subjects
