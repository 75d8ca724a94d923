"""Real definitions: every sample document of the specification, and one of the 2023 form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from signalbook.messages import Accepted, Contract, Message, Rejected, SchemaDocument
from signalbook.messages.definitions.lint import lint
from signalbook.messages.definitions.normalise import materialise, normalise
from signalbook.values import JSONObject, dump_json, parse_json

SAMPLES = (
    "contoso-erp-jsons07", "inkjet-proto3", "lightbulb-avro", "mqtt-sparkplugB", "smartoven-xsd", "vacuumcleaner-avro",
    "watchkam-jsons07", "waterboiler-mqtt5-jsons07", "windgenerator-kafka-avro", "workshop", "workshop-xsd",
)  # fmt: skip


def load(path: Path) -> JSONObject:
    document: JSONObject = parse_json(path.read_bytes())
    return document


def members(document: JSONObject, groups: str, resources: str) -> Iterator[tuple[str, JSONObject]]:
    for group_id, group in document.get(groups, {}).items():
        for name, resource in group.get(resources, {}).items():
            yield f"/{groups}/{group_id}/{resources}/{name}", resource


def messages(document: JSONObject) -> dict[str, JSONObject]:
    return dict([*members(document, "messagegroups", "messages"), *members(document, "endpoints", "messages")])


def schemas(document: JSONObject) -> dict[str, SchemaDocument]:
    found: dict[str, SchemaDocument] = {}
    for xid, resource in members(document, "schemagroups", "schemas"):
        for name, version in resource.get("versions", {}).items():
            text = version.get("schema")
            content = text.encode() if isinstance(text, str) else dump_json(text)
            stated = version.get("format") or resource.get("format") or ""
            parsed = SchemaDocument(content=content, format=stated, xid=f"{xid}/versions/{name}")
            found[xid] = found[parsed.xid] = parsed
    return found


def contract(document: JSONObject) -> Contract:
    return Contract.compile(messages(document), schemas(document).get)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_compiles_without_error(sample_file: Callable[[str], Path], name: str) -> None:
    """I-7, K-11 to K-14"""
    document = load(sample_file(f"{name}.xreg.json"))
    for raw in messages(document).values():
        definition, doubts = normalise(raw)
        assert normalise(definition) == (definition, [])
        found = [*doubts, *lint(materialise(raw, messages(document).get).definition)]
        assert [finding for finding in found if finding.severity == "error"] == []
    compiled = contract(document)
    assert compiled.broken == {}
    assert len(compiled.definitions) == len(messages(document)) > 0


@pytest.mark.parametrize("name", SAMPLES)
def test_every_schema_reference_of_the_samples_leads_somewhere(sample_file: Callable[[str], Path], name: str) -> None:
    """G-15: Sparkplug's ``...:Payload`` and ``...:messages/STATEDeath`` too"""
    compiled = contract(load(sample_file(f"{name}.xreg.json")))
    for definition in compiled.definitions.values():
        uri = definition.definition.get("dataschemauri")
        assert uri is None or definition.schema_use.reason != "schema_not_found", uri


def event(type: str, source: str, **more: Any) -> Message:
    members = {"specversion": "1.0", "id": "1", "type": type, "source": source, "time": "2026-01-01T00:00:00Z", **more}
    return Message(content_type="application/cloudevents+json", body=dump_json(members))


SEEN = {
    "tenantid": "t1",
    "deviceid": "d1",
    "motionid": "m",
    "location": "l",
    "time": 5,
    "imageUrl": "u",
    "motionType": "x",
}


@pytest.mark.others("events of xRegistry's sample Watchkam", ours="test_events_of_our_own")
@pytest.mark.parametrize(
    ("source", "data", "expected"),
    [
        ("t1/d1", SEEN, None),
        ("t1/d1/x", SEEN, "metadata_violation"),
        ("t1/d1", {**SEEN, "time": "now"}, "schema_violation"),
    ],
)
def test_events_of_a_sample(sample_file: Callable[[str], Path], source: str, data: Any, expected: str | None) -> None:
    """K-26, K-38: events of Watchkam from a file are held to their envelope; Kafka headers did not come along."""
    compiled = contract(load(sample_file("watchkam-jsons07.xreg.json")))
    (outcome,) = compiled.process(event("Fabrikam.Watchkam.MotionDetected", source, data=data))
    if expected is None:
        assert isinstance(outcome, Accepted)
        assert outcome.context == {"tenantid": "t1", "deviceid": "d1"}
    else:
        assert isinstance(outcome, Rejected)
        assert outcome.reason == expected


@pytest.mark.others("xRegistry's sample of the 2023 form", ours="test_our_own_document_in_the_2023_form_is_read")
def test_the_2023_form_is_read(sample_file: Callable[[str], Path]) -> None:
    """I-5, I-6: definitionGroups, metadata.attributes, schemaurl, datetime"""
    document = load(sample_file("contoso-crm.cereg"))
    raw = document["definitionGroups"]["Contoso.CRM.Events"]["definitions"]
    found = Contract.compile(raw, lambda _: None)
    assert found.broken == {}
    definition = found.definitions["Contoso.CRM.Events.CustomerCreated"].definition
    assert definition["envelope"] == "CloudEvents/1.0"
    assert definition["envelopemetadata"]["time"] == {"type": "timestamp", "required": True}
    assert definition["dataschemauri"] == "#/schemagroups/Contoso.CRM.Events/schemas/customerCreatedEventData"


@pytest.mark.parametrize(
    ("source", "data", "expected"),
    [
        ("north/lathe", {"job": "j", "operator": {"name": "Ada"}, "at": 5}, None),
        ("north/lathe/x", {"job": "j", "operator": {"name": "Ada"}, "at": 5}, "metadata_violation"),
        ("north/lathe", {"job": "j", "operator": {"name": "Ada"}, "at": "now"}, "schema_violation"),
    ],
)
def test_events_of_our_own(sample_file: Callable[[str], Path], source: str, data: Any, expected: str | None) -> None:
    """K-26, K-38: as above, by a document of our own."""
    compiled = contract(load(sample_file("workshop.xreg.json")))
    (outcome,) = compiled.process(event("workshop.started", source, data=data))
    if expected is None:
        assert isinstance(outcome, Accepted)
        assert outcome.context == {"site": "north", "machine": "lathe"}
    else:
        assert isinstance(outcome, Rejected)
        assert outcome.reason == expected


def test_our_own_document_in_the_2023_form_is_read(sample_file: Callable[[str], Path]) -> None:
    """I-5, I-6: as above, by a document of our own."""
    raw = load(sample_file("workshop.cereg"))["definitionGroups"]["workshop"]["definitions"]
    found = Contract.compile(raw, lambda _: None)
    assert found.broken == {}
    definition = found.definitions["workshop.repaired"].definition
    assert definition["envelope"] == "CloudEvents/1.0"
    assert definition["envelopemetadata"]["time"] == {"type": "timestamp", "required": True}
    assert definition["dataschemauri"] == "#/schemagroups/workshop/schemas/repaired"
