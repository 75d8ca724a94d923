"""The command line and servers in this process, and servers in others."""

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.serving import answers, kept_port, serving_in_thread

from signalbook.cli import main
from signalbook.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    def ended(self, code: int, err: str = "", out: str = "") -> bool:
        """Return True if the command ended with this exit code, and its two outputs contain ``err`` and ``out``."""
        return self.code == code and err in self.err and out in self.out

    def reported(self, code: int, err: str) -> bool:
        """Return True if the command ended with this exit code, and printed ``err`` to standard error alone."""
        return self.ended(code, err) and self.out == ""


Cli = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a folder of its own, with no settings from outside, on a wide screen without colours."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SIGNALBOOK_")]:
        monkeypatch.delenv(name)
    for name, value in {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Run one command line: ``cli("import", "x.json")``; ``stdin`` is what standard input holds."""

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["signalbook", *(str(argument) for argument in arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        code: Any = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(code=code, out=out.decode(), err=err.decode())

    return run


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., str]]:
    """Start a server with these settings in a thread of this process, and return its URL; it is stopped at the end."""
    with ExitStack() as servers:
        yield lambda **settings: servers.enter_context(serving_in_thread(Settings(port=0, **settings)))


@pytest.fixture(scope="session")
def serve_process() -> Iterator[Callable[..., Server]]:
    """Start ``signalbook serve`` with more options on a port of its own; it is stopped at the end."""
    started: list[subprocess.Popen[bytes]] = []
    ports = ExitStack()

    def start(*options: object) -> Server:
        port = ports.enter_context(kept_port())
        command = [sys.executable, "-m", "signalbook", "serve", "--port", port, *options]
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        while not answers(url):
            assert process.poll() is None, "the server ended"
        return Server(url, process)

    with ports:
        yield start
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=300)


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def commit(*paths: str) -> None:
    """Make the current folder a repository, and commit the files at these paths."""
    git("init", "-q")
    git("add", *paths)
    git("commit", "-qm", "first")


@pytest.fixture(scope="session")
def server(serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a server with the shipped model, shared by tests that leave no trace in each other's groups."""
    folder = tmp_path_factory.mktemp("server")
    return serve(db=f"sqlite:///{folder / 'registry.db'}", max_body_bytes=2_000_000)


@pytest.fixture(params=["db", "server"])
def target(request: pytest.FixtureRequest, server: str) -> tuple[str, ...]:
    """Options that name a new database, and those that name the shared server."""
    return ("--server", server) if request.param == "server" else ("--db", "sqlite:///r.db")


@pytest.fixture(scope="module")
def served(serve: Callable[..., str]) -> str:
    """The URL of a server with a database in memory, for the tests of a module."""
    return serve(db="sqlite://")


@pytest.fixture(params=["database", "server"])
def where(request: pytest.FixtureRequest, cli: Cli) -> list[str]:
    """Options that name a registry with what the test's module has as ``YAML``."""
    options = ["--server", request.getfixturevalue("served")] if request.param == "server" else []
    assert cli("import", "-", *options, stdin=request.module.YAML).code == 0
    return options


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < deadline, "the condition does not come true"
        time.sleep(0.05)


def cut_short(monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """Make file replacements fail after `moves` of them."""
    real, remaining = Path.replace, iter(range(moves))

    def replace(self: Path, target: Path) -> Path:
        if next(remaining, None) is None:
            raise OSError(28, "cut short")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
