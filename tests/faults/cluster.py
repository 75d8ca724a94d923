"""PostgreSQL, three servers on it, a load balancer before them, a proxy between: started, killed and started again."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import psycopg
from tests.postgres import Postgres, new_database
from tests.serving import BIN, kept_port

Program = tuple[list[str], dict[str, str]]
"""What is run, and what its environment has beside ours."""
Launch = Callable[[], Program]
PATIENCE = 120.0
SERVERS = 3
_PRESENT: Program = ([str(BIN / "signalbook"), "serve"], {})
_HAPROXY = """
global
  maxconn 2000
defaults
  mode http
  option http-keep-alive
  option redispatch
  retries 2
  timeout connect 2s
  timeout client 120s
  timeout server 120s
  timeout check 2s
frontend registry
  bind 127.0.0.1:{port}
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /health/ready
  default-server inter 500ms fall 1 rise 1
{servers}
"""


class Database(Postgres):
    """PostgreSQL as it comes, on a port of this machine, with the registry's database. It is killed and recovers."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder, port=port, options={"max_connections": "150"})
        self.registry = new_database(self.url)

    def connect(self) -> psycopg.Connection:
        """A connection past the proxy."""
        return psycopg.connect(self.registry, autocommit=True)

    def kill(self) -> None:
        """End all its processes at once."""
        self.process.send_signal(signal.SIGSTOP)  # so that it does not tidy up behind the first that dies
        children = _children(self.process.pid)
        for pid in [*children, self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        # Dead means dead: as long as one holds the shared memory, PostgreSQL does not start.
        deadline = time.monotonic() + PATIENCE
        while any(_runs(pid) for pid in children) and time.monotonic() < deadline:
            time.sleep(0.01)

    def kill_backend(self, rng: random.Random) -> bool:
        """End one process that serves a connection: all others are ended by PostgreSQL, which then recovers."""
        try:
            with self.connect() as connection:
                pids = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                ).fetchall()
            os.kill(rng.choice(pids)[0], signal.SIGKILL)
        except (psycopg.OperationalError, ProcessLookupError, IndexError):
            return False
        return True


class Server:
    """``signalbook serve`` under a supervisor that starts it again whenever it ends."""

    def __init__(self, number: int, port: int, launch: Launch, folder: Path) -> None:
        self.number = number
        self.port = port
        self.ready_since = 0.0
        """On the monotonic clock; 0 while it is not known to be ready since it was started."""
        self._launch = launch
        self._folder = folder
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def url(self) -> str:
        """Past the balancer."""
        return f"http://127.0.0.1:{self.port}"

    def _supervise(self) -> None:
        while not self._stopping:
            command, environment = self._launch()
            with (self._folder / f"server{self.number}.log").open("ab") as log:
                env = {**os.environ, **environment}
                self._process = subprocess.Popen(
                    command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True, env=env
                )
            self._started.set()
            self._process.wait()
            self.ready_since = 0.0
            # What is left of it ends by itself, and its port is free then.
            time.sleep(0.1)

    def look(self) -> bool:
        """Return True if the server is ready."""
        try:
            ready = httpx.get(f"{self.url}/health/ready", timeout=2).is_success
        except httpx.TransportError:
            ready = False
        if ready and not self.ready_since:
            self.ready_since = time.monotonic()
        return ready

    def kill(self, target: str) -> None:
        """End the ``server``, all of it, or its ``supervisor`` or ``worker`` alone."""
        process = self._process
        assert process is not None
        self.ready_since = 0.0
        with suppress(ProcessLookupError):
            if target == "server":
                os.killpg(process.pid, signal.SIGKILL)
            elif target == "supervisor":
                os.kill(process.pid, signal.SIGKILL)
            else:
                # Forked, so that it looks like the supervisor; versions before spawned it.
                command_line = _command_line(process.pid)
                workers = [pid for pid in _children(process.pid) if _command_line(pid) == command_line or _spawned(pid)]
                if not workers:
                    raise SystemExit(f"server {self.number} has no process beside its supervisor")
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)

    def replace(self) -> None:
        """End it in order, so that it is started again."""
        assert self._process is not None
        self.ready_since = 0.0
        self._process.terminate()

    def stop(self) -> None:
        """End it for good, in order."""
        self._stopping = True
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._thread.join(10)


class Proxy:
    """``tests.faults.proxy`` in a process of its own."""

    def __init__(self, upstream: str, ports: list[int]) -> None:
        command = [sys.executable, "-m", "tests.faults.proxy", upstream, *map(str, ports)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )

    def set(self, link: int, mode: str, seconds: float = 0.0) -> None:
        """Begin or end a fault. It is in force when this returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{link} {mode} {seconds}\n".encode())
        self._process.stdin.flush()
        assert self._process.stdout.readline()

    def stop(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)


class Cluster:
    """The servers, the database and the load balancer, whose address is ``url``. Restarted servers run this version if
    ``upgraded``.
    """

    def __init__(self, url: str, postgres: Database, proxy: Proxy, servers: list[Server], upgraded: set[int]) -> None:
        self.url = url
        self.postgres = postgres
        self.proxy = proxy
        self.servers = servers
        self.upgraded = upgraded

    def ready(self, enough: Callable[[list[bool]], bool] = all, patience: float = PATIENCE) -> bool:
        """Wait until ``enough`` of the servers are ready, each asked past the balancer."""
        deadline = time.monotonic() + patience
        while not enough([server.look() for server in self.servers]):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


@contextmanager
def cluster(folder: Path, sink: str, old: Program | None = None) -> Iterator[Cluster]:
    """Start everything and wait until it is ready; stop it at the end of the block. Events may be sent to ``sink``
    (HOST:PORT).

    Servers run the program ``old``, if given, until they are ``upgraded``.
    """
    balancer = shutil.which("haproxy") or "/usr/sbin/haproxy"
    if not Path(balancer).exists():
        raise SystemExit("the load balancer is missing: apt-get install haproxy")
    with ExitStack() as opened:
        ports = [opened.enter_context(kept_port()) for _ in range(2 + 2 * SERVERS)]
        front, database, links, places = ports[0], ports[1], ports[2 : 2 + SERVERS], ports[2 + SERVERS :]
        (folder / "postgres").mkdir()
        (folder / "sinks").mkdir()
        postgres = Database(folder / "postgres", database)
        opened.callback(postgres.stop)
        proxy = Proxy(str(database), links)
        opened.callback(proxy.stop)
        lines = "\n".join(f"  server s{n} 127.0.0.1:{port} check" for n, port in enumerate(places))
        (folder / "haproxy.cfg").write_text(_HAPROXY.format(port=front, servers=lines))
        servers: list[Server] = []
        upgraded: set[int] = set()

        def launch(number: int) -> Program:
            program, environment = _PRESENT if old is None or number in upgraded else old
            db = postgres.registry.replace(f":{database}/", f":{links[number]}/")
            command = [*program, "--port", str(places[number]), "--db", db, "--base-url", f"http://127.0.0.1:{front}"]
            return [*command, "--allow-sinks", sink, "--sink-folder", str(folder / "sinks")], environment

        for number, port in enumerate(places):
            servers.append(Server(number, port, partial(launch, number), folder))
            opened.callback(servers[-1].stop)
        with (folder / "haproxy.log").open("ab") as log:
            before = subprocess.Popen([balancer, "-db", "-f", str(folder / "haproxy.cfg")], stdout=log, stderr=log)
        opened.callback(before.wait, 30)
        opened.callback(before.terminate)
        started = Cluster(f"http://127.0.0.1:{front}", postgres, proxy, servers, upgraded)
        if not started.ready():
            raise SystemExit(f"the servers do not get ready: see {folder}")
        yield started


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _spawned(pid: int) -> bool:
    return b"spawn_main" in _command_line(pid)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
