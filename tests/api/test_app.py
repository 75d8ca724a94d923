"""What all answers have in common, and what lies beside the APIs."""

import errno
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.api.conftest import MODEL, Client, Serve

from signalbook.storage.base import StorageBusy, StorageError, StorageFull
from signalbook.storage.store import ReadTransaction, Store, WriteTransaction

PATHS = ("/", "/dirs/none", "/nope", "/health/live", "/.well-known/xregistry")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_can_be_read_by_a_browser_and_names_the_root(client: Client, path: str) -> None:
    """Errors are included. The headers are exposed, and the rel parameter comes first (R137, R315)."""
    headers = client.get(path).headers
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert {"Link", "Location", "*"} <= set(headers["Access-Control-Expose-Headers"].split(", "))
    assert headers["Link"] == "<http://r.example>;rel=xregistry-root"


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_is_led_from_the_root_to_the_explorer(client: Client) -> None:
    answer = client.get("/", headers=BROWSER, follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (303, "http://r.example/ui")
    assert answer.headers["Vary"] == "Accept"


def test_the_root_is_json_for_programs_with_a_query_and_without_an_explorer(
    client: Client, store: Store, serve: Serve
) -> None:
    for headers, path in (({}, "/"), ({"Accept": "application/json"}, "/"), (BROWSER, "/?inline=model")):
        assert client.get(path, headers=headers).json()["xid"] == "/"
    assert serve(store, ui="off").get("/", headers=BROWSER).json()["xid"] == "/"


def test_a_preflight_is_allowed(client: Client) -> None:
    """R138, R315."""
    preflight = {"Origin": "http://ui.example", "Access-Control-Request-Method": "GET"}
    answer = client.send("OPTIONS", "/dirs/d1", headers=preflight)
    assert (answer.status_code, "GET" in answer.headers["Access-Control-Allow-Methods"]) == (200, True)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Headers"] == "*, Authorization"


def test_health(client: Client) -> None:
    assert client.get("/health/live").json() == {"status": "ok"}
    ready = {"status": "ok", "deliveries": {"delivers": False, "subscriptions": {}}}
    assert client.get("/health/ready").json() == ready


def test_the_base_url_can_be_set(store: Store, serve: Serve) -> None:
    """R29, R132."""
    answer = serve(store, base_url="https://public.example/registry/").get("/")
    assert answer.json()["self"] == "https://public.example/registry/"
    assert answer.headers["Link"].startswith("<https://public.example/registry>")


@pytest.mark.parametrize("host", ['x"><script>', "a b", "é", "", "host:port"])
def test_invalid_host_is_not_repeated(store: Store, serve: Serve, host: str) -> None:
    answer = serve(store, host="192.0.2.1", access="open").get("/", headers={"Host": host.encode()})
    assert answer.status_code == 200
    assert "script" not in answer.text + answer.headers["Link"]
    assert answer.json()["self"] == "http://r.example/"


@pytest.fixture
def small(sqlite_store: Callable[[], Store], serve: Serve) -> Client:
    return serve(sqlite_store(), model="default", max_body_bytes=1000, max_response_bytes=2000)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_beyond_the_bound(small: Client, chunked: bool) -> None:
    """A body that exceeds the limit is rejected (R312)."""

    async def parts() -> Any:
        for _ in range(20):
            yield b"x" * 100

    answer = small.send("PUT", "/schemagroups/g", content=parts() if chunked else b"x" * 2000)
    assert (answer.status_code, "1000 bytes" in answer.json()["title"]) == (400, True)


def test_a_compressed_body(client: Client) -> None:
    body = client.refused("PUT", "/dirs/d1", "bad_request", content=b"x", headers={"Content-Encoding": "gzip"})
    assert "Content-Encoding" in body["title"]


def test_a_large_body(client: Client) -> None:
    """A large body is decoded next to other writes, and its errors are reported as usual."""
    notes = {f"n{n}": {"description": "x" * 1000} for n in range(300)}
    assert len(client.send("POST", "/dirs/d1/notes", json=notes).json()) == 300
    client.refused("PUT", "/dirs/d1", "parsing_data", content=b"[" + b"1," * 200_000)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/"),
        ("PUT", "/schemagroups/g"),
        ("PUT", "/schemagroups/g/schemas/s$details"),
        ("PATCH", "/check/schemagroups/g"),
        ("PUT", "/compat/schemaregistry/v0.2/schemagroups/g"),
        ("PUT", "/compat/messagecatalog/v0.1/messagecatalog/g"),
    ],
)
@pytest.mark.parametrize("count", [20, 200_000])
def test_a_body_with_too_many_values(
    sqlite_store: Callable[[], Store], serve: Serve, method: str, path: str, count: int
) -> None:
    """A body of 60 MB with millions of values would take gigabytes of memory."""
    client = serve(sqlite_store(), model="default", max_json_values=20)
    answer = client.send(method, path, content=b'{"labels":[%b[]]}' % (b"[]," * count))
    problem = answer.json()["errors"][0] if path.startswith("/check") else answer.json()
    assert answer.status_code == (200 if path.startswith("/check") else 400)
    assert problem["type"].endswith("#parsing_data")
    assert "more than 20 values" in answer.text
    assert "max_json_values" in answer.text
    assert client.send(method, path, content=b'{"labels":{}}').status_code != 500


@pytest.mark.merge
def test_a_document_with_too_many_values(sqlite_store: Callable[[], Store], serve: Serve) -> None:
    """The document is not a schema and is returned in base64 instead of as millions of values."""
    content = b"[%b[]]" % (b"[]," * 1_000_000)
    client = serve(sqlite_store(), model="default")
    document = {"contenttype": "application/json", "format": "JsonSchema/draft-07"}
    refused = client.put_document("/schemagroups/g/schemas/s", content, **document)
    assert (refused.status_code, "more than 1000000 values" in refused.text) == (400, True)
    assert client.put("/modelsource", MODEL).status_code == 200
    assert client.put_document("/dirs/d1/files/f1", content, "application/json").status_code == 201
    assert "filebase64" in client.get("/dirs/d1/files/f1$details?inline=file").json()


@pytest.mark.parametrize("path", ["/model", "/?inline=model"])
def test_an_answer_beyond_the_bound(small: Client, path: str) -> None:
    """A response that exceeds the limit is replaced by an error (R203)."""
    answer = small.get(path)
    assert (answer.status_code, answer.json()["type"].rsplit("#")[1]) == (406, "too_large")


class Failing(Store):
    """A store whose transactions fail as a test says."""

    def __init__(self, store: Store, error: Exception) -> None:
        self._store = store
        self._error: Exception | None = None
        self.error = error

    def fail(self) -> None:
        self._error = self.error

    def generation(self) -> Hashable:
        return self._store.generation()

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        with self._store.read() as reader:
            if self._error:
                raise self._error
            yield reader

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        with self._store.write() as writer:
            yield writer
            if self._error:
                raise self._error

    def close(self) -> None:
        self._store.close()


@pytest.mark.parametrize(
    ("error", "status", "code", "detail"),
    [
        (StorageBusy("another writer held the database"), 503, "server_busy", "another writer"),
        (StorageError("the file is damaged; restore it"), 500, "server_error", "the file is damaged"),
        (StorageFull("the disk is full; free some space there"), 503, "server_busy", "the disk is full"),
        (OSError(errno.ENOSPC, "secret"), 503, "server_busy", "temporary files"),
        (ZeroDivisionError("secret"), 500, "server_error", ""),
    ],
)
def test_failing_store_has_an_error_response(
    error: Exception, status: int, code: str, detail: str, sqlite_store: Callable[[], Store], serve: Serve
) -> None:
    """The response shows the details of known failures; an unexpected failure shows only its number."""
    store = Failing(sqlite_store(), error)
    client = serve(store, model="default")
    store.fail()
    for method in ("GET", "PUT"):
        answer = client.send(method, "/schemagroups/g", json={})
        body = answer.json()
        assert (answer.status_code, body["type"].rsplit("#")[1]) == (status, code)
        assert detail in body.get("detail", "")
        assert "secret" not in answer.text
        assert ("Retry-After" in answer.headers) == (status == 503)
        assert ("instance" in body) == (status == 500)


def test_not_ready_while_the_store_fails(sqlite_store: Callable[[], Store], serve: Serve) -> None:
    store = Failing(sqlite_store(), StorageError("no connection"))
    client = serve(store, model="default")
    assert client.get("/health/ready").status_code == 200
    store.fail()
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["reason"]) == (503, "no connection")
    assert client.get("/health/live").status_code == 200


def test_failed_write_changes_nothing(sqlite_store: Callable[[], Store], serve: Serve) -> None:
    """A failed write leaves no trace (R22)."""
    store = Failing(sqlite_store(), StorageFull("the disk is full"))
    client = serve(store, model="default")
    store.fail()
    assert client.put("/schemagroups/g", {}).status_code == 503
    store.error = StorageError("")
    store._error = None
    assert client.get("/schemagroups/g").status_code == 404


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/compat/schemaregistry/v0.2/subscriptions/a/b", "api_not_found"),
        ("/compat/none", "not_found"),
        ("/events/none", "not_found"),
        ("/health", "not_found"),
    ],
)
def test_unknown_path_belongs_to_the_surrounding_api(client: Client, path: str, code: str) -> None:
    client.refused("GET", path, code)
