"""OpenAPI documents, ours and the draft's: each operation with each of its statuses, and bodies as they say."""

from collections.abc import Callable

import httpx
import jsonschema_rs
import pytest
from tests.api.openapi.described import Described, read_openapi
from tests.api.schemaregistry.conftest import BASE, INT, Schemas
from tests.others import OTHERS, OURS, skip_without

G, S = "/schemagroups/{group-id}", "/schemagroups/{group-id}/schemas/{schema-id}"
V = f"{S}/versions/{{version-number}}"
ONE = "/schemagroups/g/schemas/s"

Ask = Callable[[Schemas], httpx.Response]
EXCHANGES: dict[tuple[str, str, str], Ask] = {
    ("get", "/schema", "200"): lambda api: api.lookup(f"{BASE}{ONE}/versions/1"),
    ("get", "/schema", "404"): lambda api: api.lookup("urn:none"),
    ("get", "/schemagroups", "200"): lambda api: api.get("/schemagroups"),
    ("get", G, "200"): lambda api: api.get("/schemagroups/g"),
    ("get", G, "404"): lambda api: api.get("/schemagroups/none"),
    ("put", G, "201"): lambda api: api.put("new", format="avro", groupProperties={"a": "b"}),
    ("put", G, "409"): lambda api: api.put("g", format="json-schema"),
    ("delete", G, "204"): lambda api: api.send("DELETE", "/schemagroups/g"),
    ("delete", G, "404"): lambda api: api.send("DELETE", "/schemagroups/none"),
    ("get", f"{G}/schemas", "200"): lambda api: api.get("/schemagroups/g/schemas"),
    ("get", f"{G}/schemas", "404"): lambda api: api.get("/schemagroups/none/schemas"),
    ("delete", f"{G}/schemas", "204"): lambda api: api.send("DELETE", "/schemagroups/g/schemas"),
    ("delete", f"{G}/schemas", "404"): lambda api: api.send("DELETE", "/schemagroups/none/schemas"),
    ("post", S, "200"): lambda api: api.post("g/t", INT),
    ("post", S, "400"): lambda api: api.post("g/t", b"{"),
    ("get", S, "200"): lambda api: api.get(ONE),
    ("delete", S, "204"): lambda api: api.send("DELETE", ONE),
    ("delete", S, "404"): lambda api: api.send("DELETE", f"{ONE}x"),
    ("get", f"{S}/versions", "200"): lambda api: api.get(f"{ONE}/versions"),
    ("get", V, "200"): lambda api: api.get(f"{ONE}/versions/1"),
    ("get", V, "404"): lambda api: api.get(f"{ONE}/versions/9"),
    ("delete", V, "204"): lambda api: api.send("DELETE", f"{ONE}/versions/1"),
}


@pytest.fixture(scope="module", params=["ours", "the draft's"])
def described(request: pytest.FixtureRequest) -> Described:
    """Our own OpenAPI document, and the draft's, where it is."""
    if request.param == "ours":
        return read_openapi(OURS / "openapi" / "schemaregistry.yaml")
    file = OTHERS / "drafts" / "schemaregistry-0.2.openapi.yaml"
    skip_without(file, "the statuses, headers and response schemas of Schema Registry 0.2", "the same test, [ours]")
    return read_openapi(file)


def test_every_described_response_has_an_exchange(described: Described) -> None:
    """A-33 to A-43b"""
    assert described.statuses == EXCHANGES.keys()


@pytest.mark.parametrize(("method", "path", "status"), EXCHANGES)
def test_each_exchange(described: Described, filled: Schemas, method: str, path: str, status: str) -> None:
    """HEAD, which the document omits, is tested with the documents (A-33 to A-43b, A-46, A-53)."""
    answer = EXCHANGES[method, path, status](filled)
    assert str(answer.status_code) == status, answer.text
    response = described.operations[method, path]["responses"][status]
    missing = [name for name in described.resolved(response).get("headers", {}) if name not in answer.headers]
    assert missing == []
    for schema in described.schemas_of(response):
        if schema.get("type") != "string":  # the documents: they are what was stored
            jsonschema_rs.validate(schema, answer.json(), validate_formats=True)
    if status == "404":
        assert answer.headers["Content-Type"] == "application/problem+json"
    if status == "204":
        assert answer.content == b""
