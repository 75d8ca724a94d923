import pytest
from tests.engine.conftest import Make, Registry

from signalbook.engine.write.apply import Change, ChangeAction, EventEntity, WriteResult, coalesce
from signalbook.values import JSON, JSONObject


def change(xid: str, action: str, *changed: str) -> Change:
    return Change(xid=xid, entity=EventEntity.GROUP, action=ChangeAction(action), changed=changed)


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        (change("/a/1", "updated", "x", "y"), change("/a/1", "updated", "y", "z"), ("updated", "x", "y", "z")),
        (change("/a/1", "created"), change("/a/1", "updated", "x"), ("created",)),
        (change("/a/1", "created"), change("/a/1", "deleted"), ("deleted",)),
        (change("/a/1", "deprecation", "x"), change("/a/1", "deprecation", "y"), ("deprecation", "x", "y")),
    ],
)
def test_one_subject(first: Change, other: Change, expected: tuple[str, ...]) -> None:
    """R297, R298."""
    assert coalesce([first, other]) == [change("/a/1", *expected)]


def test_different_subjects_and_kinds_stay() -> None:
    """A deprecation is reported in addition to the update (R297, R303)."""
    changes = [change("/a/1", "updated", "x"), change("/a/2", "updated", "x"), change("/a/1", "deprecation", "y")]
    assert coalesce(changes) == changes


D1 = "/dirs/d1"
F1 = f"{D1}/files/f1"
V1, V2 = f"{F1}/versions/v1", f"{F1}/versions/v2"


def told(result: WriteResult) -> dict[str, set[str]]:
    """Type and subject of each change with its names, the stamps every update brings left out."""
    stamps = {"epoch", "modifiedat", "meta.epoch", "meta.modifiedat"}
    return {f"{c.entity}.{c.action} {c.xid}": set(c.changed) - stamps for c in result.changes}


@pytest.fixture
def tree(registry: Registry) -> Registry:
    registry.put(F1, {"versions": {"v1": {"name": "one"}, "v2": {"description": "two"}}})
    return registry


def test_created(registry: Registry) -> None:
    """There is one event for each entity, and no update of a new one (R302, R304, R307)."""
    assert told(registry.put(F1, {"versionid": "v1"})) == {
        "registry.updated /": {"dirs", "dirscount"},
        f"group.created {D1}": set(),
        f"resource.created {F1}": set(),
        f"version.created {V1}": set(),
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PATCH", "/", {"name": "n"}, {"registry.updated /": {"name"}}),
        ("PATCH", D1, {"name": "n"}, {f"group.updated {D1}": {"name"}}),
        ("PUT", f"{D1}/files/f2", {"versionid": "x"}, {
            f"group.updated {D1}": {"files", "filescount"},
            f"resource.created {D1}/files/f2": set(),
            f"version.created {D1}/files/f2/versions/x": set(),
        }),
        ("PATCH", V1, {"labels": {}}, {f"version.updated {V1}": {"labels"}}),
        ("PATCH", V2, {"name": "n"}, {f"resource.updated {F1}": {"name"}, f"version.updated {V2}": {"name"}}),
        ("PATCH", F1, {"file": 1}, {
            f"resource.updated {F1}": {"file", "contenttype"},
            f"version.updated {V2}": {"file", "contenttype"},
        }),
        ("PATCH", f"{F1}/meta", {"labels": {"a": "b"}}, {f"resource.updated {F1}": {"meta.labels"}}),
        ("DELETE", V1, None, {
            f"resource.updated {F1}": {"versions", "versionscount", "ancestorid"},
            f"version.updated {V2}": {"ancestorid"},
            f"version.deleted {V1}": set(),
        }),
        ("DELETE", F1, None, {
            f"group.updated {D1}": {"files", "filescount"},
            f"resource.deleted {F1}": set(),
            f"version.deleted {V1}": set(),
            f"version.deleted {V2}": set(),
        }),
        ("DELETE", D1, None, {
            "registry.updated /": {"dirs", "dirscount"},
            f"group.deleted {D1}": set(),
            f"resource.deleted {F1}": set(),
            f"version.deleted {V1}": set(),
            f"version.deleted {V2}": set(),
        }),
        ("PATCH", D1, {"deprecated": {"alternative": "https://x.example"}}, {
            f"group.updated {D1}": {"deprecated"},
            f"group.deprecation {D1}": {"alternative"},
        }),
        ("PATCH", f"{F1}/meta", {"deprecated": {"x": 1}}, {
            f"resource.updated {F1}": {"meta.deprecated"},
            f"resource.deprecation {F1}": {"x"},
        }),
    ],
)  # fmt: skip
def test_changes(tree: Registry, method: str, path: str, body: JSON, expected: JSONObject) -> None:
    """Every write reports the expected changes (R300-R308)."""
    assert told(tree.send(method, path, body)) == expected


def test_created_and_pruned(make: Make) -> None:
    """Only the deletion is sent (R297, R306)."""
    registry = make(maxversions=2, versionmode="createdat")
    registry.put(F1, {"versionid": "v2"})
    old = {"createdat": "2020-01-01T00:00:00Z"}
    changes = told(registry.post(f"{F1}/versions", {"v0": old, "v1": old, "v3": {}}))
    assert {"versions", "versionscount"} <= changes.pop(f"resource.updated {F1}")
    assert changes == {
        f"version.created {F1}/versions/v3": set(),
        f"version.deleted {F1}/versions/v0": set(),
        f"version.deleted {V1}": set(),
    }
    changes = told(registry.put(f"{D1}/files/f2", {"versions": {"v0": old, "v1": old, "v3": {}}}))
    assert f"version.deleted {D1}/files/f2/versions/v0" in changes


def test_moved_default(tree: Registry) -> None:
    """All changes of the default Version are shown, but no Version is updated (R299, R306)."""
    result = tree.patch(f"{F1}/meta", {"defaultversionid": "v1"})
    (change,) = result.changes
    assert (change.xid, str(change.entity)) == (F1, "resource")
    names = {"meta.defaultversionid", "meta.defaultversionsticky", "name", "description", "versionid"}
    assert names <= set(change.changed)
    assert len(change.changed) == len(set(change.changed))


def test_new_default(tree: Registry) -> None:
    """A new default version changes the attributes of its resource (R305)."""
    changes = told(tree.post(F1, {"versionid": "v3"}))
    assert {"versions", "versionscount", "meta.defaultversionid", "description"} <= changes[f"resource.updated {F1}"]
    assert set(changes) == {f"resource.updated {F1}", f"version.created {F1}/versions/v3"}


def test_configuration(tree: Registry) -> None:
    """R301, R39."""
    expected = {"capabilities.updated /capabilities": {"flags"}, "registry.updated /": {"capabilities"}}
    assert told(tree.configure("capabilities", {"flags": []}, "PATCH")) == expected
    files = {"files": {"singular": "file", "attributes": {"*": {"type": "any"}}}}
    groups = {"dirs": {"singular": "dir", "resources": files, "description": "d"}}
    changes = told(tree.configure("modelsource", {"groups": groups}))
    assert set(changes) == {"modelsource.updated /modelsource", "model.updated /model", "registry.updated /"}
    assert changes["registry.updated /"] == {"modelsource", "model"}


@pytest.mark.parametrize(
    ("path", "cascaded"),
    [(V1, {V1: False}), (F1, {F1: False, V1: True, V2: True}), (D1, {D1: False, F1: True, V1: True, V2: True})],
)
def test_deletions_of_descendants_are_marked_as_cascaded(tree: Registry, path: str, cascaded: dict[str, bool]) -> None:
    """The mark depends on what was requested to be deleted (D-19)."""
    changes = tree.delete(path).changes
    gone = {change.xid: change.cascaded for change in changes if change.action is ChangeAction.DELETED}
    assert gone == cascaded
    assert {change.xid: change.cascaded for change in tree.outbox() if change.xid in gone} == cascaded


def test_outbox(tree: Registry) -> None:
    """The outbox contains the reported changes of a session under one correlation id (R296)."""
    before = len(tree.outbox())
    with tree.engine.writing():
        pass
    assert len(tree.outbox()) == before
    result = tree.patch(D1, {"name": "n"})
    assert tuple(tree.outbox()[before:]) == result.changes
    assert Change.from_json(result.changes[0].to_json()) == result.changes[0]
