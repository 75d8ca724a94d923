"""The demonstration from end to end: a registry, its definitions, traffic, the pipeline, the check, the result."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import httpx
from rich.console import Console
from rich.markup import escape

from signalbook.client import Client
from signalbook.demo import github, live, parcels, results, traffic
from signalbook.demo.kafka import NotInstalled
from signalbook.demo.program import Ports, Program
from signalbook.demo.results import DemoFailed, OutputFolder
from signalbook.demo.traffic import TrafficTemplate
from signalbook.events import definitions as events
from signalbook.pipeline import Job, Progress
from signalbook.pipeline import run as run_pipeline
from signalbook.values import JSONObject, dump_json, format_count

_SEED: Final = 1805
_LEAST_LIVE: Final = 200
_MOST_LIVE: Final = 100_000


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run ``signalbook serve`` on a free port with its database in ``folder``; yields its URL, stops it at the end.

    Raises ``NotStarted``.
    """

    def configure(home: Path, ports: Ports) -> list[str]:
        command = [sys.executable, "-m", "signalbook", "serve", "--port", str(ports["http"]), "--registry-id", "demo"]
        return [*command, "--db", f"sqlite:///{home.absolute().parent / 'registry.db'}"]

    home = folder / "registry"
    home.mkdir(exist_ok=True)
    server = Program("the registry server", home, configure, "Signalbook serves the registry", ("http",))
    server.open()
    try:
        url = f"http://127.0.0.1:{server.ports['http']}"
        # It listens a moment after it printed that it serves.
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), timeout=300) as http:
            http.get(f"{url}/health/ready").raise_for_status()
        yield url
    finally:
        server.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficStream:
    """A stream of traffic, how the pipeline reads it, and the ``columns`` to show of the table ``shown``."""

    name: str
    title: str
    input_format: str
    groups: tuple[str, ...]
    plan: Sequence[TrafficTemplate]
    table_format: Literal["iceberg", "parquet"]
    shown: tuple[str, str]
    columns: tuple[str, ...]


def run(
    console: Console, folder: Path, *, count: int, master: str, with_github: bool = True, with_live: bool = True
) -> None:
    """Run the demonstration in ``folder``: packages fetched once stay there, all else of an earlier run is replaced.

    Without GitHub's webhooks (not ``with_github``, or npm cannot fetch them) all deliveries are the parcel carrier's.
    The live side sends a tenth of ``count``, but 200 to 100,000, and more; it is left out where there is no Kafka,
    and unless ``with_live``. Raises ``DemoFailed`` when a single message is not where it must be, ``NotStarted`` if a
    server does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("traffic", "lake", "live", "registry"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for file in folder.glob("registry.*"):
        file.unlink()
    webhooks = github.fetch(folder / "packages") if with_github else None
    if with_github and webhooks is None:
        console.print("npm is not here, or cannot fetch: going on with the parcel carrier alone")
    with serving(folder) as url:
        _load(console, url, webhooks)
        for stream in _list_streams(url, webhooks, count):
            _replay(console, folder, url, stream, master)
        if with_live:
            _run_live(console, folder, url, min(max(_LEAST_LIVE, count // 10), _MOST_LIVE), master)
    console.rule("[bold]Where to look next", align="left")
    console.print(
        f"{folder / 'lake'}: the tables; those of github are plain Parquet, the others are Iceberg catalogs\n"
        f"signalbook serve --db sqlite:///{folder / 'registry.db'}: the registry as the demonstration left it\n"
        "docs/quickstart.md: your own events against your own definitions; docs/pipeline.md: from your own Kafka topic"
    )


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


def _list_streams(url: str, webhooks: github.Webhooks | None, count: int) -> Iterator[TrafficStream]:
    """Yield the streams to replay: ``count`` deliveries in all, and the registry's own events."""
    if webhooks is not None:
        yield _build_github_stream(webhooks, round(count * 0.4), cloudevents=False)
        yield _build_github_stream(webhooks, round(count * 0.2), cloudevents=True)
        count = round(count * 0.4)
    yield TrafficStream(
        name="parcels",
        title="A parcel carrier's CloudEvents: JSON, Avro, Protobuf",
        input_format="cloudevents-jsonl",
        groups=(parcels.PARCELS, parcels.FLEET),
        plan=_plan(parcels.sound_templates(), parcels.faulty_templates(), count),
        table_format="iceberg",
        shown=("example.parcels", "example.parcels.delivered"),
        columns=("ce_source", "parcel", "to", "at.latitude", "at.longitude"),
    )
    own, feed = f"/messagegroups/{events.GROUP}", _read_feed(url)
    yield TrafficStream(
        name="registry",
        title="The registry's own change events",
        input_format="cloudevents-jsonl",
        groups=(own,),
        plan=[TrafficTemplate(line=dump_json(event), definition=f"{own}/messages/{event['type']}") for event in feed],
        table_format="iceberg",
        shown=(events.GROUP, "io.xregistry.registry.updated"),
        columns=("ce_time", "ce_subject", "changed"),
    )


def _build_github_stream(webhooks: github.Webhooks, count: int, *, cloudevents: bool) -> TrafficStream:
    sound = github.sound_templates(webhooks, cloudevents=cloudevents)
    faulty = github.faulty_templates(webhooks, cloudevents=cloudevents)
    if cloudevents:
        name, title = "github-cloudevents", "The same deliveries as CloudEvents over HTTP"
        group, message, first_column = github.CLOUDEVENTS_GROUP, "com.github.issues.opened", "ce_source"
    else:
        name, title = "github-http", "GitHub webhook deliveries, as HTTP requests"
        group, message, first_column = github.HTTP_GROUP, "issues.opened", "issue.number"
    return TrafficStream(
        name=name,
        title=title,
        input_format="http-jsonl",
        groups=(f"/messagegroups/{group}",),
        plan=_plan(sound, faulty, count),
        table_format="parquet",
        shown=(group, message),
        columns=(first_column, "issue.title", "repository.full_name", "sender.login"),
    )


def _plan(sound: Sequence[TrafficTemplate], faulty: Sequence[TrafficTemplate], count: int) -> Sequence[TrafficTemplate]:
    return traffic.make_plan(sound, faulty, count, max(1, count // 1000), _SEED)


def _read_feed(url: str) -> Iterator[JSONObject]:
    position, more = 0, True
    with Client(url, timeout=120) as client:
        while more:
            page = client.events(position)
            yield from page.events
            position, more = page.position, page.more


def _replay(console: Console, folder: Path, url: str, stream: TrafficStream, master: str) -> None:
    console.rule(f"[bold]{stream.title}", align="left")
    files = (folder / "traffic" / stream.name).absolute()
    lake = OutputFolder(folder=folder / "lake" / stream.name, table_format=stream.table_format)
    with console.status("writing deliveries"):
        ledger = traffic.write(files, stream.plan)
    console.print(f"{format_count(len(ledger.due), 'delivery', 'deliveries')}, {ledger.bytes / 1e6:,.0f} MB")
    job = Job(
        registry=url,
        groups=stream.groups,
        inputs=(str(files),),
        input_format=stream.input_format,
        output=lake.folder,
        table_format=stream.table_format,
        batch_id=stream.name,
        master=master,
    )
    with console.status("") as status:

        def show_progress(now: Progress) -> None:
            dead_letters = format_count(now.dead_lettered, "dead letter")
            status.update(f"{now.stage}: {now.read:,} read, {now.landed:,} landed, {dead_letters}")

        report = run_pipeline(job, progress=show_progress)
    results.check(ledger.due, lake.ends(stream.groups))
    if report.tally.landed + report.tally.reasons != Counter(ledger.due.values()):
        raise DemoFailed(f"the report counts something else than what is in the tables: {report.tally}")
    results.show_messages(console, report)
    if ledger.seeded:
        results.show_reasons(console, report.tally.reasons)
        results.show_faults(console, ledger)
    results.show_rows(console, lake, *stream.shown, stream.columns)
    rate = ledger.bytes / 1e6 / report.seconds
    console.print(f"{report.events_per_second:,.0f} messages, {rate:,.1f} MB a second")


def _run_live(console: Console, folder: Path, url: str, count: int, master: str) -> None:
    console.rule("[bold]Live: a stream from Kafka", align="left")
    try:
        live.run(console, folder, url, count=count, seed=_SEED, master=master)
    except NotInstalled as error:
        console.print(f"left out, for {escape(str(error))}")
