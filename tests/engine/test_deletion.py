"""DELETE of entities and collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from signalbook.values import JSON

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

FILES = "/dirs/d1/files"
F1 = f"{FILES}/f1"


@pytest.fixture
def tree(registry: Registry) -> Registry:
    versions: JSON = {"versions": {"v1": {}, "v2": {}}}
    registry.post("/", {"dirs": {"d1": {"files": {"f1": versions, "f2": {}}}, "d2": {"files": {"f1": {}}}}})
    return registry


@pytest.mark.parametrize("path", ["/dirs/x", f"{FILES}/x", f"{F1}/versions/x", "/dirs/x/files/f1", "/dirs/D1"])
def test_nothing_there(tree: Registry, path: str) -> None:
    """R171, R26."""
    error = tree.refused("DELETE", path)
    assert (error.code, error.subject) == ("not_found", path)


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/dirs/d1", ["/", "/dirs/d2", "/dirs/d2/files/f1", "/dirs/d2/files/f1/versions/1"]),
        (F1, ["/", "/dirs/d1", "/dirs/d2", "/dirs/d1/files/f2", "/dirs/d2/files/f1"]),
    ],
)
def test_everything_beneath_goes_too(tree: Registry, path: str, left: list[str]) -> None:
    """R172."""
    tree.delete(path)
    assert [str(row.xid) for row in tree.everything()][: len(left)] == left
    assert tree.find(path) is None
    assert tree.find(f"{F1}/versions/v1") is None


def test_last_version_takes_its_resource_along(tree: Registry) -> None:
    """R173."""
    tree.delete(f"{F1}/versions/v1")
    assert tree.find(F1) is not None
    epoch = tree.row("/dirs/d1").epoch
    tree.delete(f"{F1}/versions/v2")
    assert tree.find(F1) is None
    assert tree.row("/dirs/d1").epoch == epoch + 1


@pytest.mark.parametrize(
    ("path", "body", "gone"),
    [
        (FILES, None, {"f1", "f2"}),
        (FILES, {}, set()),
        (FILES, {"f2": {}, "nope": {}}, {"f2"}),
        (FILES, {"f2": {"fileid": "f2", "name": [], "meta": {"epoch": 1, "x": []}}}, {"f2"}),
        (FILES, {"f2": {"epoch": 99, "meta": {"epoch": 1}}}, {"f2"}),
        (f"{F1}/versions", None, {"f1"}),
        (f"{F1}/versions", {"v1": {}, "v2": {"epoch": 1}}, {"f1"}),
        (f"{F1}/versions", {}, set()),
    ],
)
def test_collections(tree: Registry, path: str, body: JSON, gone: set[str]) -> None:
    """R169, R170, trap 21."""
    tree.delete(path, body)
    assert {name for name in ("f1", "f2") if tree.find(f"{FILES}/{name}") is None} == gone


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (FILES, {"f1": {}, "f2": {"fileid": "f1"}}, "mismatched_id"),
        (FILES, {"f1": {}, "f2": {"epoch": 1}}, "misplaced_epoch"),
        (FILES, {"f1": {}, "f2": {"meta": {"epoch": 2}}}, "mismatched_epoch"),
        ("/dirs", {"d2": {"epoch": 2}}, "mismatched_epoch"),
        (f"{F1}/versions", {"v1": {"epoch": 2}}, "mismatched_epoch"),
        (f"{F1}/versions", {"v1": {"versionid": "v2"}}, "mismatched_id"),
        (FILES, [], "bad_request"),
        (FILES, {"f1": None}, "bad_request"),
    ],
)
def test_refused(tree: Registry, path: str, body: JSON, code: str) -> None:
    """R169, R170."""
    assert tree.refused("DELETE", path, body).code == code


@pytest.mark.parametrize("path", ["/dirs/d2", F1, f"{F1}/versions/v1"])
def test_epoch_flag(tree: Registry, path: str) -> None:
    """R171, R179, R205."""
    assert tree.refused("DELETE", path, epoch=5).code == "mismatched_epoch"
    tree.delete(path, epoch=5, ignore=frozenset({"epoch"}))
    assert tree.find(path) is None


@pytest.mark.parametrize("path", ["/dirs/d1", F1])
def test_promised_to_stay(tree: Registry, path: str) -> None:
    """R46, GAP 28."""
    deprecated = {"deprecated": {"removal": "9999-01-01T00:00:00Z"}}
    tree.patch(path, deprecated if path == "/dirs/d1" else {"meta": deprecated})
    error = tree.refused("DELETE", path)
    assert error.code == "bad_request"
    assert "9999" in error.title
    tree.patch(path, {"deprecated": None} if path == "/dirs/d1" else {"meta": {"deprecated": None}})
    tree.delete(path)


@pytest.mark.parametrize("path", ["/dirs", "/dirs/d1", f"{F1}/versions"])
def test_promised_to_stay_however_it_would_go(tree: Registry, path: str) -> None:
    """R46, R172, R173: with what is above it, and with its last Version."""
    tree.patch(f"{F1}/meta", {"deprecated": {"removal": "9999-01-01T00:00:00Z"}})
    error = tree.refused("DELETE", path)
    assert (error.code, error.subject) == ("bad_request", F1)
    assert tree.find(F1) is not None


def test_owners_change_once(tree: Registry) -> None:
    """R37."""
    before = tree.row("/dirs/d1").epoch
    tree.delete(FILES)
    assert tree.row("/dirs/d1").epoch == before + 1
    tree.delete(FILES)
    assert tree.row("/dirs/d1").epoch == before + 1


def test_id_can_be_taken_again(tree: Registry) -> None:
    tree.delete(F1)
    tree.put(F1, {})
    assert list(tree.versions()) == ["1"]
