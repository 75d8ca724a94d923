"""Servers that tests start: on ports that are apart for each process of a test run."""

from __future__ import annotations

import os
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
