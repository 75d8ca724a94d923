"""What all paths of the API have in common: methods, slashes, CORS, caching, bounds, hostile requests."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.conftest import Serve
from tests.api.schemaregistry.conftest import MOUNT, Schemas
from tests.examples import examples

from signalbook.storage.store import Store

S = "/schemagroups/g/schemas/s"


PATHS = [
    ("/schema", "GET, HEAD, OPTIONS"),
    ("/schemagroups", "GET, HEAD, OPTIONS"),
    ("/schemagroups/g", "GET, HEAD, PUT, DELETE, OPTIONS"),
    ("/schemagroups/g/schemas", "GET, HEAD, DELETE, OPTIONS"),
    (S, "GET, HEAD, POST, DELETE, OPTIONS"),
    (f"{S}/versions", "GET, HEAD, OPTIONS"),
    (f"{S}/versions/1", "GET, HEAD, DELETE, OPTIONS"),
]


def test_a_line_break_is_part_of_a_path(filled: Schemas) -> None:
    """The path still belongs to this API (A-53)."""
    for path in ("/schemagroups/a%0Ab", "/schemagroups/a%0A", "/%0A"):
        assert filled.send("GET", path).headers["Content-Type"] == "application/problem+json"


def test_methods(filled: Schemas) -> None:
    """Versions are read and deleted, never changed (A-22)."""
    for path, methods in PATHS:
        for slash in ("", "/"):
            answer = filled.send("OPTIONS", path + slash)
            assert (answer.status_code, answer.headers["Allow"]) == (200, methods)
            assert "Access-Control-Expose-Headers" in answer.headers
        for method in {"PUT", "POST", "PATCH", "DELETE", "TRACE", "FOO"} - set(methods.split(", ")):
            answer = filled.send(method, path)
            assert (answer.status_code, answer.headers["Allow"]) == (405, methods)
            assert answer.headers["Content-Type"] == "application/problem+json"


NOTHING = f"/ // /%0A /schemas /schemagroups/g/x /schemagroups//schemas {S}/meta {S}/versions/1/x"


def test_paths_of_nothing(filled: Schemas) -> None:
    for path in ("", *NOTHING.split()):
        for method in ("GET", "PUT", "OPTIONS", "PATCH"):
            assert filled.send(method, path).status_code == 404, method


def test_etag_changes_with_the_document(filled: Schemas) -> None:
    tag = filled.get(S).headers["ETag"]
    again = filled.get(S, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    filled.post("g/s", b'{"type": "bytes"}')
    assert filled.get(S, headers={"If-None-Match": tag}).status_code == 200
    assert filled.get("/schemagroups/none").headers["Cache-Control"] == "no-store"
    assert filled.get(S).headers["X-Content-Type-Options"] == "nosniff"


def test_writes_to_a_read_only_registry_are_rejected(filled: Schemas) -> None:
    """The response is 405 in this API too, and reads are possible (C-37)."""
    capabilities = filled.other.get("/capabilities").json()
    capabilities["available"]["entities"]["mutable"] = False
    assert filled.other.put("/capabilities", capabilities).status_code == 200
    for method, path in (("PUT", "/schemagroups/new"), ("POST", S), ("DELETE", S)):
        answer = filled.send(method, path, content=b"{}")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
        assert filled.send("OPTIONS", path).headers["Allow"] == "GET, HEAD, OPTIONS"
    assert filled.get(S).status_code == 200


def test_a_registry_without_schemas(store: Store, serve: Serve) -> None:
    other = Schemas(serve(store))
    for request in ("GET /schemagroups", "PUT /schemagroups/g", "GET /schema?uri=urn:x", "OPTIONS /schemagroups"):
        assert other.send(*request.split(), content=b"{}").status_code == 404, request


def test_bounds(store: Store, serve: Serve) -> None:
    bounded = Schemas(serve(store, model="default", max_body_bytes=2000, max_response_bytes=600))
    assert bounded.put("g").status_code == 201
    assert bounded.post("g/s", b"x" * 2001, schema_format="own").status_code == 400
    assert bounded.post("g/s", b"x" * 1000, schema_format="own").status_code == 200
    assert bounded.get(S).status_code == 406
    assert bounded.post("g/s", b"x", content_encoding="gzip", schema_format="own").status_code == 400


def test_urls_use_the_base_url_setting(store: Store, serve: Serve) -> None:
    """The base URL is the authority of schemas without one (A-13)."""
    schemas = Schemas(serve(store, model="default", base_url="https://public.example/reg/"))
    response = schemas.put("g", format="own")
    assert response.headers["Location"] == f"https://public.example/reg{MOUNT}/schemagroups/g"
    response = schemas.post("g/s", b"x")
    assert schemas.lookup(response.headers["Location"]).content == b"x"


WORDS = ["schema", "schemagroups", "g", "schemas", "s", "versions", "1", "", "..", "%00", "%2F", "a:b", "x" * 200]
STEPS = st.sampled_from(WORDS) | st.text(max_size=5).map(lambda text: quote(text, safe=""))
KNOWN = st.sampled_from(["/schemagroups/g", S, f"{S}/versions/1", "/schemagroups/g/schemas", "/schema"])
TEXTS = st.sampled_from(["", "avro", "own", "urn:a", "%", "é", "\0", "x" * 9000, "a b"])
BODIES = st.binary(max_size=20) | st.dictionaries(
    st.sampled_from(["id", "format", "description", "groupProperties", "x"]),
    TEXTS | st.none() | st.integers() | st.dictionaries(st.text(max_size=3), TEXTS, max_size=2),
).map(lambda body: json.dumps(body).encode())


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]),
    path=st.lists(STEPS, max_size=7).map(lambda steps: "/" + "/".join(steps)) | KNOWN,
    query=st.dictionaries(st.sampled_from(["uri", "format", "id", "authority", "description"]), TEXTS, max_size=2),
    headers=st.dictionaries(
        st.sampled_from(["Schema-Id", "Schema-Format", "Schema-Authority", "Schema-Description", "Content-Type"]),
        st.sampled_from(["", "avro", "%C0", "urn:a", '"', "a b", "\xff"]).map(lambda text: text.encode("latin-1")),
        max_size=2,
    ),
    body=BODIES,
)
def test_any_request(
    hostile: Schemas, method: str, path: str, query: dict[str, str], headers: Any, body: bytes
) -> None:
    """No request fails internally, and a rejected one changes nothing (A-53)."""
    before = hostile.state()
    url = f"{path}?" + "&".join(f"{name}={quote(value)}" for name, value in query.items())
    answer = hostile.send(method, url, content=body, headers=headers)
    assert answer.status_code < 500, (answer.text, method, url, headers, body)
    if answer.status_code >= 400:
        assert hostile.state() == before
        if method != "HEAD":
            assert answer.json()["title"]


@pytest.fixture
def hostile(lasting_store: Store, serve: Serve) -> Schemas:
    api_client = Schemas(serve(lasting_store, model="default"))
    api_client.put("g", format="own")
    api_client.post("g/s", b"x")
    return api_client
