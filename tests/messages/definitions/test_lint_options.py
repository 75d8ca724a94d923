from typing import Any

import pytest
import yaml

from signalbook.messages.definitions.lint import lint

GOOD: dict[str, dict[str, Any]] = yaml.safe_load("""
AMQP/1.0:
  properties: {message-id: {type: uuid}, to: {type: uritemplate, value: "q/{a}"},
    group-sequence: {type: integer, value: "5"}, content-type: {type: symbol}}
  application-properties: {my-prop: {type: boolean, value: "true"}}
  header: {priority: 4, ttl: 0, durable: false}
MQTT/3.1.1: {topic_name: "a/{b}", qos: 2, retain: true}
MQTT/5.0: {topic_name: "a/{b}", payload_format: 1, payload_format_indicator: 1, message_expiry_interval: 10,
  response_topic: "r/{b}", user_properties: [{name: a, value: b}]}
KAFKA: {topic: t, partition: 1, key_base64: "aGVsbG8=", headers: {a: {name: A, value: b}, b: c}}
NATS: {subject: "a.{b}", reply-to: r, reply: r, headers: [{name: a}]}
HTTP: {path: "/a/{b}", method: POST}
""")


def found(protocol: str, options: dict[str, Any]) -> list[tuple[str, str, str]]:
    findings = lint({"protocol": protocol, "protocoloptions": options})
    return [(f.path.removeprefix("protocoloptions."), f.rule, f.severity) for f in findings if f.path != "protocol"]


@pytest.mark.parametrize("protocol", GOOD)
def test_good_options(protocol: str) -> None:
    """F.7: what the table has."""
    assert found(protocol, GOOD[protocol]) == []


@pytest.mark.parametrize(
    ("protocol", "options", "expected"),
    [
        ("AMQP/1.0", {"properties": {"to": {"type": "float"}}}, [("properties.to.type", "type", "error")]),
        ("AMQP/1.0", {"properties": {"to": {"value": "a{b"}}}, []),
        ("AMQP/1.0", {"properties": {"to": {"type": "uritemplate", "value": "a{b"}}},
            [("properties.to.value", "uritemplate", "error")]),
        ("AMQP/1.0", {"properties": {"to": "q"}}, [("properties.to", "structure", "error")]),
        ("AMQP/1.0", {"properties": {"message-id": {"value": "1"}}},
            [("properties.message-id.value", "constant", "warning")]),
        ("AMQP/1.0", {"footer": {"a": {"type": "integer", "value": "x"}}}, [("footer.a.value", "type", "error")]),
        ("AMQP/1.0", {"message-annotations": []}, [("message-annotations", "structure", "error")]),
        ("AMQP/1.0", {"header": {"priority": 256}}, [("header.priority", "range", "error")]),
        ("MQTT/3.1.1", {"message_expiry_interval": 1}, [("message_expiry_interval", "version", "error")]),
        ("MQTT/3.1.1", {"qos": 3}, [("qos", "range", "error")]),
        ("MQTT/5.0", {"topic_name": "a/+/b"}, [("topic_name", "wildcard", "error")]),
        ("MQTT/5.0", {"topic_name": "a/{+b}"},
            [("topic_name", "uritemplate", "error"), ("topic_name", "wildcard", "error")]),
        ("MQTT/5.0", {"topic_name": "{a}{b}"}, [("topic_name", "adjacent", "warning")]),
        ("MQTT/5.0", {"payload_format": 0, "payload_format_indicator": 1}, [("payload_format", "alias", "error")]),
        ("MQTT/5.0", {"user_properties": [{"value": "x"}]}, [("user_properties", "structure", "error")]),
        ("KAFKA", {"key": "a", "key_base64": "YQ=="}, [("key_base64", "exclusive", "error")]),
        ("KAFKA", {"key_base64": "?"}, [("key_base64", "type", "error")]),
        ("KAFKA", {"partition": -1}, [("partition", "range", "error")]),
        ("KAFKA", {"headers": {"a": {"name": "b"}}}, [("headers.a.name", "mismatch", "error")]),
        ("KAFKA", {"topic": "{a-b}"}, [("topic", "uritemplate", "error")]),
        ("NATS", {"subject": "a.>"}, [("subject", "wildcard", "error")]),
        ("NATS", {"reply": "a", "reply-to": "b"}, [("reply", "alias", "error")]),
        ("HTTP", {"path": "/a/{b*}"}, [("path", "uritemplate", "error")]),
    ],
)  # fmt: skip
def test_lint_reports_findings_of_options(
    protocol: str, options: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    """F.7, F-24, F-26, F-53: topic names are templates."""
    assert found(protocol, options) == expected


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("HTTP", {"headers": [{"name": "Content-Type", "value": "a/c"}]}),
        ("KAFKA", {"headers": {"content-type": {"name": "content-type", "value": "a/c"}}}),
        ("NATS", {"headers": [{"name": "content-type", "value": "a/c"}]}),
        ("AMQP/1.0", {"properties": {"content-type": {"value": "a/c"}}}),
        ("MQTT/5.0", {"content_type": "a/c"}),
    ],
)
def test_content_types(protocol: str, options: dict[str, Any]) -> None:
    """The content types must be equal, except that of an envelope around the payload (F-14)."""
    definition = {"protocol": protocol, "protocoloptions": options, "datacontenttype": "a/b"}
    assert "mismatch" in {finding.rule for finding in lint(definition)}
    for same in ("a/c", "A/C", None):
        assert "mismatch" not in {finding.rule for finding in lint({**definition, "datacontenttype": same})}


_AVRO: dict[str, Any] = {"dataschemaformat": "Avro/1.11", "dataschema": "string"}
_JSON_EVENT = "application/cloudevents+json"
_STRUCTURED = {"envelope": "CloudEvents/1.0", "envelopemetadata": {}, "envelopeoptions": {"mode": "structured"}}


@pytest.mark.parametrize(
    ("indicator", "definition", "is_wrong"),
    [
        (1, _AVRO, True),
        (0, _AVRO, False),
        (1, {"dataschemaformat": "Protobuf/3", "dataschema": ""}, True),
        (1, {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {}}, False),
        (1, {}, False),
        (1, {**_AVRO, "datacontenttype": "application/json"}, False),
        (1, {**_AVRO, "protocoloptions": {"content_type": "application/json"}}, False),
        (1, {**_AVRO, **_STRUCTURED}, False),
        (1, {**_AVRO, **_STRUCTURED, "envelopeoptions": {"format": "application/cloudevents+avro"}}, True),
        (1, {**_STRUCTURED, "envelopeoptions": {"mode": "binary", "format": "application/cloudevents+avro"}}, False),
        (1, {**_AVRO, **_STRUCTURED, "envelopeoptions": {"mode": "binary", "format": _JSON_EVENT}}, True),
    ],
)
@pytest.mark.parametrize("name", ["payload_format", "payload_format_indicator"])
def test_text_indicator_of_binary_payloads(
    name: str, indicator: int, definition: dict[str, Any], is_wrong: bool
) -> None:
    """A definition cannot promise text for payloads that its format makes binary (K-13)."""
    options = {**definition.get("protocoloptions", {}), name: indicator}
    findings = lint({**definition, "protocol": "MQTT/5.0", "protocoloptions": options})
    # An event format in binary mode is an error itself.
    others = [("envelopeoptions.format", "exclusive", "error")]
    expected = [(f"protocoloptions.{name}", "text", "warning")] if is_wrong else []
    reported = [(finding.path, finding.rule, finding.severity) for finding in findings]
    assert [entry for entry in reported if entry not in others] == expected
