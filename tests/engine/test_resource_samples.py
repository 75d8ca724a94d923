"""The request/initial/final-state samples of core/resource.md as one table (R216-R232)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.conftest import Make, Registry

from signalbook.values import JSONObject, format_timestamp

F1 = "/dirs/d1/files/f1"


def at(year: int) -> str:
    return f"{year}-01-01T00:00:00Z"


def made(year: int) -> JSONObject:
    return {"createdat": at(year)}


V0: JSONObject = {"versionid": "v0", **made(2021)}
V1: JSONObject = {"versionid": "v1", "name": "first", **made(2025)}
TWO: JSONObject = {"versions": {"v1": made(2025), "v2": made(2025)}}
TWO_STICKY: JSONObject = {**TWO, "meta": {"defaultversionid": "v1", "defaultversionsticky": True}}
DVID1: JSONObject = {"defaultversionid": "v1"}
STICKY: JSONObject = {"defaultversionsticky": True}
STICKY1: JSONObject = {**DVID1, **STICKY}
V1_V2: JSONObject = {"versions": {"v1": {}, "v2": {}}}

# before, method, body; ancestors, epochs, names, default, sticky, meta's epoch
SAMPLES: dict[str, Any] = {
    "empty PUT": ((None, "PUT", {}), ({"1": "1"}, {"1": 1}, {}, "1", False, 1)),
    "empty PATCH": ((None, "PATCH", {}), ({"1": "1"}, {"1": 1}, {}, "1", False, 1)),
    "versions": ((None, "PUT", {"name": "n", **V1_V2}), ({"v1": "v1", "v2": "v1"}, {}, {}, "v2", False, 1)),
    "defaultversionid in versions": (
        (None, "PUT", {"name": "n", "meta": DVID1, "versions": {"v1": made(2020), "v2": made(3030), "v3": {}}}),
        ({"v1": "v1", "v3": "v1", "v2": "v3"}, {}, {}, "v2", False, 1),
    ),
    "defaultversionid not in versions": (
        (None, "PUT", {"name": "n", "meta": DVID1, "versions": {"v2": {}, "v3": {}}}),
        ({"v1": "v1", "v2": "v1", "v3": "v2"}, {}, {"v1": "n"}, "v3", False, 1),
    ),
    "defaultversionid": ((None, "PUT", {"name": "n", "meta": DVID1}), ({"v1": "v1"}, {}, {"v1": "n"}, "v1", False, 1)),
    "versionid and versions": (
        (None, "PUT", {"versionid": "v0", "name": "n", "versions": {"v1": made(2020), "v2": {}}}),
        ({"v1": "v1", "v0": "v1", "v2": "v0"}, {}, {"v0": "n"}, "v2", False, 1),
    ),
    "update with new versions and sticky default": (
        (V0, "PUT", {"name": "n", "meta": STICKY1, "versions": {"v1": made(2020), "v2": {}}}),
        ({"v1": "v1", "v0": "v1", "v2": "v0"}, {"v0": 2, "v1": 1, "v2": 1}, {"v0": "n"}, "v1", True, 2),
    ),
    "create with versions and sticky default": (
        (None, "PUT", {**V0, "name": "n", "meta": STICKY1, "versions": {"v1": made(2020), "v2": {}}}),
        ({"v1": "v1", "v0": "v1", "v2": "v0"}, {"v0": 1, "v1": 1, "v2": 1}, {"v0": "n"}, "v1", True, 1),
    ),
    "versionid and defaultversionid": (
        (None, "PUT", {"versionid": "v0", "name": "n", "meta": DVID1, "versions": {"v1": made(2020), "v2": {}}}),
        ({"v1": "v1", "v0": "v1", "v2": "v0"}, {}, {"v0": "n"}, "v2", False, 1),
    ),
    "sticky defaultversionid": (
        (None, "PUT", {"meta": STICKY1, "versions": {"v1": made(2020), "v2": {}}}),
        ({"v1": "v1", "v2": "v1"}, {}, {}, "v1", True, 1),
    ),
    "non-sticky bad defaultversionid": (
        (TWO_STICKY, "PUT", {"name": "n", "meta": {"defaultversionid": "abc"}, "versions": {"v2": made(2020)}}),
        ({"v2": "v2", "v1": "v2"}, {"v1": 2, "v2": 2}, {"v1": "n"}, "v1", False, 2),
    ),
    "sticky without defaultversionid": (
        (TWO, "PUT", {"name": "n", "meta": STICKY, "versions": {"v2": made(2020)}}),
        ({"v2": "v2", "v1": "v2"}, {"v1": 2, "v2": 2}, {}, "v1", True, 2),
    ),
    "patch sticky without defaultversionid": (
        (TWO, "PATCH", {"name": "n", "meta": STICKY, "versions": {"v2": made(2020)}}),
        ({"v2": "v2", "v1": "v2"}, {"v1": 2, "v2": 2}, {}, "v2", True, 2),
    ),
    "update with nothing": ((V1, "PUT", {}), ({"v1": "v1"}, {"v1": 2}, {}, "v1", False, 1)),
    "patch with nothing": ((V1, "PATCH", {}), ({"v1": "v1"}, {"v1": 2}, {"v1": "first"}, "v1", False, 1)),
    "update description": ((V1, "PUT", {"description": "d"}), ({"v1": "v1"}, {"v1": 2}, {}, "v1", False, 1)),
    "patch description": (
        (V1, "PATCH", {"description": "d"}),
        ({"v1": "v1"}, {"v1": 2}, {"v1": "first"}, "v1", False, 1),
    ),
    "update sticky": ((V1, "PUT", {"meta": STICKY}), ({"v1": "v1"}, {"v1": 2}, {}, "v1", True, 2)),
    "patch sticky": ((V1, "PATCH", {"meta": STICKY}), ({"v1": "v1"}, {"v1": 2}, {"v1": "first"}, "v1", True, 2)),
    "sticky default that is not the newest": (
        (V1, "PUT", {"name": "n", **made(1999), "meta": STICKY, "versions": {"v2": made(1998)}}),
        ({"v2": "v2", "v1": "v2"}, {"v1": 2, "v2": 1}, {"v1": "n"}, "v1", True, 2),
    ),
    "conflict, variant 1": (
        (None, "PUT", {"versionid": "v1", "name": "n", "meta": STICKY, "versions": {"v1": {"name": "abc"}, "v2": {}}}),
        ({"v1": "v1", "v2": "v1"}, {}, {"v1": "abc"}, "v2", True, 1),
    ),
    "conflict, variant 2": (
        (None, "PUT", {"meta": DVID1, **V1_V2}),
        ({"v1": "v1", "v2": "v1"}, {}, {}, "v2", False, 1),
    ),
    "conflict, variant 3": (
        (None, "PUT", {"versionid": "v1", **V1_V2}),
        ({"v1": "v1", "v2": "v1"}, {}, {}, "v2", False, 1),
    ),
}


@pytest.fixture
def files(make: Make) -> Registry:
    return make(hasdocument=False, versionmode="createdat")


@pytest.mark.parametrize(("sent", "expected"), SAMPLES.values(), ids=SAMPLES)
def test_sample(files: Registry, sent: tuple[Any, str, JSONObject], expected: tuple[Any, ...]) -> None:
    """Every write results in the expected ancestors, epochs and attributes (R216-R232)."""
    (before, method, body), (ancestors, epochs, names, *meta) = sent, expected
    if before is not None:
        files.put(F1, before)
    files.send(method, F1, body)
    versions, resource = files.versions(), files.row(F1)
    assert files.ancestors() == ancestors
    assert {versionid: row.epoch for versionid, row in versions.items()} == (epochs or dict.fromkeys(versions, 1))
    assert {vid: row.attributes["name"] for vid, row in versions.items() if "name" in row.attributes} == names
    assert [resource.defaultversionid, resource.defaultversionsticky, resource.epoch] == meta


def test_create_by_the_collection(files: Registry) -> None:
    result = files.post("/dirs/d1/files", {"f1": {"name": "my file"}})
    assert [str(xid) for xid in result.processed] == [F1]
    assert files.versions()["1"].attributes == {"name": "my file"}


def test_patch_of_meta_moves_the_default_alone(files: Registry) -> None:
    """R227, R231, R260."""
    files.put(F1, TWO)
    before = files.versions()
    files.patch(f"{F1}/meta", STICKY1)
    assert files.versions() == before
    assert (files.row(F1).defaultversionid, files.row(F1).epoch) == ("v1", 2)


@pytest.mark.parametrize(
    ("method", "meta"),
    [("PATCH", {"defaultversionid": "foo"}), ("PUT", {"defaultversionid": "foo", "defaultversionsticky": True})],
)
def test_unknown_default_version_is_rejected(files: Registry, method: str, meta: JSONObject) -> None:
    """An unknown default version is rejected (R230)."""
    files.put(F1, V1)
    error = files.refused(method, F1, {"meta": meta})
    assert (error.code, error.subject) == ("unknown_id", f"{F1}/meta")
    assert error.arguments == {"singular": "version", "id": "foo"}


@pytest.mark.parametrize(
    ("method", "path", "body"), [("PUT", F1, V1_V2), ("POST", f"{F1}/versions", V1_V2["versions"])]
)
def test_flag_chooses_the_default(files: Registry, method: str, path: str, body: JSONObject) -> None:
    """The flag setdefaultversionid makes a version the sticky default (R209)."""
    files.send(method, path, body, setdefaultversionid="v1")
    assert (files.row(F1).defaultversionid, files.row(F1).defaultversionsticky) == ("v1", True)


def test_times_not_given_are_one_instant(files: Registry) -> None:
    """R42; meta keeps its creation time through an update."""
    files.put(F1, V0)
    created = files.row(F1).createdat
    files.put(F1, {"meta": {}, **V1_V2})
    now = files.row(F1).modifiedat
    assert files.row(F1).createdat == created
    assert {format_timestamp(row.modifiedat) for row in files.versions().values()} == {format_timestamp(now)}
