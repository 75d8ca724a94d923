from __future__ import annotations

import pytest

from signalbook.messages.definitions.normalise import canonical_envelope, canonical_protocol, is_known_protocol


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HTTP/1.1", "HTTP"), ("http", "HTTP"), ("HTTP/3", "HTTP"), ("AMQP", "AMQP/1.0"), ("amqp/1.0", "AMQP/1.0"),
        ("MQTT", "MQTT/5.0"), ("mqtt/3.1.1", "MQTT/3.1.1"), ("Kafka", "KAFKA"), ("Nats", "NATS"), ("smtp/1", "SMTP/1"),
    ],
)  # fmt: skip
def test_protocol_names(name: str, expected: str) -> None:
    """F-6, F-39, H-8, K-11"""
    assert canonical_protocol(name) == expected
    assert is_known_protocol(name) is (expected != "SMTP/1")


@pytest.mark.parametrize(("name", "expected"), [("cloudevents/1.0", "CloudEvents/1.0"), ("Own/2", "Own/2")])
def test_envelope_names(name: str, expected: str) -> None:
    """F-5, F-39"""
    assert canonical_envelope(name) == expected
