import base64

import pytest
from tests.engine.conftest import Make, Registry

from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject, format_timestamp
from signalbook.xid import Xid

D1 = "/dirs/d1"
F1 = "/dirs/d1/files/f1"
OLD = "2020-01-01T00:00:00Z"


def test_put_replaces_and_patch_merges_top_level(registry: Registry) -> None:
    """R142, R144."""
    registry.put(D1, {"name": "n", "labels": {"a": "1", "b": "2"}, "description": "d"})
    registry.patch(D1, {"labels": {"c": "3"}, "description": None})
    assert registry.row(D1).attributes == {"name": "n", "labels": {"c": "3"}}
    registry.put(D1, {"description": "e"})
    assert registry.row(D1).attributes == {"description": "e"}


def test_patch_creates(registry: Registry) -> None:
    """PATCH creates a missing entity (R144)."""
    assert registry.patch(D1, {"name": "n"}).created
    assert not registry.patch(D1, {}).created


def test_touch_raises_epoch_and_modifiedat(registry: Registry) -> None:
    """An empty PATCH raises epoch and modifiedat (R34)."""
    registry.put(D1, {"modifiedat": OLD})
    registry.patch(D1, {})
    assert registry.row(D1).epoch == 2
    assert format_timestamp(registry.row(D1).modifiedat) != OLD


def test_epoch_of_a_new_entity_is_ignored(registry: Registry) -> None:
    """The epoch in a request that creates an entity is ignored (R35)."""
    registry.put(D1, {"epoch": 99})
    assert registry.row(D1).epoch == 1


@pytest.mark.parametrize(
    ("path", "subject"),
    [(D1, D1), (F1, f"{F1}/versions/1"), (f"{F1}/meta", f"{F1}/meta"), (f"{F1}/versions/1", f"{F1}/versions/1")],
)
def test_wrong_epoch_is_refused(registry: Registry, path: str, subject: str) -> None:
    """R36, R38."""
    registry.put(F1, {})
    error = registry.refused("PATCH", path, {"epoch": 7})
    assert (error.code, error.subject) == ("mismatched_epoch", subject)
    assert error.arguments == {"bad_epoch": "7", "epoch": "1"}
    registry.patch(path, {"epoch": 1})
    registry.patch(path, {"epoch": 1}, ignore=frozenset({"epoch"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epoch", value) for value in (-1, "1", True, 1.5)),
        *(("createdat", value) for value in ("yesterday", 5, ["2020"])),
        *(("filebase64", value) for value in ("%%%", 5, "AAE")),
    ],
)
def test_invalid_value_is_rejected(registry: Registry, name: str, value: JSON) -> None:
    registry.put(F1, {})
    error = registry.refused("PUT", F1, {name: value})
    assert (error.code, error.arguments["name"]) == ("invalid_attribute", name)


def test_createdat(registry: Registry) -> None:
    """The attribute createdat is stored in UTC, kept if absent, and reset by null (R40)."""
    registry.put(D1, {"createdat": "2020-01-01T01:00:00+01:00"})
    registry.put(D1, {})
    assert format_timestamp(registry.row(D1).createdat) == OLD
    registry.patch(D1, {"createdat": None})
    assert registry.row(D1).createdat == registry.row(D1).modifiedat


def test_modifiedat(registry: Registry) -> None:
    """A different value is accepted; the stored value sent again means now (R41)."""
    registry.put(D1, {"modifiedat": OLD})
    assert format_timestamp(registry.row(D1).modifiedat) == OLD
    registry.put(D1, {"modifiedat": OLD})
    assert format_timestamp(registry.row(D1).modifiedat) != OLD


def test_given_modifiedat_survives_a_knock_on_change(registry: Registry) -> None:
    registry.put(D1, {"modifiedat": OLD, "files": {"f1": {}}})
    assert format_timestamp(registry.row(D1).modifiedat) == OLD


def test_times_not_given_are_one_instant(registry: Registry) -> None:
    """An update keeps the creation time of the meta entity (R42)."""
    registry.put(F1, {"versionid": "v0", "createdat": OLD})
    created = registry.row(F1).createdat
    registry.put(F1, {"meta": {}, "versions": {"v1": {}, "v2": {}}})
    assert registry.row(F1).createdat == created
    assert {row.modifiedat for row in registry.versions().values()} == {registry.row(F1).modifiedat}


@pytest.mark.parametrize(
    ("path", "body", "singular"),
    [
        ("/", {"registryid": "other"}, "registry"),
        (D1, {"dirid": "other"}, "dir"),
        (F1, {"fileid": "other"}, "file"),
        (F1, {"versionid": "other"}, "version"),
        (F1, {"meta": {"fileid": "other"}}, "file"),
        (F1, {"versions": {"1": {"fileid": "other"}}}, "file"),
        (F1, {"versions": {"1": {"versionid": "other"}}}, "version"),
        (f"{F1}/versions/1", {"fileid": "other"}, "file"),
    ],
)
def test_ids_must_match(registry: Registry, path: str, body: JSONObject, singular: str) -> None:
    """R27, R58, R218."""
    registry.put(F1, {})
    error = registry.refused("PUT", path, body)
    assert (error.code, error.arguments["singular"]) == ("mismatched_id", singular)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", {"registryid": "other"}),
        (D1, {"dirid": "other"}),
        (F1, {"fileid": "other", "meta": {"fileid": "other"}, "versions": {"v2": {"fileid": "other"}}}),
        (f"{F1}/versions/1", {"fileid": "other", "versionid": "other"}),
    ],
)
def test_ignored_ids(registry: Registry, path: str, body: JSONObject) -> None:
    """Ids in the body are not compared with the flag ignore (R206)."""
    registry.put(F1, {})
    registry.put(path, body, ignore=frozenset({"id"}))


def test_ignored_id_is_the_roots_alone(registry: Registry) -> None:
    """Ignoring the id concerns only the root of the request (R206)."""
    body = {"files": {"f1": {"fileid": "other"}}}
    assert registry.refused("PUT", D1, body, ignore=frozenset({"id"})).code == "mismatched_id"


@pytest.mark.parametrize("id", ["", "-x", "a b", "a/b", "x" * 129, "ä"])
def test_malformed_ids(registry: Registry, id: str) -> None:
    """Malformed ids are rejected (R25)."""
    error = registry.refused("POST", "/dirs", {id: {}})
    assert (error.code, error.arguments["id"]) == ("malformed_id", id)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/dirs/D1", {}),
        ("POST", "/dirs", {"D1": {}}),
        ("PUT", "/dirs/d1/files/F1", {}),
        ("POST", "/dirs", {"x": {}, "X": {}}),
        ("POST", f"{F1}/versions", {"V1": {}}),
        ("POST", f"{F1}/versions", {"x": {}, "X": {}}),
    ],
)
def test_ids_differ_by_more_than_case(registry: Registry, method: str, path: str, body: JSONObject) -> None:
    """R26, GAP 29."""
    registry.put(F1, {"versionid": "v1"})
    assert registry.refused(method, path, body).code == "bad_request"


def test_every_fault_is_reported_with_its_path(registry: Registry) -> None:
    body = {
        "name": 5,
        "files": {"f1": {"name": []}, "f2": {"versions": {"v1": {"createdat": "x"}, "v2": {"labels": 1}}}},
    }
    error = registry.refused("PUT", D1, body)
    assert [fault.path for fault in error.faults] == [
        "/dirs/d1#name",
        "/dirs/d1/files/f1/versions/1#name",
        "/dirs/d1/files/f2/versions/v1",
        "/dirs/d1/files/f2/versions/v2#labels",
    ]


def test_read_only_attributes_are_ignored(registry: Registry) -> None:
    """R14, R149."""
    body = {"self": 5, "xid": [], "isdefault": "x", "formatvalidated": 1, "metaurl": 4, "versionscount": "x"}
    registry.put(F1, body)
    assert registry.versions()["1"].attributes == {}


def test_schema_key_is_accepted(registry: Registry) -> None:
    """The key $schema is accepted and not stored (R21)."""
    registry.put(D1, {"$schema": "https://example.com/s"})
    assert registry.row(D1).attributes == {}


V1 = f"{F1}/versions/1"
URL = "https://example.com/doc"


@pytest.mark.parametrize(
    ("body", "content", "contenttype"),
    [
        ({"file": {"a": 1}}, b'{"a":1}', "application/json"),
        ({"file": "text"}, b"text", "text/plain"),
        ({"file": '{"a": 1}', "contenttype": None}, b'{"a": 1}', "text/plain"),
        ({"file": ""}, b"", "text/plain"),
        ({"file": "text", "contenttype": "application/json"}, b'"text"', "application/json"),
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
        ("PUT", {"file": "s"}, b"s", {"contenttype": "text/plain"}),
        ("PATCH", {"file": "s", "contenttype": "application/json"}, b'"s"', {"contenttype": "application/json"}),
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


@pytest.mark.parametrize(("method", "expected"), [("PUT", {}), ("PATCH", {"fileurl": URL})])
def test_url_of_a_stored_version(registry: Registry, method: str, expected: JSONObject) -> None:
    """An omitted document is kept, but PUT removes a URL like any attribute (R247)."""
    registry.put(F1, {"fileurl": URL})
    registry.send(method, F1, {})
    assert registry.row(V1).attributes == expected


@pytest.mark.parametrize("body", [{"filebase64": "AA=="}, {"file": 1}])
def test_patch_of_a_first_document_names_its_type(registry: Registry, body: JSONObject) -> None:
    """A document in JSON gets the JSON content type (R248)."""
    registry.put(F1, {})
    registry.patch(F1, body)
    assert registry.row(V1).attributes["contenttype"] == "application/json"


def test_one_document_at_a_time(registry: Registry) -> None:
    """A request contains at most one form of the document (R245)."""
    error = registry.refused("PUT", F1, {"file": 1, "fileurl": URL})
    assert (error.code, error.arguments["list"]) == ("one_resource", "file, filebase64, fileurl")


def test_document_form(registry: Registry) -> None:
    """Headers are merged, the body is replaced, and a missing content type removes the stored one (R156, R160, R162,
    R163).
    """
    raw = bytes(range(256))
    registry.put_document(F1, raw, "application/x", labels={"a": "1", "b": "2"}, name="n")
    registry.put_document(F1, b"", None, labels={"c": "3"}, name=None)
    assert registry.content(V1) == b""
    assert registry.row(V1).attributes == {"labels": {"c": "3"}}


def test_url_in_document_form(registry: Registry) -> None:
    """A write in document form can set a URL instead of a document (R164)."""
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
