from typing import Any

import pytest

from signalbook.cncf.messagecatalog import metaschemas


@pytest.mark.parametrize(
    ("format", "stated"),
    [
        ("CloudEvents", {"envelope": "CloudEvents/1.0"}),
        ("AMQP", {"protocol": "AMQP/1.0"}),
        ("NATS", {"protocol": "NATS"}),
        ("MQTT", {"format": "MQTT"}),
        ("HTTP", {"protocol": "HTTP"}),
        ("KAFKA", {"protocol": "KAFKA"}),
        ("our own", {"format": "our own"}),
    ],
)
def test_formats_of_groups(format: str, stated: Any) -> None:
    """A group of MQTT has no protocol, because its definitions may be for either version (B-2, J-11, J-18)."""
    attributes = {name: value for name, value in metaschemas.format_attributes(format).items() if value is not None}
    assert attributes == stated
    assert metaschemas.format_of(stated) == format


@pytest.mark.parametrize(
    ("group", "format"),
    [
        ({}, "xRegistry"),
        ({"envelope": "cloudevents/1.0", "format": "MQTT"}, "CloudEvents"),
        ({"protocol": "MQTT/3.1.1"}, "MQTT"),
        ({"protocol": "http/1.1"}, "HTTP"),
        ({"envelope": "Ours/2"}, "Ours/2"),
    ],
)
def test_groups_written_as_xregistrys(group: Any, format: str) -> None:
    """The drafts' format of a group follows from its envelope and protocol (J-18)."""
    assert metaschemas.format_of(group) == format


FIRST: Any = {"publish": {"qos": 1, "topicname": "a/{b}", "retain": None}, "payload": {"dataschema": "urn:x"}}


def test_the_first_draft_writes_values_where_the_next_has_objects() -> None:
    """A null value is no field (B-10, B-11, C-5)."""
    lifted = metaschemas.to_newer_spelling("MQTT", FIRST)
    assert lifted["publish"] == {"qos": {"value": 1}, "topicname": {"value": "a/{b}"}}
    assert lifted["payload"] == {"dataschema": {"value": "urn:x"}}
    expected = {"publish": {"qos": 1, "topicname": "a/{b}"}, "payload": FIRST["payload"]}
    assert metaschemas.to_first_spelling("MQTT", lifted) == expected
    actual = metaschemas.to_newer_spelling("AMQP", {"applicationdata": {"amqpencoding": "Value"}})["applicationdata"]
    assert actual == {"amqpencoding": "Value"}


def test_features_missing_in_the_first_draft_are_omitted() -> None:
    """The first draft has no required flags, descriptions and inline schemas (B-10)."""
    definition = {"pub": {"subject": {"value": "a", "required": True, "description": "d"}, "replyto": {}}}
    inline = {"payload": {"dataschema": {"schematype": "JSON", "schema": {}}}}
    assert metaschemas.to_first_spelling("NATS", definition | inline) == {"pub": {"subject": "a", "replyto": ""}}


def test_objects_are_no_values_of_the_first_draft() -> None:
    findings = list(metaschemas.validate_spelling("NATS", {"pub": {"subject": {"value": "a"}}}))
    assert [fault.path for fault in findings] == ["pub.subject"]
