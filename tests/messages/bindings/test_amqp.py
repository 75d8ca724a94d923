from typing import Any
from uuid import UUID

import pytest
import yaml

from signalbook.messages.bindings.amqp import BINDING, message


def test_values_of_a_message() -> None:
    """K-7, K-20"""
    sections: dict[str, dict[str, Any]] = {
        "header": {"durable": True},
        "message-annotations": {"x-opt-key": "k"},
        "properties": {"message-id": 5, "subject": None, "content-type": "t/x", "content-encoding": "gzip"},
        "application-properties": {"A": 1, "a": True},
        "footer": {"sum": b"\xff"},
    }
    received = message(b"body", sections)
    assert BINDING.values(received) == {
        "header.durable": True, "message-annotations.x-opt-key": "k", "properties.message-id": 5,
        "properties.content-type": "t/x", "properties.content-encoding": "gzip", "application-properties.A": 1,
        "application-properties.a": True, "footer.sum": b"\xff",
    }  # fmt: skip
    assert (received.protocol, received.content_type, received.content_encoding) == ("AMQP/1.0", "t/x", "gzip")


@pytest.mark.parametrize(
    ("id", "identity"), [("m1", "m1"), (7, "7"), (UUID(int=1), str(UUID(int=1))), (b"\xff", "/w==")]
)
def test_message_id_is_the_identity(id: Any, identity: str) -> None:
    """The message id is the identity of a message (K-35)."""
    message_ = message(b"", {"properties": {"message-id": id}})
    assert BINDING.identity(message_, BINDING.values(message_)) == identity
    assert BINDING.identity(message(b"", {}), {}) == ""


def test_options() -> None:
    """F.7 AMQP rows: a media type is no symbol; the header is about delivery."""
    options, findings = BINDING.normalise(
        yaml.safe_load("""
        properties: {subject: {value: order}, to: {value: "shops/{shop}"},
          content-type: {value: application/json, type: symbol}, group-sequence: {value: "5"},
          creation-time: {required: true}}
        application-properties: {kind-of: {value: x}, any: {type: integer}}
        header: {durable: true, priority: 4, ttl: null}
        """)
    )
    assert findings == []
    declared = {entry.name: (entry.type, entry.role) for entry in BINDING.properties(options)}
    assert declared == {
        "properties.subject": ("string", "discriminator"),
        "properties.to": ("string", "plain"),
        "properties.content-type": ("string", "plain"),
        "properties.group-sequence": ("integer", "plain"),
        "properties.creation-time": ("timestamp", "plain"),
        "application-properties.kind-of": ("string", "discriminator"),
        "application-properties.any": ("integer", "plain"),
        "header.durable": ("boolean", "delivery"),
        "header.priority": ("integer", "delivery"),
    }
