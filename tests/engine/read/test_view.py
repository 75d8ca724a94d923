import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.conftest import Make, Registry

from signalbook.engine.read.nodes import parse_inline
from signalbook.engine.read.rendering import render_document
from signalbook.engine.read.view import View, ViewOptions
from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.storage.base import Reader
from signalbook.storage.store import ReadTransaction
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

BASE = "http://r.example"
F1 = "/dirs/d1/files/f1"
VERSION = "fileid versionid self xid epoch isdefault createdat modifiedat ancestorid contenttype"
META = "fileid self xid epoch createdat modifiedat readonly defaultversionid defaultversionurl defaultversionsticky"


def show(registry: Registry, path: str, *inline: str, **flags: Any) -> JSONObject:
    """An entity or collection as clients see it."""
    xid = Xid.parse(path)
    with registry.engine.reading() as view:
        level = parse_inline(inline, xid, view.model, subject=path)
        options = ViewOptions(base_url=BASE, inline=level, **flags)
        return view.render_collection(xid, options) if xid.is_collection else view.render_entity(xid, options)


def refused(registry: Registry, path: str, *inline: str, **flags: Any) -> str:
    with pytest.raises(RegistryError) as caught:
        show(registry, path, *inline, **flags)
    return caught.value.code


@pytest.fixture
def filled(registry: Registry) -> Registry:
    """``/dirs/d1/files/f1`` with the Versions 1 and 2, the second one the default."""
    files = {"f1": {"versions": {"1": {"file": {"n": 1}}, "2": {"file": "x"}}}}
    registry.put("/dirs/d1", {"name": "D", "labels": {"a": ""}, "files": files})
    return registry


def test_the_registry(filled: Registry) -> None:
    """The ids come first, the collections last (R47, R48, R51, R53)."""
    entity = show(filled, "/")
    assert " ".join(entity) == "specversion registryid self xid epoch createdat modifiedat dirsurl dirscount"
    assert (entity["specversion"], entity["registryid"], entity["self"]) == ("1.0-rc4", "test", f"{BASE}/")
    assert (entity["dirsurl"], entity["dirscount"]) == (f"{BASE}/dirs", 1)


def test_a_group(filled: Registry) -> None:
    """A group has its attributes in the specified order (R54)."""
    entity = show(filled, "/dirs/d1")
    assert " ".join(entity) == "dirid self xid epoch name labels createdat modifiedat filesurl filescount"
    assert entity["self"] == f"{BASE}/dirs/d1"
    assert entity["filescount"] == 1


def test_a_resource_shows_its_default_version(filled: Registry) -> None:
    """R29, R55, R244."""
    entity = show(filled, F1)
    assert " ".join(entity) == f"{VERSION} metaurl versionsurl versionscount"
    assert (entity["versionid"], entity["ancestorid"], entity["isdefault"]) == ("2", "1", True)
    assert (entity["self"], entity["xid"]) == (f"{BASE}{F1}$details", F1)
    assert (entity["metaurl"], entity["versionsurl"]) == (f"{BASE}{F1}/meta", f"{BASE}{F1}/versions")
    assert entity["versionscount"] == 2


def test_meta(filled: Registry) -> None:
    """R29, R56, R233."""
    entity = show(filled, f"{F1}/meta")
    assert " ".join(entity) == META
    assert entity["self"] == f"{BASE}{F1}/meta"
    assert entity["defaultversionurl"] == f"{BASE}{F1}/versions/2$details"
    assert entity["readonly"] is entity["defaultversionsticky"] is False


def test_a_version(filled: Registry) -> None:
    """A version has its attributes in the specified order (R57)."""
    entity = show(filled, f"{F1}/versions/1", "file")
    assert " ".join(entity) == f"{VERSION} file"
    assert (entity["isdefault"], entity["file"]) == (False, {"n": 1})
    assert entity["self"] == f"{BASE}{F1}/versions/1$details"


def test_a_type_without_documents_has_no_details(make: Make) -> None:
    """R29, R154."""
    registry = make(hasdocument=False)
    registry.put(F1, {})
    assert show(registry, F1)["self"] == f"{BASE}{F1}"
    assert show(registry, f"{F1}/versions/1")["self"] == f"{BASE}{F1}/versions/1"
    assert show(registry, f"{F1}/meta")["defaultversionurl"] == f"{BASE}{F1}/versions/1"


def test_collections_are_maps_by_id(filled: Registry) -> None:
    """Collections are maps by id in the order of the ids (R47)."""
    filled.put("/dirs/d0", {})
    assert list(show(filled, "/dirs")) == ["d0", "d1"]
    assert list(show(filled, "/dirs/d1/files")) == ["f1"]
    versions = show(filled, f"{F1}/versions")
    assert {name: version["isdefault"] for name, version in versions.items()} == {"1": False, "2": True}
    assert show(filled, "/dirs/d0/files") == {}


def test_empty_collections_are_inlined(registry: Registry) -> None:
    """Inlined collections are present even if they are empty (R48)."""
    assert show(registry, "/", "dirs")["dirs"] == {}
    registry.put("/dirs/d1", {})
    assert show(registry, "/", "*")["dirs"]["d1"]["files"] == {}
    assert "files" not in show(registry, "/dirs/d1")


def test_inlining_everything(filled: Registry) -> None:
    """R199, R250."""
    resource = show(filled, "/", "*")["dirs"]["d1"]["files"]["f1"]
    assert resource["file"] == "x"
    assert resource["meta"]["defaultversionid"] == "2"
    assert resource["versions"]["1"]["file"] == {"n": 1}
    assert resource["versionscount"] == 2


def test_inlining_versions_without_their_documents(filled: Registry) -> None:
    """R200, R250."""
    entity = show(filled, F1, "versions,meta")
    assert "file" not in entity
    assert "file" not in entity["versions"]["1"]
    assert list(entity)[-5:] == ["metaurl", "meta", "versionsurl", "versionscount", "versions"]


def test_configuration_is_shown_where_named(filled: Registry) -> None:
    """The configuration is shown before the collections (R53, R199)."""
    entity = show(filled, "/", "model,modelsource,capabilities")
    assert list(entity)[-5:] == ["capabilities", "model", "modelsource", "dirsurl", "dirscount"]
    assert entity["modelsource"]["groups"]["dirs"]["singular"] == "dir"
    assert "versionmode" in entity["model"]["groups"]["dirs"]["resources"]["files"]


@pytest.mark.parametrize(
    "path",
    ["/dirs/no", "/dirs/D1", "/dirs/no/files", "/dirs/d1/files/no", f"{F1}/versions/3", "/dirs/d1/files/no/meta"],
)
def test_missing_entity_is_not_found(filled: Registry, path: str) -> None:
    """Ids are case-sensitive (R26)."""
    assert refused(filled, path) == "not_found"


class TestDocuments:
    MODEL = compile_model({"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}})
    FILES = MODEL.groups["dirs"].resources["files"]

    @pytest.mark.parametrize(
        ("content", "contenttype", "expected"),
        [
            (b'{"a":1}', "application/json", ("file", {"a": 1})),
            (b"7", "application/vnd.x+json; charset=utf-8", ("file", 7)),
            (b"{broken", "application/json", ("filebase64", "e2Jyb2tlbg==")),
            (b"null", "application/json", ("filebase64", "bnVsbA==")),
            (b"text", "text/plain", ("file", "text")),
            (b"\xff", "text/plain", ("filebase64", "/w==")),
            (b"<a/>", "application/xml", ("filebase64", "PGEvPg==")),
            (b"x", None, ("filebase64", "eA==")),
            (b"", "application/json", ("filebase64", "")),
            (b"", "text/plain", ("filebase64", "")),
        ],
    )
    def test_attribute_of_a_document_depends_on_its_content(
        self, content: bytes, contenttype: str | None, expected: object
    ) -> None:
        """R103, R249."""
        assert render_document(content, contenttype, self.FILES) == expected

    def test_the_binary_flag(self) -> None:
        """The flag ``binary`` shows documents in base64 (R176)."""
        assert render_document(b"{}", "application/json", self.FILES, binary=True) == ("filebase64", "e30=")

    @given(st.binary(max_size=40), st.sampled_from(["application/json", "text/plain", "image/png", ""]))
    def test_every_document_can_be_shown_in_json(self, content: bytes, contenttype: str) -> None:
        name, value = render_document(content, contenttype, self.FILES)
        assert name in ("file", "filebase64")
        assert value is not None
        json.dumps(value)

    def test_a_document_kept_elsewhere(self, registry: Registry) -> None:
        """The URL is always shown, the content never (R201, R250)."""
        registry.put(F1, {"fileurl": "urn:x:y"})
        assert show(registry, F1)["fileurl"] == "urn:x:y"
        assert not {"file", "filebase64"} & set(show(registry, F1, "file"))

    def test_document_bytes_are_exact(self, registry: Registry) -> None:
        """R30, R156, R158."""
        registry.put_document(F1, b'{ "a" : 1 }', "application/json", labels={"k": "v"})
        with registry.engine.reading() as view:
            document = view.load_document(Xid.parse(F1), ViewOptions(base_url=BASE))
        assert (document.content, document.contenttype, document.url) == (b'{ "a" : 1 }', "application/json", None)
        assert document.attributes["self"] == f"{BASE}{F1}"
        assert document.attributes["versionscount"] == 1


class TestCrossReferences:
    SOURCE = "/dirs/d2/files/src"

    @pytest.fixture
    def linked(self, filled: Registry) -> Registry:
        filled.put(self.SOURCE, {"meta": {"xref": F1}})
        return filled

    def test_the_source_looks_like_the_target(self, linked: Registry) -> None:
        """Everything is equal except ids and URLs (R265)."""
        source, target = show(linked, self.SOURCE, "*"), show(linked, F1, "*")
        assert source["meta"].pop("xref") == F1
        text = json.dumps(target).replace("/dirs/d1/files/f1", self.SOURCE).replace('"fileid": "f1"', '"fileid": "src"')
        assert source == json.loads(text)

    def test_versions_are_readable_through_the_reference(self, linked: Registry) -> None:
        """The versions of the target have the ids of the source (R265)."""
        assert list(show(linked, f"{self.SOURCE}/versions")) == ["1", "2"]
        version = show(linked, f"{self.SOURCE}/versions/2")
        assert (version["fileid"], version["xid"]) == ("src", f"{self.SOURCE}/versions/2")
        assert version["isdefault"]
        assert refused(linked, f"{self.SOURCE}/versions/9") == "not_found"

    def test_source_and_target_in_one_response(self, linked: Registry) -> None:
        """Source and target can be inlined together (R265)."""
        dirs = show(linked, "/dirs", "files.versions")
        assert list(dirs["d1"]["files"]["f1"]["versions"]) == list(dirs["d2"]["files"]["src"]["versions"])
        assert dirs["d2"]["files"]["src"]["versions"]["1"]["xid"] == f"{self.SOURCE}/versions/1"

    def test_a_missing_target(self, linked: Registry) -> None:
        """A reference without a target has only its own attributes (R268)."""
        linked.delete(F1)
        entity = show(linked, self.SOURCE, "meta")
        assert list(entity) == ["fileid", "self", "xid", "metaurl", "meta"]
        assert list(entity["meta"]) == ["fileid", "self", "xid", "xref"]
        assert refused(linked, f"{self.SOURCE}/versions") == "not_found"

    def test_one_hop_only(self, linked: Registry) -> None:
        """A reference to a reference is not followed (R267)."""
        linked.put("/dirs/d2/files/far", {"meta": {"xref": self.SOURCE}})
        assert list(show(linked, "/dirs/d2/files/far")) == ["fileid", "self", "xid", "metaurl"]

    def test_document_view_shows_the_reference(self, linked: Registry) -> None:
        """The document view contains the reference instead of the target (R271)."""
        entity = show(linked, self.SOURCE, "*", doc=True)
        assert list(entity) == ["fileid", "self", "xid", "metaurl", "meta"]
        assert list(entity["meta"]) == ["fileid", "self", "xid", "xref"]
        assert refused(linked, f"{self.SOURCE}/versions", doc=True) == "cannot_doc_xref"
        assert refused(linked, f"{self.SOURCE}/versions/1", doc=True) == "cannot_doc_xref"


class TestDocumentView:
    def test_urls_of_contained_entities_are_relative(self, filled: Registry) -> None:
        """R31, R49, R272."""
        document = show(filled, "/", "*", doc=True)
        resource = document["dirs"]["d1"]["files"]["f1"]
        assert (document["self"], document["dirsurl"]) == ("#/", "#/dirs")
        assert document["dirs"]["d1"]["filesurl"] == "#/dirs/d1/files"
        assert resource["self"] == "#/dirs/d1/files/f1"
        assert resource["metaurl"] == resource["meta"]["self"] == "#/dirs/d1/files/f1/meta"
        assert resource["versions"]["1"]["self"] == "#/dirs/d1/files/f1/versions/1"
        assert resource["meta"]["defaultversionurl"] == "#/dirs/d1/files/f1/versions/2"

    def test_urls_of_other_entities_are_absolute(self, filled: Registry) -> None:
        """R272."""
        document = show(filled, F1, "meta", doc=True)
        assert document["self"] == "#/"
        assert document["versionsurl"] == f"{BASE}{F1}/versions"
        assert document["meta"]["defaultversionurl"] == f"{BASE}{F1}/versions/2$details"
        assert show(filled, f"{F1}/meta", doc=True)["self"] == "#/"

    @pytest.mark.parametrize(
        ("path", "pointer"),
        [("/", "/dirs/d1/files/f1"), ("/dirs", "/d1/files/f1"), ("/dirs/d1", "/files/f1"), ("/dirs/d1/files", "/f1")],
    )
    def test_pointers_are_relative_to_the_response(self, filled: Registry, path: str, pointer: str) -> None:
        """Pointers begin at the root of the response (R272)."""
        entity: Any = show(filled, path, "*", doc=True)
        for step in pointer.split("/")[1:]:
            entity = entity[step]
        assert entity["self"] == f"#{pointer}"

    def test_a_pointer_escapes_tildes(self, registry: Registry) -> None:
        """Pointers are escaped by RFC6901."""
        registry.put("/dirs/a~b", {})
        assert show(registry, "/dirs", doc=True)["a~b"]["self"] == "#/a~0b"

    def test_the_default_version_is_not_repeated(self, filled: Registry) -> None:
        """The document view omits the attributes of the default Version (R270)."""
        document = show(filled, F1, "*", doc=True)
        assert " ".join(document) == "fileid self xid metaurl meta versionsurl versionscount versions"

    def test_export_imports_again(self, filled: Registry, make: Make) -> None:
        """The equation import(export(x)) == x holds, except for counters of the second registry (R274-R277)."""
        with filled.engine.reading() as view:
            exported = view.render_entity(ROOT, view.export_options(ViewOptions(base_url=BASE)))
        assert set(exported) >= {"capabilities", "modelsource", "dirs"}
        assert "model" not in exported
        other = make()
        other.put("/", exported, ignore=frozenset({"epoch"}))
        with other.engine.reading() as view:
            again = view.render_entity(ROOT, view.export_options(ViewOptions(base_url=BASE)))
        assert _without_counters(again) == _without_counters(exported)


class TestCollectionsFlag:
    def test_only_the_collections(self, filled: Registry) -> None:
        """The view is valid input of POST (R177)."""
        assert list(show(filled, "/", collections=True)) == ["dirs"]
        assert list(show(filled, "/dirs/d1", collections=True)) == ["files"]
        assert "versions" in show(filled, "/dirs/d1", collections=True)["files"]["f1"]

    @pytest.mark.parametrize(
        "path", [F1, f"{F1}/meta", f"{F1}/versions/1", "/dirs", "/dirs/d1/files", f"{F1}/versions"]
    )
    def test_only_on_registry_and_groups(self, filled: Registry, path: str) -> None:
        """The flag is rejected for other entities (R177)."""
        assert refused(filled, path, collections=True) == "bad_flag"


class Counting(ReadTransaction):
    """A transaction that counts what its entities are asked for."""

    def __init__(self, transaction: ReadTransaction) -> None:
        self.calls: list[str] = []
        self.entities: Any = _Counted(transaction.entities, self.calls)
        self.outbox, self.settings, self.reports = transaction.outbox, transaction.settings, transaction.reports
        self.subscriptions = transaction.subscriptions
        self.tokens, self.audit = transaction.tokens, transaction.audit


class _Counted:
    def __init__(self, reader: Reader, calls: list[str]) -> None:
        self._reader = reader
        self.calls = calls

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._reader, name)


class TestFetching:
    @pytest.mark.parametrize("resources", [1, 40])
    def test_query_count_does_not_depend_on_the_tree_size(self, registry: Registry, resources: int) -> None:
        """Two queries per level and one for the documents suffice."""
        files = {f"f{n}": {"versions": {"1": {"file": n}, "2": {"file": f"{n}"}}} for n in range(resources)}
        registry.put("/", {"dirs": {f"d{n}": {"files": files} for n in range(3)}})
        with registry.store.read() as reader, registry.engine.reading() as view:
            counting = Counting(reader)
            model = view.model
            options = ViewOptions(inline=parse_inline(["*"], Xid(), model, subject="/"))
            View(counting, model, view.capabilities).render_entity(Xid(), options)
        assert len([call for call in counting.calls if call != "documents"]) == 6
        assert counting.calls.count("documents") <= 2 * (1 + resources * 2 // 64)

    @pytest.mark.parametrize("path", ["/dirs/d1", F1, f"{F1}/meta", f"{F1}/versions/1"])
    def test_a_point_read_takes_three_queries_at_most(self, filled: Registry, path: str) -> None:
        with filled.store.read() as reader, filled.engine.reading() as view:
            counting = Counting(reader)
            View(counting, view.model, view.capabilities).render_entity(Xid.parse(path), ViewOptions())
        assert len(counting.calls) <= 3

    def test_a_response_beyond_its_bound(self, filled: Registry) -> None:
        """The size is checked before the response is built (R203)."""
        assert refused(filled, "/", "*", max_bytes=1000) == "too_large"
        assert show(filled, "/", max_bytes=1000)

    def test_large_documents_count(self, registry: Registry) -> None:
        """Documents count against the limit of the response (R203)."""
        registry.put_document(F1, b"x" * 5000)
        assert refused(registry, F1, "file", max_bytes=4000) == "too_large"
        assert show(registry, F1, "file", max_bytes=6000)


def test_a_lost_document_is_reported(filled: Registry) -> None:
    """A document that is missing in the store is an internal error (R23)."""
    with filled.store.read() as reader, filled.engine.reading() as view:
        broken = View(Without(reader), view.model, view.capabilities)
        with pytest.raises(RegistryError) as caught:
            broken.load_document(Xid.parse(F1), ViewOptions())
    assert caught.value.code == "data_retrieval_error"


class Without(Counting):
    """A store that has lost its documents."""

    def __init__(self, transaction: ReadTransaction) -> None:
        super().__init__(transaction)
        self.entities.documents = self._documents

    def _documents(self, digests: Collection[str]) -> dict[str, bytes]:
        return {}


def _without_counters(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {k: _without_counters(v) for k, v in value.items() if k not in ("epoch", "modifiedat", "createdat")}


def test_the_state_has_a_name_of_its_own(registry: Registry, make: Make) -> None:
    """Two registries made of the same requests are not in the same state: one is no copy of the other."""
    other = make(attributes={"*": {"type": "any"}})
    names = set()
    for changed in (registry, other, registry, registry):
        changed.patch("/dirs/d1", {"name": "N"})
        for each_registry in (registry, other):
            with each_registry.engine.reading() as view:
                names.add(view.state())
    assert len(names) == 5
