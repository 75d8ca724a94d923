"""Readers of the change feed: how fast a history goes out, page by page and as a stream."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
from benchmarks.registry import serving
from benchmarks.registry.serving import Server

from signalbook.engine.engine import Engine
from signalbook.settings import Settings
from signalbook.storage import open_store
from signalbook.values import JSONObject

PAGE = 10_000
STREAM = {"Accept": "text/event-stream"}
# What a new Version tells of its Resource, whose default it becomes.
_MOVED = [
    "meta.epoch",
    "meta.modifiedat",
    "meta.defaultversionid",
    "versions",
    "versionscount",
    "schemaid",
    "versionid",
    "self",
    "xid",
    "epoch",
    "isdefault",
    "createdat",
    "modifiedat",
    "ancestorid",
    "format",
    "schema",
]


def measure(db: str, *, events: int, rounds: int) -> JSONObject:
    """The best of some rounds, of each kind of reader in turn: events a second, and the server's CPU for each."""
    fill(db, events)
    readers: dict[str, Callable[[Server], int]] = {
        f"pages of {PAGE}": lambda server: paged(server, ""),
        "a stream": lambda server: streamed(server, events),
        "pages, one filter": lambda server: paged(server, "&filter=%7B%22prefix%22:%7B%22subject%22:%22/%22%7D%7D"),
        "pages, Schema Registry dialect": lambda server: paged(server, "&source=/compat/schemaregistry/v0.2"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    with serving.registry(db) as server:
        for _ in range(rounds):
            for name, read in readers.items():
                found[name].append(_run(server, read, events))
    return {
        name: {"changes/s": round(max(r for r, _ in runs)), "CPU us per change": round(min(c for _, c in runs), 1)}
        for name, runs in found.items()
    }


def _run(server: Server, read: Callable[[Server], int], events: int) -> tuple[float, float]:
    used, started = server.cpu_seconds(), time.perf_counter()
    seen = read(server)
    seconds, used = time.perf_counter() - started, server.cpu_seconds() - used
    if not 0 < seen <= events:
        raise SystemExit(f"{seen} events were read where {events} changes are")
    return events / seconds, used / events * 1e6


def fill(db: str, events: int) -> None:
    """A history of Versions added to schemas, two changes each."""
    with closing(open_store(db)) as store:
        Engine(store, settings=Settings())
        for first in range(0, events // 2, 5_000):
            with store.write() as writer:
                for number in range(first, min(first + 5_000, events // 2)):
                    writer.outbox.append(_changes(number), time=datetime.now(UTC), correlationid=f"{number:032x}")


def _changes(number: int) -> list[JSONObject]:
    schema = f"/schemagroups/com.example.g{number % 50}/schemas/com.example.schema{number % 5000}"
    version = f"{schema}/versions/{number // 5000 + 1}"
    return [
        {"xid": schema, "entity": "resource", "action": "updated", "changed": _MOVED},
        {"xid": version, "entity": "version", "action": "created", "changed": []},
    ]


def paged(server: Server, query: str) -> int:
    """Read all pages, each decoded; how many events there were."""
    count, page = 0, f"{server.url}/events?limit={PAGE}{query}"
    with httpx.Client(timeout=60) as client:
        while page:
            answer = client.get(page).raise_for_status()
            count += answer.content.count(b'"specversion"')
            page = answer.links.get("next", {}).get("url", "")
    return count


def streamed(server: Server, events: int) -> int:
    """Read a stream until all are there; how many events that were."""
    parts: Any = urlsplit(server.url)
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request("GET", "/events?limit=1000", headers=STREAM)
        return sum(1 for _ in _data(connection.getresponse(), events))


def _data(answer: http.client.HTTPResponse, events: int) -> Iterator[bytes]:
    seen = 0
    while seen < events:
        line = answer.readline()
        if line.startswith(b"data: "):
            seen += 1
            yield line
