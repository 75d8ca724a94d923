"""What the pipeline has to reach, measured and held to its bars: a table of bar, figure, and whether it is held.

    python -m benchmarks.pipeline.bars [--only json tables definitions rejected records plain_kafka ...]

Each bar is a ratio of what ran in turns in one warm session on two cores, by the medians of the rounds; those of the
best rounds, which noise has spared most, stand beside. Rates of GitHub's webhooks and memory have no peer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.pipeline import github, records
from benchmarks.pipeline.bench import MANY, MASTER, Bench
from benchmarks.pipeline.processes import Rounds, peak_memory
from benchmarks.pipeline.traffic import event, write_events
from pyspark.sql import SparkSession

from signalbook.demo.github import fetch
from signalbook.pipeline.job.session import open_session

RESULTS = Path(__file__).parent.parent / "results" / "pipeline-bars.json"
MEBIBYTES = 256
_LOST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: what is to be at least ``least``, or at most ``most``; ``best`` is the figure of the best rounds."""

    name: str
    figure: float
    best: float | None = None
    least: float | None = None
    most: float | None = None
    unit: str = ""

    @property
    def held(self) -> bool:
        """Whether the figure is within the bar."""
        return (self.least is None or self.figure >= self.least) and (self.most is None or self.figure <= self.most)

    def line(self) -> str:
        """As a row of a table in Markdown."""
        sign, bound = (">=", self.least) if self.most is None else ("<=", self.most)
        best = "" if self.best is None else f" ({self.best:.3g})"
        bar = f"{sign} {bound:g}{self.unit}"
        return f"| {self.name} | {bar} | {self.figure:.4g}{self.unit}{best} | {'yes' if self.held else 'no'} |"


Work = Mapping[str, Callable[[], object]]


class Measuring:
    """What the parts share: one session, one set of events, so many rounds."""

    def __init__(self, folder: Path, session: SparkSession, events: int, rounds: int, megabytes: int) -> None:
        self.folder = folder
        self.session = session
        self.events = events
        self.rounds = rounds
        self.megabytes = megabytes
        self._bench: Bench | None = None

    @property
    def bench(self) -> Bench:
        """The events and definitions, made when first asked for, and a run that warms the workers."""
        if self._bench is None:
            self._bench = Bench(self.folder, self.session, self.events)
            self._bench.pipeline(input=self._bench.sample)
        return self._bench

    def json(self) -> Iterator[Bar]:
        """Our rate to that of peers."""
        bench = self.bench
        found = self._in_turns({"ours": bench.pipeline, "spark": bench.spark_own, "duckdb": bench.duckdb})
        yield self._ratio("JSON : Spark's from_json", found, "ours", "spark", 5)
        yield self._ratio("JSON : DuckDB, two threads, no validation", found, "ours", "duckdb", 1.3)

    def tables(self) -> Iterator[Bar]:
        """Iceberg to Parquet, tables that are new and tables that exist."""
        bench = self.bench
        for existing in (False, True):
            work = {
                "parquet": partial(bench.pipeline, existing=existing),
                "iceberg": partial(bench.pipeline, table_format="iceberg", existing=existing),
            }
            if existing:
                for make in work.values():
                    make()
            name = f"Iceberg : Parquet, 50 {'existing' if existing else 'new'} tables"
            yield self._ratio(name, self._in_turns(work), "iceberg", "parquet", 0.75)

    def definitions(self) -> Iterator[Bar]:
        """Many definitions to few: those of an earlier batch, and those of which one changed since."""
        bench = self.bench
        many = partial(bench.pipeline, definitions=MANY)

        def changed() -> None:
            bench.change(MANY)
            many()

        many()
        found = self._in_turns({"many": many, "few": bench.pipeline, "changed": changed})
        yield self._ratio(f"{MANY:,} definitions : 50", found, "many", "few", 0.9)
        yield self._ratio(f"{MANY:,} definitions, one of them changed : 50", found, "changed", "few", 0.9)

    def rejected(self) -> Iterator[Bar]:
        """Events that all break a rule to events that land."""
        bench, landed, lost = self.bench, self.folder / "landed.jsonl", self.folder / "lost.jsonl"
        write_events(landed, _LOST)
        write_events(lost, _LOST, faults=1.0)
        work = {
            "landed": lambda: bench.pipeline(input=landed),
            "lost": lambda: bench.pipeline(input=lost, landing=False),
        }
        found = self._in_turns(work)
        yield self._ratio(f"nothing but dead letters : nothing but rows, {_LOST:,}", found, "lost", "landed", 0.5)

    def records(self) -> Iterator[Bar]:
        """Avro and Protobuf to JSON, by CPU in one process: as many records as a task has of JSON."""
        found = records.measure(self.events // 2, self.rounds)["ratios_of_rates"]
        for mode, what in (("binary", "events in binary mode"), ("prefixed", "behind the id of a schema")):
            for kind in ("avro", "protobuf"):
                figure = found[f"{mode}_{kind}_to_{mode}_json"]
                yield Bar(name=f"{kind.capitalize()} : JSON, {what}, by CPU", figure=figure, least=1.3)

    def plain_kafka(self) -> Iterator[Bar]:
        """CPU of a record without an envelope, whose topic has one definition."""
        found = records.measure(self.events // 10, self.rounds, tuple(records.PLAIN))["cpu_of_a_record"]
        for mode, row in found.items():
            name = f"{mode.removeprefix('plain_').capitalize()} in plain records by topic, CPU of one"
            figure, best = row["cpu_microseconds"], row["best_cpu_microseconds"]
            yield Bar(name=name, figure=figure, best=best, most=10, unit=" us")

    def mixed_kafka(self) -> Iterator[Bar]:
        """Events of a contract that has a plain definition for another topic, to those of one that has none."""
        modes = [mode for pair in records.BESIDE_PLAIN.items() for mode in pair]
        found = records.measure(self.events // 10, self.rounds, modes)["cpu_of_a_record"]
        for mixed, alone in records.BESIDE_PLAIN.items():
            medians, bests = (
                found[alone][kind] / found[mixed][kind] for kind in ("cpu_microseconds", "best_cpu_microseconds")
            )
            name = f"{alone.partition('_')[0]} events with a plain definition : without, by CPU"
            yield Bar(name=name, figure=medians, best=bests, least=0.87)

    def github(self) -> Iterator[Bar]:
        """GitHub's webhooks in 161 wide tables."""
        webhooks = fetch(github.PACKAGES)
        if webhooks is None:
            print("npm is not here, or cannot fetch GitHub's examples: left out")
            return
        bench = github.Bench(self.folder, self.session, webhooks, self.megabytes, ("cloudevents", "http"))
        work = {name: partial(bench.pipeline, traffic) for name, traffic in bench.traffic.items()}
        for warm in work.values():
            warm()
        with peak_memory() as memory:
            found = self._in_turns(work)
        for name, least in (("cloudevents", 60), ("http", 45)):
            size, seconds = bench.traffic[name].ledger.bytes / 1e6, found[name].seconds
            figure, best = size / statistics.median(seconds), size / min(seconds)
            yield Bar(name=f"GitHub's webhooks as {name}", figure=figure, best=best, least=least, unit=" MB/s")
        yield Bar(name="worker, GitHub's 161 wide tables", figure=memory.mib, most=1024, unit=" MiB")

    def huge(self) -> Iterator[Bar]:
        """A message of 256 MiB that lands, and one that does not conform."""
        bench, path = self.bench, self.folder / "huge.jsonl"
        for landing in (True, False):
            made = event(1, Random(7), 50, 0.0 if landing else 1.0)
            room = MEBIBYTES * 1024 * 1024 - len(json.dumps(made))
            made["data"]["note"] = "Leave it at the door. " * (room // 22)
            path.write_text(json.dumps(made) + "\n")
            with peak_memory() as memory:
                bench.pipeline(input=path, landing=landing)
            name = f"worker, a message of {MEBIBYTES} MiB{'' if landing else ' as a dead letter'}"
            yield Bar(name=name, figure=memory.mib, most=1024, unit=" MiB")

    def _in_turns(self, work: Work) -> dict[str, Rounds]:
        found = {name: Rounds() for name in work}
        for _ in range(self.rounds):
            for name, contender in work.items():
                found[name].measure(contender)
        return found

    def _ratio(self, name: str, found: Mapping[str, Rounds], one: str, other: str, least: float) -> Bar:
        """How much faster ``one`` is."""
        mine, theirs = found[one].seconds, found[other].seconds
        figure, best = statistics.median(theirs) / statistics.median(mine), min(theirs) / min(mine)
        return Bar(name=name, figure=figure, best=best, least=least)


PARTS = ("json", "tables", "definitions", "rejected", "records", "plain_kafka", "mixed_kafka", "github", "huge")


def main() -> None:
    """Measure, print the table, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=200, help="of GitHub's webhooks, each way (default: 200)")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name, open_session(MASTER) as session:
        measuring = Measuring(Path(name), session, options.events, options.rounds, options.megabytes)
        bars = list(_bars(measuring, options.only))
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    rows = [asdict(bar) | {"held": bar.held} for bar in bars]
    options.output.write_text(json.dumps({"taken": taken, "events": options.events, "bars": rows}, indent=2) + "\n")
    print("\n".join(["| | bar | median (best rounds) | held |", "|---|---|---|---|", *(bar.line() for bar in bars)]))


def _bars(measuring: Measuring, parts: Sequence[str]) -> Iterator[Bar]:
    for part in parts:
        started = time.monotonic()
        for bar in getattr(measuring, part)():
            print(bar.line(), flush=True)
            yield bar
        print(f"-- {part}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
