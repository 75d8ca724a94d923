"""Every operation and status of the API as OpenAPI documents describe it, and bodies as their schemas want them."""

from collections.abc import Callable
from typing import Any

import httpx
import jsonschema_rs
import pytest
from tests.api.conftest import Client
from tests.api.openapi.described import Described, read_openapi
from tests.others import OTHERS, OURS, skip_without

MOUNT = "/compat/messagecatalog/v0.1"
ROOT = f"{MOUNT}/messagecatalog"
_DEFINITION = "/messagecatalog/{group-id}/messagedefinitions/{messagedefinition-id}"
_ID = "io.cloudevents.messagecatalog.deleted"
_BODY = {"id": _ID, "definition": {"attributes": {"type": {"value": _ID}}}}
_GROUP = {"id": "g", "specversion": "0.1", "format": "CloudEvents"}
_DEFINITIONS = f"{ROOT}/g/messagedefinitions"
_HERE = f"{_DEFINITIONS}/{_ID}"
_POST = ("post", "/messagecatalog/{group-id}/messagedefinitions")
_URI = f"{MOUNT}/messagedefinition?uri="


def _send(method: str, path: str, **sent: Any) -> Callable[[Client], httpx.Response]:
    return lambda book: book.send(method, path, **sent)


EXCHANGES: dict[tuple[str, str, str], Callable[[Client], httpx.Response]] = {
    ("get", "/messagedefinition", "200"): _send("GET", f"{_URI}http://r.example{_HERE}/versions/1"),
    ("get", "/messagedefinition", "404"): _send("GET", f"{_URI}urn:none"),
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
    (*_POST, "200"): _send("POST", _DEFINITIONS, json=_BODY),
    (*_POST, "400"): _send("POST", _DEFINITIONS, json={"id": "a b"}),
    ("get", _DEFINITION, "200"): _send("GET", _HERE),
    ("delete", _DEFINITION, "204"): _send("DELETE", _HERE),
    ("delete", _DEFINITION, "404"): _send("DELETE", f"{_HERE}.none"),
    ("get", f"{_DEFINITION}/versions", "200"): _send("GET", f"{_HERE}/versions"),
    ("get", f"{_DEFINITION}/versions/{{version-number}}", "200"): _send("GET", f"{_HERE}/versions/1"),
    ("get", f"{_DEFINITION}/versions/{{version-number}}", "404"): _send("GET", f"{_HERE}/versions/2"),
    ("delete", f"{_DEFINITION}/versions/{{version-number}}", "204"): _send("DELETE", f"{_HERE}/versions/1"),
}


@pytest.fixture(scope="module", params=["ours", "the draft's"])
def described(request: pytest.FixtureRequest) -> Described:
    """Our own OpenAPI document, and the draft's, where it is."""
    if request.param == "ours":
        return read_openapi(OURS / "openapi" / "messagecatalog.yaml")
    file = OTHERS / "drafts" / "messagecatalog.openapi.yaml"
    skip_without(file, "the statuses and response schemas of Message Catalog 0.1", "the same test, [ours]")
    return read_openapi(file, OTHERS / "drafts" / "messagecatalog-data.json")


def test_every_operation_and_status_has_an_exchange(described: Described) -> None:
    """C-28 to C-36."""
    assert described.statuses == EXCHANGES.keys()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=" ".join)
def test_responses_conform_to_the_openapi_document(exchange: Any, book: Client, described: Described) -> None:
    """The ``format`` keywords of the draft are ignored, because they are on the wrong members (C-13)."""
    method, path, status = exchange
    book.put(f"{ROOT}/g", _GROUP)
    book.send("POST", f"{ROOT}/g/messagedefinitions", json=_BODY)
    answer = EXCHANGES[exchange](book)
    assert answer.status_code == int(status), answer.text
    response = described.operations[(method, path)]["responses"][status]
    for name in response.get("headers", {}):
        assert answer.headers[name]
    for schema in described.schemas_of(response):
        jsonschema_rs.Draft7Validator(schema, validate_formats=False).validate(answer.json())
