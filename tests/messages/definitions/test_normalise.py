from typing import Any

import pytest

from signalbook.messages.definitions import normalise
from signalbook.values import JSONObject

TYPE = {"type": {"value": "t"}}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({"envelope": "cloudevents/1.0"}, {"envelope": "CloudEvents/1.0"}, id="F-39"),
        pytest.param({"protocol": "HTTP/1.1"}, {"protocol": "HTTP"}, id="K-11-protocol"),
        pytest.param({"basemessage": "/m/1"}, {"basemessageuri": "/m/1"}, id="F-57-basemessage"),
        pytest.param({"basemessageurl": "/m/1"}, {"basemessageuri": "/m/1"}, id="F-57-basemessageurl"),
        pytest.param(
            {"basemessageuri": "/m/1", "basemessage": "/m/1"}, {"basemessageuri": "/m/1"}, id="F-57-twice-the-same"
        ),
        pytest.param({"envelopemetadata": {"attributes": TYPE}}, {"envelopemetadata": TYPE}, id="F-38-F-36"),
        pytest.param({"envelopeoptions": {"mode": "binary", **TYPE}},
            {"envelopeoptions": {"mode": "binary"}, "envelopemetadata": TYPE}, id="F-38-F-37"),
        pytest.param({"envelopemetadata": {"ext": {"value": 5, "type": "integer"}, "flag": {"value": True}}},
            {"envelopemetadata": {"ext": {"value": "5", "type": "integer"}, "flag": {"value": "true"}}}, id="F-41"),
        pytest.param(
            {
                "id": "m", "format": "CloudEvents/1.0",
                "metadata": {"attributes": {"time": {"type": "datetime", "value": "01-01-0000T00:00:00Z"},
                                            "x": {"type": "var"}}},
                "schemaformat": "Avro/1.9", "schemaurl": "#/schemagroups/g/schemas/s",
            },
            {
                "messageid": "m", "envelope": "CloudEvents/1.0",
                "envelopemetadata": {"time": {"type": "timestamp", "value": "0000-01-01T00:00:00Z"},
                                     "x": {"type": "any"}},
                "dataschemaformat": "Avro/1.9", "dataschemauri": "#/schemagroups/g/schemas/s",
            },
            id="I-6-cereg",
        ),
        pytest.param({"format": "Kafka"}, {"protocol": "KAFKA"}, id="I-6-format-is-a-protocol"),
        pytest.param({"format": "own", "envelope": "Own/1"}, {"format": "own", "envelope": "Own/1"}, id="F-50-format"),
        pytest.param({"config": {"protocol": "http", "strict": False, "options": {"method": "PUT"}}},
            {"protocol": "HTTP", "protocoloptions": {"method": "PUT"}}, id="I-6-config"),
        pytest.param({"protocol": "HTTP", "protocoloptions": {"query": {"a": "1"}}},
            {"protocol": "HTTP", "protocoloptions": {"query": [{"name": "a", "value": "1"}]}}, id="K-11-query"),
    ],
)  # fmt: skip
def test_one_canonical_form(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    """Normalising results in one canonical form, which is stable (K-11)."""
    definition, findings = normalise.normalise(raw)
    assert definition == expected
    assert findings == []
    assert normalise.normalise(definition) == (expected, [])


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"basemessage": "/a", "basemessageuri": "/b"}, id="F-57"),
        pytest.param({"envelopemetadata": TYPE, "envelopeoptions": {"type": {"value": "other"}}}, id="F-38"),
        pytest.param({"schemaformat": "A/1", "dataschemaformat": "B/1"}, id="I-6"),
        pytest.param({"protocol": "HTTP", "protocoloptions": {"headers": 5}}, id="shape"),
    ],
)
def test_contradictions_are_errors(raw: dict[str, Any]) -> None:
    """F-38, F-57"""
    assert [finding.severity for finding in normalise.normalise(raw)[1]] == ["error"]


def test_the_original_is_left_alone() -> None:
    raw = {"basemessage": "/a", "envelopemetadata": {"attributes": TYPE}}
    normalise.normalise(raw)
    assert raw == {"basemessage": "/a", "envelopemetadata": {"attributes": TYPE}}


def test_attribute_named_attributes_is_unchanged() -> None:
    """Only an object of objects is lifted (F-36)."""
    raw = {"envelopemetadata": {"attributes": {"value": "x"}}}
    assert normalise.normalise(raw)[0] == raw


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HTTP/1.1", "HTTP"), ("http", "HTTP"), ("HTTP/3", "HTTP"), ("AMQP", "AMQP/1.0"), ("amqp/1.0", "AMQP/1.0"),
        ("MQTT", "MQTT/5.0"), ("mqtt/3.1.1", "MQTT/3.1.1"), ("Kafka", "KAFKA"), ("Nats", "NATS"), ("smtp/1", "SMTP/1"),
        ("None", ""), ("none", ""),
    ],
)  # fmt: skip
def test_protocol_names(name: str, expected: str) -> None:
    """F-6, F-39, H-8, K-11"""
    assert normalise.canonical_protocol(name) == expected
    assert normalise.is_known_protocol(name) is (expected != "SMTP/1")


@pytest.mark.parametrize("raw", [{"protocol": "None"}, {"config": {"protocol": "none"}}, {"format": "None"}])
def test_no_protocol(raw: JSONObject) -> None:
    """The default of the message model up to 1.0-rc1: a definition inherits the protocol of its base."""
    assert normalise.normalise(raw) == ({}, [])


@pytest.mark.parametrize(("name", "expected"), [("cloudevents/1.0", "CloudEvents/1.0"), ("Own/2", "Own/2")])
def test_envelope_names(name: str, expected: str) -> None:
    """F-5, F-39"""
    assert normalise.canonical_envelope(name) == expected
