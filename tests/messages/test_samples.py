"""Real definitions: every sample document of the specification, and one of the 2023 form."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    documents: dict[str, SchemaDocument] = {}
    for xid, resource in members(document, "schemagroups", "schemas"):
        for name, version in (resource.get("versions") or {"1": resource}).items():
            text = version.get("schema")
            content = text.encode() if isinstance(text, str) else dump_json(text)
            stated = version.get("format") or resource.get("format") or ""
            parsed = SchemaDocument(content=content, format=stated, xid=f"{xid}/versions/{name}")
            documents[xid] = documents[parsed.xid] = parsed
    return documents


def contract(document: JSONObject) -> Contract:
    return Contract.compile(messages(document), schemas(document).get)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_compiles_without_error(sample_file: Callable[[str], Path], name: str) -> None:
    """I-7, K-11 to K-14"""
    document = load(sample_file(f"{name}.xreg.json"))
    for raw in messages(document).values():
        definition, doubts = normalise(raw)
        assert normalise(definition) == (definition, [])
        findings = [*doubts, *lint(materialise(raw, messages(document).get).definition)]
        assert [finding for finding in findings if finding.severity == "error"] == []
    compiled = contract(document)
    assert compiled.broken == {}
    assert len(compiled.definitions) == len(messages(document)) > 0


@pytest.mark.parametrize("name", SAMPLES)
def test_every_schema_reference_of_the_samples_leads_somewhere(sample_file: Callable[[str], Path], name: str) -> None:
    """The references include ``...:Payload`` and ``...:messages/STATEDeath`` of Sparkplug (G-15)."""
    compiled = contract(load(sample_file(f"{name}.xreg.json")))
    for definition in compiled.definitions.values():
        uri = definition.definition.get("dataschemauri")
        assert uri is None or definition.schema_use.reason != "schema_not_found", uri


def event(type: str, source: str, **more: Any) -> Message:
    members = {"specversion": "1.0", "id": "1", "type": type, "source": source, "time": "2026-01-01T00:00:00Z", **more}
    return Message(content_type="application/cloudevents+json", body=dump_json(members))


WATCHKAM, SHOP = ("watchkam-jsons07", "Fabrikam.Watchkam.MotionDetected"), ("workshop", "workshop.started")
SEEN = yaml.safe_load("""
{tenantid: t1, deviceid: d1, motionid: m, location: l, time: 5, imageUrl: u, motionType: x}
""")
STARTED = {"job": "j", "operator": {"name": "Ada"}, "at": 5}


@pytest.mark.parametrize(
    ("name", "type", "source", "data", "expected"),
    [
        (*WATCHKAM, "t1/d1", SEEN, {"tenantid": "t1", "deviceid": "d1"}),
        (*WATCHKAM, "t1/d1/x", SEEN, "metadata_violation"),
        (*WATCHKAM, "t1/d1", {**SEEN, "time": "now"}, "schema_violation"),
        (*SHOP, "north/lathe", STARTED, {"site": "north", "machine": "lathe"}),
        (*SHOP, "north/lathe/x", STARTED, "metadata_violation"),
        (*SHOP, "north/lathe", {**STARTED, "at": "now"}, "schema_violation"),
    ],
)
def test_events_of_samples(
    sample_file: Callable[[str], Path], name: str, type: str, source: str, data: Any, expected: Any
) -> None:
    """Events from a file are checked against their envelope; the Kafka headers of Watchkam are missing (K-26, K-38)."""
    (outcome,) = contract(load(sample_file(f"{name}.xreg.json"))).process(event(type, source, data=data))
    assert isinstance(outcome, Accepted | Rejected)
    assert (outcome.context if isinstance(outcome, Accepted) else outcome.reason) == expected


@pytest.mark.parametrize(
    ("file", "group", "message", "schema"),
    [
        ("contoso-crm.cereg", "Contoso.CRM.Events", "CustomerCreated", "customerCreatedEventData"),
        ("workshop.cereg", "workshop", "repaired", "repaired"),
    ],
)
def test_form_of_2023_is_read(
    sample_file: Callable[[str], Path], file: str, group: str, message: str, schema: str
) -> None:
    """The form has definitionGroups, metadata.attributes, schemaurl and datetime (I-5, I-6)."""
    compiled = Contract.compile(load(sample_file(file))["definitionGroups"][group]["definitions"], lambda _: None)
    assert compiled.broken == {}
    definition = compiled.definitions[f"{group}.{message}"].definition
    assert definition["envelope"] == "CloudEvents/1.0"
    assert definition["envelopemetadata"]["time"] == {"type": "timestamp", "required": True}
    assert definition["dataschemauri"] == f"#/schemagroups/{group}/schemas/{schema}"
