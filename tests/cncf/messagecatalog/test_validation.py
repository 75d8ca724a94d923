from typing import Any

import pytest
import yaml

from signalbook.cncf.messagecatalog.validation import find_doubts, find_relatedvia_error, validate_against_metaschema

ID = "com.example.placed"
EVENT = {"type": {"value": ID}}
DATASCHEMA = {"dataschema": {"value": "urn:x", "schematype": "JSON", "schema": {}}}
SECTIONS = yaml.safe_load("""
properties: {messageid: {value: "{id}"}, groupsequence: {value: "1"}, userid: {value: Z3Vlc3Q=}}
applicationproperties: {x-opt-Colour: {value: red}}
deliveryannotations: {a: {}}
messageannotations: {b: {value: ""}}
footer: {c: {value: 5}}
applicationdata: {dataschema: {value: "urn:x"}, amqpencoding: Sequence}
""")
MQTT = yaml.safe_load("""
publish: {mqttversion: {value: "5.0"}, qos: {value: 2}, retain: {value: false}, topicname: {value: "shops/{shop}"},
  payloadformat: {value: 1}, expiryinterval: {value: "60"}, responsetopic: {value: ""},
  correlationdata: {value: AQID}, contenttype: {value: application/json}}
userproperty: {My Property: {value: x, required: true}}
payload: {dataschema: {schematype: Protobuf, schema: 'syntax = "proto3";'}}
""")


def paths(format: str, definition: Any, id: str = ID) -> list[str]:
    return [fault.path for fault in validate_against_metaschema(format, id, definition)]


def payload(**dataschema: Any) -> Any:
    return {"payload": {"dataschema": dataschema}}


RIGHT: list[Any] = [
    pytest.param("CloudEvents", {"attributes": EVENT}, id="C-25"),
    pytest.param("CloudEvents", {"attributes": {**EVENT, "subject": {"required": True}}}, id="C-20"),
    pytest.param("CloudEvents", {"attributes": {**EVENT, "n1": {"value": 5}, "b": {"value": True}}}, id="B-12 names"),
    pytest.param("CloudEvents", {"attributes": {**EVENT, **DATASCHEMA}}, id="C-24"),
    pytest.param("AMQP", {"header": {"durable": {"value": True}, "ttl": {"value": "{ttl}"}}}, id="B-14 header"),
    pytest.param("AMQP", SECTIONS, id="B-14 sections"),
    pytest.param("MQTT", MQTT, id="B-15"),
    pytest.param("MQTT", {"publish": {"mqttversion": "3.1.1", "qos": {"value": 1}}}, id="B-15 3.1.1"),
    pytest.param("NATS", {"pub": {"subject": {"value": "a.{b}"}}, "payload": {"dataschema": {}}}, id="C-26"),
    pytest.param(
        "CloudEvents", {"attributes": EVENT, "protocol": {"name": "MQTT/5.0"}, "envelope": {"options": {}}}, id="J-18"
    ),
    pytest.param("AMQP", {"properties": {"userid": {"value": "{user}"}}}, id="C-22 a template of bytes"),
    pytest.param("our own", {"anything": [1, 2]}, id="B-2 a custom format"),
]


@pytest.mark.parametrize(("format", "definition"), RIGHT)
def test_valid_definitions_have_no_findings(format: str, definition: Any) -> None:
    assert paths(format, definition) == []


WRONG = {"specversion": "0.3", "source": "a b", "time": "now", "datacontenttype": "json", "dataschema": "relative"}
KNOWN_ATTRIBUTES = {name: {"value": value} for name, value in WRONG.items()}
FAULTS: dict[str, Any] = {
    "B-12 type is required": ("CloudEvents", {}, ["attributes.type"]),
    "B-12 exact": ("CloudEvents", {"attributes": {"type": {"value": "{t}"}}}, ["attributes.type"]),
    "C-25 id": ("CloudEvents", {"attributes": {"type": {"value": "x"}}}, ["attributes.type.value"]),
    "B-12 naming": ("CloudEvents", {"attributes": {**EVENT, "My": {}}}, ["attributes.My"]),
    "B-12 data": ("CloudEvents", {"attributes": {**EVENT, "data": {}}}, ["attributes.data"]),
    "B-12 known attributes, all faults": ("CloudEvents", {"attributes": {**EVENT, **KNOWN_ATTRIBUTES}},
        [f"attributes.{name}.value" for name in ("time", "specversion", "source", "dataschema", "datacontenttype")]),
    "C-19 an object": ("CloudEvents", {"attributes": {**EVENT, "x": "text"}}, ["attributes.x"]),
    "C-19 members": ("CloudEvents", {"attributes": {**EVENT, "x": {"required": "yes", "description": 1}}},
        ["attributes.x.required", "attributes.x.description"]),
    "B-14": ("AMQP", {"header": {"first-acquirer": {"value": True}}}, ["header.first-acquirer"]),
    "B-14 closed": ("AMQP", {"properties": {"message-id": {}}}, ["properties.message-id"]),
    "C-22 negative": ("AMQP", {"header": {"priority": {"value": -1}}}, ["header.priority.value"]),
    "B-14 encoding": ("AMQP", {"applicationdata": {"amqpencoding": "data"}}, ["applicationdata.amqpencoding"]),
    "C-25 symbols": ("AMQP", {"footer": {"ä": {}}}, ["footer.ä"]),
    "B-14 bytes": ("AMQP", {"properties": {"userid": {"value": "guest"}}}, ["properties.userid.value"]),
    "C-22 bytes": ("AMQP", {"properties": {"userid": {"value": 5}}}, ["properties.userid.value"]),
    "B-15 bytes": ("MQTT", {"publish": {"correlationdata": {"value": "ä"}}}, ["publish.correlationdata.value"]),
    "B-12 a section that is none": ("CloudEvents", {"attributes": EVENT, "data": {}}, ["data"]),
    "B-14 a misspelt section": ("AMQP", {"application-properties": {}}, ["application-properties"]),
    "B-15 a section that is none": ("MQTT", {"userproperties": "x"}, ["userproperties"]),
    "C-26 a section that is none": ("NATS", {"header": {}}, ["header"]),
    "B-15 qos": ("MQTT", {"publish": {"qos": {"value": 3}}}, ["publish.qos.value"]),
    "B-15 version": ("MQTT", {"publish": {"mqttversion": "4"}}, ["publish.mqttversion.value"]),
    "B-15 5.0 only": ("MQTT",
        {"publish": {"mqttversion": "3.1.1", "contenttype": {"value": ""}}, "userproperty": {"x": {}}},
        ["publish.contenttype", "userproperty"]),
    "C-26 closed": ("NATS", {"pub": {"queue": {}}}, ["pub.queue"]),
    "B-10 sections are objects": ("NATS", {"pub": "x"}, ["pub"]),
    "B-10 an object": ("NATS", [], [""]),
    "C-23 members": ("NATS", payload(value="a b", schematype=1, schema=5),
        [f"payload.dataschema.{name}" for name in ("value", "schematype", "schema")]),
    "C-23 Avro is JSON": ("NATS", payload(schematype="Avro", schema="{}"), ["payload.dataschema.schema"]),
    "C-23 Protobuf is text": ("NATS", payload(schematype="Protobuf", schema={}), ["payload.dataschema.schema"]),
}  # fmt: skip


@pytest.mark.parametrize(("format", "definition", "wrong"), FAULTS.values(), ids=FAULTS)
def test_every_fault_is_reported_by_its_path(format: str, definition: Any, wrong: list[str]) -> None:
    assert paths(format, definition) == wrong


@pytest.mark.parametrize(
    ("id", "type"), [("a.b", "a.b"), ("urn%3Ax%3Ay", "urn:x:y"), ("events@example.com", "events@example.com")]
)
def test_the_type_is_the_id_of_the_definition(id: str, type: str) -> None:
    """The id is that of the definition, not of the version; it is encoded if the type is no path segment (B-13)."""
    assert paths("CloudEvents", {"attributes": {"type": {"value": type}}}, id) == []


@pytest.mark.parametrize(
    ("format", "definition", "via", "right"),
    [
        ("CloudEvents", {"attributes": {"cause": {}}}, "cause", True),
        ("CloudEvents", {"attributes": {}}, "cause", False),
        ("AMQP", {}, "properties.correlationid", True),
        ("AMQP", {}, "properties.groupid", True),
        ("AMQP", {"applicationproperties": {"order": {}}}, "applicationproperties.order", True),
        ("AMQP", {"applicationproperties": {"order": None}}, "applicationproperties.order", False),
        ("AMQP", {}, "applicationproperties.order", False),
        ("AMQP", {}, "properties.messageid", False),
        ("AMQP", {}, "applicationproperties.", False),
        ("MQTT", {}, "publish.correlationdata", True),
        ("MQTT", {"userproperty": {"order": {}}}, "userproperty.order", True),
        ("MQTT", {"userproperty": {"other": {}}}, "userproperty.order", False),
        ("MQTT", {}, "publish.topicname", False),
        ("MQTT", {"publish": {"mqttversion": {"value": "3.1.1"}}}, "publish.correlationdata", False),
        ("NATS", {}, "anything", True),
    ],
)
def test_relatedvia_by_format(format: str, definition: Any, via: str, right: bool) -> None:
    """The allowed values of relatedvia depend on the format (C-17)."""
    assert (find_relatedvia_error(format, definition, via) == "") is right


@pytest.mark.parametrize(
    ("value", "rules"),
    [("{a}", []), ("plain", []), (5, []), ("{group-id}/{b}", ["C-21"]), ("{+path}", ["J-17"]), ("{a,b}", ["J-17"])],
)
def test_invalid_templates_are_reported(value: Any, rules: list[str]) -> None:
    """C-21, J-17."""
    findings = find_doubts("NATS", {"pub": {"subject": {"value": value}}, "payload": "?"})
    assert [doubt.rule for doubt in findings] == rules
