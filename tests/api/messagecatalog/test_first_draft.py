"""The API of the first draft."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.api.conftest import Client

MOUNT = "/compat/messagecatalog/v0"
ROOT = f"{MOUNT}/messagecatalog"
DEFINITION = f"{ROOT}/g/messagedefinitions/a.b"
EVENT = b'{ "id" : "a.b",  "attributes" : { "specversion" : "1.0", "type" : "a.b", "subject": "" } }'
CONTENT_TYPE = "application/json; charset=utf-8; x=1"


def post(book: Client, body: bytes = EVENT, path: str = DEFINITION, **headers: str) -> Any:
    sent = {"Content-Type": CONTENT_TYPE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return book.send("POST", path, content=body, headers=sent)


@pytest.fixture
def group(book: Client) -> Client:
    """A registry with one group of CloudEvents."""
    assert book.put(f"{ROOT}/g", {"format": "CloudEvents"}).status_code == 201
    return book


def test_groups(book: Client) -> None:
    """PUT creates and changes groups, and returns the effective attributes (B-1, B-18, A-44)."""
    assert book.get(ROOT).json() == []
    sent = {"id": "g", "format": "AMQP", "description": "d"}
    created = book.put(f"{ROOT}/g", {**sent, "createdtimeutc": "ignored"})
    assert (created.status_code, created.headers["Location"]) == (201, f"http://r.example{ROOT}/g")
    assert {name: created.json()[name] for name in sent} == sent
    changed = book.put(f"{ROOT}/g", {"format": "NATS"})
    assert (changed.status_code, changed.json()["format"]) == (200, "NATS")
    assert "description" not in changed.json()
    assert book.get(f"{ROOT}/g").json() == changed.json()
    assert book.get(ROOT).json() == ["g"]
    assert book.send("DELETE", f"{ROOT}/g").status_code == 204
    assert [book.send(method, f"{ROOT}/g").status_code for method in ("GET", "DELETE")] == [404, 404]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("g", {}, id="B-1 format is required"),
        pytest.param("g", {"format": ""}, id="B-1 and not empty"),
        pytest.param("g", {"id": "h", "format": "AMQP"}, id="A-44 another id"),
        pytest.param("a:b", {"format": "AMQP"}, id="A-2 a colon"),
        pytest.param("x" * 129, {"format": "AMQP"}, id="A-2 too long"),
        pytest.param("g", [], id="no object"),
    ],
)
def test_invalid_groups_are_rejected(book: Client, path: str, body: Any) -> None:
    answer = book.put(f"{ROOT}/{path}", body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert book.get(ROOT).json() == []


def test_format_of_a_group_with_definitions_cannot_change(group: Client) -> None:
    """A group with definitions cannot change its format (B-2)."""
    post(group)
    assert group.put(f"{ROOT}/g", {"format": "AMQP"}).status_code == 409
    assert group.put(f"{ROOT}/g", {"format": "CloudsEvents", "description": "B-3"}).status_code == 200


def test_documents_come_back_as_they_were_sent(group: Client) -> None:
    """B-20, B-21, A-46, A-48, A-49."""
    created = post(group, messagedefinition_description="Food%20%C3%B6rder")
    assert (created.status_code, created.json()) == (200, {"id": "/messagecatalog/g/messagedefinitions/a.b/versions/1"})
    for path in (DEFINITION, f"{DEFINITION}/versions/1"):
        answer = group.get(path)
        assert answer.content == EVENT
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert answer.headers["MessageDefinition-Version"] == "1"
        assert answer.headers["MessageDefinition-Format"] == "CloudEvents"
        assert answer.headers["MessageDefinition-Description"] == "Food%20%C3%B6rder"
        assert answer.headers["MessageDefinition-Id-Location"] == f"http://r.example{DEFINITION}/versions/1"
        head = group.send("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["MessageDefinition-Id"] == created.json()["id"]


def test_versions_are_counted(group: Client) -> None:
    """Identical content is the existing version (B-5, B-9, B-19, A-19, A-45, A-51, B-24)."""
    post(group)
    second = EVENT.replace(b'"subject": ""', b'"subject": "x"')
    assert post(group, second).headers["MessageDefinition-Version"] == "2"
    assert post(group).headers["MessageDefinition-Version"] == "1"
    assert group.get(f"{DEFINITION}/versions").json() == [1, 2]
    assert group.get(DEFINITION).content == second
    assert group.send("DELETE", f"{DEFINITION}/versions/2").status_code == 204
    assert group.get(DEFINITION).content == EVENT
    assert group.get(f"{DEFINITION}/versions/2").status_code == 404
    assert post(group, second).headers["MessageDefinition-Version"] == "3"
    assert group.get(f"{ROOT}/g/messagedefinitions").json() == ["a.b"]
    assert group.send("DELETE", f"{ROOT}/g/messagedefinitions").status_code == 204
    assert group.get(f"{ROOT}/g/messagedefinitions").json() == []


def test_the_content_type_counts_for_identity(group: Client) -> None:
    """A different content type makes another version (A-45)."""
    post(group)
    assert group.send("POST", DEFINITION, content=EVENT).headers["MessageDefinition-Version"] == "2"
    assert group.get(DEFINITION).headers["Content-Type"] == "application/octet-stream"


def test_another_description_is_another_version(group: Client) -> None:
    """The same bytes with another description are a new version (A-45, B-5)."""
    path, sent = f"{ROOT}/g/messagedefinitions/a.b", b'{"attributes": {"type": "a.b"}}'

    def number(query: str) -> str:
        answer = group.send("POST", f"{path}{query}", content=sent)
        assert answer.status_code == 200, answer.text
        return str(answer.headers["MessageDefinition-Version"])

    queries = ["?description=one", "", "?description=one", "?description=two", "?description=one", "?authority=urn:a"]
    assert [number(query) for query in queries] == ["1", "1", "1", "2", "1", "3"]
    assert group.get(f"{path}/versions/2").headers["MessageDefinition-Description"] == "two"


def test_custom_attributes_are_not_sections(group: Client) -> None:
    """Custom attributes stay in the document; an object that is no section is rejected (B-4, B-12)."""
    path = f"{ROOT}/g/messagedefinitions/a.b"
    custom = {"attributes": {"type": "a.b"}, "colour": "red", "sizes": [1]}
    assert group.send("POST", path, json=custom).status_code == 200
    assert group.get(path).json() == custom
    group_document = group.get("/compat/messagecatalog/v0.1/messagecatalog/g?definitions=all").json()
    assert (
        group.put("/compat/messagecatalog/v0.1/messagecatalog/copy", {**group_document, "id": "copy"}).status_code
        == 200
    )
    refused = group.send("POST", path, json={**custom, "data": {}})
    assert (refused.status_code, refused.json()["faults"][0]["path"]) == (400, "data")


def test_the_identity_of_a_definition_stays(group: Client) -> None:
    """Ids are types, so two definitions of a group cannot have the same type (B-6, B-7)."""
    post(group, messagedefinition_authority="urn:example:x")
    assert post(group, EVENT.replace(b'"type" : "a.b"', b'"type" : "c"')).status_code == 409
    other = EVENT.replace(b'""', b'"y"')
    assert post(group, other).headers["MessageDefinition-Authority"] == "urn:example:x"
    last = post(group, EVENT.replace(b'""', b'"z"'), messagedefinition_authority="urn:example:y")
    assert (last.status_code, last.headers["MessageDefinition-Authority"]) == (200, "urn:example:y")
    assert post(group, EVENT, f"{ROOT}/g/messagedefinitions/c").status_code == 400


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        pytest.param("description=x", {"description": "x"}, 200, id="A-47 both say so"),
        pytest.param("description=x", {"description": "y"}, 400, id="A-47 they differ"),
        pytest.param("", {"format": "AMQP"}, 400, id="B-4 another format"),
        pytest.param("format=CloudEvents", {}, 200, id="B-4 the group's"),
        pytest.param("authority=x.example", {}, 400, id="A-13 no URI"),
        pytest.param("", {"description": "%FF"}, 400, id="no UTF-8"),
        pytest.param("id=a%20b", {}, 400, id="A-20 no URI reference"),
    ],
)
def test_attributes_in_query_and_headers(group: Client, query: str, headers: Any, status: int) -> None:
    message_headers = {f"messagedefinition_{name}": value for name, value in headers.items()}
    assert post(group, EVENT, f"{DEFINITION}?{query}", **message_headers).status_code == status


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"id":"x"}', b"null", b'{"attributes":' + b"[" * 100 + b"]" * 100]
)
def test_invalid_documents_are_rejected(group: Client, body: bytes) -> None:
    """B-10, B-23."""
    answer = post(group, body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
    assert group.get(f"{ROOT}/g/messagedefinitions").json() == []


def test_custom_formats_take_any_document(book: Client) -> None:
    """B-2, B-20."""
    book.put(f"{ROOT}/g", {"format": "our own"})
    body = bytes(range(256))
    assert post(book, body, messagedefinition_description="d").status_code == 200
    assert book.get(DEFINITION).content == body


BASE, EXAMPLE = f"http://r.example{MOUNT}", "http://messagecatalog.example.com/"


@pytest.mark.parametrize(
    ("authority", "id", "uri"),
    [
        pytest.param("", "342", f"{BASE}/342", id="empty"),
        pytest.param(BASE, "342", f"{BASE}/342", id="L-3"),
        pytest.param(EXAMPLE, "/g/x/versions/2", f"{EXAMPLE}g/x/versions/2", id="path"),
        pytest.param(EXAMPLE, "http://md.example.org/41751", "http://md.example.org/41751", id="absolute"),
        pytest.param("urn:example:messagecatalog", "a1b2c3d4", "urn:example:messagecatalog:a1b2c3d4", id="urn"),
        pytest.param("", "", f"{BASE}/messagecatalog/g/messagedefinitions/a.b/versions/1", id="A-30 implied"),
        pytest.param("urn:x", "", "urn:x:/messagecatalog/g/messagedefinitions/a.b/versions/1", id="A-28 implied id"),
    ],
)
def test_versions_are_found_by_their_uri(group: Client, authority: str, id: str, uri: str) -> None:
    """The URI works in both APIs (B-8, B-22, A-54)."""
    query = urlencode({name: value for name, value in {"authority": authority, "id": id}.items() if value})
    assert post(group, path=f"{DEFINITION}?{query}").status_code == 200
    for method in ("GET", "HEAD"):
        answer = group.send(method, f"{MOUNT}/messagedefinition", params={"uri": uri})
        assert (answer.status_code, answer.headers["MessageDefinition-Version"]) == (200, "1")
    assert group.get(f"{MOUNT}.1/messagedefinition", params={"uri": uri}).json()["version"] == 1


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?uri=", 400), ("?uri=a&uri=b", 400), ("?uri=urn:none", 404)]
)
def test_unknown_uris_are_not_found(group: Client, query: str, status: int) -> None:
    """The path is that of 0.1, not that of the printed draft (A-43b, B-22)."""
    assert group.get(f"{MOUNT}/messagedefinition{query}").status_code == status


def test_a_version_with_an_id_of_its_own_is_another(group: Client) -> None:
    """Otherwise, a copy of two equal versions would lose one URI (A-45, D-7)."""
    answers = [post(group, messagedefinition_id=name) for name in ("u:1", "u:2", "u:1")]
    assert [answer.headers["MessageDefinition-Version"] for answer in answers] == ["1", "2", "1"]


def test_a_uri_is_of_one_version(group: Client) -> None:
    """A URI that another version has is rejected (A-21)."""
    assert post(group, messagedefinition_id="urn:x:1").status_code == 200
    answer = post(group, EVENT.replace(b'""', b'"y"'), messagedefinition_id="urn:x:1")
    assert (answer.status_code, "urn:x:1" in answer.json()["detail"]) == (409, True)


def test_ids_with_what_xregistry_does_not_take(group: Client) -> None:
    """J-19, J-20, A-2."""
    body = EVENT.replace(b"a.b", b"a!(b)")
    assert post(group, body, f"{ROOT}/g/messagedefinitions/a!(b)").status_code == 200
    assert group.get(f"{ROOT}/g/messagedefinitions/a%21%28b%29").content == body
    spaced = post(group, EVENT.replace(b"a.b", b"a%20b"), f"{ROOT}/g/messagedefinitions/a%20b")
    assert group.get(spaced.headers["Location"]).headers["MessageDefinition-Id"] == spaced.json()["id"]
    assert group.send("DELETE", f"{ROOT}/g/messagedefinitions/a%20b").status_code == 204
    assert group.get(f"{ROOT}/g/messagedefinitions").json() == ["a!(b)"]
    assert list(group.get("/messagegroups/g/messages").json()) == ["a~21~28b~29"]
    assert group.put(f"{ROOT}/G", {"format": "AMQP"}).status_code == 409


def test_message_written_by_xregistry_is_a_document(book: Client) -> None:
    """Versions without a number are not visible (J-10, J-13, J-18)."""
    metadata = {"type": {"value": "a.b"}, "subject": {"value": "{x}", "required": True}}
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "description": "d"}
    book.put("/messagegroups/g", {"envelope": "CloudEvents/1.0"})
    book.put("/messagegroups/g/messages/a.b/versions/v1", message)
    book.put("/messagegroups/g/messages/a.b/versions/7", message)
    book.put("/messagegroups/g/messages/only/versions/v1", message)
    answer = book.get(DEFINITION)
    assert answer.headers["MessageDefinition-Version"] == "7"
    members = {"id": "a.b", "format": "CloudEvents", "version": 7, "description": "d"}
    assert json.loads(answer.content) == {**members, "attributes": {"type": "a.b", "subject": "{x}"}}
    assert book.get(f"{DEFINITION}/versions").json() == [7]
    assert book.get(f"{ROOT}/g/messagedefinitions").json() == ["a.b"]
    assert book.get(f"{ROOT}/g/messagedefinitions/only").status_code == 404
    same = book.send("POST", DEFINITION, content=answer.content, headers={"Content-Type": "application/json"})
    assert same.headers["MessageDefinition-Version"] == "7"


def test_message_includes_its_base_message(book: Client) -> None:
    """A message shows the attributes that it inherits (J-18)."""
    base = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "base"}, "colour": {"value": "red"}}}
    book.put("/messagegroups/g", {"envelope": "CloudEvents/1.0"})
    book.put("/messagegroups/g/messages/base", base)
    metadata = {"type": {"value": "a.b"}}
    derived = {"basemessage": "/messagegroups/g/messages/base", "envelope": "CloudEvents/1.0"}
    assert book.put("/messagegroups/g/messages/a.b", {**derived, "envelopemetadata": metadata}).status_code == 201
    assert book.get(DEFINITION).json()["attributes"] == {"type": "a.b", "colour": "red"}
