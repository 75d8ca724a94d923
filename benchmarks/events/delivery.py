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
from benchmarks.registry.serving import Server, wrk

from signalbook.values import JSONObject

SINK = Path(__file__).with_name("sink.py")
CLIENTS = 32
Arrival = tuple[float, float, str]
_PATCH = """
local n = 0
request = function()
  n = n + 1
  local path = string.format("/schemagroups/g%04d", n % 50)
  return wrk.format("PATCH", path, {["Content-Type"] = "application/json"}, '{"name":"' .. n .. '"}')
end
"""


def latency(db: str, *, rate: int, seconds: int) -> JSONObject:
    """Changes at a steady rate, all to one sink, each a request of its own.

    Milliseconds to the arrival at the sink: from the acknowledgement of the write, which follows its commit (an event
    that is there before it counts as 0), and from the begin of its transaction.
    """
    with _sink() as sink, _registry(db, sink) as server:
        _groups(server, CLIENTS)
        _subscribe(server, sink, 1, "/schemagroups/")
        before, started = server.cpu_seconds(), time.monotonic()
        acknowledged = _paced(server, rate, seconds)
        elapsed = time.monotonic() - started
        used = server.cpu_seconds() - before
        written = sum(map(len, acknowledged.values()))
        arrived = _arrived(sink, written)
    return {
        "changes/s": round(written / elapsed),
        "delivered": len(arrived),
        "ms from the acknowledgement": _told(list(_since(arrived, acknowledged))),
        "ms from the begin": _told([when - begin for when, begin, _ in arrived]),
        "server CPU ms per change": round(used / written * 1000, 2),
    }


def _since(arrived: list[Arrival], acknowledged: dict[str, list[float]]) -> Iterator[float]:
    """Each subject has one writer, and its events come in order: the nth event is that of the nth write."""
    left = {subject: iter(times) for subject, times in acknowledged.items()}
    for when, _, subject in arrived:
        yield max(0.0, when - next(left[subject]))


def _told(seconds: list[float]) -> JSONObject:
    cuts = statistics.quantiles(seconds, n=1000)
    return {name: round(cuts[at] * 1000, 1) for name, at in (("p50", 499), ("p99", 989), ("p99.9", 998))}


def subscriptions(db: str, *, count: int, writers: int, seconds: int, rounds: int) -> JSONObject:
    """Writers as fast as they can, each after its last write's answer, without subscriptions and with ``count`` of
    them in turn."""
    found: dict[str, list[tuple[float, float]]] = {"none": [], f"{count} prefixes, none hit": []}
    found[f"{count} prefixes, one hit by each write"] = []
    with _sink() as sink, _registry(db, sink) as server:
        _groups(server, 50)
        for _ in range(rounds):
            for name, runs in found.items():
                made = [] if name == "none" else _subscribe(server, sink, count, _prefix(name))
                load = wrk(server, "/", seconds, script=_PATCH, connections=writers)
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


def _paced(server: Server, rate: int, seconds: int) -> dict[str, list[float]]:
    """Write at ``rate`` for so long: when each write of a subject was acknowledged."""
    start = time.monotonic() + 0.1
    found: dict[str, list[float]] = {f"/schemagroups/g{client:04}": [] for client in range(CLIENTS)}

    def write(client: int) -> None:
        path = f"/schemagroups/g{client:04}"
        parts = urlsplit(server.url)
        with closing(http.client.HTTPConnection(parts.hostname or "", parts.port)) as connection:
            for turn in range(client, rate * seconds, CLIENTS):
                time.sleep(max(0.0, start + turn / rate - time.monotonic()))
                connection.request("PATCH", path, f'{{"name":"{turn}"}}', {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise SystemExit(f"the registry answered {answer.status}")
                found[path].append(time.time())

    threads = [threading.Thread(target=write, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _arrived(sink: str, count: int) -> list[Arrival]:
    """``count`` events, once they are all there."""
    found: list[Arrival] = []
    end = time.monotonic() + 60
    while len(found) < count and time.monotonic() < end:
        time.sleep(0.2)
        found += httpx.get(sink, timeout=60).json()
    return found
