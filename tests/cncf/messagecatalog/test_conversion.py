from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from signalbook.cncf.messagecatalog.conversion import definition_to_message, message_to_definition
from signalbook.cncf.messagecatalog.metaschemas import format_attributes
from signalbook.cncf.messagecatalog.validation import validate_against_metaschema

CLOUDEVENTS = {"envelope": "CloudEvents/1.0"}
REFERENCE = {"dataschemaformat": "Avro/1.11", "dataschemauri": "u:x"}
DRAFT_07 = {"dataschemaformat": "JsonSchema/draft-07"}
NEWEST = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
RECORD = {"type": "record"}
KAFKA = {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}


def test_cloudevents() -> None:
    """J-13 to J-15, C-24."""
    attributes = yaml.safe_load("""
    {type: {value: a.b, description: d}, source: {value: "/shops/{shop}"}, subject: {value: "{+path}"},
      dataschema: {value: "urn:x:1", schematype: Avro}, datacontenttype: {value: application/avro, required: true},
      colour: {value: "{a}-{b}"}, count: {value: 5}, group: {value: "/{group-id}"}}
    """)
    message = definition_to_message("CloudEvents", {"attributes": attributes}, CLOUDEVENTS)
    assert message == {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": "a.b", "required": True, "description": "d"},
            "source": {"value": "/shops/{shop}", "required": True},
            "subject": {"value": "{+path}", "type": "string"},  # J-17: above level 1
            "dataschema": {"value": "urn:x:1"},
            "datacontenttype": {"value": "application/avro", "required": True},
            "colour": {"value": "{a}-{b}", "type": "uritemplate"},
            "count": {"value": "5", "type": "integer"},
            "group": {"value": "/{group_id}", "type": "uritemplate"},  # C-21
        },
        "dataschemaformat": "Avro/1.11",
        "dataschemauri": "urn:x:1",
    }


def test_amqp() -> None:
    """The names have dashes; the fields of a header are values, with the defaults of xRegistry (J-13)."""
    definition = yaml.safe_load("""
    header: {durable: {value: "true"}, ttl: {value: "{ttl}"}}
    properties: {messageid: {value: "{id}"}, absoluteexpirytime: {required: true}}
    applicationproperties: {colour: {value: red}, Colour: {value: has no place}}
    applicationdata: {dataschema: {schematype: JSON, schema: {type: object}}, amqpencoding: Value}
    """)
    message = definition_to_message("AMQP", definition, {"protocol": "AMQP/1.0"})
    assert message == yaml.safe_load("""
    protocol: AMQP/1.0
    protocoloptions:
      header: {durable: true, priority: 4, first-acquirer: false, delivery-count: 0}
      properties: {message-id: {value: "{id}", type: uritemplate}, absolute-expiry-time: {required: true}}
      application-properties: {colour: {value: red}}
      amqpencoding: Value
    dataschemaformat: JsonSchema/draft-07
    dataschema: {type: object}
    """)


def test_mqtt_and_nats() -> None:
    """User properties are a list in xRegistry (J-13)."""
    publish = {"qos": {"value": 1}, "topicname": {"value": "a/{b}"}, "correlationdata": {"value": "AQ"}}
    userproperty = {"A b": {"value": "x", "required": True}}
    message = definition_to_message("MQTT", {"publish": publish, "userproperty": userproperty}, {})
    assert message["protocol"] == "MQTT/5.0"
    assert message["protocoloptions"] == yaml.safe_load("""
    {qos: 1, topic_name: "a/{b}", correlation_data: AQ, user_properties: [{name: A b, value: x, required: true}]}
    """)
    expected = "MQTT/3.1.1"
    assert definition_to_message("MQTT", {"publish": {"mqttversion": {"value": "3.1.1"}}}, {})["protocol"] == expected
    nats = {"pub": {"subject": {"value": "a.b"}, "replyto": {"value": "{+r} "}}}
    assert definition_to_message("NATS", nats, {"protocol": "NATS"})["protocoloptions"] == {"subject": "a.b"}


def test_messages_with_envelope_and_protocol_keep_both() -> None:
    """The protocol is an additional section (J-18)."""
    metadata = {"type": {"value": "a.b", "required": True}}
    message = {**CLOUDEVENTS, "envelopemetadata": metadata, "envelopeoptions": {"mode": "binary"}, **KAFKA}
    definition = message_to_definition("CloudEvents", message)
    protocol = {"name": "KAFKA", "options": {"topic": "t"}}
    assert definition == {"attributes": metadata, "protocol": protocol, "envelope": {"options": {"mode": "binary"}}}
    assert list(validate_against_metaschema("CloudEvents", "a.b", definition)) == []
    assert definition_to_message("CloudEvents", definition, CLOUDEVENTS) == message


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("HTTP", {"protocol": "HTTP", "protocoloptions": {"method": "POST"}}),
        ("KAFKA", {**KAFKA, **REFERENCE}),
        ("xRegistry", {"protocol": "NATS", "protocoloptions": {"subject": "a"}, "datacontenttype": "a/b"}),
    ],
)
def test_unknown_formats_are_converted_both_ways(format: str, message: Any) -> None:
    """Attributes become options, or all of the message that defines it (J-18)."""
    assert definition_to_message(format, message_to_definition(format, message), format_attributes(format)) == message


def test_xregistry_attributes_are_shown_where_the_drafts_have_them() -> None:
    message = {"protocol": "MQTT/3.1.1", "protocoloptions": {"qos": 1}, "datacontenttype": "a/b"}
    expected = {"mqttversion": {"value": "3.1.1"}, "qos": {"value": 1}, "contenttype": {"value": "a/b"}}
    assert message_to_definition("MQTT", message)["publish"] == expected
    header = {"header": {"durable": False, "priority": 4, "delivery-count": 0, "first-acquirer": False}}
    definition = message_to_definition("AMQP", {"protocol": "AMQP/1.0", "protocoloptions": header})
    assert list(validate_against_metaschema("AMQP", "a", definition)) == []


_TEXT = st.sampled_from(["", "x", "{a}", "{+a}", "a {b}", "7", "ä" * 3000])
_TEMPLATE = st.fixed_dictionaries({"value": _TEXT}, optional={"required": st.booleans(), "description": st.just("d")})
_SCHEMA = st.fixed_dictionaries(
    {},
    optional={
        "value": st.sampled_from(["urn:x", "/schemagroups/g/schemas/s"]),
        "schematype": st.sampled_from(["Avro", "JSON", "ours", "Avro/1.9"]),
        "schema": st.just({"type": "object"}),
    },
)


@given(
    st.dictionaries(st.sampled_from(["messageid", "to", "subject", "replyto", "creationtime", "groupid"]), _TEMPLATE),
    st.dictionaries(st.sampled_from(["colour", "x-y", "Upper"]), _TEMPLATE),
    _SCHEMA,
)
def test_projection_is_idempotent(properties: Any, annotations: Any, schema: Any) -> None:
    """Reading the message and writing it back changes nothing more."""
    definition = {
        "properties": properties,
        "messageannotations": annotations,
        "applicationdata": {"dataschema": schema},
    }
    message = definition_to_message("AMQP", definition, {"protocol": "AMQP/1.0"})
    definition_again = message_to_definition("AMQP", message)
    assert definition_to_message("AMQP", definition_again, {"protocol": "AMQP/1.0"}) == message
    assert (
        message_to_definition("AMQP", definition_to_message("AMQP", definition_again, {"protocol": "AMQP/1.0"}))
        == definition_again
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"value": "urn:x", "schematype": "JSON"}, {**DRAFT_07, "dataschemauri": "urn:x"}),
        ({"schema": NEWEST}, {"dataschemaformat": "JsonSchema/draft/2020-12", "dataschema": NEWEST}),
        ({"value": "urn:x", "schema": RECORD}, {"dataschemaformat": "Avro/1.11", "dataschema": RECORD}),
        ({"schema": "<xs:schema/>"}, {"dataschemaformat": "XSD/1.0", "dataschema": "<xs:schema/>"}),
        ({"schema": "message A {}"}, {"dataschemaformat": "Protobuf/3", "dataschema": "message A {}"}),
        ({"value": "urn:x", "schematype": "XSD/1.1"}, {"dataschemaformat": "XSD/1.1", "dataschemauri": "urn:x"}),
        ({"value": "urn:x", "schematype": "ours"}, {}),
        ({"value": "urn:x"}, {}),
        ({"value": "urn:{x}", "schematype": "Avro"}, {}),
    ],
)
def test_data_schemas(schema: Any, expected: Any) -> None:
    """An inline schema has precedence; an unknown format is not guessed (C-23, J-14)."""
    message = definition_to_message("NATS", {"payload": {"dataschema": schema}}, {})
    assert {name: value for name, value in message.items() if name.startswith("data")} == expected


def test_content_type_determines_the_schema_format() -> None:
    """The content type decides if there is no schematype (J-14)."""
    definition = {
        "publish": {"contenttype": {"value": "application/json"}},
        "payload": {"dataschema": {"value": "urn:x"}},
    }
    assert definition_to_message("MQTT", definition, {})["dataschemaformat"] == "JsonSchema/draft-07"
