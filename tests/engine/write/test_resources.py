import pytest
from tests.engine.conftest import Make, Registry

from signalbook.values import JSON, JSONObject

F1 = "/dirs/d1/files/f1"
META = f"{F1}/meta"


@pytest.fixture
def two(registry: Registry) -> Registry:
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    return registry


def default(registry: Registry) -> tuple[str | None, bool]:
    row = registry.row(F1)
    return row.defaultversionid, row.defaultversionsticky


def test_meta_put_and_patch(two: Registry) -> None:
    """R223, R260."""
    two.put(META, {"labels": {"a": "1"}, "deprecated": {}})
    two.patch(META, {"labels": None})
    assert two.row(F1).attributes == {"deprecated": {}}
    two.put(META, {})
    assert (two.row(F1).attributes, two.row(F1).epoch) == ({}, 4)
    assert all(row.epoch == 1 for row in two.versions().values())


def test_meta_of_a_resource_yet_to_be(registry: Registry) -> None:
    """GAP 23, R220."""
    assert registry.put(META, {"defaultversionid": "v7"}).created
    assert list(registry.versions()) == ["v7"]


@pytest.mark.parametrize(
    ("method", "meta", "expected"),
    [
        ("PATCH", {"defaultversionid": "v1"}, ("v1", True)),
        ("PATCH", {"defaultversionid": None}, ("v2", False)),
        ("PATCH", {"defaultversionsticky": None}, ("v2", False)),
        ("PATCH", {"defaultversionsticky": True}, ("v2", True)),
        ("PATCH", {"defaultversionsticky": True, "defaultversionid": None}, ("v2", True)),
        ("PATCH", {"defaultversionsticky": False, "defaultversionid": "nope"}, ("v2", False)),
        ("PATCH", {"labels": {}}, ("v2", False)),
        ("PUT", {"defaultversionid": "nope"}, ("v2", False)),
        ("PUT", {"defaultversionid": "v1", "defaultversionsticky": True}, ("v1", True)),
        ("PUT", {"defaultversionsticky": True}, ("v2", True)),
        ("PUT", {"defaultversionsticky": None}, ("v2", False)),
    ],
)
def test_default(two: Registry, method: str, meta: JSONObject, expected: tuple[str, bool]) -> None:
    """R225-R229, R232."""
    two.send(method, META, meta)
    assert default(two) == expected


@pytest.mark.parametrize(
    ("method", "meta", "expected"),
    [
        ("PATCH", {"labels": {}}, ("v1", True)),
        ("PATCH", {"defaultversionsticky": True}, ("v1", True)),
        ("PATCH", {"defaultversionid": None}, ("v2", False)),
        ("PATCH", {"defaultversionsticky": False}, ("v2", False)),
        ("PUT", {}, ("v2", False)),
        ("PUT", {"defaultversionsticky": True}, ("v2", True)),
    ],
)
def test_sticky_default(two: Registry, method: str, meta: JSONObject, expected: tuple[str, bool]) -> None:
    """R225 to R228."""
    two.patch(META, {"defaultversionid": "v1"})
    two.post(F1, {"versionid": "v0"})
    two.delete(f"{F1}/versions/v0")
    two.send(method, META, meta)
    assert default(two) == expected


def test_deleted_sticky_default(two: Registry) -> None:
    """Deleting a sticky default version removes the stickiness (R174)."""
    two.patch(META, {"defaultversionid": "v1"})
    two.delete(f"{F1}/versions/v1")
    assert default(two) == ("v2", False)


@pytest.mark.parametrize(
    "meta", [{"defaultversionid": 5}, {"defaultversionsticky": "yes"}, {"compatibility": "sideways"}]
)
def test_bad_values(two: Registry, meta: JSONObject) -> None:
    error = two.refused("PATCH", META, meta)
    assert (error.code, error.arguments["name"]) == ("invalid_attribute", next(iter(meta)))


def test_pinned_by_the_model(make: Make) -> None:
    """The model can forbid sticky default versions (R232)."""
    sticky = {"type": "boolean", "enum": [False], "required": True, "default": False}
    registry = make(metaattributes={"defaultversionsticky": sticky})
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    assert registry.refused("PATCH", META, {"defaultversionid": "v1"}).code == "invalid_attribute"
    assert registry.refused("PUT", F1, {}, setdefaultversionid="v1").code == "invalid_attribute"


def test_always_sticky(make: Make) -> None:
    """The default Version stays sticky after a change if the model requires it (R232, R174)."""
    sticky = {"type": "boolean", "enum": [True], "required": True, "default": True}
    registry = make(metaattributes={"defaultversionsticky": sticky})
    registry.put(F1, {"versionid": "v1"})
    registry.post(F1, {"versionid": "v2"})
    assert default(registry) == ("v1", True)
    registry.delete(f"{F1}/versions/v1")
    assert default(registry) == ("v2", True)


def test_single_version_cannot_be_sticky(make: Make) -> None:
    """A resource with maxversions of 1 has no choice of a default version (R94)."""
    registry = make(maxversions=1)
    error = registry.refused("PUT", F1, {"meta": {"defaultversionsticky": True}})
    assert (error.code, error.subject) == ("setdefaultversionsticky_false", F1)


def test_ignored_default(two: Registry) -> None:
    """The default version in the body has no effect with the flag ignore (R205)."""
    body = {"defaultversionid": 5, "defaultversionsticky": "nonsense"}
    two.put(META, body, ignore=frozenset({"defaultversionid", "defaultversionsticky"}))
    assert default(two) == ("v2", False)


def test_generated_ids_never_restart(registry: Registry) -> None:
    """A number given by a client is not reused either (R234, A-19)."""
    registry.put(F1, {})
    registry.put(f"{F1}/versions/3", {})
    for expected in ("4", "5"):
        assert str(registry.post(F1, {}).version) == f"{F1}/versions/{expected}"
    registry.put(f"{F1}/versions/7", {})
    registry.delete(f"{F1}/versions/7")
    assert str(registry.post(F1, {}).version) == f"{F1}/versions/8"
    registry.put(f"{F1}/versions/{2**31}", {})  # no number to the drafts
    assert str(registry.post(F1, {}).version) == f"{F1}/versions/9"


def test_ids_set_by_the_server_only(make: Make) -> None:
    """The server chooses version ids if the model forbids setting them (R95)."""
    registry = make(setversionid=False)
    registry.put(F1, {})
    registry.put(f"{F1}/versions/1", {"name": "n"})
    for method, path, body in (("PUT", f"{F1}/versions/2", {}), ("POST", F1, {"versionid": "2"})):
        error = registry.refused(method, path, body)
        assert (error.code, error.subject) == ("versionid_not_allowed", F1)


SOURCE = "/dirs/d1/files/source"
TARGET = "/dirs/d2/files/target"
XREF: JSONObject = {"meta": {"xref": TARGET}}


def test_reference(registry: Registry) -> None:
    """The target may be missing (R262, R263, R268)."""
    assert registry.put(SOURCE, XREF).created
    row = registry.row(SOURCE)
    assert (str(row.xref), row.defaultversionid, row.epoch) == (TARGET, None, 1)
    assert registry.versions(SOURCE) == {}
    registry.put(SOURCE, {"fileid": "source", "meta": {"fileid": "source", "xref": TARGET}})
    assert registry.row(SOURCE).epoch == 1  # which nobody sees until the reference is taken away


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ("nope", "starts with /"),
        (5, "string"),
        ("/dirs/d1", "xid of a Resource"),
        ("/nope/d1/files/x", "no such"),
        ("/dirs/d1/nope/x", "no such"),
        ("/others/o/files/x", "same Resource type"),
    ],
)
def test_malformed(registry: Registry, value: JSON, detail: str) -> None:
    """An invalid xref is rejected (R262)."""
    files = {"files": {"singular": "file"}}
    groups = {plural: {"singular": plural[:-1], "resources": files} for plural in ("dirs", "others")}
    registry.configure("modelsource", {"groups": groups})
    error = registry.refused("PUT", SOURCE, {"meta": {"xref": value}})
    assert error.code == "malformed_xref"
    assert detail in error.arguments["error_detail"]


def test_imported_types_are_the_same(registry: Registry) -> None:
    """R262, R111."""
    files = {"files": {"singular": "file"}}
    groups: JSONObject = {"dirs": {"singular": "dir", "resources": files}}
    groups["others"] = {"singular": "other", "ximportresources": ["/dirs/files"]}
    registry.configure("modelsource", {"groups": groups})
    registry.put("/others/o/files/x", XREF)
    assert str(registry.row("/others/o/files/x").xref) == TARGET


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({**XREF, "name": "n"}, "name"),
        ({**XREF, "versions": {"v1": {}}}, "versions"),
        ({"meta": {"xref": TARGET, "labels": {}}}, "labels"),
        ({"meta": {"xref": TARGET, "epoch": 1}}, "epoch"),
    ],
)
def test_other_attributes_next_to_a_reference_are_rejected(registry: Registry, body: JSONObject, name: str) -> None:
    """A reference has no attributes of its own (R263)."""
    error = registry.refused("PUT", SOURCE, body)
    assert (error.code, error.arguments) == ("extra_xref_attribute", {"name": name, "singular": "file"})


def test_exported_reference_is_good_input(registry: Registry) -> None:
    """An exported reference can be imported (R275)."""
    meta = {"fileid": "source", "self": "#/meta", "xid": f"{SOURCE}/meta", "xref": TARGET}
    registry.put(SOURCE, {"fileid": "source", "self": "#/", "xid": SOURCE, "metaurl": "#/meta", "meta": meta})


def test_normal_resource_becomes_a_reference(registry: Registry) -> None:
    """The epoch may be checked too (R264, R263)."""
    registry.put(SOURCE, {"meta": {"labels": {"a": "b"}}, "versions": {"v1": {}, "v2": {}}})
    error = registry.refused("PATCH", f"{SOURCE}/meta", {"xref": TARGET, "epoch": 9})
    assert error.code == "mismatched_epoch"
    registry.patch(f"{SOURCE}/meta", {"xref": TARGET, "epoch": 1})
    assert registry.versions(SOURCE) == {}
    assert (registry.row(SOURCE).attributes, registry.row(SOURCE).epoch) == ({}, 1)


def test_references_are_kept(registry: Registry) -> None:
    """GAP 24."""
    registry.put(SOURCE, XREF)
    registry.put(SOURCE, {})
    registry.patch(SOURCE, {})
    assert str(registry.row(SOURCE).xref) == TARGET
    assert registry.refused("PATCH", SOURCE, {"name": "n"}).code == "extra_xref_attribute"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", SOURCE), ("PUT", f"{SOURCE}/versions/v1"), ("POST", f"{SOURCE}/versions")]
)
def test_versions_are_written_at_the_target(registry: Registry, method: str, path: str) -> None:
    """Versions of a reference cannot be written (R266)."""
    registry.put(SOURCE, XREF)
    assert registry.refused(method, path, {"v1": {}} if path.endswith("versions") else {}).code == "bad_request"


@pytest.mark.parametrize("path", [f"{SOURCE}/versions", f"{SOURCE}/versions/v1"])
def test_versions_are_deleted_at_the_target(registry: Registry, path: str) -> None:
    """The deletion is rejected instead of ignored, because a read shows these Versions (R266)."""
    registry.put(f"{TARGET}/versions/v1", {})
    registry.put(SOURCE, XREF)
    assert registry.refused("DELETE", path).code == "bad_request"
    assert "v1" in registry.versions(TARGET)


def test_default_version_is_chosen_at_the_target(registry: Registry) -> None:
    """R208, R263."""
    registry.put(f"{TARGET}/versions/v1", {})
    registry.put(SOURCE, XREF)
    assert registry.refused("PATCH", f"{SOURCE}/meta", {}, setdefaultversionid="v1").code == "bad_flag"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", SOURCE, {"name": "n", "meta": {}}),
        ("PATCH", SOURCE, {"name": "n", "meta": {"xref": None}}),
        ("PUT", SOURCE, {"name": "n", "meta": {"xref": None}}),
    ],
)
def test_removed_reference_restores_the_resource(registry: Registry, method: str, path: str, body: JSONObject) -> None:
    """Creation time and counter are restored, and the epoch exceeds both previous ones (R269)."""
    registry.put(SOURCE, {"meta": {"createdat": "2020-01-01T00:00:00Z", "labels": {"a": "b"}}})
    registry.put(SOURCE, XREF)
    registry.put(TARGET, {})
    for _ in range(5):
        registry.patch(f"{TARGET}/meta", {})
    registry.send(method, path, body)
    row = registry.row(SOURCE)
    assert (row.xref, row.epoch, row.attributes, row.createdat.year) == (None, 7, {}, 2020)
    assert {vid: version.attributes for vid, version in registry.versions(SOURCE).items()} == {"2": {"name": "n"}}


def test_reference_can_be_removed_through_meta(registry: Registry) -> None:
    """R269; a target that is gone counts as epoch 0."""
    registry.put(SOURCE, XREF)
    registry.put(f"{SOURCE}/meta", {})
    assert (registry.row(SOURCE).epoch, list(registry.versions(SOURCE))) == (2, ["1"])
