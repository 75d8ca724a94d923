import pytest
from tests.engine.conftest import Registry

from signalbook.engine import capabilities
from signalbook.errors import RegistryError
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT

NAMES = {
    *("available", "compatibilities", "flags", "formats", "ignores", "pagination", "shortself", "specversions"),
    "versionmodes",
}


def now(registry: Registry) -> JSONObject:
    with registry.engine.reading() as view:
        return view.capabilities


def test_all_capabilities_are_enabled_initially(registry: Registry) -> None:
    """R114, R116."""
    capabilities_now = now(registry)
    assert set(capabilities_now) == set(capabilities.list_offered()) == NAMES
    assert capabilities_now["available"]["modelsource"] == {"mutable": True}
    assert set(capabilities_now["ignores"]) == {
        "capabilities", "defaultversionid", "defaultversionsticky", "id", "epoch", "modelsource", "readonly",
    }  # fmt: skip


def test_put_resets_the_rest(registry: Registry) -> None:
    """R125, R114."""
    available = {"Capabilities": {"mutable": True}, "entities": {}, "model": {}}
    registry.configure("capabilities", {"flags": ["INLINE", "doc"], "available": available})
    capabilities_now = now(registry)
    assert capabilities_now["flags"] == ["doc", "inline"]
    assert capabilities_now["available"]["capabilities"] == {"mutable": True}
    assert capabilities_now["ignores"] == capabilities_now["formats"] == []
    assert capabilities_now["versionmodes"] == ["manual"]


def test_patch_keeps_the_rest(registry: Registry) -> None:
    """R126, R127."""
    registry.configure("capabilities", {"flags": [], "formats": None}, "PATCH")
    registry.configure("capabilities", {"flags": ["*"]}, "PATCH")
    capabilities_now = now(registry)
    assert (capabilities_now["flags"], capabilities_now["formats"]) == (list(capabilities.FLAGS), [])
    assert capabilities_now["ignores"] == list(capabilities.IGNORES)


@pytest.mark.parametrize(
    ("body", "code", "arguments"),
    [
        ({"nope": 1}, "capability_unknown", {"field": "nope"}),
        ({"flags": ["*", "doc"]}, "capability_wildcard", {"field": "flags"}),
        ({"flags": ["nope"]}, "capability_value", {"field": "flags", "value": "nope"}),
        ({"flags": "doc"}, "capability_value", {"field": "flags"}),
        ({"pagination": 1}, "capability_value", {"field": "pagination", "value": "1", "list": "false, true"}),
        ({"shortself": "on"}, "capability_value", {"field": "shortself", "value": "on", "list": "false, true"}),
        ({"specversions": ["0.5"]}, "capability_value", {"field": "specversions"}),
        ({"specversions": []}, "capability_missing_value", {"name": "specversions", "value": "1.0-rc4"}),
        ({"versionmodes": ["semver"]}, "capability_missing_value", {"name": "versionmodes", "value": "manual"}),
        ({"available": {"entities": {}}}, "capability_missing_value", {"value": "capabilities"}),
        ({"available": {"x": {}}}, "capability_value", {"field": "available", "value": "x"}),
        ({"available": {"model": {"mutable": True}}}, "capability_value", {"field": "available.model.mutable"}),
        ({"available": {"model": 5}}, "capability_value", {"field": "available.model"}),
        ({"compatibilities": {"avro": ["backward"]}}, "capability_error", {}),
        ({"compatibilities": {"Nope/1.0": ["backward"], "Avro/*": ["full"]}}, "capability_error", {}),
        ({"compatibilities": {"avro*": ["*", "full"]}}, "capability_wildcard", {"field": "compatibilities.avro*"}),
        ({"compatibilities": {"avro*": ["sideways"]}}, "capability_value", {"field": "compatibilities.avro*"}),
        ({"compatibilities": {"avro*": "full"}}, "capability_value", {"field": "compatibilities.avro*"}),
        ({"compatibilities": {"avro*": ["full"], "AVRO*": ["full"]}}, "capability_error", {}),
        ({"compatibilities": []}, "capability_value", {"field": "compatibilities"}),
        ([], "capability_error", {}),
    ],
)
def test_refused(registry: Registry, body: JSON, code: str, arguments: JSONObject) -> None:
    """R118, R123, R124, R128."""
    before = now(registry)
    error = registry.refused_configuration("capabilities", body, "PATCH")
    assert (error.code, error.subject) == (code, "/capabilities")
    assert arguments.items() <= error.arguments.items()
    assert now(registry) == before


@pytest.mark.parametrize(
    ("rules", "format", "rule", "expected"),
    [
        ({"avro/1.11": ["FULL"]}, "Avro/1.11", "full", True),
        ({"avro/1.11": ["full"]}, "avro/1.11", "Full", True),
        ({"avro/1.11": ["full"]}, "Avro/1.12.0", "full", False),
        ({"AVRO/1.1*": ["full"]}, "Avro/1.12.0", "full", True),
        ({"*": ["*"]}, "Avro/1.12.0", "forward_transitive", True),
        ({"*": ["full"]}, "Avro/1.12.0", "forward", False),
        ({"*": ["*"]}, "Nope/1", "full", False),
        ({"*[!x]?": ["*"], "Avro/*": []}, "Avro/1.12.0", "full", None),
    ],
)
def test_compatibilities(registry: Registry, rules: JSONObject, format: str, rule: str, expected: bool | None) -> None:
    """Formats and rules are accepted in any case, with a wildcard for any part of a name (G-25, R118)."""
    if expected is None:
        registry.refused_configuration("capabilities", {"compatibilities": rules}, "PATCH")
        return
    registry.configure("capabilities", {"compatibilities": rules}, "PATCH")
    assert capabilities.can_compare(now(registry), format, rule) is expected


@pytest.mark.parametrize(
    ("listed", "format", "expected"),
    [
        (["Avro/*"], "Avro/1.11.3", True),
        (["Avro/*"], "avro", True),
        (["Avro/1.11"], "Avro/1.11.3", True),
        (["Avro/1.11"], "Avro/1.1.3", False),
        (["Avro/1.11"], "Avro/1.110", False),
        (["Avro/1.11.0"], "Avro/1.11", False),
        (["JsonSchema/draft/2019-09"], "jsonschema/draft-2019-09", True),
        (["JsonSchema/draft-07"], "JsonSchema", True),
        (["JsonSchema/draft-07"], "Avro", False),
        (["*"], "Nope/1", True),
        ([], "Avro/1.11", False),
    ],
)
def test_offered_formats(listed: list[str], format: str, expected: bool) -> None:
    """The list may have wildcards, other spellings, and the patch releases of a release (R120)."""
    assert capabilities.is_offered(listed, format) is expected


@pytest.mark.parametrize(
    "format",
    [
        *("Avro/1.9.0", "Avro/1.9.2", "Avro/1.10.2", "Avro/1.11.1", "Avro/1.11.3", "Avro/1.12.1", "Avro/1.13"),
        *("JsonStructure/draft-02", "JsonStructure/draft-03"),
    ],
)
def test_all_supported_releases_are_offered(format: str) -> None:
    everything = capabilities.list_initial()
    assert capabilities.is_offered(everything["formats"], format)
    assert capabilities.can_compare(everything, format, "backward")


def test_unlisted_release_can_be_chosen(registry: Registry) -> None:
    """A single release can be chosen for formats and for rules (R118, R120)."""
    rules = {"Avro/1.11.3": ["full"]}
    registry.configure("capabilities", {"formats": ["avro/1.11.3"], "compatibilities": rules}, "PATCH")
    assert (now(registry)["formats"], now(registry)["compatibilities"]) == (["Avro/1.11.3"], rules)
    registry.configure("capabilities", {"formats": ["Avro/*"]}, "PATCH")
    assert now(registry)["compatibilities"] == rules
    registry.refused_configuration("capabilities", {"formats": ["Avro/next"]}, "PATCH")


def test_formats_without_a_version(registry: Registry) -> None:
    """The name ``Avro/*`` also covers a format without a version (R118)."""
    assert capabilities.can_compare(now(registry), "avro", "backward")
    registry.configure("capabilities", {"compatibilities": {"Avro/1.11": ["full"]}}, "PATCH")
    assert not capabilities.can_compare(now(registry), "avro", "backward")


def test_compatibilities_follow_formats(registry: Registry) -> None:
    """Each key is one of the formats in force (R118, R130)."""
    keys = capabilities.list_offered()["compatibilities"]
    assert keys["type"] == "object"
    assert "backward_transitive" in keys["attributes"]["Avro/*"]["enum"]
    assert "Avro/*" in now(registry)["compatibilities"]
    registry.configure("capabilities", {"formats": ["Protobuf/3"]}, "PATCH")
    assert "Avro/*" not in now(registry)["compatibilities"]


def test_within_a_write_to_the_registry(registry: Registry) -> None:
    """R60, R125, R126, R205."""
    registry.patch("/", {"capabilities": {"flags": []}})
    assert (now(registry)["flags"], now(registry)["ignores"]) == ([], list(capabilities.IGNORES))
    registry.put("/", {"capabilities": {"nope": 1}}, ignore=frozenset({"capabilities"}))
    registry.put("/", {"capabilities": None})
    assert now(registry) == capabilities.list_initial()


@pytest.mark.parametrize("name", ["capabilities", "entities", "modelsource"])
def test_immutable_part_is_not_changed(registry: Registry, name: str) -> None:
    """GAP 7."""
    available = {**now(registry)["available"], name: {"mutable": False}}
    registry.configure("capabilities", {"available": available}, "PATCH")
    is_entity = name == "entities"
    error = registry.refused("PUT", "/dirs/d1", {}) if is_entity else registry.refused_configuration(name, {})
    assert (error.code, error.subject) == ("not_available", name)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], set(capabilities.IGNORES)),
        (["*"], set(capabilities.IGNORES)),
        ([""], set(capabilities.IGNORES)),
        (["Epoch", "id"], {"epoch", "id"}),
    ],
)
def test_ignore(values: list[str], expected: set[str]) -> None:
    """The flag is resolved to the supported values (R204)."""
    assert capabilities.resolve_ignore(capabilities.list_initial(), values, ROOT) == expected


def test_ignoring_an_unsupported_value_is_an_error() -> None:
    """A value that the capabilities omit is rejected (R204)."""
    with pytest.raises(RegistryError) as caught:
        capabilities.resolve_ignore({"ignores": ["id"]}, ["epoch"], ROOT)
    assert (caught.value.code, caught.value.arguments["value"]) == ("bad_ignore", "epoch")
