"""The state of a pipeline in one line: its status, its last batches as a small chart, and its newest batch in numbers.

The line is made from the stored summary of a pipeline, so a list of pipelines reads no reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.charts import Sparkline, build_sparkline, format_number
from signalbook.pipeline_reports import list_recent
from signalbook.settings import Settings
from signalbook.storage.reports import ReportingPipeline, StoredReport
from signalbook.values import JSONObject, format_timestamp, parse_timestamp

PIPELINES: Final = "/-/pipelines"
OUTCOMES: Final = (("landed", "landed"), ("dead", "dead letters"), ("dropped", "dropped"))
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"))
_NOW: Final = timedelta(minutes=1)
"""The age up to which a time is now. The clocks of servers differ, so a time may be in the future."""
_LONGEST_AGE: Final = timedelta(days=60)
"""The age up to which a time is shown relative to now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLine:
    """A pipeline with its newest batch. For one definition, it shows the landed and rejected messages of that
    definition.

    ``status`` is ok, late or failing. ``grade`` is the CSS class of the share of rejected messages.
    """

    name: str
    href: str
    status: str
    when: Shown
    landed: str
    rejected: str
    share: str
    grade: str
    lag: str
    spark: Sparkline | None = None


def build_line(pipeline: ReportingPipeline, settings: Settings, at: datetime) -> PipelineLine:
    """Return the line of a pipeline. ``at`` is the current time."""
    gist: JSONObject = pipeline.gist
    dead, read = int(gist.get("dead_lettered", 0)), int(gist.get("read", 0))
    grade = grade_share(dead, read, settings)
    finished = find_time(str(gist.get("finished", "")), pipeline)
    return PipelineLine(
        name=pipeline.name,
        href=f"{PIPELINES}/{pipeline.name}",
        status=find_status(finished, grade, settings, at),
        when=format_age(finished, at),
        landed=format_number(int(gist.get("landed", 0))),
        rejected=format_number(dead),
        share=format_share(dead, read),
        grade=grade,
        lag=format_duration((gist.get("lag") or {}).get("seconds")),
        spark=build_sparkline(OUTCOMES, list_recent(pipeline)),
    )


def find_time(finished: str, stored: ReportingPipeline | StoredReport) -> str:
    """Return when a batch ended, or when its report arrived if the report does not contain it."""
    return finished or format_timestamp(stored.time)


def find_status(finished: str, grade: str, settings: Settings, at: datetime) -> str:
    """Return ``failing`` if too many messages of the newest batch were rejected, ``late`` if that batch is too old."""
    if grade == "no":
        return "failing"
    age_hours = (at - parse_timestamp(finished)).total_seconds() / 3600
    return "late" if settings.pipeline_late_hours and age_hours > settings.pipeline_late_hours else "ok"


def grade_share(part: int, whole: int, settings: Settings) -> str:
    """Return the CSS class for a share of rejected messages: none, few, or so many that the pipeline is failing."""
    if not part or not whole:
        return "yes"
    return "no" if part / whole >= settings.pipeline_failing_share else "few"


def format_share(part: int, whole: int) -> str:
    """Return a share in percent. A small share is never shown as zero."""
    if not part or not whole:
        return "0 %"
    percent = 100 * part / whole
    return f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def format_duration(seconds: float | None) -> str:
    """Return seconds as text, in the largest unit of which there are at least two. None becomes an empty text."""
    if seconds is None:
        return ""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def format_age(timestamp: str, at: datetime) -> Shown:
    """Return a time relative to ``at``, with the exact time as its title.

    An old time and one in the future are shown as they are.
    """
    time = parse_timestamp(timestamp)
    age = at - time
    if not -_NOW < age <= _LONGEST_AGE:
        return moment(timestamp)
    text = f"{format_duration(age.total_seconds())} ago" if age > _NOW else "just now"
    return Shown(kind="time", text=text, href=timestamp, title=f"{time:%Y-%m-%d %H:%M:%S} UTC")
