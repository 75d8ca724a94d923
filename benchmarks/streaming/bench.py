"""The figures of streams: from a Kafka topic to tables, beside Spark's own ``from_json`` stream to Parquet.

    python -m benchmarks.streaming.bench [--events 1000000] [--rounds 3] [--rates 10000,25000,50000] [--seconds 40]
                                         [--output FILE]

Two things: how fast a topic is landed that is there already, in micro-batches of the same size, and how old records are
when they are committed while more come at a steady rate: from their timestamps to the entry in the journal, and for
Spark to that in the log of its sink. Kafka and what sends share the cores with what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.pipeline import peers
from benchmarks.pipeline.bench import MASTER, Series
from benchmarks.pipeline.traffic import catalogue, write_events
from benchmarks.streaming import latency
from benchmarks.streaming.load import PARTITIONS
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from signalbook.demo import kafka
from signalbook.pipeline import Job, Report, StreamJob, stream
from signalbook.pipeline.job.session import open_session

RESULTS = Path(__file__).parents[1] / "results" / "streaming.json"
DEFINITIONS = 50
LINES = 200_000
MOST = 250_000
WARM_SECONDS = 10
PROGRESS = 100_000
"""More batches than Spark's own stream can have here: it tells what it read by the batch."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Both contenders, on topics of one Kafka."""

    folder: Path
    session: SparkSession
    servers: str
    numbers: Iterator[int]

    def topic(self, events: int, rate: int = 0) -> tuple[str, subprocess.Popen[bytes]]:
        """A new topic, and what sends to it."""
        name = f"t{next(self.numbers)}"
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result()
        where = [self.servers, name, str(self.folder / "events.jsonl")]
        options = ["--count", str(events), "--rate", str(rate)]
        return name, subprocess.Popen([sys.executable, "-m", "benchmarks.streaming.load", *where, *options])

    def job(self, topic: str, output: Path, *, once: bool) -> StreamJob:
        """Our command, with one batch after the other."""
        job = Job(
            registry=str(self.folder / "definitions.json"),
            inputs=(f"kafka://{self.servers}/{topic}",),
            input_format="kafka",
            output=output,
            table_format="parquet",
            master=MASTER,
        )
        return StreamJob(job=job, interval=0, most=MOST, once=once)

    def peer(self, topic: str, output: Path, *, once: bool) -> Any:
        """Spark's own stream: the query."""
        source = self.session.readStream.format("kafka").option("subscribe", topic)
        source = source.option("kafka.bootstrap.servers", self.servers).option("startingOffsets", "earliest")
        records: DataFrame = source.option("maxOffsetsPerTrigger", MOST).load()
        texts = records.selectExpr("CAST(value AS STRING) AS value", "timestamp")
        writer = peers.judged(texts, "timestamp").writeStream.format("parquet").partitionBy("table")
        writer = writer.option("path", str(output)).option("checkpointLocation", str(output) + ".checkpoint")
        return (writer.trigger(availableNow=True) if once else writer).start()

    @contextmanager
    def output(self) -> Iterator[Path]:
        """An empty place."""
        place = self.folder / f"out{next(self.numbers)}"
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(f"{place}.checkpoint", ignore_errors=True)


def preloaded(bench: Bench, events: int, rounds: int) -> dict[str, Any]:
    """A topic that is there already, landed as fast as it goes."""
    topic, load = bench.topic(events)
    assert load.wait() == 0
    series = {name: Series(events=events) for name in ("pipeline", "spark_from_json")}
    _land(bench, topic, events)
    _peer_lands(bench, topic)
    for _ in range(rounds):
        series["pipeline"].measure(lambda: _land(bench, topic, events))
        series["spark_from_json"].measure(lambda: _peer_lands(bench, topic))
    return {name: found.summary() for name, found in series.items()}


def _land(bench: Bench, topic: str, events: int) -> None:
    reports: list[Report] = []
    with bench.output() as output:
        stream(bench.job(topic, output, once=True), threading.Event(), done=reports.append)
    assert sum(report.landed for report in reports) == events, reports


def _peer_lands(bench: Bench, topic: str) -> None:
    with bench.output() as output:
        bench.peer(topic, output, once=True).awaitTermination()


def paced(bench: Bench, rate: int, seconds: int) -> dict[str, Any]:
    """Ages of the records of ``seconds`` seconds at a steady rate, after some to get warm."""
    return {"pipeline": _follow(bench, rate, seconds), "spark_from_json": _peer_follows(bench, rate, seconds)}


def _follow(bench: Bench, rate: int, seconds: int) -> dict[str, Any]:
    committed: dict[str, float] = {}
    read, stop = [0], threading.Event()

    def done(report: Report) -> None:
        committed[report.batch] = time.time()
        read[0] += report.landed

    with bench.output() as output:
        topic, since, sent, load = _begin(bench, rate, seconds)
        follower = threading.Thread(
            target=stream, args=(bench.job(topic, output, once=False), stop), kwargs={"done": done}
        )
        follower.start()
        ended = _drained(load, lambda: read[0] >= sent or not follower.is_alive())
        stop.set()
        follower.join()
        assert read[0] == sent, f"{read[0]} of {sent} landed"
        return latency.told(latency.of_pipeline(output, committed, since)) | {"batches": len(committed), **ended}


def _peer_follows(bench: Bench, rate: int, seconds: int) -> dict[str, Any]:
    with bench.output() as output:
        topic, since, sent, load = _begin(bench, rate, seconds)
        query = bench.peer(topic, output, once=False)
        ended = _drained(load, lambda: not query.isActive or _rows(query) >= sent)
        assert query.isActive, query.exception()
        query.stop()
        batches = len(query.recentProgress)
        return latency.told(latency.of_spark(output, since)) | {"batches": batches, **ended}


def _rows(query: Any) -> int:
    return sum(entry["numInputRows"] for entry in query.recentProgress)


def _begin(bench: Bench, rate: int, seconds: int) -> tuple[str, float, int, subprocess.Popen[bytes]]:
    """A topic that begins to fill: its name, from when on records count, how many come, and what sends them."""
    sent = rate * (WARM_SECONDS + seconds)
    topic, load = bench.topic(sent, rate)
    return topic, time.time() + WARM_SECONDS, sent, load


def _drained(load: subprocess.Popen[bytes], landed: Callable[[], bool]) -> dict[str, Any]:
    """Wait until all was sent and landed; how long the second was behind the first."""
    assert load.wait() == 0
    begin = time.monotonic()
    while not landed():
        time.sleep(0.1)
    return {"seconds_behind_at_the_end": round(time.monotonic() - begin, 2)}


def result(bench: Bench, options: argparse.Namespace) -> dict[str, Any]:
    """All figures, and what they were taken on."""
    found: dict[str, Any] = {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cores": os.cpu_count(), "master": MASTER, "load before": os.getloadavg()},
        "versions": {name: version(name) for name in ("pyspark", "pyarrow", "msgspec")}
        | {"python": platform.python_version()},
        "input": {"definitions": DEFINITIONS, "most_in_a_batch": MOST},
    }
    series = found["preloaded"] = preloaded(bench, options.events, options.rounds)
    ours, floor = series["pipeline"], series["spark_from_json"]
    found["ratios"] = {
        "to_spark_from_json": round(ours["events_per_second"] / floor["events_per_second"], 2),
        "to_spark_from_json_by_cpu": round(floor["cpu_microseconds_per_event"] / ours["cpu_microseconds_per_event"], 2),
    }
    found["paced"] = {str(rate): paced(bench, rate, options.seconds) for rate in options.rates}
    found["machine"]["load after"] = os.getloadavg()
    return found


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=[10_000, 25_000, 50_000]
    )
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="signalbook-bench-") as name:
        folder = Path(name)
        write_events(folder / "events.jsonl", LINES, types=DEFINITIONS)
        (folder / "definitions.json").write_text(json.dumps(catalogue(DEFINITIONS)))
        broker = kafka.cluster(folder / "kafka")
        broker.open()
        try:
            with open_session(MASTER, jars=[kafka.jars("spark")]) as session:
                session.conf.set("spark.sql.streaming.numRecentProgressUpdates", PROGRESS)
                bench = Bench(folder, session, f"127.0.0.1:{broker.ports['plain']}", count(1))
                found = result(bench, options)
        finally:
            broker.stop()
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
