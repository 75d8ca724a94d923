from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import CompiledDefinition, Message
from signalbook.messages.bindings.base import find_binding
from signalbook.messages.cloudevents import Mode
from signalbook.messages.producing.building import OutboundError, build
from signalbook.messages.producing.sending import bind

Define = Callable[..., CompiledDefinition]
EVENT: dict[str, Any] = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "t"}, "source": {"value": "/shops/{shop}", "type": "uritemplate"}},
}
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
    "MQTT/3.1.1": (
        {"topic": "shops/{shop}/{till}", "qos": 1, "retain": True},
        {"topic_name": "shops/7%2F8/t1", "qos": 1, "retain": True},
    ),
    "MQTT/5.0": ({"topic": "shops/{shop}/{till}", "qos": 1}, {"topic_name": "shops/7%2F8/t1", "qos": 1}),
    "AMQP/1.0": (
        {"node": "shops/{shop}/{till}", "durable": True},
        {"properties.to": "shops/7%2F8/t1", "header.durable": True},
    ),
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
def test_an_endpoint_says_how_and_where_to(define: Define, protocol: str, stated: str) -> None:
    """K-53, H-14, H-16 to H-20"""
    options, expected = ENDPOINTS[protocol]
    endpoint = {"protocol": protocol, "envelopeoptions": {"mode": stated}, "protocoloptions": options}
    outbound = build(define(**EVENT), {"shop": "7/8"}, {"n": 1})
    if (protocol, stated) == ("MQTT/3.1.1", "binary"):
        with pytest.raises(OutboundError, match="cannot be sent in binary mode"):
            bind(outbound, endpoint, {"till": "t1"})
        return
    found = bind(outbound, endpoint, {"till": "t1"} if "{till}" in str(options) else {})
    assert {name: value for name, value in values(found).items() if name in expected} == expected
    wanted = Mode.STRUCTURED if protocol == "MQTT/3.1.1" else Mode(stated or "binary")
    assert (found.protocol, mode(found)) == (protocol, wanted)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endpoints": [{"uri": "amqps://h.example/queues/a"}]}, "queues/a"),
        ({"endpoints": [{"uri": "amqps://h.example/queues/a"}], "node": "b"}, "b"),
        ({"endpoints": [{"uri": "amqps://h.example"}]}, None),
        ({"endpoints": [{"uri": "amqps://[h/a"}]}, None),
    ],
)
def test_the_address_of_a_node(define: Define, options: dict[str, Any], expected: str | None) -> None:
    """H-17: the path of the URI, unless there is a node."""
    outbound = build(define(**EVENT), {"shop": "7"})
    assert values(bind(outbound, {"protocol": "AMQP", "protocoloptions": options})).get("properties.to") == expected


def test_the_message_overrides_its_endpoint(define: Define) -> None:
    """K-53: "unless overridden by the message", names of headers in any case."""
    options = {"path": "/own", "headers": [{"name": "x-till", "value": "own"}]}
    definition = define(**EVENT, protocol="HTTP", protocoloptions=options, envelopeoptions={"mode": "structured"})
    endpoint = {"protocol": "HTTP/1.1", "envelopeoptions": {"mode": "binary"}, "protocoloptions": ENDPOINTS["HTTP"][0]}
    found = bind(build(definition, {"shop": "7"}), endpoint)
    carried = values(found)
    assert (carried["path"], carried["headers.x-till"], carried["method"]) == ("/own", ("own",), "PUT")
    assert mode(found) is Mode.STRUCTURED


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
def test_event_formats(define: Define, members: dict[str, Any], endpoint: Any, expected: str) -> None:
    """K-53, F-14, F-34"""
    found = bind(build(define(**EVENT, **members), {"shop": "7"}, {"n": 1}), endpoint)
    assert (found.content_type, mode(found)) == (expected, Mode.STRUCTURED)


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
def test_what_an_endpoint_does_not_take(
    define: Define, members: dict[str, Any], endpoint: Any, context: dict[str, str], complaint: str
) -> None:
    """K-53, H-6, H-8, H-14"""
    outbound = build(define(**EVENT, **members), {"shop": "7"}, {"n": 1})
    with pytest.raises(OutboundError, match=complaint):
        bind(outbound, endpoint, context)


def test_a_message_that_is_no_event(define: Define) -> None:
    """K-53"""
    definition = define(protocol="MQTT/5.0", protocoloptions={"topic_name": "a/{b}"})
    found = bind(build(definition, {"b": "+/#"}, {"n": 1}))
    assert values(found) == {"topic_name": "a/%2B%2F%23", "content_type": "application/json"}
    assert (found.body, mode(found)) == (b'{"n":1}', Mode.NONE)
