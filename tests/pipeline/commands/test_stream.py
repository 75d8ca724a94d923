"""Topics of a real Kafka, as batches and as streams: what lands, and that it does once whoever dies when."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from tests.brokers.program import Broker
from tests.pipeline.commands.following import all_once, build_stream_job, dying_at, follow, landed_rows, places
from tests.pipeline.commands.test_run import rows
from tests.pipeline.conftest import CONNECTORS
from tests.pipeline.lake import folder
from tests.pipeline.s3 import place

from signalbook.pipeline import Job, PipelineError, Report, StreamJob, run, status, stream
from signalbook.pipeline.commands import stream as stream_command
from signalbook.pipeline.journal import Journal

pytestmark = pytest.mark.usefixtures("spark_session")
STRUCTURED = [("content-type", b"application/cloudevents+json")]
# Neither Spark nor the producer gives a broker up that is held up for a minute.
PATIENT = urlencode({"kafka.request.timeout.ms": 300_000, "kafka.default.api.timeout.ms": 600_000})
PATIENCE = {
    "bootstrap_timeout_ms": 300_000,
    "max_block_ms": 300_000,
    "request_timeout_ms": 300_000,
    "delivery_timeout_ms": 600_000,
}
_numbers = count(1)


class Topic:
    """A topic with events numbered through, in structured and binary mode, of which each tenth is wrong."""

    def __init__(self, producer: KafkaProducer, address: str, parcels: Any) -> None:
        self.name = f"parcels-{os.getpid()}-{next(_numbers)}"
        self.url = f"kafka://{address}/{self.name}?{PATIENT}"
        self.sent = 0
        self._producer = producer
        self._parcels = parcels

    def send(self, number: int, **more: Any) -> None:
        """Send so many events."""
        sent = [self._send(future, more) for future in range(self.sent, self.sent + number)]
        self._producer.flush()
        for future in sent:
            future.get()  # raises if it did not arrive
        self.sent += number

    def _send(self, number: int, more: dict[str, Any]) -> Any:
        wrong = {"data": {"id": 1}} if number % 10 == 9 else {}
        value, headers = self._record(self._parcels.event(number, **more, **wrong), binary=number % 3 == 1)
        return self._producer.send(self.name, value, key=b"k", headers=headers, partition=number % 3)

    def _record(self, event: dict[str, Any], *, binary: bool) -> tuple[bytes, list[tuple[str, bytes]]]:
        if not binary:
            return json.dumps(event).encode(), STRUCTURED
        data = json.dumps(event.pop("data")).encode()
        headers = [(f"ce_{name}", value.encode()) for name, value in event.items()]
        return data, [*headers, ("content-type", b"application/json")]


@pytest.fixture(scope="module")
def producer(kafka: Broker) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=f"127.0.0.1:{kafka.ports['plain']}", **PATIENCE) as kafka_producer:
        yield kafka_producer


@pytest.fixture
def topic(kafka: Broker, producer: KafkaProducer, parcels: Any) -> Topic:
    return Topic(producer, f"127.0.0.1:{kafka.ports['plain']}", parcels)


@pytest.fixture
def job(tmp_path: Path, definitions: Path, topic: Topic) -> Job:
    return build_stream_job(definitions, tmp_path / "out", topic.url, "kafka")


def test_a_topic_as_a_batch(job: Job, topic: Topic) -> None:
    topic.send(30)
    report = run(replace(job, batch_id="b1"))
    assert (report.tally.read, report.landed, report.tally.reasons) == (30, 27, {"schema_violation": 3})
    rows = landed_rows(job)
    assert {row["_address"] for row in rows} == {topic.name}
    assert {row["_source"] for row in rows} == {f"kafka:{topic.name}/{n}" for n in range(3)}
    assert all(row["_received_at"] is not None and row["_position"] < 10 for row in rows)
    topic.send(1)
    assert "committed before" in run(replace(job, batch_id="b1")).note


def test_stream_continues_where_it_ended(job: Job, topic: Topic, definitions: Path, parcels: Any) -> None:
    topic.send(20)
    first = follow(job, most=12)
    assert sum(report.tally.read for report in first) == 20
    assert len(first) == 2
    document = parcels.catalogue()
    document["messagegroups"]["parcels"]["messages"]["parcel.late"] = parcels.message("parcel.late")
    definitions.write_text(json.dumps(document))
    topic.send(10, type="parcel.late")
    (second,) = follow(job)
    assert second.tally.landed == {"/messagegroups/parcels/messages/parcel.late": 10}
    assert second.fingerprint != first[0].fingerprint
    assert follow(job) == []
    (state,) = status(folder(job)).streams
    assert (state.name, state.batches, state.tally.read) == ("stream", 3, 30)
    assert all_once(folder(job), 30)


@pytest.mark.merge
def test_every_message_lands_exactly_once(job: Job, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Micro-batches die at one stage after the other; Spark asks again, and the journal knows what is left to do.

    The driver of each is a child of this process, so that all of them have one JVM.
    """
    for stage in ("processing", "prepared", "committing", "committed"):
        topic.send(10)
        monkeypatch.setattr(stream_command.MicroBatches, "take", dying_at(stage))
        with pytest.raises(PipelineError, match=f"the driver ended by -{signal.SIGKILL.value}"):
            follow(job)
    monkeypatch.undo()
    topic.send(10)
    follow(job)
    assert all_once(folder(job), 50)
    assert not list(folder(job).glob(".staging/*"))


@pytest.mark.merge
def test_a_stream_of_delta(job: Job, topic: Topic) -> None:
    topic.send(20)
    assert len(follow(replace(job, table_format="delta"), most=12)) == 2
    assert sorted(landed(folder(job))) == sorted(f"e-{number}" for number in range(20) if number % 10 != 9)
    assert len(rows(folder(job), "dead_letters")) == 2


def landed(output: Path) -> list[str]:
    """The ids of the events in the table, as a reader of its format sees them."""
    return [row["ce_id"] for row in rows(output, "parcels/parcel.accepted")]


def page(job: Job, topic: Topic) -> str:
    """The job file that the documentation shows, for this job."""
    text = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text().split("```")[1].removeprefix("toml")
    ours = {"http://localhost:8080": job.registry, "kafka://localhost:9092/orders": topic.url, "lake": str(folder(job))}
    for theirs, replacement in ours.items():
        assert text.count(f'"{theirs}"') == 1
        text = text.replace(f'"{theirs}"', f'"{replacement}"')
    return text


def java_of(driver: int) -> int:
    """The process id of a driver's Java."""
    children = Path(f"/proc/{driver}/task/{driver}/children").read_text().split()
    (java,) = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"]
    return java


@pytest.mark.merge
def test_a_driver_killed_for_good(job: Job, topic: Topic, tmp_path: Path) -> None:
    """The same with a JVM and workers of its own, and a job file as the documentation has it.

    The JVM ends with its driver, but not at once: the next run waits until it has.
    """
    topic.send(20)
    (tmp_path / "job.toml").write_text(page(job, topic))
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--job", str(tmp_path / "job.toml")]
    options = ["--interval", "0", "--master", "local[1]", "--jars", str(CONNECTORS)]
    with subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 900
        while not list(folder(job).glob("batches/*.json")) and time.monotonic() < deadline:
            assert process.poll() is None, "the stream ended"
            time.sleep(0.05)
        topic.send(10)
        java = java_of(process.pid)
        os.kill(java, signal.SIGSTOP)
        process.kill()

    def tell(text: str) -> None:
        errors.append(text)
        os.kill(java, signal.SIGCONT)

    errors: list[str] = []
    again = StreamJob(job=replace(job, table_format="iceberg", partition="day"), name="orders", once=True)
    try:
        stream(again, threading.Event(), tell)
    finally:
        with suppress(ProcessLookupError):
            os.kill(java, signal.SIGKILL)
    assert errors == ["waiting for the end of the Java process of an earlier run of the stream 'orders'"]
    (state,) = status(folder(job)).streams
    assert (state.name, state.tally.read, state.tally.landed.total()) == ("orders", 30, 27)


class Overlooked(threading.Event):
    """A stop event that is set without being noticed, as by a blocked driver."""

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(0.05)
        return False


@pytest.mark.parametrize("event", [threading.Event, pytest.param(Overlooked, marks=pytest.mark.merge)])
def test_a_stream_that_is_stopped_ends_its_batch(job: Job, topic: Topic, event: type[threading.Event]) -> None:
    stop = event()
    reports: list[Report] = []

    def done(report: Report) -> None:
        reports.append(report)
        stop.set()

    topic.send(20)
    once = event is Overlooked  # so that it ends in any case
    stream(StreamJob(job=job, most=9, interval=0, once=once), stop, done=done)
    assert len(reports) == 1
    assert len(places(folder(job))) == reports[0].tally.read < 20
    follow(job)
    assert all_once(folder(job), 20)


@pytest.mark.merge
def test_a_stream_that_waits_for_others_in_its_folder_can_be_stopped(job: Job, topic: Topic) -> None:
    stop, reports, other_job = threading.Event(), list[Report](), ExitStack()
    planned = folder(job) / "streams" / "stream" / "checkpoint" / "offsets" / "1"

    def stop_the_next() -> None:
        deadline = time.monotonic() + 900
        while not planned.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()

    def done(report: Report) -> None:
        reports.append(report)
        other_job.enter_context(Journal.open(folder(job)).lock_output(900.0))
        threading.Thread(target=stop_the_next, daemon=True).start()

    topic.send(20)
    with other_job:
        stream(StreamJob(job=job, most=9, interval=0), stop, done=done)
    assert len(places(folder(job))) == reports[0].tally.read < 20
    follow(job)
    assert all_once(folder(job), 20)


@pytest.mark.merge
def test_a_stream_ends_its_batch_by_a_signal(job: Job, topic: Topic, tmp_path: Path) -> None:
    """The stream is a separate process; the next run continues after the batch that was running."""
    topic.send(20)
    (tmp_path / "job.toml").write_text(page(job, topic))
    options = ["--interval", "0", "--max-messages", "10", "--master", "local[1]", "--jars", str(CONNECTORS)]
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--job", str(tmp_path / "job.toml")]
    with subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 900
        # a batch is at work, or was while nobody looked
        begun = (".staging/*", "batches/*.json")
        while not any(list(folder(job).glob(pattern)) for pattern in begun) and time.monotonic() < deadline:
            assert process.poll() is None, "the stream ended"
            time.sleep(0.05)
        process.terminate()
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0
    batches = [path.stem for path in sorted(folder(job).glob("batches/*.json"))]
    assert batches
    assert [line.partition(":")[0] for line in output.decode().splitlines()] == batches
    assert not list(folder(job).glob("batches/prepared/*"))
    follow(replace(job, table_format="iceberg", partition="day"), name="orders")
    (state,) = status(folder(job)).streams
    assert (state.tally.read, state.tally.landed.total()) == (20, 18)


@pytest.mark.merge
def test_stream_continues_from_the_journal_without_a_checkpoint(job: Job, topic: Topic) -> None:
    """The stream goes on where the journal ends, whatever ``startingOffsets`` says; one that is older is no other."""
    topic.send(20)
    follow(job, most=8)
    place = folder(job) / "streams" / "stream" / "checkpoint"
    older = folder(job).with_name("older")
    for offsets in ("earliest", "latest"):
        if place.exists():
            shutil.move(place, older)
        topic.send(5)
        (report,) = follow(replace(job, options={"startingOffsets": offsets}))
        assert report.tally.read == 5
    shutil.rmtree(place)
    shutil.move(older, place)
    topic.send(5)
    follow(job)
    assert all_once(folder(job), 35)
    (place / "metadata").unlink()
    with pytest.raises(PipelineError, match=r"does not start from .*checkpoint: .*MISSING_METADATA"):
        follow(job)


@pytest.mark.merge
def test_a_checkpoint_of_another_stream(job: Job, topic: Topic) -> None:
    """Batches of the journal must not be taken for other input."""
    topic.send(10)
    follow(job)
    follow(job, name="other", most=4)
    streams = folder(job) / "streams"
    shutil.rmtree(streams / "stream" / "checkpoint")
    shutil.move(streams / "other" / "checkpoint", streams / "stream")
    with pytest.raises(PipelineError, match=r"last one is stream-000000000.: remove .*checkpoint, and the"):
        follow(job)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"input_format": "cloudevents-jsonl"}, "files, which are no stream"),
        ({"inputs": ("topic",)}, "no address of Kafka topics"),
        ({"registry": "/nowhere.json"}, "the definitions /nowhere.json are not there"),
    ],
)
def test_stream_that_cannot_start_is_explained(job: Job, more: dict[str, Any], words: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(words)):
        follow(replace(job, **more))
    assert not folder(job).exists()


LOGIN = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
SASL = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BRIEF = "kafka.default.api.timeout.ms=2000&kafka.request.timeout.ms=1000&fetchOffset.numRetries=1"
FAILURES = [
    ("plain", f"nosuch?{BRIEF}", {}, r"^Kafka at 127\.0\.0\.1:\d+ has no topic nosuch, or not all of these"),
    ("plain", f"parcels?{BRIEF}", {"kafka.security.protocol": "SSL"}, "no TLS with Kafka at|does not answer"),
    (
        "password",
        "parcels",
        {**LOGIN, "kafka.sasl.jaas.config": f'{SASL} username="nobody" password="hush";'},
        "^Kafka at .* refuses the login of the options kafka.sasl[^\n]*$",
    ),
    ("plain", "parcels", {"startingOffsets": "tomorrow"}, "tomorrow"),
]


@pytest.mark.parametrize(
    ("server", "port", "topic_name", "options", "words"),
    [
        pytest.param("local", *FAILURES[0], id="topic"),
        pytest.param("local", *FAILURES[1], id="tls", marks=pytest.mark.merge),
        pytest.param("local", *FAILURES[2], id="login", marks=pytest.mark.merge),
        pytest.param("local", *FAILURES[3], id="option", marks=pytest.mark.merge),
        pytest.param("s3proxy", *FAILURES[0], id="store", marks=pytest.mark.merge),
    ],
)
def test_failing_source_leaves_no_output(
    job: Job,
    kafka: Broker,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    port: str,
    topic_name: str,
    options: dict[str, str],
    words: str,
) -> None:
    """A run and a stream leave nothing in a folder or a store; the error is one line with a hint."""
    monkeypatch.setenv("SIGNALBOOK_STATE", str(tmp_path / "state"))
    output = place(server, tmp_path / "deep" / "out", request)
    inputs = (f"kafka://127.0.0.1:{kafka.ports[port]}/{topic_name}",)
    wrong = replace(job, inputs=inputs, options=options, output=output, storage=output.storage, table_format="iceberg")
    for command in (run, follow):
        with pytest.raises(PipelineError, match=words) as caught:
            command(wrong)
        assert "\n" not in str(caught.value)
        assert "hush" not in str(caught.value)
        assert [entry.path for entry in output.list_files(deep=True)] == []
        assert not (tmp_path / "deep").exists()
        assert not list(tmp_path.glob("state/*"))


def test_two_streams_of_one_name(job: Job, spark_session: SparkSession) -> None:
    with (
        stream_command._lock_stream(Journal.open(job.place), folder(job) / "streams" / "stream", "stream"),
        pytest.raises(PipelineError, match="give this"),
    ):
        follow(job)
