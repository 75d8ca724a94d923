"""Versions found by their URIs."""

from __future__ import annotations

import pytest
from tests.engine.conftest import Registry

from signalbook.cncf.ids import message_path, message_xid, schema_path, schema_xid
from signalbook.cncf.lookup import UriBases, find_by_uri
from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage.base import Store
from signalbook.values import JSONObject

ROOT = "https://r.example"
BASE = f"{ROOT}/compat/schemas"
SCHEMAS = UriBases(groups="schemagroups", urls=(BASE, f"{ROOT}/other"), root=ROOT, path=schema_path, xid=schema_xid)
MESSAGES = UriBases(groups="messagegroups", urls=(BASE,), root=ROOT, path=message_path, xid=message_xid)
S = "/schemagroups/g/schemas/s"
VERSIONS: dict[str, JSONObject] = {
    "1": {},
    "2": {"globaluri": "342"},
    "3": {"globaluri": "/343", "authority": "urn:example:schemas"},
    "4": {"globaluri": "https://else.example/4"},
    "5": {"authority": "https://a.example/base/"},
    "v6": {"globaluri": "urn:six"},
}


@pytest.fixture
def filled(store: Store) -> Registry:
    registry = Registry(Engine(store, settings=Settings(registry_id="test")), store)
    versions = {each: {"format": "Own/1", **attributes} for each, attributes in VERSIONS.items()}
    registry.put(S, {"versions": versions})
    registry.put("/schemagroups/g/schemas/same", {"meta": {"xref": S}})
    registry.put("/messagegroups/g/messages/m", {"globaluri": "urn:message", "authority": "urn:example:schemas"})
    return registry


def found(registry: Registry, uri: str, places: UriBases = SCHEMAS) -> str:
    with registry.engine.reading() as view:
        xid = find_by_uri(view, uri, places)
        return "" if xid is None else str(xid)


@pytest.mark.parametrize(
    ("uri", "version"),
    [
        (f"{BASE}{S}/versions/1", "1"),
        (f"{ROOT}/other{S}/versions/1", "1"),
        (f"{ROOT}{S}/versions/1", "1"),
        (f"{BASE}/342", "2"),
        (f"{ROOT}/other/342", "2"),
        (f"{BASE}{S}/versions/2", "2"),
        ("urn:example:schemas:343", ""),
        ("urn:example:schemas:/343", "3"),
        ("https://else.example/4", "4"),
        (f"https://a.example/base{S}/versions/5", "5"),
        (f"https://a.example{S}/versions/5", ""),
        ("urn:six", "v6"),
        (f"{ROOT}{S}/versions/v6", "v6"),
        (f"{BASE}{S}/versions/v6", ""),
        (f"https://b.example{S}/versions/1", ""),
        (f"{BASE}{S}/versions/7", ""),
        (f"{BASE}{S}", ""),
        (f"{BASE}/", ""),
        ("urn:message", ""),
        ("", ""),
        ("/" * 9000, ""),
        ("\0\ud800", ""),
    ],
)
def test_every_uri_of_a_version(filled: Registry, uri: str, version: str) -> None:
    """A-54, D-5, J-5: that by which it is known, and those it has by our own mounts."""
    assert found(filled, uri) == (f"{S}/versions/{version}" if version else "")


def test_urls_of_a_cross_reference(filled: Registry) -> None:
    same = "/schemagroups/g/schemas/same/versions/1"
    assert found(filled, f"{BASE}{same}") == same


def test_each_catalogue_has_its_own(filled: Registry) -> None:
    assert found(filled, "urn:message", MESSAGES) == "/messagegroups/g/messages/m/versions/1"
    assert found(filled, "urn:six", MESSAGES) == ""


def test_a_uri_changes_with_its_attributes(filled: Registry) -> None:
    filled.patch(f"{S}/versions/4", {"globaluri": "urn:four"})
    assert found(filled, "urn:four") == f"{S}/versions/4"
    assert found(filled, "https://else.example/4") == ""
    filled.patch(f"{S}/versions/4", {"globaluri": None})
    assert found(filled, "urn:four") == ""


def test_of_two_the_first_answers(filled: Registry) -> None:
    """A-21: through the door of xRegistry nothing hinders it. Those that the drafts cannot show come last (J-10)."""
    for number in ("8", "7"):
        filled.put(f"{S}/versions/{number}", {"format": "Own/1", "globaluri": "urn:six"})
    for number in ("8", "7", "v6"):
        assert found(filled, "urn:six") == f"{S}/versions/{number}"
        filled.delete(f"{S}/versions/{number}")
