from __future__ import annotations

import pytest

from signalbook.messages.message import Message
from signalbook.messages.payloads import payload
from signalbook.messages.payloads.payload import Payload


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/vnd.x+json", b"[]", []),
        ("", b"5", 5),
        ("text/plain", b"5", payload.UNSET),
        ("application/json", b"{", payload.UNSET),
        ("application/json", None, payload.UNSET),
    ],
)
def test_json_is_decoded_where_it_is_json(content_type: str, body: bytes | None, expected: object) -> None:
    """K-30"""
    payload = Payload(Message(body=body, content_type=content_type), None)
    payload.decode_json()
    assert payload.value == expected
