"""Ids, epochs, timestamps, PUT and PATCH, on Groups and the Registry as much as on Versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSON, JSONObject, format_timestamp

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

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
    """R144."""
    assert registry.patch(D1, {"name": "n"}).created
    assert not registry.patch(D1, {}).created


def test_touch_raises_epoch_and_modifiedat(registry: Registry) -> None:
    """R34."""
    registry.put(D1, {"modifiedat": OLD})
    registry.patch(D1, {})
    assert registry.row(D1).epoch == 2
    assert format_timestamp(registry.row(D1).modifiedat) != OLD


def test_epoch_of_a_new_entity_is_ignored(registry: Registry) -> None:
    """R35."""
    registry.put(D1, {"epoch": 99})
    assert registry.row(D1).epoch == 1


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        (D1, D1),
        (F1, f"{F1}/versions/1"),
        (f"{F1}/meta", f"{F1}/meta"),
        (f"{F1}/versions/1", f"{F1}/versions/1"),
    ],
)
def test_wrong_epoch_is_refused(registry: Registry, path: str, subject: str) -> None:
    """R36, R38."""
    registry.put(F1, {})
    error = registry.refused("PATCH", path, {"epoch": 7})
    assert (error.code, error.subject) == ("mismatched_epoch", subject)
    assert error.arguments == {"bad_epoch": "7", "epoch": "1"}
    registry.patch(path, {"epoch": 1})
    registry.patch(path, {"epoch": 1}, ignore=frozenset({"epoch"}))


@pytest.mark.parametrize("epoch", [-1, "1", True, 1.5])
def test_epoch_that_is_no_number(registry: Registry, epoch: JSON) -> None:
    registry.put(D1, {})
    assert registry.refused("PUT", D1, {"epoch": epoch}).code == "invalid_attribute"


def test_createdat(registry: Registry) -> None:
    """R40."""
    registry.put(D1, {"createdat": "2020-01-01T01:00:00+01:00"})
    registry.put(D1, {})
    assert format_timestamp(registry.row(D1).createdat) == OLD
    registry.patch(D1, {"createdat": None})
    assert registry.row(D1).createdat == registry.row(D1).modifiedat


def test_modifiedat(registry: Registry) -> None:
    """R41: a value that differs is taken, the stored one sent again means now."""
    registry.put(D1, {"modifiedat": OLD})
    assert format_timestamp(registry.row(D1).modifiedat) == OLD
    registry.put(D1, {"modifiedat": OLD})
    assert format_timestamp(registry.row(D1).modifiedat) != OLD


def test_given_modifiedat_survives_a_knock_on_change(registry: Registry) -> None:
    registry.put(D1, {"modifiedat": OLD, "files": {"f1": {}}})
    assert format_timestamp(registry.row(D1).modifiedat) == OLD


@pytest.mark.parametrize("value", ["yesterday", 5, ["2020"]])
def test_bad_timestamp(registry: Registry, value: JSON) -> None:
    error = registry.refused("PUT", D1, {"createdat": value})
    assert (error.code, error.arguments["name"]) == ("invalid_attribute", "createdat")


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
    """R206."""
    registry.put(F1, {})
    registry.put(path, body, ignore=frozenset({"id"}))


def test_ignored_id_is_the_roots_alone(registry: Registry) -> None:
    """R206."""
    body = {"files": {"f1": {"fileid": "other"}}}
    assert registry.refused("PUT", D1, body, ignore=frozenset({"id"})).code == "mismatched_id"


@pytest.mark.parametrize("id", ["", "-x", "a b", "a/b", "x" * 129, "ä"])
def test_malformed_ids(registry: Registry, id: str) -> None:
    """R25."""
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


def test_every_fault_is_told_with_its_path(registry: Registry) -> None:
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
    """R21."""
    registry.put(D1, {"$schema": "https://example.com/s"})
    assert registry.row(D1).attributes == {}
