from typing import Any

import pytest
from tests.messages.builders import define, make_contract, make_event

from signalbook.messages import Message
from signalbook.messages.bindings import kafka
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.cloudevents import Mode
from signalbook.messages.producing.building import OutboundError, build
from signalbook.messages.producing.sending import bind, validate_outbound
from signalbook.values import dump_json

METADATA = {"type": {"value": "t"}, "source": {"value": "/shops/{shop}", "type": "uritemplate"}}
EVENT: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": METADATA}
# An endpoint per protocol, and what it makes a message carry.
ENDPOINTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "HTTP": (
        {"method": "PUT", "headers": [{"name": "X-Till", "value": "{till}"}], "query": {"q": "1"},
         "endpoints": [{"uri": "https://h.example/in/{shop}"}, {"uri": "https://other.example"}]},
        {"method": "PUT", "path": "/in/7%2F8", "headers.x-till": ("t1",), "query.q": ("1",)},
    ),
    "KAFKA": (
        {"topic": "orders", "key": "{shop}", "headers": {"till": "{till}"}, "acks": 1,
         "endpoints": [{"bootstrap.servers": ["h:9092"]}]},
        {"topic": "orders", "key": "7%2F8", "headers.till": ("t1",)},
    ),
    "NATS": ({"subject": "shops.{shop}.{till}"}, {"subject": "shops.7%2F8.t1"}),
    "MQTT/3.1.1": ({"topic": "shops/{shop}/{till}", "qos": 1, "retain": True},
        {"topic_name": "shops/7%2F8/t1", "qos": 1, "retain": True}),
    "MQTT/5.0": ({"topic": "shops/{shop}/{till}", "qos": 1}, {"topic_name": "shops/7%2F8/t1", "qos": 1}),
    "AMQP/1.0": ({"node": "shops/{shop}/{till}", "durable": True},
        {"properties.to": "shops/7%2F8/t1", "header.durable": True}),
}  # fmt: skip


def values(message: Message) -> dict[str, Any]:
    binding = find_binding(message.protocol)
    assert binding is not None
    return dict(binding.values(message))


def mode(message: Message) -> Mode:
    binding = find_binding(message.protocol)
    assert binding is not None
    return binding.mode(message, binding.values(message))


@pytest.mark.parametrize("stated", ["binary", "structured", ""])
@pytest.mark.parametrize("protocol", ENDPOINTS)
def test_endpoint_determines_mode_and_options(protocol: str, stated: str) -> None:
    """K-53, H-14, H-16 to H-20"""
    options, expected = ENDPOINTS[protocol]
    endpoint = {"protocol": protocol, "envelopeoptions": {"mode": stated}, "protocoloptions": options}
    outbound = build(define(**EVENT), {"shop": "7/8"}, {"n": 1})
    if (protocol, stated) == ("MQTT/3.1.1", "binary"):
        with pytest.raises(OutboundError, match="cannot be sent in binary mode"):
            bind(outbound, endpoint, {"till": "t1"})
        return
    message = bind(outbound, endpoint, {"till": "t1"} if "{till}" in str(options) else {})
    assert {name: value for name, value in values(message).items() if name in expected} == expected
    expected_mode = Mode.STRUCTURED if protocol == "MQTT/3.1.1" else Mode(stated or "binary")
    assert (message.protocol, mode(message)) == (protocol, expected_mode)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endpoints": [{"uri": "amqps://h.example/queues/a"}]}, "queues/a"),
        ({"endpoints": [{"uri": "amqps://h.example/queues/a"}], "node": "b"}, "b"),
        ({"endpoints": [{"uri": "amqps://h.example"}]}, None),
        ({"endpoints": [{"uri": "amqps://[h/a"}]}, None),
    ],
)
def test_the_address_of_a_node(options: dict[str, Any], expected: str | None) -> None:
    """The address is the path of the URI, unless there is a node (H-17)."""
    outbound = build(define(**EVENT), {"shop": "7"})
    assert values(bind(outbound, {"protocol": "AMQP", "protocoloptions": options})).get("properties.to") == expected


def test_the_message_overrides_its_endpoint() -> None:
    """The values are those of the endpoint "unless overridden by the message", names in any case (K-53)."""
    options = {"path": "/own", "headers": [{"name": "x-till", "value": "own"}]}
    definition = define(**EVENT, protocol="HTTP", protocoloptions=options, envelopeoptions={"mode": "structured"})
    endpoint = {"protocol": "HTTP/1.1", "envelopeoptions": {"mode": "binary"}, "protocoloptions": ENDPOINTS["HTTP"][0]}
    message = bind(build(definition, {"shop": "7"}), endpoint)
    carried = values(message)
    assert (carried["path"], carried["headers.x-till"], carried["method"]) == ("/own", ("own",), "PUT")
    assert mode(message) is Mode.STRUCTURED


@pytest.mark.parametrize(
    ("members", "endpoint", "expected"),
    [
        ({}, {}, "application/cloudevents+json"),
        ({}, {"protocol": "KAFKA", "envelopeoptions": {"format": "application/cloudevents+avro"}},
         "application/cloudevents+avro"),
        ({"envelopeoptions": {"mode": "structured", "format": "application/cloudevents+protobuf"}},
         {"protocol": "NATS", "envelopeoptions": {"mode": "structured", "format": "application/cloudevents+avro"}},
         "application/cloudevents+protobuf"),
        ({"datacontenttype": "application/cloudevents+json; charset=utf-8"}, {"protocol": "HTTP"},
         "application/cloudevents+json; charset=utf-8"),
        ({"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"content-type": {
            "value": "application/cloudevents+json"}}}}, None, "application/cloudevents+json"),
    ],
)  # fmt: skip
def test_event_formats(members: dict[str, Any], endpoint: Any, expected: str) -> None:
    """K-53, F-14, F-34"""
    message = bind(build(define(**EVENT, **members), {"shop": "7"}, {"n": 1}), endpoint)
    assert (message.content_type, mode(message)) == (expected, Mode.STRUCTURED)


@pytest.mark.parametrize(
    ("members", "endpoint", "context", "complaint"),
    [
        ({"protocol": "KAFKA"}, {"protocol": "NATS"}, {}, "they must be the same"),
        ({}, {"envelope": "CloudEvents/2.0"}, {}, "the endpoint states envelope"),
        ({}, {"protocol": "SMTP"}, {}, "no binding for SMTP"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"acks": 1}}, {}, "says the topic"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"topic": "a{b}"}}, {}, "needs b"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"topic": "a{b}"}}, {"b": "c/d"}, "no topic of Kafka"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"topic": 5}}, {}, "must be a string"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}, {"x": "1"}, "has a placeholder x"),
        ({}, {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}, {"shop": "1"}, "stands for '7' already"),
        ({}, {"protocol": "MQTT/3.1.1", "envelopeoptions": {"format": "application/cloudevents+avro"}}, {}, "only"),
        ({}, {"protocol": "HTTP", "envelopeoptions": {"format": "application/cloudevents+xml"}}, {}, "no decoder"),
        ({"protocol": "HTTP", "envelopeoptions": {"mode": "structured"},
          "protocoloptions": {"headers": [{"name": "Content-Type", "value": "application/json"}]}}, None, {},
         "read as none"),
        ({"protocol": "HTTP", "protocoloptions": {"headers": [{"name": "X", "value": "a\r\nb"}]}}, None, {},
         "no value of a header"),
    ],
)  # fmt: skip
def test_unsuitable_message_is_rejected_by_the_endpoint(
    members: dict[str, Any], endpoint: Any, context: dict[str, str], complaint: str
) -> None:
    """K-53, H-6, H-8, H-14"""
    outbound = build(define(**EVENT, **members), {"shop": "7"}, {"n": 1})
    with pytest.raises(OutboundError, match=complaint):
        bind(outbound, endpoint, context)


def test_native_message_is_bound() -> None:
    """A message without an envelope has no mode (K-53)."""
    definition = define(protocol="MQTT/5.0", protocoloptions={"topic_name": "a/{b}"})
    message = bind(build(definition, {"b": "+/#"}, {"n": 1}))
    assert values(message) == {"topic_name": "a/%2B%2F%23", "content_type": "application/json"}
    assert (message.body, mode(message)) == (b'{"n":1}', Mode.NONE)


ORDER: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "order"}},
    "dataschema": {"type": "object", "required": ["n"]},
    "dataschemaformat": "JsonSchema/draft-07",
}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"data": {"n": 1}}, None),
        ({"data": {}}, "schema_violation"),
        ({}, "schema_violation"),
        ({"type": "other", "data": {"n": 1}}, "unknown_kind"),
        ({"id": None, "data": {"n": 1}}, "invalid_cloudevent"),
    ],
)
@pytest.mark.parametrize("policy", [{}, {"on_no_match": "pass", "on_schema_violation": "tag"}, {"on_no_match": "drop"}])
def test_only_conforming_messages_can_be_sent(
    policy: dict[str, Any], members: dict[str, Any], reason: str | None
) -> None:
    """The policy for incoming messages does not matter (K-3, K-54)."""
    contract = make_contract({"order": ORDER}, **policy)
    refusals = validate_outbound(make_event(**{"type": "order", **members}), contract)
    if reason == "unknown_kind" and policy:
        reason = "no_match"  # messages that are passed or dropped have no reason
    assert [refusal.reason.value for refusal in refusals] == ([] if reason is None else [reason])
    assert all(refusal.violations for refusal in refusals)


def test_removed_definition_cannot_be_sent() -> None:
    """K-33, K-54"""
    order = {**ORDER, "deprecated": {"removal": "2020-01-01T00:00:00Z"}}
    contract = make_contract({"order": order}, on_removed="accept")
    (refusal,) = validate_outbound(make_event(type="order", data={"n": 1}), contract)
    assert refusal.reason == "metadata_violation"


def test_every_event_of_a_batch_has_to_conform() -> None:
    """Every event of a batch must conform (K-54)."""
    head = {"specversion": "1.0", "id": "1", "source": "/", "type": "order"}
    events = [{**head, "data": data} for data in ({"n": 1}, {})]
    message = Message(content_type="application/cloudevents-batch+json", body=dump_json(events))
    (refusal,) = validate_outbound(message, make_contract({"order": ORDER}))
    assert refusal.message.body == dump_json(events[1])


@pytest.mark.parametrize(("protocol", "refused"), [("Kafka", False), ("", False), ("NATS", True)])
def test_an_endpoint_takes_its_own_protocol(protocol: str, refused: bool) -> None:
    """K-54, H-8"""
    contract = make_contract({"order": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}})
    assert bool(validate_outbound(kafka.record("t", b"{}"), contract, {"protocol": protocol})) is refused


@pytest.mark.parametrize("envelope", [{}, EVENT])
def test_binary_payload_cannot_be_marked_as_text(envelope: dict[str, Any]) -> None:
    """A receiver would reject such a message (K-43), so it is not built, except as a structured event in JSON."""
    options = {"topic_name": "a", "payload_format_indicator": 1}
    definition = define(**envelope, protocol="MQTT/5.0", protocoloptions=options)
    context = {"shop": "7"} if envelope else {}
    overrides = {"datacontenttype": "application/octet-stream"} if envelope else {}
    outbound = build(definition, context, b"\xff", overrides)
    text = "payload_format_indicator: .*byte 0 is not UTF-8: for binary payloads .* must be 0 or left out"
    with pytest.raises(OutboundError, match=text):
        bind(outbound)
    assert bind(build(definition, context, "\u00fc".encode(), overrides)).sections["payload_format_indicator"] == 1
    if envelope:
        structured = {"protocol": "MQTT/5.0", "envelopeoptions": {"mode": "structured"}}
        assert b"data_base64" in (bind(outbound, structured).body or b"")
