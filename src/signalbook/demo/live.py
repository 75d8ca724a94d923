"""The live side: a stream from a real Kafka, a definition changed while it runs, dead letters run again."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from signalbook.client import Client, Refused
from signalbook.demo import kafka, parcels, results, traffic
from signalbook.demo.kafka import NotInstalled
from signalbook.demo.program import end, keep
from signalbook.demo.results import DemoFailed, OutputFolder
from signalbook.demo.traffic import Place, TrafficTemplate
from signalbook.pipeline import ReplayJob, replay
from signalbook.plugins import install
from signalbook.values import JSONObject, format_count

if TYPE_CHECKING:
    from kafka import KafkaProducer

COMMAND: Final = "signalbook pipeline stream --job job.toml"
_LOG_CHARS: Final = 2000
_TOPIC: Final = "parcels"
_GROUPS: Final = (parcels.PARCELS, parcels.FLEET)
_CHANGED: Final = ("example.parcels", "example.parcels.delivered")
_STRUCTURED: Final = [("content-type", b"application/cloudevents+json")]
_TIMEOUT_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.1
_KAFKA_TIMEOUTS: Final = dict.fromkeys(("bootstrap_timeout_ms", "max_block_ms", "delivery_timeout_ms"), 300_000)


class RunningStream:
    """A stream under way, by what it writes into the files ``stream.jsonl`` and ``stream.log`` of a folder."""

    def __init__(self, folder: Path, process: Popen[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._seen = 0

    def news(self) -> Iterator[JSONObject]:
        """The reports of batches that were committed since this was asked last. Raises ``DemoFailed``."""
        # Asked before reading: what it wrote before its end is read all the same.
        ended = self._process.poll() is not None
        # What is behind the last line break is being written.
        lines = (self._folder / "stream.jsonl").read_bytes().split(b"\n")[:-1]
        for line in lines[self._seen :]:
            yield json.loads(line)
        self._seen = len(lines)
        if ended:
            output = (self._folder / "stream.log").read_text(errors="replace")[-_LOG_CHARS:].strip()
            raise DemoFailed(f"the stream ended by itself; it said:\n{output}")


@contextmanager
def streaming(job: Path) -> Iterator[RunningStream]:
    """The stream of a job file, until the end of the block."""
    folder = job.parent
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--job", job.name, "--json"]
    with (folder / "stream.jsonl").open("wb") as out, (folder / "stream.log").open("wb") as log:
        process = keep(command, folder, out, log)
    try:
        yield RunningStream(folder, process)
    finally:
        end(process)  # after the batch at work


def job(url: str, groups: tuple[str, ...], address: str, output: Path, jars: Path, master: str) -> str:
    """A job file for a topic: ten lines."""
    job_file = {
        "registry": url,
        "groups": list(groups),
        "inputs": [address],
        "output": str(output.absolute()),
        "jars": [str(jars)],
        "master": master,
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in job_file.items()]
    return "\n".join([*lines, "", "[stream]", 'name = "live"', "interval = 1", ""])


def run(console: Console, folder: Path, url: str, *, count: int, seed: int, master: str) -> None:
    """Show it in ``folder`` with some ``count`` events and the registry at ``url``, which defines the carrier's events.

    Raises ``NotInstalled`` before anything is begun where there is no Kafka, ``NotStarted`` if it does not start, and
    ``DemoFailed`` when a single event is not where it must be.
    """
    kafka.jars("kafka")
    if find_spec("kafka") is None:
        raise NotInstalled(f"there is no client of Kafka: {install('kafka')}")
    connector = kafka.jars("spark")
    from kafka import KafkaProducer

    home = (folder / "live").absolute()
    broker = kafka.cluster(home / "kafka")
    with console.status("starting Kafka"):
        broker.open()
    try:
        servers = f"127.0.0.1:{broker.ports['plain']}"
        lake = OutputFolder(folder=folder / "lake" / "live")
        text = job(url, _GROUPS, f"kafka://{servers}/{_TOPIC}", lake.folder, connector, master)
        (home / "job.toml").write_text(text, encoding="utf-8")
        with (
            KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, **_KAFKA_TIMEOUTS) as producer,
            streaming(home / "job.toml") as stream,
        ):
            console.print(f"Kafka is at {servers}. [bold]{COMMAND}[/], with these lines:\n\n{escape(text)}")
            _Stage(console, url, lake, producer, stream).play(count, seed, master)
    finally:
        broker.stop()


@dataclass(slots=True)
class _Stage:
    """What the acts share.

    ``due`` has for each record the xid of the message whose table it must land in, or the reason that it must become a
    dead letter for. ``read`` and ``reasons`` count what the stream has reported, ``fingerprint`` is that of the
    definitions it used last.
    """

    console: Console
    url: str
    lake: OutputFolder
    producer: KafkaProducer
    stream: RunningStream
    due: dict[Place, str] = field(default_factory=dict)
    read: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    fingerprint: str = ""

    def play(self, count: int, seed: int, master: str) -> None:
        """Send events, change a definition, replay dead letters, check where everything is."""
        sound, faulty = parcels.sound_templates(), parcels.faulty_templates()
        plan = traffic.make_plan(sound, faulty, count, max(1, count // 500), seed)
        faults = sum(template.fault is not None for template in plan)
        self._send(
            plan, f"{format_count(count, 'event')} as the registry defines them, {faults:,} of them with a fault"
        )

        self.console.rule("[bold]A definition changes while the stream runs", align="left")
        count = max(1, count // 10)
        deliveries = format_count(count, "delivery", "deliveries")
        newer, unknown = ((templates * count)[:count] for templates in parcels.later_templates().values())
        early = self._send(newer, f"{deliveries} with a co2 that nobody declared", "schema_violation")
        early |= self._send(unknown, f"{format_count(count, 'event')} of a type that is not defined", "unknown_kind")
        results.show_reasons(self.console, self.reasons)
        before = self.lake.read(*_CHANGED).column_names
        self._ask_too_much()
        self._change(newer, f"{deliveries} with co2")
        new = [name for name in self.lake.read(*_CHANGED).column_names if name not in before]
        if new != ["co2"]:
            raise DemoFailed(f"the new column of {_CHANGED[1]} should be co2, but it is {', '.join(new) or 'none'}")
        self.console.print("[green]✓[/] the stream was never stopped, and its table has a new column")
        columns = ("ce_source", "parcel", "to", "co2")
        results.show_rows(self.console, self.lake, *_CHANGED, columns, having="co2")

        self.console.rule("[bold]Dead letters replayed", align="left")
        self._import("parcels-returned", "the message example.parcels.returned and its schema")
        with self.console.status("replaying the dead letters by the definitions of now"):
            result = replay(ReplayJob(registry=self.url, output=self.lake.folder, groups=_GROUPS, master=master))
        landed, stay = result.report.landed, result.report.tally.dead_lettered
        replayed, stay_words = format_count(result.replayed, "dead letter"), format_count(stay, "stays", "stay")
        self.console.print(f"{replayed}: {landed:,} moved to their tables, {stay_words}")
        ends = list(self.lake.ends(_GROUPS))
        results.check(self.due | early, ends)
        dead = sum(not end.startswith("/") for _, end in ends)
        self.console.print(
            f"[green]✓[/] {len(ends):,} sent = {len(ends) - dead:,} landed + {format_count(dead, 'dead letter')}, "
            "each in its one place, once, by partition and offset"
        )

    def _send(self, templates: Sequence[TrafficTemplate], description: str, reason: str = "") -> dict[Place, str]:
        """Send events, wait until the stream has processed them, and return the definition of each by its place.

        ``reason`` is given for events whose definition is registered later. Until then, they must be dead letters with
        this reason.
        """
        partitions = len(self.producer.partitions_for(_TOPIC))  # this request creates the topic
        with self.console.status(f"sending {description}"):
            # All are sent before the first is waited for, so that the producer makes batches of them.
            futures = [
                self.producer.send(_TOPIC, template.write(number), headers=_STRUCTURED, partition=number % partitions)
                for number, template in enumerate(templates, start=len(self.due))
            ]
            self.producer.flush()
        records = [future.get() for future in futures]
        places = [(f"kafka:{_TOPIC}/{record.partition}", int(record.offset)) for record in records]
        for place, template in zip(places, templates, strict=True):
            self.due[place] = reason or template.reason or template.definition
        self.console.print(f"sent: {description}")
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        with self.console.status("waiting for the stream"):
            while self.read < len(self.due):
                for report in self.stream.news():
                    self._take(report)
                if time.monotonic() > deadline:
                    sent = format_count(len(self.due), "event was", "events were")
                    raise DemoFailed(f"{sent} sent, but only {self.read:,} read in time")
                time.sleep(_POLL_SECONDS)
        return {place: template.definition for place, template in zip(places, templates, strict=True)}

    def _take(self, report: JSONObject) -> None:
        self.read += report["read"]
        self.reasons.update(report["reasons"])
        self.fingerprint = report["fingerprint"]
        self.console.print(
            f"[dim]stream │ {report['batch']}, definitions {report['fingerprint'][:8]}:[/] {report['read']:,} read = "
            f"{report['landed']:,} landed + {format_count(report['dead_lettered'], 'dead letter')}"
        )

    def _ask_too_much(self) -> None:
        """Show that a change is refused which earlier events do not meet: the schema's own rule is against it."""
        document = parcels.carrier_definitions("parcels-co2")
        version = document["schemagroups"]["example.parcels"]["schemas"]["delivered"]["versions"]["2"]
        version["schema"]["required"].append("co2")
        try:
            with Client(self.url, timeout=120) as client:
                client.import_document(document)
        except Refused as error:
            self.console.print(f"refused: a Version 2 that requires co2, for {escape(error.faults[0].message)}")
        else:
            raise DemoFailed("a Version that requires co2 should be refused: deliveries of before have none")

    def _change(self, templates: Sequence[TrafficTemplate], description: str) -> None:
        """Register Version 2, and send events until the stream goes by it.

        It goes on with the definitions it has while the registry does not answer it. Events sent by then are among the
        dead letters, and replayed with them.
        """
        former, deadline = self.fingerprint, time.monotonic() + _TIMEOUT_SECONDS
        self._import("parcels-co2", "Version 2 of the schema delivered, with co2")
        self._send(templates, description)
        while self.fingerprint == former and time.monotonic() < deadline:
            self._send(templates, f"{description}, again, for the registry had not answered the stream in time")

    def _import(self, document: str, description: str) -> None:
        with Client(self.url, timeout=120) as client:
            client.import_document(parcels.carrier_definitions(document))
        self.console.print(f"registered: {description}")
