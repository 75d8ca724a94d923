"""Deliveries to web hooks: from commit to sink under steady load, and what many subscriptions cost those who write."""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from benchmarks.registry import serving
from benchmarks.registry.serving import WRITERS, Server, wrk

from signalbook.values import JSONObject

SINK = Path(__file__).with_name("sink.py")
CLIENTS = 8
_PATCH = """
local n = 0
request = function()
  n = n + 1
  local path = string.format("/schemagroups/g%04d", n % 50)
  return wrk.format("PATCH", path, {["Content-Type"] = "application/json"}, '{"name":"' .. n .. '"}')
end
"""


def latency(db: str, *, rate: int, seconds: int) -> JSONObject:
    """Changes at a steady rate, all to one sink, each a request: milliseconds from the begin of the write's transaction
    to the arrival at the sink."""
    with _sink() as sink, _registry(db, sink) as server:
        _groups(server, CLIENTS)
        _subscribe(server, sink, 1, "/schemagroups/")
        before, started = server.cpu_seconds(), time.monotonic()
        written = _paced(server, rate, seconds)
        elapsed = time.monotonic() - started
        used = server.cpu_seconds() - before
        found = _arrived(sink, written)
    cuts = statistics.quantiles(found, n=1000)
    return {
        "changes/s": round(written / elapsed),
        "delivered": len(found),
        "p50 ms": round(cuts[499] * 1000, 1),
        "p99 ms": round(cuts[989] * 1000, 1),
        "max ms": round(max(found) * 1000, 1),
        "server CPU ms per change": round(used / written * 1000, 2),
    }


def subscriptions(db: str, *, count: int, seconds: int, rounds: int) -> JSONObject:
    """Writers as fast as they can, without subscriptions and with ``count`` of them in turn."""
    found: dict[str, list[tuple[float, float]]] = {"none": [], f"{count} prefixes, none hit": []}
    found[f"{count} prefixes, one hit by each write"] = []
    with _sink() as sink, _registry(db, sink) as server:
        _groups(server, 50)
        for _ in range(rounds):
            for name, runs in found.items():
                made = [] if name == "none" else _subscribe(server, sink, count, _prefix(name))
                load = wrk(server, "/", seconds, script=_PATCH, connections=WRITERS)
                runs.append((load.rate, 1e6 / load.per_cpu_second))
                _unsubscribe(server, made)
    told = {
        name: {
            "writes/s": round(statistics.median(rate for rate, _ in runs)),
            "CPU us per write": round(statistics.median(cost for _, cost in runs)),
        }
        for name, runs in found.items()
    }
    base = told["none"]["writes/s"]
    return {name: {**figures, "of none": round(figures["writes/s"] / base, 2)} for name, figures in told.items()}


def _prefix(name: str) -> str:
    return "/schemagroups/other" if "none hit" in name else "/schemagroups/g"


@contextmanager
def _sink() -> Iterator[str]:
    port = serving.free_port()
    process = subprocess.Popen([sys.executable, str(SINK), str(port)])
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/")
                break
            except httpx.TransportError:
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _registry(db: str, sink: str) -> Iterator[Server]:
    port = serving.free_port()
    command = [sys.executable, "-m", "signalbook", "serve", "--db", db, "--port", str(port)]
    with serving.serving([*command, "--allow-sinks", urlsplit(sink).netloc], port) as server:
        yield server


def _groups(server: Server, count: int) -> None:
    with httpx.Client(base_url=server.url) as client:
        for number in range(count):
            client.put(f"/schemagroups/g{number:04}", json={}).raise_for_status()


def _subscribe(server: Server, sink: str, count: int, prefix: str) -> list[str]:
    """``count`` subscriptions, each to a subject of its own that begins with ``prefix``; one alone to all of them."""
    made = []
    with httpx.Client(base_url=server.url) as client:
        for number in range(count):
            wanted = prefix if count == 1 else f"{prefix}{number:04}"
            body = {"protocol": "HTTP", "sink": f"{sink}/hook", "filters": [{"prefix": {"subject": wanted}}]}
            made.append(client.post("/subscriptions", json=body).raise_for_status().headers["location"])
    return made


def _unsubscribe(server: Server, made: list[str]) -> None:
    with httpx.Client(base_url=server.url) as client:
        for url in made:
            client.delete(url).raise_for_status()


def _paced(server: Server, rate: int, seconds: int) -> int:
    """Write at ``rate`` for so long; how many changes that were."""
    start = time.monotonic() + 0.1
    counts = [0] * CLIENTS

    def write(client: int) -> None:
        parts = urlsplit(server.url)
        with closing(http.client.HTTPConnection(parts.hostname or "", parts.port)) as connection:
            for turn in range(client, rate * seconds, CLIENTS):
                time.sleep(max(0.0, start + turn / rate - time.monotonic()))
                body = f'{{"name":"{turn}"}}'
                connection.request("PATCH", f"/schemagroups/g{client:04}", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                counts[client] += answer.status == 200

    threads = [threading.Thread(target=write, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def _arrived(sink: str, count: int) -> list[float]:
    """The latencies of ``count`` events, once they are all there."""
    found: list[float] = []
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        time.sleep(0.2)
        found += httpx.get(sink, timeout=60).json()
    return found
