"""The API for pipelines that report their batches: a list of pipelines, and a history of reports for each.

Reports are not part of the registry: a new report causes no change, event or epoch, and does not invalidate cached
responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.paging import build_next_link
from signalbook.api.kernel.requests import HTTPRequest, parse_json_body, parse_whole_number
from signalbook.api.kernel.responses import JSON_TYPE, Header, Response, json_response
from signalbook.api.kernel.routing import Handler, Kernel, PathEndpoint
from signalbook.engine.engine import Session
from signalbook.errors import RegistryError
from signalbook.pipeline_reports import (
    RECENT,
    CheckedReport,
    InvalidReport,
    PipelineReports,
    TooManyPipelines,
    read_report,
)
from signalbook.storage.reports import ReportingPipeline, StoredReport
from signalbook.values import JSONObject, format_timestamp
from signalbook.xid import Xid, XidError, check_id

PATH: Final = "/pipelines"
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 8
_PAGE_SIZE: Final = 8 * 1024 * 1024
"""The maximum characters of reports on a page. A page always has at least one report."""
_PAGE_ROWS: Final = 100
_MAX_ROWS: Final = 1000
_LAST_NUMBER: Final = 2**63 - 1


class PipelinesAPI:
    """The paths ``/pipelines``, ``/pipelines/{name}`` and their reports, with or without a trailing slash."""

    def __init__(self, kernel: Kernel, stored: PipelineReports) -> None:
        self._kernel = kernel
        self._stored = stored

    def routes(self) -> list[Route]:
        table: dict[str, dict[str, Handler]] = {
            PATH: {"GET": self._list},
            f"{PATH}/{{name}}": {"GET": self._show, "DELETE": self._delete},
            f"{PATH}/{{name}}/reports": {"GET": self._list_reports, "POST": self._add},
            f"{PATH}/{{name}}/reports/{{number}}": {"GET": self._show_report},
        }
        return [
            route
            for path, handlers in table.items()
            for route in PathEndpoint(handlers, self._kernel, needs=Action.REPORT, explain=_explain).routes(path)
        ]

    async def _list(self, request: HTTPRequest) -> Response:
        """Return pipelines by name, each with a summary of its newest report."""
        limit, after = self._limit(request), request.query.get("cursor", "")
        if after:
            _check_name(after, request)
        is_visible = partial(can_read_reports, request.access)
        pipelines = await self._kernel.workers.read(partial(self._stored.pipelines, after, limit + 1, is_visible))
        headers = [NO_STORE]
        if len(pipelines) > limit:
            headers.append(build_next_link(request.root + request.path, limit=limit, cursor=pipelines[limit - 1].name))
        return json_response([_render_pipeline(pipeline) for pipeline in pipelines[:limit]], headers=tuple(headers))

    async def _show(self, request: HTTPRequest) -> Response:
        """Return a pipeline with its newest report as it was sent."""
        pipeline = await self._find_pipeline(request)
        last = next(iter(await self._read_reports(request, _LAST_NUMBER, 1)), None)
        document = {"name": pipeline.name, "last": last and msgspec.Raw(_render_report(last))}
        return _build_response(b"%s", [msgspec.json.encode(document)])

    async def _list_reports(self, request: HTTPRequest) -> Response:
        """Return the reports of a pipeline, the newest first."""
        await self._find_pipeline(request)
        limit = self._limit(request)
        reports = await self._read_reports(request, request.number("cursor") or _LAST_NUMBER, limit)
        # A page is limited by size as well as by number, so only a query behind its end shows whether there is more.
        more = bool(reports) and bool(await self._read_reports(request, reports[-1].number, 1))
        headers = [build_next_link(request.root + request.path, limit=limit, cursor=reports[-1].number)] if more else []
        return _build_response(b"[%s]", [_render_report(report) for report in reports], *headers)

    async def _show_report(self, request: HTTPRequest) -> Response:
        number = parse_whole_number(request.params["number"])
        reports = await self._read_reports(request, number + 1, 1) if number is not None else []
        if not reports or reports[0].number != number:
            raise RegistryError("not_found", subject=request.path)
        return _build_response(b"%s", [_render_report(reports[0])])

    async def _add(self, request: HTTPRequest) -> Response:
        """Store a report. The same report again changes nothing; another report of the same batch replaces it."""
        _check_name(request.params["name"], request)
        name = read_pipeline_name(request)
        body = await request.body(MAX_BYTES)
        report = await self._kernel.workers.read(
            lambda: read_report(parse_json_body(body, request.subject, max_depth=MAX_DEPTH))
        )
        add = partial(self._store, name=name, report=report)
        number, new = await self._kernel.write(add, request.access)
        location = f"{request.root}{PATH}/{name}/reports/{number}"
        headers = (NO_STORE, ("Location", location))
        return json_response({"pipeline": name, "number": number}, status=201 if new else 200, headers=headers)

    def _store(self, session: Session, *, name: str, report: CheckedReport) -> tuple[int, bool]:
        number, new = self._stored.add(session.transaction, name, report)
        if new:
            session.record(Action.REPORT, f"{PATH}/{name}/reports/{number}")
        return number, new

    async def _delete(self, request: HTTPRequest) -> Response:
        """Delete a pipeline and all its reports."""
        name = read_pipeline_name(request)
        if not await self._kernel.write(partial(_drop, name=name), request.access):
            raise RegistryError("not_found", subject=request.path)
        return Response(status=204, headers=(NO_STORE,))

    async def _find_pipeline(self, request: HTTPRequest) -> ReportingPipeline:
        pipeline = await self._kernel.workers.read(partial(self._stored.pipeline, read_pipeline_name(request)))
        if pipeline is None:
            raise RegistryError("not_found", subject=request.path)
        return pipeline

    async def _read_reports(self, request: HTTPRequest, before: int, limit: int) -> Sequence[StoredReport]:
        ask = partial(self._stored.reports, read_pipeline_name(request), before, limit, _PAGE_SIZE)
        return await self._kernel.workers.read(ask)

    def _limit(self, request: HTTPRequest) -> int:
        """Return the requested number of entries on a page, within the limits."""
        return min(request.number("limit") or _PAGE_ROWS, self._kernel.settings.max_page_size, _MAX_ROWS)


def _drop(session: Session, *, name: str) -> bool:
    dropped = session.transaction.reports.drop_pipeline(name)
    if dropped:
        session.record(Action.REPORT, f"{PATH}/{name}")
    return dropped


def read_pipeline_name(request: HTTPRequest) -> str:
    """Return the name of the pipeline in the path. Names have the form of ids. Raises ``not_found`` and
    ``Forbidden``."""
    try:
        name = check_id(request.params["name"])
    except XidError:
        raise RegistryError("not_found", subject=request.path) from None
    request.access.require(Action.REPORT, _build_xid(name))
    return name


def can_read_reports(access: Access, name: str) -> bool:
    """Return True if ``access`` includes the reports of a pipeline, which contain parts of messages."""
    return access.may(Action.REPORT, _build_xid(name))


def _build_xid(name: str) -> Xid:
    """Return the xid by which access rules name a pipeline."""
    return Xid((PATH[1:], name))


def _check_name(name: str, request: HTTPRequest) -> str:
    """Return ``name`` if it is valid for a pipeline. Raises ``bad_request``."""
    try:
        return check_id(name)
    except XidError as error:
        raise request.wrong(str(error)) from None


def _render_pipeline(pipeline: ReportingPipeline) -> JSONObject:
    received = format_timestamp(pipeline.time)
    gist = {name: value for name, value in pipeline.gist.items() if name != RECENT}
    return {"name": pipeline.name, "last": {"number": pipeline.newest, "received": received, **gist}}


def _render_report(report: StoredReport) -> bytes:
    """Return a report as JSON: its number, its time of arrival, and the JSON that the pipeline sent."""
    head = {"number": report.number, "received": format_timestamp(report.time), "report": msgspec.Raw(report.value)}
    return msgspec.json.encode(head)


def _build_response(form: bytes, texts: Sequence[bytes], *headers: Header) -> Response:
    body = form % b",".join(texts)
    return Response(headers=(("Content-Type", JSON_TYPE), NO_STORE, *headers), body=body)


def _explain(error: Exception, path: str) -> Exception:
    """Return the error of xRegistry's catalogue for an invalid request; other errors unchanged."""
    match error:
        case InvalidReport():
            return RegistryError("bad_request", subject=path, error_detail=str(error), faults=error.faults)
        case TooManyPipelines():
            return RegistryError("bad_request", subject=path, error_detail=str(error))
        case _:
            return error
