"""A new model changes what is stored: defaults it brings, the order of Versions it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from signalbook.values import JSONObject

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

F1 = "/dirs/d1/files/f1"
COLOUR: JSONObject = {"colour": {"type": "string", "required": True, "default": "red"}}


def model(group: JSONObject | None = None, registry: JSONObject | None = None, **resource: Any) -> JSONObject:
    dirs = {"singular": "dir", "resources": {"files": {"singular": "file", **resource}}, **(group or {})}
    return {"attributes": registry or {}, "groups": {"dirs": dirs}}


def test_a_new_default_is_there_at_once(registry: Registry) -> None:
    """R72, R84, R85: and a later one leaves it alone."""
    registry.configure("modelsource", model())
    registry.put(F1, {"versions": {"v1": {}, "v2": {}}})
    for default in ("red", "blue"):
        rules = {"colour": {**COLOUR["colour"], "default": default}}
        source = model({"attributes": rules}, rules, attributes=rules, metaattributes=rules)
        registry.configure("modelsource", source)
        for path in ("/", "/dirs/d1", F1, f"{F1}/versions/v1", f"{F1}/versions/v2"):
            assert registry.row(path).attributes["colour"] == "red"
    assert [registry.row(path).epoch for path in ("/dirs/d1", F1, f"{F1}/versions/v1")] == [2, 2, 2]


def test_defaults_inside_objects(registry: Registry) -> None:
    """R85: only where the owning object is present"""
    registry.configure("modelsource", model(attributes={"box": {"type": "object", "attributes": {}}}))
    registry.put(F1, {"box": {}})
    registry.put("/dirs/d1/files/f2", {})
    registry.configure("modelsource", model(attributes={"box": {"type": "object", "attributes": COLOUR}}))
    assert registry.row(f"{F1}/versions/1").attributes["box"] == {"colour": "red"}
    assert "box" not in registry.row("/dirs/d1/files/f2/versions/1").attributes


@pytest.mark.parametrize(
    ("mode", "ancestors", "default"),
    [
        ("createdat", {"v2": "v2", "v1": "v2", "v10": "v1"}, "v10"),
        ("semver", {"v1": "v1", "v2": "v1", "v10": "v2"}, "v10"),
        ("manual", {"v1": "v1", "v2": "v1", "v10": "v1"}, "v10"),
    ],
)
def test_another_versionmode(registry: Registry, mode: str, ancestors: JSONObject, default: str) -> None:
    """R97, R225, R236 to R238, R242."""
    registry.configure("modelsource", model())
    versions = {
        "v1": {"ancestorid": "v1", "createdat": "2021-01-01T00:00:00Z"},
        "v2": {"ancestorid": "v1", "createdat": "2020-01-01T00:00:00Z"},
        "v10": {"ancestorid": "v1", "createdat": "2022-01-01T00:00:00Z"},
    }
    registry.put(F1, {"versions": versions})
    registry.configure("modelsource", model(versionmode=mode))
    assert registry.ancestors() == ancestors
    assert registry.row(F1).defaultversionid == default


def test_what_moved_is_told(registry: Registry) -> None:
    """R241, R297, R300: one change per subject, and none for what stayed"""
    registry.configure("modelsource", model())
    created = {"v1": "2021-01-01T00:00:00Z", "v2": "2020-01-01T00:00:00Z"}
    registry.put(F1, {"versions": {name: {"createdat": stamp} for name, stamp in created.items()}})
    before = len(registry.outbox())
    registry.put("/", {"name": "x", "modelsource": model(versionmode="createdat"), "dirs": {"d1": {"files": {}}}})
    told = {change.xid: change.changed for change in registry.outbox()[before:]}
    assert len(told) == len(registry.outbox()) - before
    assert set(told) == {"/", "/model", "/modelsource", "/dirs/d1", F1, f"{F1}/versions/v1", f"{F1}/versions/v2"}
    assert "ancestorid" in told[f"{F1}/versions/v1"]
    assert "meta.defaultversionid" in told[F1]


def test_a_pinned_sticky_default(registry: Registry) -> None:
    """R70, R232: a value the model no longer allows is a fault, not something to change"""
    registry.configure("modelsource", model())
    registry.put(F1, {"meta": {"defaultversionsticky": True}})
    pinned = {"defaultversionsticky": {"type": "boolean", "required": True, "default": False, "enum": [False]}}
    with pytest.raises(Exception, match="model") as caught:
        registry.configure("modelsource", model(metaattributes=pinned))
    assert "defaultversionsticky" in str(caught.value.__dict__)
