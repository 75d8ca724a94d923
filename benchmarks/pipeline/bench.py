"""The pipeline's figures: validate and land, beside Spark's own ``from_json``, DuckDB and a ``jsonschema`` function.

    python -m benchmarks.pipeline.bench [--events 1000000] [--rounds 5] [--output FILE]

Rounds are interleaved and medians compared, for machines are never idle. CPU seconds are those of the whole process
tree (driver, JVM, Python workers).
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.pipeline import github, peers, records
from benchmarks.pipeline.processes import Rounds, peak_memory
from benchmarks.pipeline.traffic import catalogue, event_type, write_events
from pyspark.sql import SparkSession

from signalbook.pipeline import Job, run
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.journal import TableFormat

MASTER = "local[2]"
RESULTS = Path(__file__).parent.parent / "results" / "pipeline.json"
UDF_EVENTS = 20_000
MANY = 5_000
_PACKAGES = ("pyspark", "pyarrow", "msgspec", "pyiceberg", "jsonschema", "duckdb")


@dataclass(kw_only=True)
class Series(Rounds):
    """One contender's rounds over so many events."""

    events: int

    def summary(self) -> dict[str, Any]:
        """Medians, per second and per event, and the best round, which noise has spared most."""
        return {
            "events": self.events,
            "events_per_second": round(self.events / statistics.median(self.seconds)),
            "best_events_per_second": round(self.events / min(self.seconds)),
            "cpu_microseconds_per_event": round(statistics.median(self.cpu) / self.events * 1e6, 2),
            "seconds": [round(seconds, 3) for seconds in self.seconds],
        }


class Bench:
    """The contenders on one set of events, in one Spark session."""

    def __init__(self, folder: Path, session: SparkSession, events: int) -> None:
        self.folder = folder
        self.session = session
        self.events = events
        self.input = folder / "events.jsonl"
        write_events(self.input, events)
        self.sample = folder / "sample.jsonl"
        write_events(self.sample, UDF_EVENTS)
        self.definitions = {count: self._definitions(count) for count in (50, MANY)}
        self.batches = 0

    def pipeline(
        self,
        *,
        definitions: int = 50,
        table_format: TableFormat = "parquet",
        input: Path | None = None,
        existing: bool = False,
        landing: bool = True,
    ) -> None:
        """Our command, on an empty output folder or on ``existing`` tables; without ``landing`` all is dead letters."""
        self.batches += 1
        output = self.folder / (f"existing-{table_format}" if existing else "out")
        if not existing:
            shutil.rmtree(output, ignore_errors=True)
        job = Job(
            registry=str(self.definitions[definitions]),
            inputs=(str(input or self.input),),
            output=output,
            table_format=table_format,
            batch_id=f"b{self.batches}",
            master=MASTER,
        )
        report = run(job)
        assert (report.landed if landing else report.tally.dead_lettered) == report.tally.read > 0, report

    def change(self, definitions: int) -> None:
        """Have one of so many definitions say something else than in the batch before."""
        path, first = self.definitions[definitions], event_type(0)
        text = re.sub(f'"title": "{first}[^"]*"', f'"title": "{first} of {self.batches}"', path.read_text(), count=1)
        path.write_text(text)

    def spark_own(self) -> None:
        """``from_json``, native rules, ``partitionBy``."""
        peers.from_json(self.session, self.input, self.folder / "peer")

    def duckdb(self) -> None:
        """``read_json``, no rules, ``PARTITION_BY``."""
        peers.duckdb_copy(self.input, self.folder / "duckdb", threads=2)

    def udf(self, *, cached: bool) -> None:
        """A Python function with ``jsonschema``, on fewer events."""
        peers.jsonschema_udf(self.session, self.sample, self.folder / "peer", cached=cached)

    def skewed(self) -> Path:
        """As many events, all of one type."""
        path = self.folder / "skewed.jsonl"
        write_events(path, self.events, types=1)
        return path

    def _definitions(self, count: int) -> Path:
        path = self.folder / f"definitions-{count}.json"
        path.write_text(json.dumps(catalogue(count)))
        return path


def measure(bench: Bench, rounds: int) -> dict[str, Any]:
    """All figures."""
    names = ("pipeline", "pipeline_iceberg", "pipeline_5000_definitions", "spark_from_json", "duckdb")
    series = {name: Series(events=bench.events) for name in names}
    series |= {name: Series(events=UDF_EVENTS) for name in ("jsonschema_udf", "jsonschema_udf_cached")}
    bench.pipeline(input=bench.sample)
    bench.spark_own()
    with peak_memory() as memory:
        for _ in range(rounds):
            series["pipeline"].measure(bench.pipeline)
            series["spark_from_json"].measure(bench.spark_own)
            series["duckdb"].measure(bench.duckdb)
            series["pipeline_5000_definitions"].measure(lambda: bench.pipeline(definitions=MANY))
            series["pipeline_iceberg"].measure(lambda: bench.pipeline(table_format="iceberg"))
        bench.pipeline(input=bench.skewed())
    for _ in range(min(rounds, 3)):
        series["jsonschema_udf"].measure(lambda: bench.udf(cached=False))
        series["jsonschema_udf_cached"].measure(lambda: bench.udf(cached=True))
    return {"series": {name: found.summary() for name, found in series.items()}, "worker_peak_mib": memory.mib}


def result(figures: dict[str, Any], size: int) -> dict[str, Any]:
    """The figures with what they were taken on, and what they are beside each other."""
    series = figures["series"]
    rate = {name: found["events_per_second"] for name, found in series.items()}
    best = {name: found["best_events_per_second"] for name, found in series.items()}
    cpu = {name: found["cpu_microseconds_per_event"] for name, found in series.items()}
    return {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"processor": _processor(), "cores_used": 2, "system": platform.platform()},
        "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "input": {"event_bytes": size, "definitions": 50, "master": MASTER},
        "ratios": {
            "to_spark_from_json": round(rate["pipeline"] / rate["spark_from_json"], 2),
            "to_spark_from_json_by_best_round": round(best["pipeline"] / best["spark_from_json"], 2),
            "to_spark_from_json_by_cpu": round(cpu["spark_from_json"] / cpu["pipeline"], 2),
            "to_duckdb": round(rate["pipeline"] / rate["duckdb"], 2),
            "to_jsonschema_udf": round(rate["pipeline"] / rate["jsonschema_udf"], 1),
            "to_jsonschema_udf_cached": round(rate["pipeline"] / rate["jsonschema_udf_cached"], 1),
            "of_5000_definitions_to_50": round(rate["pipeline_5000_definitions"] / rate["pipeline"], 2),
            "of_iceberg_to_parquet": round(rate["pipeline_iceberg"] / rate["pipeline"], 2),
        },
        "worker_peak_mib": round(figures["worker_peak_mib"]),
        **series,
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name, open_session(MASTER) as session:
        bench = Bench(Path(name), session, options.events)
        size = bench.input.stat().st_size // options.events
        found = result(measure(bench, options.rounds), size)
        found[github.SECTION] = github.measure(Path(name), session, github.MEGABYTES, options.rounds)
    found["records_in_one_process"] = records.measure(options.events // 5, options.rounds)
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
