import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from msgspec.structs import replace
from tests.engine.conftest import Registry

from signalbook.cncf.ids import MOUNTS, compute_uri_digest
from signalbook.cncf.lookup import UriBases, find_by_uri
from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.engine.write.workingcopies import UriTaken
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.storage.base import Row
from signalbook.storage.entities import EntityReader
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.xid import Xid

ROOT = "https://r.example"
(BASE,) = (f"{ROOT}{mount}" for mount in MOUNTS["schemagroups"])
FIRST, SECOND = (f"{ROOT}{mount}" for mount in MOUNTS["messagegroups"])
SCHEMAS = UriBases(groups="schemagroups", root=ROOT)
MESSAGES = UriBases(groups="messagegroups", root=ROOT)
S = "/schemagroups/g/schemas/s"
VERSIONS: dict[str, JSONObject] = yaml.safe_load("""
{"1": {}, "2": {globaluri: "342"}, "3": {globaluri: /343, authority: "urn:example:schemas"},
  "4": {globaluri: "https://else.example/4"}, "5": {authority: "https://a.example/base/"}, v6: {globaluri: "urn:six"}}
""")


@pytest.fixture
def filled(store: Store) -> Registry:
    registry = Registry(Engine(store, settings=Settings(registry_id="test")), store)
    versions = {version_id: {"format": "Own/1", **attributes} for version_id, attributes in VERSIONS.items()}
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
        (f"{ROOT}{S}/versions/1", "1"),
        (f"{BASE}/342", "2"),
        ("342", "2"),
        ("/342", "2"),
        (f"{BASE}/%33%34%32", "2"),
        (f"HTTPS://R.Example:443{BASE.removeprefix(ROOT)}/a/../342", "2"),
        (f"{BASE}/342/", ""),
        (f"{BASE}%2F342", ""),
        (f"{S}/versions/1", "1"),
        (f"{BASE}{S}/versions/1/", "1"),
        (f"{BASE}/schemagroups/%67/schemas/s/versions/1", "1"),
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
    """A version is found by its stated URI, and by those of our own mounts (A-54, D-5, J-5)."""
    assert found(filled, uri) == (f"{S}/versions/{version}" if version else "")


def test_urls_of_a_cross_reference(filled: Registry) -> None:
    same = "/schemagroups/g/schemas/same/versions/1"
    assert found(filled, f"{BASE}{same}") == same


def test_catalogues_have_separate_uris(filled: Registry) -> None:
    assert found(filled, "urn:message", MESSAGES) == "/messagegroups/g/messages/m/versions/1"
    assert found(filled, "urn:six", MESSAGES) == ""


def test_a_uri_changes_with_its_attributes(filled: Registry) -> None:
    filled.patch(f"{S}/versions/4", {"globaluri": "urn:four"})
    assert found(filled, "urn:four") == f"{S}/versions/4"
    assert found(filled, "https://else.example/4") == ""
    filled.patch(f"{S}/versions/4", {"globaluri": None})
    assert found(filled, "urn:four") == ""


def test_duplicate_uris_of_old_versions_have_an_order(filled: Registry) -> None:
    """The location of a Version comes first, then the first stored one that the drafts show (A-21, J-10)."""
    claims = {"7": "urn:six", "8": "urn:six", "9": f"{S}/versions/1", "10": f"https://a.example/base{S}/versions/5"}
    for number in claims:
        filled.put(f"{S}/versions/{number}", {"format": "Own/1"})
    with filled.store.write() as writer:
        rows = [replace(filled.row(f"{S}/versions/{number}"), key=0) for number in claims]
        for row in rows:
            there = writer.entities.get(row.xid)
            assert there is not None
            attributes = {**there.attributes, "globaluri": claims[row.xid.id]}
            writer.entities.update(
                [replace(there, attributes=attributes, uri=compute_uri_digest("schemagroups", attributes))]
            )
    assert found(filled, f"{BASE}{S}/versions/1") == f"{S}/versions/1"
    assert found(filled, f"https://a.example/base{S}/versions/5") == f"{S}/versions/5"
    filled.patch(f"{S}/versions/9", {"description": "it may still be changed"})
    for number in ("7", "8", "v6"):
        assert found(filled, "urn:six") == f"{S}/versions/{number}"
        filled.delete(f"{S}/versions/{number}")


CLAIMS: list[tuple[str, JSONObject, str]] = [
    ("the path of another", {"globaluri": f"{S}/versions/1"}, f"{S}/versions/1"),
    ("of one that is not there", {"globaluri": f"{S}/versions/77"}, f"{S}/versions/77"),
    ("without a slash", {"globaluri": f"{S}/versions/1"[1:]}, f"{S}/versions/1"),
    ("with one at the end", {"globaluri": f"{S}/versions/1/"}, f"{S}/versions/1"),
    ("its URL", {"globaluri": f"{BASE}{S}/versions/1"}, f"{S}/versions/1"),
    ("its URL, spelt otherwise", {"globaluri": f"HTTPS://R.example:443{BASE[17:]}{S}/versions/1"}, f"{S}/versions/1"),
    ("its URL in the registry", {"globaluri": f"{ROOT}{S}/versions/1"}, f"{S}/versions/1"),
    ("percent-encoded", {"globaluri": "/schemagroups/%67/schemas/s/versions/%31"}, f"{S}/versions/1"),
    ("slashes, too", {"globaluri": "%2Fschemagroups%2fg%2Fschemas%2Fs%2Fversions%2F1"}, f"{S}/versions/1"),
    ("a detour", {"globaluri": "/schemagroups/x/../g/schemas/s/versions/1"}, f"{S}/versions/1"),
    ("in another case", {"globaluri": "/schemagroups/G/schemas/S/versions/1"}, "/schemagroups/G/schemas/S/versions/1"),
    ("by an authority", {"authority": f"{BASE}/", "globaluri": f"{S}/versions/1"}, f"{S}/versions/1"),
    ("a relative id", {"globaluri": "/342"}, f"{S}/versions/2"),
    ("as an absolute one", {"globaluri": f"{BASE}/342"}, f"{S}/versions/2"),
    ("as an encoded one", {"globaluri": f"{BASE}/%33%34%32"}, f"{S}/versions/2"),
    ("an absolute one", {"globaluri": "HTTPS://ELSE.example/4"}, f"{S}/versions/4"),
    ("as a relative one", {"authority": "https://else.example/", "globaluri": "4"}, f"{S}/versions/4"),
    ("a URN", {"globaluri": "urn:six"}, f"{S}/versions/v6"),
    ("by its authority", {"globaluri": f"https://a.example/base{S}/versions/5"}, f"{S}/versions/5"),
]


@pytest.mark.parametrize(("claim", "holder"), [case[1:] for case in CLAIMS], ids=[case[0] for case in CLAIMS])
def test_duplicate_uri_is_rejected(filled: Registry, claim: JSONObject, holder: str) -> None:
    """The duplicate is rejected for a new Version and for an existing one (A-20, A-21)."""
    for method, path in (("PUT", "/schemagroups/g/schemas/evil/versions/1"), ("PATCH", f"{S}/versions/3")):
        body = {"format": "Own/1", **({"authority": None} if method == "PATCH" else {}), **claim}
        command = Command(method=Method(method), target=Xid.parse(path), body=body, base_url=ROOT)
        with pytest.raises(UriTaken, match=f'is that of "{holder}"') as caught:
            filled.do(command)
        assert (caught.value.status, caught.value.subject) == (409, path)


@pytest.mark.parametrize(
    "claim",
    [
        {"globaluri": f"{S}/versions/9"},
        {"globaluri": f"{BASE}{S}/versions/9"},
        {"globaluri": f"https://else.example{S}/versions/1"},
        {"globaluri": "343"},
        {"globaluri": "https://else.example/4/"},
        {"authority": "https://else.example", "globaluri": "342"},
        {"authority": BASE},
    ],
)
def test_other_uris_are_free(filled: Registry, claim: JSONObject) -> None:
    """The URIs are the own path, and those that RFC 3986 distinguishes (A-20, A-21)."""
    path = f"{S}/versions/9"
    body: JSONObject = {"format": "Own/1", **claim}
    filled.do(Command(method=Method.PUT, target=Xid.parse(path), body=body, base_url=ROOT))
    assert found(filled, f"{BASE}{path}") == path


def test_an_authority_is_a_claim(filled: Registry) -> None:
    """The copy of an external version is first; a later claim of the same URI by an authority is rejected (A-28)."""
    filled.put("/schemagroups/g/schemas/copy", {"format": "Own/1", "globaluri": f"https://b.example{S}/versions/1"})
    error = filled.refused("PATCH", f"{S}/versions/1", {"authority": "https://b.example"})
    assert '"/schemagroups/g/schemas/copy/versions/1"' in error.title


def test_duplicate_uri_in_an_import_is_rejected(filled: Registry) -> None:
    """All entities of an import count, and a URI may move within one request (A-21)."""
    versions = {number: {"format": "Own/1", "globaluri": "urn:twin"} for number in ("1", "2")}
    filled.refused("POST", "/schemagroups/g/schemas", {"a": {"versions": versions}})
    both = {"a": {"format": "Own/1", "globaluri": "urn:twin"}, "b": {"format": "Own/1", "globaluri": "urn:twin"}}
    filled.refused("POST", "/schemagroups/g/schemas", both)
    filled.put("/schemagroups/g/schemas/a", {"format": "Own/1", "globaluri": "urn:twin"})
    moved: JSONObject = {"globaluri": None, "format": "Own/1"}
    filled.post("/schemagroups/g/schemas", {"a": moved, "b": both["b"]})
    assert found(filled, "urn:twin") == "/schemagroups/g/schemas/b/versions/1"


def test_uri_is_free_after_its_holder_is_deleted(filled: Registry) -> None:
    """The holder is the Version, its Resource or its Group (A-21)."""
    for gone in (f"{S}/versions/4", S, "/schemagroups/g"):
        filled.delete(gone)
        filled.put("/schemagroups/other/schemas/x", {"format": "Own/1", "globaluri": "https://else.example/4"})
        assert found(filled, "https://else.example/4") == "/schemagroups/other/schemas/x/versions/1"
        filled.delete("/schemagroups/other")
        filled.put(f"{S}/versions/4", {"format": "Own/1", "globaluri": "https://else.example/4"})


def test_many_claims_take_two_queries(filled: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import has many Versions (A-21)."""
    uri_counts: list[int] = []
    original = EntityReader.named

    def count(self: EntityReader, uris: list[str], limit: int) -> list[Row]:
        uri_counts.append(len(uris))
        return original(self, uris, limit)

    monkeypatch.setattr(EntityReader, "named", count)
    schemas = {f"i{n}": {"format": "Own/1", "globaluri": f"urn:many:{n}"} for n in range(400)}
    filled.post("/schemagroups/g/schemas", schemas)
    assert uri_counts == [400]


def test_uri_is_given_to_one_of_concurrent_writers(store_url: str) -> None:
    """If threads of two servers on one database claim a URI, only one of them gets it (A-21)."""
    stores = [open_store(store_url, timeout=60) for _ in range(2)]
    registries = [Registry(Engine(opened, settings=Settings(registry_id="test")), opened) for opened in stores]
    start = threading.Barrier(8)

    def claim(number: int) -> int:
        start.wait()
        won = 0
        for turn in range(10):
            uri = (f"urn:race:{turn}", f"URN:race:{turn}")[number % 2]
            try:
                path = f"/schemagroups/g{number}/schemas/s{turn}"
                registries[number % 2].put(path, {"format": "Own/1", "globaluri": uri})
                won += 1
            except UriTaken:
                pass
        return won

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(claim, range(8))) == 10
    with stores[0].read() as reader:
        digests = [compute_uri_digest("schemagroups", {"globaluri": f"urn:race:{turn}"}) for turn in range(10)]
        assert len(reader.entities.named([opened for opened in digests if opened], 99)) == 10
    for opened in stores:
        opened.close()
