"""The registry's figures: hot reads, durable writes and imports, beside a bare ASGI handler on the same server.

Load comes from ``wrk`` on the same machine, so both share its cores; the ratio to the bare handler is what counts.

    python benchmarks/registry/bench.py [--seconds 5] [--rounds 3] [--postgres URL] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
GROUP = "/schemagroups/bench"
CONNECTIONS = 32
SCHEMAS = 590
EXTRA_VERSIONS = 114

UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True, kw_only=True)
class Load:
    """One run of wrk: requests a second, latencies in milliseconds, and answers other than 2xx or 3xx."""

    rate: float
    p50: float
    p99: float
    errors: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run a server until it answers; stop it at the end."""
    process = subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            if process.poll() is not None:
                raise SystemExit(f"the server stopped with code {process.returncode}: {' '.join(command)}")
            try:
                httpx.get(base + "/", timeout=1)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield base
    finally:
        process.terminate()
        process.wait(timeout=20)


def wrk(url: str, seconds: int, script: str | None = None) -> Load:
    """Load one URL with 32 connections."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        if script:
            lua.write(script)
            lua.flush()
            command += ["-s", lua.name]
        text = subprocess.run([*command, url], check=True, capture_output=True, text=True).stdout
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
    percentiles = {p: float(v) * UNITS[u] for p, v, u in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", text)}
    bad = re.findall(r"Non-2xx or 3xx responses: (\d+)", text)
    return Load(rate=rate, p50=percentiles["50"], p99=percentiles["99"], errors=int(bad[0]) if bad else 0)


def schema(number: int) -> dict[str, Any]:
    """A JSON Schema of about 400 bytes."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Record {number}",
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "name": {"type": "string", "maxLength": 200},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}},
        },
    }


def catalogue() -> dict[str, Any]:
    """A document of the size of schemastore.org's listing: 590 schemas, 704 versions, most of them links."""
    schemas = {}
    for number in range(SCHEMAS):
        count = 2 if number < EXTRA_VERSIONS else 1
        schemas[f"schema-{number}"] = {
            "versions": {
                str(n + 1): {
                    "name": f"Schema {number}",
                    "description": "What a configuration file of some tool looks like, in a sentence of usual length.",
                    "format": "JsonSchema/draft-07",
                    "schemaurl": f"https://schemas.example/catalogue/{number}/{n + 1}.json",
                    "labels": {"file": f"tool-{number}.json"},
                }
                for n in range(count)
            }
        }
    return {"schemagroups": {"store": {"description": "Schemas listed elsewhere", "schemas": schemas}}}


PUT_SCRIPT = """
local n = 0
local body = [==[%s]==]
request = function()
  n = n + 1
  return wrk.format("PUT", "%s" .. "/versions/%s" .. n, {["Content-Type"]="application/json",
    ["xRegistry-format"]="JsonSchema/draft-07"}, body)
end
"""

PUT_SPREAD_SCRIPT = """
local n = 0
local body = [==[%s]==]
request = function()
  n = n + 1
  return wrk.format("PUT", "%s/schemas/%s" .. n .. "/versions/1", {["Content-Type"]="application/json",
    ["xRegistry-format"]="JsonSchema/draft-07"}, body)
end
"""


def measure(db: str, seconds: int, rounds: int) -> dict[str, Any]:
    """All figures on one database."""
    port = free_port()
    command = [sys.executable, "-m", "signalbook", "serve", "--db", db, "--port", str(port)]
    with serving(command, port) as base, httpx.Client(base_url=base, timeout=120) as http:
        document = json.dumps(schema(0))
        made = http.put(
            f"{GROUP}/schemas/hot",
            content=document,
            headers={"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"},
        )
        made.raise_for_status()
        imports = [_timed_import(http) for _ in range(rounds)]
        targets = {
            "GET document": f"{GROUP}/schemas/hot",
            "GET $details": f"{GROUP}/schemas/hot$details",
            "GET version": f"{GROUP}/schemas/hot/versions/1$details",
        }
        wrk(base + targets["GET document"], 1)
        loads: dict[str, list[Load]] = {name: [] for name in (*targets, "PUT new schema", "PUT new version")}
        for turn in range(rounds):
            for name, path in targets.items():
                loads[name].append(wrk(base + path, seconds))
            spread = PUT_SPREAD_SCRIPT % (document, GROUP, f"s{turn}-")
            loads["PUT new schema"].append(wrk(base + GROUP, seconds, spread))
            same = PUT_SCRIPT % (document, f"{GROUP}/schemas/hot{turn}", "v")
            loads["PUT new version"].append(wrk(base + GROUP, min(seconds, 3), same))
        return {
            "import of 590 schemas, 704 versions: seconds": round(statistics.median(imports), 3),
            **{name: _summary(runs) for name, runs in loads.items()},
        }


def _timed_import(http: httpx.Client) -> float:
    started = time.perf_counter()
    http.post("/", json=catalogue()).raise_for_status()
    return time.perf_counter() - started


def _summary(runs: list[Load]) -> dict[str, float]:
    return {
        "requests/s": round(statistics.median(run.rate for run in runs)),
        "p50 ms": round(statistics.median(run.p50 for run in runs), 2),
        "p99 ms": round(statistics.median(run.p99 for run in runs), 2),
        "errors": sum(run.errors for run in runs),
    }


def bare(seconds: int, rounds: int) -> dict[str, float]:
    """The floor: a handler that answers with a document from memory, on the server the registry runs on."""
    port = free_port()
    environment = {"PYTHONPATH": str(HERE)}
    with serving([sys.executable, str(HERE / "bare.py"), str(port)], port, environment) as base:
        wrk(base + "/", 1)
        return _summary([wrk(base + "/", seconds) for _ in range(rounds)])


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("granian", "starlette", "sqlalchemy", "msgspec")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5, help="length of each load")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds; medians are reported")
    parser.add_argument("--postgres", metavar="URL", help="measure on this PostgreSQL too")
    parser.add_argument("--output", type=Path, default=HERE.parent / "results" / "registry.json")
    options = parser.parse_args()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is missing: install it with `apt-get install wrk`")
    results: dict[str, Any] = {"machine": machine(), "bare handler": bare(options.seconds, options.rounds)}
    with tempfile.TemporaryDirectory() as folder:
        results["sqlite"] = measure(f"sqlite:///{folder}/registry.db", options.seconds, options.rounds)
    if options.postgres:
        results["postgresql"] = measure(options.postgres, options.seconds, options.rounds)
    floor = results["bare handler"]["requests/s"]
    for database in ("sqlite", "postgresql"):
        for figures in results.get(database, {}).values():
            if isinstance(figures, dict):
                figures["of bare handler"] = round(figures["requests/s"] / floor, 3)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
