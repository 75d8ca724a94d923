"""Editing: pages with the forms of an entity and of a new Version, what a check of them answers, and saving them.

What is written is a command like that of any API, in the same queue of writes, with the same rights. Where the entity
changed meanwhile, the page shows what is stored now beside what was entered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.routing import Route

from signalbook.access.base import Action, Forbidden
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest, raw_path
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.ui.entities import title_of
from signalbook.api.ui.forms import Entered, Field, Form, Posted, form_of, merged, originals, require_edit, shown_field
from signalbook.api.ui.formtokens import FORGED, FormToken, FormTokens
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, crumbs
from signalbook.api.xregistry.requests import check_path, explain_missing_entity, parse_path
from signalbook.engine.engine import Batch
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.largejson import LARGE
from signalbook.values import Finding, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Kind, Xid

EDIT: Final = f"{PATH}/-/edit"
MOST_BYTES: Final = 1 << 20
"""Of a form, percent-encoded."""
_STORED: Final = 4_000
_MOST: Final = 50
_ABOUT: Final = {
    "format_violation": ("document", "attributes"),
    "compatibility_violation": ("document", "attributes"),
    "format_unknown": ("format", "attributes"),
    "malformed_id": ("versionid", "attributes"),
}
"""Fields that errors are about which name none."""
_NEW: Final = frozenset({Kind.GROUPS, Kind.RESOURCES, Kind.VERSIONS})
"""Collections in which a form makes something new."""
_EDITED: Final = frozenset({Kind.GROUP, Kind.META, Kind.VERSION, *_NEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reason why something cannot be saved. ``field`` is the id of the field concerned, if any."""

    title: str
    detail: str
    field: str
    faults: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictContent:
    """The verdict of ``/check``, or why nothing was saved."""

    title: str
    good: bool
    problems: tuple[Problem, ...]
    changes: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditContent:
    """A form as it was filled in, and what came of it; ``conflict`` says that the entity changed meanwhile.

    ``originals`` are hidden fields, with what was stored when the form was made.

    ``impact`` is the page where a document can be tried on what depends on the entity, if this form has a document.
    ``forged`` is why it was not taken, where it came without the right token.
    """

    kind: str
    title: str
    xid: str
    action: str
    token: str
    made_from: str
    fields: tuple[Field, ...]
    originals: tuple[tuple[str, str], ...]
    conflict: bool
    verdict: VerdictContent | None
    impact: str
    forged: str = ""


class Editing:
    """``/ui/-/edit`` in front of the path of a Group, a meta or a Version, or of a collection for something new."""

    def __init__(self, kernel: Kernel, pages: Pages, tokens: FormTokens) -> None:
        self._kernel = kernel
        self._pages = pages
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """The one path."""
        handlers = {"GET": self._form, "POST": self._post}
        return [Route(f"{EDIT}/{{path:any}}", FormPage(handlers, self._kernel, self._pages, needs=Action.READ))]

    async def _form(self, request: HTTPRequest) -> Response:
        return await self._page(request, None, None)

    async def _post(self, request: HTTPRequest) -> Response:
        entered = Entered.read(await request.body(MOST_BYTES), request)
        path = _path(request)
        if not await self._tokens.knows(entered.token, request, path):
            # What somebody wrote while his session ended is still there, and saved if he wants that now.
            return await self._page(request, entered, None, forged=True)
        xid = await self._kernel.workers.read(partial(self._found, path, request.access))
        depth = self._kernel.settings.max_depth
        posted = Posted(xid=xid, entered=entered, root=request.root, access=request.access, max_depth=depth)
        work = partial(_tried if entered.checks else self._saved, posted=posted)
        alone = len(entered.values.get("document", "")) > LARGE
        try:
            done = await self._kernel.commit(work, alone=alone, about=(xid.resource,))
        except Forbidden as error:
            # Which ids somebody may give, the form cannot say beforehand: what was entered is kept.
            if xid.kind not in _NEW:
                raise
            self._kernel.admission.record_refusal(error, request.scope)
            done = _forbidden(error)
        if isinstance(done, Verdict):
            return await self._page(request, entered, done)
        return Response(status=HTTPStatus.SEE_OTHER, headers=(("Location", f"{request.root}{PATH}{done}"), NO_STORE))

    def _saved(self, batch: Batch, posted: Posted) -> Verdict | Xid:
        """Save, and return the written entity, or why nothing was saved."""
        try:
            with batch.writing(posted.access) as session:
                target = posted.execute(session).target
                if session.changes:
                    self._kernel.held(session)
        except RegistryError as error:
            return _refused(error)
        return target

    async def _page(
        self, request: HTTPRequest, entered: Entered | None, verdict: Verdict | None, *, forged: bool = False
    ) -> Response:
        path = _path(request)
        token = await self._tokens.token(request, path)
        made = partial(self._made, path, request.access, token, entered, verdict)
        page = await self._kernel.workers.read(made)
        if forged:
            assert isinstance(page.content, EditContent)
            content = replace(page.content, forged=FORGED)
            page = replace(page, content=content, status=HTTPStatus.FORBIDDEN)
        return self._pages.response(page, request.root, NO_STORE, *token.headers)

    def _made(
        self, path: str, access: Access, token: FormToken, entered: Entered | None, verdict: Verdict | None
    ) -> Page:
        with self._kernel.engine.reading(access) as view:
            xid = _target(view, path)
            form = form_of(view, xid)
            kind = view.model.resource_type(xid) or view.model.groups[xid.group_type]
        content = _content(form, xid, kind.singular, token, entered, verdict)
        status = HTTPStatus.OK if entered is None or entered.checks else _status(verdict, conflict=content.conflict)
        way = crumbs(xid, "edit" if xid.kind not in _NEW else f"new {_what(xid, kind.singular)}")
        return Page(template="edit.html", title=content.title, content=content, crumbs=way, status=status)

    def _found(self, path: str, access: Access) -> Xid:
        with self._kernel.engine.reading(access) as view:
            return _target(view, path)


def _path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(EDIT)


def _target(view: View, path: str) -> Xid:
    """Return the entity to edit. Raises ``not_found``, ``malformed_id`` and ``Forbidden``."""
    parsed = parse_path(path)
    view.access.require(Action.READ, ROOT)
    check_path(parsed, view.model)
    xid = parsed.target
    if parsed.name or parsed.short is not None or xid.kind not in _EDITED:
        view.access.require(Action.UPDATE, xid.resource)
        raise RegistryError(
            "not_found", subject=parsed.text, detail="groups, meta, versions and collections have forms"
        )
    require_edit(view.access, xid)
    if detail := explain_missing_entity(xid, view):
        raise RegistryError("not_found", subject=parsed.text, detail=detail)
    return xid


def _tried(batch: Batch, posted: Posted) -> Verdict:
    """Return the verdict of ``/check`` without storing anything."""
    try:
        with batch.trying(None, posted.access) as session:
            result = posted.execute(session)
            changes = tuple(change.to_json() for change in session.changes)
            return Verdict(changes=changes, findings=(*result.findings, *session.doubts))
    except RegistryError as error:
        return _refused(error)


def _refused(error: RegistryError) -> Verdict:
    """The verdict on what is wrong. Raises what is no fault of the form."""
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    return Verdict.refused(error)


def _forbidden(error: Forbidden) -> Verdict:
    """The verdict on an id that somebody may not give."""
    said = {"status": HTTPStatus.FORBIDDEN, "title": "Forbidden", "detail": str(error), "args": {"name": "id"}}
    return Verdict(errors=(said,))


def _what(xid: Xid, singular: str) -> str:
    """Return the name of what a form creates in a collection."""
    return "version" if xid.kind is Kind.VERSIONS else singular


def _status(verdict: Verdict | None, *, conflict: bool) -> int:
    if conflict:
        return HTTPStatus.CONFLICT
    return int(verdict.errors[0]["status"]) if verdict is not None and verdict.errors else HTTPStatus.OK


def _content(
    form: Form, xid: Xid, singular: str, token: FormToken, entered: Entered | None, verdict: Verdict | None
) -> EditContent:
    conflict = entered is not None and entered.made_from != form.made_from
    shown = () if entered is None else tuple(_filled(each, entered, conflict=conflict) for each in form.fields)
    said = (
        None if verdict is None or entered is None or conflict else _verdict(verdict, form, saving=not entered.checks)
    )
    wrong = {problem.field for problem in said.problems} if said is not None else set()
    new = xid.kind in _NEW
    place = f" of {xid.resource_id}" if xid.kind is Kind.VERSIONS else f" in {xid.group_id}" if xid.group_id else ""
    # What a form was made from goes along with it; only who has seen what is stored now may write over it.
    kept = None if entered is None or conflict else entered
    return EditContent(
        kind=f"{singular} {xid.kind}" if xid.resource_id and not new else singular,
        title=f"New {_what(xid, singular)}{place}" if new else f"Edit {title_of(xid)}",
        xid=str(xid),
        action=f"/-/edit{xid}",
        token=token.text,
        made_from=form.made_from if kept is None else kept.made_from,
        originals=originals(form.fields) if kept is None else _sent(kept),
        fields=tuple(replace(each, wrong=each.id in wrong) for each in shown or form.fields),
        conflict=conflict,
        verdict=said,
        impact=f"/-/impact{xid.resource}#try-a-change" if xid.resource_id and _has(form, "document") else "",
    )


def _has(form: Form, name: str) -> bool:
    return any(each.name == name for each in form.fields)


def _filled(field: Field, entered: Entered, *, conflict: bool) -> Field:
    """A field with what was entered, and beside it what is stored now where that is something else."""
    if not conflict:
        return replace(field, value=shown_field(entered.text(field)))
    found = merged(field, entered)
    said = found.conflict
    if said is None:
        return found
    was = None if said.was is None else said.was[:_STORED]
    return replace(found, conflict=replace(said, was=was, stored=said.stored[:_STORED]))


def _sent(entered: Entered) -> tuple[tuple[str, str], ...]:
    """The hidden fields of a form that comes back as it was sent."""
    return originals(Field(name=name, label="", value=shown_field(text)) for name, text in entered.was.items())


def _verdict(verdict: Verdict, form: Form, *, saving: bool) -> VerdictContent:
    good = "It can be saved"
    bad = "Nothing was saved" if saving else "It cannot be saved"
    return VerdictContent(
        title=good if verdict.accepted else bad,
        good=verdict.accepted,
        problems=tuple(_problem(error, form) for error in verdict.errors),
        changes=tuple(
            (f"{each['action']} {each['xid']}", ", ".join(each.get("changed") or ())[:_STORED])
            for each in verdict.changes[:_MOST]
        ),
        findings=verdict.findings[:_MOST],
    )


def _problem(error: JSONObject, form: Form) -> Problem:
    faults = tuple(Finding.from_json(fault) for fault in error.get("faults", ())[:_MOST])
    named = (str(error.get("args", {}).get("name", "")), *(fault.path.strip("/").replace("/", ".") for fault in faults))
    named = _ABOUT.get(str(error.get("type", "")).partition("#")[2], named)
    ids = [each.id for name in named for each in form.fields if name and each.name in (name, name.partition(".")[0])]
    # What has no field of its own is among the attributes in JSON, where a form has these.
    ids += [each.id for each in form.fields if each.name == "attributes" and any(named)]
    return Problem(
        title=str(error.get("title", ""))[:_STORED],
        detail=str(error.get("detail", ""))[:_STORED],
        field=ids[0] if ids else "",
        faults=faults,
    )
