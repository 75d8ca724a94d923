"""Servers that tests start: on free ports, in a folder of their own, and gone when the tests are."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

# Below what systems give to outgoing connections, and apart for each process of a test run, so that nobody takes a port
# while its server is down.
_FIRST: Final = 20_000 + 1500 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8)
_PORTS: Final = range(_FIRST, _FIRST + 1500)
_KEEPER: Final = Path(__file__).with_name("keeper.py")
_PATIENCE: Final = 300.0

Ports = Mapping[str, int]
Configure = Callable[[Path, Ports], Sequence[str]]
"""Writes what the server wants to find in a folder, for these ports; returns the command that starts it there."""


@dataclass(slots=True)
class Broker:
    """A server that can be stopped and started again; ``ports`` by what they are for.

    ``ready`` is what it says in its log once it serves.
    """

    name: str
    folder: Path
    configure: Configure
    ready: str
    listeners: tuple[str, ...]
    ports: dict[str, int] = field(default_factory=dict)
    _keeper: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it said since it was last started."""
        return self.folder / "log"

    def open(self) -> None:
        """Start it on ports that are free, others if somebody was faster."""
        for attempt in range(5):
            self.ports = dict(zip(self.listeners, _free(len(self.listeners)), strict=True))
            if self._run():
                return
            if "in use" not in self.log.read_text(errors="replace") or attempt == 4:
                break
        pytest.fail(f"{self.name} does not start: {self.log.read_text(errors='replace')[-4000:]}", pytrace=False)

    def start(self) -> None:
        """Start it again, where it was before."""
        assert self._run(), self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """Stop it, if it runs; what it stored stays."""
        if self._keeper is None:
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper = None

    def _run(self) -> bool:
        command = self.configure(self.folder, self.ports)
        with self.log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, _KEEPER, *command], cwd=self.folder, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _PATIENCE
        while self._keeper.poll() is None and time.monotonic() < deadline:
            if self.ready in self.log.read_text(errors="replace"):
                return True
            time.sleep(0.05)
        self.stop()
        return False


def _free(count: int) -> list[int]:
    found: list[int] = []
    candidates = random.Random()
    while len(found) < count:
        port = candidates.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
