"""Every method at every kind of path: status and headers of success and refusal (core/http.md "Registry HTTP APIs").

On one database: the others are held to what lies below by the tests beside these.
"""

from collections.abc import Callable, Iterator

import httpx
import pytest
from tests.api.conftest import MODEL, Client, make_client
from tests.conftest import FreshStore

from signalbook.storage.store import Store

ROOT = "http://r.example"
F1, N1 = "/dirs/d1/files/f1", "/dirs/d1/notes/n1"
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "POST", "DELETE")
READS = {"GET": 200, "HEAD": 200, "OPTIONS": 200}

CELLS: dict[str, dict[str, int]] = {
    "/": {**READS, "PUT": 200, "PATCH": 200, "POST": 200},
    "/export": READS,
    "/capabilities": {**READS, "PUT": 200, "PATCH": 200},
    "/capabilitiesoffered": READS,
    "/model": READS,
    "/modelsource": {**READS, "PUT": 200},
    "/openapi.json": READS,
    "/.xregistry": READS,
    "/.well-known/xregistry": READS,
    "/dirs": {**READS, "PATCH": 200, "POST": 200, "DELETE": 204},
    "/dirs/d1": {**READS, "PUT": 200, "PATCH": 200, "POST": 200, "DELETE": 204},
    "/dirs/d1/files": {**READS, "PATCH": 200, "POST": 200, "DELETE": 204},
    F1: {**READS, "PUT": 200, "POST": 201, "DELETE": 204},
    f"{F1}$details": {**READS, "PUT": 200, "PATCH": 200, "POST": 201, "DELETE": 204},
    f"{F1}/meta": {**READS, "PUT": 200, "PATCH": 200},
    f"{F1}/versions": {**READS, "PATCH": 200, "POST": 200, "DELETE": 204},
    f"{F1}/versions/1": {**READS, "PUT": 200, "DELETE": 204},
    f"{F1}/versions/1$details": {**READS, "PUT": 200, "PATCH": 200, "DELETE": 204},
    "/dirs/d1/notes": {**READS, "PATCH": 200, "POST": 200, "DELETE": 204},
    f"{N1}/meta": {**READS, "PUT": 200, "PATCH": 200},
    f"{N1}/versions": {**READS, "PATCH": 200, "POST": 200, "DELETE": 204},
    N1: {**READS, "PUT": 200, "PATCH": 200, "POST": 201, "DELETE": 204},
    f"{N1}$details": {**READS, "PUT": 200, "PATCH": 200, "POST": 201, "DELETE": 204},
    f"{N1}/versions/1": {**READS, "PUT": 200, "PATCH": 200, "DELETE": 204},
    f"{N1}/versions/1$details": {**READS, "PUT": 200, "PATCH": 200, "DELETE": 204},
}
"""By path of something that is there: the status of each method that is allowed; every other is 405."""
DOCUMENTS = (F1, f"{F1}/versions/1")
BODIES = ("/capabilities", "/modelsource")
"""Paths whose body has to make sense: it is what they show already."""


@pytest.fixture
def store(sqlite_store: Callable[[], Store]) -> Store:
    return sqlite_store()


def fill(client: Client) -> Client:
    client.put_document(F1, b"x", "text/plain")
    client.put(N1, {"name": "N"})
    return client


@pytest.fixture
def filled(client: Client) -> Client:
    return fill(client)


@pytest.fixture(scope="module")
def unchanged(fresh_store: FreshStore) -> Iterator[Client]:
    """A filled registry for the tests of this module that change nothing."""
    with fresh_store() as store, make_client(store) as client:
        client.put("/modelsource", MODEL)
        yield fill(client)


def send(client: Client, method: str, path: str) -> httpx.Response:
    """A request that is right, if such a request is at all."""
    if method not in ("PUT", "PATCH", "POST"):
        return client.send(method, path)
    if path in DOCUMENTS:
        return client.send(method, path, content=b"new")
    return client.send(method, path, json=client.get(path).json() if path in BODIES else {})


@pytest.mark.parametrize(("path", "method"), [(path, method) for path in CELLS for method in METHODS])
def test_every_cell(filled: Client, path: str, method: str) -> None:
    """R132-R138, R142-R153, R169-R172."""
    answer = send(filled, method, path)
    expected = CELLS[path].get(method, 405)
    assert answer.status_code == expected, answer.text
    assert answer.headers["Link"] == f"<{ROOT}>;rel=xregistry-root"
    assert answer.headers.get("Access-Control-Allow-Origin") == ("*" if method in READS else None)
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Link", "Location", "Content-Location", "ETag", "*"} <= set(exposed)
    assert ("Location" in answer.headers) == (expected == 201)
    if expected in (200, 201) and method not in ("OPTIONS", "HEAD") and path not in DOCUMENTS:
        assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    if expected == 204:
        assert answer.content == b""


@pytest.mark.parametrize("path", CELLS)
def test_options_and_405_list_the_allowed_methods(unchanged: Client, path: str) -> None:
    """The lists have the same methods in the same order (R134, R138, R284, GAP 30)."""
    allowed = unchanged.send("OPTIONS", path).headers
    assert set(allowed["Allow"].split(", ")) == set(CELLS[path])
    assert allowed["Access-Control-Allow-Methods"] == allowed["Allow"]
    for method in {*METHODS, "TRACE", "BREW"} - set(CELLS[path]):
        answer = send(unchanged, method, path)
        assert answer.headers["Allow"] == allowed["Allow"]
        error = "details_required" if method == "PATCH" and path in DOCUMENTS else "action_not_supported"
        assert answer.json()["type"].endswith(f"#{error}")


@pytest.mark.parametrize("path", CELLS)
def test_head_equals_get_without_body(unchanged: Client, path: str) -> None:
    """The rule applies everywhere, also to errors (R139)."""
    for url in (path, f"{path}?inline=nope", f"{path}/nope/nope/nope"):
        get, head = unchanged.get(url), unchanged.send("HEAD", url)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert {**head.headers} == {**get.headers}


CREATES = (
    ("/dirs/new", "PUT PATCH", False),
    ("/dirs/d1/files/new", "PUT POST", True),
    ("/dirs/d1/files/new$details", "PUT PATCH POST", True),
    ("/dirs/d1/files/new/meta", "PUT PATCH", False),
    ("/dirs/d1/files/new/versions/v1", "PUT", True),
    ("/dirs/d1/files/new/versions/v1$details", "PUT PATCH", True),
    (f"{F1}/versions/v9", "PUT", True),
    (f"{F1}/versions/v9$details", "PUT PATCH", True),
    ("/dirs/d1/notes/new", "PUT PATCH POST", True),
    ("/dirs/d1/notes/new/versions/v1", "PUT PATCH", True),
    ("/dirs/new/notes/new/versions/v1", "PUT PATCH", True),
)


@pytest.mark.parametrize(
    ("path", "method", "version"),
    [(path, method, version) for path, methods, version in CREATES for method in methods.split()],
)
def test_creation_returns_201_with_location(filled: Client, path: str, method: str, version: bool) -> None:
    """A PATCH can create entities too (R52, R144, R147, R151, R152, GAP 8, GAP 9, GAP 23)."""
    missing = filled.get(path)
    assert (missing.status_code, missing.json()["type"].rpartition("#")[2]) == (404, "not_found")
    answer = filled.send(method, path, content=b"x") if "$" not in path and "/files/" in path else None
    if answer is None or path.endswith("/meta"):
        answer = filled.send(method, path, json={})
    assert answer.status_code == 201, answer.text
    created = answer.headers["Location"]
    assert created.removeprefix(ROOT).startswith(path.removesuffix("$details"))
    assert created.endswith("$details") == ("$details" in path and "/notes/" not in path)
    assert filled.get(created.removeprefix(ROOT)).status_code == 200
    assert ("Content-Location" in answer.headers) == version
    if version:
        assert filled.get(answer.headers["Content-Location"].removeprefix(ROOT)).status_code == 200
        assert "$details" not in answer.headers["Content-Location"]


MISSING = ("/dirs/none", "/dirs/d1/files/none", "/dirs/d1/files/none$details", "/dirs/d1/files/none/meta")
MISSING_BELOW = ("/dirs/none/files", "/dirs/d1/files/none/versions", f"{F1}/versions/none", "/dirs/d1/notes/none")


@pytest.mark.parametrize("path", [*MISSING, *MISSING_BELOW])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_missing_entity_is_not_found(unchanged: Client, path: str, method: str) -> None:
    """Reading or deleting a missing entity fails with not_found (R171)."""
    if method == "DELETE" and path.endswith("/meta"):
        assert unchanged.send(method, path).status_code == 405  # R259: nobody deletes a meta
        return
    assert unchanged.refused(method, path, "not_found")["subject"].startswith("/dirs")


METADATA = tuple(
    (path, method)
    for path, cells in CELLS.items()
    for method in ("PUT", "PATCH", "POST")
    if method in cells and path not in DOCUMENTS
)


@pytest.mark.parametrize(("path", "method"), METADATA)
def test_metadata_needs_a_body(unchanged: Client, path: str, method: str) -> None:
    """A write of metadata without a body is rejected (R148)."""
    unchanged.refused(method, path, "missing_body")


@pytest.mark.parametrize(("path", "method"), METADATA)
def test_a_content_type_is_not_asked_for(filled: Client, path: str, method: str) -> None:
    """Metadata are JSON regardless of the content type (R160)."""
    content = filled.get(path).content if path in BODIES else b"{}"
    for contenttype in (None, "text/plain", "application/json; charset=utf-8", "x"):
        headers = {"Content-Type": contenttype} if contenttype else {}
        assert filled.send(method, path, content=content, headers=headers).status_code in (200, 201)


@pytest.mark.parametrize("path", ["/export/x", "/model/x", "/capabilities/foo", f"{F1}/other", f"{F1}/meta/x"])
def test_unknown_paths_are_not_found_with_any_method(unchanged: Client, path: str) -> None:
    """R133"""
    assert {send(unchanged, method, path).status_code for method in METHODS} == {404}
    assert unchanged.get(path).json()["type"].endswith("http.md#api_not_found")


@pytest.mark.parametrize("path", CELLS)
def test_trailing_slash_and_unknown_parameters_are_ignored(unchanged: Client, path: str) -> None:
    """A trailing slash and unknown query parameters are ignored (R136)."""
    content = unchanged.get(path).content
    assert unchanged.get(f"{path}?nope=1&x").content == unchanged.get(f"{path.rstrip('/')}/").content == content
