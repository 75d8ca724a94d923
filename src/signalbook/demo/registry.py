"""A registry server of the demonstration's own, as a process beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from signalbook.demo.program import NotStarted, Ports, Program

_PATIENCE: Final = 300.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run ``signalbook serve`` on a free port with its database in ``folder``; yields its URL, stops it at the end.

    Raises ``NotStarted``.
    """
    home = folder / "registry"
    home.mkdir(exist_ok=True)
    server = Program("the registry server", home, _configure, "Signalbook serves the registry", ("http",))
    server.open()
    try:
        url = f"http://127.0.0.1:{server.ports['http']}"
        _await(server, url)
        yield url
    finally:
        server.stop()


def _configure(folder: Path, ports: Ports) -> list[str]:
    command = [sys.executable, "-m", "signalbook", "serve", "--port", str(ports["http"]), "--registry-id", "demo"]
    return [*command, "--db", f"sqlite:///{folder.absolute().parent / 'registry.db'}"]


def _await(server: Program, url: str) -> None:
    """Until it answers, which is a moment after it said that it serves."""
    deadline = time.monotonic() + _PATIENCE
    while server.runs and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health/ready", timeout=10).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise NotStarted(f"the registry server does not answer; the end of {server.log}:\n{server.said}")
