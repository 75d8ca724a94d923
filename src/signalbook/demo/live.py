"""The live side: a stream from a real Kafka, a definition changed while it runs, dead letters run again."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape

from signalbook.client import Client, Refused
from signalbook.demo import kafka, parcels, results
from signalbook.demo.kafka import NotInstalled
from signalbook.demo.program import end, keep
from signalbook.demo.results import DemoFailed, OutputFolder, ShownTable, misplaced
from signalbook.demo.traffic import TOKEN, Place, TrafficTemplate, delivery_id
from signalbook.pipeline import ReplayJob, replay
from signalbook.plugins import install
from signalbook.values import JSONObject

COMMAND: Final = "signalbook pipeline stream --job job.toml"
_TAIL: Final = 2000


class RunningStream:
    """A stream under way, by what it writes into the files ``stream.jsonl`` and ``stream.log`` of a folder."""

    def __init__(self, folder: Path, process: Popen[bytes]) -> None:
        self._process = process
        self._reports = (folder / "stream.jsonl").open("rb")
        self._log = folder / "stream.log"

    def news(self) -> Iterator[JSONObject]:
        """The reports of batches that were committed since this was asked last. Raises ``DemoFailed``."""
        # Asked before reading: what it wrote before its end is read all the same.
        ended = self._process.poll() is not None
        while True:
            place = self._reports.tell()
            line = self._reports.readline()
            # A line that is being written is read at the next look.
            if not line.endswith(b"\n"):
                self._reports.seek(place)
                break
            yield json.loads(line)
        if ended:
            output = self._log.read_text(errors="replace")[-_TAIL:].strip()
            raise DemoFailed(f"the stream ended by itself; it said:\n{output}")

    def close(self) -> None:
        """End it, after the batch at work."""
        end(self._process)
        self._reports.close()


@contextmanager
def streaming(job: Path) -> Iterator[RunningStream]:
    """The stream of a job file, until the end of the block."""
    folder = job.parent
    command = [sys.executable, "-m", "signalbook", "pipeline", "stream", "--job", job.name, "--json"]
    with (folder / "stream.jsonl").open("wb") as out, (folder / "stream.log").open("wb") as log:
        stream = RunningStream(folder, keep(command, folder, out, log))
    try:
        yield stream
    finally:
        stream.close()


def job(url: str, groups: tuple[str, ...], address: str, output: Path, jars: Path, master: str) -> str:
    """A job file for a topic: ten lines."""
    job_file: dict[str, object] = {
        "registry": url,
        "groups": list(groups),
        "inputs": [address],
        "output": str(output.absolute()),
        "jars": [str(jars)],
        "master": master,
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in job_file.items()]
    return "\n".join([*lines, "", "[stream]", 'name = "live"', "interval = 1", ""])


if TYPE_CHECKING:
    from kafka import KafkaProducer

_STRUCTURED: Final = [("content-type", b"application/cloudevents+json")]
_PATIENCE_MS: Final = 300_000
_KAFKA_TIMEOUTS: Final = dict.fromkeys(("bootstrap_timeout_ms", "max_block_ms", "delivery_timeout_ms"), _PATIENCE_MS)


class KafkaTopic:
    """A topic that only this sends to.

    ``due`` has for each record, by partition and offset, the xid of the message whose table it must land in, or the
    reason that it must become a dead letter for.
    """

    def __init__(self, producer: KafkaProducer, name: str) -> None:
        self.name = name
        self.due: dict[Place, str] = {}
        self._producer = producer
        self._partitions = len(producer.partitions_for(name))  # asked for, it is made
        self._numbers = count()

    def send(self, templates: Sequence[TrafficTemplate]) -> list[Place]:
        """Send an event of each template, structured CloudEvents, and wait until Kafka has them; their places."""
        # All are sent before the first is waited for, so that the producer makes batches of them.
        waiting = [(template, self._send(template)) for template in templates]
        self._producer.flush()
        return [self._enter(template, future.get()) for template, future in waiting]

    def _send(self, template: TrafficTemplate) -> Any:
        number = next(self._numbers)
        value = template.line.replace(TOKEN, delivery_id(number))
        return self._producer.send(self.name, value, headers=_STRUCTURED, partition=number % self._partitions)

    def _enter(self, template: TrafficTemplate, record: Any) -> Place:
        place = (f"kafka:{self.name}/{record.partition}", int(record.offset))
        self.due[place] = template.reason or template.definition
        return place


@contextmanager
def topic(servers: str, name: str) -> Iterator[KafkaTopic]:
    """A new topic of the cluster at ``servers``; each record is in it once."""
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, **_KAFKA_TIMEOUTS) as producer:
        yield KafkaTopic(producer, name)


_TOPIC: Final = "parcels"
_GROUPS: Final = (parcels.PARCELS, parcels.FLEET)
_CHANGED: Final = ("example.parcels", "example.parcels.delivered")
_FAULTS_PER_THOUSAND: Final = 10
_TIMEOUT_SECONDS: Final = 900.0
_POLL_SECONDS: Final = 0.1


@dataclass(slots=True, kw_only=True)
class Stage:
    """The common state of the acts. ``read`` and ``reasons`` count what the stream has reported.

    ``fingerprint`` is that of the definitions it used last.
    """

    console: Console
    url: str
    lake: OutputFolder
    topic: KafkaTopic
    stream: RunningStream
    master: str
    read: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    fingerprint: str = ""


def run(console: Console, folder: Path, url: str, *, count: int, seed: int, master: str) -> None:
    """Show it in ``folder`` with some ``count`` events and the registry at ``url``, which defines the carrier's events.

    Raises ``NotInstalled`` before anything is begun where there is no Kafka, ``NotStarted`` if it does not start, and
    ``DemoFailed`` when a single event is not where it must be.
    """
    jars = _check_needed()
    home = (folder / "live").absolute()
    broker = kafka.cluster(home / "kafka")
    with console.status("starting Kafka"):
        broker.open()
    try:
        servers = f"127.0.0.1:{broker.ports['plain']}"
        lake = OutputFolder(folder=folder / "lake" / "live", table_format="iceberg")
        text = job(url, _GROUPS, f"kafka://{servers}/{_TOPIC}", lake.folder, jars, master)
        (home / "job.toml").write_text(text, encoding="utf-8")
        with topic(servers, _TOPIC) as events, streaming(home / "job.toml") as stream:
            console.print(f"Kafka is at {servers}. [bold]{COMMAND}[/], with these lines:\n\n{escape(text)}")
            _play(Stage(console=console, url=url, lake=lake, topic=events, stream=stream, master=master), count, seed)
    finally:
        broker.stop()


def _check_needed() -> Path:
    """The folder with Spark's connector, where all else is there too."""
    kafka.jars("kafka")
    if find_spec("kafka") is None:
        raise NotInstalled(f"there is no client of Kafka: {install('kafka')}")
    return kafka.jars("spark")


def _play(on: Stage, count: int, seed: int) -> None:
    _as_defined(on, count, seed)
    early = _change(on, max(1, count // 10), seed)
    _run_again(on, early)
    _add_up(on)


def _as_defined(on: Stage, count: int, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible test traffic, nothing secret
    sound, faulty = parcels.templates(seed)
    faults = max(1, count * _FAULTS_PER_THOUSAND // 1000)
    plan = random.choices(sound, k=count - faults) + random.choices(faulty, k=faults)
    random.shuffle(plan)
    _send(on, plan, f"{count:,} events as the registry defines them, {faults:,} of them with a fault")


def _change(on: Stage, count: int, seed: int) -> dict[Place, str]:
    """Events that run ahead of their definitions, one of which is changed then; what becomes of the early ones."""
    on.console.rule("[bold]A definition changes while the stream runs", align="left")
    later = parcels.later_templates(seed)
    newer, unknown = ((later[name] * count)[:count] for name in ("parcels-co2", "parcels-returned"))
    early = _send(on, _mark_early(newer, "schema_violation"), f"{count:,} deliveries with a co2 that nobody declared")
    early |= _send(on, _mark_early(unknown, "no_match"), f"{count:,} events of a type that is not defined")
    results.reasons(on.console, on.reasons)
    before = on.lake.columns(*_CHANGED)
    _ask_too_much(on)
    judged = on.fingerprint
    _import(on, "parcels-co2", "Version 2 of the schema delivered, with co2")
    _send_until_judged_anew(on, newer, f"{count:,} deliveries with co2", judged)
    new = [name for name in on.lake.columns(*_CHANGED) if name not in before]
    if new != ["co2"]:
        raise DemoFailed(f"the new column of {_CHANGED[1]} should be co2, but it is {', '.join(new) or 'none'}")
    on.console.print("[green]✓[/] the stream was never stopped, and its table has a new column")
    group, message = _CHANGED
    columns = ("ce_source", "parcel", "to", "co2")
    results.rows(on.console, on.lake, ShownTable(group=group, message=message, columns=columns, having="co2"))
    return early


def _mark_early(templates: Sequence[TrafficTemplate], reason: str) -> list[TrafficTemplate]:
    return [replace(template, reason=reason) for template in templates]


def _run_again(on: Stage, early: dict[Place, str]) -> None:
    on.console.rule("[bold]Dead letters replayed", align="left")
    _import(on, "parcels-returned", "the message example.parcels.returned and its schema")
    with on.console.status("replaying the dead letters by the definitions of now"):
        result = replay(ReplayJob(registry=on.url, output=on.lake.folder, groups=_GROUPS, master=on.master))
    on.topic.due |= early
    stay = result.report.tally.dead_lettered
    on.console.print(f"{result.replayed:,} dead letters: {result.report.landed:,} moved to their tables, {stay:,} stay")


def _add_up(on: Stage) -> None:
    ends = list(on.lake.ends(_GROUPS))
    wrong = misplaced(on.topic.due, ends)
    if wrong:
        raise DemoFailed("the result is not what was sent:\n  " + "\n  ".join(wrong))
    dead = sum(not end.startswith("/") for _, end in ends)
    on.console.print(
        f"[green]✓[/] {len(ends):,} sent = {len(ends) - dead:,} landed + {dead:,} dead letters, each in its one "
        "place, once, by partition and offset"
    )


def _ask_too_much(on: Stage) -> None:
    """A change that what was said before does not meet: the schema's own rule is against it."""
    document = parcels.carrier_definitions("parcels-co2")
    version = document["schemagroups"]["example.parcels"]["schemas"]["delivered"]["versions"]["2"]
    version["schema"]["required"].append("co2")
    try:
        with Client(on.url, timeout=120) as client:
            client.import_document(document)
    except Refused as error:
        on.console.print(f"refused: a Version 2 that requires co2, for {escape(error.faults[0].message)}")
    else:
        raise DemoFailed("a Version that requires co2 should be refused: deliveries of before have none")


def _import(on: Stage, document: str, description: str) -> None:
    with Client(on.url, timeout=120) as client:
        client.import_document(parcels.carrier_definitions(document))
    on.console.print(f"registered: {description}")


def _send(on: Stage, templates: Sequence[TrafficTemplate], description: str) -> dict[Place, str]:
    """Send events and wait until the stream has landed them; the xids of what they are meant to be, by their places."""
    with on.console.status(f"sending {description}"):
        places = on.topic.send(templates)
    on.console.print(f"sent: {description}")
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    with on.console.status("waiting for the stream"):
        while on.read < len(on.topic.due):
            for report in on.stream.news():
                _print_report(on, report)
            if time.monotonic() > deadline:
                raise DemoFailed(
                    f"{len(on.topic.due):,} events were sent, but {on.read:,} read for {_TIMEOUT_SECONDS:,.0f} s"
                )
            time.sleep(_POLL_SECONDS)
    return {place: template.definition for place, template in zip(places, templates, strict=True)}


def _send_until_judged_anew(on: Stage, templates: Sequence[TrafficTemplate], description: str, judged: str) -> None:
    """Send events until the stream goes by other definitions than ``judged``: it goes on with those it has got while
    the registry does not answer it, and what was sent by then is among the dead letters."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    _send(on, templates, description)
    while on.fingerprint == judged and time.monotonic() < deadline:
        _send(on, templates, f"{description}, again, for the registry had not answered the stream in time")


def _print_report(on: Stage, report: JSONObject) -> None:
    on.read += report["read"]
    on.reasons.update(report["reasons"])
    on.fingerprint = report["fingerprint"]
    on.console.print(
        f"[dim]stream │ {report['batch']}, definitions {report['fingerprint'][:8]}:[/] {report['read']:,} read = "
        f"{report['landed']:,} landed + {report['dead_lettered']:,} dead letters"
    )
