"""Real payloads under real schemas: GitHub's webhooks, as CloudEvents and as the requests that GitHub sends.

    python -m benchmarks.pipeline.github [--megabytes 600] [--rounds 3] [--output FILE]

Examples that GitHub publishes (10 KB on average, 224 whole payloads and their 120 parts in one schema document that
refers to itself all over), repeated with an id each. Some do not meet GitHub's own schemas: each series is taken
without them and with them. Beside it, in the same run, the same payloads decoded and validated alone, in one process
that lands nothing, and Spark's own way, once: ``from_json`` with the schema of all payloads merged, no validation.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
from benchmarks.pipeline.processes import Rounds, peak_memory
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from signalbook.demo import github, traffic
from signalbook.demo.traffic import TrafficLedger, TrafficTemplate
from signalbook.messages import Contract, Policy
from signalbook.pipeline import Job, run
from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.processing.modes import StructuredMode
from signalbook.pipeline.processing.routing import FastPath
from signalbook.pipeline.processing.rows import Bookkeeping, LeftOver, Result, RowBuilder
from signalbook.pipeline.sources.base import Split
from signalbook.pipeline.sources.files import JSONL
from signalbook.values import dump_json, now, parse_json

MASTER = "local[2]"
RESULTS = Path(__file__).parent.parent / "results" / "pipeline.json"
SECTION = "github_webhooks"
TRAFFIC = ("cloudevents", "cloudevents_with_faulty", "http", "http_with_faulty")
# where the demonstration keeps them, too
PACKAGES = Path(__file__).parents[2] / "var" / "demo" / "packages"
MEGABYTES = 600
_SEED = 7
_SPARK = "spark_from_json_unvalidated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One kind of input: files in a folder, and what must become of them."""

    name: str
    folder: Path
    input_format: str
    group: str
    ledger: TrafficLedger

    @property
    def landed(self) -> Counter[str]:
        """The messages that must land, by the xid of their definition."""
        return Counter(due for due in self.ledger.due.values() if due.startswith("/"))


@dataclass(kw_only=True)
class Series(Rounds):
    """One contender's rounds over so many bytes."""

    bytes: int

    def summary(self) -> dict[str, Any]:
        """Medians; by CPU as what one core does in a second."""
        size = self.bytes / 1e6
        return {
            "megabytes": round(size, 1),
            "megabytes_per_second": round(size / statistics.median(self.seconds), 1),
            "best_megabytes_per_second": round(size / min(self.seconds), 1),
            "megabytes_per_cpu_second": round(size / statistics.median(self.cpu), 1),
            "seconds": [round(seconds, 3) for seconds in self.seconds],
        }


class Bench:
    """The contenders on the same payloads, in one Spark session."""

    def __init__(
        self,
        folder: Path,
        session: SparkSession,
        webhooks: github.Webhooks,
        megabytes: int,
        names: Collection[str] = TRAFFIC,
    ) -> None:
        self.folder = folder
        self.session = session
        self.webhooks = webhooks
        self.document = github.webhook_definitions(webhooks)
        self.registry = folder / "catalogue.json"
        self.registry.write_bytes(dump_json(self.document))
        http, wrapped = (github.sound_templates(webhooks, cloudevents=envelope) for envelope in (False, True))
        self.traffic = {
            name: self._written(name, templates, input_format, group, megabytes)
            for name, templates, input_format, group in (
                ("cloudevents", _sound(wrapped), "cloudevents-jsonl", github.CLOUDEVENTS_GROUP),
                ("cloudevents_with_faulty", wrapped, "cloudevents-jsonl", github.CLOUDEVENTS_GROUP),
                ("http", _sound(http), "http-jsonl", github.HTTP_GROUP),
                ("http_with_faulty", http, "http-jsonl", github.HTTP_GROUP),
            )
            if name in names
        }

    @cached_property
    def part(self) -> Path:
        """A part of the events, for what takes minutes."""
        return min(self.traffic["cloudevents"].folder.iterdir())

    @cached_property
    def _judges(self) -> _Judges:
        return _Judges(self.webhooks)

    @cached_property
    def _envelope(self) -> StructType:
        data = _merged(self.session, self.webhooks)
        return StructType().add("id", "string").add("source", "string").add("type", "string").add("data", data)

    def _written(
        self, name: str, templates: Sequence[TrafficTemplate], input_format: str, group: str, megabytes: int
    ) -> Traffic:
        if input_format == "cloudevents-jsonl":
            templates = [_structured(template) for template in templates]
        mean = statistics.mean(len(template.line) for template in templates)
        folder = self.folder / name
        count = round(megabytes * 1e6 / mean)
        ledger = traffic.write(folder, traffic.make_plan(templates, [], count, 0, _SEED))
        return Traffic(name=name, folder=folder, input_format=input_format, group=group, ledger=ledger)

    def pipeline(self, input: Traffic) -> None:
        """Our command, on an empty output folder; every message has to be where it must."""
        output = self.folder / "out"
        shutil.rmtree(output, ignore_errors=True)
        job = Job(
            registry=str(self.registry),
            groups=(f"/messagegroups/{input.group}",),
            inputs=(str(input.folder),),
            input_format=input.input_format,
            output=output,
            table_format="parquet",
            batch_id="b",
            master=MASTER,
        )
        report = run(job)
        assert report.tally.landed == input.landed, report
        assert report.tally.dead_lettered == input.ledger.nonconforming, report

    def spark_own(self) -> None:
        """``from_json`` and ``partitionBy``: one wide table, no rule. Of a part, for it takes minutes."""
        events = self.session.read.text(str(self.part))
        parsed = events.select(f.from_json("value", self._envelope).alias("e")).select("e.*")
        parsed.write.partitionBy("type").mode("overwrite").parquet(str(self.folder / "peer"))

    def validate_alone(self) -> None:
        """Decode and validate in this process, by one core."""
        for path in sorted(self.traffic["cloudevents"].folder.iterdir()):
            self._judges.hold(path)

    def fast_share(self) -> float:
        """The share of conforming events that the fast path takes."""
        events = self.traffic["cloudevents"]
        group = f"/messagegroups/{events.group}"
        contract = Snapshot.of_documents([("github", self.document)], [group]).compile(Policy())
        left = _left(contract, events.folder)
        return 1 - left / len(events.ledger.due)


class _Judges:
    """The validator of each type of event."""

    def __init__(self, webhooks: github.Webhooks) -> None:
        definitions = webhooks.schema["definitions"]
        self._validators = {
            github.cloudevent_type(name): jsonschema_rs.Draft7Validator(
                {"definitions": definitions, "$ref": f"#/definitions/{name}"}, validate_formats=False
            )
            for name in webhooks.definitions
        }

    def hold(self, path: Path) -> None:
        """Every event of a file to the schema of its type."""
        decode = msgspec.json.Decoder().decode
        with path.open("rb") as file:
            for line in file:
                event = decode(line)
                assert self._validators[event["type"]].is_valid(event["data"])


def _sound(templates: Sequence[TrafficTemplate]) -> list[TrafficTemplate]:
    return [template for template in templates if not template.reason]


def _structured(template: TrafficTemplate) -> TrafficTemplate:
    """The event of a request in binary mode as a structured one."""
    request = parse_json(template.line)
    headers = {name.lower(): value for name, value in request["headers"].items()}
    event = {name.removeprefix("ce-"): value for name, value in headers.items() if name.startswith("ce-")}
    event |= {"datacontenttype": "application/json", "data": parse_json(request["body"].encode())}
    return replace(template, line=dump_json(event))


def _merged(session: SparkSession, webhooks: github.Webhooks) -> StructType:
    """The schema that Spark infers of all payloads."""
    lines = session.sparkContext.parallelize([dump_json(payload.body).decode() for payload in webhooks.payloads])
    return session.read.json(lines).schema


def _left(contract: Contract, folder: Path) -> int:
    """How many events of a folder the fast path leaves to the slow one."""
    bookkeeping = Bookkeeping(fingerprint="f", batch="b", landed_at=now())
    fast = FastPath(
        contract,
        "",
        StructuredMode(),
        lambda found: RowBuilder(found, bookkeeping),
        lambda _, __: None,
    )
    results: Iterator[Result] = chain.from_iterable(
        fast.take(frame)
        for path in folder.iterdir()
        for frame in JSONL.read(Split(path=str(path), start=0, end=path.stat().st_size))
    )
    return sum(len(found.indices) for found in chain(results, fast.flush()) if isinstance(found, LeftOver))


def measure(folder: Path, session: SparkSession, megabytes: int, rounds: int) -> dict[str, Any] | None:
    """All figures, rounds interleaved; ``None`` where npm cannot fetch GitHub's examples."""
    webhooks = github.fetch(PACKAGES)
    if webhooks is None:
        return None
    bench = Bench(folder, session, webhooks, megabytes)
    size = bench.traffic["cloudevents"].ledger.bytes
    work: dict[str, Callable[[], None]] = {
        **{name: partial(bench.pipeline, found) for name, found in bench.traffic.items()},
        _SPARK: bench.spark_own,
        "validate_alone": bench.validate_alone,
    }
    sizes = {name: found.ledger.bytes for name, found in bench.traffic.items()}
    sizes[_SPARK] = bench.part.stat().st_size
    series = {name: Series(bytes=sizes.get(name, size)) for name in work}
    bench.pipeline(bench.traffic["cloudevents"])
    with peak_memory() as memory:
        for number in range(rounds):
            for name, contender in work.items():
                if number == 0 or name != _SPARK:
                    series[name].measure(contender)
    return result(bench, {name: found.summary() for name, found in series.items()}) | {
        "worker_peak_mib": round(memory.mib)
    }


def result(bench: Bench, series: dict[str, Any]) -> dict[str, Any]:
    """The figures with what they were taken on, and what they are beside each other."""
    ours = series["cloudevents"]
    alone, spark_own = series["validate_alone"], series[_SPARK]
    rate, by_cpu = "megabytes_per_second", "megabytes_per_cpu_second"
    return {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "master": MASTER,
        "dead_letters": {name: found.ledger.nonconforming for name, found in bench.traffic.items()},
        "messages": {name: len(found.ledger.due) for name, found in bench.traffic.items()},
        "tables": len(bench.traffic["cloudevents"].landed),
        "share_of_the_fast_path": round(bench.fast_share(), 4),
        "ratios": {
            "to_spark_from_json_unvalidated": round(ours[rate] / spark_own[rate], 2),
            "to_spark_from_json_unvalidated_by_cpu": round(ours[by_cpu] / spark_own[by_cpu], 2),
            "to_validating_alone_by_cpu": round(ours[by_cpu] / alone[by_cpu], 2),
        },
        **series,
    }


def main() -> None:
    """Measure these alone, and put them in their place among the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=MEGABYTES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name, open_session(MASTER) as session:
        found = measure(Path(name), session, options.megabytes, options.rounds)
    if found is None:
        parser.exit(1, "npm is not here, or cannot fetch GitHub's examples\n")
    others = json.loads(options.output.read_text()) if options.output.is_file() else {}
    options.output.write_text(json.dumps({**others, SECTION: found}, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
