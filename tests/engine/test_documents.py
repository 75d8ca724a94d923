"""A Version's document in all its forms."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.values import JSONObject
from signalbook.xid import Xid

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

F1 = "/dirs/d1/files/f1"
V1 = f"{F1}/versions/1"
URL = "https://example.com/doc"


@pytest.mark.parametrize(
    ("body", "content", "contenttype"),
    [
        ({"file": {"a": 1}}, b'{"a":1}', "application/json"),
        ({"file": "text"}, b'"text"', "application/json"),
        ({"file": "text", "contenttype": "text/plain"}, b"text", "text/plain"),
        ({"file": "<a/>", "contenttype": "application/xml"}, b"<a/>", "application/xml"),
        ({"file": [1], "contenttype": "text/plain"}, b"[1]", "text/plain"),
        ({"file": {"a": 1}, "contenttype": "application/x+json; v=1"}, b'{"a":1}', "application/x+json; v=1"),
        ({"filebase64": "AAEC"}, b"\x00\x01\x02", None),
        ({"filebase64": ""}, b"", None),
        ({"file": None}, b"", None),
        ({}, b"", None),
    ],
)
def test_document_in_metadata(registry: Registry, body: JSONObject, content: bytes, contenttype: str | None) -> None:
    """R246, R248, R249, R103."""
    registry.put(F1, body)
    assert registry.content(V1) == content
    assert registry.row(V1).attributes.get("contenttype") == contenttype


@pytest.mark.parametrize(
    ("method", "body", "content", "attributes"),
    [
        ("PUT", {}, b"old", {}),
        ("PATCH", {"name": "n"}, b"old", {"contenttype": "text/old", "name": "n"}),
        ("PUT", {"file": None}, b"", {}),
        ("PATCH", {"filebase64": None}, b"", {"contenttype": "text/old"}),
        ("PUT", {"fileurl": URL}, b"", {"fileurl": URL}),
        ("PATCH", {"fileurl": URL}, b"", {"contenttype": "text/old", "fileurl": URL}),
        ("PUT", {"file": 1}, b"1", {"contenttype": "application/json"}),
        ("PATCH", {"file": "s"}, b"s", {"contenttype": "text/old"}),
        ("PATCH", {"filebase64": "AA=="}, b"\x00", {"contenttype": "text/old"}),
    ],
)
def test_document_of_a_stored_version(
    registry: Registry, method: str, body: JSONObject, content: bytes, attributes: JSONObject
) -> None:
    """R142, R245-R248."""
    registry.put_document(F1, b"old", "text/old")
    registry.send(method, F1, body)
    assert registry.content(V1) == content
    assert registry.row(V1).attributes == attributes


@pytest.mark.parametrize(("method", "kept"), [("PUT", {}), ("PATCH", {"fileurl": URL})])
def test_url_of_a_stored_version(registry: Registry, method: str, kept: JSONObject) -> None:
    """R247: silence keeps a document, but PUT drops a url as any attribute."""
    registry.put(F1, {"fileurl": URL})
    registry.send(method, F1, {})
    assert registry.row(V1).attributes == kept


@pytest.mark.parametrize("body", [{"filebase64": "AA=="}, {"file": 1}])
def test_patch_of_a_first_document_names_its_type(registry: Registry, body: JSONObject) -> None:
    """R248."""
    registry.put(F1, {})
    registry.patch(F1, body)
    assert registry.row(V1).attributes["contenttype"] == "application/json"


def test_one_document_at_a_time(registry: Registry) -> None:
    """R245."""
    error = registry.refused("PUT", F1, {"file": 1, "fileurl": URL})
    assert (error.code, error.arguments["list"]) == ("one_resource", "file, filebase64, fileurl")


@pytest.mark.parametrize("value", ["%%%", 5, "AAE"])
def test_bad_base64(registry: Registry, value: object) -> None:
    assert registry.refused("PUT", F1, {"filebase64": value}).code == "invalid_attribute"


def test_document_form(registry: Registry) -> None:
    """R156, R160, R162, R163: headers merge, the body replaces, a missing content type erases."""
    raw = bytes(range(256))
    registry.put_document(F1, raw, "application/x", labels={"a": "1", "b": "2"}, name="n")
    registry.put_document(F1, b"", None, labels={"c": "3"}, name=None)
    assert registry.content(V1) == b""
    assert registry.row(V1).attributes == {"labels": {"c": "3"}}


def test_url_in_document_form(registry: Registry) -> None:
    """R164."""
    registry.put_document(F1, b"", None, fileurl=URL)
    assert registry.row(V1).attributes == {"fileurl": URL}
    registry.put_document(F1, b"x", "text/x")
    assert registry.row(V1).attributes == {"contenttype": "text/x"}
    with pytest.raises(RegistryError, match="Only one attribute"):
        registry.put_document(F1, b"x", None, fileurl=URL)


def test_posted_document(registry: Registry) -> None:
    """R147, R162."""
    document = DocumentBody(content=b"two", contenttype="text/x", attributes={"versionid": "v2"})
    registry.put_document(F1, b"one")
    result = registry.do(Command(method=Method.POST, target=Xid.parse(F1), document=document))
    assert str(result.target) == f"{F1}/versions/v2"
    assert registry.content(f"{F1}/versions/v2") == b"two"
    assert registry.row(F1).defaultversionid == "v2"


def test_names_are_free_without_documents(make: Make) -> None:
    """R17, R251."""
    registry = make(hasdocument=False, attributes={"file": {"type": "integer"}})
    registry.put(F1, {"file": 5})
    assert registry.row(V1).attributes == {"file": 5}
    assert registry.refused("PUT", F1, {"filebase64": "AA=="}).code == "unknown_attribute"
    with pytest.raises(RegistryError, match="hasdocument"):
        registry.put_document(F1, b"x")


def test_documents_are_stored_once(registry: Registry) -> None:
    text = base64.b64encode(b"same").decode()
    registry.put(F1, {"versions": {"a": {"filebase64": text}, "b": {"filebase64": text}}})
    assert registry.row(f"{F1}/versions/a").document == registry.row(f"{F1}/versions/b").document
    registry.delete(f"{F1}/versions/a")
    assert registry.content(f"{F1}/versions/b") == b"same"
