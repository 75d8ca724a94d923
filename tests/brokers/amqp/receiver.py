"""The other end of a link: takes messages from an address, so that tests see what was sent there."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any

from signalbook.brokers.amqp.connection import ATTACH, DETACH, DISPOSITION, FLOW, TRANSFER, WINDOW, AMQPConnection
from signalbook.brokers.amqp.messages import AMQPMessage, DescribedValue, Ubyte, Uint, Ulong, sections, split_body


def from_bytes(data: bytes) -> AMQPMessage:
    """The message that ``data`` holds, read as sources do; annotations and footers are passed over."""
    around, body = split_body(data)
    parts = sections(around)
    return AMQPMessage(
        body=body,
        properties=parts.get("properties", {}),
        application_properties=parts.get("application-properties", {}),
        durable=bool(parts.get("header", {}).get("durable")),
    )


class SocketStream:
    """A socket as the connection wants it, that waits long."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 300)

    def __enter__(self) -> SocketStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def read(self, max_bytes: int) -> bytes:
        return self.socket.recv(max_bytes)

    def write(self, buffer: bytes) -> None:
        self.socket.sendall(buffer)

    def limit(self, seconds: float | None = None) -> None: ...

    def encrypt(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.socket.close()


class Receiver:
    """Takes messages one by one and accepts them."""

    def __init__(self, port: int, address: str) -> None:
        self._stream = SocketStream(port)
        self._connection = AMQPConnection(self._stream, host="127.0.0.1", container="receiver")
        source = DescribedValue(Ulong(0x28), [address])
        target = DescribedValue(Ulong(0x29), ["receiver"])
        self._connection.send(ATTACH, "receiver", Uint(0), True, Ubyte(0), Ubyte(0), source, target)
        self.attached: list[Any] = self._connection.expect(ATTACH)
        self._credit()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._stream:
            self._connection.send(DETACH, Uint(0), True)
            self._connection.close(drain=True)

    def take(self) -> AMQPMessage:
        """The next message, once it is there."""
        content = b""
        while True:
            code, fields, payload = self._connection.receive()
            if code != TRANSFER:
                continue
            content += payload
            if len(fields) < 6 or not fields[5]:
                number = Uint(fields[1])
                self._connection.send(DISPOSITION, True, number, number, True, DescribedValue(Ulong(0x24), []))
                return from_bytes(content)

    def _credit(self) -> None:
        window = (Uint(0), Uint(WINDOW), Uint(0), Uint(WINDOW))
        self._connection.send(FLOW, *window, Uint(0), Uint(0), Uint(1000))
