"""Meta's own attributes and the default Version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Make, Registry

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
    """R225-R228; trap 11."""
    two.patch(META, {"defaultversionid": "v1"})
    two.post(F1, {"versionid": "v0"})
    two.delete(f"{F1}/versions/v0")
    two.send(method, META, meta)
    assert default(two) == expected


def test_deleted_sticky_default(two: Registry) -> None:
    """R174."""
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
    """R232."""
    sticky = {"type": "boolean", "enum": [False], "required": True, "default": False}
    registry = make(metaattributes={"defaultversionsticky": sticky})
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    assert registry.refused("PATCH", META, {"defaultversionid": "v1"}).code == "invalid_attribute"
    assert registry.refused("PUT", F1, {}, setdefaultversionid="v1").code == "invalid_attribute"


def test_always_sticky(make: Make) -> None:
    """R232, R174: where the model says so, sticky outlives the default."""
    sticky = {"type": "boolean", "enum": [True], "required": True, "default": True}
    registry = make(metaattributes={"defaultversionsticky": sticky})
    registry.put(F1, {"versionid": "v1"})
    registry.post(F1, {"versionid": "v2"})
    assert default(registry) == ("v1", True)
    registry.delete(f"{F1}/versions/v1")
    assert default(registry) == ("v2", True)


def test_no_choice_of_one(make: Make) -> None:
    """R94."""
    registry = make(maxversions=1)
    error = registry.refused("PUT", F1, {"meta": {"defaultversionsticky": True}})
    assert (error.code, error.subject) == ("setdefaultversionsticky_false", F1)


def test_ignored_default(two: Registry) -> None:
    """R205."""
    body = {"defaultversionid": 5, "defaultversionsticky": "nonsense"}
    two.put(META, body, ignore=frozenset({"defaultversionid", "defaultversionsticky"}))
    assert default(two) == ("v2", False)


def test_generated_ids_never_restart(registry: Registry) -> None:
    """R234, trap 13, A-19: nor does a number come back that a client gave."""
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
    """R95."""
    registry = make(setversionid=False)
    registry.put(F1, {})
    registry.put(f"{F1}/versions/1", {"name": "n"})
    for method, path, body in (("PUT", f"{F1}/versions/2", {}), ("POST", F1, {"versionid": "2"})):
        error = registry.refused(method, path, body)
        assert (error.code, error.subject) == ("versionid_not_allowed", F1)
