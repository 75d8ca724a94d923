"""Check and store the reports that pipelines upload."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from signalbook.errors import SignalbookError
from signalbook.formats.base import format_pointer
from signalbook.storage.reports import ReportingPipeline, ReportReader, StoredReport
from signalbook.storage.store import Store, WriteTransaction
from signalbook.values import JSON, Finding, JSONObject, can_parse_timestamp, now

LONGEST: Final = 512
MOST_MESSAGES: Final = 20_000
MOST_VIOLATIONS: Final = 500
_MOST_FAULTS: Final = 100
_MIN_ROWS_READ: Final = 100
"""The smallest number of rows to read at once, because some of the pipelines may be hidden from the caller."""
_MAX_SHOWN_CHARS: Final = 300
"""The largest number of characters of a message about a malformed report, which may quote the report."""
_PLACE: Final = re.compile(r" - at `(?P<key>key` in `)?\$(?P<steps>[^`]*)`\Z")
_ITEM: Final = re.compile(r"\[(\d+)\]", re.ASCII)

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, Meta(ge=0)]
_Text = Annotated[str, Meta(max_length=LONGEST)]
_Name = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
_Time = Annotated[str, Meta(max_length=40)]
# A batch is stored in its own column, and PostgreSQL does not accept NUL in text.
_Batch = Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=r"^[^\x00]*$")]


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base class of the parts of a report. Unknown members are refused."""


class Bytes(_Part):
    """The number of bytes in the input, and in the files that were written."""

    read: _Count
    written: _Count


class Lag(_Part):
    """The times of the oldest and the newest event. ``seconds`` is the age of the newest one when the batch ended."""

    oldest: _Time = ""
    newest: _Time = ""
    seconds: _Number | None = None


class DefinitionCounts(_Part):
    """The numbers of messages of one definition by outcome."""

    landed: _Count
    rejected: _Count
    rejected_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    events_per_second: _Number = 0.0
    reasons: dict[_Name, _Count] = {}
    duplicate_names: _Count = 0
    oldest: _Time = ""
    newest: _Time = ""


class ReportedExample(_Part):
    """An example of a rejected message: where it was found, what is wrong with it, and an excerpt of its text."""

    source: _Text
    position: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    message: _Text
    excerpt: _Text


class ReportedViolation(_Part):
    """A violation of a rule, with the number of messages that have it and one example."""

    definition: _Text
    path: _Text
    rule: _Text
    messages: _Count
    example: ReportedExample


class ReportedRescue(_Part):
    """The number of landed messages with values at ``path`` that have no column.

    An empty ``path`` stands for all paths that the report does not list.
    """

    definition: _Text
    path: _Text
    messages: _Count


class BatchReport(_Part):
    """The report of one batch, as ``signalbook pipeline run --json`` prints it."""

    batch: _Batch
    fingerprint: _Text
    read: _Count
    landed: _Count
    dead_lettered: _Count
    dropped: _Count
    seconds: _Number
    events_per_second: _Number
    by_message: Annotated[dict[_Name, DefinitionCounts], Meta(max_length=MOST_MESSAGES)]
    reasons: Annotated[dict[_Name, _Count], Meta(max_length=100)]
    bytes: Bytes | None = None
    lag: Lag | None = None
    violations: Annotated[list[ReportedViolation], Meta(max_length=MOST_VIOLATIONS)] = []
    rescued: Annotated[list[ReportedRescue], Meta(max_length=MOST_VIOLATIONS)] = []
    finished: _Time = ""
    note: _Text = ""
    left_out: Annotated[dict[_Name, list[_Text]], Meta(max_length=MOST_MESSAGES)] = {}


_GIST: Final = (
    *("batch", "finished", "read", "landed", "dead_lettered", "dropped", "seconds", "events_per_second", "bytes"),
    *("lag", "reasons"),
)
RECENT: Final = "recent"
"""The member of a stored summary with the outcomes of the last batches."""
RECENT_BATCHES: Final = 30
"""The number of batches whose outcomes are stored next to a pipeline, so that a list of pipelines reads no reports."""
_TIME_FIELDS: Final = ("oldest", "newest")


class InvalidReport(SignalbookError):
    """The error for a document that is not a valid report. ``faults`` are the findings."""

    def __init__(self, *faults: Finding) -> None:
        super().__init__(f"the report cannot be taken: {faults[0].path or '/'}: {faults[0].message}")
        self.faults = faults


class TooManyPipelines(SignalbookError):
    """The error for the first report of a pipeline when the largest number of pipelines is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedReport:
    """A valid report: its batch, its JSON ``text``, and the ``gist``, the members that lists of pipelines show."""

    batch: str
    text: str
    gist: JSONObject


class PipelineReports:
    """The stored reports of pipelines: the newest ``keep`` reports of each pipeline, for at most ``most`` pipelines."""

    def __init__(self, store: Store, *, keep: int, most: int) -> None:
        self._store = store
        self._keep = keep
        self._most = most

    def pipeline(self, name: str) -> ReportingPipeline | None:
        """Return the pipeline ``name``, or None if it has not reported."""
        with self._store.read() as transaction:
            return transaction.reports.pipeline(name)

    def pipelines(self, after: str, limit: int, is_visible: Callable[[str], bool]) -> list[ReportingPipeline]:
        """Return up to ``limit`` pipelines in order of name, after the name ``after``.

        Only pipelines for whose name ``is_visible`` returns True are included. So neither the length of a page nor its
        last name reveals hidden pipelines.
        """
        with self._store.read() as transaction:
            return list_visible_pipelines(transaction.reports, after, limit, is_visible)

    def reports(self, pipeline: str, before: int, limit: int, size: int) -> list[StoredReport]:
        """Return reports of a pipeline, newest first. The parameters are those of ``ReportReader.reports``."""
        with self._store.read() as transaction:
            return transaction.reports.reports(pipeline, before, limit, size)

    def newest(self, names: Sequence[str], size: int) -> Iterator[tuple[str, StoredReport]]:
        """Yield the newest report of each pipeline in ``names``, like ``ReportReader.newest``."""
        with self._store.read() as transaction:
            yield from transaction.reports.newest(names, size)

    def add(self, transaction: WriteTransaction, name: str, report: CheckedReport) -> tuple[int, bool]:
        """Store a report of the pipeline ``name``. Return its number, and True if the report is new.

        Raises ``TooManyPipelines`` if the pipeline is new and the largest number of pipelines is reached.
        """
        stored = transaction.reports
        pipeline = stored.pipeline(name)
        if pipeline is None and stored.pipeline_count() >= self._most:
            raise TooManyPipelines(f"there are {self._most} pipelines, and no more are taken (setting max_pipelines)")
        gist = {**report.gist, RECENT: _add_recent(pipeline, report)}
        return stored.put_report(name, report.batch, report.text, gist, time=now(), keep=self._keep)


def list_recent(pipeline: ReportingPipeline) -> list[tuple[int, int, int]]:
    """Return the landed messages, dead letters and dropped messages of the last batches, the newest last.

    Batches that an older version of the server stored are missing.
    """
    return [(landed, dead, dropped) for landed, dead, dropped in pipeline.gist.get(RECENT, ())]


def _add_recent(pipeline: ReportingPipeline | None, report: CheckedReport) -> list[list[int]]:
    recent = [] if pipeline is None else list(pipeline.gist.get(RECENT, ()))
    is_replaced = pipeline is not None and recent and pipeline.gist.get("batch") == report.batch
    outcomes = [report.gist[name] for name in ("landed", "dead_lettered", "dropped")]
    return [*(recent[:-1] if is_replaced else recent), outcomes][-RECENT_BATCHES:]


def list_visible_pipelines(
    reports: ReportReader, after: str, limit: int, is_visible: Callable[[str], bool]
) -> list[ReportingPipeline]:
    """Return up to ``limit`` visible pipelines, like ``PipelineReports.pipelines``."""
    return list(islice(_read_visible_pipelines(reports, after, limit, is_visible), limit))


def _read_visible_pipelines(
    reports: ReportReader, after: str, limit: int, is_visible: Callable[[str], bool]
) -> Iterator[ReportingPipeline]:
    """Yield the visible pipelines after the name ``after``. Rows are read in pages suited to ``limit``."""
    page_size = max(limit, _MIN_ROWS_READ)
    while True:
        page = reports.pipelines(after, page_size)
        yield from (pipeline for pipeline in page if is_visible(pipeline.name))
        if len(page) < page_size:
            return
        after = page[-1].name


def read_report(document: JSON) -> CheckedReport:
    """Return the report in a JSON document. Raises ``InvalidReport`` if it is malformed or its totals do not add up.

    A malformed report has one finding, the first one. Wrong sums and times have up to 100 findings.
    """
    try:
        report = msgspec.convert(document, type=BatchReport)
    except msgspec.ValidationError as error:
        raise InvalidReport(_parse_finding(str(error))) from None
    faults = tuple(islice(chain(_check_sums(report), _check_times(report)), _MOST_FAULTS))
    if faults:
        raise InvalidReport(*faults)
    gist = {name: document[name] for name in _GIST if name in document}
    return CheckedReport(batch=report.batch, text=msgspec.json.encode(document).decode(), gist=gist)


def _parse_finding(text: str) -> Finding:
    """Convert an error of msgspec to a finding with a JSON Pointer.

    msgspec does not name the member of a map, so the pointer has ``*`` in its place.
    """
    place = _PLACE.search(text)
    if place is None:
        return Finding(path="", rule="type", message=text[:_MAX_SHOWN_CHARS])
    path = _ITEM.sub(r"/\1", place["steps"].replace("[...]", "/*").replace(".", "/"))
    message = text[: min(place.start(), _MAX_SHOWN_CHARS)]
    return Finding(path=path[:_MAX_SHOWN_CHARS], rule="type", message=f"{message} as key" if place["key"] else message)


def _check_sums(report: BatchReport) -> Iterator[Finding]:
    """Yield a finding for each total that differs from the sum of its parts. Each message must be counted once."""
    places = report.landed + report.dead_lettered + report.dropped
    landed = sum(counts.landed for counts in report.by_message.values())
    sums = (
        ("/read", report.read, places, "landed + dead_lettered + dropped"),
        ("/landed", report.landed, landed, "what landed by message"),
        ("/dead_lettered", report.dead_lettered, sum(report.reasons.values()), "the messages of all reasons"),
    )
    for path, stated, total, label in sums:
        if stated != total:
            yield Finding(path=path, rule="sum", message=f"it is {stated}, but {label} is {total}")


def _check_times(report: BatchReport) -> Iterator[Finding]:
    stated = [("/finished", report.finished)]
    parts: list[tuple[str, Lag | DefinitionCounts]] = [("/lag", report.lag)] if report.lag else []
    parts += [(format_pointer(("by_message", xid)), counts) for xid, counts in report.by_message.items()]
    stated += [(f"{place}/{name}", getattr(part, name)) for place, part in parts for name in _TIME_FIELDS]
    for path, text in stated:
        if text and not can_parse_timestamp(text):
            yield Finding(path=path, rule="timestamp", message=f"{text!r} is no RFC3339 timestamp")
