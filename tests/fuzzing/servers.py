"""The servers that are asked: open or under a policy, on either database; and what is seen of them from outside."""

import multiprocessing
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import httpx
from tests.api.conftest import bearer, put_policy
from tests.fuzzing.hostile import encoded
from tests.serving import BIN, answers, kept_port

from signalbook.storage import open_store

_RULES: Final[tuple[dict[str, Any], ...]] = (
    {"who": ["subject:writer"], "role": "writer"},
    {"who": ["subject:writer"], "allow": ["delete", "subscribe", "report"]},
    {"who": ["subject:reader"], "role": "reader"},
    {"who": ["subject:owner"], "role": "owner", "on": ["/schemagroups/g1", "/messagegroups/g1"]},
    {"who": ["authenticated"], "deny": ["read", "list"], "on": ["/schemagroups/g3", "/*/*/schemas/s4"]},
    {"who": ["anyone"], "allow": ["list"], "on": ["/schemagroups/g2"]},
)
_WRONG: Final = (
    *("Bearer x", "Bearer sbk_x_y", "Basic Og==", "Basic \xff", "Digest x", ""),
    "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.",
)
_SUBJECTS: Final = ("root", "writer", "writer", "writer", "reader", "owner")
_TICK: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server under test. ``root`` is the Authorization header of an administrator, or None if everything is allowed
    to everybody.
    """

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path
    db: str
    root: str | None
    credentials: tuple[str | None, ...] = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)

    @property
    def host(self) -> str:
        """Return the host and port for requests."""
        return f"127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        """Return a client that may do everything."""
        headers = {} if self.root is None else {"Authorization": self.root}
        return httpx.Client(base_url=f"http://{self.host}", headers=headers, timeout=120)

    def family(self) -> list[int]:
        """The processes it is, the supervisor first."""
        pids = [self.process.pid]
        for pid in pids:
            children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
            pids += map(int, children)
        return pids

    def resident(self) -> int:
        """Bytes of memory of all of them."""
        pages = 0
        for pid in self.family():
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except FileNotFoundError:  # it ended just now
                continue
        return pages * os.sysconf("SC_PAGE_SIZE")

    def settled(self, target: float = 0.0, seconds: float = 30.0) -> int:
        """Return the resident memory once it is at most ``target``, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while (memory := self.resident()) > target and time.monotonic() < deadline:
            time.sleep(0.5)
        return memory

    def repair_access(self) -> None:
        """Put the policy in force again, whatever is in force now."""
        with closing(open_store(self.db)) as store:
            put_policy(store, *_RULES)


@contextmanager
def serving(name: str, db: str, folder: Path, *, open_: bool) -> Iterator[Server]:
    """A server over a new database; under a policy unless it is ``open_``."""
    credentials: list[str | None] = [None] * 6 + list(_WRONG[:1])
    root: str | None = None
    secrets: list[bytes] = []
    if not open_:
        with closing(open_store(db)) as store:
            put_policy(store, *_RULES)
            tokens = {subject: bearer(store, subject)["Authorization"] for subject in sorted(set(_SUBJECTS))}
        root = tokens["root"]
        credentials = [None, *_WRONG, *(tokens[subject] for subject in _SUBJECTS for _ in range(3))]
        secrets = [token.rpartition("_")[2].encode() for token in tokens.values()]
        user, _, password = tokens["writer"].removeprefix("Bearer sbk_").rpartition("_")
        credentials.append(f"Basic {encoded(f'{user}:{password}'.encode())}")
    log = folder / f"{name}.log"
    with kept_port() as port, log.open("wb") as output:
        limits = ("--access", "open") if open_ else ("--limits", "off")
        beside = ("--allow-sinks", "127.0.0.1", "--sink-consent", "assumed", "--max-subscriptions", "50")
        command = [str(BIN / "signalbook"), "serve", "--port", str(port), "--db", db, *limits, *beside]
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            while not answers(f"http://127.0.0.1:{port}"):
                assert process.poll() is None, log.read_text()
            yield Server(
                name=name,
                port=port,
                process=process,
                log=log,
                db=db,
                root=root,
                credentials=tuple(credentials),
                secrets=tuple(secrets),
            )
        finally:
            process.terminate()
            process.wait(300)


@dataclass(frozen=True, kw_only=True)
class Health:
    """The duration of ``/health/live`` in milliseconds: the longest, and the shares above 10 and 100."""

    asked: int
    failed: int
    longest: float
    above_10: float
    above_100: float

    def __str__(self) -> str:
        return (
            f"/health/live {self.asked} times: {self.failed} failed, longest {self.longest:.0f} ms, "
            f"{self.above_10:.2%} above 10 ms, {self.above_100:.2%} above 100 ms"
        )


@contextmanager
def watched(port: int) -> Iterator[list[Health]]:
    """Ask for ``/health/live`` all the time, in a process of its own; what came of it is in the list at the end."""
    context = multiprocessing.get_context("spawn")
    stop, (receiver, sender) = context.Event(), context.Pipe(duplex=False)
    process = context.Process(target=_watch, args=(port, stop, sender), daemon=True)
    process.start()
    results: list[Health] = []
    try:
        yield results
    finally:
        stop.set()
        results.append(receiver.recv())
        process.join()


def _watch(port: int, stop: Event, sender: Any) -> None:
    durations, failed = [], 0
    while not stop.wait(_TICK):
        began = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if not connection.recv(1000).startswith(b"HTTP/1.1 200"):
                    failed += 1
        except OSError:
            failed += 1
        durations.append(1000 * (time.perf_counter() - began))
    count = max(len(durations), 1)
    sender.send(
        Health(
            asked=len(durations),
            failed=failed,
            longest=max(durations, default=0.0),
            above_10=sum(duration > 10 for duration in durations) / count,
            above_100=sum(duration > 100 for duration in durations) / count,
        )
    )
