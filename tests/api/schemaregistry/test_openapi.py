"""OpenAPI documents, ours and the draft's: each operation with each of its statuses, and bodies as they say."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import yaml
from tests.api.schemaregistry.conftest import BASE, INT, Schemas
from tests.others import OTHERS, OURS, skip_without
from tests.serving import BIN, serving

METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
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
def openapi(request: pytest.FixtureRequest) -> Path:
    """Our own OpenAPI document, and the draft's, where it is."""
    if request.param == "ours":
        return OURS / "openapi" / "schemaregistry.yaml"
    file = OTHERS / "drafts" / "schemaregistry-0.2.openapi.yaml"
    skip_without(file, "the statuses, headers and response schemas of Schema Registry 0.2", "the same test, [ours]")
    return file


@pytest.fixture(scope="module")
def described(openapi: Path) -> dict[str, Any]:
    """The document, with every reference in place."""
    document = yaml.safe_load(openapi.read_text(encoding="utf-8"))

    def resolved(value: Any) -> Any:
        if isinstance(value, list):
            return [resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            node = document
            for step in value["$ref"].removeprefix("#/").split("/"):
                node = node[step]
            return resolved(node)
        return {name: resolved(item) for name, item in value.items()}

    node: dict[str, Any] = resolved(document["paths"])
    return node


def test_every_described_response_has_an_exchange(described: dict[str, Any]) -> None:
    """A-33 to A-43b"""
    statuses = {
        (method, path, status)
        for path, operations in described.items()
        for method, operation in operations.items()
        if method in METHODS
        for status in operation["responses"]
    }
    assert statuses == set(EXCHANGES)


@pytest.mark.parametrize(("method", "path", "status"), EXCHANGES)
def test_each_exchange(described: dict[str, Any], filled: Schemas, method: str, path: str, status: str) -> None:
    """HEAD, which the document omits, is tested with the documents (A-33 to A-43b, A-46, A-53)."""
    answer = EXCHANGES[method, path, status](filled)
    assert str(answer.status_code) == status, answer.text
    response = described[path][method]["responses"][status]
    missing = [name for name in response.get("headers", {}) if name not in answer.headers]
    assert missing == []
    for content in response.get("content", {}).values():
        if content["schema"].get("type") != "string":  # the documents: they are what was stored
            jsonschema_rs.validate(content["schema"], answer.json(), validate_formats=True)
    if status == "404":
        assert answer.headers["Content-Type"] == "application/problem+json"
    if status == "204":
        assert answer.content == b""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("registry"), "--body-timeout", "2") as root:
        yield root


@pytest.mark.merge
def test_any_request(url: str, openapi: Path, tmp_path: Path) -> None:
    """Valid and invalid requests are made from the document; none of them fails internally (A-53)."""
    options = """--checks not_a_server_error,response_schema_conformance --phases fuzzing --max-examples 8 --seed 1
        --no-color --request-timeout 300 --suppress-health-check too_slow"""
    api = url + BASE.removeprefix("http://r.example")
    command = [str(BIN / "schemathesis"), "run", str(openapi.resolve()), "--url", api, *options.split()]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}  # the same requests each time, with the seed above
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
