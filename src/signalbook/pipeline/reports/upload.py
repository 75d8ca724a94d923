"""Report upload: each batch of the journal once, in order, whenever the registry can be reached; and metrics.

What was sent is written down beside the journal. A program that dies in between sends a report again, which the
registry knows by its batch; nothing is lost, since what the journal has and that file has not is still to be sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from signalbook.client import Client, Refused
from signalbook.errors import SignalbookError
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import ReportOptions
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.places import Place, Where, place_of
from signalbook.pipeline.reports.metrics import Metrics
from signalbook.values import digest
from signalbook.xid import XidError, check_id

FOLDER: Final = "reports"
# Reports sent at a time; a registry that hears of a pipeline for the first time gets no more of its past.
_MOST: Final = 1000
_TIMEOUT: Final = 5.0
_PAUSE: Final = 30.0
# It is no report, or too large for what stands before the registry: sending it again will not help.
_FINAL: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
# What an id of the registry cannot have, anywhere and at its beginning.
_NO_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]", re.ASCII)
_NO_START: Final = re.compile(r"^[^A-Za-z0-9_]+", re.ASCII)
_MAX_NAME_CHARS: Final = 128


class ReportUpload:
    """The reports of an output folder for the pipeline ``name`` of the registry at ``url``.

    ``notify`` is called with what is wrong, once until it is right again; a registry that does not answer is left alone
    for ``pause`` seconds, and one that hears of the pipeline late gets the newest ``most``. Raises ``SignalbookError``
    for what is no URL.
    """

    def __init__(
        self,
        journal: Journal,
        url: str,
        name: str,
        notify: Callable[[str], None],
        *,
        pause: float = _PAUSE,
        most: int = _MOST,
    ) -> None:
        self._client = Client(url, timeout=_TIMEOUT, attempts=1)
        self._journal = journal
        self._url = url
        self._name = name
        self._notify = notify
        self._said = ""
        self._next = 0.0
        self._pause = pause
        self._most = most
        self._sent = _Sent(journal.output / FOLDER / f"{digest(f'{url} {name}'.encode())}.sent")
        self._known = self._sent.read_names()

    def send(self) -> None:
        """Send what is to be sent. Never raises: what cannot be sent now stays for the next time."""
        if time.monotonic() < self._next:
            return
        try:
            self._send_all()
            self._said = ""
        except (SignalbookError, OSError) as error:
            # a stream must not wait for an absent registry with every batch
            self._next = time.monotonic() + self._pause
            self._notify_once(f"reports wait to be sent to {self._url}: {error}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send_all(self) -> None:
        news = self._journal.list_new(self._known)
        # What is older than that is noted without being sent, or a registry that is new here would get years of
        # reports.
        self._note(*news[: -self._most])
        for name in news[-self._most :]:
            batch = self._journal.read_entry(name)
            if not batch.compaction:
                self._send(batch.id, batch.report().to_json())
            self._note(name)

    def _send(self, batch: str, report: dict[str, object]) -> None:
        try:
            self._client.pipelines.add(self._name, report)
        except Refused as error:
            if error.status not in _FINAL:
                raise
            self._notify(f"the report of batch {batch} was refused by {self._url} and is not sent again: {error}")

    def _note(self, *names: str) -> None:
        if names:
            self._sent.add(names)
            self._known.update(names)

    def _notify_once(self, words: str) -> None:
        if words != self._said:
            self._notify(words)
        self._said = words


@dataclass(frozen=True, slots=True)
class _Sent:
    """The names of entries that were sent: lines of a file, or where nothing can be added to one, objects below it."""

    place: Place

    def read_names(self) -> set[str]:
        """Return all names. Raises ``PipelineError``."""
        try:
            if self.place.folder is None:
                return {file.path for file in self.place.list_files()}
            return set(self.place.read().decode().splitlines())
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise PipelineError(f"cannot read {self.place}: {error.strerror}") from error

    def add(self, names: Sequence[str]) -> None:
        """Add names. Raises ``OSError``."""
        if self.place.folder is None:
            for name in names:
                (self.place / name).write(b"")
            return
        self.place.parent.make()
        with self.place.folder.open("a") as file:
            file.write("".join(f"{name}\n" for name in names))


@contextmanager
def reporting(output: Where, options: ReportOptions, notify: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each batch of an output, which sends reports and renews metrics.

    What is called never raises, and ``notify`` takes what went wrong. Raises ``PipelineError`` and other
    ``SignalbookError`` for options that cannot work.
    """
    if not (options.to or options.metrics_file or options.metrics_port):
        yield lambda: None
        return
    name = _choose_name(output, options)
    journal = Journal(place_of(output))  # which a run makes, once it has its definitions
    with ExitStack() as opened:
        steps: list[Callable[[], None]] = []
        if options.metrics_file or options.metrics_port:
            steps.append(_expose(journal, name, options, notify, opened))
        if options.to:
            upload = ReportUpload(journal, options.to, name, notify)
            opened.callback(upload.close)
            steps.append(upload.send)

        def report() -> None:
            for step in steps:
                step()

        yield report


def exposition(output: Where, name: str = "") -> bytes:
    """Return the metrics of all batches of an output folder in Prometheus' text format.

    Raises ``PipelineError``.
    """
    metrics = Metrics(_choose_name(output, ReportOptions(name=name)))
    _refresh(metrics, Journal.open_existing(output), set())
    return metrics.format_text()


def _expose(
    journal: Journal, name: str, options: ReportOptions, notify: Callable[[str], None], opened: ExitStack
) -> Callable[[], None]:
    metrics, counted = Metrics(name), set[str]()
    _refresh(metrics, journal, counted)
    if options.metrics_port:
        opened.callback(metrics.serve(options.metrics_host, options.metrics_port).close)

    def refresh() -> None:
        try:
            _refresh(metrics, journal, counted)
            if options.metrics_file:
                metrics.write(Path(options.metrics_file))
        except PipelineError as error:
            notify(f"metrics: {error}")

    return refresh


def _refresh(metrics: Metrics, journal: Journal, counted: set[str]) -> None:
    """Count the batches that were committed since."""
    for name in journal.list_new(counted):
        batch = journal.read_entry(name)
        counted.add(name)
        if not batch.compaction:
            metrics.add(batch.report())


def _choose_name(output: Where, options: ReportOptions) -> str:
    """Return the name of the pipeline, which must be an id of a registry. Raises ``PipelineError``."""
    try:
        return check_id(options.name or _build_default(place_of(output).name))
    except XidError as error:
        raise PipelineError(f"the name of the pipeline, {options.name!r}: {error}; give another") from None


def _build_default(folder: str) -> str:
    """Return the id that is nearest to the name of a folder."""
    return _NO_START.sub("", _NO_ID.sub("-", folder))[:_MAX_NAME_CHARS] or "pipeline"
