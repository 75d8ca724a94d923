"""Upload the report of each batch to a registry, in order, whenever the registry can be reached; and update metrics.

The output folder records which reports were sent. Entries of the journal that are not recorded are still to be sent. If
a program dies before it records a report, the report is sent again, and the registry recognises it by its batch. Of
more than 1,000 reports that are to be sent, only the newest are sent; the older ones are recorded as if they were.
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
# The maximum number of reports to send at a time. Older reports are never sent, for example to a registry that is new.
_MOST: Final = 1000
_TIMEOUT: Final = 5.0
_PAUSE: Final = 30.0
# Responses after which sending the report again is useless: the report is invalid, or too large for a proxy.
_FINAL: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
# Characters that an id of the registry cannot contain, and characters that it cannot begin with.
_NO_ID: Final = re.compile(r"[^A-Za-z0-9._~:@-]", re.ASCII)
_NO_START: Final = re.compile(r"^[^A-Za-z0-9_]+", re.ASCII)
_MAX_NAME_CHARS: Final = 128


class ReportUpload:
    """An upload of the reports of an output folder to the registry at ``url``, for the pipeline ``name``.

    ``notify`` is called with each error, but not again as long as the same error persists. After an error nothing is
    sent for ``pause`` seconds. If more than ``most`` reports are to be sent, only the newest are sent, and the older
    ones never are. Raises ``SignalbookError`` if ``url`` is not a URL, or if the record of sent reports cannot be read.
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
        """Send all reports that were not sent yet.

        Never raises: reports that cannot be sent now are sent the next time.
        """
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
        # Older reports are recorded as sent without being sent. Otherwise a new registry would get years of reports.
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
    """The record of sent reports, by the names of their journal entries.

    It is a file with one name per line. Stores cannot append to files: there it is an empty object per name.
    """

    place: Place

    def read_names(self) -> set[str]:
        """Return the names of all sent entries; empty without a record.

        Raises ``PipelineError`` if the record cannot be read.
        """
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
    """Yield a function to call after each batch of ``output``. It sends reports and updates metrics as ``options`` say.

    The function never raises; ``notify`` is called with its errors. Raises ``PipelineError`` and other
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
    """Return the metrics of all batches of ``output`` in Prometheus' text format.

    ``name`` is the name of the pipeline, by default the name of the folder. Raises ``PipelineError`` if ``name`` is not
    an id, or ``output`` is not an output folder of the pipeline.
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
    """Add the batches to ``metrics`` that are not among the ``counted`` names, and add their names there."""
    for name in journal.list_new(counted):
        batch = journal.read_entry(name)
        counted.add(name)
        if not batch.compaction:
            metrics.add(batch.report())


def _choose_name(output: Where, options: ReportOptions) -> str:
    """Return the name of the pipeline: the configured name, or one made from the name of the output folder.

    Raises ``PipelineError`` if it is not a valid id of a registry.
    """
    try:
        return check_id(options.name or _build_default(place_of(output).name))
    except XidError as error:
        raise PipelineError(f"the name of the pipeline, {options.name!r}: {error}; give another") from None


def _build_default(folder: str) -> str:
    """Return the name of a folder as an id: invalid characters are replaced by ``-`` or left out at the beginning."""
    return _NO_START.sub("", _NO_ID.sub("-", folder))[:_MAX_NAME_CHARS] or "pipeline"
