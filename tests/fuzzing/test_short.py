"""A few of the requests of ``make fuzz``, on SQLite under a policy."""

import socket
import threading
from pathlib import Path

import pytest
from tests.fuzzing.grammar import Grammar, Request
from tests.fuzzing.judging import faults
from tests.fuzzing.running import Run
from tests.fuzzing.servers import serving
from tests.fuzzing.wire import Connection, Response

REQUESTS = 400


@pytest.mark.merge
def test_no_request_does_harm(tmp_path: Path) -> None:
    with serving("short", f"sqlite:///{tmp_path}/r.db", tmp_path, open_=False) as server:
        run = Run(server, seed=7, connections=4, folder=tmp_path)
        for numbers in (range(REQUESTS // 2), range(REQUESTS // 2, REQUESTS)):
            run.round(numbers)
        summary = run.summary
    summary.look_at_log(server.log, server.secrets)
    assert not summary.faults, str(summary)
    assert summary.requests >= REQUESTS
    assert summary.held > 10
    assert {200, 201, 400, 401, 403, 404} <= summary.statuses.keys()


def test_a_request_follows_from_seed_and_number() -> None:
    first, other = Grammar(1, "h", [None, "Bearer x"]), Grammar(1, "h", [None, "Bearer x"])
    requests = [first.request(number) for number in range(300)]
    assert requests == [other.request(number) for number in range(300)]
    assert requests != [Grammar(2, "h", [None]).request(number) for number in range(300)]


def test_body_is_sent_completely_unless_it_is_rejected() -> None:
    head = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 20000000\r\n\r\n"
    whole = Request(number=1, method="POST", target="/", parts=(head + bytes(20_000_000),))
    for early, status in (
        (b"HTTP/1.1 100 Continue\r\n\r\n", 200),
        (b"", 200),
        (b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", 413),
    ):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            answering = threading.Thread(target=_answer, args=(listener, early, 20_000_000 + len(head)))
            answering.start()
            with Connection(listener.getsockname()[1]) as connection:
                response = connection.ask(whole)
            answering.join()
        assert response is not None
        assert response.status == status


def _answer(listener: socket.socket, early: bytes, size: int) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(early)
        while size > 0 and (part := connection.recv(1 << 20)):
            size -= len(part)
        if not size:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_faults_of_responses_are_found() -> None:
    request = next(
        candidate for candidate in map(Grammar(1, "h", [None]).request, range(100)) if candidate.method == "GET"
    )
    fine = b'{"type":"about:blank","title":"t","subject":"/"}'
    kind = {"content-type": "application/json"}
    for status, headers, body, expected in (
        (200, {}, b"", []),
        (200, {}, b"a secret", ["repeats a secret"]),
        (400, kind, fine, []),
        (400, {}, fine, ["a 400 that is no JSON"]),
        (404, kind, b"{", ["a 404 whose JSON is broken"]),
        (404, kind, b"{}", ["a 404 without type and title"]),
        (500, kind, fine, ["answered 500"]),
        (503, kind, fine, ["503 without Retry-After"]),
        (503, {**kind, "retry-after": "1"}, fine, []),
    ):
        response = Response(status=status, headers=headers, body=body)
        assert list(faults(request, response, [b"secret"])) == expected
