"""Servers that tests start: on ports that are apart for each process of a test run."""

from __future__ import annotations

import os
from typing import Final

from signalbook.demo.program import PORTS, Ports, Program

__all__ = ["Broker", "Ports"]

_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
_SHARE: Final = len(PORTS) // 8


class Broker(Program):
    """A server whose ports nobody takes while it is down: no other process of the run draws from among them."""

    def open(self, among: range = PORTS[_WORKER * _SHARE : (_WORKER + 1) * _SHARE]) -> None:
        """Start it on ports of this process's own. Raises ``NotStarted``."""
        super().open(among)
