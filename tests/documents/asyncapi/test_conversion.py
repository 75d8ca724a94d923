import json
from typing import Any

import pytest
from tests.documents.asyncapi.documents import NEW, OLD

from signalbook.documents import DocumentError, parse_source, references


def read(text: str | dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    data = text if isinstance(text, str) else json.dumps(text)
    source = parse_source(data.encode(), name="api.json" if isinstance(text, dict) else "api.yaml")
    return source.document, [str(repair) for repair in source.repairs]


def minimal(**more: Any) -> dict[str, Any]:
    return {"asyncapi": "3.0.0", "info": {"title": "T", "version": "1"}, **more}


def messages(version: str = "3.0.0", **definitions: Any) -> dict[str, Any]:
    document, _ = read({**minimal(components={"messages": definitions}), "asyncapi": version, "channels": {}})
    return dict(document["messagegroups"]["T"]["messages"])


def test_messages_of_2_6() -> None:
    document, losses = read(OLD)
    messages_ = document["messagegroups"]["Streetlights-API"]["messages"]
    assert messages_.keys() == {"lightMeasured", "turnOn", "dim"}
    assert messages_["lightMeasured"] == {
        "name": "Light measured",
        "description": "How bright it is.",
        "datacontenttype": "application/json",
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschemauri": "/schemagroups/Streetlights-API/schemas/lightMeasuredPayload",
        "protocol": "KAFKA",
        "protocoloptions": {
            "topic": "lights.1.{streetlight_id}.measured",
            "key": "lamp",
            "headers": {"my-app-header": {"name": "my-app-header", "type": "integer", "required": True}},
        },
    }
    assert messages_["turnOn"]["dataschemaformat"] == "Avro/1.11"
    assert messages_["turnOn"]["protocoloptions"] == {"topic": "commands"}
    schema = document["schemagroups"]["Streetlights-API"]["schemas"]["lightMeasuredPayload"]["schema"]
    assert schema["properties"]["near"] == {"$ref": "#/definitions/node"}
    assert schema["definitions"]["node"]["properties"]["next"] == {"$ref": "#/definitions/node"}
    assert schema["definitions"].keys() == {"node", "sentAt"}
    lost = ("/info: left out license", "maximum, minimum of my-app-header", "schemas/unused", "partitions", "clientId")
    for place in lost:
        assert any(place in loss for loss in losses), place


def test_endpoints_of_2_6() -> None:
    """``publish`` is what the application receives, as in 3.0's guide to migrate."""
    document, _ = read(OLD)
    inward, outward = document["endpoints"].values()
    assert inward["usage"] == ["consumer"]
    servers = ["test.example.org:18092", "b.example.org:18092"]
    assert inward["protocoloptions"] == {
        "endpoints": [{"bootstrap.servers": servers, "security.protocol": "SSL"}],
        "authorization": [{"type": "SASL", "mechanism": "SCRAM-SHA-256"}],
        "topic": "lights.1.{streetlight_id}.measured",
        "consumergroup": "lights",
    }
    assert outward["usage"] == ["producer"]
    assert outward["messagegroups"] == ["/messagegroups/Streetlights-API"]


def test_messages_of_3_0() -> None:
    """Traits complete a message of 3.0; events are known by headers and content type."""
    document, losses = read(NEW)
    messages_ = document["messagegroups"]["Streetlights-MQTT"]["messages"]
    assert messages_["turnedOn"] == {
        "datacontenttype": "application/json",
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"source": {"type": "urireference"}, "type": {"value": "light.on"}, "time": {}},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": {"type": "object", "properties": {"by": {"type": "string"}}},
        "protocol": "MQTT/5.0",
        "protocoloptions": {"topic_name": "lights/{id}/on", "qos": 1, "retain": True},
    }
    assert messages_["status"]["dataschemaformat"] == "Protobuf/3"
    assert messages_["status"]["protocoloptions"]["user_properties"] == [{"name": "trace", "type": "uuid"}]
    whole = messages_["whole"]
    assert whole["envelopeoptions"] == {"mode": "structured", "format": "application/cloudevents+json"}
    assert whole["envelopemetadata"] == {"type": {"value": "light.off"}, "subject": {"required": True}}
    assert (whole["datacontenttype"], whole["dataschema"]) == ("text/json", {"type": "object"})
    assert list(document["endpoints"]) == ["lightTurnedOn", "both-receive", "both-send"]
    expected = [{"uri": "mqtts://test.example.org:{port}"}]
    assert document["endpoints"]["both-send"]["protocoloptions"]["endpoints"] == expected
    assert any("/servers/production/variables/port: left out default" in loss for loss in losses)


def test_message_of_several_channels_has_one_definition_per_topic() -> None:
    """A definition without a topic would match the records of all topics."""
    reference = {"$ref": "#/components/messages/switched"}
    channels = {
        "on": {"address": "lamps.on", "messages": {"m": reference}},
        "off": {"address": "lamps.off", "messages": {"m": reference}},
        "also": {"address": "lamps.off", "messages": {"m": reference}},
        "once": {"address": "lamps.once", "messages": {"once": {"payload": {"type": "object"}}}},
    }
    servers = {"b": {"host": "kafka.example:9092", "protocol": "kafka"}}
    components = {"messages": {"switched": {"payload": {"type": "object"}}}}
    document, losses = read(minimal(servers=servers, channels=channels, components=components))
    messages_ = document["messagegroups"]["T"]["messages"]
    assert {name: message["protocoloptions"] for name, message in messages_.items()} == {
        "switched-on": {"topic": "lamps.on"},
        "switched-off": {"topic": "lamps.off"},
        "once": {"topic": "lamps.once"},
    }
    assert messages_["switched-on"]["dataschema"] == messages_["switched-off"]["dataschema"] == {"type": "object"}
    assert any("each of its topics, subjects or paths: switched-on, switched-off" in loss for loss in losses)


def test_3_1_is_3_0_with_bindings_of_ros_2() -> None:
    message = {"bindings": {"ros2": {}}, "payload": {"type": "object"}, "examples": [{"payload": "any"}]}
    assert messages("3.1.0", m=message) == messages("3.0.0", m=message)


def test_headers_of_several_types_are_text() -> None:
    headers = {"properties": {"a": {"type": ["string", "null"]}}}
    channel = {"messages": {"m": {"headers": headers}}, "servers": [{"$ref": "#/servers/s"}]}
    servers = {"s": {"host": "a:1", "protocol": "kafka"}}
    document, losses = read(minimal(channels={"c": channel}, servers=servers))
    options = document["messagegroups"]["T"]["messages"]["m"]["protocoloptions"]
    assert options["headers"] == {"a": {"name": "a"}}
    assert any("left out type of a" in loss for loss in losses)


def test_traits_replace_in_2_x_and_complete_in_3_0() -> None:
    message = {"title": "own", "traits": [{"title": "a trait's", "summary": "first"}, {"summary": "second"}]}
    assert messages("2.6.0", m=message)["m"] == {"name": "a trait's", "description": "second"}
    assert messages("3.0.0", m=message)["m"] == {"name": "own", "description": "first"}


@pytest.mark.parametrize(
    ("message", "loss"),
    [
        ({"$ref": "https://x.example/m.json"}, "another document"),
        ({"payload": {"$ref": "https://x.example/m.json"}}, "another document"),
        ({"payload": {"properties": {"a": {"$ref": "other.json#/a"}}}}, "other.json#/a is in another document"),
        ({"payload": {"schemaFormat": "application/raml+yaml;version=1.0", "schema": {}}}, "raml"),
        ({"headers": {"properties": {"a": {}}}}, "no protocol is known"),
        ({"tags": [], "examples": []}, "left out examples, tags"),
    ],
)
def test_losses_have_their_place(message: dict[str, Any], loss: str) -> None:
    document, losses = read(minimal(components={"messages": {"m": message, "other": {}}}))
    assert any(loss in line and line.startswith("/components/messages/m") for line in losses)
    assert "dataschema" not in document["messagegroups"]["T"]["messages"].get("m", {})


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"asyncapi": "1.2.0"}, "2.0 to 2.6, 3.0 and 3.1 are read"),
        ({"asyncapi": 3}, "are read, not 3"),
        ({"asyncapi": "3.2.0"}, "are read, not '3.2.0'"),
        ({"asyncapi": "3.0.0", "channels": {}}, "/info: it is not there"),
        (minimal(), "it has no messages, no channels with servers"),
        (minimal(channels={"c": {"$ref": "https://x.example/c.json"}}), "what it has is in other documents"),
        (minimal(channels=[]), "/channels: must be an object"),
        (minimal(channels={"c": {"messages": {"m": 5}}}), "/channels/c/messages/m: must be an object"),
        (minimal(channels={"c": {"address": 5}}), "/channels/c/address: must be a string"),
        (minimal(operations={"o": {"action": "publish"}}), "/operations/o/action"),
        (minimal(channels={"c": {"$ref": "#/channels/d"}}), "there is no #/channels/d"),
        (minimal(channels={"c": {"$ref": "#/channels/d"}, "d": {"$ref": "#/channels/c"}}), "in a circle"),
        (minimal(components={"messages": {"m": {"payload": []}}}), "m/payload: a JSON Schema is an object"),
    ],
)
def test_errors_have_their_place(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read(document)


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
def test_id_is_the_referenced_name(version: str) -> None:
    reference = {"$ref": "#/components/messages/a~0b"}
    channel = {"publish": {"message": reference}} if version == "2.6.0" else {"messages": {"other": reference}}
    document = minimal(components={"messages": {"a~b": {"title": "A"}}}, channels={"c": channel})
    imported, losses = read({**document, "asyncapi": version})
    assert imported["messagegroups"]["T"]["messages"].keys() == {"a~b"}
    assert not [loss for loss in losses if "its id is" in loss]


def test_excessive_expansion_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemas that share others are their number squared, of a small document."""
    monkeypatch.setattr(references, "_MAX_COPIED", 10_000)
    count = 150
    schemas = {f"s{n}": {"anyOf": [{"$ref": f"#/components/schemas/s{n + 1}"}]} for n in range(count)}
    schemas[f"s{count}"] = {}
    all_of = {f"m{n}": {"payload": {"$ref": f"#/components/schemas/s{n}"}} for n in range(count)}
    with pytest.raises(DocumentError, match="split it"):
        read(minimal(components={"messages": all_of, "schemas": schemas}))
    circle = {"allOf": [{"$ref": "#/components/schemas/c"}] * 2}
    event = {"contentType": "application/cloudevents+json", "payload": {"$ref": "#/components/schemas/c"}}
    with pytest.raises(DocumentError, match="split it"):
        read(minimal(components={"messages": {"m": event}, "schemas": {"c": circle}}))


def test_ten_thousand_channels() -> None:
    channels = {f"c {n}": {"messages": {"m": {"payload": {"type": "object"}}}} for n in range(10_000)}
    servers = {"s": {"host": "a.example:9092", "protocol": "kafka"}}
    document, _ = read(minimal(servers=servers, channels=channels))
    assert len(document["endpoints"]) == len(document["messagegroups"]["T"]["messages"]) == 10_000
