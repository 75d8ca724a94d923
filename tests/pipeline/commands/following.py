"""What tests of streams have in common: streams of what is there now, drivers that die, and where everything is."""

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from tests.pipeline.lake import folder

from signalbook.pipeline import Job, Progress, Report, StreamJob, stream
from signalbook.pipeline.commands.stream import MicroBatches

_TAKE = MicroBatches.take


def places(output: Path) -> Counter[tuple[str, int]]:
    """Count how often each record is in a table or among the dead letters."""
    counts: Counter[tuple[str, int]] = Counter()
    for part, names in (("tables", ["_source", "_position"]), ("dead_letters", ["source", "position"])):
        for path in (output / part).rglob("*.parquet"):
            columns = pq.ParquetFile(path).read(names).to_pydict()
            counts.update(zip(*columns.values(), strict=True))
    return counts


def all_once(output: Path, number: int) -> bool:
    counts = places(output)
    return len(counts) == counts.total() == number


def sent(output: Path) -> set[str]:
    """The ids of all events that are in a table or, in either mode, among the dead letters."""
    event_ids: set[str] = set()
    for path in output.glob("tables/**/*.parquet"):
        event_ids.update(pq.ParquetFile(path).read(["ce_id"]).column("ce_id").to_pylist())
    for path in output.glob("dead_letters/**/*.parquet"):
        for letter in pq.ParquetFile(path).read().to_pylist():
            message = str(letter)
            event_ids.update(re.findall(r"\be-\d+\b", message))
    return event_ids


def number_events(parcels: Any, first: int, count: int) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield events, each with True if it is sent in binary mode. One in ten is invalid, one in three in binary mode."""
    for number in range(first, first + count):
        yield parcels.event(number, **({"data": {"id": 1}} if number % 10 == 9 else {})), number % 3 == 1


def build_stream_job(definitions: Path, output: Path | str, url: str, input_format: str, **more: Any) -> Job:
    options: dict[str, Any] = {"table_format": "parquet", "partition": "none", **more}
    return Job(registry=str(definitions), inputs=(url,), input_format=input_format, output=output, **options)


def landed_rows(job: Job) -> list[dict[str, Any]]:
    return [row for path in folder(job).glob("tables/**/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


def read_contents(job: Job) -> bytes:
    """Return all that is in the files of an output."""
    return b"".join(path.read_bytes() for path in folder(job).rglob("*") if path.is_file())


def follow(job: Job, **more: Any) -> list[Report]:
    """The reports of a stream of what is there now."""
    reports: list[Report] = []
    stream(StreamJob(job=job, once=True, **more), threading.Event(), done=reports.append)
    return reports


def until(job: Job, number: int, **more: Any) -> list[Report]:
    """The reports of streams that end when nothing comes for a moment, until so many messages are somewhere."""
    deadline = time.monotonic() + 900
    reports = follow(job, **more)
    while len(places(folder(job))) < number and time.monotonic() < deadline:
        reports += follow(job, **more)
    return reports


def dying_at(stage: str) -> Callable[[Any, DataFrame, int], None]:
    """Return a function that takes a batch and dies at a stage of it, as a child of this process, so that the JVM
    of this process survives.
    """

    def die(progress: Progress) -> None:
        if progress.stage == stage:
            os.kill(os.getpid(), signal.SIGKILL)

    def take_and_die(batches: Any, frame: DataFrame, number: int) -> None:
        batches._show = die
        pid = os.fork()
        if pid == 0:
            try:
                _TAKE(batches, frame, number)
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise RuntimeError(f"the driver ended by {code}")

    return take_and_die
