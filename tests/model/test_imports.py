"""ximportresources."""

from __future__ import annotations

import pytest

from signalbook.errors import RegistryError
from signalbook.model import compile_model
from signalbook.values import JSON, JSONObject


def source(**imports: JSON) -> JSONObject:
    groups: JSONObject = {
        "dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}},
        "boxes": {"singular": "box"},
        "racks": {"singular": "rack"},
    }
    for plural, references in imports.items():
        groups[plural]["ximportresources"] = references
    return {"groups": groups}


def test_imported_type_is_the_same_type() -> None:
    """R111, R262: expanded in the full model, where the key does not appear; the same object when compiled."""
    model = compile_model(source(boxes=["/dirs/files"], racks=["/boxes/files"]))
    full = model.full()["groups"]
    assert "ximportresources" not in full["racks"]
    assert full["racks"]["resources"] == full["dirs"]["resources"]
    assert {"filesurl", "filescount", "files"} <= full["racks"]["attributes"].keys()
    imported = model.resource_type("/racks/files")
    assert imported is model.resource_type("/dirs/files")
    assert imported is not None
    assert imported.origin == "/dirs/files"


def test_types_stay_in_the_order_of_the_model() -> None:
    """Whatever the process: replicas answer with the same bytes, and tag them alike."""
    names = [f"{letter}s" for letter in "qwertyuiopasdfghjklzcvbnm"]
    model = compile_model(
        {"groups": {"dirs": {"singular": "dir", "resources": {n: {"singular": n[0]} for n in names}}}}
    )
    assert list(model.groups["dirs"].resources) == names


def test_long_chains_of_imports() -> None:
    """R111."""
    groups: JSONObject = {
        f"g{number}": {"singular": f"s{number}", "ximportresources": [f"/g{number + 1}/files"]}
        for number in range(1500)
    }
    groups["g1500"] = {"singular": "s1500", "resources": {"files": {"singular": "file"}}}
    model = compile_model({"groups": groups})
    assert model.resource_type("/g0/files") is model.resource_type("/g1500/files")


def test_one_of_several_imports_is_followed() -> None:
    """R111."""
    model = source(boxes=["/dirs/files"], racks=["/boxes/files"])
    model["groups"]["dirs"]["resources"]["lids"] = {"singular": "lid"}
    model["groups"]["boxes"]["ximportresources"] = ["/dirs/lids", "/dirs/files"]
    assert compile_model(model).types.origin("racks", "files") == "/dirs/files"


@pytest.mark.parametrize("references", [[], None])
def test_nothing_to_import(references: JSON) -> None:
    """R111."""
    assert compile_model(source(boxes=references)).groups["boxes"].resources == {}


@pytest.mark.parametrize(
    ("imports", "message"),
    [
        ({"boxes": ["/boxes/files"]}, "cannot import from itself"),
        ({"boxes": ["/none/files"]}, "leads to no Resource type"),
        ({"boxes": ["/dirs/none"]}, "leads to no Resource type"),
        ({"boxes": ["/racks/files"], "racks": ["/boxes/files"]}, "round in a circle"),
        ({"boxes": ["dirs/files"]}, "form /GROUPS/RESOURCES"),
        ({"boxes": ["/dirs"]}, "form /GROUPS/RESOURCES"),
        ({"boxes": [5]}, "form /GROUPS/RESOURCES"),
        ({"boxes": "/dirs/files"}, "must be an array"),
        ({"boxes": ["/dirs/files", "/dirs/files"]}, "already"),
    ],
)
def test_bad_imports(imports: JSONObject, message: str) -> None:
    """R111."""
    with pytest.raises(RegistryError, match=message) as caught:
        compile_model(source(**imports))
    assert caught.value.code == "model_error"


def test_imported_names_stay_unique() -> None:
    """R90, R111: the singular of a local type must not be that of an imported one."""
    model = source(boxes=["/dirs/files"])
    model["groups"]["boxes"]["resources"] = {"papers": {"singular": "file"}}
    with pytest.raises(RegistryError, match='the name "file" is taken'):
        compile_model(model)


def test_ways_to_share_a_definition_are_alike() -> None:
    """R71: import, include and copy give the same model."""
    imported, included, copied = source(boxes=["/dirs/files"]), source(), source()
    included["groups"]["boxes"]["resources"] = {"files": {"$include": "#/groups/dirs/resources/files"}}
    copied["groups"]["boxes"]["resources"] = {"files": {"singular": "file"}}
    assert len({compile_model(model).fingerprint for model in (imported, included, copied)}) == 1
