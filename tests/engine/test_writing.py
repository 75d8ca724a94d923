"""Targets, methods and flags that do not fit; results; read-only Resources; the Registry itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.engine.write.commands import Command, Method
from signalbook.errors import RegistryError
from signalbook.values import JSON
from signalbook.xid import Xid

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

F1 = "/dirs/d1/files/f1"


@pytest.mark.parametrize("path", ["/nope", "/nope/x", "/dirs/d1/nope", "/dirs/d1/nope/x"])
def test_unknown_types_in_a_path(registry: Registry, path: str) -> None:
    """GAP 14."""
    assert registry.refused("DELETE", path).code == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/"),
        ("PUT", "/dirs"),
        ("PUT", f"{F1}/versions"),
        ("DELETE", f"{F1}/meta"),
        ("POST", f"{F1}/versions/1"),
    ],
)
def test_methods_that_do_not_fit(registry: Registry, method: str, path: str) -> None:
    assert registry.refused(method, path, {}).code == "action_not_supported"


@pytest.mark.parametrize(
    ("method", "path", "flag", "code"),
    [
        ("PUT", "/dirs/d1", "v1", "bad_flag"),
        ("POST", "/dirs/d1/files", "v1", "bad_flag"),
        ("DELETE", F1, "v1", "bad_flag"),
        ("PUT", F1, "request", "bad_flag"),
        ("POST", f"{F1}/versions", "request", "bad_flag"),
        ("PUT", F1, "", "bad_defaultversionid"),
        ("PUT", F1, "nope", "unknown_id"),
    ],
)
def test_setdefaultversionid_misused(registry: Registry, method: str, path: str, flag: str, code: str) -> None:
    """R208-R211."""
    registry.put(F1, {})
    assert registry.refused(method, path, {}, setdefaultversionid=flag).code == code


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", f"{F1}/versions", {"v1": {}, "v2": {}}, "too_many_versions"),
        ("PUT", F1, {"versions": {"v1": {}, "v2": {}}}, "too_many_versions"),
        ("PUT", F1, {"versions": {"v1": {}}}, "bad_flag"),
        ("POST", f"{F1}/versions", {"v1": {}}, "bad_flag"),
    ],
)
def test_request_stands_for_one_version(registry: Registry, method: str, path: str, body: JSON, code: str) -> None:
    """R210."""
    error = registry.refused(method, path, body, setdefaultversionid="request")
    assert (error.code, error.subject) == (code, path)


def test_setdefaultversionid(registry: Registry) -> None:
    """R209, R210."""
    registry.put(F1, {"versionid": "v1"})
    registry.post(F1, {}, setdefaultversionid="request")
    assert (registry.row(F1).defaultversionid, registry.row(F1).defaultversionsticky) == ("1", True)
    registry.patch(f"{F1}/meta", {"defaultversionid": "v1"}, setdefaultversionid="null")
    assert not registry.row(F1).defaultversionsticky
    registry.delete(f"{F1}/versions/1", setdefaultversionid="v1")
    assert (registry.row(F1).defaultversionid, registry.row(F1).defaultversionsticky) == ("v1", True)
    error = registry.refused("POST", F1, {"versionid": "v1"}, setdefaultversionid="request")
    assert error.code == "defaultversionid_request"


def test_epoch_flag_is_for_deletes(registry: Registry) -> None:
    """R179."""
    assert registry.refused("PUT", F1, {}, epoch=1).code == "bad_flag"
    assert registry.refused("DELETE", "/dirs", epoch=1).code == "bad_flag"


def test_results(registry: Registry) -> None:
    """R151, R152."""
    result = registry.put(F1, {})
    assert (result.created, str(result.version)) == (True, f"{F1}/versions/1")
    result = registry.put(F1, {})
    assert (result.created, result.version) == (False, None)
    result = registry.put(f"{F1}/versions/v2", {})
    assert (result.created, str(result.version)) == (True, f"{F1}/versions/v2")
    result = registry.put("/dirs/d1/files/f2/meta", {})
    assert (result.created, str(result.version)) == (True, "/dirs/d1/files/f2/versions/1")
    assert registry.put("/", {}).created is False


def test_versions_of_a_new_resource_must_be_some(registry: Registry) -> None:
    assert registry.refused("POST", f"{F1}/versions", {}).code == "missing_versions"
    registry.put(F1, {})
    assert registry.post(f"{F1}/versions", {}).processed == ()


def test_registry_entity(registry: Registry) -> None:
    """R53, R58, R145."""
    registry.put("/", {"name": "n", "specversion": "0.1", "labels": {"a": "b"}, "dirs": {"d1": {}}})
    assert registry.row("/").attributes == {"registryid": "test", "name": "n", "labels": {"a": "b"}}
    registry.patch("/", {"name": None})
    assert registry.row("/").attributes == {"registryid": "test", "labels": {"a": "b"}}


@pytest.mark.parametrize(
    ("add", "registry_epoch", "group_epoch", "meta_epoch"),
    [("/dirs/d2", 1, 0, 0), ("/dirs/d1/files/f2", 0, 1, 0), (f"{F1}/versions/v2", 0, 0, 1)],
)
def test_children_raise_their_owners_epoch_only(
    registry: Registry, add: str, registry_epoch: int, group_epoch: int, meta_epoch: int
) -> None:
    """R37, R38, R172; a change of an existing child raises nothing above it."""
    registry.put(F1, {})
    paths = ("/", "/dirs/d1", F1)
    for method in ("PUT", "DELETE"):
        before = [registry.row(path).epoch for path in paths]
        registry.send(method, add, {})
        grown = [registry.row(path).epoch - old for path, old in zip(paths, before, strict=True)]
        assert grown == [registry_epoch, group_epoch, meta_epoch]
    before = [registry.row(path).epoch for path in paths]
    registry.patch(f"{F1}/versions/1", {})
    assert [registry.row(path).epoch for path in paths] == before


def as_admin(registry: Registry, method: str, path: str, body: JSON = None) -> None:
    with registry.engine.writing(admin=True) as session:
        session.execute(Command(method=Method(method), target=Xid.parse(path), body=body))


def lock(registry: Registry, path: str) -> None:
    as_admin(registry, "PATCH", f"{path}/meta", {"readonly": True})


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", F1, {}),
        ("PATCH", f"{F1}/meta", {}),
        ("POST", F1, {}),
        ("DELETE", F1, None),
        ("DELETE", f"{F1}/versions/1", None),
        ("DELETE", "/dirs/d1", None),
        ("POST", "/dirs/d1/files", {"f1": {}}),
    ],
)
def test_read_only_resources(registry: Registry, method: str, path: str, body: JSON) -> None:
    """R261."""
    registry.put(F1, {"versions": {"1": {}, "2": {}}})
    lock(registry, F1)
    assert registry.refused(method, path, body).code == "readonly"


def test_read_only_resources_passed_over(registry: Registry) -> None:
    """R207."""
    registry.put(F1, {})
    lock(registry, F1)
    before = registry.row(F1)
    ignore = frozenset({"readonly"})
    result = registry.post("/dirs/d1/files", {"f1": {"name": "x"}, "f2": {}}, ignore=ignore)
    assert [str(xid) for xid in result.processed] == ["/dirs/d1/files/f2"]
    registry.delete("/dirs/d1/files", ignore=ignore)
    assert registry.row(F1) == before
    assert registry.find("/dirs/d1/files/f2") is None
    for method in ("PUT", "DELETE"):
        assert registry.refused(method, F1, {}, ignore=ignore).code == "bad_flag"


def test_an_admin_locks_and_unlocks(registry: Registry) -> None:
    """R261: PATCH leaves it, PUT without it resets it, and what is read-only is not so to an admin."""
    registry.put(F1, {})
    lock(registry, F1)
    as_admin(registry, "PATCH", F1, {"name": "x", "meta": {"labels": {}}})
    assert registry.row(F1).attributes["readonly"] is True
    as_admin(registry, "PUT", f"{F1}/meta", {})
    registry.put(F1, {})
    lock(registry, F1)
    with pytest.raises(RegistryError, match="readonly"):
        as_admin(registry, "PATCH", f"{F1}/meta", {"readonly": "nonsense"})
    as_admin(registry, "DELETE", F1)
    assert registry.find(F1) is None


def test_clients_cannot_lock(registry: Registry) -> None:
    """R261."""
    registry.put(F1, {"meta": {"readonly": True}})
    registry.put(F1, {"meta": {"readonly": "nonsense"}})
    assert registry.row(F1).attributes == {}


@pytest.mark.parametrize(("method", "path"), [("POST", F1), ("PUT", f"{F1}/versions/v9")])
def test_a_version_too_old_to_be_kept_is_refused(make: Make, method: str, path: str) -> None:
    """R93: there would be nothing to answer with."""
    registry = make(versionmode="createdat", maxversions=2)
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    error = registry.refused(method, path, {"createdat": "2020-01-01T00:00:00Z"})
    assert (error.code, "oldest" in error.detail or "oldest" in error.title) == ("bad_request", True)
