"""``GET /impact``: what depends on an entity, which pipelines land it, which subscriptions hear of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint, revalidated
from signalbook.engine.engine import Engine
from signalbook.engine.search.impact import MAX_DEPTH, Impact
from signalbook.engine.write.apply import Change, ChangeAction, Entity
from signalbook.errors import SignalbookError
from signalbook.events.delivery.interest import EventSelection, select
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.pipeline_reports import PipelineReports
from signalbook.storage.outbox import Record
from signalbook.values import JSONObject, now
from signalbook.xid import Kind, Xid, XidError

PATH: Final = "/impact"
_PARAMETERS: Final = ("xid", "depth")
_PIPELINES: Final = 100
_SUBSCRIPTIONS: Final = 200
_REPORTS: Final = 8 * 1024 * 1024
"""Characters of reports in memory at once."""
_MENTIONED: Final = 100
"""Entities that are named of each pipeline and subscription."""
_ENTITIES: Final = {Kind.GROUP: Entity.GROUP, Kind.RESOURCE: Entity.RESOURCE, Kind.VERSION: Entity.VERSION}


class ImpactAPI:
    """The one path."""

    def __init__(self, kernel: Kernel, reports: PipelineReports, subscriptions: SubscriptionStore) -> None:
        self._kernel = kernel
        self._reports = reports
        self._subscriptions = subscriptions

    def routes(self) -> list[Route]:
        """It, with or without a trailing slash."""
        endpoint = PathEndpoint({"GET": revalidated(self._get)}, self._kernel, subject=PATH, needs=Action.READ)
        return endpoint.routes(PATH)

    async def _get(self, request: HTTPRequest) -> Response:
        unknown = next((name for name in request.query if name not in _PARAMETERS), None)
        if unknown is not None:
            raise request.wrong(f'there is no parameter "{unknown[:40]}", only {", ".join(_PARAMETERS)}')
        xid, depth = _xid(request), min(request.number("depth") or MAX_DEPTH, MAX_DEPTH)
        ask = partial(
            impact_document,
            self._kernel.engine,
            self._reports,
            self._subscriptions,
            xid,
            depth=depth,
            access=request.access,
            root=request.root,
        )
        return json_response(await self._kernel.workers.read(ask), headers=(NO_STORE,))


def _xid(request: HTTPRequest) -> Xid:
    text = request.query.get("xid", "")
    try:
        xid = Xid.parse(text)
    except XidError as error:
        raise request.wrong(f'"xid" takes the xid of an entity, not "{text[:100]}": {error}') from None
    if xid.kind not in _ENTITIES:
        raise request.wrong(f'"xid" takes the xid of a group, a resource or a version, not "{text[:100]}"')
    return xid


def impact_document(
    engine: Engine,
    reports: PipelineReports,
    subscriptions: SubscriptionStore,
    xid: Xid,
    *,
    depth: int,
    access: Access,
    root: str,
) -> JSONObject:
    """What depends on ``xid``, and whom its change concerns, as far as ``access`` shows it. Raises ``not_found``."""
    with engine.reading(access) as view:
        found = view.impact(xid, depth)
    return {
        "xid": str(xid),
        "complete": found.complete,
        "dependents": [each.to_json() for each in found.dependents],
        "pipelines": list(_pipelines(reports, found, access)),
        "subscriptions": list(_subscriptions(subscriptions, found, access, root)),
    }


def _affected(found: Impact) -> Iterator[Xid]:
    yield found.xid
    yield from (each.xid for each in found.dependents)


def _pipelines(reports: PipelineReports, found: Impact, access: Access) -> Iterator[JSONObject]:
    """The pipelines whose newest report has one of the messages."""
    messages = {str(xid.resource) for xid in _affected(found) if xid.kind is not Kind.GROUP}
    seen = [each.name for each in reports.pipelines("", _PIPELINES) if _may_see(access, each.name)]
    for name, report in reports.newest(seen, _REPORTS):
        counts = msgspec.json.decode(report.value, type=_Counted).by_message
        named = sorted(each for each in counts if each.partition("/versions/")[0] in messages)
        if named:
            yield {"name": name, "messages": named[:_MENTIONED]}


class _Counted(msgspec.Struct):
    """What is looked at of a report."""

    by_message: dict[str, msgspec.Raw] = {}


def _may_see(access: Access, pipeline: str) -> bool:
    return access.may(Action.REPORT, Xid(("pipelines", pipeline)))


def _subscriptions(stored: SubscriptionStore, found: Impact, access: Access, root: str) -> Iterator[JSONObject]:
    """The subscriptions that would get an event if one of these entities changed."""
    records = [_record(xid, now()) for xid in islice(_affected(found), _MENTIONED)]
    for each in stored.page("", _SUBSCRIPTIONS, by=access):
        try:
            selection = select(each.subscription, root)
        except SignalbookError:  # it hears of nothing, and says so itself
            continue
        heard = [str(record.change["xid"]) for record in records if _hears(selection, record)]
        if heard:
            yield {"id": each.subscription.id, "protocol": each.subscription.protocol, "xids": heard}


def _record(xid: Xid, time: datetime) -> Record:
    change = Change(xid=str(xid), entity=_ENTITIES[xid.kind], action=ChangeAction.UPDATED, changed=("epoch",))
    return Record(position=1, time=time, correlationid="", change=change.to_json())


def _hears(selection: EventSelection, record: Record) -> bool:
    return any(selection.interest.wants(event) for event in selection.dialect.events(record))
