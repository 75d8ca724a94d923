from __future__ import annotations

import pytest
from tests.engine.conftest import Registry

from signalbook.values import JSON

F1 = "/dirs/d1/files/f1"


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/"), ("PUT", "/dirs/d1"), ("PUT", F1), ("PATCH", f"{F1}/meta"), ("POST", "/dirs"), ("POST", F1)],
)
def test_missing_body(registry: Registry, method: str, path: str) -> None:
    """A write without a body is rejected (R148)."""
    assert registry.refused(method, path).code == "missing_body"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/dirs/d1", []),
        ("POST", "/dirs", {"d1": None}),
        ("POST", "/dirs", {"d1": 5}),
        ("PUT", "/dirs/d1", {"files": []}),
        ("PUT", "/dirs/d1", {"files": {"f1": None}}),
        ("PUT", F1, {"versions": {"v1": "x"}}),
        ("PUT", F1, {"meta": 5}),
    ],
)
def test_maps_hold_objects(registry: Registry, method: str, path: str, body: JSON) -> None:
    """The members of a collection must be objects (R50)."""
    assert registry.refused(method, path, body).code == "bad_request"


@pytest.mark.parametrize("body", [{"files": {}}, {"files": None}, {"filesurl": 5, "filescount": "x"}])
def test_empty_collections_change_nothing(registry: Registry, body: JSON) -> None:
    """An empty collection changes nothing (R50)."""
    registry.put(F1, {})
    registry.put("/dirs/d1", body)
    assert registry.find(F1) is not None


def test_post_takes_only_maps(registry: Registry) -> None:
    """POST to the registry or a group accepts only collections (R145)."""
    assert registry.refused("POST", "/", {"name": "x"}).code == "groups_only"
    assert registry.refused("POST", "/dirs/d1", {"name": "x"}).code == "resources_only"


def test_post_of_maps_leaves_the_owner(registry: Registry) -> None:
    """R145, R37."""
    registry.put("/dirs/d1", {"name": "n"})
    result = registry.post("/", {"dirs": {"d1": {"name": "m"}, "d2": {"files": {"f1": {}}}}})
    assert [str(xid) for xid in result.processed] == ["/dirs/d1", "/dirs/d2"]
    result = registry.post("/dirs/d1", {"files": {"f1": {}}})
    assert [str(xid) for xid in result.processed] == [F1]
    assert (registry.row("/dirs/d1").attributes, registry.row("/dirs/d1").epoch) == ({"name": "m"}, 3)


def test_patch_of_a_collection_merges_entries(registry: Registry) -> None:
    """PATCH of a collection merges its entries, POST replaces them (R146)."""
    registry.put("/dirs/d1", {"name": "n"})
    registry.patch("/dirs", {"d1": {"description": "d"}})
    assert registry.row("/dirs/d1").attributes == {"name": "n", "description": "d"}
    registry.post("/dirs", {"d1": {"description": "d"}})
    assert registry.row("/dirs/d1").attributes == {"description": "d"}


def test_implicit_parents(registry: Registry) -> None:
    """A write creates the missing parents (R52)."""
    registry.put(f"{F1}/versions/v1", {"name": "n"})
    assert registry.row("/dirs/d1").epoch == 1
    assert registry.row(F1).defaultversionid == "v1"
    assert list(registry.versions()) == ["v1"]


def test_parent_with_required_attributes_is_not_created_implicitly(registry: Registry) -> None:
    """A parent with required attributes is not created implicitly (R52)."""
    model = {"groups": {"dirs": {"singular": "dir", "attributes": {"owner": {"type": "string", "required": True}}}}}
    model["groups"]["dirs"]["resources"] = {"files": {"singular": "file"}}
    registry.configure("modelsource", model)
    error = registry.refused("PUT", F1, {})
    assert (error.code, error.subject, error.arguments["list"]) == ("required_attribute_missing", "/dirs/d1", "owner")


def test_null_and_request_are_no_versionids(registry: Registry) -> None:
    """The words null and request are not valid version ids (R28)."""
    for versionid in ("null", "request"):
        assert registry.refused("PUT", f"{F1}/versions/{versionid}", {}).code == "malformed_id"
        assert registry.refused("PUT", F1, {"versionid": versionid}).code == "malformed_id"
        assert registry.refused("POST", F1, {"versionid": versionid}).code == "malformed_id"


def test_post_to_a_resource_adds_one_version(registry: Registry) -> None:
    """R147, GAP 8."""
    result = registry.post(F1, {"name": "a"})
    assert (str(result.target), result.created) == (f"{F1}/versions/1", True)
    result = registry.post(F1, {"versionid": "1", "description": "d", "versionscount": 4})
    assert (str(result.target), result.created, result.version) == (f"{F1}/versions/1", False, None)
    assert registry.versions()["1"].attributes == {"description": "d"}
    result = registry.post(F1, {})
    assert str(result.version) == f"{F1}/versions/2"


@pytest.mark.parametrize("name", ["meta", "versions"])
def test_post_of_a_version_is_no_resource(registry: Registry, name: str) -> None:
    """GAP 32, R17: not even where any extension is welcome."""
    assert registry.refused("POST", F1, {name: {}}).code == "invalid_attribute"
    assert registry.refused("PUT", F1, {"versions": {"v1": {name: {}}}}).code == "invalid_attribute"
