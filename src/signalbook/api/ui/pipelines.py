"""Pages about the reports of pipelines: all pipelines, one pipeline, and one batch.

Reports are not part of the registry, so these pages are not cached. They use a limited number of reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest, parse_whole_number
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.pipelines import can_read_reports, read_pipeline_name
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.charts import Chart, format_number
from signalbook.api.ui.names import find_names, parse_xids
from signalbook.api.ui.pages import PATH, Crumb, FormPage, Page, Pages
from signalbook.api.ui.pipelinestatus import (
    PIPELINES,
    PipelineLine,
    build_line,
    find_status,
    find_time,
    format_age,
    format_duration,
    format_share,
    grade_share,
)
from signalbook.api.ui.reportsums import (
    ReportSums,
    build_charts,
    cut_cell,
    list_definitions,
    list_named,
    sum_reports,
)
from signalbook.errors import RegistryError
from signalbook.pipeline_reports import BatchReport, PipelineReports
from signalbook.settings import Settings
from signalbook.storage.reports import ReportingPipeline, StoredReport
from signalbook.values import now
from signalbook.xid import XidError, check_id

_PAGE_LINES: Final = 50
_BATCHES: Final = 60
_BATCH_BYTES: Final = 120
_MAX_QUERY_CHARS: Final = 300
_SIZE: Final = 8 * 1024 * 1024
"""The maximum characters of reports for one page."""
_SEARCHED: Final = 100
"""The number of pipelines whose newest reports are searched for one definition."""
_SHOWN_ENTRIES: Final = 30
"""The number of broken definitions and of values without a column on the page of a batch."""
_SHOWN_REASONS: Final = 5
"""The number of reasons of each broken definition."""
_LAST_NUMBER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinesContent:
    """Pipelines by name. ``of`` is the requested definition, ``name`` its name, ``looked`` the number of pipelines
    searched for it."""

    lines: tuple[PipelineLine, ...]
    of: str
    name: str
    looked: int
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """A batch. ``href`` is its page."""

    batch: str
    when: Shown
    href: str
    landed: str
    dead: str
    share: str
    grade: str
    dropped: str
    lag: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineContent:
    """A pipeline: its newest batch as a line, and its batches in charts and a table, the newest first."""

    line: PipelineLine
    batches: tuple[BatchLine, ...]
    charts: tuple[Chart, ...]
    sums: ReportSums
    json: str
    older: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContent:
    """One batch of a pipeline.

    ``broken`` are definitions that could not be used, each with the reasons. ``rescued`` are values without a column:
    definition, path, number of messages.
    """

    pipeline: str
    line: BatchLine
    sums: ReportSums
    broken: tuple[tuple[str, tuple[str, ...]], ...]
    rescued: tuple[tuple[str, str, str], ...]
    json: str


class PipelinePages:
    """``/ui/-/pipelines``, the page of each pipeline and of each batch, for callers that can read reports."""

    def __init__(self, kernel: Kernel, pages: Pages, stored: PipelineReports) -> None:
        self._kernel = kernel
        self._pages = pages
        self._stored = stored
        self._settings = kernel.settings

    def routes(self) -> list[Route]:
        table = {
            f"{PATH}{PIPELINES}": self._list,
            f"{PATH}{PIPELINES}/{{name}}": self._show,
            f"{PATH}{PIPELINES}/{{name}}/{{number}}": self._show_batch,
        }
        return [
            Route(path, FormPage({"GET": handler}, self._kernel, self._pages, needs=Action.REPORT))
            for path, handler in table.items()
        ]

    async def _list(self, request: HTTPRequest) -> Response:
        of, after = request.query.get("of", "")[:_MAX_QUERY_CHARS], request.query.get("after", "")
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
        at = now()
        lines = tuple(build_line(pipeline, self._settings, at) for pipeline in pipelines[:_PAGE_LINES])
        more = (
            f"{PIPELINES}?{urlencode({'after': pipelines[_PAGE_LINES - 1].name})}"
            if len(pipelines) > _PAGE_LINES
            else ""
        )
        return PipelinesContent(lines=lines, of="", name="", looked=len(lines), next=more)

    def _list_with_definition(self, access: Access, of: str) -> PipelinesContent:
        """Return the pipelines whose newest batch had messages of one definition."""
        visible_pipelines = self._stored.pipelines("", _SEARCHED, partial(can_read_reports, access))
        pipelines = {pipeline.name: pipeline for pipeline in visible_pipelines}
        lines, remaining_bytes, looked = [], _SIZE, 0
        for name, report in self._stored.newest(list(pipelines), _SIZE):
            remaining_bytes -= len(report.value)
            looked += 1
            line = _build_definition_line(pipelines[name], _read_report(report), of, self._settings)
            lines += [line] if line is not None else []
            if remaining_bytes <= 0:
                break
        name = self._find_names([of], access).get(of, "")
        return PipelinesContent(lines=tuple(lines), of=of, name=name, looked=looked, next="")

    async def _show(self, request: HTTPRequest) -> Response:
        name = read_pipeline_name(request)
        before = request.number("before") or _LAST_NUMBER
        content = await self._kernel.workers.read(partial(self._build_pipeline, request, name, before))
        way = (*_WAY, Crumb(text="pipelines", href=PIPELINES), Crumb(text=name))
        page = Page(template="pipeline.html", title=name, content=content, crumbs=way)
        return self._pages.build_response(page, request.root, NO_STORE)

    def _build_pipeline(self, request: HTTPRequest, name: str, before: int) -> PipelineContent:
        pipeline = self._stored.pipeline(name)
        if pipeline is None:
            raise RegistryError("not_found", subject=request.path)
        stored = self._stored.reports(name, before, _BATCHES, _SIZE)
        older = stored and self._stored.reports(name, stored[-1].number, 1, 1)
        batches = [(report, _read_report(report)) for report in stored]
        reports = [report for _, report in batches]
        lines = tuple(_build_batch_line(name, *batch, self._settings) for batch in batches)
        return PipelineContent(
            line=build_line(pipeline, self._settings, now()),
            batches=lines,
            charts=build_charts(reports[::-1], [line.when.text for line in lines[::-1]]),
            sums=self._sum(reports, request.access),
            json=f"/pipelines/{name}/reports",
            older=f"{PIPELINES}/{name}?before={stored[-1].number}" if older else "",
        )

    async def _show_batch(self, request: HTTPRequest) -> Response:
        name, number = read_pipeline_name(request), parse_whole_number(request.params["number"])
        content = await self._kernel.workers.read(partial(self._build_batch, request, name, number))
        pipeline = Crumb(text=name, href=f"{PIPELINES}/{name}")
        way = (*_WAY, Crumb(text="pipelines", href=PIPELINES), pipeline, Crumb(text=content.line.batch))
        page = Page(template="batch.html", title=f"{content.line.batch} of {name}", content=content, crumbs=way)
        return self._pages.build_response(page, request.root, NO_STORE)

    def _build_batch(self, request: HTTPRequest, name: str, number: int | None) -> BatchContent:
        """Return a batch by the number of its report. Raises ``not_found``."""
        stored = self._stored.reports(name, number + 1, 1, 1) if number is not None else []
        if not stored or stored[0].number != number:
            raise RegistryError("not_found", subject=request.path)
        report = _read_report(stored[0])
        broken = list(report.left_out.items())[:_SHOWN_ENTRIES]
        return BatchContent(
            pipeline=name,
            line=_build_batch_line(name, stored[0], report, self._settings),
            sums=self._sum([report], request.access),
            broken=tuple((cut_cell(xid), tuple(map(cut_cell, reasons[:_SHOWN_REASONS]))) for xid, reasons in broken),
            rescued=tuple(
                (cut_cell(value.definition), cut_cell(value.path), format_number(value.messages))
                for value in report.rescued[:_SHOWN_ENTRIES]
            ),
            json=f"/pipelines/{name}/reports/{number}",
        )

    def _sum(self, reports: Sequence[BatchReport], access: Access) -> ReportSums:
        definitions = list_definitions(reports)
        names = self._find_names(list_named(reports, definitions), access)
        return sum_reports(reports, definitions, names, self._settings)

    def _find_names(self, texts: Sequence[str], access: Access) -> dict[str, str]:
        """Return the names or else the ids of those of ``texts`` that are readable entities."""
        xids = parse_xids(texts)
        with self._kernel.engine.reading(access) as view:
            names = find_names(view, set(xids.values()))
        return {text: names[xid] or xid.resource_id for text, xid in xids.items() if xid in names}


_WAY: Final = (Crumb(text="Registry", href=""),)


def _check_name(after: str) -> str:
    """Return the name after which a page begins. Raises ``bad_request``."""
    try:
        return check_id(after) if after else ""
    except XidError as error:
        raise RegistryError("bad_request", subject=PIPELINES, error_detail=str(error)) from None


def _read_report(stored: StoredReport) -> BatchReport:
    return msgspec.json.decode(stored.value, type=BatchReport)


def _build_definition_line(
    pipeline: ReportingPipeline, report: BatchReport, of: str, settings: Settings
) -> PipelineLine | None:
    counts = report.by_message.get(of)
    if counts is None:
        return None
    finished, total, at = find_time(report.finished, pipeline), counts.landed + counts.rejected, now()
    grade = grade_share(counts.rejected, total, settings)
    return PipelineLine(
        name=pipeline.name,
        href=f"{PIPELINES}/{pipeline.name}",
        status=find_status(finished, grade, settings, at),
        when=format_age(finished, at),
        landed=format_number(counts.landed),
        rejected=format_number(counts.rejected),
        share=format_share(counts.rejected, total),
        grade=grade,
        lag=format_duration(report.lag.seconds if report.lag else None),
    )


def _build_batch_line(name: str, stored: StoredReport, report: BatchReport, settings: Settings) -> BatchLine:
    return BatchLine(
        batch=cut_cell(report.batch, _BATCH_BYTES),
        when=moment(find_time(report.finished, stored)),
        href=f"{PIPELINES}/{name}/{stored.number}",
        landed=format_number(report.landed),
        dead=format_number(report.dead_lettered),
        share=format_share(report.dead_lettered, report.read),
        grade=grade_share(report.dead_lettered, report.read, settings),
        dropped=format_number(report.dropped),
        lag=format_duration(report.lag.seconds if report.lag else None),
        note=cut_cell(report.note, _BATCH_BYTES),
    )
