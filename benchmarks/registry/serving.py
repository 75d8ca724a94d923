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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

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
    command = [sys.executable, "-m", "signalbook", "serve", "--db", db, "--port", str(port)]
    with serving(command, port) as server:
        yield server


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


def summary(loads: list[Load]) -> dict[str, Any]:
    """Medians of several runs."""
    return {
        "requests/s": round(median(load.rate for load in loads)),
        "per CPU second": round(median(load.per_cpu_second for load in loads)),
        "p50 ms": round(median(load.p50 for load in loads), 2),
        "p99 ms": round(median(load.p99 for load in loads), 2),
        "errors": sum(load.errors for load in loads),
    }
