"""Servers that tests start: on ports that are apart for each process of a test run."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.brokers.certificates import Certificates

from signalbook.demo.program import NotStarted, Ports, Program

__all__ = ["Broker", "Ports", "StartBroker", "with_and_without_tls"]

# Beside those of the demonstration, below what systems give to outgoing connections. The last ones are for the servers
# that workers share.
_FIRST: Final = 20_000 + 1500 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw7").removeprefix("gw")) % 8)
_OWN: Final = range(_FIRST, _FIRST + 1500)


class Broker(Program):
    """A server whose ports nobody takes while it is down: no other process of the run draws from among them."""

    def open(self, among: range = _OWN) -> None:
        """Start it on ports of this process's own. Raises ``NotStarted``."""
        super().open(among)

    def start(self) -> None:
        """Start it again, where it was before. Raises ``NotStarted``."""
        if not self._run():
            raise NotStarted(f"{self.name} does not start again; the end of {self.log}:\n{self.said}")

    def kill(self) -> None:
        """Kill it as it is, with no time for anything, and wait until it is gone."""
        assert self._kept is not None
        os.killpg(self._kept.pid, signal.SIGKILL)
        self.stop()
        deadline = time.monotonic() + 300
        while any(map(_listens, self.ports.values())):
            assert time.monotonic() < deadline, f"{self.name} does not die"
            time.sleep(0.05)


StartBroker = Callable[[str], Broker]
"""Starts a broker by its name in ``tests.brokers.servers``."""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def with_and_without_tls(
    handler: type[BaseHTTPRequestHandler], certificates: Certificates
) -> Iterator[tuple[int, int]]:
    """The ports of two servers of this process, the second one with TLS, until the end of the block."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain, certificates.key)
    servers[1].socket = context.wrap_socket(servers[1].socket, server_side=True, do_handshake_on_connect=False)
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield servers[0].server_port, servers[1].server_port
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
