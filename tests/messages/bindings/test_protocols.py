"""A message of each protocol finds its definition, as an event and without being one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signalbook.messages import Accepted, Contract, Message
from signalbook.messages.bindings import amqp, kafka, mqtt, nats
from signalbook.messages.bindings.registry import find_binding
from signalbook.messages.cloudevents import CloudEvent, Mode
from signalbook.values import JSONObject

ContractOf = Callable[..., Contract]
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
EVENT = CloudEvent(
    attributes={"specversion": "1.0", "id": "1", "source": "/shops/7", "type": "order", "subject": "größe"},
    value={"n": 1},
)


def accepted(contract: Contract, message: Message) -> Accepted:
    (outcome,) = contract.process(message)
    assert isinstance(outcome, Accepted), outcome
    return outcome


@pytest.mark.parametrize("protocol", OPTIONS)
def test_a_message_that_is_no_event(protocol: str, contract_of: ContractOf) -> None:
    """K-26.4, K-27: topic, key and headers tell; what is about delivery does not."""
    definition = {"protocol": protocol, "protocoloptions": OPTIONS[protocol], **SCHEMA}
    found = accepted(contract_of({"order": definition}), NATIVE[protocol](b'{"n":1}'))
    assert found.context["shop"] == "7"
    assert found.data == {"n": 1}
    (refused,) = contract_of({"order": definition}).process(NATIVE[protocol](b'{"n":"x"}'))
    assert getattr(refused, "reason", None) == "schema_violation"


@pytest.mark.parametrize("mode", [Mode.STRUCTURED, Mode.BINARY])
@pytest.mark.parametrize("protocol", OPTIONS)
def test_a_message_that_is_an_event(protocol: str, mode: Any, contract_of: ContractOf) -> None:
    """K-5, K-23: as it was encoded."""
    binding = find_binding(protocol)
    assert binding is not None
    metadata = {"type": {"value": "order"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"}}
    contract = contract_of({"order": {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, **SCHEMA}})
    found = accepted(contract, binding.encode(EVENT, mode))
    assert found.event is not None
    assert {**found.event.attributes, **EVENT.attributes} == dict(found.event.attributes)
    assert (found.context, found.data) == ({"shop": "7"}, {"n": 1})


def test_an_event_is_made_of_a_record_that_is_none(contract_of: ContractOf) -> None:
    """K-35: its id is the place in the log."""
    metadata = {"type": {"value": "order"}, "source": {"type": "uritemplate", "value": "/shops/{shop}"}}
    options = {"topic": "shops.{shop}"}
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "protocol": "KAFKA"}
    contract = contract_of({"order": {**definition, "protocoloptions": options}}, native_mapping=True)
    found = accepted(contract, kafka.record("shops.7", b"{}", partition=3, offset=4))
    assert found.event is not None
    assert (found.event.attributes["id"], found.event.attributes["source"]) == ("shops.7/3/4", "/shops/7")
