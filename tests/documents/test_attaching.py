"""Files that a document names."""

from __future__ import annotations

from pathlib import Path

import pytest

from signalbook.documents import DocumentError
from signalbook.documents.sources import attach
from signalbook.values import JSON


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "s.json").write_bytes(b"{}")
    (tmp_path / "secret.json").write_text("secret")
    (root / "link.json").symlink_to(tmp_path / "secret.json")
    return root


def attached(folder: Path, body: JSON, **limits: int) -> JSON:
    document = {"gs": {"g": {"ss": {"s": body}}}}
    attach(document, beside=folder / "book.json", root=folder, **{"max_bytes": 100, **limits})
    return document["gs"]["g"]["ss"]["s"]


@pytest.mark.parametrize("url", ["./deep/s.json", "deep/s.json", "deep/../deep/s%2Ejson"])
def test_a_file(folder: Path, url: str) -> None:
    assert attached(folder, {"schemaurl": url}) == {"schemabase64": "e30=", "contenttype": "application/json"}


def test_a_version_with_a_type_of_its_own(folder: Path) -> None:
    found = attached(folder, {"versions": {"1": {"fileurl": "deep/s.json", "contenttype": "a/b"}}})
    assert found == {"versions": {"1": {"filebase64": "e30=", "contenttype": "a/b"}}}


@pytest.mark.parametrize(
    "body",
    [
        {"schemaurl": "https://example.com/s.json"},
        {"schemaurl": "urn:example:s"},
        {"schemaurl": "/schemagroups/g/schemas/s"},
        {"schemaurl": "#/a"},
        {"schemaurl": ""},
        {"schemaurl": None},
        {"metaurl": "deep/s.json", "versionsurl": "deep/s.json"},
        {"documentation": "deep/s.json"},
    ],
)
def test_what_names_no_file(folder: Path, body: JSON) -> None:
    assert attached(folder, dict(body)) == body


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("../secret.json", "lies outside"),
        ("deep/../../secret.json", "lies outside"),
        ("link.json", "lies outside"),
        ("%2e%2e/secret.json", "lies outside"),
        ("gone.json", "/gs/g/ss/s#schemaurl: .*gone.json cannot be read: No such file"),
        ("deep", "cannot be read: Is a directory"),
    ],
)
def test_what_is_not_read(folder: Path, url: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        attached(folder, {"schemaurl": url})


def test_no_more_than_a_document_may_have(folder: Path) -> None:
    both = {"versions": {"1": {"schemaurl": "deep/s.json"}, "2": {"schemaurl": "deep/s.json"}}}
    with pytest.raises(DocumentError, match="too large"):
        attached(folder, both, max_bytes=3)
