"""Resources that stand for another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSON, JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

SOURCE = "/dirs/d1/files/source"
TARGET = "/dirs/d2/files/target"
XREF: JSONObject = {"meta": {"xref": TARGET}}


def test_reference(registry: Registry) -> None:
    """R262, R263, R268: the target may be missing."""
    assert registry.put(SOURCE, XREF).created
    row = registry.row(SOURCE)
    assert (str(row.xref), row.defaultversionid, row.epoch) == (TARGET, None, 1)
    assert registry.versions(SOURCE) == {}
    registry.put(SOURCE, {"fileid": "source", "meta": {"fileid": "source", "xref": TARGET}})
    assert registry.row(SOURCE).epoch == 2


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ("nope", "starts with /"),
        (5, "string"),
        ("/dirs/d1", "xid of a Resource"),
        ("/nope/d1/files/x", "no such"),
        ("/dirs/d1/nope/x", "no such"),
        ("/others/o/files/x", "same Resource type"),
        (SOURCE, "itself"),
    ],
)
def test_malformed(registry: Registry, value: JSON, detail: str) -> None:
    """R262."""
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
def test_nothing_beside_the_reference(registry: Registry, body: JSONObject, name: str) -> None:
    """R263."""
    error = registry.refused("PUT", SOURCE, body)
    assert (error.code, error.arguments) == ("extra_xref_attribute", {"name": name, "singular": "file"})


def test_exported_reference_is_good_input(registry: Registry) -> None:
    """R275."""
    meta = {"fileid": "source", "self": "#/meta", "xid": f"{SOURCE}/meta", "xref": TARGET}
    registry.put(SOURCE, {"fileid": "source", "self": "#/", "xid": SOURCE, "metaurl": "#/meta", "meta": meta})


def test_normal_resource_becomes_a_reference(registry: Registry) -> None:
    """R264, R263: the epoch may be checked once more."""
    registry.put(SOURCE, {"meta": {"labels": {"a": "b"}}, "versions": {"v1": {}, "v2": {}}})
    error = registry.refused("PATCH", f"{SOURCE}/meta", {"xref": TARGET, "epoch": 9})
    assert error.code == "mismatched_epoch"
    registry.patch(f"{SOURCE}/meta", {"xref": TARGET, "epoch": 1})
    assert registry.versions(SOURCE) == {}
    assert (registry.row(SOURCE).attributes, registry.row(SOURCE).epoch) == ({}, 2)


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
    """R266."""
    registry.put(SOURCE, XREF)
    assert registry.refused(method, path, {"v1": {}} if path.endswith("versions") else {}).code == "bad_request"


@pytest.mark.parametrize("path", [f"{SOURCE}/versions", f"{SOURCE}/versions/v1"])
def test_versions_are_deleted_at_the_target(registry: Registry, path: str) -> None:
    """R266: neither passed over nor called missing, for a read shows them."""
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
def test_reference_taken_away(registry: Registry, method: str, path: str, body: JSONObject) -> None:
    """R269, trap 13: creation time and counter are those of old, the epoch beats both."""
    registry.put(SOURCE, {"meta": {"createdat": "2020-01-01T00:00:00Z", "labels": {"a": "b"}}})
    registry.put(SOURCE, XREF)
    registry.put(TARGET, {})
    for _ in range(5):
        registry.patch(f"{TARGET}/meta", {})
    registry.send(method, path, body)
    row = registry.row(SOURCE)
    assert (row.xref, row.epoch, row.attributes, row.createdat.year) == (None, 7, {}, 2020)
    assert {vid: version.attributes for vid, version in registry.versions(SOURCE).items()} == {"2": {"name": "n"}}


def test_reference_taken_away_through_meta(registry: Registry) -> None:
    """R269; a target that is gone counts as epoch 0."""
    registry.put(SOURCE, XREF)
    registry.put(f"{SOURCE}/meta", {})
    assert (registry.row(SOURCE).epoch, list(registry.versions(SOURCE))) == (2, ["1"])
