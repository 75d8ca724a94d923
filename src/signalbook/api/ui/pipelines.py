"""Pages about the reports of pipelines: landed messages, violations, and compliance with definitions.

Reports are not part of the registry, so these pages are not cached. They use a limited number of reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.pipelines import can_read_reports, read_pipeline_name
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.charts import Chart, Column, build_stacked_chart, format_number
from signalbook.api.ui.pages import PATH, Crumb, FormPage, Page, Pages
from signalbook.errors import RegistryError
from signalbook.pipeline_reports import BatchReport, PipelineReports, ReportedViolation
from signalbook.storage.reports import ReportingPipeline, StoredReport
from signalbook.values import JSONObject, format_timestamp
from signalbook.xid import Kind, Xid, XidError, check_id

PIPELINES: Final = "/-/pipelines"
_PAGE_LINES: Final = 50
_BATCHES: Final = 100
_SIZE: Final = 8 * 1024 * 1024
"""The maximum characters of reports for one page."""
_SEARCHED: Final = 100
"""The number of pipelines whose newest reports are searched for one definition."""
_VIOLATIONS: Final = 20
_REASONS: Final = 20
_DEFINITIONS: Final = 50
_MAX_CELL_CHARS: Final = 300
_LAST_NUMBER: Final = 2**63 - 1
_ENDS: Final = (("landed", "landed"), ("dead", "dead letters"), ("dropped", "dropped"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLine:
    """A pipeline with its newest batch. For one definition, it shows the landed and rejected messages of that
    definition."""

    name: str
    href: str
    when: Shown
    landed: str
    rejected: str
    dropped: str
    share: str
    lag: str
    well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinesContent:
    """Pipelines by name. ``of`` is the requested definition, ``looked`` the number of pipelines searched for it."""

    lines: tuple[PipelineLine, ...]
    of: str
    looked: int
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionLine:
    """The compliance with one definition. ``href`` is the definition's page if it exists."""

    xid: str
    href: str
    landed: str
    rejected: str
    share: str
    reasons: tuple[tuple[str, str], ...]
    well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationLine:
    """A violation with the number of its messages and the newest example."""

    definition: str
    path: str
    rule: str
    messages: str
    message: str
    excerpt: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """A batch. ``href`` is its report."""

    batch: str
    when: Shown
    href: str
    landed: str
    dead: str
    dropped: str
    lag: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineContent:
    """A pipeline: its batches in charts and a table, the newest first, its violations, and compliance by definition."""

    name: str
    batches: tuple[BatchLine, ...]
    charts: tuple[Chart, ...]
    reasons: tuple[tuple[str, str], ...]
    violations: tuple[ViolationLine, ...]
    definitions: tuple[DefinitionLine, ...]
    more_definitions: int
    facts: tuple[tuple[str, str], ...]
    json: str
    older: str


class PipelinePages:
    """``/ui/-/pipelines`` and the page of each pipeline, for callers that can read reports, as at ``/pipelines``."""

    def __init__(self, kernel: Kernel, pages: Pages, stored: PipelineReports) -> None:
        self._kernel = kernel
        self._pages = pages
        self._stored = stored

    def routes(self) -> list[Route]:
        table = {f"{PATH}{PIPELINES}": self._list, f"{PATH}{PIPELINES}/{{name}}": self._show}
        return [
            Route(path, FormPage({"GET": handler}, self._kernel, self._pages, needs=Action.REPORT))
            for path, handler in table.items()
        ]

    async def _list(self, request: HTTPRequest) -> Response:
        of, after = request.query.get("of", "")[:_MAX_CELL_CHARS], request.query.get("after", "")
        make = (
            partial(self._list_with_definition, request.access, of)
            if of
            else partial(self._list_all, request.access, after)
        )
        content = await self._kernel.workers.read(make)
        way = (*_WAY, Crumb(text="pipelines"))
        page = Page(template="pipelines.html", title="Pipelines", content=content, crumbs=way)
        return self._pages.build_response(page, request.root, NO_STORE)

    def _list_all(self, access: Access, after: str) -> PipelinesContent:
        pipelines = self._stored.pipelines(_check_name(after), _PAGE_LINES + 1, partial(can_read_reports, access))
        lines = tuple(map(_build_line, pipelines[:_PAGE_LINES]))
        more = (
            f"{PIPELINES}?{urlencode({'after': pipelines[_PAGE_LINES - 1].name})}"
            if len(pipelines) > _PAGE_LINES
            else ""
        )
        return PipelinesContent(lines=lines, of="", looked=len(lines), next=more)

    def _list_with_definition(self, access: Access, of: str) -> PipelinesContent:
        """Return the pipelines whose newest batch had messages of one definition."""
        visible_pipelines = self._stored.pipelines("", _SEARCHED, partial(can_read_reports, access))
        pipelines = {pipeline.name: pipeline for pipeline in visible_pipelines}
        lines, remaining_bytes, looked = [], _SIZE, 0
        for name, report in self._stored.newest(list(pipelines), _SIZE):
            remaining_bytes -= len(report.value)
            looked += 1
            line = _build_definition_line(pipelines[name], _read_report(report), of)
            lines += [line] if line is not None else []
            if remaining_bytes <= 0:
                break
        return PipelinesContent(lines=tuple(lines), of=of, looked=looked, next="")

    async def _show(self, request: HTTPRequest) -> Response:
        name = read_pipeline_name(request)
        before = request.number("before") or _LAST_NUMBER
        content = await self._kernel.workers.read(partial(self._build_content, request, name, before))
        way = (*_WAY, Crumb(text="pipelines", href=PIPELINES), Crumb(text=name))
        page = Page(template="pipeline.html", title=name, content=content, crumbs=way)
        return self._pages.build_response(page, request.root, NO_STORE)

    def _build_content(self, request: HTTPRequest, name: str, before: int) -> PipelineContent:
        if self._stored.pipeline(name) is None:
            raise RegistryError("not_found", subject=request.path)
        stored = self._stored.reports(name, before, _BATCHES, _SIZE)
        older = stored and self._stored.reports(name, stored[-1].number, 1, 1)
        batches = [(report, _read_report(report)) for report in stored]
        reports = [report for _, report in batches]
        definitions = _list_definitions(reports)
        visible = definitions[:_DEFINITIONS]
        there = self._find_existing([line.xid for line in visible], request.access)
        return PipelineContent(
            name=name,
            batches=tuple(_build_batch_line(name, *batch) for batch in batches),
            charts=_build_charts(batches[::-1]),
            reasons=_count_reasons(reports),
            violations=_count_violations(reports),
            definitions=tuple(replace(line, href=line.xid) if line.xid in there else line for line in visible),
            more_definitions=len(definitions) - len(visible),
            facts=_list_facts(batches),
            json=f"/pipelines/{name}/reports",
            older=f"{PIPELINES}/{name}?before={stored[-1].number}" if older else "",
        )

    def _find_existing(self, names: Sequence[str], access: Access) -> set[str]:
        """Return those of ``names`` that are readable entities."""
        with self._kernel.engine.reading(access) as view:
            return {str(xid) for xid in view.reader.get_many(_parse_xids(names))}


_WAY: Final = (Crumb(text="Registry", href=""),)


def _parse_xids(names: Iterable[str]) -> Collection[Xid]:
    xids = set()
    for name in names:
        try:
            xid = Xid.parse(name)
        except XidError:
            continue
        if xid.kind in (Kind.RESOURCE, Kind.VERSION):
            xids.add(xid)
    return xids


def _check_name(after: str) -> str:
    """Return the name after which a page begins. Raises ``bad_request``."""
    try:
        return check_id(after) if after else ""
    except XidError as error:
        raise RegistryError("bad_request", subject=PIPELINES, error_detail=str(error)) from None


def _read_report(stored: StoredReport) -> BatchReport:
    return msgspec.json.decode(stored.value, type=BatchReport)


def _build_line(pipeline: ReportingPipeline) -> PipelineLine:
    gist: JSONObject = pipeline.gist
    dead, read = int(gist.get("dead_lettered", 0)), int(gist.get("read", 0))
    return PipelineLine(
        name=pipeline.name,
        href=f"{PIPELINES}/{pipeline.name}",
        when=_find_time(str(gist.get("finished", "")), pipeline),
        landed=format_number(int(gist.get("landed", 0))),
        rejected=format_number(dead),
        dropped=format_number(int(gist.get("dropped", 0))),
        share=_format_share(dead, read),
        lag=_format_duration((gist.get("lag") or {}).get("seconds")),
        well=dead == 0,
    )


def _build_definition_line(pipeline: ReportingPipeline, report: BatchReport, of: str) -> PipelineLine | None:
    counts = report.by_message.get(of)
    if counts is None:
        return None
    return PipelineLine(
        name=pipeline.name,
        href=f"{PIPELINES}/{pipeline.name}",
        when=_find_time(report.finished, pipeline),
        landed=format_number(counts.landed),
        rejected=format_number(counts.rejected),
        dropped="",
        share=_format_share(counts.rejected, counts.landed + counts.rejected),
        lag=_format_duration(report.lag.seconds if report.lag else None),
        well=counts.rejected == 0,
    )


def _find_time(finished: str, stored: ReportingPipeline | StoredReport) -> Shown:
    """Return when a batch ended, or when its report arrived if the report does not contain it."""
    return moment(finished or format_timestamp(stored.time))


def _format_share(part: int, whole: int) -> str:
    """Return a share in percent. A small share is never shown as zero."""
    if not part or not whole:
        return "0 %"
    percent = 100 * part / whole
    return f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def _format_duration(seconds: float | None) -> str:
    """Return seconds as text, in the largest unit of which there are at least two. None becomes an empty text."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def _build_batch_line(name: str, stored: StoredReport, report: BatchReport) -> BatchLine:
    return BatchLine(
        batch=report.batch[:_MAX_CELL_CHARS],
        when=_find_time(report.finished, stored),
        href=f"/pipelines/{name}/reports/{stored.number}",
        landed=format_number(report.landed),
        dead=format_number(report.dead_lettered),
        dropped=format_number(report.dropped),
        lag=_format_duration(report.lag.seconds if report.lag else None),
        note=report.note[:_MAX_CELL_CHARS],
    )


def _build_charts(batches: Sequence[tuple[StoredReport, BatchReport]]) -> tuple[Chart, ...]:
    """Return the charts: outcomes of messages; those that did not land, on their own scale; the lag of the tables."""
    labels = [_find_time(report.finished, stored).text for stored, report in batches]
    reports = [report for _, report in batches]

    def build_columns(*names: str) -> list[Column]:
        values = [tuple(float(getattr(report, name)) for name in names) for report in reports]
        return [Column(label=label, values=counts) for label, counts in zip(labels, values, strict=True)]

    lags = [Column(label=label, values=(_read_lag(report),)) for label, report in zip(labels, reports, strict=True)]
    charts = [build_stacked_chart("Messages of each batch", _ENDS, build_columns("landed", "dead_lettered", "dropped"))]
    if any(report.dead_lettered or report.dropped for report in reports):
        charts.append(build_stacked_chart("What did not land", _ENDS[1:], build_columns("dead_lettered", "dropped")))
    if any(map(_read_lag, reports)):
        charts.append(build_stacked_chart("Lag behind the newest event", (("lag", "behind"),), lags, " s"))
    return tuple(charts)


def _read_lag(report: BatchReport) -> float:
    return (report.lag.seconds or 0.0) if report.lag else 0.0


def _list_definitions(reports: Sequence[BatchReport]) -> list[DefinitionLine]:
    """Return the definitions over all batches, the most violated first."""
    landed, rejected = Counter[str](), Counter[str]()
    reasons: dict[str, Counter[str]] = {}
    for report in reports:
        for xid, counts in report.by_message.items():
            landed[xid] += counts.landed
            rejected[xid] += counts.rejected
            reasons.setdefault(xid, Counter()).update(counts.reasons)
    order = sorted(landed, key=lambda xid: (-rejected[xid], -landed[xid], xid))
    return [
        DefinitionLine(
            xid=xid[:_MAX_CELL_CHARS],
            href="",
            landed=format_number(landed[xid]),
            rejected=format_number(rejected[xid]),
            share=_format_share(rejected[xid], landed[xid] + rejected[xid]),
            reasons=tuple((reason[:60], format_number(count)) for reason, count in reasons[xid].most_common(3)),
            well=rejected[xid] == 0,
        )
        for xid in order
    ]


def _count_reasons(reports: Sequence[BatchReport]) -> tuple[tuple[str, str], ...]:
    """Return the number of dead letters by reason over all batches, including those without a definition."""
    count = sum((Counter(report.reasons) for report in reports), Counter[str]())
    return tuple((reason[:_MAX_CELL_CHARS], format_number(letters)) for reason, letters in count.most_common(_REASONS))


def _count_violations(reports: Sequence[BatchReport]) -> tuple[ViolationLine, ...]:
    """Return the most frequent violations over all batches, with the newest example of each."""
    count: Counter[tuple[str, str, str]] = Counter()
    newest: dict[tuple[str, str, str], ReportedViolation] = {}
    for report in reports:
        for violation in report.violations:
            key = (violation.definition, violation.path, violation.rule)
            count[key] += violation.messages
            newest.setdefault(key, violation)
    return tuple(
        ViolationLine(
            definition=definition[:_MAX_CELL_CHARS],
            path=path[:_MAX_CELL_CHARS],
            rule=rule[:_MAX_CELL_CHARS],
            messages=format_number(messages),
            message=newest[key].example.message[:_MAX_CELL_CHARS],
            excerpt=newest[key].example.excerpt[:_MAX_CELL_CHARS],
            place=f"{newest[key].example.source[:_MAX_CELL_CHARS]}, position {newest[key].example.position}",
        )
        for key, messages in count.most_common(_VIOLATIONS)
        for definition, path, rule in (key,)
    )


def _list_facts(batches: Sequence[tuple[StoredReport, BatchReport]]) -> tuple[tuple[str, str], ...]:
    """Return the batches of the page in sum."""
    reports = [report for _, report in batches]
    sums = {name: sum(getattr(report, name) for report in reports) for name in ("read", "landed", "dead_lettered")}
    newest = reports[0] if reports else None
    facts = [
        ("batches", format_number(len(reports))),
        ("read", format_number(sums["read"])),
        ("landed", format_number(sums["landed"])),
        (
            "dead letters",
            f"{format_number(sums['dead_lettered'])} ({_format_share(sums['dead_lettered'], sums['read'])})",
        ),
        ("dropped", format_number(sum(report.dropped for report in reports))),
    ]
    if newest is not None and newest.lag is not None and newest.lag.seconds is not None:
        facts.append(("lag", _format_duration(newest.lag.seconds)))
    return tuple(facts)
