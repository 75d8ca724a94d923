"""What depends on an entity, and whom a change of it concerns; of a schema, a form to try a change of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.impact import ImpactAPI, build_impact_document
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest, parse_form, raw_path
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.ui.documents import laid_out
from signalbook.api.ui.forms import shown_field
from signalbook.api.ui.formtokens import FormTokens
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, crumbs, written_text
from signalbook.api.ui.pipelines import PIPELINES
from signalbook.api.ui.relations import entity_at
from signalbook.engine.read.schemas import schema_of
from signalbook.engine.read.trial import CandidateDocument
from signalbook.engine.read.view import View
from signalbook.formats.compatibility import RULES
from signalbook.values import Finding, JSONObject
from signalbook.xid import ROOT, Kind, Xid

IMPACT: Final = "/-/impact"
_BODY: Final = 1 << 20
"""Of a form: percent-encoded text is up to three times as long."""
_FIELDS: Final = 10
_SHOWN: Final = 300
"""Dependents, pipelines, subscriptions; the JSON has all."""
_FILLED: Final = 60_000
_TEXT: Final = 300
_FINDINGS: Final = 5
_NAMED: Final = 10
_MARKUP: Final = 120_000
_WORDS: Final = {"breaks": "breaks", "holds": "holds", "unknown": "not known"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentLine:
    """A dependent, why it is one, and what becomes of it, if a change is tried."""

    xid: str
    relation: str
    on: str
    depth: int
    outcome: str
    why: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcernedLine:
    """A pipeline or a subscription with the entities that it has to do with; ``more`` are not named."""

    name: str
    href: str
    kind: str
    outcome: str
    xids: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedContent:
    """The outcome of a trial."""

    title: str
    safe: bool
    default: bool
    own: DependentLine
    problems: tuple[tuple[str, str, tuple[Finding, ...]], ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialForm:
    """The form, as it was filled in."""

    action: str
    text: str
    format: str
    rule: str
    rules: tuple[str, ...]
    version: bool
    token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactContent:
    """The whole page; ``form`` is None for what has no documents, ``tried`` before anything was tried."""

    xid: str
    json: str
    dependents: tuple[DependentLine, ...]
    pipelines: tuple[ConcernedLine, ...]
    subscriptions: tuple[ConcernedLine, ...]
    left_out: int
    complete: bool
    form: TrialForm | None
    tried: TriedContent | None


class ImpactPages:
    """``/ui/-/impact`` in front of the path of a Group, a Resource or a Version."""

    def __init__(self, kernel: Kernel, pages: Pages, tokens: FormTokens, api: ImpactAPI) -> None:
        self._kernel = kernel
        self._pages = pages
        self._api = api
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """The one path. POST changes nothing: a document is too long for a URL."""
        handlers = {"GET": self._show, "POST": self._try}
        page = FormPage(handlers, self._kernel, self._pages, needs=Action.READ)
        return [Route(f"{PATH}{IMPACT}/{{path:any}}", page)]

    async def _show(self, request: HTTPRequest) -> Response:
        xid, form = await self._kernel.workers.read(partial(self._found, request))
        found = await self._kernel.workers.read(partial(build_impact_document, self._api.context(request), xid))
        return await self._page(request, xid, form, found)

    async def _try(self, request: HTTPRequest) -> Response:
        entered = parse_form(await request.body(_BODY), request, most=_FIELDS)
        await self._tokens.require(entered.get("token", ""), request, _path(request))
        xid, form = await self._kernel.workers.read(partial(self._found, request))
        if form is None:
            raise request.wrong("only what has a document can be tried")
        text, name, rule = (entered.get(field, "") for field in ("document", "format", "compatibility"))
        # Browsers end lines with CR LF.
        text = text.replace("\r\n", "\n")
        if rule and rule not in RULES:
            raise request.wrong(f'"compatibility" is one of {", ".join(RULES)}')
        candidate = CandidateDocument(
            target=xid,
            content=written_text(text).encode("utf-8", "replace"),
            format=name.strip()[:_TEXT],
            compatibility=rule or None,
        )
        if not candidate.content:
            raise request.wrong("the document is empty: enter one to try")
        found = await self._api.tried(candidate, request)
        filled = _form(xid, shown_field(text), name[:_TEXT], rule)
        return await self._page(request, xid, filled, found)

    def _found(self, request: HTTPRequest) -> tuple[Xid, TrialForm | None]:
        """Return the entity of the page, with the form as it begins."""
        access: Access = request.access
        access.require(Action.READ, ROOT)
        with self._kernel.engine.reading(access) as view:
            xid = entity_at(view, _path(request))
            if view.model.documented_type(xid) is None:
                return xid, None
            stored = schema_of(view, xid)
        content = stored.content or b""
        try:
            text = (
                laid_out(content.decode("utf-8")) if content.lstrip()[:1] in (b"{", b"[") else content.decode("utf-8")
            )
        except UnicodeDecodeError:
            text = ""
        shown = shown_field(text)
        return xid, _form(xid, shown if len(shown) <= _FILLED else "", stored.format, "")

    async def _page(self, request: HTTPRequest, xid: Xid, form: TrialForm | None, found: JSONObject) -> Response:
        token = await self._tokens.token(request, _path(request))
        page = _shown(xid, _content(xid, form and replace(form, token=token.text), found))
        return self._pages.response(page, request.root, NO_STORE, *token.headers)


def dependents_page(view: View, xid: Xid) -> Page:
    """Return the page of dependents in the registry, without affected pipelines. Raises ``not_found``."""
    found = view.impact(xid)
    dependents = [each.to_json() for each in found.dependents]
    shown = {"dependents": dependents, "complete": found.complete, "pipelines": [], "subscriptions": []}
    return _shown(xid, _content(xid, None, shown))


def _shown(xid: Xid, content: ImpactContent) -> Page:
    title = f"What depends on {xid.id}"
    return Page(template="impact.html", title=title, content=content, crumbs=crumbs(xid, "impact"))


def _path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(f"{PATH}{IMPACT}")


def _form(xid: Xid, text: str, format: str, rule: str) -> TrialForm:
    return TrialForm(
        action=f"{IMPACT}{xid}",
        text=text,
        format=format,
        rule=rule,
        rules=RULES,
        version=xid.kind is Kind.VERSION,
    )


def _content(xid: Xid, form: TrialForm | None, found: JSONObject) -> ImpactContent:
    lines = _fitting([_dependent(each) for each in _worst_first(found["dependents"])[:_SHOWN]])
    return ImpactContent(
        xid=str(xid),
        json=f"/impact?xid={xid}",
        dependents=lines,
        pipelines=tuple(
            _concerned(
                pipeline["name"],
                f"{PIPELINES}/{pipeline['name']}",
                "",
                pipeline.get("outcome", ""),
                pipeline["messages"],
            )
            for pipeline in found["pipelines"][:_SHOWN]
        ),
        subscriptions=tuple(
            _concerned(subscription["id"], "", subscription["protocol"], "", subscription["xids"])
            for subscription in found["subscriptions"][:_SHOWN]
        ),
        left_out=len(found["dependents"]) - len(lines),
        complete=found["complete"],
        form=form,
        tried=_tried(found) if "check" in found else None,
    )


def _worst_first(dependents: Sequence[JSONObject]) -> list[JSONObject]:
    order = ("breaks", "unknown", "holds", "")
    return sorted(dependents, key=lambda each: order.index(each.get("outcome", "")))


def _fitting(lines: Sequence[DependentLine]) -> tuple[DependentLine, ...]:
    """Return as many lines as fit: names may be long."""
    room, fitting = _MARKUP, list[DependentLine]()
    for line in lines:
        said = sum(len(each.path) + len(each.message) + 100 for each in line.findings)
        room -= 300 + 2 * len(line.xid) + 2 * len(line.on) + len(line.why) + said
        if fitting and room < 0:
            break
        fitting.append(line)
    return tuple(fitting)


def _dependent(each: JSONObject) -> DependentLine:
    findings = (Finding.from_json(one) for one in each.get("findings", ())[:_FINDINGS])
    return DependentLine(
        xid=each["xid"],
        relation=each.get("relation", ""),
        on=each.get("on", ""),
        depth=each.get("depth", 0),
        outcome=_WORDS.get(each.get("outcome", ""), ""),
        why=each.get("why", "")[:_TEXT],
        findings=tuple(Finding(path=one.path[:_TEXT], rule=one.rule, message=one.message[:_TEXT]) for one in findings),
    )


def _concerned(name: str, href: str, kind: str, outcome: str, xids: Sequence[str]) -> ConcernedLine:
    return ConcernedLine(
        name=name,
        href=href,
        kind=kind,
        outcome=_WORDS.get(outcome, ""),
        xids=tuple(xids[:_NAMED]),
        more=max(0, len(xids) - _NAMED),
    )


def _tried(found: JSONObject) -> TriedContent:
    check = found["check"]
    problems = (
        (
            str(error.get("title", ""))[:_TEXT],
            str(error.get("detail", ""))[:_TEXT],
            tuple(map(Finding.from_json, error.get("faults", ())[:_FINDINGS])),
        )
        for error in check["errors"]
    )
    return TriedContent(
        title=_title(found),
        safe=found["safe"],
        default=found["default"],
        own=_dependent(found),
        problems=tuple(problems),
        findings=tuple(map(Finding.from_json, check["findings"][:_FINDINGS])),
    )


def _title(found: JSONObject) -> str:
    outcomes = {found["outcome"], *(each["outcome"] for each in found["dependents"])}
    if not found["check"]["accepted"]:
        return "It would be refused"
    return "Nothing breaks" if found["safe"] else "It breaks something" if "breaks" in outcomes else "It cannot be told"
