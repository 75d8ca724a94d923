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

_START_SECONDS: Final = 300
_STOP_SECONDS: Final = 300
_TRIES: Final = 5
_TAKEN: Final = "choose another --host or --port"


class RegistryNotStarted(SignalbookError):
    """The server process did not come up; the message holds what it said."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run ``signalbook serve`` on a free port with its database in ``folder``; yields its URL, stops it at the end."""
    process, url = _start(folder)
    try:
        yield url
    finally:
        _stop(process)


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The server once it answers. A port that another program took in between is given up for the next one."""
    log = folder / "registry.log"
    for tried in range(1, _TRIES + 1):
        port = _free_port()
        command = [sys.executable, "-m", "signalbook", "serve", "--port", str(port), "--registry-id", "demo"]
        command += ["--db", f"sqlite:///{folder / 'registry.db'}"]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
        url = f"http://127.0.0.1:{port}"
        try:
            _await(process, url, log)
            break
        except BaseException as error:
            _stop(process)
            if tried == _TRIES or not isinstance(error, RegistryNotStarted) or _TAKEN not in str(error):
                raise
    return process, url


def _stop(process: subprocess.Popen[bytes]) -> None:
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
            if httpx.get(f"{url}/health/ready", timeout=10).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RegistryNotStarted(f"the registry server did not start; it said:\n{log.read_text(errors='replace').strip()}")
