from __future__ import annotations

import gzip
import zlib

import pytest

from signalbook.messages import payloads
from signalbook.messages.message import Message
from signalbook.messages.payloads import Payload, Unreadable, unpacked
from signalbook.messages.reasons import Reason


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"text", mtime=0)),
        ("X-GZIP", gzip.compress(b"text", mtime=0)),
        ("deflate", zlib.compress(b"text")),
        ("deflate, gzip", gzip.compress(zlib.compress(b"text"), mtime=0)),
        ("identity", b"text"),
        ("", b"text"),
    ],
)
def test_content_encodings_are_undone(encoding: str, body: bytes) -> None:
    """K-40"""
    assert unpacked(Message(body=body, content_encoding=encoding)).body == b"text"


@pytest.mark.parametrize(
    ("encoding", "body", "reason"),
    [
        ("br", b"x", Reason.UNSUPPORTED_FORMAT),
        ("gzip", b"x", Reason.DECODE_ERROR),
        ("gzip", gzip.compress(b"text", mtime=0)[:-4], Reason.DECODE_ERROR),
    ],
)
def test_bodies_that_cannot_be_unpacked(encoding: str, body: bytes, reason: Reason) -> None:
    """K-40, K-44"""
    with pytest.raises(Unreadable) as caught:
        unpacked(Message(body=body, content_encoding=encoding))
    assert caught.value.reason is reason


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "MAX_DECOMPRESSED", 1000)
    with pytest.raises(Unreadable, match="more than 1000 bytes"):
        unpacked(Message(body=gzip.compress(bytes(10_000)), content_encoding="gzip"))


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/vnd.x+json", b"[]", []),
        ("", b"5", 5),
        ("text/plain", b"5", payloads.UNSET),
        ("application/json", b"{", payloads.UNSET),
        ("application/json", None, payloads.UNSET),
    ],
)
def test_json_is_decoded_where_it_is_json(content_type: str, body: bytes | None, expected: object) -> None:
    """K-30"""
    payload = Payload(Message(body=body, content_type=content_type), None)
    payload.decode_json()
    assert payload.value == expected
