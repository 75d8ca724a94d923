"""Schemas and their versions: documents in, documents out."""

import pytest
from tests.api.schemaregistry.conftest import BASE, INT, LONG, TEXT, Schemas

S = "/schemagroups/g/schemas/s"


def test_the_first_version_and_the_next(filled: Schemas) -> None:
    """A-12, A-19, A-39, A-42, A-45, A-46"""
    answer = filled.post("g/s", TEXT)
    path = f"{S}/versions/3"
    assert (answer.status_code, answer.json()) == (200, {"id": path})
    headers = {name: answer.headers[name] for name in ("Location", "Schema-Id", "Schema-Version")}
    assert headers == {"Location": f"{BASE}{path}", "Schema-Id": path, "Schema-Version": "3"}
    assert filled.get(answer.headers["Schema-Id-Location"].removeprefix(BASE)).content == TEXT
    assert filled.get(f"{S}/versions").json() == [1, 2, 3]
    assert filled.get("/schemagroups/g/schemas").json() == ["s"]


@pytest.mark.parametrize("path", [S, f"{S}/versions/2"])
def test_document_response_has_its_metadata(filled: Schemas, path: str) -> None:
    """A-18, A-23, A-40, A-43, A-46, A-48, A-49, A-50, J-9"""
    answer, head = filled.get(path), filled.send("HEAD", path)
    assert (answer.status_code, answer.content) == (200, LONG)
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8; x=1"
    assert (answer.headers["Schema-Version"], answer.headers["Schema-Format"]) == ("2", "avro")
    assert answer.headers["Location"] == f"{BASE}{S}/versions/2"
    assert "Schema-Description" not in answer.headers
    assert (head.status_code, head.content, head.headers) == (200, b"", answer.headers)


def test_attributes_by_query_and_by_header(filled: Schemas) -> None:
    """A-17, A-22, A-47, A-48"""
    filled.post("open/a", INT, "?format=avro&description=two%20w%C3%B6rds&id=urn:x:1")
    filled.post(
        "open/b", INT, schema_format="avro", schema_description="two%20w%C3%B6rds", schema_id="urn:x:2",
        schema_authority="https://a.example",
    )  # fmt: skip
    for name, uri in (("a", "urn:x:1"), ("b", "urn:x:2")):
        headers = filled.get(f"/schemagroups/open/schemas/{name}").headers
        assert (headers["Schema-Format"], headers["Schema-Id"]) == ("avro", uri)
        assert headers["Schema-Description"] == "two%20w%C3%B6rds"
        created = filled.other.get(f"/schemagroups/open/schemas/{name}$details").json()["createdat"]
        assert headers["Schema-Createdtimeutc"] == created
    assert headers["Schema-Authority"] == "https://a.example"


NO_ATTRIBUTES: list[tuple[str, dict[str, str]]] = [
    ("?description=a", {"schema_description": "b"}),
    ("", {"schema_authority": "not a uri"}),
    ("", {"schema_description": "%C0"}),
    *((f"?{query}{'x' * 5000}", {}) for query in ("description=", "id=urn:")),
    *((f"?{query}", {}) for query in ("description=a&description=b", "format=avro&format=json-schema", "format=")),
    *((f"?{query}", {}) for query in ("authority=example.com", "id=a%25b", "description=%ff")),
]


def test_invalid_attributes_are_rejected(filled: Schemas) -> None:
    """A-13, A-20, A-47"""
    for query, headers in NO_ATTRIBUTES:
        before = filled.state()
        sent = {"schema_format": "avro", **headers} if "format" not in query else headers
        answer = filled.post("open/a", INT, query, **sent)
        assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json"), answer.text
        assert filled.state() == before
    twice = filled.post("open/a", INT, "?format=avro&description=a&description=a", schema_format="avro")
    assert twice.status_code == 200


@pytest.mark.parametrize(
    ("id", "format", "status"),
    [
        ("open/s", "", 400),  # neither the group nor the schema has one
        ("open/s", "avro", 200),
        ("open/s", "json-schema", 200),
        ("open/s", "my-own", 200),
        ("g/t", "", 200),
        ("g/t", "avro", 400),  # the group has it: it is stated once
        ("g/t", "json-schema", 400),
    ],
)
def test_format_of_group_or_schema(filled: Schemas, id: str, format: str, status: int) -> None:
    """A-3, A-15, A-16"""
    answer = filled.post(id, INT if format != "json-schema" else b"{}", schema_format=format) if format else None
    answer = answer or filled.post(id, INT)
    assert answer.status_code == status, answer.text
    if status == 200:
        group, schema = id.split("/")
        schema_format = filled.get(f"/schemagroups/{group}/schemas/{schema}").headers["Schema-Format"]
        assert schema_format == (format or "avro")


def test_a_schema_keeps_its_format(filled: Schemas) -> None:
    """The second version may omit the format, and cannot change it (A-15, A-16)."""
    filled.post("open/s", INT, schema_format="avro")
    assert filled.post("open/s", LONG).headers["Schema-Version"] == "2"
    assert filled.post("open/s", TEXT, schema_format="avro").headers["Schema-Version"] == "3"
    assert filled.post("open/s", b"{}", schema_format="json-schema").status_code == 409


@pytest.mark.parametrize("contenttype", ["application/octet-stream", "text/plain; charset=x", "x/Y+json;a=B", None])
def test_content_type_is_as_it_was(filled: Schemas, contenttype: str | None) -> None:
    """The content type is kept for every format, and is the same through the API of xRegistry (A-49)."""
    sent = {} if contenttype is None else {"content_type": contenttype}
    filled.post("g/t", INT, **sent)
    answer = filled.get("/schemagroups/g/schemas/t")
    assert answer.headers["Content-Type"] == (contenttype or "application/octet-stream")
    assert filled.other.get("/schemagroups/g/schemas/t").headers.get("Content-Type") == contenttype


def test_bytes_are_as_they_were(filled: Schemas) -> None:
    """Bytes are returned unchanged (A-23)."""
    content = bytes(range(256)) * 10
    filled.post("open/b", content, schema_format="my-own")
    assert filled.get("/schemagroups/open/schemas/b/versions/1").content == content
    assert filled.other.get("/schemagroups/open/schemas/b").content == content


def test_a_document_again(filled: Schemas) -> None:
    """The response is the existing version; nothing is created, and no event is sent (A-45)."""
    before, event_count = filled.state(), len(filled.events())
    answer = filled.post("g/s", INT, schema_description="one")
    assert (answer.status_code, answer.headers["Schema-Version"]) == (200, "1")
    assert (filled.state(), len(filled.events())) == (before, event_count)
    assert filled.post("g/s", INT, content_type="text/plain").headers["Schema-Version"] == "3"
    assert filled.post("g/other", INT).headers["Schema-Version"] == "1"
    assert filled.post("g/s", INT, "?id=urn:x").headers["Schema-Version"] == "4"  # an id of its own is another version
    assert filled.post("g/s", INT, "?id=urn:x").headers["Schema-Version"] == "4"


@pytest.mark.parametrize("id", ["urn:x:1", "/schemagroups/g/schemas/s/versions/1"])
def test_an_id_is_taken_once(filled: Schemas, id: str) -> None:
    """The id is unique in the whole registry, even if it is the path of another version (A-20, A-21)."""
    filled.post("g/t", INT, "?id=urn:x:1")
    before = filled.state()
    for path in ("g/t", "open/u"):
        sent = {"schema_format": "avro"} if path == "open/u" else {}
        assert filled.post(path, LONG, f"?id={id}", **sent).status_code == 409
    assert filled.state() == before


def test_authority_is_kept_by_the_schema(filled: Schemas) -> None:
    """The authority applies to later versions; earlier ones keep their URIs (A-13, A-14)."""
    filled.post("g/s", TEXT, "?authority=urn:example:schemas")
    assert filled.post("g/s", b'{"type": "bytes"}').headers["Schema-Authority"] == "urn:example:schemas"
    assert "Schema-Authority" not in filled.get(f"{S}/versions/1").headers


SCHEMAS = "/schemagroups/g/schemas"
REFUSED = [
    ("/schemagroups/none/schemas/s", INT, 404),
    (f"{SCHEMAS}/a:b", INT, 400),
    (f"{SCHEMAS}/{'x' * 200}", INT, 400),
    *((f"{SCHEMAS}/s", content, 400) for content in (b"", b'{"type": "nonsense"}', b"\xff\xfe")),
]


def test_invalid_documents_are_rejected(filled: Schemas) -> None:
    for path, content, status in REFUSED:
        before = filled.state()
        answer = filled.send("POST", path, content=content)
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
        assert filled.state() == before


def test_compatibility(filled: Schemas) -> None:
    """The status is 409 if existing versions are contradicted, and 400 if the document itself is wrong (A-26)."""
    filled.other.send("PATCH", "/schemagroups/g/schemas/s/meta", json={"compatibility": "backward"})
    answer = filled.post("g/s", TEXT)
    assert (answer.status_code, answer.json()["status"]) == (409, 409)
    assert answer.json()["type"].endswith("#compatibility_violation")
    assert filled.post("g/s", b"{}").status_code == 400
    assert filled.get(f"{S}/versions").json() == [1, 2]


def test_deleting_versions(filled: Schemas) -> None:
    """Numbers are not reused, and deleting the last version deletes the schema (A-19, A-25, A-41, A-43, A-51)."""
    assert filled.send("DELETE", f"{S}/versions/2").status_code == 204
    assert filled.get(f"{S}/versions/2").status_code == 404
    assert filled.get(S).content == INT
    assert filled.post("g/s", TEXT).headers["Schema-Version"] == "3"
    for number in (1, 3):
        assert filled.send("DELETE", f"{S}/versions/{number}").status_code == 204
    assert (filled.get(S).status_code, filled.get("/schemagroups/g/schemas").json()) == (404, [])
    for path in (S, f"{S}/versions/1", f"{S}/versions"):
        method = "GET" if path.endswith("versions") else "DELETE"
        assert filled.send(method, path).status_code == 404


def test_another_description_is_another_version(filled: Schemas) -> None:
    """The same bytes with another description are a new version (A-22, A-45)."""
    headers = [{}, {"schema_description": "one"}, {"schema_description": "uno"}, {"schema_authority": "urn:a"}, {}]
    numbers = [filled.post("g/s", INT, **beside).headers["Schema-Version"] for beside in headers]
    assert numbers == ["1", "1", "3", "4", "1"]
    assert filled.post("g/s", INT, schema_description="uno").headers["Schema-Version"] == "3"
    assert filled.get("/schemagroups/g/schemas/s/versions/3").headers["Schema-Description"] == "uno"
    assert filled.post("g/s", TEXT, "?id=urn:t", schema_description="a").headers["Schema-Version"] == "5"
    assert filled.post("g/s", TEXT, "?id=urn:t", schema_description="a").headers["Schema-Version"] == "5"
    assert filled.post("g/s", TEXT, "?id=urn:t", schema_description="b").status_code == 409


def test_version_numbers_are_not_reused(filled: Schemas) -> None:
    """A schema that is created again continues the numbers, regardless of what was deleted through which API (A-19)."""
    schema, schemas, group = "/schemagroups/g/schemas/s", "/schemagroups/g/schemas", "/schemagroups/g"
    for number, path in enumerate((schema, schemas, group), 3):
        assert filled.send("DELETE", path).status_code == 204
        assert filled.get(f"{schema}/versions").status_code == 404
        filled.put("g", format="avro")
        assert filled.post("g/s", INT).headers["Schema-Version"] == str(number)
    assert filled.other.send("DELETE", schema).status_code == 204
    # A client of xRegistry counts as its specification says; who comes through the draft goes on behind both.
    created = filled.other.put(f"{schema}$details", {"format": "Avro/1.11", "schema": {"type": "int"}})
    assert created.json()["versionid"] == "1"
    assert filled.post("g/s", LONG).headers["Schema-Version"] == "6"
    assert filled.get(f"{schema}/versions").json() == [1, 6]


def test_numbers_of_many_versions_are_not_reused(filled: Schemas) -> None:
    """Not all Versions are loaded to write one, and clients have numbered some of them (A-19)."""
    versions = {str(number): {"format": "Avro/1.11", "schema": {"type": "int"}} for number in range(1, 41)}
    for _ in range(2):
        assert filled.other.put("/schemagroups/g/schemas/many$details", {"versions": versions}).is_success
        filled.send("DELETE", "/schemagroups/g/schemas/many")
    few = dict.fromkeys(("1", "41", *map(str, range(43, 60))), versions["1"])
    assert filled.other.put("/schemagroups/g/schemas/many$details", {"versions": few}).is_success
    assert filled.post("g/many", LONG).headers["Schema-Version"] == "60"


NO_VERSIONS = ["0", "01", "-1", "1.0", "x", "2147483648", "9" * 5000, "%31", "1%00", "¹"]


def test_invalid_version_is_not_found(filled: Schemas) -> None:
    """A-43, J-10"""
    for version in NO_VERSIONS:
        for method in ("GET", "HEAD", "DELETE"):
            answer = filled.send(method, f"{S}/versions/{version}")
            assert answer.status_code == 404, (method, answer.text)


def test_unnumbered_versions_are_hidden(filled: Schemas) -> None:
    """Unnumbered versions are not visible; a schema without others is listed, and cannot be read (J-10)."""
    plain = {"format": "Own/1"}
    filled.other.put("/schemagroups/open/schemas/n$details", {"versionid": "v1", **plain})
    for path in ("", "/versions/v1"):
        assert filled.get(f"/schemagroups/open/schemas/n{path}").status_code == 404
    assert filled.get("/schemagroups/open/schemas/n/versions").json() == []
    assert filled.get("/schemagroups/open/schemas").json() == ["n"]
    answer = filled.post("open/n", b"x")
    assert (answer.headers["Schema-Version"], answer.headers["Schema-Format"]) == ("1", "Own/1")
    assert filled.other.put("/schemagroups/open/schemas/n/versions/7$details", plain).status_code == 201
    assert filled.post("open/n", b"y").headers["Schema-Version"] == "8"


def test_exhausted_numbers_are_an_error(filled: Schemas) -> None:
    """The number is an Integer of 32 bits (A-19)."""
    filled.other.put("/schemagroups/open/schemas/n/versions/2147483647$details", {"format": "Own/1"})
    before = filled.state()
    assert filled.post("open/n", b"x").status_code == 409
    assert filled.state() == before


def test_the_latest_is_not_the_default(filled: Schemas) -> None:
    """The default of xRegistry does not matter (A-18)."""
    filled.other.send("PATCH", f"{S}/meta", json={"defaultversionid": "1", "defaultversionsticky": True})
    assert filled.other.get(S).content == INT
    assert filled.get(S).content == LONG


def test_documents_kept_elsewhere(filled: Schemas) -> None:
    created = filled.other.put(
        f"{S}/versions/9$details", {"schemaurl": "https://e.example/%C3%A4", "format": "Avro/1.11"}
    )
    assert created.status_code == 201, created.text
    answer = filled.get(S)
    assert (answer.status_code, answer.headers["Location"]) == (303, "https://e.example/%C3%A4")
    assert answer.headers["Schema-Version"] == "9"


def test_a_schema_borrowed_from_another_group(filled: Schemas) -> None:
    filled.other.put("/schemagroups/g/schemas/same$details", {"meta": {"xref": S}})
    answer = filled.get("/schemagroups/g/schemas/same")
    assert (answer.content, answer.headers["Schema-Version"]) == (LONG, "2")
    assert answer.headers["Location"] == f"{BASE}/schemagroups/g/schemas/same/versions/2"
    assert filled.post("g/same", TEXT).status_code == 400
