"""A registry server of the demonstration's own, as a process beside it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from signalbook.errors import SignalbookError

_START_SECONDS: Final = 30
_STOP_SECONDS: Final = 20


class RegistryNotStarted(SignalbookError):
    """The server process did not come up; the message holds what it said."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run ``signalbook serve`` on a free port with its database in ``folder``; yields its URL, stops it at the end."""
    port = _free_port()
    log = folder / "registry.log"
    command = [sys.executable, "-m", "signalbook", "serve", "--port", str(port), "--registry-id", "demo"]
    command += ["--db", f"sqlite:///{folder / 'registry.db'}"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
    try:
        _await(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=_STOP_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RegistryNotStarted(f"the registry server did not start; it said:\n{log.read_text(errors='replace').strip()}")
