"""The figures of replication: how fast a registry is copied, compared, and caught up with.

Source, target and replicator run on this machine and share its cores; CPU seconds of each tell who needs what.

    python -m benchmarks.replication.bench [--full] [--output FILE]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.registry import postgres
from benchmarks.registry.bench import machine
from benchmarks.registry.serving import Server, registry

from signalbook.client import Client
from signalbook.replication.link import Scope
from signalbook.replication.opening import copying, link, open_source, open_target
from signalbook.replication.replicating import Replication, StateInMemory
from signalbook.replication.report import CopyReport

RESULTS = Path(__file__).parents[1] / "results" / "replication.json"
DRAFT = "/compat/schemaregistry/v0.2"
SCHEMAS = 2000
VERSIONS = 5
OUTAGE = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="ten times as many schemas")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    schemas = SCHEMAS * (10 if options.full else 1)
    results: dict[str, Any] = {"machine": machine(), "full": options.full}
    with tempfile.TemporaryDirectory() as folder, postgres.databases(None) as databases:
        places = {"sqlite": f"sqlite:///{folder}/target.db", "postgresql": next(databases)}
        for name, db in places.items():
            source = f"sqlite:///{folder}/source-{name}.db"
            results[f"from sqlite to {name}"] = measure(source, db, schemas=schemas)
        results["drafts, sqlite"] = drafts(f"sqlite:///{folder}/one.db", f"sqlite:///{folder}/two.db", folder)
    results["machine"]["load after"] = os.getloadavg()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


def measure(source: str, target: str, *, schemas: int) -> dict[str, Any]:
    """A first copy, a comparison that finds nothing to do, and what was missed in an outage."""
    with registry(source) as one, registry(target) as two, working(one.url, two.url) as work:
        fill(one.url, "g", 0, schemas, VERSIONS)
        versions = schemas * VERSIONS
        told = {f"copy of {versions} versions": timed((one, two), lambda: advance(work), versions, "versions/s")}
        told[f"comparison of {versions} versions"] = timed((one, two), work.everything, versions, "versions/s")
        changes = missed(one.url, work.position or 0)
        told[f"catching up with {changes} changes"] = timed((one, two), lambda: advance(work), changes, "changes/s")
        assert shown(one.url) == shown(two.url), "the copy is another"
    return told


def drafts(source: str, target: str, folder: str) -> dict[str, Any]:
    """Pulled from a draft's door and pushed into one, a request for each version and one to look it up."""
    versions = 1000
    with registry(source) as one, registry(target) as two, registry(f"sqlite:///{folder}/three.db") as three:
        fill(one.url, "g", 0, versions // VERSIONS, VERSIONS)
        with working(one.url + DRAFT, two.url) as pull:
            told = {f"pull of {versions} versions": timed((one, two), pull.everything, versions, "versions/s")}
        with working(one.url, three.url + DRAFT) as push:
            told[f"push of {versions} versions"] = timed((one, three), push.everything, versions, "versions/s")
    return told


@contextmanager
def working(source: str, target: str) -> Iterator[Replication]:
    """A replication between two URLs."""
    with ExitStack() as opened:
        ours = opened.enter_context(open_source(source, timeout=600))
        theirs = opened.enter_context(open_target(target, timeout=600, source=source))
        way = link(ours, theirs, Scope(), reached=source)
        report = CopyReport()
        yield Replication(ours, copying(ours, theirs, way, report), way, StateInMemory())
        assert not report.refused, report.refused[:3]


def timed(servers: tuple[Server, Server], run: Callable[[], object], number: int, unit: str) -> dict[str, float]:
    """Seconds, what they make of ``number``, and the CPU seconds of source, target and replicator."""
    before = [server.cpu_seconds() for server in servers]
    own, started = time.process_time(), time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    used = [server.cpu_seconds() - known for server, known in zip(servers, before, strict=True)]
    cpu = {"source": used[0], "target": used[1], "replicator": time.process_time() - own}
    figures = {"seconds": seconds, unit: number / seconds, **{f"CPU s, {name}": spent for name, spent in cpu.items()}}
    return {name: round(value, 2) for name, value in figures.items()}


def advance(work: Replication) -> None:
    """Take every step there is to take."""
    while work.advance():
        pass


def missed(url: str, position: int) -> int:
    """Make changes until there have been so many since ``position``: new schemas, new versions, deletions."""
    with Client(url, timeout=600) as client:
        for turn in count():
            if client.last_event() - position >= OUTAGE:
                return client.last_event() - position
            fill(url, "new", turn * 250, turn * 250 + 250, 1)
            more = {f"s{n}": {"versions": {str(VERSIONS + 1): version(n, VERSIONS)}} for n in numbers(turn * 80, 80)}
            client.patch("/schemagroups/g/schemas", more, ignore=["epoch"])
            client.delete_members("/schemagroups/g/schemas", [f"s{n}" for n in numbers(1200 + turn * 40, 40)])
    raise AssertionError


def numbers(begin: int, number: int) -> range:
    return range(begin, begin + number)


def fill(url: str, group: str, begin: int, end: int, versions: int) -> None:
    """Schemas of so many versions each."""
    with Client(url, timeout=600) as client:
        for start in range(begin, end, 100):
            schemas = {
                f"s{n}": {"versions": {str(v + 1): version(n, v) for v in range(versions)}}
                for n in range(start, min(end, start + 100))
            }
            client.patch(f"/schemagroups/{group}", {"schemas": schemas}, ignore=["epoch"])


def version(schema: int, number: int) -> dict[str, Any]:
    """A schema of some hundred bytes."""
    names = [f"property{n}" for n in range(8 + number)]
    members = {name: {"type": "string", "description": f"Member {name} of schema {schema}"} for name in names}
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": members})
    document = base64.b64encode(text.encode()).decode()
    ancestor = str(max(1, number))
    about = {"format": "JsonSchema/draft-07", "contenttype": "application/schema+json", "ancestorid": ancestor}
    return {**about, "schemabase64": document, "createdat": f"2026-01-01T00:00:{number:02}Z"}


def shown(url: str) -> int:
    """How many versions there are in all."""
    with Client(url, timeout=600) as client:
        groups = [f"/schemagroups/{name}/schemas" for name, _ in client.items("/schemagroups")]
        return sum(schema["versionscount"] for group in groups for _, schema in client.items(group, limit=1000))


if __name__ == "__main__":
    main()
