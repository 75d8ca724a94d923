"""Reports that pipelines send: what they look like, and whether they add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from signalbook.errors import SignalbookError
from signalbook.values import JSON, Finding, JSONObject, parse_timestamp

LONGEST: Final = 512
MOST_MESSAGES: Final = 20_000
MOST_VIOLATIONS: Final = 500

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[float, Meta(ge=0)]
_Text = Annotated[str, Meta(max_length=LONGEST)]
_Name = Annotated[str, Meta(min_length=1, max_length=LONGEST)]
_Time = Annotated[str, Meta(max_length=40)]
# A column of its own; PostgreSQL keeps no NUL.
_Batch = Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=r"^[^\x00]*$")]


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A member of a report; others than its own are refused."""


class Bytes(_Part):
    """Bytes of the input, and of the files that were written."""

    read: _Count
    written: _Count


class Lag(_Part):
    """Event times, how old the newest event was at the end, and how many messages waited."""

    oldest: _Time = ""
    newest: _Time = ""
    seconds: _Number | None = None
    behind: _Count | None = None


class OfMessage(_Part):
    """What became of the messages of one definition."""

    landed: _Count
    rejected: _Count
    rejected_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    events_per_second: _Number = 0.0
    reasons: dict[_Name, _Count] = {}
    oldest: _Time = ""
    newest: _Time = ""


class Example(_Part):
    """One message that was rejected."""

    source: _Text
    position: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    message: _Text
    excerpt: _Text


class Violation(_Part):
    """What was wrong with how many messages."""

    definition: _Text
    path: _Text
    rule: _Text
    messages: _Count
    example: Example


class Report(_Part):
    """The report of one batch, as ``signalbook pipeline run --json`` prints it."""

    batch: _Batch
    fingerprint: _Text
    read: _Count
    landed: _Count
    dead_lettered: _Count
    dropped: _Count
    seconds: _Number
    events_per_second: _Number
    by_message: Annotated[dict[_Name, OfMessage], Meta(max_length=MOST_MESSAGES)]
    reasons: Annotated[dict[_Name, _Count], Meta(max_length=100)]
    bytes: Bytes | None = None
    lag: Lag | None = None
    violations: Annotated[list[Violation], Meta(max_length=MOST_VIOLATIONS)] = []
    finished: _Time = ""
    note: _Text = ""


_GIST: Final = (
    *("batch", "finished", "read", "landed", "dead_lettered", "dropped", "seconds", "events_per_second", "bytes"),
    *("lag", "reasons"),
)
_TIMES: Final = ("oldest", "newest")


class InvalidReport(SignalbookError):
    """A document that is no report; ``faults`` say why."""

    def __init__(self, *faults: Finding) -> None:
        super().__init__(f"the report cannot be taken: {faults[0].path or '/'}: {faults[0].message}")
        self.faults = faults


class TooMany(SignalbookError):
    """There are as many pipelines as there may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """A report that may be kept: its batch, its ``text`` in JSON, and what lists of pipelines show of it."""

    batch: str
    text: str
    gist: JSONObject


def read(document: JSON) -> Filed:
    """The report in a JSON document. Raises ``InvalidReport`` unless it is one whose totals add up."""
    try:
        report = msgspec.convert(document, type=Report)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        raise InvalidReport(Finding(path=place.strip("`").removeprefix("$"), rule="type", message=what)) from None
    faults = [*_sums(report), *_times(report)]
    if faults:
        raise InvalidReport(*faults)
    gist = {name: document[name] for name in _GIST if name in document}
    return Filed(batch=report.batch, text=msgspec.json.encode(document).decode(), gist=gist)


def _sums(report: Report) -> list[Finding]:
    """Nothing is lost: every message is in one place, and counted once."""
    places = report.landed + report.dead_lettered + report.dropped
    landed = sum(counts.landed for counts in report.by_message.values())
    sums = (
        ("/read", report.read, places, "landed + dead_lettered + dropped"),
        ("/landed", report.landed, landed, "what landed by message"),
        ("/dead_lettered", report.dead_lettered, sum(report.reasons.values()), "the messages of all reasons"),
    )
    return [
        Finding(path=path, rule="sum", message=f"it is {told}, but {what} is {found}")
        for path, told, found, what in sums
        if told != found
    ]


def _times(report: Report) -> list[Finding]:
    given = [("/finished", report.finished)]
    parts: list[tuple[str, Lag | OfMessage]] = [("/lag", report.lag)] if report.lag else []
    parts += [(f"/by_message/{xid.replace('/', '~1')}", counts) for xid, counts in report.by_message.items()]
    given += [(f"{place}/{name}", getattr(part, name)) for place, part in parts for name in _TIMES]
    return [
        Finding(path=path, rule="timestamp", message=f"{text!r} is no RFC3339 timestamp")
        for path, text in given
        if text and not _is_time(text)
    ]


def _is_time(text: str) -> bool:
    try:
        parse_timestamp(text)
    except ValueError:
        return False
    return True
