"""Real servers on ports of their own, links between them that can be cut, and registries to compare."""

import base64
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import httpx
from tests.serving import answers, kept_port, serving_in_thread

from signalbook.client import Client
from signalbook.client.remote import RemoteRegistry
from signalbook.errors import SignalbookError
from signalbook.replication.copying import Copy
from signalbook.replication.link import LABEL, Link, Scope
from signalbook.replication.replicating import Replication, StateStore, keep_up
from signalbook.replication.report import CopyReport
from signalbook.settings import Settings, option_for

PATIENCE: Final = 300.0
FORMAT: Final = "JsonSchema/draft-07"
HTTP: Final = httpx.Client(timeout=PATIENCE, verify=False, headers={"Connection": "close"})
_STAMPS: Final = frozenset({"epoch", "modifiedat", "createdat"})
_URIS: Final = frozenset({"authority", "globaluri"})


def wait_until(is_done: Callable[[], bool]) -> None:
    """Look again and again, for no more than half of the time: looking keeps those busy who are waited for."""
    deadline = time.monotonic() + PATIENCE
    began = time.monotonic()
    while not is_done():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(max(0.1, time.monotonic() - began))
        began = time.monotonic()


@dataclass(slots=True)
class Server:
    """A server in a thread of this process that can be stopped and started again, always at the same URL."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    port: int = field(init=False)
    _kept: ExitStack = field(init=False, default_factory=ExitStack)
    _running: ExitStack = field(init=False, default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.port = self._kept.enter_context(kept_port())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings of the server, with those that every server here has."""
        defaults = {"port": self.port, "base_url": self.url, "db": f"sqlite:///{self.folder / 'registry.db'}"}
        return defaults | self.settings

    def start(self) -> None:
        """Start it, until it answers."""
        self._running.enter_context(serving_in_thread(Settings(**self.all_settings)))

    def stop(self) -> None:
        """End it, if it runs; it can be started again."""
        self._running.close()

    def end(self) -> None:
        """End it for good."""
        self.stop()
        self._kept.close()

    # Its registry

    def send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        answer = HTTP.request(method, self.url + path, **sent)
        assert answer.is_success, answer.text
        return answer

    def patch(self, body: Any) -> None:
        self.send("PATCH", "/?ignore=epoch", json=body)

    def status(self, path: str) -> int:
        return HTTP.get(self.url + path).status_code

    def content(self) -> dict[str, Any]:
        """Return all Groups with their descendants, without the attributes in which copies differ."""
        document = self.send("GET", "/?inline=*&doc&binary").json()
        return {name: plain(document[name]) for name in ("endpoints", "messagegroups", "schemagroups")}


@dataclass(slots=True)
class ServerProcess(Server):
    """A server in a process of its own, or in several, that can be killed."""

    process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def start(self) -> None:
        command = [sys.executable, "-m", "signalbook", "serve"]
        for name, value in self.all_settings.items():
            for element in value if isinstance(value, tuple) else (value,):
                command += [option_for(name), str(element)]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not answers(self.url):
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not start"

    def kill(self) -> None:
        """End it with all its processes, at once."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(300)
            except subprocess.TimeoutExpired:
                self.kill()


def plain(value: Any) -> Any:
    """An entity without epochs, times, and where it came from."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {name: plain(item) for name, item in value.items() if name not in _STAMPS | _URIS}
    labels = {name: text for name, text in members.pop("labels", {}).items() if name != LABEL}
    return {**members, "labels": labels} if labels else members


@dataclass(slots=True)
class Cable:
    """A way to a server that can be cut: at once, or when so many bytes have gone either way."""

    to: int
    port: int = 0
    left: int | None = None
    _listener: socket.socket = field(default_factory=socket.socket)
    _open: set[socket.socket] = field(default_factory=set)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self, *, after: int = 0) -> None:
        """Let ``after`` more bytes through, then nothing until it is mended."""
        with self._counting:
            self.left = after
        if not after:
            for sock in list(self._open):
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._counting:
            self.left = None

    def _let_through(self, data: bytes) -> bytes:
        with self._counting:
            if self.left is not None:
                data, self.left = data[: self.left], max(0, self.left - len(data))
            return data

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.left == 0:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.to), timeout=PATIENCE)
            except OSError:
                near.close()
                continue
            for origin, other in ((near, far), (far, near)):
                self._open.add(origin)
                threading.Thread(target=self._pump, args=(origin, other), daemon=True).start()

    def _pump(self, origin: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := origin.recv(65536):
                part = self._let_through(data)
                other.sendall(part)
                if len(part) < len(data):
                    break
        for end in (origin, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.discard(origin)
        origin.close()


def link(source: Server, target: Server, scope: Scope | None = None, authorities: tuple[str, ...] = ()) -> Link:
    with Client(source.url, timeout=PATIENCE) as client:
        bases = RemoteRegistry(client).bases()
    return Link(source=source.url, target=target.url, scope=scope or Scope(), bases=bases, authorities=authorities)


def copy(source: Server, target: Server, *, over: str = "", **options: Any) -> CopyReport:
    """Copy everything from one server to another, reached at the URL ``over``."""
    report = CopyReport()
    with Client(source.url, timeout=PATIENCE) as ours, Client(over or target.url, timeout=PATIENCE) as theirs:
        Copy(RemoteRegistry(ours), RemoteRegistry(theirs), link(source, target, **options), report).everything()
    return report


def version(text: str = '{"type": "object"}', **more: Any) -> dict[str, Any]:
    document = base64.b64encode(text.encode()).decode()
    return {"format": FORMAT, "contenttype": "application/schema+json; x=1", "schemabase64": document, **more}


def schemas(*names: str, **more: Any) -> dict[str, Any]:
    """Return schemas of one Version with ``more`` attributes."""
    return {name: {"versions": {"1": version(**more)}} for name in names}


class Following:
    """A replication at work in a thread, until the block ends. ``errors`` are what it met with on the way."""

    def __init__(self, source: Server, target: Server, state: StateStore, *, ours: str = "", theirs: str = "") -> None:
        self.report = CopyReport()
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._link = link(source, target)
        self._urls = ours or source.url, theirs or target.url
        self._state = state
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with Client(self._urls[0], timeout=PATIENCE) as ours, Client(self._urls[1], timeout=PATIENCE) as theirs:
            sides = RemoteRegistry(ours), RemoteRegistry(theirs)
            begin = partial(Copy, *sides, self._link, self.report)
            keep_up(Replication(sides[0], begin, self._link, self._state), self._stop, self._failed)

    def _failed(self, error: SignalbookError | None) -> None:
        self.errors += [] if error is None else [str(error)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
