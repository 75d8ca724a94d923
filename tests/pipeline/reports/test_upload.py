"""Prometheus and a registry hear of every batch once, and of none that was not committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import uvicorn

from signalbook.client import Client
from signalbook.errors import SignalbookError
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import ReportOptions
from signalbook.pipeline.journal import Journal, JournalEntry
from signalbook.pipeline.reports import upload
from signalbook.pipeline.reports.report import Span, Tally
from signalbook.pipeline.reports.upload import ReportUpload, exposition, reporting
from signalbook.server import build
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
        tally.violations.see(XID, [Finding(path="/a", rule="type", message="no")], source="f", position=1, original=b"")
        batch = JournalEntry(
            id=name, fingerprint="f", origin="o", table_format="parquet", tally=tally, files=(), seconds=0.5
        )
        journal.prepare(batch)
        journal.commit(replace(batch, finished=datetime(2026, 1, 2, tzinfo=UTC), compaction=compaction))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(build(Settings(db="sqlite://")), port=0, log_level="warning"))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def batches(url: str, name: str) -> list[str]:
    """What the registry knows of, oldest first."""
    with Client(url) as client:
        return [each["report"]["batch"] for each in client.pipelines.reports(name)][::-1]


def test_a_registry_hears_of_all_batches_in_order(journal: Journal, url: str) -> None:
    said: list[str] = []
    commit(journal, "z", "a/b")
    for more in ("m", "k"):
        with reporting(journal.output, ReportOptions(to=url, name="all"), said.append) as told:
            told()
            commit(journal, more)
            told()
            told()
    assert batches(url, "all") == ["z", "a/b", "m", "k"]
    assert said == []
    with Client(url) as client:
        last = client.pipelines.get("all")["last"]["report"]
    batch = journal.find("k")
    assert batch is not None
    assert last == batch.report().to_json()


def test_the_name_is_the_folders(journal: Journal, url: str) -> None:
    commit(journal, "b")
    commit(journal, "packed", compaction=True)
    with reporting(journal.output, ReportOptions(to=url), lambda _: None) as told:
        told()
    assert batches(url, "my-lake") == ["b"]


@pytest.mark.parametrize(
    ("folder", "name"), [(".lake", "lake"), ("-x", "x"), ("@a", "a"), ("лейк", "pipeline"), ("my lake", "my-lake")]
)
def test_any_folder_has_a_name(tmp_path: Path, folder: str, name: str) -> None:
    Journal.open(tmp_path / folder)
    with reporting(tmp_path / folder, ReportOptions(), lambda _: None) as told:
        told()
    audience = ReportOptions(metrics_file=str(tmp_path / "metrics"))
    with reporting(tmp_path / folder, audience, lambda _: None) as told:
        told()
    assert exposition(tmp_path / folder) == exposition(tmp_path / folder, name)


def test_an_output_that_is_not_there_is_not_made(tmp_path: Path, url: str) -> None:
    audience = ReportOptions(to=url, metrics_file=str(tmp_path / "metrics"))
    with reporting(tmp_path / "none", audience, lambda _: None) as told:
        told()
    assert not (tmp_path / "none").exists()
    assert (tmp_path / "metrics").exists()


def test_what_was_sent_may_be_sent_again(journal: Journal, url: str) -> None:
    """As after a program that died before it could write down what it sent."""
    commit(journal, "a", "b")
    for _ in range(2):
        posts = ReportUpload(journal, url, "again", lambda _: None)
        posts.send()
        posts.close()
        (journal.output / "reports").clear()
    assert batches(url, "again") == ["a", "b"]


class Scripted:
    """A server that answers one status after the other, the last one for ever; ``asked`` counts."""

    def __init__(self, *statuses: int) -> None:
        self.asked = 0
        outer, left = self, list(statuses)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    made: list[Scripted] = []

    def make(*statuses: int) -> Scripted:
        made.append(Scripted(*statuses))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("status", [404, 500, 503])
def test_what_cannot_be_sent_waits(journal: Journal, scripted: Callable[..., Scripted], status: int) -> None:
    server, said = scripted(201, status, status, 201), list[str]()
    posts = ReportUpload(journal, server.url, "p", said.append, pause=0)
    commit(journal, "a", "b")
    posts.send()
    commit(journal, "c")
    posts.send()
    assert len(said) == 1
    assert server.url in said[0]
    posts.send()
    posts.send()
    assert server.asked == 5  # a, b twice in vain, b and c
    posts.close()


def test_an_absent_registry_is_left_alone_for_a_while(journal: Journal, scripted: Callable[..., Scripted]) -> None:
    server, said = scripted(503), list[str]()
    posts = ReportUpload(journal, server.url, "p", said.append, pause=3600)
    for batch in ("a", "b", "c"):
        commit(journal, batch)
        posts.send()
    assert (server.asked, len(said)) == (1, 1)
    posts.close()


@pytest.mark.parametrize("status", [400, 413])
def test_a_refused_report_stops_no_other(journal: Journal, scripted: Callable[..., Scripted], status: int) -> None:
    """413 is what stands before a registry says of a report that is too large for it."""
    server, said = scripted(status, 201), list[str]()
    posts = ReportUpload(journal, server.url, "p", said.append)
    commit(journal, "a", "b")
    posts.send()
    posts.send()
    assert server.asked == 2
    assert ["batch a was refused" in words for words in said] == [True]
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


def test_metrics_go_on_where_the_journal_ends(journal: Journal, tmp_path: Path) -> None:
    path, said = tmp_path / "x.prom", list[str]()
    for batch in ("a", "b"):
        with reporting(journal.output, ReportOptions(metrics_file=str(path)), said.append) as told:
            commit(journal, batch)
            told()
            told()
    assert b'signalbook_pipeline_batches_total{pipeline="my-lake"} 2.0' in path.read_bytes()
    assert path.read_bytes() == exposition(journal.output)
    assert said == []


def test_a_file_that_cannot_be_written_fails_no_batch(journal: Journal, tmp_path: Path) -> None:
    said: list[str] = []
    commit(journal, "a")
    with reporting(journal.output, ReportOptions(metrics_file=str(tmp_path / "no" / "x.prom")), said.append) as told:
        told()
    assert "cannot write to" in said[0]


@pytest.mark.parametrize(
    ("audience", "words"),
    [
        (ReportOptions(to="nowhere"), "is no URL of a registry"),
        (ReportOptions(to="http://127.0.0.1:9", name="a b"), "the name of the pipeline, 'a b'"),
        (ReportOptions(metrics_port=99999), "cannot serve metrics"),
    ],
)
def test_an_audience_that_cannot_be(journal: Journal, audience: ReportOptions, words: str) -> None:
    with pytest.raises(SignalbookError, match=words), reporting(journal.output, audience, lambda _: None):
        pass


def test_metrics_of_what_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no output folder"):
        exposition(tmp_path)
