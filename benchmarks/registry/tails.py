"""How much longer the slowest reads take than others: p99 as a multiple of p50, for 16 and 256 connections at once.

On a machine that has other work the scheduler makes a tail of its own, so a bare handler is measured beside.

    python -m benchmarks.registry.tails [SECONDS]
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any, Final

import httpx
from benchmarks.registry import content, serving
from benchmarks.registry.content import GROUP
from benchmarks.registry.serving import Load, Server, wrk

SCHEMAS: Final = 400
CONNECTIONS: Final = (16, 256)
MOST: Final = 10
"""What p99 may be of p50."""
_ONE: Final = f"{GROUP}/schemas/s000050"
FROM_MEMORY: Final = {
    "document": _ONE,
    "$details": f"{_ONE}$details",
    "page of 400": f"{GROUP}/schemas?limit=400",
    "nested inline": f"{GROUP}?inline=schemas.versions",
}
MADE_ANEW: Final = {
    "$details": f"{_ONE}$details?turn=",
    "page of 50": f"{GROUP}/schemas?limit=50&turn=",
    "filter": f"{GROUP}/schemas?filter=name=none&turn=",
    "export": "/export?turn=",
}
_ANOTHER: Final = """
local n = 0
request = function()
  n = n + 1
  return wrk.format("GET", "%s"..n)
end
"""


def measure(db: str, seconds: int) -> dict[str, Any]:
    """Fill the empty database ``db``, then read."""
    content.fill(db, SCHEMAS, each=1)
    with ExitStack() as stack:
        server, bare = stack.enter_context(serving.registry(db)), stack.enter_context(serving.bare())
        found: dict[str, Any] = {}
        for connections in CONNECTIONS:
            rows = {"bare handler": _tail(wrk(bare, "/", seconds, connections=connections))}
            for name, path in FROM_MEMORY.items():
                httpx.get(server.url + path, timeout=60).raise_for_status()
                rows[f"{name}, from memory"] = _tail(wrk(server, path, seconds, connections=connections))
            with _Others(server, f"{GROUP}/schemas?inline=versions&other="):
                load = wrk(server, f"{_ONE}$details", seconds, connections=connections)
                rows["$details, from memory, while others read all"] = _tail(load)
            for name, path in MADE_ANEW.items():
                load = wrk(server, path, seconds, script=_ANOTHER % path, connections=connections)
                rows[f"{name}, made anew"] = _tail(load)
                # Those that were under way are made to their end.
                httpx.get(f"{server.url}{path}last", timeout=300).raise_for_status()
            found[f"{connections} connections"] = rows
    return {f"tails, p99 at most {MOST} x p50": found}


def _tail(load: Load) -> dict[str, float]:
    if not load.p50:
        return {"requests/s": load.rate}
    ratio = round(load.p99 / load.p50, 1)
    return {"requests/s": load.rate, "p50 ms": load.p50, "p99 ms": load.p99, "p99 of p50": ratio}


class _Others:
    """Somebody who reads a lot meanwhile, each time anew."""

    def __init__(self, server: Server, path: str) -> None:
        self._url, self._over = server.url + path, Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=120) as http:
            turn = 0
            while not self._over.is_set():
                turn += 1
                http.get(f"{self._url}{turn}").raise_for_status()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        print(json.dumps(measure(f"sqlite:///{folder}/r.db", seconds), indent=2))
