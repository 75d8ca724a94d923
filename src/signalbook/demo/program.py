"""Programs that run beside this one: on free ports, in a folder of their own, and gone when this one is."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from signalbook.errors import SignalbookError

# Below what systems give to outgoing connections.
_PORTS: Final = range(15_000, 20_000)
_SUPERVISOR: Final = Path(__file__).with_name("supervise.py")
_TIMEOUT_SECONDS: Final = 300.0
_TRIES: Final = 5
_TAIL: Final = 4000

Ports = Mapping[str, int]
Configure = Callable[[Path, Ports], Sequence[str]]
"""Writes what the program wants to find in a folder, for these ports; returns the command that starts it there."""


class NotStarted(SignalbookError):
    """A program did not come up; the message holds what it said."""


def keep(command: Sequence[str], folder: Path, out: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program in ``folder`` that ends with this process, however that ends, or before it by ``end``.

    It is of a group of its own: an interrupt at the terminal is for this process to pass on.
    """
    # Isolated (-I): it needs the standard library alone, and starts at once without looking for more.
    supervised = [sys.executable, "-I", str(_SUPERVISOR), *command]
    return subprocess.Popen(  # noqa: S603
        supervised, cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=errors, start_new_session=True
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program that ``keep`` started, and wait until it is gone."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


@dataclass(slots=True)
class Program:
    """A server with its own ``ports``, by their purpose. Its log contains ``ready`` once it serves."""

    name: str
    folder: Path
    configure: Configure
    ready: str
    listeners: tuple[str, ...]
    ports: dict[str, int] = field(default_factory=dict)
    _kept: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The program's output since its last start."""
        return self.folder / "log"

    @property
    def runs(self) -> bool:
        """True if the program was started and has not ended."""
        return self._kept is not None and self._kept.poll() is None

    @property
    def said(self) -> str:
        """The end of its log."""
        return self._log()[-_TAIL:].strip()

    def open(self, among: range = _PORTS) -> None:
        """Start it on ports that are free, others if somebody was faster. Raises ``NotStarted``."""
        for _ in range(_TRIES):
            self.ports = dict(zip(self.listeners, _find_free_ports(len(self.listeners), among), strict=True))
            if self._run():
                return
            if "in use" not in self._log():  # some say much more after that
                break
        raise NotStarted(f"{self.name} does not start; the end of {self.log}:\n{self.said}")

    def stop(self) -> None:
        """Stop it, if it runs; what it stored stays."""
        if self._kept is not None:
            end(self._kept)
            self._kept = None

    def _log(self) -> str:
        return self.log.read_text(errors="replace")

    def _run(self) -> bool:
        command = self.configure(self.folder, self.ports)
        with self.log.open("wb") as log:
            self._kept = keep(command, self.folder, log, log)
        up = False
        try:
            up = self._comes_up()
        finally:
            if not up:
                self.stop()
        return up

    def _comes_up(self) -> bool:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while self.runs and time.monotonic() < deadline:
            if self.ready in self._log():
                return True
            time.sleep(0.05)
        return False


def _find_free_ports(count: int, among: range) -> list[int]:
    ports: list[int] = []
    candidates = random.Random()  # noqa: S311 - nothing secret
    while len(ports) < count:
        # Not one that the system picks: it would be from the range of outgoing connections.
        port = candidates.choice(among)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
