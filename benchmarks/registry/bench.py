"""The registry's figures, on SQLite and PostgreSQL, beside what the machine does without a registry.

Load comes from ``wrk`` on the same machine, so both share its cores: ratios to the floors of the same run are what
counts. A floor is a bare ASGI handler on the same server for reads, one inserted row and its commit for writes.

    python -m benchmarks.registry.bench [--full] [--only PART...] [--seconds N] [--rounds N] [--postgres URL]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from benchmarks.registry import confluent, content, postgres, reading, serving, tails
from benchmarks.registry.content import GROUP
from benchmarks.registry.serving import WRITERS, Load, summary, wrk

RESULTS = Path(__file__).parents[1] / "results"
HISTORY = 7_500
DATABASES = ("sqlite", "postgresql")
PARTS = ("hot", "confluent", "imports", "filters", "tails", "sizes", "histories")


def main() -> None:
    options = _options()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is missing: install it with `apt-get install wrk`")
    # What is not measured this time stays as it was.
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.only and options.output.exists() else {}
    results |= {"machine": machine(), "full": options.full}
    if {"hot", "confluent"} & set(options.parts):
        with serving.bare() as server:
            results["bare handler"] = summary([wrk(server, "/", options.seconds) for _ in range(options.rounds)])
    for name, new in (("sqlite", sqlite_databases), ("postgresql", postgres.databases)):
        if name in options.databases:
            with new(options.postgres) as databases:
                results[name] = results.get(name, {}) | measure(databases, options, results)
    results["machine"]["load after"] = os.getloadavg()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="a store of 1 M Versions too, and longer runs")
    parser.add_argument("--only", nargs="+", choices=[*PARTS, *DATABASES], default=[], help="these parts, or databases")
    parser.add_argument("--seconds", type=int, help="length of each load")
    parser.add_argument("--rounds", type=int, help="interleaved rounds; medians are reported")
    parser.add_argument("--postgres", metavar="URL", help="use this server, not one started for the purpose")
    parser.add_argument("--output", type=Path, help="default: registry.json, or registry-full.json, in results/")
    options = parser.parse_args()
    options.parts = [part for part in PARTS if part in options.only] or PARTS
    options.databases = [name for name in DATABASES if name in options.only] or DATABASES
    options.output = options.output or RESULTS / ("registry-full.json" if options.full else "registry.json")
    options.seconds = options.seconds or (5 if options.full else 2)
    options.rounds = options.rounds or (3 if options.full else 1)
    return options


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("uvicorn", "starlette", "sqlalchemy", "msgspec", "psycopg")},
        "load before": os.getloadavg(),
    }


@contextmanager
def sqlite_databases(_: str | None) -> Iterator[Iterator[str]]:
    """URLs of new databases, in one folder that goes at the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield (f"sqlite:///{folder}/{number}.db" for number in range(100))


def measure(databases: Iterator[str], options: argparse.Namespace, results: dict[str, Any]) -> dict[str, Any]:
    """All figures on one kind of database."""
    found: dict[str, Any] = {}
    if "hot" in options.parts:
        first = next(databases)
        found["floor: commits of one row/s"] = round(commits(first))
        found |= hot(first, options, results["bare handler"]["requests/s"])
    if "confluent" in options.parts:
        found |= confluent.measure(next(databases), options, results["bare handler"]["requests/s"])
        found |= confluent.pages(next(databases), confluent.SUBJECTS if options.full else confluent.SUBJECTS // 10)
    if "imports" in options.parts:
        found |= imports(next(databases))
    if "filters" in options.parts:
        found |= reading.measure(next(databases))
    if "tails" in options.parts:
        found |= tails.measure(next(databases), options.seconds)
    if "sizes" in options.parts:
        numbers = (1_000, 50_000, 1_000_000) if options.full else (1_000, 50_000)
        stores = {size: next(databases) for size in numbers}
        for size, db in stores.items():
            content.fill(db, size)
        found |= sizes(stores, options)
    if "histories" in options.parts:
        histories = {n: next(databases) for n in (100, 100_000 if options.full else HISTORY)}
        for size, db in histories.items():
            content.fill(db, size, each=size)
        found |= long_histories(histories, options)
    return found


def hot(db: str, options: argparse.Namespace, floor: float) -> dict[str, Any]:
    """Reads of one entity, again and again, and writes of 50 clients and of one, in turns."""
    loads: dict[str, list[Load]] = {}
    with serving.registry(db) as server, httpx.Client(base_url=server.url, timeout=120) as http:
        _document(http, f"{GROUP}/schemas/hot")
        for turn in range(options.rounds):
            for name, tail in (("document", ""), ("$details", "$details"), ("version", "/versions/1$details")):
                run = wrk(server, f"{GROUP}/schemas/hot{tail}", options.seconds)
                loads.setdefault(f"GET {name}", []).append(run)
            for name, path, suffix, clients in (
                ("PUT new schema, 50 writers", f"{GROUP}/schemas/s{turn}-", "/versions/1", WRITERS),
                ("PUT new version, 50 writers", f"{GROUP}/schemas/hot{turn}/versions/v", "", WRITERS),
                ("PUT new version, 1 writer", f"{GROUP}/schemas/lone{turn}/versions/v", "", 1),
            ):
                script = content.put_script(path, suffix)
                loads.setdefault(name, []).append(
                    wrk(server, GROUP, options.seconds, script=script, connections=clients)
                )
    found = {name: summary(runs) for name, runs in loads.items()}
    for name, figures in found.items():
        if name.startswith("GET"):
            figures["of bare handler"] = round(figures["requests/s"] / floor, 3)
    return found


def imports(db: str) -> dict[str, float]:
    """Documents that come as one request, in seconds."""
    with serving.registry(db) as server, httpx.Client(base_url=server.url, timeout=300) as http:
        return {
            "import of 590 schemas, 704 versions: seconds": _timed(http, content.catalogue()),
            f"import of {HISTORY} versions of one schema: seconds": _timed(http, content.history(HISTORY)),
        }


def sizes(stores: dict[int, str], options: argparse.Namespace) -> dict[str, Any]:
    """The same requests to a small store and a large one, in turns: seconds to start, milliseconds, and their ratio."""
    headers = {"Content-Type": "application/json", "xRegistry-format": content.FORMAT}
    schemas, text = f"{GROUP}/schemas", json.dumps(content.schema(0))
    put = partial(httpx.Request, "PUT", headers=headers, content=text)
    requests: dict[str, Callable[[str, int], httpx.Request]] = {
        # Another query each time, so that no answer comes from memory.
        "page of 50": lambda url, n: httpx.Request("GET", f"{url}{schemas}?limit=50&turn={n}"),
        "GET version": lambda url, n: httpx.Request("GET", f"{url}{schemas}/s000050/versions/v000005$details?turn={n}"),
        "GET group with its counts": lambda url, n: httpx.Request("GET", f"{url}{GROUP}?turn={n}"),
        "PUT new schema": lambda url, n: put(f"{url}{schemas}/new-{n}/versions/1"),
        "PUT new version": lambda url, n: put(f"{url}{schemas}/s000051/versions/w{n}"),
    }
    return {"by size of the store": in_turns(stores, requests, options)}


def long_histories(stores: dict[int, str], options: argparse.Namespace) -> dict[str, Any]:
    """A new Version of a schema that has few, and of one that has many."""
    headers = {"Content-Type": "application/json", "xRegistry-format": content.FORMAT}
    path, text = f"{GROUP}/schemas/s000000/versions", json.dumps(content.schema(0))
    put = partial(httpx.Request, "PUT", headers=headers, content=text)
    return {
        "by versions of one schema": in_turns(
            stores, {"PUT new version": lambda url, n: put(f"{url}{path}/w{n}")}, options
        )
    }


def in_turns(
    stores: dict[int, str], requests: dict[str, Callable[[str, int], httpx.Request]], options: argparse.Namespace
) -> dict[str, Any]:
    """Median milliseconds of each request over each store, one after the other, and how many times as long each takes
    as the first: what else the machine does falls on all."""
    with ExitStack() as stack:
        servers = {size: stack.enter_context(serving.registry(db)) for size, db in stores.items()}
        http = stack.enter_context(httpx.Client(timeout=120))
        found: dict[str, Any] = {"seconds until ready": {size: round(s.ready, 2) for size, s in servers.items()}}
        for name, request in requests.items():
            taken: dict[int, list[float]] = {size: [] for size in servers}
            for n in range(100 * options.rounds):
                for size, server in servers.items():
                    started = time.perf_counter()
                    http.send(request(server.url, n)).raise_for_status()
                    taken[size].append((time.perf_counter() - started) * 1000)
            medians = {size: statistics.median(times) for size, times in taken.items()}
            first, *others = medians
            times = {f"times as long with {size}": round(medians[size] / medians[first], 2) for size in others}
            found[name] = {f"ms with {size}": round(ms, 2) for size, ms in medians.items()} | times
    return found


def commits(db: str, seconds: float = 1.0) -> float:
    """Durable inserts of one small row a second, without any registry: the floor of a write that has its own commit."""
    done, text = 0, json.dumps(content.schema(0))
    with closing(postgres.connect(db) if db.startswith("postgresql") else _plain(db)) as connection:
        place = "%s" if db.startswith("postgresql") else "?"
        connection.execute("CREATE TABLE floor (content TEXT)")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            connection.execute(f"INSERT INTO floor VALUES ({place})", (text,))
            done += 1
        connection.execute("DROP TABLE floor")
    return done / seconds


def _plain(db: str) -> sqlite3.Connection:
    connection = sqlite3.connect(db.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=full")
    return connection


def _document(http: httpx.Client, path: str) -> None:
    headers = {"Content-Type": "application/json", "xRegistry-format": content.FORMAT}
    http.put(path, content=json.dumps(content.schema(0)), headers=headers).raise_for_status()


def _timed(http: httpx.Client, document: dict[str, Any]) -> float:
    started = time.perf_counter()
    http.patch("/", json=document).raise_for_status()
    return round(time.perf_counter() - started, 3)


if __name__ == "__main__":
    main()
