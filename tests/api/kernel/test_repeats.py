"""Requests that come again: the same answers as ever, and none that no longer holds."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, put_policy
from tests.api.kernel.test_connection import END, PATIENCE, exchange, last, listening, statuses

from signalbook.access import sessions
from signalbook.access.base import Identity
from signalbook.access.sessions import LoggedIn
from signalbook.api.app import Application
from signalbook.api.kernel import admission, repeats
from signalbook.metrics import HTTP
from signalbook.server import build
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.values import now

LIVE_LAST = last(b"")
GROUP = b"GET /schemagroups/g" + END
SUBJECT = b"/compat/confluent/subjects/s/versions"
DATE = re.compile(rb"\r\ndate: [^\r]+")


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep admissions for ever, as if all happened at one moment."""
    monkeypatch.setattr(admission, "_RECENT", 1e12)


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The targets of the requests that were answered at once."""
    targets: list[bytes] = []
    real = repeats.Repeats.answer

    def answer(self: repeats.Repeats, scope: object, target: bytes, method: str, body: bytes = b"") -> object:
        response = real(self, scope, target, method, body)  # type: ignore[arg-type]
        if response is not None:
            targets.append(target)
        return response

    monkeypatch.setattr(repeats.Repeats, "answer", answer)
    return targets


@contextmanager
def registry(folder: Path, **settings: object) -> Iterator[int]:
    options = {"db": f"sqlite:///{folder}/r.db", "allow_hosts": ("r.example",), **settings}
    app = build(Settings(**options))  # type: ignore[arg-type]
    assert isinstance(app, Application)
    with listening(app) as port:
        yield port


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with registry(tmp_path) as port:
        yield port


class Client:
    """A connection that reads one response at a time and returns it without its date and with sorted headers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.received = b""

    def send(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        return self.read()

    def read(self) -> bytes:
        while b"\r\n\r\n" not in self.received:
            self._more()
        head, _, _ = self.received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        end = len(head) + 4 + (int(length[1]) if length else 0)
        while len(self.received) < end:
            self._more()
        first, *lines = DATE.sub(b"", head).split(b"\r\n")
        body, self.received = self.received[len(head) + 4 : end], self.received[end:]
        return b"\r\n".join((first, *sorted(lines), b"", body))

    def _more(self) -> None:
        part = self.socket.recv(1 << 16)
        assert part, "the server closed the connection"
        self.received += part


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    client = Client(port)
    with closing(client.socket):
        yield client


def put(client: Client, path: bytes, body: bytes, method: bytes = b"PUT", headers: bytes = b"") -> bytes:
    head = b"%s %s HTTP/1.1\r\nHost: r.example\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return client.send(head % (method, path, headers, len(body)) + body)


def test_repeated_request_has_the_same_response_until_a_write(client: Client, repeated: list[bytes]) -> None:
    put(client, b"/schemagroups/g", b'{"name":"one"}')
    first, *repeats = [client.send(GROUP) for _ in range(5)]
    assert repeats == [first] * 4
    assert b'"name":"one"' in first
    assert repeated == [b"/schemagroups/g"] * 3
    put(client, b"/schemagroups/g", b'{"name":"two"}')
    assert b'"name":"two"' in client.send(GROUP)
    assert len(repeated) == 3


def test_requests_with_different_headers_are_distinguished(client: Client, repeated: list[bytes]) -> None:
    put(client, b"/schemagroups/g", json.dumps({"name": "one", "description": "d" * 2000}).encode())
    for _ in range(4):
        plain = client.send(GROUP)
    tag = re.search(rb"etag: ([^\r]+)", plain)
    assert tag
    for header, marks in [
        (b"Accept-Encoding: gzip", b"content-encoding: gzip"),
        (b"If-None-Match: " + tag[1], b"HTTP/1.1 304 "),
        (b"Accept: application/json; indent=2", b'{\n  "'),
    ]:
        answers = {client.send(GROUP.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n\r\n")) for _ in range(4)}
        assert len(answers) == 1
        assert marks in answers.pop()
    assert statuses(client.send(GROUP.replace(b"r.example", b"evil.example"))) == [421]
    assert client.send(GROUP) == plain
    assert len(repeated) == 2 + 3 + 3 + 1  # a 304 is not kept


def test_a_head_has_no_body(client: Client) -> None:
    put(client, b"/schemagroups/g", b"{}")
    for _ in range(4):
        client.send(GROUP)
    client.socket.sendall(GROUP.replace(b"GET", b"HEAD") * 3 + LIVE_LAST)
    remaining_bytes = b"".join(iter(lambda: client.socket.recv(1 << 16), b""))
    assert statuses(remaining_bytes) == [200] * 4
    assert b'"schemagroupid"' not in remaining_bytes


def test_repeated_registration_has_the_same_response(client: Client, repeated: list[bytes]) -> None:
    """The repeated request may have its body whole or in pieces, and another request after it (K-27)."""
    body = json.dumps({"schema": '{"type":"string"}'}).encode()
    answers = [put(client, SUBJECT, body, b"POST") for _ in range(5)]
    assert [json.loads(answer.partition(b"\r\n\r\n")[2])["id"] for answer in answers] == [1] * 5
    assert repeated.count(SUBJECT) == 2
    head = b"POST %s HTTP/1.1\r\nHost: r.example\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    head %= SUBJECT, len(body)
    client.socket.sendall(head + body[:7])
    assert client.send(body[7:]) == answers[-1]
    client.socket.sendall((head + body) * 2 + GROUP + head + body)
    assert [statuses(client.read()) for _ in range(4)] == [[200], [200], [404], [200]]
    assert b'"error_code":40901' in put(client, SUBJECT, body.replace(b"string", b"double"), b"POST")


def test_answers_come_in_the_order_of_the_requests(client: Client, port: int, repeated: list[bytes]) -> None:
    for number in range(4):
        put(client, b"/schemagroups/g%d" % number, b'{"name":"n%d"}' % number)
    requests = [b"GET /schemagroups/g%d" % number + END for number in range(2)]
    for _ in range(4):
        for request in requests:
            client.send(request)
    random = Random(7)
    for _ in range(20):
        numbers = [random.randrange(4) for _ in range(12)]
        received = exchange(port, last(b"".join(b"GET /schemagroups/g%d" % request + END for request in numbers)))
        assert [int(request) for request in re.findall(rb'"name":"n(\d)"', received)] == numbers
    assert len(repeated) > 40
    # What cannot be read behind one is refused behind its answer.
    assert statuses(exchange(port, requests[0] + b"\x00")) == [200, 400]


def test_slow_reader_is_waited_for(client: Client, port: int, repeated: list[bytes]) -> None:
    put(client, b"/schemagroups/g", json.dumps({"description": "d" * 60_000}).encode())
    for _ in range(4):
        client.send(GROUP)
    del repeated[:]
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as other:
        other.sendall(GROUP * 2000)
        assert statuses(exchange(port, LIVE_LAST)) == [200]
        assert len(repeated) < 1000


def test_rights_and_limits_apply_to_repeated_requests(tmp_path: Path, repeated: list[bytes]) -> None:
    """Callers who lose the right to read are rejected, and repeated requests count against the limits."""
    ann = b"GET /schemagroups/g HTTP/1.1\r\nHost: r.example\r\nX-User: ann\r\n\r\n"
    root = b"".join(f"{name}: {value}\r\n".encode() for name, value in ADMINISTRATOR.items())
    with registry(tmp_path, limit_requests=5, **PROXIED) as port:
        client = Client(port)
        with closing(client.socket):
            rules = {"rules": [{"who": ["subject:root"], "role": "administrator"}]}
            readers = {"rules": [*rules["rules"], {"who": ["subject:ann"], "role": "reader"}]}
            assert statuses(put(client, b"/access", json.dumps(readers).encode(), headers=root)) == [201]
            assert statuses(put(client, b"/schemagroups/g", b"{}", headers=root)) == [201]
            assert [statuses(client.send(ann)) for _ in range(4)] == [[200]] * 4
            assert len(repeated) == 2
            assert statuses(client.send(ann.replace(b"ann", b"bob"))) == [404]
            assert statuses(put(client, b"/access", json.dumps(rules).encode(), headers=root)) == [200]
            assert statuses(client.send(ann)) == [404]
            assert statuses(put(client, b"/access", json.dumps(readers).encode(), headers=root)) == [200]
            codes = [statuses(client.send(ann))[0] for _ in range(80)]
            assert codes.count(429) >= 20
            assert codes.count(200) >= 30


def test_credentials_in_trailers_are_ignored(tmp_path: Path) -> None:
    """A proxy that says in a header who asks takes that header away from clients, and lets their trailers through."""
    root = b"".join(f"{name}: {value}\r\n".encode() for name, value in ADMINISTRATOR.items())
    chunked = b" HTTP/1.1\r\nHost: r.example\r\nTransfer-Encoding: chunked\r\n%s\r\n2\r\n{}\r\n0\r\n%s\r\n"
    with registry(tmp_path, **PROXIED) as port:
        client = Client(port)
        with closing(client.socket):
            rules = {"rules": [{"who": ["subject:root"], "role": "administrator"}]}
            assert statuses(put(client, b"/access", json.dumps(rules).encode(), headers=root)) == [201]
            for line in (b"GET /access", b"POST /schemagroups", b"POST " + SUBJECT):
                assert statuses(client.send(line + chunked % (b"", root))) == [401], line
            assert statuses(client.send(b"POST /schemagroups" + chunked % (root, b""))) == [200]


def test_repeated_requests_are_counted(client: Client, repeated: list[bytes]) -> None:
    put(client, b"/schemagroups/g", b"{}")
    HTTP.flush()
    for _ in range(10):
        client.send(GROUP)
    assert (len(repeated), HTTP.hits, HTTP.misses) == (8, 9, 1)


def test_responses_to_individual_callers_are_never_cached(tmp_path: Path, repeated: list[bytes]) -> None:
    """Another caller may have the same rights and send the same headers, and some requests depend on a cookie."""
    with registry(tmp_path, base_url="http://localhost:8080", **PROXIED) as port:
        store = open_store(f"sqlite:///{tmp_path}/r.db")
        put_policy(store, {"who": ["anyone"], "role": "reader"})
        with store.write() as transaction:
            who = LoggedIn(identity=Identity(subject="ann"))
            _, secret = sessions.begin(transaction.sessions, who, now(), 1.0)
        store.close()
        client = Client(port)
        page = b"GET /ui" + END
        cookie = b"\r\nCookie: signalbook-session-8080=%s\r\n\r\n" % secret.encode()
        with closing(client.socket):
            for request, mark in ((page, b"You are "), (GROUP.replace(b"groups/g", b"groups"), b"no-store")):
                for _ in range(3):
                    assert mark in client.send(request.replace(b"\r\n\r\n", cookie))
                    assert mark not in client.send(request)
    assert b"/ui" not in repeated
    assert set(repeated) == {b"/schemagroups"}
