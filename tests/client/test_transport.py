"""How the client bears a server that is away, busy, broken or hostile."""

import gzip
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.certificates import issue

from signalbook.client import BadResponse, Client, NotFound, Refused, Unreachable

from .conftest import Script

OK: tuple[int, dict[str, str], bytes] = (200, {}, b"{}")
BUSY = (503, {"Retry-After": "0"}, b'{"type": "x#server_busy", "title": "busy"}')


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda client: client.get(), 3),
        (lambda client: client.put("/", {}), 3),
        (lambda client: client.delete("/dirs"), 3),
        (lambda client: client.post("/dirs", {}), 1),
        (lambda client: client.patch("/", {}), 1),
    ],
)
def test_only_idempotent_requests_are_repeated(script: Script, call: Callable[[Client], Any], count: int) -> None:
    script.answers = [BUSY, BUSY, OK]
    with Client(script.url) as client:
        if count == 1:
            with pytest.raises(Refused) as caught:
                call(client)
            assert (caught.value.status, caught.value.code) == (503, "server_busy")
        else:
            call(client)
    assert len(script.asked) == count


def test_attempts_end(script: Script) -> None:
    script.answers = [BUSY]
    with Client(script.url, attempts=2) as client, pytest.raises(Refused, match="busy"):
        client.get()
    assert len(script.asked) == 2


def test_missing_server_is_an_error() -> None:
    with Client("http://127.0.0.1:9", attempts=2) as client, pytest.raises(Unreachable, match="is it running"):
        client.get()


def test_server_without_tls_is_an_error(script: Script) -> None:
    with Client(script.url.replace("http:", "https:"), attempts=1) as client, pytest.raises(Unreachable) as caught:
        client.get()
    assert "it speaks HTTP, not HTTPS" in str(caught.value)


def test_a_certificate_of_an_unknown_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error suggests a way that works."""
    files = issue(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.both)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"https://localhost:{server.server_address[1]}"
    try:
        with Client(url, attempts=1) as client, pytest.raises(Unreachable, match=r"SSL_CERT_FILE=ca\.pem"):
            client.get()
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        with Client(url, attempts=1) as client, pytest.raises(Refused, match="501"):
            client.get()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        ((200, {}, b"<html>"), BadResponse, r"this is no registry: it answers without JSON \("),
        ((200, {}, b"[]"), BadResponse, "without a JSON object"),
        ((200, {}, b"[" * 1000), BadResponse, r"this is no registry: it answers without JSON \("),
        ((301, {"Location": "http://x.example/"}, b""), BadResponse, "sends to http://x.example/"),
        ((404, {}, b"<html>"), NotFound, "HTTP 404 Not Found"),
        ((500, {}, b'{"title": "oops", "detail": "d"}'), Refused, "oops\nd"),
        ((599, {}, b"[1]"), Refused, "HTTP 599"),
    ],
)
def test_invalid_responses_are_errors(script: Script, response: Any, error: type[Exception], message: str) -> None:
    script.answers = [response]
    with Client(script.url) as client, pytest.raises(error, match=message):
        client.get()


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_an_answer_too_large(script: Script, headers: dict[str, str]) -> None:
    body = b'{"a": "' + b"x" * 10_000 + b'"}'
    script.answers = [(200, headers, gzip.compress(body) if headers else body)]
    with Client(script.url, max_bytes=9_999) as client, pytest.raises(BadResponse, match="larger than 9999 bytes"):
        client.get()
    with Client(script.url) as client:
        assert len(client.get()["a"]) == 10_000


def test_pages_are_followed(script: Script) -> None:
    script.answers = [
        (200, {"Link": '</>;rel=xregistry-root, </dirs?page=2>; rel="next";count=3'}, b'{"a": {}, "b": {}}'),
        (200, {"Link": f"<{script.url}/dirs?page=3>;count=3;rel=next"}, b'{"c": {}}'),
        (200, {"Link": "</dirs?page=2>;rel=prev"}, b"{}"),
    ]
    with Client(script.url) as client:
        assert [name for name, _ in client.items("/dirs", inline=["*"])] == ["a", "b", "c"]
    assert script.asked == ["GET /dirs?inline=*", "GET /dirs?page=2", "GET /dirs?page=3"]  # R288


@pytest.mark.parametrize(
    ("link", "message"),
    [("<http://elsewhere.example/dirs>;rel=next", "another server"), ("</dirs?a>;rel=next", "names itself")],
)
def test_invalid_next_links_are_errors(script: Script, link: str, message: str) -> None:
    script.answers = [(200, {"Link": link}, b"{}")]
    with Client(script.url) as client, pytest.raises(BadResponse, match=message):
        list(client.items("/dirs"))


def test_a_user_in_the_url_is_reported_to_the_server_alone(script: Script) -> None:
    """The user is sent on every page, and no message shows it."""
    page = (200, {"Link": f'<{script.url}/dirs?page=2>;rel="next"'}, b'{"a": {}}')
    script.answers = [page, (404, {}, b"")]
    with Client(script.url.replace("//", "//me:secret@")) as client:
        with pytest.raises(NotFound) as caught:
            list(client.items("/dirs"))
        assert client.base_url == script.url
    assert "secret" not in str(caught.value)
    assert script.asked == ["GET /dirs", "GET /dirs?page=2"]
    assert script.users == ["me:secret", "me:secret"]
