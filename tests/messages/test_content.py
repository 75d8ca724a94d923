import gzip
import weakref
import zlib

import pyarrow as pa
import pytest

from signalbook.messages import content
from signalbook.messages.message import Message


@pytest.mark.parametrize(
    ("declared", "actual", "expected"),
    [
        ("text/plain; charset=utf-8", "TEXT/Plain;CharSet=UTF-8", True),
        ("application/json", "application/json; charset=utf-8", True),  # more parameters than declared
        ("application/json; charset=utf-8", "application/json", False),
        ("multipart/x; boundary=A", "multipart/x; boundary=a", False),
        ('a/b; p="q"', "a/b;p=q", True),
        ("application/json", "text/json", False),
    ],
)
def test_declared_parameters_are_a_required_subset(declared: str, actual: str, expected: bool) -> None:
    """F-14, K-20"""
    assert content.same_content_type(declared, actual) is expected


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("JSONSchema/Draft-07", "application/json"),
        ("JsonStructure/draft-04", "application/json"),
        ("XSD/1.1", "application/xml"),
        ("XMLSchema/1.1", "application/xml"),
        ("Avro/1.11", "application/avro"),
        ("Protobuf/3", "application/protobuf"),
        ("Own/1", ""),
    ],
)
def test_a_schema_format_implies_a_content_type(format: str, expected: str) -> None:
    """The format of a schema implies a content type (F-33)."""
    assert content.implied_content_type(format) == expected


@pytest.mark.parametrize(
    ("implied", "actual", "expected"),
    [
        ("application/json", "application/vnd.x+json; v=1", True),
        ("application/xml", "text/xml", True),
        ("application/xml", "image/svg+xml", True),
        ("application/avro", "avro/binary", True),
        ("application/avro", "application/vnd.apache.avro", True),
        ("application/protobuf", "application/x-protobuf", True),
        ("application/protobuf", "application/vnd.google.protobuf", True),
        ("application/avro", "application/json", True),
        ("application/protobuf", "application/vnd.x+json", True),
        ("application/xml", "application/json", False),
        ("application/json", "text/plain", False),
    ],
)
def test_an_implied_type_has_several_names(implied: str, actual: str, expected: bool) -> None:
    """An implied content type is accepted by all its names (F-33)."""
    assert content.is_implied(implied, actual) is expected


class Text(str):
    """Text that can be seen to be gone."""


def test_long_texts_are_not_remembered() -> None:
    """Thousands of megabytes would be."""
    text = Text("text/plain;x=" + "y" * 1000)
    seen = weakref.ref(text)
    assert content.same_content_type("text/plain", text)
    assert not content.is_implied("application/xml", text)
    del text
    assert seen() is None


GZIP = gzip.compress(b"text", mtime=0)


def arrow(codec: str, data: bytes = b"text") -> bytes:
    compressed: bytes = pa.Codec(codec).compress(data, asbytes=True)
    return compressed


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", GZIP),
        ("X-GZIP", GZIP),
        ("gzip", gzip.compress(b"te", mtime=0) + gzip.compress(b"xt", mtime=0)),
        ("deflate", zlib.compress(b"text")),
        ("br", arrow("brotli")),
        ("zstd", arrow("zstd")),
        ("deflate, identity, gzip", gzip.compress(zlib.compress(b"text"), mtime=0)),
        ("identity", b"text"),
        ("", b"text"),
    ],
)
def test_content_encodings_are_undone(encoding: str, body: bytes) -> None:
    """Encoded content is decompressed (K-40)."""
    assert content.unpack_message(Message(body=body, content_encoding=encoding)).body == b"text"


@pytest.mark.parametrize(
    ("encoding", "body", "reason"),
    [
        ("compress", b"x", "unsupported_format"),
        ("gzip, " * 5, GZIP, "unsupported_format"),
        ("gzip", b"x", "decode_error"),
        ("gzip", GZIP[:-4], "decode_error"),
        ("gzip", GZIP + b"more", "decode_error"),
        ("deflate", zlib.compress(b"text")[:-1], "decode_error"),
        ("br", b"\xff" * 9, "decode_error"),
        ("zstd", arrow("zstd")[:-1], "decode_error"),
    ],
)
def test_invalid_encoded_bodies_are_rejected(encoding: str, body: bytes, reason: str) -> None:
    """K-40, K-44"""
    with pytest.raises(content.Unreadable) as caught:
        content.unpack_message(Message(body=body, content_encoding=encoding))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(bytes(100_000), mtime=0)),
        ("gzip", gzip.compress(bytes(900), mtime=0) * 2),
        ("br", arrow("brotli", bytes(100_000))),
        ("zstd", arrow("zstd", bytes(100_000))),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(100_000), mtime=0), mtime=0)),
    ],
)
def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch, encoding: str, body: bytes) -> None:
    monkeypatch.setattr(content, "MAX_DECOMPRESSED", 1000)
    with pytest.raises(content.Unreadable, match="more than 1000 bytes"):
        content.unpack_message(Message(body=body, content_encoding=encoding))


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_members_end_anywhere_in_what_zlib_is_given(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(content, "_PIECE", size)
    members = [bytes([number]) * number for number in range(200)]
    body = b"".join(gzip.compress(member, mtime=0) for member in members)
    assert content.unpack_message(Message(body=body, content_encoding="gzip")).body == b"".join(members)


def test_members_of_nothing_take_no_more_time_than_their_bytes() -> None:
    """Zlib copies the remaining input after each member; if this were the whole body, the test would take minutes."""
    assert (
        content.unpack_message(Message(body=gzip.compress(b"", mtime=0) * 200_000, content_encoding="gzip")).body == b""
    )


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "Deflate, gzip", "identity", ""])
def test_packed_content_can_be_unpacked(encoding: str) -> None:
    """The bytes are the same each time (K-40, K-52)."""
    message = Message(body=b"text", content_encoding=encoding)
    assert content.pack_message(message) == content.pack_message(message)
    assert content.unpack_message(content.pack_message(message)).body == b"text"
    assert (content.pack_message(message).body == b"text") == (encoding in ("", "identity"))
    assert content.pack_message(Message(body=None, content_encoding=encoding)).body is None


def test_encoding_without_an_encoder_is_an_error() -> None:
    with pytest.raises(content.Unreadable, match="no encoder for content encoding 'br'; there are: gzip"):
        content.pack_message(Message(body=b"text", content_encoding="br"))
