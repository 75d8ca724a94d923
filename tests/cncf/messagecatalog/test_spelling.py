"""One definition in the two drafts' spellings."""

from __future__ import annotations

from typing import Any

from signalbook.cncf.messagecatalog.metaschemas import spelling_findings, to_first_spelling, to_newer_spelling

FIRST: Any = {"publish": {"qos": 1, "topicname": "a/{b}", "retain": None}, "payload": {"dataschema": "urn:x"}}


def test_the_first_draft_writes_values_where_the_next_has_objects() -> None:
    """B-10, B-11, C-5: null is no field at all."""
    lifted = to_newer_spelling("MQTT", FIRST)
    assert lifted["publish"] == {"qos": {"value": 1}, "topicname": {"value": "a/{b}"}}
    assert lifted["payload"] == {"dataschema": {"value": "urn:x"}}
    assert to_first_spelling("MQTT", lifted) == {
        "publish": {"qos": 1, "topicname": "a/{b}"},
        "payload": FIRST["payload"],
    }
    assert to_newer_spelling("AMQP", {"applicationdata": {"amqpencoding": "Value"}})["applicationdata"] == {
        "amqpencoding": "Value"
    }


def test_what_the_first_draft_cannot_write_is_left_out() -> None:
    """B-10: what is required, descriptions, inline schemas."""
    definition = {"pub": {"subject": {"value": "a", "required": True, "description": "d"}, "replyto": {}}}
    inline = {"payload": {"dataschema": {"schematype": "JSON", "schema": {}}}}
    assert to_first_spelling("NATS", definition | inline) == {"pub": {"subject": "a", "replyto": ""}}


def test_objects_are_no_values_of_the_first_draft() -> None:
    found = list(spelling_findings("NATS", {"pub": {"subject": {"value": "a"}}}))
    assert [fault.path for fault in found] == ["pub.subject"]
