"""What a connection makes of a peer that does not keep to the protocol, or says no."""

import struct
from typing import Any

import pytest

from signalbook.brokers.amqp.connection import BEGIN, CLOSE, DETACH, OPEN, AMQPConnection, AMQPEnded
from signalbook.brokers.amqp.messages import DescribedValue, Symbol, Ulong, Ushort, encode
from signalbook.brokers.connection import BrokerError

SASL = b"AMQP\x03\x01\x00\x00"
AMQP = b"AMQP\x00\x01\x00\x00"


def frame(kind: int, code: int, *fields: Any) -> bytes:
    body = encode(DescribedValue(Ulong(code), list(fields)))
    return struct.pack("!IBBH", len(body) + 8, 2, kind, 0) + body


ANONYMOUS = SASL + frame(1, 0x40, [Symbol("ANONYMOUS")]) + frame(1, 0x44, 0)
OPENED = ANONYMOUS + AMQP + frame(0, OPEN, "peer") + frame(0, BEGIN, Ushort(0), 0, 100)
HEARTBEAT = struct.pack("!IBBH", 8, 2, 0, 0)


class Scripted:
    """A peer that has said all it has to say."""

    def __init__(self, received: bytes) -> None:
        self._said = received
        self.heard = b""

    def read(self, max_bytes: int) -> bytes:
        # In pieces, as a network may.
        piece, self._said = self._said[:7], self._said[7:]
        return piece

    def write(self, buffer: bytes) -> None:
        self.heard += buffer

    def limit(self, seconds: float | None = None) -> None: ...

    def encrypt(self) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


def connected(received: bytes, **more: str) -> AMQPConnection:
    return AMQPConnection(Scripted(received), host="broker.example", container="tests", **more)


def test_valid_peer_is_connected() -> None:
    stream = Scripted(OPENED)
    connection = AMQPConnection(stream, host="broker.example", container="tests")
    assert (connection.window, connection.max_frame) == (100, 65_536)
    assert stream.heard.startswith(SASL)
    assert encode("broker.example") in stream.heard


def test_frames_without_a_body_keep_a_connection_up() -> None:
    assert connected(OPENED + HEARTBEAT * 3 + frame(0, OPEN, "x")).receive()[:2] == (OPEN, ["x"])


def test_password_is_sent_if_plain_is_requested() -> None:
    received = SASL + frame(1, 0x40, Symbol("PLAIN")) + frame(1, 0x44, 0) + OPENED[len(ANONYMOUS) :]
    stream = Scripted(received)
    AMQPConnection(stream, host="broker.example", container="tests", user="alice", password="secret")
    assert b"\0alice\0secret" in stream.heard


@pytest.mark.parametrize(
    ("received", "complaint"),
    [
        (AMQP, "does not speak AMQP 1.0"),
        (b"HTTP/1.1 400 ", "does not speak AMQP 1.0"),
        (b"", "hung up"),
        (SASL + frame(1, 0x40, Symbol("EXTERNAL")), "does not offer the SASL mechanism ANONYMOUS"),
        (SASL + frame(1, 0x40), "does not offer the SASL mechanism"),
        (SASL + frame(1, 0x40, [Symbol("ANONYMOUS")]) + frame(1, 0x44, 1), "does not take anybody without a user"),
        (SASL + frame(0, 0x40, [Symbol("ANONYMOUS")]), "a frame that is none"),
        (SASL + b"\0\0\0\x07\x02\x01\0\0", "a frame that is none"),
        (SASL + b"\0\0\0\x09\x03\x01\0\0", "a frame that is none"),
        (SASL + b"\x7f\xff\xff\xff\x02\x01\0\0", "a frame that is none"),
        (SASL + b"\0\0\0\x09\x02\x01\0\0\x40", "no performative"),
        (ANONYMOUS + AMQP + frame(0, BEGIN, Ushort(0)), "where 0x10 has to come"),
        (ANONYMOUS + AMQP + frame(0, OPEN, "peer", None, 100), "fewer than AMQP demands"),
        (OPENED[:-30], "hung up"),
    ],
)
def test_protocol_violation_of_the_peer_is_an_error(received: bytes, complaint: str) -> None:
    with pytest.raises(BrokerError, match=complaint):
        connected(received)


@pytest.mark.parametrize(
    ("fields", "message", "condition"),
    [
        ([], "the broker ended the connection", ""),
        (
            [DescribedValue(Ulong(0x1D), [Symbol("amqp:connection:forced"), "good night"])],
            "the broker ended the connection: amqp:connection:forced good night",
            "amqp:connection:forced",
        ),
        ([DescribedValue(Ulong(0x1D), "nonsense")], "the broker ended the connection", ""),
    ],
)
def test_reason_of_a_closed_connection_is_reported(fields: list[Any], message: str, condition: str) -> None:
    with pytest.raises(AMQPEnded) as caught:
        connected(OPENED + frame(0, CLOSE, *fields)).receive()
    assert (str(caught.value), caught.value.condition) == (message, condition)


def test_reason_of_a_detached_link_is_reported() -> None:
    error = DescribedValue(Ulong(0x1D), [Symbol("amqp:not-found"), "x" * 5000])
    with pytest.raises(AMQPEnded, match=r"^the broker ended the link: amqp:not-found x+$") as caught:
        connected(OPENED + frame(0, DETACH, 0, True, error)).receive()
    assert len(str(caught.value)) < 600
