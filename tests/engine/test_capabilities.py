"""Capabilities: what is offered, and every way to ask for something else."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from signalbook.engine import capabilities
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT

if TYPE_CHECKING:
    from tests.engine.conftest import Registry

NAMES = {
    "available",
    "compatibilities",
    "flags",
    "formats",
    "ignores",
    "pagination",
    "shortself",
    "specversions",
    "versionmodes",
}


def now(registry: Registry) -> JSONObject:
    with registry.engine.reading() as view:
        return view.capabilities


def test_all_on_at_first(registry: Registry) -> None:
    """R114, R116."""
    found = now(registry)
    assert set(found) == set(capabilities.offered()) == NAMES
    assert found["available"]["modelsource"] == {"mutable": True}
    assert set(found["ignores"]) == {
        "capabilities", "defaultversionid", "defaultversionsticky", "id", "epoch", "modelsource", "readonly",
    }  # fmt: skip


def test_put_resets_the_rest(registry: Registry) -> None:
    """R125, R114."""
    registry.configure(
        "capabilities",
        {"flags": ["INLINE", "doc"], "available": {"Capabilities": {"mutable": True}, "entities": {}, "model": {}}},
    )
    found = now(registry)
    assert found["flags"] == ["doc", "inline"]
    assert found["available"]["capabilities"] == {"mutable": True}
    assert (found["ignores"], found["formats"], found["versionmodes"]) == ([], [], ["manual"])


def test_patch_keeps_the_rest(registry: Registry) -> None:
    """R126, R127."""
    registry.configure("capabilities", {"flags": [], "formats": None}, "PATCH")
    registry.configure("capabilities", {"flags": ["*"]}, "PATCH")
    found = now(registry)
    assert (found["flags"], found["formats"]) == (list(capabilities.FLAGS), [])
    assert found["ignores"] == list(capabilities.IGNORES)


@pytest.mark.parametrize(
    ("given", "code", "arguments"),
    [
        ({"nope": 1}, "capability_unknown", {"field": "nope"}),
        ({"flags": ["*", "doc"]}, "capability_wildcard", {"field": "flags"}),
        ({"flags": ["nope"]}, "capability_value", {"field": "flags", "value": "nope"}),
        ({"flags": "doc"}, "capability_value", {"field": "flags"}),
        ({"pagination": True}, "capability_value", {"field": "pagination", "value": "True", "list": "false"}),
        ({"specversions": ["0.5"]}, "capability_value", {"field": "specversions"}),
        ({"specversions": []}, "capability_missing_value", {"name": "specversions", "value": "1.0-rc4"}),
        ({"versionmodes": ["semver"]}, "capability_missing_value", {"name": "versionmodes", "value": "manual"}),
        ({"available": {"entities": {}}}, "capability_missing_value", {"value": "capabilities"}),
        ({"available": {"x": {}}}, "capability_value", {"field": "available", "value": "x"}),
        ({"available": {"model": {"mutable": True}}}, "capability_value", {"field": "available.model.mutable"}),
        ({"available": {"model": 5}}, "capability_value", {"field": "available.model"}),
        ({"compatibilities": {"avro": ["backward"]}}, "capability_error", {}),
        ([], "capability_error", {}),
    ],
)
def test_refused(registry: Registry, given: JSON, code: str, arguments: JSONObject) -> None:
    """R118, R123, R124, R128."""
    before = now(registry)
    with pytest.raises(RegistryError) as caught:
        registry.configure("capabilities", given, "PATCH")
    assert (caught.value.code, caught.value.subject) == (code, "/capabilities")
    assert arguments.items() <= caught.value.arguments.items()
    assert now(registry) == before


def test_within_a_write_to_the_registry(registry: Registry) -> None:
    """R60, R125, R126, R205."""
    registry.patch("/", {"capabilities": {"flags": []}})
    assert (now(registry)["flags"], now(registry)["ignores"]) == ([], list(capabilities.IGNORES))
    registry.put("/", {"capabilities": {"nope": 1}}, ignore=frozenset({"capabilities"}))
    registry.put("/", {"capabilities": None})
    assert now(registry) == capabilities.everything()


@pytest.mark.parametrize("name", ["capabilities", "entities", "modelsource"])
def test_not_mutable(registry: Registry, name: str) -> None:
    """GAP 7."""
    available = {**now(registry)["available"], name: {"mutable": False}}
    registry.configure("capabilities", {"available": available}, "PATCH")
    act = partial(registry.put, "/dirs/d1", {}) if name == "entities" else partial(registry.configure, name, {})
    with pytest.raises(RegistryError) as caught:
        act()
    assert (caught.value.code, caught.value.subject) == ("not_available", name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], set(capabilities.IGNORES)),
        (["*"], set(capabilities.IGNORES)),
        ([""], set(capabilities.IGNORES)),
        (["Epoch", "id"], {"epoch", "id"}),
    ],
)
def test_ignore(given: list[str], expected: set[str]) -> None:
    """R204."""
    assert capabilities.resolve_ignore(capabilities.everything(), given, ROOT) == expected


def test_ignore_of_what_is_not_there() -> None:
    """R204."""
    with pytest.raises(RegistryError) as caught:
        capabilities.resolve_ignore({"ignores": ["id"]}, ["epoch"], ROOT)
    assert (caught.value.code, caught.value.arguments["value"]) == ("bad_ignore", "epoch")
