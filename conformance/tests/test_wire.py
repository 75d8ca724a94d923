"""Requests and answers: nowhere but to the server, nothing without bounds."""

from collections.abc import Callable

import httpx
import pytest

from xregistry_conformance import wire as module
from xregistry_conformance.wire import Wire, WireError, WireRequest, WireResponse


def wire(handler: Callable[[httpx.Request], httpx.Response], url: str = "http://kit.example/reg/") -> Wire:
    return Wire(url, timeout=5, headers={"Authorization": "secret"}, transport=httpx.MockTransport(handler))


def get(target: str) -> WireRequest:
    return WireRequest(method="GET", target=target, headers={})


def echo(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"url": str(request.url), "auth": request.headers["authorization"]})


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("/", "http://kit.example/reg/"),
        ("/dirs?limit=2", "http://kit.example/reg/dirs?limit=2"),
        ("/dirs/d1/files/f1$details", "http://kit.example/reg/dirs/d1/files/f1$details"),
        ("http://kit.example/reg/dirs?page=2", "http://kit.example/reg/dirs?page=2"),
        ("http://public.example/dirs", "http://kit.example/reg/dirs"),
    ],
)
def test_addresses(target: str, url: str) -> None:
    with wire(echo) as opened:
        opened.root = "http://public.example"
        expected = {"url": url, "auth": "secret"}
        assert opened.send(get(target)).json() == expected


@pytest.mark.parametrize(
    "target", ["http://elsewhere.example/x", "http://kit.example/regs", "http://kit.example", "file:///etc/passwd"]
)
def test_never_elsewhere(target: str) -> None:
    with wire(echo) as opened, pytest.raises(WireError, match="leads away"):
        opened.send(get(target))


def test_redirects_are_answers() -> None:
    with wire(lambda _: httpx.Response(303, headers={"Location": "http://elsewhere.example"})) as opened:
        assert opened.send(get("/")).status == 303


def test_failures_are_reported() -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route")

    with wire(fail) as opened, pytest.raises(WireError, match="GET /: no route"):
        opened.send(get("/"))


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESPONSE_BYTES", 10)
    with wire(lambda _: httpx.Response(200, content=b"x" * 11)) as opened, pytest.raises(WireError, match="larger"):
        opened.send(get("/"))


def test_answers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends a byte now and then does not hold the kit up for ever."""
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("xregistry_conformance.wire.time.monotonic", lambda: next(clock))
    drops = iter([b"x"] * 100)
    with wire(lambda _: httpx.Response(200, content=drops)) as opened, pytest.raises(WireError, match="longer than 5"):
        opened.send(get("/"))


@pytest.mark.parametrize("url", ["kit.example", "ftp://kit.example", "http://", "http://["])
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(WireError, match="is no URL of a registry"):
        Wire(url, timeout=1, headers={})


def test_requests_and_responses_as_text() -> None:
    request = WireRequest(method="PUT", target="/x", headers={"A": "b"}, content=b"body \xff")
    assert str(request) == "PUT /x\nA: b\n\nbody \\xff"
    assert str(WireResponse(status=204, headers=[("Allow", "GET")], content=b"")) == "204\nAllow: GET"


def test_links() -> None:
    headers = [("Link", "<http://a/>;rel=xregistry-root"), ("link", '</p2>; rel="next"; count=5')]
    expected = {"xregistry-root": "http://a/", "next": "/p2"}
    assert WireResponse(status=200, headers=headers, content=b"").links() == expected
