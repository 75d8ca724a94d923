"""Fetching what a client names, from real servers that mean no good (R316)."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address, ip_network

import httpcore
import pytest
from tests.serving import serving_answers

from signalbook.fetching import AllowList, Deadline, Errand, FetchError, FetchLimits, is_public, reachable
from signalbook.settings import SettingError

Answer = Callable[[socket.socket], None]
Serve = Callable[[bytes | Answer], str]

LIMITS = FetchLimits(max_bytes=1000, seconds=300.0, redirects=2)
SHORT = replace(LIMITS, seconds=2.0)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that answers every connection so; its URL."""
    listeners: list[socket.socket] = []

    def start(answer: bytes | Answer) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_accept, args=(listener, answer), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def _accept(listener: socket.socket, answer: bytes | Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(connection, answer), daemon=True).start()


def _talk(connection: socket.socket, answer: bytes | Answer) -> None:
    with connection:
        try:
            connection.recv(65536)
            if isinstance(answer, bytes):
                connection.sendall(answer)
            else:
                answer(connection)
        except OSError:
            return


def body(content: bytes, headers: bytes = b"") -> bytes:
    return OK + headers + b"Content-Length: %d\r\n\r\n" % len(content) + content


def place(url: str) -> str:
    return url.removeprefix("http://")


def fetch(url: str, *allowed: str, limits: FetchLimits = LIMITS) -> bytes:
    return Errand(AllowList(allowed or [place(url)]), limits).fetch(url)


def test_allowed_url_is_fetched(serve: Serve) -> None:
    url = serve(body(b'{"a": 1}'))
    errand = Errand(AllowList([place(url)]), LIMITS)
    assert errand.fetch(url) == b'{"a": 1}'
    assert errand.load(f"{url}/x?y#/z") == {"a": 1}


def test_request_has_no_credentials_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[BaseHTTPRequestHandler] = []

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        seen.append(request)
        return 200, {}, b"1"

    with serving_answers(answer) as url:
        assert fetch(f"{url}/a?b=c#d", place(url)) == b"1"
    assert seen[0].requestline == "GET /a?b=c HTTP/1.1"
    assert set(seen[0].headers) == {"Host", "Accept", "Accept-Encoding"}


def drip(connection: socket.socket) -> None:
    connection.sendall(OK + b"Content-Length: 1000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def slow_head(connection: socket.socket) -> None:
    connection.sendall(OK)
    while True:
        connection.sendall(b"X-A: b\r\n")
        time.sleep(0.05)


def silence(connection: socket.socket) -> None:
    connection.recv(1)


def flood(connection: socket.socket) -> None:
    connection.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")


def endless_head(connection: socket.socket) -> None:
    connection.sendall(OK)
    while True:
        connection.sendall(b"X-A: " + b"b" * 10000 + b"\r\n")


SLOW = [
    pytest.param(drip, id="a byte at a time"),
    pytest.param(slow_head, id="a header at a time"),
    pytest.param(silence, id="no answer"),
]
BAD = [
    pytest.param(flood, "more than the 1000 bytes", id="endless"),
    pytest.param(endless_head, "cannot be fetched", id="endless head"),
    pytest.param(body(b"x" * 1001), "more than the 1000 bytes", id="too large"),
    pytest.param(OK + b"Content-Length: 10\r\n\r\nshort", "cannot be fetched", id="less than it says"),
    pytest.param(OK + b"Content-Length: x\r\n\r\nshort", "cannot be fetched", id="a length that is none"),
    pytest.param(
        body(gzip.compress(b"0" * 10**6), b"Content-Encoding: gzip\r\n"), "compressed, unasked", id="a gzip bomb"
    ),
    pytest.param(b"nonsense\r\n\r\n", "cannot be fetched", id="no HTTP"),
    pytest.param(b"", "cannot be fetched", id="nothing"),
    pytest.param(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the server answers 404", id="404"),
    pytest.param(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "the server answers 302", id="302 to nowhere"),
]


@pytest.mark.parametrize("answer", SLOW)
def test_slow_servers_are_an_error(serve: Serve, answer: Answer) -> None:
    with pytest.raises(FetchError, match="did not come within 2 seconds"):
        fetch(serve(answer), limits=SHORT)


@pytest.mark.parametrize(("answer", "message"), BAD)
def test_hostile_servers_are_survived(serve: Serve, answer: bytes | Answer, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        fetch(serve(answer))


def redirect(url: str) -> bytes:
    return b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % url.encode()


def test_redirects_within_the_list(serve: Serve) -> None:
    target = serve(body(b"1"))
    url = serve(redirect(f"{target}/x"))
    assert fetch(url, place(url), place(target)) == b"1"


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://127.0.0.1:9/", "127.0.0.1:9 is not among the places"),
        ("http://169.254.169.254/latest/meta-data", "is not among the places"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://127.0.0.1/", "only http and https"),
        ("/", "one redirect too many"),
    ],
)
def test_redirects_off_the_list(serve: Serve, location: str, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        fetch(serve(redirect(location)))


def test_an_errand_has_one_set_of_limits(serve: Serve) -> None:
    url = serve(body(b"x" * 600))
    errand = Errand(AllowList([place(url)]), LIMITS)
    assert len(errand.fetch(url)) == 600
    with pytest.raises(FetchError, match="more than the 1000 bytes"):
        errand.fetch(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://example.com/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("model.json", "only http and https"),
        ("http:///x", "only http and https"),
        ("http://user:secret@example.com/", "with a name or password"),
        ("http://example.com:99999/", "is no URL"),
        ("http://exämple.com/", "is no URL"),
        ("http://[::1/", "is no URL"),
        ("http://example.com:81/", "example.com:81 is not among"),
        ("https://other.example/", "other.example:443 is not among"),
        ("http://2130706433/", "2130706433:80 is not among"),
    ],
)
def test_invalid_urls_are_not_fetched(url: str, message: str) -> None:
    with pytest.raises(FetchError, match=message) as caught:
        fetch(url, "example.com")
    assert "secret" not in str(caught.value)


def test_no_url_is_allowed_by_default() -> None:
    assert not AllowList([])
    with pytest.raises(FetchError, match="is not among the places"):
        Errand(AllowList([])).fetch("https://example.com/")


@pytest.mark.parametrize(
    ("entries", "address", "host", "is_accepted"),
    [
        (["h"], "93.184.216.34", "h", True),
        (["h"], "10.0.0.1", "h", False),
        (["h"], "127.0.0.1", "h", False),
        (["h"], "169.254.169.254", "h", False),
        (["h"], "::1", "h", False),
        (["h"], "::ffff:10.0.0.1", "h", False),
        (["h"], "224.0.0.1", "h", False),
        (["h"], "0.0.0.0", "h", False),
        (["h", "10.0.0.0/8"], "10.0.0.1", "h", True),
        (["h", "10.0.0.0/8"], "::ffff:10.0.0.1", "h", True),
        (["h", "10.0.0.1"], "10.0.0.1", "h", True),
        (["h", "10.0.0.2"], "10.0.0.1", "h", False),
        (["localhost"], "127.0.0.1", "localhost", True),
        (["localhost", "h"], "127.0.0.1", "h", False),
        (["[::1]:80"], "::1", "::1", True),
    ],
)
def test_addresses_that_names_may_have(entries: list[str], address: str, host: str, is_accepted: bool) -> None:
    """A name on the list that leads inside is an attack, unless the list says that it may (DNS rebinding)."""
    assert AllowList(entries).takes(ip_address(address), host) is is_accepted


NOT_PUBLIC = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignments",
    "192.0.0.8/32": "dummy",
    "192.0.0.170/31": "NAT64 discovery",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relays",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarks",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "255.255.255.255/32": "broadcast",
    "::/128": "unspecified",
    "::1/128": "loopback",
    "::/96": "IPv4-compatible",
    "::ffff:10.0.0.0/104": "IPv4-mapped, private",
    "::ffff:127.0.0.0/104": "IPv4-mapped, loopback",
    "::ffff:0:0:0/96": "IPv4-translated",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64, local",
    "100::/64": "discard",
    "100:0:0:1::/64": "dummy prefix",
    "2001::/32": "Teredo",
    "2001:2::/48": "benchmarks",
    "2001:10::/28": "ORCHID",
    "2001:20::/28": "ORCHIDv2",
    "2001:30::/28": "drone identifiers",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "2002:7f00:1::/48": "6to4 of loopback",
    "3fff::/20": "documentation",
    "4000::/3": "not assigned",
    "5f00::/16": "segment routing",
    "fc00::/7": "unique local",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}


@pytest.mark.parametrize("network", NOT_PUBLIC)
def test_special_purpose_addresses_are_not_public(network: str) -> None:
    """The IANA registries of special-purpose addresses, and what surrounds them."""
    addresses = ip_network(network)
    assert not is_public(addresses[0])
    assert not is_public(addresses[-1])


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.128.0.0", "172.32.0.1", "191.255.255.255", "192.0.1.0",
     "192.31.196.1", "192.175.48.1", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8", "2001:200::1",
     "2001:4860:4860::8888", "2003::1", "2606:4700:4700::1111", "2620:4f:8000::1", "2a00::1", "3ffe::1"],
)  # fmt: skip
def test_neighbouring_addresses_are_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    ("entries", "address", "host", "port", "admitted"),
    [
        ([], "93.184.215.14", "h", 8443, True),
        ([], "10.0.0.1", "h", 443, False),
        ([], "127.0.0.1", "localhost", 80, False),
        ([], "169.254.169.254", "h", 80, False),
        ([], "::ffff:127.0.0.1", "h", 80, False),
        ([], "64:ff9b::a00:1", "h", 80, False),
        ([], "2002:a00:1::1", "h", 80, False),
        ([], "fe80::1", "h", 80, False),
        ([], "2606:4700:4700::1111", "h", 443, True),
        (["localhost:9000"], "127.0.0.1", "localhost", 9000, True),
        (["localhost:9000"], "127.0.0.1", "localhost", 9001, False),
        (["localhost:9000"], "127.0.0.1", "h", 9000, False),
        (["127.0.0.1:9000"], "127.0.0.1", "h", 9000, True),
        (["127.0.0.1:9000"], "127.0.0.1", "h", 9001, False),
        (["h:9000"], "10.0.0.1", "h", 9000, False),
        (["10.0.0.0/8"], "10.0.0.1", "h", 9001, True),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", "h", 9001, True),
    ],
)
def test_places_to_connect_to(entries: list[str], address: str, host: str, port: int, admitted: bool) -> None:
    """Public addresses need no entry; other addresses need an entry with their port."""
    assert AllowList(entries).admits(ip_address(address), host, port) is admitted


def test_connection_uses_the_checked_address() -> None:
    assert reachable("localhost", 9, AllowList(["localhost:9"]), 10) in ("127.0.0.1", "::1")
    with pytest.raises(FetchError, match=r"localhost:9 leads to .* neither public nor among the places allowed"):
        reachable("localhost", 9, AllowList([]), 10)
    with pytest.raises(FetchError, match="cannot be found: it is no name"):
        reachable("a" * 64 + ".example", 9, AllowList([]), 10)


def test_name_of_an_internal_address_is_rejected(serve: Serve) -> None:
    """``localhost`` by another name: the list has the name, and not the address."""
    port = serve(body(b"1")).rpartition(":")[2]
    name = f"127.1:{port}"  # a name to the resolver, an address to the network
    with pytest.raises(FetchError, match=r"127\.0\.0\.1, which is not public"):
        fetch(f"http://{name}/", name)
    assert fetch(f"http://localhost:{port}/", f"LOCALHOST.:{port}") == b"1"


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_named"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 80, True),
        ("example.com", "example.com", 8080, False),
        ("Example.COM.:8080", "example.com", 8080, True),
        ("example.com:8080", "example.com", 443, False),
        ("example.com", "www.example.com", 443, False),
        ("10.0.0.0/8", "10.0.0.1", 80, False),
        ("::1", "::1", 80, True),
    ],
)
def test_places(entry: str, host: str, port: int, is_named: bool) -> None:
    assert AllowList([entry]).names(host, port) is is_named


@pytest.mark.parametrize(
    "entry", ["", "http://example.com", "a:b", "a:99999", "user@host", "10.0.0.1/8", "*/x", "[::1"]
)
def test_invalid_allow_list_entries_are_rejected(entry: str) -> None:
    with pytest.raises(SettingError, match="allow_fetch: "):
        AllowList([entry])


def test_time_is_up() -> None:
    errand = Errand(AllowList(["localhost"]), FetchLimits(seconds=0))
    with pytest.raises(httpcore.ReadTimeout):
        Deadline(0).remaining()
    with pytest.raises(FetchError, match="did not come within 0 seconds"):
        errand.fetch("http://localhost/")
