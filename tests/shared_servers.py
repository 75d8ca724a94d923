"""Servers that all processes of a test run share: the first process starts each one when a test first asks for it."""

import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import pytest
from tests.brokers.certificates import certificates_in, issue
from tests.brokers.servers import BROKERS
from tests.postgres import FORGETFUL, Postgres

# Autovacuum would start a process for each of the hundreds of databases, again and again.
_OPTIONS = {**FORGETFUL, "max_connections": "300", "autovacuum": "off"}


class SharedServers:
    """The servers that this process has started for a test run."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self.folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="sb-servers-")))
        issue(self.folder)
        self._turn = threading.Lock()
        self._starts: dict[str, Future[Any]] = {}
        # Its threads stay to the end: PostgreSQL ends with the one that started it.
        self._pool = ThreadPoolExecutor(8)

    def find(self, name: str) -> Any:
        """Return the ports of a broker, or the URL of ``postgres``. Start the server if nobody has asked for it yet.

        Raises ``NotInstalled``, or what kept the server from starting.
        """
        with self._turn:
            if name not in self._starts:
                self._starts[name] = self._pool.submit(self._start, name)
        return self._starts[name].result()

    def _start(self, name: str) -> Any:
        if name == "postgres":  # elsewhere: another user, who cannot enter the folder, runs it
            folder = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="sb-pg-"))
            server = Postgres(Path(folder), options=_OPTIONS)
            self._opened.callback(server.stop)
            return server.url
        (self.folder / name).mkdir()
        broker = BROKERS[name](self.folder / name, certificates_in(self.folder))
        broker.open()
        # Azurite that is asked to stop waits for clients that keep their connections.
        self._opened.callback(broker.kill if name.startswith("azurite") else broker.stop)
        return broker.ports

    def serve(self) -> Path:
        """Let other processes ask, by ``RemoteServers``, and return the folder for them."""
        if not (socket := self.folder / "socket").exists():
            listener = self._opened.enter_context(Listener(str(socket)))
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return self.folder

    def _accept(self, listener: Listener) -> None:
        with suppress(OSError):  # it was closed
            while True:
                threading.Thread(target=self._answer, args=(listener.accept(),), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with connection:
            try:
                answer = self.find(connection.recv())
            except (Exception, SystemExit) as error:
                answer = error
            connection.send(answer)

    def close(self) -> None:
        """Stop all of them, and delete their files."""
        self._pool.shutdown(cancel_futures=True)
        self._opened.close()


class RemoteServers:
    """The servers of the process that started this one, which keeps their files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, name: str) -> Any:
        """Do what ``SharedServers.find`` does."""
        with Client(str(self.folder / "socket")) as connection:
            connection.send(name)
            answer = connection.recv()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Leave them to that process."""


SERVERS = pytest.StashKey[SharedServers | RemoteServers]()
