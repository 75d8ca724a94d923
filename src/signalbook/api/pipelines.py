"""Pipelines that tell of their batches: who they are, and a history of their reports.

Reports are no part of the registry: no change, no event, no epoch. Answers kept in memory stay when one comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope

from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import base_url
from signalbook.api.kernel.responses import JSON_TYPE, Header, Response, json_response
from signalbook.api.kernel.routing import Handler, HTTPRequest, Place
from signalbook.engine.engine import Batch
from signalbook.errors import RegistryError
from signalbook.pipelinereports import CheckedReport, InvalidReport, PipelineReports, TooManyPipelines, read_report
from signalbook.settings import Settings
from signalbook.storage.base import ReportingPipeline, StoredReport
from signalbook.values import JSONObject, format_timestamp
from signalbook.xid import XidError, check_id

PATH: Final = "/pipelines"
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 8
_PAGE_SIZE: Final = 8 * 1024 * 1024
"""Characters of reports on a page, which has one of them at least."""
_PAGE: Final = 100
_MOST: Final = 1000
_LAST: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"0{0,99}[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """What the handlers work with."""

    reports: PipelineReports
    settings: Settings
    workers: Workers
    commits: Commits[Batch]


def routes(doorway: Doorway) -> list[Route]:
    """``/pipelines``, each of them, and its reports; with or without a trailing slash."""
    places: tuple[tuple[str, dict[str, Handler[_Call]]], ...] = (
        (PATH, {"GET": _list}),
        (f"{PATH}/{{name}}", {"GET": _show, "DELETE": _delete}),
        (f"{PATH}/{{name}}/reports", {"GET": _history, "POST": _take}),
        (f"{PATH}/{{name}}/reports/{{number}}", {"GET": _one}),
    )
    call = partial(_Call, doorway)
    return [Route(f"{path}{slash}", Place(handlers, call, _told)) for path, handlers in places for slash in ("", "/")]


class _Call(HTTPRequest):
    """One request, and what handlers ask of it."""

    def __init__(self, doorway: Doorway, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive, doorway.settings)
        self.doorway = doorway

    @property
    def name(self) -> str:
        """The pipeline in the path; names are like ids of entities. Raises ``not_found``."""
        try:
            return check_id(self.request.path_params["name"])
        except XidError:
            raise RegistryError("not_found", subject=self.path) from None

    def checked(self, name: str) -> str:
        """``name`` if a pipeline may have it. Raises ``bad_request``."""
        try:
            return check_id(name)
        except XidError as error:
            raise RegistryError("bad_request", subject=self.path, error_detail=str(error)) from None

    def number(self, parameter: str) -> int | None:
        """A number in the query, None if it is not there. Raises ``bad_request``."""
        text = self.request.query_params.get(parameter)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            detail = f'"{parameter}" takes a whole number from 1, not "{text[:40]}"'
            raise RegistryError("bad_request", subject=self.path, error_detail=detail)
        return int(text)

    @property
    def limit(self) -> int:
        """How many the page may have."""
        return min(self.number("limit") or _PAGE, self.doorway.settings.max_page_size, _MOST)

    def next_page(self, limit: int, cursor: str | int) -> Header:
        """The header that names the next page."""
        root = base_url(self.scope, self.doorway.settings)
        return "Link", f"<{root}{self.path}?{urlencode({'limit': limit, 'cursor': cursor})}>;rel=next"

    async def report(self) -> CheckedReport:
        """The body. Raises ``missing_body``, ``parsing_data``, ``bad_request``, ``InvalidReport``."""
        body = await self.body(MAX_BYTES)
        return await self.doorway.workers.read(lambda: read_report(self.json(body, MAX_DEPTH)))


async def _list(call: _Call) -> Response:
    """Pipelines by name, each with the gist of its newest report."""
    limit, after = call.limit, call.request.query_params.get("cursor", "")
    if after:
        call.checked(after)
    found = await call.doorway.workers.read(partial(call.doorway.reports.pipelines, after, limit + 1))
    headers = [NO_STORE]
    if len(found) > limit:
        headers.append(call.next_page(limit, found[limit - 1].name))
    return json_response([_shown(pipeline) for pipeline in found[:limit]], headers=tuple(headers))


async def _show(call: _Call) -> Response:
    """One pipeline, with its newest report as it was sent."""
    pipeline = await _pipeline(call)
    last = next(iter(await _reports(call, _LAST, 1)), None)
    shown = {"name": pipeline.name, "last": last and msgspec.Raw(_text(last))}
    return _texts(b"%s", [msgspec.json.encode(shown)])


async def _history(call: _Call) -> Response:
    """Reports, the newest first."""
    await _pipeline(call)
    limit = call.limit
    found = await _reports(call, call.number("cursor") or _LAST, limit)
    more = bool(found) and bool(await _reports(call, found[-1].number, 1))
    headers = [call.next_page(limit, found[-1].number)] if more else []
    return _texts(b"[%s]", [_text(report) for report in found], *headers)


async def _one(call: _Call) -> Response:
    text = call.request.path_params["number"]
    found = await _reports(call, int(text) + 1, 1) if _NUMBER.fullmatch(text) else []
    if not found or found[0].number != int(text):
        raise RegistryError("not_found", subject=call.path)
    return _texts(b"%s", [_text(found[0])])


async def _take(call: _Call) -> Response:
    """Keep a report; the same one again changes nothing, other words of the same batch replace those."""
    name = call.checked(call.request.path_params["name"])
    number, new = await call.doorway.commits.write(partial(_file, call, name, await call.report()))
    where = f"{base_url(call.scope, call.doorway.settings)}{PATH}/{name}/reports/{number}"
    told = {"pipeline": name, "number": number}
    return json_response(told, status=201 if new else 200, headers=(NO_STORE, ("Location", where)))


def _file(call: _Call, name: str, report: CheckedReport, batch: Batch) -> tuple[int, bool]:
    with batch.writing() as session:
        return call.doorway.reports.add(session.transaction, name, report)


async def _delete(call: _Call) -> Response:
    """Forget a pipeline and all its reports."""
    if not await call.doorway.commits.write(partial(_drop, call)):
        raise RegistryError("not_found", subject=call.path)
    return Response(status=204, headers=(NO_STORE,))


def _drop(call: _Call, batch: Batch) -> bool:
    with batch.writing() as session:
        return call.doorway.reports.remove(session.transaction, call.name)


async def _pipeline(call: _Call) -> ReportingPipeline:
    found = await call.doorway.workers.read(partial(call.doorway.reports.pipeline, call.name))
    if found is None:
        raise RegistryError("not_found", subject=call.path)
    return found


async def _reports(call: _Call, before: int, limit: int) -> Sequence[StoredReport]:
    ask = partial(call.doorway.reports.reports, call.name, before, limit, _PAGE_SIZE)
    return await call.doorway.workers.read(ask)


def _shown(pipeline: ReportingPipeline) -> JSONObject:
    received = format_timestamp(pipeline.time)
    return {"name": pipeline.name, "last": {"number": pipeline.newest, "received": received, **pipeline.gist}}


def _text(report: StoredReport) -> bytes:
    """A report as it is shown: with its number, and when it came. What it says itself is JSON already."""
    head = {"number": report.number, "received": format_timestamp(report.time), "report": msgspec.Raw(report.value)}
    return msgspec.json.encode(head)


def _texts(form: bytes, texts: Sequence[bytes], *headers: Header) -> Response:
    body = form % b",".join(texts)
    return Response(headers=(("Content-Type", JSON_TYPE), NO_STORE, *headers), body=body)


def _told(error: Exception, path: str) -> RegistryError | None:
    """What is wrong with a request, in the words of the catalogue; None for what is not its fault."""
    match error:
        case InvalidReport():
            return RegistryError("bad_request", subject=path, error_detail=str(error), faults=error.faults)
        case TooManyPipelines():
            return RegistryError("bad_request", subject=path, error_detail=str(error))
        case _:
            return None
