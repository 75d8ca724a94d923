"""The dependents of an entity and everybody a change affects; for a schema also a form to try a change."""

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
from signalbook.api.ui.documents import format_json
from signalbook.api.ui.entities import build_title
from signalbook.api.ui.forms import format_field
from signalbook.api.ui.formtokens import FormTokens
from signalbook.api.ui.names import find_names
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, build_crumbs, restore_hidden
from signalbook.api.ui.pipelinestatus import PIPELINES
from signalbook.api.ui.relations import find_entity
from signalbook.engine.read.schemas import load_schema
from signalbook.engine.read.trial import CandidateDocument
from signalbook.engine.read.view import View
from signalbook.formats.compatibility import RULES
from signalbook.values import Finding, JSONObject
from signalbook.xid import ROOT, Kind, Xid

IMPACT: Final = "/-/impact"
_MAX_FORM_BYTES: Final = 1 << 20
"""The size of a form. Percent-encoded text is up to three times as long."""
_FIELDS: Final = 10
_MAX_LINES: Final = 300
"""The maximum number of dependents, of pipelines and of subscriptions on the page. The JSON lists more."""
_FILLED: Final = 60_000
_MAX_CELL_CHARS: Final = 300
_FINDINGS: Final = 5
_MAX_NAMED_XIDS: Final = 10
_MAX_MARKUP_CHARS: Final = 120_000
_OUTCOME_WORDS: Final = {"breaks": "breaks", "holds": "holds", "unknown": "not known"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentLine:
    """A dependent, the reason for the dependency, and the outcome for it if a change is tried."""

    xid: str
    relation: str
    on: str
    depth: int
    outcome: str
    why: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcernedLine:
    """An affected pipeline or subscription with the affected entities that it uses or selects; ``more`` is the number
    of entities not listed."""

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
    """The content of the page. ``form`` is None for entities without documents, ``tried`` is None before anything was
    tried. ``cut`` names the lists that may be incomplete because of a limit."""

    xid: str
    name: str
    json: str
    dependents: tuple[DependentLine, ...]
    pipelines: tuple[ConcernedLine, ...]
    subscriptions: tuple[ConcernedLine, ...]
    left_out: int
    complete: bool
    cut: str
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
        """Return the routes. The form uses POST although nothing changes, because a document is too long for a URL."""
        handlers = {"GET": self._show, "POST": self._try}
        page = FormPage(handlers, self._kernel, self._pages, needs=Action.READ)
        return [Route(f"{PATH}{IMPACT}/{{path:any}}", page)]

    async def _show(self, request: HTTPRequest) -> Response:
        xid, name, form = await self._kernel.workers.read(partial(self._load_form, request))
        impact = await self._kernel.workers.read(partial(build_impact_document, self._api.context(request), xid))
        return await self._page(request, xid, name, form, impact)

    async def _try(self, request: HTTPRequest) -> Response:
        entered = parse_form(await request.body(_MAX_FORM_BYTES), request, most=_FIELDS)
        await self._tokens.require(entered.get("token", ""), request, _read_path(request))
        xid, name, form = await self._kernel.workers.read(partial(self._load_form, request))
        if form is None:
            raise request.wrong("only what has a document can be tried")
        text, format_name, rule = (entered.get(field, "") for field in ("document", "format", "compatibility"))
        # Browsers end lines with CR LF.
        text = text.replace("\r\n", "\n")
        if rule and rule not in RULES:
            raise request.wrong(f'"compatibility" is one of {", ".join(RULES)}')
        candidate = CandidateDocument(
            target=xid,
            content=restore_hidden(text).encode("utf-8", "replace"),
            format=format_name.strip()[:_MAX_CELL_CHARS],
            compatibility=rule or None,
        )
        if not candidate.content:
            raise request.wrong("the document is empty: enter one to try")
        trial = await self._api.tried(candidate, request)
        filled = _build_form(xid, format_field(text), format_name[:_MAX_CELL_CHARS], rule)
        return await self._page(request, xid, name, filled, trial)

    def _load_form(self, request: HTTPRequest) -> tuple[Xid, str, TrialForm | None]:
        """Return the entity of the page, its name, and the initial values of the form."""
        access: Access = request.access
        access.require(Action.READ, ROOT)
        with self._kernel.engine.reading(access) as view:
            xid = find_entity(view, _read_path(request))
            name = find_names(view, {xid}).get(xid, "")
            if view.model.documented_type(xid) is None:
                return xid, name, None
            stored = load_schema(view, xid)
        content = stored.content or b""
        try:
            text = (
                format_json(content.decode("utf-8"))
                if content.lstrip()[:1] in (b"{", b"[")
                else content.decode("utf-8")
            )
        except UnicodeDecodeError:
            text = ""
        field_text = format_field(text)
        return xid, name, _build_form(xid, field_text if len(field_text) <= _FILLED else "", stored.format, "")

    async def _page(
        self, request: HTTPRequest, xid: Xid, name: str, form: TrialForm | None, impact: JSONObject
    ) -> Response:
        token = await self._tokens.token(request, _read_path(request))
        page = _build_page(xid, _build_impact_content(xid, name, form and replace(form, token=token.text), impact))
        return self._pages.build_response(page, request.root, NO_STORE, *token.headers)


def build_dependents_page(view: View, xid: Xid) -> Page:
    """Return the page of dependents in the registry, without affected pipelines. Raises ``not_found``."""
    impact = view.find_impact(xid)
    dependents = [dependent.to_json() for dependent in impact.dependents]
    document = {"dependents": dependents, "complete": impact.complete, "pipelines": [], "subscriptions": [], "cut": []}
    name = find_names(view, {xid}).get(xid, "")
    return _build_page(xid, _build_impact_content(xid, name, None, document))


def _build_page(xid: Xid, content: ImpactContent) -> Page:
    title = f"What depends on {content.name}"
    return Page(template="impact.html", title=title, content=content, crumbs=build_crumbs(xid, "impact"))


def _read_path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(f"{PATH}{IMPACT}")


def _build_form(xid: Xid, text: str, format: str, rule: str) -> TrialForm:
    return TrialForm(
        action=f"{IMPACT}{xid}",
        text=text,
        format=format,
        rule=rule,
        rules=RULES,
        version=xid.kind is Kind.VERSION,
    )


def _build_impact_content(xid: Xid, name: str, form: TrialForm | None, impact: JSONObject) -> ImpactContent:
    lines = _take_fitting(
        [_render_dependent(dependent) for dependent in _sort_worst_first(impact["dependents"])[:_MAX_LINES]]
    )
    return ImpactContent(
        xid=str(xid),
        name=build_title(xid, name),
        json=f"/impact?xid={xid}",
        dependents=lines,
        pipelines=tuple(
            _render_concerned(
                pipeline["name"],
                f"{PIPELINES}/{pipeline['name']}",
                "",
                pipeline.get("outcome", ""),
                pipeline["messages"],
            )
            for pipeline in impact["pipelines"][:_MAX_LINES]
        ),
        subscriptions=tuple(
            _render_concerned(subscription["id"], "", subscription["protocol"], "", subscription["xids"])
            for subscription in impact["subscriptions"][:_MAX_LINES]
        ),
        left_out=len(impact["dependents"]) - len(lines),
        complete=impact["complete"],
        cut=" and ".join(impact["cut"]),
        form=form,
        tried=_render_trial(impact) if "check" in impact else None,
    )


def _sort_worst_first(dependents: Sequence[JSONObject]) -> list[JSONObject]:
    order = ("breaks", "unknown", "holds", "")
    return sorted(dependents, key=lambda dependent: order.index(dependent.get("outcome", "")))


def _take_fitting(lines: Sequence[DependentLine]) -> tuple[DependentLine, ...]:
    """Return as many lines as fit: names may be long."""
    room, fitting = _MAX_MARKUP_CHARS, list[DependentLine]()
    for line in lines:
        finding_chars = sum(len(finding.path) + len(finding.message) + 100 for finding in line.findings)
        room -= 300 + 2 * len(line.xid) + 2 * len(line.on) + len(line.why) + finding_chars
        if fitting and room < 0:
            break
        fitting.append(line)
    return tuple(fitting)


def _render_dependent(dependent: JSONObject) -> DependentLine:
    findings = (Finding.from_json(finding) for finding in dependent.get("findings", ())[:_FINDINGS])
    return DependentLine(
        xid=dependent["xid"],
        relation=dependent.get("relation", ""),
        on=dependent.get("on", ""),
        depth=dependent.get("depth", 0),
        outcome=_OUTCOME_WORDS.get(dependent.get("outcome", ""), ""),
        why=dependent.get("why", "")[:_MAX_CELL_CHARS],
        findings=tuple(
            Finding(path=finding.path[:_MAX_CELL_CHARS], rule=finding.rule, message=finding.message[:_MAX_CELL_CHARS])
            for finding in findings
        ),
    )


def _render_concerned(name: str, href: str, kind: str, outcome: str, xids: Sequence[str]) -> ConcernedLine:
    return ConcernedLine(
        name=name,
        href=href,
        kind=kind,
        outcome=_OUTCOME_WORDS.get(outcome, ""),
        xids=tuple(xids[:_MAX_NAMED_XIDS]),
        more=max(0, len(xids) - _MAX_NAMED_XIDS),
    )


def _render_trial(trial: JSONObject) -> TriedContent:
    check = trial["check"]
    problems = (
        (
            str(error.get("title", ""))[:_MAX_CELL_CHARS],
            str(error.get("detail", ""))[:_MAX_CELL_CHARS],
            tuple(map(Finding.from_json, error.get("faults", ())[:_FINDINGS])),
        )
        for error in check["errors"]
    )
    return TriedContent(
        title=_choose_title(trial),
        safe=trial["safe"],
        default=trial["default"],
        own=_render_dependent(trial),
        problems=tuple(problems),
        findings=tuple(map(Finding.from_json, check["findings"][:_FINDINGS])),
    )


def _choose_title(trial: JSONObject) -> str:
    outcomes = {trial["outcome"], *(dependent["outcome"] for dependent in trial["dependents"])}
    if not trial["check"]["accepted"]:
        return "It would be refused"
    return "Nothing breaks" if trial["safe"] else "It breaks something" if "breaks" in outcomes else "It cannot be told"
