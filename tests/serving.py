"""Servers that tests start in processes of their own, and ports for them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

BIN = Path(sys.executable).parent


@contextmanager
def kept_port() -> Iterator[int]:
    """A port of 127.0.0.1 for a server of the test: nobody else is given it, before the server listens or after.

    What keeps it is bound and does not listen, which leaves the port to programs that say SO_REUSEADDR and name it, as
    servers do, and to no other.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])


@contextmanager
def serving(folder: Path, *options: str, program: Sequence[str] = (str(BIN / "signalbook"),)) -> Iterator[str]:
    """The URL of ``signalbook serve`` with ``options`` in ``folder``; it answers, until the end of the block."""
    with kept_port() as port:
        command = [*program, "serve", "--port", str(port), *options]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            while not answers(url):
                assert process.poll() is None, "the server ended"
            yield url
        finally:
            process.terminate()
            process.wait(300)


def answers(url: str) -> bool:
    """Whether the server at ``url`` is ready; after a moment, if it is not."""
    try:
        if httpx.get(f"{url}/health/ready", timeout=60).is_success:
            return True
    except httpx.TransportError:
        pass
    time.sleep(0.05)
    return False
