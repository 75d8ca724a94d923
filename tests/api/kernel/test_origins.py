"""Pages and host names that requests come by."""

from collections.abc import Callable
from itertools import product

import pytest
from tests.api.conftest import Client, Serve

from signalbook.api.kernel.origins import Origins
from signalbook.settings import SettingError, Settings
from signalbook.storage.store import Store

UI = "https://ui.example"
WRITES = ("PUT", "POST", "PATCH", "DELETE", "BREW")
PATHS = ("/dirs/d1", "/subscriptions", "/notifications", "/compat/schemaregistry/v0.2/schemagroups/g", "/pipelines/p")


@pytest.fixture
def store(sqlite_store: Callable[[], Store]) -> Store:
    return sqlite_store()


@pytest.fixture
def guarded(store: Store, serve: Serve) -> Client:
    return serve(store, allow_origins=(UI, "http://[::1]:80/", "http://Dev.example:8000"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://r.example.evil.example", "Content-Type": "text/plain"},
        {"Origin": "http://r.example:81", "Content-Type": "application/json"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://r.example"},
        {"Origin": "https://ui.example.evil.example"},
    ],
)
def test_pages_of_other_origins_cannot_write(guarded: Client, headers: dict[str, str]) -> None:
    before = guarded.get("/?inline=*").text
    for method, path in product(WRITES, PATHS):
        answer = guarded.send(method, path, content=b'{"labels": {}}', headers=headers)
        assert (answer.status_code, "allow_origins" in answer.json()["detail"]) == (403, True)
        assert "Access-Control-Allow-Origin" not in answer.headers
    assert guarded.get("/?inline=*").text == before


@pytest.mark.parametrize(
    "headers",
    [
        {},  # no browser
        {"Origin": "http://r.example"},
        {"Origin": "https://r.example"},  # behind a proxy that ends TLS
        {"Origin": "http://r.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": UI, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://dev.example:8000"},
        {"Origin": "http://[::1]"},
    ],
)
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_allowed_origins_can_write(guarded: Client, headers: dict[str, str], content_type: str | None) -> None:
    """Documents come as text/plain, and what curl sends without more options as a form."""
    assert guarded.put("/modelsource", {}, headers=headers).status_code == 200
    media = {"Content-Type": content_type} if content_type else {}
    answer = guarded.send("PATCH", "/", content=b'{"name": "n"}', headers=media | headers)
    assert answer.status_code == 200
    origin = headers.get("Origin")
    allowed = origin if origin in (UI, "http://dev.example:8000", "http://[::1]") else None
    assert answer.headers.get("Access-Control-Allow-Origin") == allowed
    assert answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", UI])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_every_page_reads(guarded: Client, method: str, origin: str) -> None:
    """Pages of every origin can read (R315)."""
    answer = guarded.send(method, "/", headers={"Origin": origin, "Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "*")


@pytest.mark.parametrize("method", WRITES)
def test_preflights_of_writes(guarded: Client, method: str) -> None:
    for origin, allowed in ((UI, UI), ("https://evil.example", None)):
        preflight = {"Origin": origin, "Access-Control-Request-Method": method}
        answer = guarded.send("OPTIONS", "/", headers=preflight)
        assert answer.headers.get("Access-Control-Allow-Origin") == allowed
        assert answer.headers["Vary"] == "Origin"


OWN = ("localhost", "LocalHost:8080", "a.localhost", "127.0.0.1:8080", "127.8.9.1", "[::1]", "[::1]:8080", "")
NAMED = ("public.example", "Public.example.:443", "r.example:1", "proxy.internal")
FOREIGN = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "r.example.evil", "10.1.2.3", "[::2]")
BROKEN = ('"', "a b", "é")


@pytest.mark.parametrize("listening", ["127.0.0.1", "localhost", "::1"])
def test_names_on_loopback(store: Store, serve: Serve, listening: str) -> None:
    """DNS rebinding: the page's own name leads to this machine."""
    hosts = ("r.example", "Proxy.internal")
    client = serve(store, host=listening, base_url="https://public.example/r", allow_hosts=hosts)
    for name in (*OWN, *NAMED):
        assert client.get("/", headers={"Host": name}).status_code == 200, name
    for name in (*FOREIGN, *BROKEN):
        for path in ("/", "/health/live", "/events", "/openapi.json"):
            answer = client.get(path, headers={"Host": name.encode(), "Origin": f"http://{name}".encode()})
            assert answer.status_code == 421, name
            assert "allow_hosts" in answer.json()["detail"]
            assert "evil" not in answer.text + str(answer.headers)
    assert client.put("/modelsource", {}, headers={"Origin": "https://public.example"}).status_code == 200
    assert client.put("/modelsource", {}, headers={"Origin": "https://other.example"}).status_code == 403


def test_names_on_a_network(store: Store, serve: Serve) -> None:
    """There probes and proxies use addresses and names that nobody lists."""
    client = serve(store, host="0.0.0.0", access="open")
    assert client.get("/", headers={"Host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["ui.example", "*", "https://ui.example/page", "https://", "null", "http://[", "http://h:x"]
)
def test_invalid_origin_is_rejected(origin: str) -> None:
    with pytest.raises(SettingError, match="allow_origins has origins such as"):
        Origins(Settings(allow_origins=(origin,)))
