"""Documents over HTTP, on every database: bytes in the body, attributes in headers, both ways."""

from __future__ import annotations

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


def test_headers_of_a_resource(client: Client) -> None:
    """R30, R158, R160, R161."""
    client.put_document(F1, b"x", "text/plain", **{"name": "a%20b", "labels.k": "v", "size": "3"})
    headers = client.get(F1).headers
    metadata = {name: headers[f"xRegistry-{name}"] for name in ("fileid", "versionid", "self", "xid", "epoch", "name")}
    assert metadata == {
        "fileid": "f1",
        "versionid": "1",
        "self": f"{ROOT}{F1}",
        "xid": F1,
        "epoch": "1",
        "name": "a%20b",
    }
    assert (headers["xRegistry-labels.k"], headers["xRegistry-size"]) == ("v", "3")
    assert (headers["xRegistry-isdefault"], headers["xRegistry-ancestorid"]) == ("true", "1")
    assert headers["xRegistry-metaurl"] == f"{ROOT}{F1}/meta"
    assert (headers["xRegistry-versionsurl"], headers["xRegistry-versionscount"]) == (f"{ROOT}{F1}/versions", "1")
    assert headers["Content-Disposition"] == "f1"
    assert "xRegistry-contenttype" not in headers
    assert client.get(f"{F1}$details").json()["name"] == "a b"


def test_headers_of_a_version(client: Client) -> None:
    """A Version has none of the headers of its Resource (R158)."""
    client.put_document(V1, b"x")
    headers = client.get(V1).headers
    assert (headers["xRegistry-xid"], headers["xRegistry-self"]) == (V1, f"{ROOT}{V1}")
    assert "xRegistry-metaurl" not in headers
    assert headers["Content-Disposition"] == "f1"


def test_headers_merge_and_the_body_replaces(client: Client) -> None:
    """R160, R162, R163, traps 1 and 2."""
    client.put_document(F1, b"x", "text/plain", **{"name": "N", "text": "T", "labels.a": "1", "labels.b": "2"})
    client.put_document(F1, b"", **{"text": "null", "labels.c": "3"})
    metadata = client.get(f"{F1}$details?inline=file").json()
    assert (metadata["name"], metadata["labels"], metadata["filebase64"]) == ("N", {"c": "3"}, "")
    assert not {"text", "contenttype"} & set(metadata)


def test_metadata_write_keeps_the_document(client: Client) -> None:
    """A write to ``$details`` without a document leaves the document as it is (R247)."""
    client.put_document(F1, b"x", "text/plain")
    client.put(f"{F1}$details", {"name": "N"})
    assert client.get(F1).content == b"x"


def test_posting_a_document(client: Client) -> None:
    """The response is the Version (R147, GAP 8)."""
    client.put_document(F1, b"1")
    created = client.send("POST", F1, content=b"2", headers={"xRegistry-versionid": "v2"})
    assert (created.status_code, created.content) == (201, b"2")
    assert created.headers["Location"] == created.headers["Content-Location"] == f"{ROOT}{F1}/versions/v2"
    assert created.headers["xRegistry-xid"] == f"{F1}/versions/v2"
    updated = client.send("POST", F1, content=b"3", headers={"xRegistry-versionid": "v2"})
    assert (updated.status_code, client.get(F1).content) == (200, b"3")


def test_a_document_kept_elsewhere(client: Client) -> None:
    """The response is 303, except when the Resource is created (R157, R164)."""
    created = client.put_document(F1, b"", fileurl="http://docs.example/a%2520b")
    assert (created.status_code, created.headers["Location"]) == (201, f"{ROOT}{F1}")
    assert client.get(F1).headers["Location"] == "http://docs.example/a%20b"
    for answer in (client.get(F1), client.get(f"{F1}/versions/1"), client.put_document(F1, b"", fileurl="http://x/y")):
        assert (answer.status_code, answer.content) == (303, b"")
    assert client.get(F1).headers["Location"] == client.get(F1).headers["xRegistry-fileurl"] == "http://x/y"
    client.refused("PUT", F1, "extra_xregistry_header", content=b"x", headers={"xRegistry-fileurl": "urn:x:y"})
    client.put_document(F1, b"here")
    assert "fileurl" not in client.get(f"{F1}$details").json()


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


def test_document_view_means_metadata(client: Client) -> None:
    """The document view of a Resource returns metadata (R273)."""
    client.put_document(F1, b"x")
    assert client.get(f"{F1}?doc").json()["self"] == "#/"


def test_patch_needs_details(client: Client) -> None:
    """GAP 30."""
    client.put_document(F1, b"x")
    answer = client.send("PATCH", F1, json={})
    assert (answer.status_code, "PATCH" in answer.headers["Allow"]) == (405, False)
    assert answer.json()["type"].endswith("http.md#details_required")


@pytest.mark.parametrize(
    ("path", "header"),
    [(f"{F1}$details", "name"), ("/dirs/d1/notes/n1", "name"), (F1, "file"), (F1, "filebase64"), (F1, "contenttype")],
)
def test_misplaced_headers_are_rejected(client: Client, path: str, header: str) -> None:
    """xRegistry headers are rejected where the body has the metadata (R165)."""
    client.refused("PUT", path, "extra_xregistry_header", content=b"{}", headers={f"xRegistry-{header}": "x"})


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("fileid", "other", "mismatched_id"),
        ("versionid", "other", "mismatched_id"),
        ("epoch", "99", "mismatched_epoch"),
        ("size", "big", "invalid_attribute"),
        ("name", "%C0%A0", "header_error"),
        ("", "x", "header_error"),
    ],
)
def test_invalid_headers_are_rejected(client: Client, header: str, value: str, code: str) -> None:
    """R18, R159, R167, R168."""
    client.put_document(F1, b"x")
    client.refused("PUT", F1, code, content=b"y", headers={f"xRegistry-{header}": value})


def test_readonly_headers_are_ignored(client: Client) -> None:
    """Headers of read-only attributes are ignored (R168)."""
    names = ("self", "xid", "isdefault", "formatvalidated", "metaurl", "versionscount")
    sent = {f"xRegistry-{name}": "whatever" for name in names}
    assert client.send("PUT", F1, content=b"x", headers=sent).status_code == 201
    assert client.get(F1).headers["xRegistry-xid"] == F1


def test_any_document_is_stored_unchanged(client: Client) -> None:
    """A body in document form is not JSON, however it is labelled."""
    assert client.put_document(F1, b"{broken", "application/json").status_code == 201
    assert client.get(f"{F1}$details?inline=file").json()["filebase64"] == "e2Jyb2tlbg=="
    assert client.get(f"{F1}$details?inline=file&binary").json()["filebase64"] == "e2Jyb2tlbg=="


def test_head_of_a_document(client: Client) -> None:
    """HEAD returns the headers of the document without its body (R139)."""
    client.put_document(F1, b"12345")
    head = client.send("HEAD", F1)
    assert (head.content, head.headers["Content-Length"], head.headers["xRegistry-fileid"]) == (b"", "5", "f1")


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
