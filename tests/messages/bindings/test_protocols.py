from collections.abc import Callable
from typing import Any

import pytest
from tests.messages.builders import make_contract

from signalbook.messages import Accepted, Contract, Message
from signalbook.messages.bindings import amqp, kafka, mqtt, nats
from signalbook.messages.bindings.base import Uncarriable, find_binding
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.messages.eventformats import EventError
from signalbook.values import JSONObject

SCHEMA: JSONObject = {
    "dataschema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    "dataschemaformat": "JsonSchema/draft-07",
}
OPTIONS: dict[str, JSONObject] = {
    "KAFKA": {"topic": "shops.{shop}", "key": "{order}", "headers": {"kind": "order"}, "partition": 9},
    "NATS": {"subject": "shops.{shop}.orders", "headers": [{"name": "Kind", "value": "order", "required": True}]},
    "MQTT/3.1.1": {"topic_name": "shops/{shop}/orders", "qos": 2},
    "MQTT/5.0": {"topic_name": "shops/{shop}/orders", "user_properties": [{"name": "kind", "value": "order"}]},
    "AMQP/1.0": {
        "properties": {"subject": {"value": "order", "required": True}, "to": {"value": "/shops/{shop}"}},
        "header": {"delivery-count": 0},
    },
}
PROPERTIES: dict[str, Any] = {"content-type": "application/json", "subject": "order", "to": "/shops/7"}
NATIVE: dict[str, Callable[[bytes], Message]] = {
    "KAFKA": lambda body: kafka.record("shops.7", body, [("kind", b"order")], key=b"o1", partition=3),
    "NATS": lambda body: nats.message("shops.7.orders", body, [("KIND", "order")]),
    "MQTT/3.1.1": lambda body: mqtt.publish(mqtt.V3, body, {"topic_name": "shops/7/orders", "qos": 0}),
    "MQTT/5.0": lambda body: mqtt.publish(
        mqtt.V5, body, {"topic_name": "shops/7/orders", "user_properties": (("kind", "order"),)}
    ),
    "AMQP/1.0": lambda body: amqp.message(body, {"properties": PROPERTIES, "header": {"delivery-count": 2}}),
}
HEAD: JSONObject = {"specversion": "1.0", "id": "1", "source": "/shops/7", "type": "order", "subject": "größe"}
EVENT = CloudEvent(attributes=HEAD, value={"n": 1})


def accepted(contract: Contract, message: Message) -> Accepted:
    (outcome,) = contract.process(message)
    assert isinstance(outcome, Accepted), outcome
    return outcome


@pytest.mark.parametrize("protocol", OPTIONS)
def test_native_message_is_accepted(protocol: str) -> None:
    """Topic, key and headers are compared; delivery options are not (K-26.4, K-27)."""
    definition = {"protocol": protocol, "protocoloptions": OPTIONS[protocol], **SCHEMA}
    outcome = accepted(make_contract({"order": definition}), NATIVE[protocol](b'{"n":1}'))
    assert outcome.context["shop"] == "7"
    assert outcome.data == {"n": 1}
    (refused,) = make_contract({"order": definition}).process(NATIVE[protocol](b'{"n":"x"}'))
    assert getattr(refused, "reason", None) == "schema_violation"


@pytest.mark.parametrize("mode", [Mode.STRUCTURED, Mode.BINARY])
@pytest.mark.parametrize("protocol", OPTIONS)
def test_event_message_is_accepted(protocol: str, mode: Any) -> None:
    """The event is accepted as it was encoded (K.5, K-23)."""
    binding = find_binding(protocol)
    assert binding is not None
    metadata = {"type": {"value": "order"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"}}
    contract = make_contract({"order": {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, **SCHEMA}})
    outcome = accepted(contract, binding.encode(EVENT, mode))
    assert outcome.event is not None
    assert {**outcome.event.attributes, **EVENT.attributes} == dict(outcome.event.attributes)
    assert (outcome.context, outcome.data) == ({"shop": "7"}, {"n": 1})


def test_native_record_is_mapped_to_an_event() -> None:
    """The id is the place in the log (K-35)."""
    metadata = {"type": {"value": "order"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"}}
    options = {"topic": "shops.{shop}"}
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "protocol": "KAFKA"}
    contract = make_contract({"order": {**definition, "protocoloptions": options}}, native_mapping=True)
    outcome = accepted(contract, kafka.record("shops.7", b"{}", partition=3, offset=4))
    assert outcome.event is not None
    assert (outcome.event.attributes["id"], outcome.event.attributes["source"]) == ("shops.7/3/4", "/shops/7")


CARRIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "HTTP": (
        {"path": "/a%20b", "method": "PUT", "headers.X-Kind": ("a", "b"), "headers.content-type": "t/x", "query.q": 5},
        {"path": "/a%20b", "method": "PUT", "headers.x-kind": ("a", "b"), "headers.content-type": ("t/x",),
         "query.q": ("5",)},
    ),
    "KAFKA": (
        {"topic": "shops.7", "key": "o1", "partition": 3, "headers.Kind": "é", "headers.raw": b"\xff"},
        {"topic": "shops.7", "key": "o1", "key_base64": b"o1", "partition": 3, "headers.Kind": ("é",),
         "headers.raw": (b"\xff",), "headers.content-type": ("application/json",)},
    ),
    "NATS": (
        {"subject": "shops.7", "reply-to": "_INBOX.1", "headers.Kind": "x"},
        {"subject": "shops.7", "reply-to": "_INBOX.1", "headers.kind": ("x",),
         "headers.content-type": ("application/json",)},
    ),
    "MQTT/3.1.1": ({"topic_name": "a/b", "qos": 1, "retain": True},) * 2,
    "MQTT/5.0": (
        {"topic_name": "a/b", "correlation_data": "c", "user_properties.n": 5, "payload_format_indicator": 1},
        {"topic_name": "a/b", "correlation_data": "c", "user_properties.n": ("5",), "payload_format_indicator": 1,
         "content_type": "application/json"},
    ),
    "AMQP/1.0": (
        {"properties.to": "/shops/7", "header.durable": True, "application-properties.n": 5},
        {"properties.to": "/shops/7", "header.durable": True, "application-properties.n": 5,
         "properties.content-type": "application/json"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("protocol", CARRIED)
def test_carried_values_can_be_read(protocol: str) -> None:
    """The function ``carrying`` is the inverse of ``values`` (K-23, K-37)."""
    binding, (values, read) = find_binding(protocol), CARRIED[protocol]
    assert binding is not None
    carrier = binding.carrying(binding.native(b"{}", "application/json"), values)
    assert dict(binding.values(carrier)) == read
    assert (carrier.protocol, carrier.body) == (protocol, b"{}")
    again = binding.carrying(carrier, values)
    assert dict(binding.values(again)) == read


@pytest.mark.parametrize(
    ("protocol", "values"),
    [
        ("HTTP", {"headers.x": "a\r\nHost: b"}),
        ("HTTP", {"headers.x": " a"}),
        ("HTTP", {"headers.x": "é"}),
        ("HTTP", {"headers.a b": "c"}),
        ("HTTP", {"path": "/a?b"}),
        ("HTTP", {"path": "/a b"}),
        ("HTTP", {"method": "GET it"}),
        ("HTTP", {"status": "99"}),
        ("HTTP", {"query.q": "a\x00"}),
        ("HTTP", {"topic": "a"}),
        ("KAFKA", {"topic": "a/b"}),
        ("KAFKA", {"topic": ".."}),
        ("KAFKA", {"partition": "x"}),
        ("KAFKA", {"headers.x": "\ud800"}),
        ("NATS", {"subject": "a..b"}),
        ("NATS", {"subject": "a.>"}),
        ("NATS", {"headers.x": "a\n"}),
        ("MQTT/3.1.1", {"topic_name": "a/#"}),
        ("MQTT/3.1.1", {"content_type": "t/x"}),
        ("MQTT/5.0", {"topic_name": ""}),
        ("MQTT/5.0", {"user_properties.x": "a" * 70_000}),
        ("MQTT/5.0", {"retain": "maybe"}),
        ("AMQP/1.0", {"subject": "x"}),
        ("AMQP/1.0", {"properties.subject": "\ud800"}),
        ("", {"headers.x": "a"}),
    ],
)
def test_invalid_values_are_not_carried(protocol: str, values: dict[str, Any]) -> None:
    """A value cannot leave its place (K-18)."""
    binding = find_binding(protocol)
    assert binding is not None
    with pytest.raises(Uncarriable) as caught:
        binding.carrying(binding.native(b"", ""), values)
    assert [finding.path for finding in caught.value.findings] == [f"protocoloptions.{name}" for name in values]


@pytest.mark.parametrize("format", ["application/cloudevents+avro", "application/cloudevents+protobuf; charset=utf-8"])
@pytest.mark.parametrize("protocol", ["", *CARRIED])
def test_events_in_other_formats(protocol: str, format: str) -> None:
    """The protocol can name the format (K-23)."""
    binding = find_binding(protocol)
    assert binding is not None
    if protocol in ("", "MQTT/3.1.1"):
        with pytest.raises(EventError, match="only"):
            binding.encode(EVENT, Mode.STRUCTURED, format)
        return
    contract = make_contract({"order": {"envelope": "CloudEvents/1.0"}})
    outcome = accepted(contract, binding.encode(EVENT, Mode.STRUCTURED, format))
    assert outcome.event is not None
    assert (outcome.message.content_type, outcome.event.attributes["subject"]) == (format, "größe")
