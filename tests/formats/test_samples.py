"""Schema documents of xRegistry's own scenario documents, and of ours, are all in order, and so are their shapes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from signalbook.formats import Anything, find
from signalbook.formats.compatibility import SchemaText, find_comparison
from signalbook.values import dump_json, parse_json

SCENARIOS = [
    "contoso-erp-jsons07", "inkjet-proto3", "lightbulb-avro", "mqtt-sparkplugB", "vacuumcleaner-avro",
    "watchkam-jsons07", "waterboiler-mqtt5-jsons07", "windgenerator-kafka-avro", "smartoven-xsd",
    "workshop", "workshop-xsd",
]  # fmt: skip


def versions(path: Path) -> Iterator[tuple[str, str, bytes]]:
    for group in parse_json(path.read_bytes())["schemagroups"].values():
        for name, schema in group["schemas"].items():
            for version in schema["versions"].values():
                document = version.get("schema")
                if document is not None:
                    text = document.encode() if isinstance(document, str) else dump_json(document)
                    yield name, version["format"], text


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_schemas_are_valid(sample_file: Callable[[str], Path], scenario: str) -> None:
    """G-13, G-19."""
    for name, format_name, document in versions(sample_file(f"{scenario}.xreg.json")):
        reader = find(format_name)
        assert reader is not None
        assert reader.check(document, format_name) == [], name


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_schemas_read_themselves(sample_file: Callable[[str], Path], scenario: str) -> None:
    """An unchanged schema has no differences (G-30)."""
    for name, format_name, document in versions(sample_file(f"{scenario}.xreg.json")):
        comparer, text = find_comparison(format_name), SchemaText(document=document, format=format_name)
        assert comparer is not None
        assert comparer.differences(text, SchemaText(document=document + b"\n", format=format_name)) == [], name


@pytest.mark.parametrize(
    "scenario",
    ["lightbulb-avro", "inkjet-proto3", "waterboiler-mqtt5-jsons07", "smartoven-xsd", "workshop", "workshop-xsd"],
)
def test_scenario_schemas_have_columns(sample_file: Callable[[str], Path], scenario: str) -> None:
    for _, format_name, document in versions(sample_file(f"{scenario}.xreg.json")):
        reader = find(format_name)
        assert reader is not None
        assert not isinstance(reader.parse(document, format_name).shape(), Anything)


@pytest.mark.others("links into Sparkplug's schemas", ours="test_deep_links_distinguish_states")
def test_deep_links_distinguish_sparkplug_states(shared_data: Path) -> None:
    """The links of the sample have no leading slash (G-15, K-30)."""
    _, format_name, document = next(versions(shared_data / "xregistry-samples" / "mqtt-sparkplugB.xreg.json"))
    reader = find(format_name)
    assert reader is not None
    birth = reader.parse(document, format_name, link="messages/STATEBirth")
    death = reader.parse(document, format_name, link=":messages/STATEDeath")
    assert birth.constants()["online"] == frozenset({True})
    assert death.constants()["online"] == frozenset({False})


def test_deep_links_distinguish_states() -> None:
    """The schema is our own (G-15, K-30)."""
    constants = {"up": {"const": True}, "down": {"const": False}}
    state = {n: {"type": "object", "required": ["on"], "properties": {"on": on}} for n, on in constants.items()}
    document = dump_json({"$schema": "http://json-schema.org/draft-07/schema#", "messages": state})
    reader = find("JsonSchema/draft-07")
    assert reader is not None
    for name, link in (("up", "messages/up"), ("down", ":messages/down")):
        assert reader.parse(document, "JsonSchema/draft-07", link=link).constants()["on"] == frozenset({name == "up"})
