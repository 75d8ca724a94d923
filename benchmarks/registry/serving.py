"""Servers under load: started and stopped, loaded by ``wrk``, their CPU seconds counted."""

from __future__ import annotations

import compileall
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psycopg

import signalbook

HERE = Path(__file__).parent
READERS = 32
WRITERS = 50
TICKS = os.sysconf("SC_CLK_TCK")
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, kw_only=True)
class Load:
    """One run of wrk: requests a second and per CPU second of the server, latencies in milliseconds, and answers other
    than 2xx or 3xx."""

    rate: float
    per_cpu_second: float
    p50: float
    p99: float
    errors: int


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server: its URL, the process at its head, and seconds until it answered."""

    url: str
    pid: int
    ready: float

    def cpu_seconds(self) -> float:
        """What its processes have used so far."""
        family = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True).stdout.split()
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in (self.pid, *family)]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICKS


@contextmanager
def serving(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[Server]:
    """Run a server until it answers; stop it at the end."""
    # As pip leaves an installed package. A checkout whose bytecode may not be written is compiled at each start.
    compileall.compile_dir(Path(signalbook.__file__).parent, quiet=1)
    url = f"http://127.0.0.1:{port}"
    http = httpx.Client(timeout=5)
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the server stopped with code {process.returncode}: {' '.join(command)}")
            try:
                http.get(url + "/health/ready").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.02)
        yield Server(url=url, pid=process.pid, ready=time.perf_counter() - started)
    finally:
        http.close()
        process.terminate()
        process.wait(timeout=60)


@contextmanager
def registry(db: str) -> Iterator[Server]:
    """Our server over a database."""
    port = free_port()
    with serving(registry_command(db, port), port) as server:
        yield server


def registry_command(db: str, port: int) -> list[str]:
    """What starts our server."""
    return [sys.executable, "-m", "signalbook", "serve", "--db", db, "--port", str(port)]


@contextmanager
def bare() -> Iterator[Server]:
    """A handler that answers with a document from memory, on the server the registry runs on."""
    port = free_port()
    environment = {"PYTHONPATH": str(HERE)}
    with serving([sys.executable, str(HERE / "bare.py"), str(port)], port, environment) as server:
        yield server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wrk(server: Server, path: str, seconds: int, *, script: str = "", connections: int = READERS) -> Load:
    """Load one path, or what a script makes."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "--latency"]
    before = server.cpu_seconds()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        if script:
            lua.write(script)
            lua.flush()
            command += ["-s", lua.name]
        text = subprocess.run([*command, server.url + path], check=True, capture_output=True, text=True).stdout
    used = max(server.cpu_seconds() - before, 1 / TICKS)
    percentiles = {p: float(v) * UNITS[u] for p, v, u in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", text)}
    bad = re.findall(r"Non-2xx or 3xx responses: (\d+)", text)
    return Load(
        rate=float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0]),
        per_cpu_second=int(re.findall(r"(\d+) requests in", text)[0]) / used,
        p50=percentiles["50"],
        p99=percentiles["99"],
        errors=int(bad[0]) if bad else 0,
    )


def requests(
    server: Server,
    db: str,
    paths: Mapping[str, Sequence[str]],
    *,
    rounds: int,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Each path by itself, so many times in turns: what it takes by kind, in milliseconds.

    ``ms`` passes until the answer is there; ``CPU`` is what the server and PostgreSQL worked for it. A path is asked
    once before, and has to be answered by 200.
    """
    taken: dict[str, list[tuple[float, float]]] = {kind: [] for kind in paths}
    with ExitStack() as stack:
        http = stack.enter_context(httpx.Client(base_url=server.url, timeout=120, headers=headers))
        busy = _Busy(server, stack.enter_context(psycopg.connect(db)) if db.startswith("postgresql") else None)
        for turn in range(rounds + 1):
            for kind, path in ((kind, path) for kind, some in paths.items() for path in some):
                before, started = busy.ms(), time.perf_counter()
                # Another parameter each time, so that no page comes from memory.
                answer = http.get(path.replace("TURN", str(turn)))
                passed = (time.perf_counter() - started) * 1000
                if answer.status_code != HTTPStatus.OK:
                    raise SystemExit(f"{path}: {answer.status_code} {answer.text[:500]}")
                if turn:
                    taken[kind].append((passed, busy.ms() - before))
    return {kind: _percentiles(each) for kind, each in taken.items()}


def _percentiles(taken: list[tuple[float, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, values in zip(("ms", "CPU ms"), zip(*taken, strict=True), strict=True):
        ordered = sorted(values)
        found |= {f"p{p} {name}": round(ordered[(len(ordered) - 1) * p // 100], 1) for p in (50, 95)}
    return found


class _Busy:
    """What a server and the PostgreSQL behind it have worked, to the microsecond."""

    def __init__(self, server: Server, connection: psycopg.Connection | None) -> None:
        family = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True).stdout.split()
        self._pids = {str(server.pid), *family}
        self._connection = connection

    def ms(self) -> float:
        """Milliseconds of CPU so far."""
        pids = set(self._pids)
        if self._connection is not None:
            asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            pids |= {str(pid) for (pid,) in self._connection.execute(asked)}
            self._connection.rollback()
        tasks = (task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def summary(loads: list[Load]) -> dict[str, Any]:
    """Medians of several runs."""
    return {
        "requests/s": round(median(load.rate for load in loads)),
        "per CPU second": round(median(load.per_cpu_second for load in loads)),
        "p50 ms": round(median(load.p50 for load in loads), 2),
        "p99 ms": round(median(load.p99 for load in loads), 2),
        "errors": sum(load.errors for load in loads),
    }
