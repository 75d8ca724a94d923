"""Servers that tests start: on ports that are apart for each process of a test run."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Final

from signalbook.demo.program import Ports, Program

__all__ = ["Broker", "Ports"]

# Beside those of the demonstration, below what systems give to outgoing connections.
_FIRST: Final = 20_000 + 1500 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8)
_OWN: Final = range(_FIRST, _FIRST + 1500)


class Broker(Program):
    """A server whose ports nobody takes while it is down: no other process of the run draws from among them."""

    def open(self, among: range = _OWN) -> None:
        """Start it on ports of this process's own. Raises ``NotStarted``."""
        super().open(among)

    def kill(self) -> None:
        """Kill it as it is, with no time for anything, and wait until it is gone."""
        assert self._kept is not None
        os.killpg(self._kept.pid, signal.SIGKILL)
        self.stop()
        deadline = time.monotonic() + 300
        while any(map(_listens, self.ports.values())):
            assert time.monotonic() < deadline, f"{self.name} does not die"
            time.sleep(0.05)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
