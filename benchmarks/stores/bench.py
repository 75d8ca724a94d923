"""What a store costs: the same batches with input and output on local disk, and on an S3 server of this machine.

    python -m benchmarks.stores.bench [--events 400000] [--rounds 3] [--output FILE]

The server, s3proxy, keeps plain files on the same disk and takes part of the same processors: so the difference is that
of requests, copies and signatures, and not of a network. Rounds are interleaved.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.pipeline.processes import Rounds
from benchmarks.pipeline.traffic import catalogue, write_events

from signalbook.demo import kafka
from signalbook.demo.program import Ports, Program
from signalbook.pipeline import Job, Place, place_of, run, storage_of
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.journal import TableFormat

MASTER: Final = "local[2]"
RESULTS: Final = Path(__file__).parent.parent / "results" / "stores.json"
FORMATS: Final[tuple[TableFormat, ...]] = ("parquet", "iceberg")
_BUCKET: Final = "bench"
_NAME, _WORD = "bench", "bench-word"


@contextmanager
def s3_server(folder: Path) -> Iterator[Place]:
    """An S3 server with its bucket in ``folder``."""

    def configure(folder: Path, ports: Ports) -> list[str]:
        (folder / "data" / _BUCKET).mkdir(parents=True, exist_ok=True)
        settings = {
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.endpoint": f"http://127.0.0.1:{ports['plain']}",
            "s3proxy.identity": _NAME,
            "s3proxy.credential": _WORD,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "data"),
        }
        (folder / "conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return kafka.command("s3", "-Xmx512m", "org.gaul.s3proxy.Main", "--properties", str(folder / "conf"))

    server = Program("s3proxy", folder, configure, "Started ogsoejs.Server", ("plain",))
    server.open()
    endpoint = f"http://127.0.0.1:{server.ports['plain']}"
    keys = {"access_key_id": _NAME, "secret_access_key": _WORD, "region": "us-east-1"}
    try:
        yield place_of(f"s3://{_BUCKET}", storage_of({"endpoint": endpoint, "allow_http": True, **keys}))
    finally:
        server.stop()


@dataclass(slots=True)
class Contender:
    """Batches whose input and output are below ``root``."""

    root: Place
    definitions: Path
    table_format: TableFormat
    events: int
    rounds: Rounds = field(default_factory=Rounds)
    batches: int = 0

    def land(self) -> None:
        """One batch, into tables that are there but for the first."""
        self.batches += 1
        job = Job(
            registry=str(self.definitions),
            inputs=(f"{self.root}/in/",),
            output=self.root / self.table_format,
            table_format=self.table_format,
            batch_id=f"b{self.batches}",
            master=MASTER,
            storage=self.root.storage,
        )
        report = run(job)
        assert report.landed == report.tally.read == self.events, report

    def summary(self) -> dict[str, Any]:
        """Per second."""
        return {
            "events_per_second": round(self.events / statistics.median(self.rounds.seconds)),
            "best_events_per_second": round(self.events / min(self.rounds.seconds)),
            "cpu_microseconds_per_event": round(statistics.median(self.rounds.cpu) / self.events * 1e6, 2),
            "seconds": [round(seconds, 3) for seconds in self.rounds.seconds],
        }


def measure(folder: Path, events: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    definitions, sent = folder / "definitions.json", folder / "events.jsonl"
    definitions.write_text(json.dumps(catalogue(50)))
    write_events(sent, events)
    disk = place_of(folder / "disk")
    (disk / "in").make()
    shutil.copy(sent, folder / "disk" / "in" / "events.jsonl")
    with s3_server(folder / "server") as store, open_session(MASTER):
        (store / "in/events.jsonl").write(sent.read_bytes())
        found = {
            f"{kind}_{table_format}": Contender(root, definitions, table_format, events)
            for table_format in FORMATS
            for kind, root in (("disk", disk), ("s3", store))
        }
        for contender in found.values():
            contender.land()  # what is opened and made once
        for _ in range(rounds):
            for contender in found.values():
                contender.rounds.measure(contender.land)
    return {name: contender.summary() for name, contender in found.items()}


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name:
        folder = Path(name)
        (folder / "server").mkdir()
        series = measure(folder, options.events, options.rounds)
    found = {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "input": {"events": options.events, "definitions": 50, "master": MASTER},
        "ratios": {
            f"of_s3_to_disk_{name}": round(
                series[f"s3_{name}"]["best_events_per_second"] / series[f"disk_{name}"]["best_events_per_second"], 2
            )
            for name in FORMATS
        },
        **series,
    }
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
