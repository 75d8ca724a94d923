"""Documents over HTTP, on every database: what the cases of the conformance kit do not test."""

import pytest
from tests.api.conftest import Client

ROOT = "http://r.example"
F1 = "/dirs/d1/files/f1"
V1 = f"{F1}/versions/v1"


@pytest.mark.parametrize("content", [b'{ "a" : 1 }', b"\x00\xff\r\n", b""])
@pytest.mark.parametrize("path", [F1, V1])
def test_exact_bytes(client: Client, path: str, content: bytes) -> None:
    """R153, R156."""
    created = client.put_document(path, content, "application/x-thing; v=1")
    assert (created.status_code, created.content) == (201, content)
    assert created.headers["Location"] == f"{ROOT}{path}"
    read = client.get(path)
    assert (read.status_code, read.content) == (200, content)
    assert read.headers["Content-Type"] == "application/x-thing; v=1"
    assert client.get(f"{path}$details").json()["contenttype"] == "application/x-thing; v=1"


def test_a_document_kept_elsewhere(client: Client) -> None:
    """An update of such a document is answered with 303, and a Location is decoded once (R157)."""
    client.put_document(F1, b"", fileurl="http://docs.example/a%2520b")
    assert client.get(F1).headers["Location"] == "http://docs.example/a%20b"
    answer = client.put_document(F1, b"", fileurl="http://x/y")
    assert (answer.status_code, answer.content) == (303, b"")


def test_fileurl_is_encoded_in_its_header(client: Client) -> None:
    client.put(f"{F1}$details", {"fileurl": 'http://x/é?q="<>'})
    assert client.get(F1).status_code in (303, 404)
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("contenttype", ["text/html\r\nX-Evil: 1", "é/x", "\u2028"])
def test_invalid_content_type_is_served_as_bytes(client: Client, contenttype: str) -> None:
    """R317"""
    client.put(f"{F1}$details", {"contenttype": contenttype, "filebase64": "eA=="})
    answer = client.get(F1)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/octet-stream")
    assert "X-Evil" not in answer.headers


def test_documents_are_sent_with_protective_headers(client: Client) -> None:
    """Documents are sent with headers that keep browsers from executing them (R317)."""
    client.put_document(F1, b"<script>", "text/html")
    headers = client.get(F1).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"].startswith("sandbox")


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("versionid", "other", "mismatched_id"),
        ("size", "big", "invalid_attribute"),
        ("", "x", "header_error"),
    ],
)
def test_invalid_headers_are_rejected(client: Client, header: str, value: str, code: str) -> None:
    """R18, R159, R167, R168."""
    client.put_document(F1, b"x")
    client.refused("PUT", F1, code, content=b"y", headers={f"xRegistry-{header}": value})


def test_a_cross_reference_serves_the_target(client: Client) -> None:
    """The document is served with the ids of the source; a reference to a missing target has no document
    (R265, R268).
    """
    client.put_document(F1, b"x", "text/plain")
    client.put("/dirs/d2/files/src$details", {"meta": {"xref": F1}})
    answer = client.get("/dirs/d2/files/src")
    assert (answer.content, answer.headers["xRegistry-fileid"]) == (b"x", "src")
    assert client.get("/dirs/d2/files/src/versions/1").headers["xRegistry-xid"] == "/dirs/d2/files/src/versions/1"
    client.send("DELETE", F1)
    assert client.get("/dirs/d2/files/src").content == b""
