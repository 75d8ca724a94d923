"""Responses in the coding a client asks for, each with a tag of its own."""

import httpx
import pytest
from tests.api.conftest import Client

from signalbook.api.kernel.compression import choose_coding
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.responses import Response

PATH = "/dirs/d1/files/f1"
DETAILS = f"{PATH}$details"
DOCUMENT = b"long " * 400


@pytest.fixture
def filled(client: Client) -> Client:
    client.put_document(PATH, DOCUMENT, "text/plain")
    return client


def asked(client: Client, accept: str, path: str = PATH, **headers: str) -> httpx.Response:
    return client.get(path, headers={"Accept-Encoding": accept, **headers})


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("zstd", "zstd"),
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP;q=1.0, zstd;q=0.5", "gzip"),
        ("*", "zstd"),
        ("zstd;q=0, *", "gzip"),
        ("br, deflate", ""),
        ("gzip;q=0", ""),
        ("identity;q=1, gzip;q=0.5", ""),
        ("gzip;q=many", ""),
        ("identity", ""),
        ("", ""),
    ],
)
def test_coding_follows_the_preference_of_the_client(accept: str, expected: str) -> None:
    response = Response(headers=(("Content-Type", "application/json"),), body=b" " * 1024)
    assert choose_coding(response, [(b"accept-encoding", accept.encode())]) == expected


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ((("Content-Type", "application/json"),), 1023),
        ((("Content-Type", "image/png"),), 5000),
        ((), 5000),
        ((("Content-Type", "text/plain"), ("Content-Encoding", "br")), 5000),
        ((("Content-Type", "text/plain"), NO_STORE), 5000),
    ],
)
def test_response_is_not_compressed(headers: tuple[tuple[str, str], ...], size: int) -> None:
    assert choose_coding(Response(headers=headers, body=b" " * size), [(b"accept-encoding", b"gzip")]) == ""


def test_each_coding_has_its_bytes_and_its_etag(filled: Client) -> None:
    plain = asked(filled, "identity")
    assert (plain.content, plain.headers["Vary"]) == (DOCUMENT, "Accept-Encoding")
    assert "Content-Encoding" not in plain.headers
    tags = {plain.headers["ETag"]}
    for name in ("zstd", "gzip"):
        for _ in range(2):  # made, and kept
            answer = asked(filled, name)
            assert answer.content == DOCUMENT
            assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == (name, "Accept-Encoding")
            assert int(answer.headers["Content-Length"]) < 100
        head = filled.send("HEAD", PATH, headers={"Accept-Encoding": name})
        assert (head.headers["ETag"], head.content) == (answer.headers["ETag"], b"")
        tags.add(answer.headers["ETag"])
    assert len(tags) == 3
    assert not any(tag.startswith("W/") for tag in tags)


def test_large_responses_are_compressed_in_a_thread(filled: Client) -> None:
    content = b"long " * 100_000
    filled.put_document(PATH, content, "text/plain")
    for name in ("gzip", "zstd"):
        answer = asked(filled, name)
        assert answer.content == content
        assert int(answer.headers["Content-Length"]) < 10_000


def test_conditional_request_with_any_etag_gets_304(filled: Client) -> None:
    """The response 304 has the ETag of the representation that the client would have received."""
    tags = {name: asked(filled, name).headers["ETag"] for name in ("identity", "zstd", "gzip")}
    for name, tag in tags.items():
        for held in tags.values():
            answer = asked(filled, name, **{"If-None-Match": held})
            assert (answer.status_code, answer.headers["ETag"], answer.content) == (304, tag, b"")
            assert answer.headers["Vary"] == "Accept-Encoding"
    assert asked(filled, "zstd", **{"If-None-Match": '"other-zstd"'}).status_code == 200


@pytest.mark.parametrize("name", ["identity", "zstd", "gzip"])
def test_conditional_write_accepts_the_etag_of_any_coding(filled: Client, name: str) -> None:
    filled.send("PATCH", DETAILS, json={"description": "long " * 400})
    tag = asked(filled, name, DETAILS).headers["ETag"]
    statuses = [
        filled.send("PATCH", DETAILS, json={"name": value}, headers={"If-Match": tag}).status_code for value in "nm"
    ]
    assert statuses == [200, 412]


def test_indented_and_compressed(filled: Client) -> None:
    filled.send("PATCH", DETAILS, json={"description": "long " * 400})
    answer = asked(filled, "gzip", DETAILS, Accept="application/json; indent=2")
    assert answer.content.startswith(b'{\n  "')
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["ETag"].startswith('W/"')
    assert answer.headers["ETag"].endswith('-gzip"')
    assert answer.headers["Vary"] == "Accept-Encoding, Accept"
