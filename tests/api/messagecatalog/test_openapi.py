"""Every operation and status of the draft's OpenAPI document, and bodies as its schemas want them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema_rs
import pytest
import yaml

if TYPE_CHECKING:
    from tests.api.conftest import Client

MOUNT = "/compat/messagecatalog/v0.1"
ROOT = f"{MOUNT}/messagecatalog"
_DEFINITION = "/messagecatalog/{group-id}/messagedefinitions/{messagedefinition-id}"
_ID = "io.cloudevents.messagecatalog.deleted"
_BODY = {"id": _ID, "definition": {"attributes": {"type": {"value": _ID}}}}
_GROUP = {"id": "g", "format": "CloudEvents"}
_HERE = f"{ROOT}/g/messagedefinitions/{_ID}"


def _send(method: str, path: str, **sent: Any) -> Callable[[Client], httpx.Response]:
    return lambda book: book.send(method, path, **sent)


EXCHANGES: dict[tuple[str, str, str], Callable[[Client], httpx.Response]] = {
    ("get", "/messagedefinition", "200"): _send(
        "GET", f"{MOUNT}/messagedefinition", params={"uri": f"http://r.example{_HERE}/versions/1"}
    ),
    ("get", "/messagedefinition", "404"): _send("GET", f"{MOUNT}/messagedefinition?uri=urn:none"),
    ("get", "/messagecatalog", "200"): _send("GET", ROOT),
    ("post", "/messagecatalog", "201"): _send("POST", ROOT, json={**_GROUP, "id": "new"}),
    ("post", "/messagecatalog", "409"): _send("POST", ROOT, json=_GROUP),
    ("get", "/messagecatalog/{group-id}", "200"): _send("GET", f"{ROOT}/g?definitions=all"),
    ("get", "/messagecatalog/{group-id}", "404"): _send("GET", f"{ROOT}/none"),
    ("put", "/messagecatalog/{group-id}", "200"): _send("PUT", f"{ROOT}/g", json=_GROUP),
    ("put", "/messagecatalog/{group-id}", "409"): _send("PUT", f"{ROOT}/g", json={**_GROUP, "format": "AMQP"}),
    ("delete", "/messagecatalog/{group-id}", "204"): _send("DELETE", f"{ROOT}/g"),
    ("delete", "/messagecatalog/{group-id}", "404"): _send("DELETE", f"{ROOT}/none"),
    ("get", "/messagecatalog/{group-id}/messagedefinitions", "200"): _send("GET", f"{ROOT}/g/messagedefinitions"),
    ("get", "/messagecatalog/{group-id}/messagedefinitions", "404"): _send("GET", f"{ROOT}/none/messagedefinitions"),
    ("post", "/messagecatalog/{group-id}/messagedefinitions", "200"): _send(
        "POST", f"{ROOT}/g/messagedefinitions", json=_BODY
    ),
    ("post", "/messagecatalog/{group-id}/messagedefinitions", "400"): _send(
        "POST", f"{ROOT}/g/messagedefinitions", json={"id": "a b"}
    ),
    ("get", _DEFINITION, "200"): _send("GET", _HERE),
    ("delete", _DEFINITION, "204"): _send("DELETE", _HERE),
    ("delete", _DEFINITION, "404"): _send("DELETE", f"{_HERE}.none"),
    ("get", f"{_DEFINITION}/versions", "200"): _send("GET", f"{_HERE}/versions"),
    ("get", f"{_DEFINITION}/versions/{{version-number}}", "200"): _send("GET", f"{_HERE}/versions/1"),
    ("get", f"{_DEFINITION}/versions/{{version-number}}", "404"): _send("GET", f"{_HERE}/versions/2"),
    ("delete", f"{_DEFINITION}/versions/{{version-number}}", "204"): _send("DELETE", f"{_HERE}/versions/1"),
}


@pytest.fixture(scope="module")
def drafts(shared_data: Path) -> Path:
    """The drafts' formal documents."""
    return shared_data / "drafts"


@pytest.fixture(scope="module")
def operations(drafts: Path) -> Any:
    """Operations by method and path."""
    document = yaml.safe_load((drafts / "messagecatalog.openapi.yaml").read_text(encoding="utf-8"))
    methods = ("get", "put", "post", "delete", "patch", "head", "options")
    return {(m, path): item[m] for path, item in document["paths"].items() for m in methods if m in item}


def schema_of(response: Any, drafts: Path) -> Any:
    """The schema of a response, None if it has none; some refer to one where a response is meant."""
    named = response.get("content", {}).get("application/json", {}).get("schema", response)
    data = json.loads((drafts / "messagecatalog-data.json").read_text(encoding="utf-8"))
    data.pop("$id")
    if "$ref" in named:
        return {**data, "allOf": [{"$ref": named["$ref"].partition(".json")[2]}]}
    if named.get("type") == "array":
        return {**data, "type": "array", "items": {"$ref": named["items"]["$ref"].partition(".json")[2]}}
    return None


def test_every_operation_and_status_has_an_exchange(operations: Any) -> None:
    """C-28 to C-36."""
    told = {(*key, status) for key, operation in operations.items() for status in operation["responses"]}
    assert told == EXCHANGES.keys()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=" ".join)
def test_answers_are_as_the_document_says(exchange: Any, book: Client, operations: Any, drafts: Path) -> None:
    """C-13: ``format`` keywords aside, which are on the wrong members."""
    method, path, status = exchange
    book.put(f"{ROOT}/g", _GROUP)
    book.send("POST", f"{ROOT}/g/messagedefinitions", json=_BODY)
    answer = EXCHANGES[exchange](book)
    assert answer.status_code == int(status), answer.text
    response = operations[(method, path)]["responses"][status]
    for name in response.get("headers", {}):
        assert answer.headers[name]
    schema = schema_of(response, drafts)
    if schema is not None:
        jsonschema_rs.Draft7Validator(schema, validate_formats=False).validate(answer.json())


@pytest.mark.parametrize("exchange", EXCHANGES, ids=" ".join)
def test_statuses_without_the_document(exchange: tuple[str, str, str], book: Client) -> None:
    """C-28 to C-36: the statuses, where the document is not there."""
    book.put(f"{ROOT}/g", _GROUP)
    book.send("POST", f"{ROOT}/g/messagedefinitions", json=_BODY)
    answer = EXCHANGES[exchange](book)
    assert answer.status_code == int(exchange[2]), answer.text
