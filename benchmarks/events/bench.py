"""The figures of change events: how fast the feed tells a history, when a change is at a web hook, what that costs.

Readers and sinks run on the machine of the server and share its cores: CPU time for each change is the steadier figure.

    python -m benchmarks.events.bench [--full] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.events import delivery, feed
from benchmarks.registry import postgres
from benchmarks.registry.bench import machine
from benchmarks.registry.serving import WRITERS

RESULTS = Path(__file__).parents[1] / "results" / "events.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="a longer history, and more rounds")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine(), "full": options.full}
    length, rounds = (500_000, 5) if options.full else (100_000, 2)
    with tempfile.TemporaryDirectory() as folder, postgres.databases(None) as databases:
        for name, db in (("sqlite", f"sqlite:///{folder}/feed.db"), ("postgresql", next(databases))):
            results[f"feed of {length} changes, {name}"] = feed.measure(db, events=length, rounds=rounds)
        seconds = 20 if options.full else 6
        for name, db in (("sqlite", f"sqlite:///{folder}/hook.db"), ("postgresql", next(databases))):
            results[f"commit to web hook, {name}"] = delivery.latency(db, rate=500, seconds=seconds)
        for writers in (1, WRITERS):
            results[f"{writers} writers and subscriptions, sqlite"] = delivery.subscriptions(
                f"sqlite:///{folder}/many{writers}.db", count=1000, writers=writers, seconds=seconds // 2, rounds=rounds
            )
    results["machine"]["load after"] = os.getloadavg()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
