import pytest
from tests.engine.conftest import Registry

from signalbook.values import JSON

F1 = "/dirs/d1/files/f1"


@pytest.mark.parametrize(
    ("code", "method", "path", "body"),
    [
        ("missing_body", "PUT", "/", None),  # R148
        ("missing_body", "PUT", "/dirs/d1", None),
        ("missing_body", "PUT", F1, None),
        ("missing_body", "PATCH", f"{F1}/meta", None),
        ("missing_body", "POST", "/dirs", None),
        ("missing_body", "POST", F1, None),
        ("bad_request", "PUT", "/dirs/d1", []),  # R50
        ("bad_request", "POST", "/dirs", {"d1": None}),
        ("bad_request", "POST", "/dirs", {"d1": 5}),
        ("bad_request", "PUT", "/dirs/d1", {"files": []}),
        ("bad_request", "PUT", "/dirs/d1", {"files": {"f1": None}}),
        ("bad_request", "PUT", F1, {"versions": {"v1": "x"}}),
        ("bad_request", "PUT", F1, {"meta": 5}),
        ("groups_only", "POST", "/", {"name": "x"}),  # R145
        ("resources_only", "POST", "/dirs/d1", {"name": "x"}),
        ("malformed_id", "PUT", f"{F1}/versions/null", {}),  # R28
        ("malformed_id", "PUT", f"{F1}/versions/request", {}),
        ("malformed_id", "PUT", F1, {"versionid": "null"}),
        ("malformed_id", "PUT", F1, {"versionid": "request"}),
        ("malformed_id", "POST", F1, {"versionid": "null"}),
        ("malformed_id", "POST", F1, {"versionid": "request"}),
        ("invalid_attribute", "POST", F1, {"meta": {}}),  # GAP 32, R17: not even where any extension is welcome
        ("invalid_attribute", "POST", F1, {"versions": {}}),
        ("invalid_attribute", "PUT", F1, {"versions": {"v1": {"meta": {}}}}),
        ("invalid_attribute", "PUT", F1, {"versions": {"v1": {"versions": {}}}}),
    ],
)
def test_request_of_the_wrong_shape_is_refused(
    registry: Registry, code: str, method: str, path: str, body: JSON
) -> None:
    assert registry.refused(method, path, body).code == code


@pytest.mark.parametrize("body", [{"files": {}}, {"files": None}, {"filesurl": 5, "filescount": "x"}])
def test_empty_collections_change_nothing(registry: Registry, body: JSON) -> None:
    """An empty collection changes nothing (R50)."""
    registry.put(F1, {})
    registry.put("/dirs/d1", body)
    assert registry.find(F1) is not None


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


def test_post_to_a_resource_adds_one_version(registry: Registry) -> None:
    """R147, GAP 8."""
    result = registry.post(F1, {"name": "a"})
    assert (str(result.target), result.created) == (f"{F1}/versions/1", True)
    result = registry.post(F1, {"versionid": "1", "description": "d", "versionscount": 4})
    assert (str(result.target), result.created, result.version) == (f"{F1}/versions/1", False, None)
    assert registry.versions()["1"].attributes == {"description": "d"}
    result = registry.post(F1, {})
    assert str(result.version) == f"{F1}/versions/2"
