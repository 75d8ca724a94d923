"""The demonstration from end to end: a registry, its definitions, traffic, the pipeline, the check, the result."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import httpx
from rich.console import Console
from rich.markup import escape

from signalbook.client import Client
from signalbook.demo import github, live, parcels, results, traffic
from signalbook.demo.kafka import NotInstalled
from signalbook.demo.program import NotStarted, Ports, Program
from signalbook.demo.results import DemoFailed, OutputFolder, ShownTable
from signalbook.demo.traffic import TrafficTemplate
from signalbook.events import definitions as events
from signalbook.pipeline import Job, Progress, Report
from signalbook.pipeline import run as run_pipeline
from signalbook.values import dump_json

_TIMEOUT_SECONDS: Final = 300.0


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run ``signalbook serve`` on a free port with its database in ``folder``; yields its URL, stops it at the end.

    Raises ``NotStarted``.
    """
    home = folder / "registry"
    home.mkdir(exist_ok=True)
    server = Program("the registry server", home, _configure, "Signalbook serves the registry", ("http",))
    server.open()
    try:
        url = f"http://127.0.0.1:{server.ports['http']}"
        _await(server, url)
        yield url
    finally:
        server.stop()


def _configure(folder: Path, ports: Ports) -> list[str]:
    command = [sys.executable, "-m", "signalbook", "serve", "--port", str(ports["http"]), "--registry-id", "demo"]
    return [*command, "--db", f"sqlite:///{folder.absolute().parent / 'registry.db'}"]


def _await(server: Program, url: str) -> None:
    """Wait until the server answers, a moment after it printed that it serves."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while server.runs and time.monotonic() < deadline:
        try:
            if httpx.get(f"{url}/health/ready", timeout=10).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise NotStarted(f"the registry server does not answer; the end of {server.log}:\n{server.said}")


DELIVERIES: Final = 200_000
_SEED: Final = 1805
_FAULTS_PER_THOUSAND: Final = 1
_LEAST_LIVE: Final = 200
_MOST_LIVE: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficStream:
    """A stream of traffic, and how the pipeline reads it."""

    name: str
    title: str
    input_format: str
    groups: tuple[str, ...]
    sound: Sequence[TrafficTemplate]
    faulty: Sequence[TrafficTemplate]
    share: float
    lake: str
    table_format: Literal["iceberg", "parquet"]
    shown: ShownTable


def run(
    folder: Path,
    *,
    count: int = DELIVERIES,
    master: str = "local[*]",
    with_github: bool = True,
    with_live: bool = True,
    console: Console | None = None,
) -> None:
    """Run the demonstration in ``folder``: packages fetched once stay there, all else of an earlier run is replaced.

    Without GitHub's webhooks (not ``with_github``, or npm cannot fetch them) all deliveries are the parcel carrier's.
    The live side sends a tenth of ``count``, but 200 to 100,000, and more; it is left out where there is no Kafka,
    and unless ``with_live``. Raises ``DemoFailed`` when a single message is not where it must be, ``NotStarted`` if a
    server does not start.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)
    webhooks = github.fetch(folder / "packages") if with_github else None
    if with_github and webhooks is None:
        console.print("npm is not here, or cannot fetch: going on with the parcel carrier alone")
    with serving(folder) as url:
        _load(console, url, webhooks)
        streams = _build_streams(webhooks)
        for stream in streams:
            _replay(console, folder, url, stream, round(count * stream.share), master)
        _land_own_events(console, folder, url, master)
        if with_live:
            _run_live(console, folder, url, min(max(_LEAST_LIVE, count // 10), _MOST_LIVE), master)
    _print_where_next(console, folder)


def _clear(folder: Path) -> None:
    for name in ("traffic", "lake", "live", "registry"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for file in folder.glob("registry.*"):
        file.unlink()


def _load(console: Console, url: str, webhooks: github.Webhooks | None) -> None:
    documents = {
        "a parcel carrier": parcels.carrier_definitions(),
        "the registry's own events": events.change_event_definitions(),
    }
    if webhooks is not None:
        documents["GitHub's webhooks"] = github.webhook_definitions(webhooks)
    console.rule("[bold]The registry", align="left")
    with Client(url, timeout=120) as client:
        for name, document in documents.items():
            client.import_document(document)
            messages = sum(len(group["messages"]) for group in document["messagegroups"].values())
            console.print(f"loaded {name}: {messages} message definitions")


def _build_streams(webhooks: github.Webhooks | None) -> list[TrafficStream]:
    sound, faulty = parcels.templates(_SEED)
    carrier = TrafficStream(
        name="parcels",
        title="A parcel carrier's CloudEvents: JSON, Avro, Protobuf",
        input_format="cloudevents-jsonl",
        groups=(parcels.PARCELS, parcels.FLEET),
        sound=sound,
        faulty=faulty,
        share=1.0 if webhooks is None else 0.4,
        lake="parcels",
        table_format="iceberg",
        shown=ShownTable(
            group="example.parcels",
            message="example.parcels.delivered",
            columns=("ce_source", "parcel", "to", "at.latitude", "at.longitude"),
        ),
    )
    if webhooks is None:
        return [carrier]
    (http, cloudevents), (bad_http, bad_cloudevents) = (
        github.sound_templates(webhooks),
        github.faulty_templates(webhooks),
    )
    columns = ("issue.number", "issue.title", "repository.full_name", "sender.login")
    plain = TrafficStream(
        name="github-http",
        title="GitHub webhook deliveries, as HTTP requests",
        input_format="http-jsonl",
        groups=(f"/messagegroups/{github.HTTP_GROUP}",),
        sound=http,
        faulty=bad_http,
        share=0.4,
        lake="github",
        table_format="parquet",
        shown=ShownTable(group=github.HTTP_GROUP, message="issues.opened", columns=columns),
    )
    wrapped = replace(
        plain,
        name="github-cloudevents",
        title="The same deliveries as CloudEvents over HTTP",
        groups=(f"/messagegroups/{github.CLOUDEVENTS_GROUP}",),
        sound=cloudevents,
        faulty=bad_cloudevents,
        share=0.2,
        shown=ShownTable(
            group=github.CLOUDEVENTS_GROUP, message="com.github.issues.opened", columns=("ce_source", *columns[1:])
        ),
    )
    return [plain, wrapped, carrier]


def _replay(console: Console, folder: Path, url: str, stream: TrafficStream, count: int, master: str) -> None:
    console.rule(f"[bold]{stream.title}", align="left")
    files = folder / "traffic" / stream.name
    faults = max(1, count * _FAULTS_PER_THOUSAND // 1000)
    with console.status("writing deliveries"):
        ledger = traffic.write(files, stream.sound, stream.faulty, count=count, faults_of_each_kind=faults, seed=_SEED)
    console.print(f"{ledger.written:,} deliveries, {ledger.bytes / 1e6:,.0f} MB")
    lake = OutputFolder(folder=folder / "lake" / stream.lake, table_format=stream.table_format)
    report = _process(console, _build_job(url, stream.name, files, lake, stream.groups, stream.input_format, master))
    differences = results.differences(ledger, report, results.dead_letter_reasons(lake, report.batch))
    if differences:
        raise DemoFailed("the result is not what was seeded:\n  " + "\n  ".join(differences))
    results.messages(console, report)
    results.reasons(console, report.tally.reasons)
    results.faults(console, ledger.seeded, ledger.nonconforming)
    results.rows(console, lake, stream.shown)
    rate = ledger.bytes / 1e6 / report.seconds
    console.print(f"{report.events_per_second:,.0f} messages, {rate:,.1f} MB a second")


def _build_job(
    url: str, name: str, files: Path, lake: OutputFolder, groups: tuple[str, ...], input_format: str, master: str
) -> Job:
    return Job(
        registry=url,
        groups=groups,
        inputs=(str(files),),
        input_format=input_format,
        output=lake.folder,
        table_format=lake.table_format,
        batch_id=name,
        master=master,
    )


def _process(console: Console, job: Job) -> Report:
    with console.status("") as status:

        def show_progress(now: Progress) -> None:
            status.update(f"{now.stage}: {now.read:,} read, {now.landed:,} landed, {now.dead_lettered:,} dead letters")

        return run_pipeline(job, progress=show_progress)


def _land_own_events(console: Console, folder: Path, url: str, master: str) -> None:
    """Land the registry's own change feed of the loaded definitions like any other stream."""
    console.rule("[bold]The registry's own change events", align="left")
    files = folder / "traffic" / "registry"
    files.mkdir(parents=True)
    count = _save_feed(url, files / "events.jsonl")
    lake = OutputFolder(folder=folder / "lake" / "registry", table_format="iceberg")
    groups = (f"/messagegroups/{events.GROUP}",)
    report = _process(console, _build_job(url, "registry", files, lake, groups, "cloudevents-jsonl", master))
    if report.landed != count:
        raise DemoFailed(
            f"{count} change events were reported, but {report.landed} landed: {dict(report.tally.reasons)}"
        )
    results.messages(console, report)
    columns = ("ce_time", "ce_subject", "changed")
    results.rows(
        console, lake, ShownTable(group=events.GROUP, message="io.xregistry.registry.updated", columns=columns)
    )


def _save_feed(url: str, path: Path) -> int:
    count, page = 0, f"{url}/events"
    with httpx.Client(timeout=120) as http, path.open("wb") as file:
        while page:
            response = http.get(page).raise_for_status()
            for event in response.json():
                file.write(dump_json(event) + b"\n")
                count += 1
            page = response.links.get("next", {}).get("url", "")
    return count


def _run_live(console: Console, folder: Path, url: str, count: int, master: str) -> None:
    console.rule("[bold]Live: a stream from Kafka", align="left")
    try:
        live.run(console, folder, url, count=count, seed=_SEED, master=master)
    except NotInstalled as error:
        console.print(f"left out, for {escape(str(error))}")


def _print_where_next(console: Console, folder: Path) -> None:
    console.rule("[bold]Where to look next", align="left")
    console.print(
        f"{folder / 'lake'}: the tables; github/ is plain Parquet, the others are Iceberg catalogs\n"
        f"signalbook serve --db sqlite:///{folder / 'registry.db'}: the registry as the demonstration left it\n"
        "docs/quickstart.md: your own events against your own definitions; docs/pipeline.md: from your own Kafka topic"
    )
