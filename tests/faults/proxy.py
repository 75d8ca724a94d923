"""A TCP proxy with faults: ``python -m tests.faults.proxy UPSTREAM PORT...``.

Each port leads to the same place, a port or a socket's path. Lines of standard input, ``LINK WHAT [SECONDS]``, say what
happens to the connections of the link with that number, from 0: ``pass``, ``delay`` each piece of data by so many
seconds, ``stall`` all data until something else is said, ``reset`` every connection, or ``hole``: what is sent is taken
and lost, and so is every connection that was there meanwhile, for good, without either side being told. Each line is
answered with one, once it holds.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress

import uvloop

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_PIECE = 65536


class Link:
    """A port of the proxy."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._mode = "pass"
        self._seconds = 0.0
        self._changed = asyncio.Event()
        self._connections: set[Connection] = set()

    def set(self, mode: str, seconds: float) -> None:
        """Begin a fault, or end it."""
        self._mode, self._seconds = mode, seconds
        self._changed.set()
        self._changed = asyncio.Event()
        for connection in list(self._connections):
            if mode == "reset":
                connection.reset()
            elif mode == "hole":
                connection.lost = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from a server."""
        connection = Connection(writer)
        self._connections.add(connection)
        try:
            if self._mode == "reset":
                connection.reset()
                return
            if self._mode == "hole":
                connection.lost = True
                await self._swallow(reader)
                return
            with suppress(OSError):
                further, back = await self._connect()
                connection.writers.append(back)
                await asyncio.gather(self._pump(reader, back, connection), self._pump(further, writer, connection))
        finally:
            self._connections.discard(connection)
            connection.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream.isdigit():
            return await asyncio.open_connection("127.0.0.1", int(self._upstream))
        return await asyncio.open_unix_connection(self._upstream)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection) -> None:
        try:
            while piece := await reader.read(_PIECE):
                await self._hold()
                if not connection.lost:
                    writer.write(piece)
                    await writer.drain()
        except (OSError, RuntimeError):  # the latter of uvloop, where the other side was closed meanwhile
            pass
        # Nobody is told that the other side of a lost connection has gone.
        if not connection.lost:
            connection.close()

    async def _hold(self) -> None:
        while self._mode == "stall":
            await self._changed.wait()
        if self._mode == "delay":
            await asyncio.sleep(self._seconds)

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while await reader.read(_PIECE):
                pass


class Connection:
    """The two sides of a connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.lost = False

    def reset(self) -> None:
        """End it as a machine does that knows nothing of it."""
        for writer in self.writers:
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    def close(self) -> None:
        """End it."""
        for writer in self.writers:
            writer.close()


async def main(upstream: str, ports: list[int]) -> None:
    """Run until standard input ends."""
    links = [Link(upstream) for _ in ports]
    for link, port in zip(links, ports, strict=True):
        await asyncio.start_server(link.serve, "127.0.0.1", port)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        number, mode, *seconds = line.decode().split()
        links[int(number)].set(mode, float(seconds[0]) if seconds else 0.0)
        print(flush=True)  # noqa: T201


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], [int(port) for port in sys.argv[2:]]))
