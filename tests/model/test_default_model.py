"""The default model: it takes what xRegistry's own models take, and more (docs/decisions/011-default-model.md)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from signalbook.model import AttributeSet, Model, ValueFinding, builtin, compile_model
from signalbook.values import JSONObject

OURS = compile_model(builtin("default"))
# Types that take every value of another type.
WIDER = {"uri": {"uritemplate", "string"}, "uritemplate": {"string"}}
# Their endpoints point at messages, where the text and every sample point at message groups (H-12).
CORRECTED = "/endpoints.messagegroups"


@pytest.fixture
def their_model() -> Model:
    return compile_model(builtin("spec"))


def narrower(theirs: JSONObject, us: JSONObject, path: str) -> Iterator[str]:
    """Yield the paths where a definition of ours rejects what theirs accepts."""
    if us["type"] not in {theirs["type"], "any", *WIDER.get(theirs["type"], ())}:
        yield f"{path}: {us['type']} instead of {theirs['type']}"
    if us.get("required") and "default" not in us and not theirs.get("required"):
        yield f"{path}: required"
    if us.get("readonly") and not theirs.get("readonly"):
        yield f"{path}: readonly"
    if us.get("enum") and us.get("strict", True) and not set(theirs.get("enum") or [object()]) <= set(us["enum"]):
        yield f"{path}: enum {us['enum']}"
    if us.get("target") and us["target"] != theirs.get("target") and path.removesuffix("[]") != CORRECTED:
        yield f"{path}: target {us['target']}"
    if theirs.get("namecharset") == "extended" and us["type"] == "object" and us.get("namecharset") != "extended":
        yield f"{path}: namecharset"
    if us["type"] != "any":
        yield from narrower_set(theirs.get("attributes", {}), us.get("attributes", {}), path)
        if "item" in theirs:
            yield from narrower(theirs["item"], us["item"], f"{path}[]")
    branches = {value.casefold(): branch for value, branch in us.get("ifvalues", {}).items()}
    for value, branch in theirs.get("ifvalues", {}).items():
        siblings = branches[value.casefold()]["siblingattributes"]
        yield from narrower_set(branch["siblingattributes"], siblings, f"{path}={value}")


def narrower_set(theirs: JSONObject, us: JSONObject, path: str) -> Iterator[str]:
    for name, definition in theirs.items():
        if name in us:
            yield from narrower(definition, us[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}: missing"
    for name in us.keys() - theirs.keys():
        if us[name].get("required") and "default" not in us[name]:
            yield f"{path}.{name}: required"


ITEM_ASPECTS = {"type", "target", "namecharset", "attributes", "item"}
ASPECTS = ITEM_ASPECTS | {
    *("name", "description", "enum", "strict", "matchversions"),
    *("readonly", "immutable", "required", "default", "ifvalues"),
}


def foreign(definitions: JSONObject, path: str) -> Iterator[str]:
    """Aspects that model.md does not have."""
    for name, definition in definitions.items():
        here = f"{path}.{name}"
        yield from (f"{here}: {aspect}" for aspect in definition.keys() - ASPECTS)
        inner = definition
        while inner:
            yield from foreign(inner.get("attributes", {}), here)
            inner = inner.get("item", {})
            yield from (f"{here}.item: {aspect}" for aspect in inner.keys() - ITEM_ASPECTS)
        for value, branch in definition.get("ifvalues", {}).items():
            yield from foreign(branch["siblingattributes"], f"{here}={value}")


def test_default_model_has_no_unknown_aspects() -> None:
    """Other clients reject a model with unknown aspects (R68)."""
    aspects = list(foreign(OURS.document["attributes"], ""))
    for plural, group in OURS.groups.items():
        aspects += foreign(group.document["attributes"], f"/{plural}")
        for name, resource in group.resources.items():
            for part in ("attributes", "resourceattributes", "metaattributes"):
                aspects += foreign(resource.document[part], f"/{plural}/{name}")
    assert aspects == []


def test_the_source_names_its_plurals() -> None:
    """The attribute "plural" is REQUIRED in a model source (R90)."""
    groups = builtin("default")["groups"]
    assert all(group["plural"] == name for name, group in groups.items())
    assert all(r["plural"] == name for group in groups.values() for name, r in group.get("resources", {}).items())


def test_default_model_has_every_attribute_of_the_specification(their_model: Model) -> None:
    """Each path has a type, enum, target and charset that is at least as wide (F-2, F-56, H-2, G-1)."""
    narrower_paths: list[str] = []
    for plural, group in their_model.groups.items():
        ours = OURS.groups[plural].document
        narrower_paths += narrower_set(group.document["attributes"], ours["attributes"], f"/{plural}")
        for name, resource in group.resources.items():
            for part in ("attributes", "resourceattributes", "metaattributes"):
                narrower_paths += narrower_set(
                    resource.document[part], ours["resources"][name][part], f"/{plural}/{name}"
                )
    assert narrower_paths == []


def test_group_and_resource_types_are_theirs(their_model: Model) -> None:
    """The aspects are equal, except for deliberate differences (F-1, G-1, H-1)."""
    aspects = ("singular", "hasdocument", "validateformat", "validatecompatibility", "strictvalidation", "versionmode")
    for plural, group in their_model.groups.items():
        ours = OURS.groups[plural]
        assert (ours.singular, list(ours.resources)) == (group.singular, list(group.resources))
        assert ours.document.get("constraints") == group.document.get("constraints")
        for name, resource in group.resources.items():
            assert all(ours.resources[name].document[aspect] == resource.document[aspect] for aspect in aspects)
            assert ours.resources[name].matchversions == resource.matchversions


def document_findings(document: JSONObject) -> Iterator[tuple[str, ValueFinding]]:
    """Every finding in the Groups, Resources and Versions of a registry document."""
    for plural, kind in OURS.groups.items():
        for group_id, group in document.get(plural, {}).items():
            group_attributes = {name: value for name, value in group.items() if name not in kind.resources}
            yield from ((group_id, finding) for finding in kind.attributes.check(group_attributes).findings)
            for name, resource in kind.resources.items():
                for resource_id, entity in group.get(name, {}).items():
                    yield from ((resource_id, finding) for finding in resource_findings(resource.attributes, entity))


def resource_findings(rules: AttributeSet, entity: JSONObject) -> Iterator[ValueFinding]:
    for version in (entity.get("versions") or {"": entity}).values():
        yield from rules.check(version).findings


SAMPLES = yaml.safe_load("""
[contoso-erp-jsons07, inkjet-proto3, lightbulb-avro, mqtt-sparkplugB, smartoven-xsd, vacuumcleaner-avro,
  watchkam-jsons07, waterboiler-mqtt5-jsons07, windgenerator-kafka-avro, schemastore_org, workshop, workshop-xsd]
""")


@pytest.mark.parametrize("name", SAMPLES)
def test_real_documents_pass(sample_file: Callable[[str], Path], name: str) -> None:
    """The scenario documents are unchanged, including their oddities (I-7)."""
    document = json.loads(sample_file(f"{name}.xreg.json").read_bytes())
    assert list(document_findings(document)) == []


MESSAGES = OURS.groups["messagegroups"].resources["messages"]
ENDPOINTS = OURS.groups["endpoints"]


@pytest.mark.parametrize(
    "message",
    [
        {"protocol": "HTTP/1.1", "protocoloptions": {"status": "404"}},  # F.7
        {"protocol": "http", "protocoloptions": {"headers": [{"name": "X-A", "type": "string", "specurl": "x"}]}},
        {"protocol": "AMQP", "protocoloptions": {"application-properties": {"my-prop": {"type": "boolean"}}}},  # H-8
        {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"content-type": {"type": "symbol"}}}},
        {"protocol": "AMQP/1.0", "protocoloptions": {"amqpencoding": "Sequence"}},  # B-14
        {"protocol": "mqtt/5.0", "protocoloptions": {"payload_format": 1, "correlation_data": "a b"}},  # F-39
        {"protocol": "MQTT", "protocoloptions": {"content_type": "text/plain; charset=utf-8"}},
        {"protocol": "MQTT/5.0", "protocoloptions": {"user_properties": [{"name": "A b", "type": "string"}]}},
        {"protocol": "Kafka", "protocoloptions": {"key": "{a} b"}},
        {"protocol": "NATS", "protocoloptions": {"reply-to": "a.b", "reply": "a.b"}},
        {"envelope": "cloudevents/1.0", "envelopemetadata": {"subject": {"type": "uri", "specurl": "https://x/"}}},
        {"basemessage": "/messagegroups/g/messages/m/versions/1"},  # F-57
        {"basemessage": "/endpoints/e/messages/m", "basemessageuri": "https://x/y"},  # L-32
        {"authority": "urn:x", "globaluri": "x", "relatedto": "m", "relatedvia": "id", "relation": "own"},  # J-16
        {"documentationtext": "x" * 9999},
        {"anything": {"x": 1}, "envelope": "SOAP/1.2", "envelopemetadata": {"Header": 5}},  # F-44, F-45
        {"protocol": "Own/1", "protocoloptions": {"a-b": [1]}},  # F-44
        {"protocol": "HTTP", "protocoloptions": {"query": {"a": "b"}}},  # F.7
        {"envelope": "CloudEvents/1.0", "envelopemetadata": {"attributes": {"type": {"value": "t"}}}},  # F-36, F-38
        {"envelope": "CloudEvents/1.0", "envelopemetadata": {"ext": {"type": "integer", "value": 5}}},  # F-41
        {"envelope": "CloudEvents/1.0", "envelopemetadata": {"subject": {"type": "urireference"}}},  # F-24
        {"dataschema": {"default": None}, "dataschemaformat": "JsonSchema/draft-07"},
    ],
)
def test_extensions_for_messages(message: JSONObject) -> None:
    """F-22 to F-57, J-7 to J-16."""
    assert MESSAGES.attributes.check(message).findings == ()


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"protocol": "HTTP", "protocoloptions": {"verb": "GET"}}, "protocoloptions.verb"),
        ({"protocol": "MQTT/3.1.1", "protocoloptions": {"content_type": "x"}}, "protocoloptions.content_type"),
        ({"basemessage": "/schemagroups/g/schemas/s"}, "basemessage"),  # F-15
    ],
)
def test_messages_stay_strict(message: JSONObject, path: str) -> None:
    """Attributes that the specification names conform to it (F-15, F.7)."""
    assert path in [finding.path for finding in MESSAGES.attributes.check(message).findings]


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"id": {"required": False}}, "id.required"),  # F-31
        ({"ext": {"values": 5}}, "ext.values"),
        ({"source": {"type": "integer"}}, "source.type"),  # F-40
    ],
)
def test_envelope_metadata_stays_strict(metadata: JSONObject, path: str) -> None:
    """F-31, F-40."""
    findings = MESSAGES.attributes.check({"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}).findings
    assert [finding.path for finding in findings] == [f"envelopemetadata.{path}"]


def test_property_defaults_are_those_of_the_text() -> None:
    """The default of required is false, unless the envelope demands the attribute (F-23, F-43)."""
    message = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"id": {}, "source": {}, "ext": {}},
        "protocol": "AMQP/1.0",
        "protocoloptions": {"properties": {"subject": {}, "message-id": {}}},
    }
    values = MESSAGES.attributes.check(message).values
    assert values["envelopemetadata"] == {
        "id": {"type": "string", "required": True},
        "source": {"type": "uritemplate", "required": True},
        "ext": {"type": "string", "required": False},
    }
    expected = {"subject": {"type": "string", "required": False}, "message-id": {"required": False}}
    assert values["protocoloptions"]["properties"] == expected


def test_messages_keep_versions() -> None:
    """F-1, J-12; imported into endpoints as the same type (H-1)."""
    assert MESSAGES.maxversions == 0
    assert ENDPOINTS.resources["messages"] is MESSAGES


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ({"usage": ["producer"], "messagegroups": ["/messagegroups/g", "https://x/", "#/x"]}, None),  # H-12
        ({"usage": ["sender"]}, "usage[0]"),  # H-3
        ({"messagegroups": ["/schemagroups/g"]}, "messagegroups[0]"),
        ({"deprecated": {"docs": "https://x/", "documentation": "https://x/"}}, None),  # H-21
        ({"protocol": "HTTP/2", "protocoloptions": {"endpoints": [{"uri": "https://{host}/"}]}}, None),  # H-14
        ({"protocol": "KAFKA", "protocoloptions": {"endpoints": [{"bootstrap.servers": ["a:1"]}]}}, None),  # H-9
        ({"protocol": "MQTT", "protocoloptions": {"qos": 3}}, "protocoloptions.qos"),
        ({"protocol": "MQTT", "protocoloptions": {"willmessage": "/endpoints/e/messages/m"}}, None),  # L-32
        ({"envelope": "CloudEvents", "envelopeoptions": {"mode": "both"}}, "envelopeoptions.mode"),  # F-34, H-6
        ({"protocol": "Own/1", "protocoloptions": [1]}, None),
        ({"link_properties": 1}, None),
    ],
)
def test_endpoints(endpoint: JSONObject, path: str | None) -> None:
    """H-2 to H-22."""
    findings = ENDPOINTS.attributes.check(endpoint).findings
    assert [finding.path for finding in findings] == ([path] if path else [])
