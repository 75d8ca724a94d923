"""A web hook that costs next to nothing: it notes when each event came, and tells so at ``GET /``.

python benchmarks/events/sink.py PORT
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import datetime

import uvloop

AGREED = b"HTTP/1.1 200 OK\r\nWebHook-Allowed-Origin: *\r\nContent-Length: 0\r\n\r\n"
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


class Sink(asyncio.Protocol):
    """One connection. Requests come one after the other, each in whatever pieces."""

    got: list[tuple[float, bytes]] = []  # noqa: RUF012 - of all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            _, found, length = head.partition(b"content-length:")
            size = int(length.split(b"\r\n", 1)[0]) if found else 0
            if len(self._data) < end + 4 + size:
                return
            body, self._data = self._data[end + 4 : end + 4 + size], self._data[end + 4 + size :]
            self._transport.write(self._answer(head, body))  # type: ignore[attr-defined]

    def _answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"options"):
            return AGREED
        if head.startswith(b"get"):
            told = json.dumps(arrivals(self.got)).encode()
            self.got.clear()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(told), told)
        self.got.append((time.time(), body))
        return TAKEN


def arrivals(got: list[tuple[float, bytes]]) -> list[tuple[float, float, str]]:
    """When each event came, its own time, which is the begin of the transaction, both in seconds, and its subject."""
    events = [(when, json.loads(body)) for when, body in got]
    return [(when, datetime.fromisoformat(event["time"]).timestamp(), event["subject"]) for when, event in events]


async def serve(port: int) -> None:
    """Until killed."""
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
