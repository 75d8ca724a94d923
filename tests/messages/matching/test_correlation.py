from typing import Any

import pytest
from tests.messages.builders import make_contract, make_event

from signalbook.messages import Accepted, Message
from signalbook.messages.bindings import amqp, kafka, mqtt
from signalbook.messages.matching.outcome import Correlation, correlate

REPLY: dict[str, Any] = {"relatedto": "question", "relation": "reply"}
QUESTION = "/messagegroups/g/messages/question"


def correlation(definition: dict[str, Any], message: Message) -> Correlation | None:
    (outcome,) = make_contract({"answer": definition}).process(message)
    assert isinstance(outcome, Accepted), outcome
    return correlate(outcome)


@pytest.mark.parametrize("inreplyto", ["q1", None])
def test_events(inreplyto: str | None) -> None:
    """An attribute contains the id of the other event (C-17, K-49)."""
    definition = {"envelope": "CloudEvents/1.0", "relatedvia": "inreplyto", **REPLY}
    expected = Correlation(key="q1", field="id", related=QUESTION, relation="reply") if inreplyto else None
    assert correlation(definition, make_event(inreplyto=inreplyto)) == expected


@pytest.mark.parametrize(
    ("via", "sections", "expected"),
    [
        ("properties.correlationid", {"properties": {"correlation-id": "q1"}}, ("q1", "properties.message-id")),
        ("properties.groupid", {"properties": {"group-id": "g1"}}, ("g1", "properties.group-id")),
        ("applicationproperties.of", {"application-properties": {"of": 5}}, ("5", "properties.message-id")),
        ("properties.correlationid", {}, None),
        ("footer.of", {"footer": {"of": "q1"}}, None),
    ],
)
def test_amqp(via: str, sections: Any, expected: tuple[str, str] | None) -> None:
    """C-17, K-49"""
    result = correlation({"protocol": "AMQP/1.0", "relatedvia": via, **REPLY}, amqp.message(b"", sections))
    assert (None if result is None else (result.key, result.field)) == expected


@pytest.mark.parametrize(
    ("via", "sections"),
    [
        ("publish.correlationdata", {"correlation_data": b"q1"}),
        ("userproperty.of", {"user_properties": (("of", "q1"), ("of", "q2"))}),
    ],
)
def test_mqtt(via: str, sections: Any) -> None:
    """C-17, K-49"""
    definition = {"protocol": "MQTT/5.0", "relatedvia": via, "relatedto": "question"}
    result = correlation(definition, mqtt.publish(mqtt.V5, b"", {"topic_name": "t", **sections}))
    assert result == Correlation(key="q1", field="correlation_data", related=QUESTION, relation="")


def test_messages_without_relation() -> None:
    """Messages without a declared relation or without its value have no correlation (K-49)."""
    assert correlation({"envelope": "CloudEvents/1.0"}, make_event()) is None
    definition = {"protocol": "KAFKA", "relatedvia": "properties.correlationid", **REPLY}
    assert correlation(definition, kafka.record("t", b"")) is None
