"""Prometheus and a registry hear of every batch once, and of none that was not committed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.serving import serving_answers, serving_in_thread

from signalbook.client import Client
from signalbook.errors import SignalbookError
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import ReportOptions
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.report import Span, Tally
from signalbook.pipeline.reports import upload
from signalbook.pipeline.reports.upload import ReportUpload, exposition, reporting
from signalbook.settings import Settings
from signalbook.values import Finding

XID = "/messagegroups/g/messages/m"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is slow to answer must not look like a registry that does not."""
    monkeypatch.setattr(upload, "_TIMEOUT", 300.0)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.open(tmp_path / "my lake")


def commit(journal: Journal, *ids: str, compaction: bool = False) -> None:
    """Enter batches, each of three messages."""
    for name in ids:
        tally = Tally(read=3, dropped=1, bytes=30)
        tally.land(XID, 1, Span(oldest=0, newest=5))
        tally.reject("schema_violation", [XID])
        tally.violations.record(
            XID, [Finding(path="/a", rule="type", message="no")], source="f", position=1, original=b""
        )
        batch = JournalEntry(
            id=name, fingerprint="f", origin="o", table_format="parquet", tally=tally, files=(), seconds=0.5
        )
        journal.prepare(batch)
        journal.commit(replace(batch, finished=datetime(2026, 1, 2, tzinfo=UTC), compaction=compaction))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_in_thread(Settings(db="sqlite://", port=0)) as address:
        yield address


def batches(url: str, name: str) -> list[str]:
    """Return the batches that the registry has, oldest first."""
    with Client(url) as client:
        return [entry["report"]["batch"] for entry in client.pipelines.reports(name)][::-1]


def test_all_batches_are_reported_in_order(journal: Journal, url: str) -> None:
    warnings: list[str] = []
    commit(journal, "z", "a/b")
    for more in ("m", "k"):
        with reporting(journal.output, ReportOptions(to=url, name="all"), warnings.append) as send:
            send()
            commit(journal, more)
            send()
            send()
    assert batches(url, "all") == ["z", "a/b", "m", "k"]
    assert warnings == []
    with Client(url) as client:
        last = client.pipelines.get("all")["last"]["report"]
    batch = journal.find("k")
    assert batch is not None
    assert last == batch.report().to_json()


def test_default_name_is_the_name_of_the_folder(journal: Journal, url: str) -> None:
    commit(journal, "b")
    commit(journal, "packed", compaction=True)
    with reporting(journal.output, ReportOptions(to=url), lambda _: None) as send:
        send()
    assert batches(url, "my-lake") == ["b"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (".lake", "lake"),
        ("-x", "x"),
        ("@a", "a"),
        ("лейк", "pipeline"),
        ("my lake", "my-lake"),
        ("x" * 129, "x" * 128),
    ],
)
def test_every_folder_has_a_valid_name(tmp_path: Path, folder: str, name: str) -> None:
    Journal.open(tmp_path / folder)
    with reporting(tmp_path / folder, ReportOptions(), lambda _: None) as send:
        send()
    audience = ReportOptions(metrics_file=str(tmp_path / "metrics"))
    with reporting(tmp_path / folder, audience, lambda _: None) as send:
        send()
    assert exposition(tmp_path / folder) == exposition(tmp_path / folder, name)


def test_missing_output_is_not_created(tmp_path: Path, url: str) -> None:
    audience = ReportOptions(to=url, metrics_file=str(tmp_path / "metrics"))
    with reporting(tmp_path / "none", audience, lambda _: None) as send:
        send()
    assert not (tmp_path / "none").exists()
    assert (tmp_path / "metrics").exists()


def test_reports_can_be_sent_again(journal: Journal, url: str) -> None:
    """A program may die before it records what it sent."""
    commit(journal, "a", "b")
    for _ in range(2):
        posts = ReportUpload(journal, url, "again", lambda _: None)
        posts.send()
        posts.close()
        (journal.output / "reports").clear()
    assert batches(url, "again") == ["a", "b"]


@dataclass
class Scripted:
    url: str = ""
    asked: int = 0


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    """A function that starts a server with these statuses, one for each request; the last one is repeated."""
    with ExitStack() as servers:

        def make(*statuses: int) -> Scripted:
            server, remaining = Scripted(), list(statuses)

            def answer(*_: object) -> tuple[int, dict[str, str], bytes]:
                server.asked += 1
                return remaining.pop(0) if len(remaining) > 1 else remaining[0], {}, b"{}"

            server.url = servers.enter_context(serving_answers(answer))
            return server

        yield make


@pytest.mark.parametrize("status", [404, 500, 503])
def test_unsent_reports_wait(journal: Journal, scripted: Callable[..., Scripted], status: int) -> None:
    server, warnings = scripted(201, status, status, 201), list[str]()
    posts = ReportUpload(journal, server.url, "p", warnings.append, pause=0)
    commit(journal, "a", "b")
    posts.send()
    commit(journal, "c")
    posts.send()
    assert len(warnings) == 1
    assert server.url in warnings[0]
    posts.send()
    posts.send()
    assert server.asked == 5  # a, b twice in vain, b and c
    posts.close()


def test_an_absent_registry_is_left_alone_for_a_while(journal: Journal, scripted: Callable[..., Scripted]) -> None:
    server, warnings = scripted(503), list[str]()
    posts = ReportUpload(journal, server.url, "p", warnings.append, pause=3600)
    for batch in ("a", "b", "c"):
        commit(journal, batch)
        posts.send()
    assert (server.asked, len(warnings)) == (1, 1)
    posts.close()


@pytest.mark.parametrize("status", [400, 413])
def test_a_refused_report_stops_no_other(journal: Journal, scripted: Callable[..., Scripted], status: int) -> None:
    """The status 413 is sent by a proxy in front of a registry if a report is too large for it."""
    server, warnings = scripted(status, 201), list[str]()
    posts = ReportUpload(journal, server.url, "p", warnings.append)
    commit(journal, "a", "b")
    posts.send()
    posts.send()
    assert server.asked == 2
    assert ["batch a was refused" in words for words in warnings] == [True]
    posts.close()


def test_a_long_past_is_not_reported(journal: Journal, scripted: Callable[..., Scripted]) -> None:
    commit(journal, "first")
    entry = journal.output / "batches" / "first.json"
    for number in range(8):
        (journal.output / "batches" / f"n{number:05d}.json").write(entry.read())
    server = scripted(201)
    posts = ReportUpload(journal, server.url, "p", lambda _: None, most=3)
    posts.send()
    assert server.asked == 3
    posts.close()


def test_metrics_continue_at_the_end_of_the_journal(journal: Journal, tmp_path: Path) -> None:
    path, warnings = tmp_path / "x.prom", list[str]()
    for batch in ("a", "b"):
        with reporting(journal.output, ReportOptions(metrics_file=str(path)), warnings.append) as send:
            commit(journal, batch)
            send()
            send()
    assert b'signalbook_pipeline_batches_total{pipeline="my-lake"} 2.0' in path.read_bytes()
    assert path.read_bytes() == exposition(journal.output)
    assert warnings == []


def test_unwritable_report_does_not_fail_the_batch(journal: Journal, tmp_path: Path) -> None:
    warnings: list[str] = []
    commit(journal, "a")
    with reporting(
        journal.output, ReportOptions(metrics_file=str(tmp_path / "no" / "x.prom")), warnings.append
    ) as send:
        send()
    assert "cannot write to" in warnings[0]


@pytest.mark.parametrize(
    ("audience", "words"),
    [
        (ReportOptions(to="nowhere"), "is no URL of a registry"),
        (ReportOptions(to="http://127.0.0.1:9", name="a b"), "the name of the pipeline, 'a b'"),
        (ReportOptions(metrics_port=99999), "cannot serve metrics"),
    ],
)
def test_invalid_report_target_is_an_error(journal: Journal, audience: ReportOptions, words: str) -> None:
    with pytest.raises(SignalbookError, match=words), reporting(journal.output, audience, lambda _: None):
        pass


def test_metrics_of_a_missing_output_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no output folder"):
        exposition(tmp_path)
