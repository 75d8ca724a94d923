"""``/impact``: the entities that depend on an entity, the pipelines that land it, and the subscriptions to its changes.

With POST, the parts of these that a new document for a schema would break. The document is checked like a write, and
then compared with everything that depends on the schema. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Kernel, PathEndpoint, revalidate
from signalbook.api.pipelines import can_read_reports
from signalbook.engine.engine import Batch, Engine
from signalbook.engine.read.impact import MAX_DEPTH
from signalbook.engine.read.schemas import load_schema
from signalbook.engine.read.trial import (
    CandidateDocument,
    Outcome,
    choose_worst,
    find_worst,
    require_document,
    try_candidate,
)
from signalbook.engine.write.apply import Change, ChangeAction, EventEntity
from signalbook.engine.write.commands import Command, DocumentBody, Method
from signalbook.errors import RegistryError, SignalbookError
from signalbook.events.delivery.interest import EventSelection, select
from signalbook.events.subscriptions.store import ShownSubscription, SubscriptionStore
from signalbook.formats.compatibility import RULES
from signalbook.largejson import LARGE
from signalbook.pipeline_reports import PipelineReports
from signalbook.settings import Settings
from signalbook.storage.outbox import Record
from signalbook.values import JSONObject, now
from signalbook.verdict import Verdict
from signalbook.work import Work
from signalbook.xid import Kind, Xid, XidError

PATH: Final = "/impact"
_PARAMETERS: Final = ("xid", "depth")
_TRIAL_PARAMETERS: Final = ("xid", "format", "compatibility")
_SERVER_ERROR: Final = 500
_REFUSED_SHARE: Final = 10
_NOTHING_TO_TRY: Final = ("not_found", "bad_request")
_PIPELINES: Final = 100
_SUBSCRIPTIONS: Final = 200
_REPORTS: Final = 8 * 1024 * 1024
"""The maximum characters of reports in memory at once."""
_MENTIONED: Final = 100
"""The maximum number of entities listed for each pipeline and subscription."""
_ENTITIES: Final = {
    Kind.GROUP: EventEntity.GROUP,
    Kind.RESOURCE: EventEntity.RESOURCE,
    Kind.VERSION: EventEntity.VERSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactContext:
    """The data sources for a response. ``root`` is the URL of the registry."""

    engine: Engine
    reports: PipelineReports
    subscriptions: SubscriptionStore
    settings: Settings
    access: Access
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCandidate:
    """A candidate document with the verdict on storing it. ``becomes_default`` is True if its schema would show it by
    default."""

    candidate: CandidateDocument
    verdict: Verdict
    becomes_default: bool


class ImpactAPI:
    """The API with the one path ``/impact``."""

    def __init__(self, kernel: Kernel, reports: PipelineReports, subscriptions: SubscriptionStore) -> None:
        self._kernel = kernel
        self._reports = reports
        self._subscriptions = subscriptions

    def routes(self) -> list[Route]:
        """Return the route, with or without a trailing slash."""
        handlers = {"GET": revalidate(self._get), "POST": self._post}
        return PathEndpoint(handlers, self._kernel, subject=PATH, needs=Action.READ).routes(PATH)

    def context(self, request: HTTPRequest) -> ImpactContext:
        """Return the data sources for the response to a request."""
        return ImpactContext(
            engine=self._kernel.engine,
            reports=self._reports,
            subscriptions=self._subscriptions,
            settings=self._kernel.settings,
            access=request.access,
            root=request.root,
        )

    async def tried(self, candidate: CandidateDocument, request: HTTPRequest) -> JSONObject:
        """Return the result of ``build_trial_document`` for a candidate that is first checked in a write
        transaction."""
        check = partial(check_candidate, candidate=candidate, access=request.access, root=request.root)
        about, large = (candidate.target.resource,), len(candidate.content) > LARGE
        checked = await self._kernel.commit(check, alone=large, about=about)
        work = build_trial_work(self._kernel.settings, accepted=checked.verdict.accepted)
        trial = self._kernel.trials.read(partial(build_trial_document, self.context(request), checked, work))
        return await request.unless_gone(trial, work.abandon)

    async def _get(self, request: HTTPRequest) -> Response:
        _check_parameters(request, _PARAMETERS)
        xid, depth = _read_xid(request), min(request.number("depth") or MAX_DEPTH, MAX_DEPTH)
        ask = partial(build_impact_document, self.context(request), xid, depth=depth)
        return json_response(await self._kernel.workers.read(ask), headers=(NO_STORE,))

    async def _post(self, request: HTTPRequest) -> Response:
        _check_parameters(request, _TRIAL_PARAMETERS)
        candidate = CandidateDocument(
            target=_read_xid(request),
            content=await request.body(self._kernel.settings.max_body_bytes),
            contenttype=request.headers.get("content-type"),
            format=request.query.get("format", ""),
            compatibility=_read_rule(request),
        )
        return json_response(await self.tried(candidate, request), headers=(NO_STORE,))


def _check_parameters(request: HTTPRequest, names: Collection[str]) -> None:
    unknown = next((name for name in request.query if name not in names), None)
    if unknown is not None:
        raise request.wrong(f'there is no parameter "{unknown[:40]}", only {", ".join(names)}')


def _read_xid(request: HTTPRequest) -> Xid:
    text = request.query.get("xid", "")
    try:
        xid = Xid.parse(text)
    except XidError as error:
        raise request.wrong(f'"xid" takes the xid of an entity, not "{text[:100]}": {error}') from None
    if xid.kind not in _ENTITIES:
        raise request.wrong(f'"xid" takes the xid of a group, a resource or a version, not "{text[:100]}"')
    return xid


def _read_rule(request: HTTPRequest) -> str | None:
    rule = request.query.get("compatibility", "")
    if rule and rule.casefold() not in RULES:
        raise request.wrong(f'"compatibility" is one of {", ".join(RULES)}, not "{rule[:40]}"')
    return rule.casefold() or None


def build_impact_document(context: ImpactContext, xid: Xid, *, depth: int = MAX_DEPTH) -> JSONObject:
    """Return the dependents of ``xid``, and the pipelines and subscriptions that a change affects.

    Only what the caller can read is included. ``cut`` names the lists that may be incomplete because of a limit.

    ``depth`` limits the steps from dependent to dependent. Raises ``not_found``.
    """
    with context.engine.reading(context.access) as view:
        impact = view.find_impact(xid, depth)
    affected = [impact.xid, *(dependent.xid for dependent in impact.dependents)]
    return {
        "xid": str(xid),
        "complete": impact.complete,
        "dependents": [dependent.to_json() for dependent in impact.dependents],
        **_list_concerned(context, affected),
    }


def check_candidate(batch: Batch, candidate: CandidateDocument, access: Access, root: str) -> CheckedCandidate:
    """Check whether a candidate could be stored. Raises ``RegistryError`` for errors that are not the candidate's."""
    target = candidate.target
    version = target.kind is Kind.VERSION
    method = Method.PUT if version else Method.POST
    moves = True
    try:
        with batch.trying(candidate.compatibility, access) as session:
            # If the document is refused, the write does not say what the default Version would have been.
            moves = version or not require_document(session.view, target).defaultversionsticky
            name = candidate.format or load_schema(session.view, target).format
            body = DocumentBody(
                content=candidate.content,
                contenttype=candidate.contenttype,
                attributes={"format": name} if name else {},
            )
            result = session.execute(Command(method=method, target=target, document=body, base_url=root))
            resource = session.view.reader.get(target.resource)
            moves = version or (resource is not None and resource.defaultversionid == result.target.version_id)
            changes = tuple(change.to_json() for change in session.changes)
            verdict = Verdict(changes=changes, findings=(*result.findings, *session.doubts))
    except RegistryError as error:
        if error.status >= _SERVER_ERROR or error.code in _NOTHING_TO_TRY:
            raise
        verdict = Verdict.refused(error)
    return CheckedCandidate(candidate=candidate, verdict=verdict, becomes_default=moves)


def build_trial_work(settings: Settings, *, accepted: bool) -> Work:
    """Return the limit of work for the comparisons of a candidate.

    A refused candidate gets only a share, because the result is decided and the comparisons are for information.
    """
    share = 1 if accepted else _REFUSED_SHARE
    return Work(steps=-(-settings.max_work // share), seconds=settings.work_timeout / share)


def build_trial_document(context: ImpactContext, checked: CheckedCandidate, work: Work) -> JSONObject:
    """Return everything that a candidate would break, and the verdict on it. Raises ``not_found`` and ``Abandoned``."""
    settings = context.settings
    with context.engine.reading(context.access) as view:
        trial = try_candidate(
            view,
            checked.candidate,
            context.root,
            becomes_default=checked.becomes_default,
            work=work,
            rule=settings.default_compatibility,
        )
    target = checked.candidate.target
    affected = [target, *(affected_dependent.dependent.xid for affected_dependent in trial.affected)]
    fates: dict[str, list[Outcome]] = {}
    for affected_dependent in trial.affected:
        fates.setdefault(str(affected_dependent.dependent.xid.resource), []).append(affected_dependent.effect.outcome)
    concerned = _list_concerned(context, affected)
    for pipeline in concerned["pipelines"]:
        names = {message.partition("/versions/")[0] for message in pipeline["messages"]}
        pipeline["outcome"] = choose_worst(fate for name in names for fate in fates.get(name, ()))
    return {
        "xid": str(target),
        "safe": checked.verdict.accepted and trial.complete and find_worst(trial) == "holds",
        "check": checked.verdict.to_json(),
        "default": checked.becomes_default,
        **trial.effect.to_json(),
        "complete": trial.complete,
        "dependents": [affected_dependent.to_json() for affected_dependent in trial.affected],
        **concerned,
    }


def _list_concerned(context: ImpactContext, affected: Sequence[Xid]) -> JSONObject:
    """Return the affected pipelines and subscriptions, and the names of the lists that a limit may have cut."""
    pipelines = context.reports.pipelines("", _PIPELINES + 1, partial(can_read_reports, context.access))
    subscriptions = context.subscriptions.page("", _SUBSCRIPTIONS + 1, by=context.access)
    cut = {
        "pipelines": len(pipelines) > _PIPELINES,
        "subscriptions": len(subscriptions) > _SUBSCRIPTIONS or len(affected) > _MENTIONED,
    }
    names = [pipeline.name for pipeline in pipelines[:_PIPELINES]]
    return {
        "pipelines": list(_find_pipelines(context.reports, names, affected)),
        "subscriptions": list(_find_subscriptions(subscriptions[:_SUBSCRIPTIONS], affected, context.root)),
        "cut": [name for name, is_cut in cut.items() if is_cut],
    }


def _find_pipelines(reports: PipelineReports, names: Sequence[str], affected: Sequence[Xid]) -> Iterator[JSONObject]:
    """Yield the pipelines among ``names`` whose newest report counts one of the affected messages."""
    messages = {str(xid.resource) for xid in affected if xid.kind is not Kind.GROUP}
    for name, report in reports.newest(names, _REPORTS):
        counts = msgspec.json.decode(report.value, type=_Counted).by_message
        affected_messages = sorted(message for message in counts if message.partition("/versions/")[0] in messages)
        if affected_messages:
            yield {"name": name, "messages": affected_messages[:_MENTIONED]}


class _Counted(msgspec.Struct):
    """The part of a report that has counts by message."""

    by_message: dict[str, msgspec.Raw] = {}


def _find_subscriptions(
    subscriptions: Sequence[ShownSubscription], affected: Sequence[Xid], root: str
) -> Iterator[JSONObject]:
    """Yield the subscriptions that would get an event if one of the affected entities changed."""
    records = [_build_record(xid, now()) for xid in affected[:_MENTIONED]]
    for entry in subscriptions:
        try:
            selection = select(entry.subscription, root)
        except SignalbookError:  # a subscription that cannot be read gets no events
            continue
        heard = [str(record.change["xid"]) for record in records if _is_heard(selection, record)]
        if heard:
            yield {"id": entry.subscription.id, "protocol": entry.subscription.protocol, "xids": heard}


def _build_record(xid: Xid, time: datetime) -> Record:
    change = Change(xid=str(xid), entity=_ENTITIES[xid.kind], action=ChangeAction.UPDATED, changed=("epoch",))
    return Record(position=1, time=time, correlationid="", change=change.to_json())


def _is_heard(selection: EventSelection, record: Record) -> bool:
    return any(selection.interest.wants(event) for event in selection.dialect.events(record))
