"""The pages with forms to edit or create entities: show a form, check what was entered, and save it.

A form becomes a command like in any other API, in the same queue of writes and with the same rights. If the entity was
changed in the meantime, the page shows the stored values next to the entered values.
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
from signalbook.api.ui.documents import MAX_HIGHLIGHTED_CHARS, ShownDocument, indent_single_line, render_document
from signalbook.api.ui.entities import build_title
from signalbook.api.ui.forms import (
    Entered,
    Field,
    Form,
    Posted,
    build_form,
    format_field,
    list_originals,
    merge_field,
    require_edit,
)
from signalbook.api.ui.formtokens import FORGED, FormToken, FormTokens
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, build_crumbs, restore_hidden
from signalbook.api.xregistry.requests import check_path, explain_missing_entity, parse_path
from signalbook.documents import guess_format
from signalbook.engine.engine import Batch
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.largejson import LARGE
from signalbook.values import Finding, JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Kind, Xid

EDIT: Final = f"{PATH}/-/edit"
MOST_BYTES: Final = 1 << 20
"""The size of a percent-encoded form."""
_STORED: Final = 4_000
_MAX_SHOWN_ENTRIES: Final = 50
_ABOUT: Final = {
    "format_violation": ("document", "attributes"),
    "compatibility_violation": ("document", "compatibility", "attributes"),
    "format_unknown": ("format", "attributes"),
    "malformed_id": ("versionid", "attributes"),
}
"""The fields that an error concerns, by the type of the error, for errors that name no field."""
_NEW: Final = frozenset({Kind.GROUPS, Kind.RESOURCES, Kind.VERSIONS})
"""Collections in which a form creates an entity."""
_EDITED: Final = frozenset({Kind.GROUP, Kind.META, Kind.VERSION, *_NEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reason why a form cannot be saved. ``field`` is the id of the field concerned, if any."""

    title: str
    detail: str
    field: str
    faults: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictContent:
    """The verdict of ``/check``, or why nothing was saved.

    ``document`` is the entered document with highlighting, if the form has one that is not too long.
    """

    title: str
    good: bool
    problems: tuple[Problem, ...]
    changes: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    document: ShownDocument | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditContent:
    """A form as it was filled in, and the result of checking or saving it.

    ``conflict`` is True if the entity was changed after the form was made. ``originals`` are hidden fields with the
    values that were stored when the form was made. ``impact`` is the page on which a document can be tried on
    everything that depends on the entity, if the form has a document. ``forged`` is the reason why a form without the
    right token was refused.
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
        """Return the routes for forms."""
        handlers = {"GET": self._show_form, "POST": self._post}
        return [Route(f"{EDIT}/{{path:any}}", FormPage(handlers, self._kernel, self._pages, needs=Action.READ))]

    async def _show_form(self, request: HTTPRequest) -> Response:
        return await self._page(request, None, None)

    async def _post(self, request: HTTPRequest) -> Response:
        entered = Entered.read(await request.body(MOST_BYTES), request)
        path = _read_path(request)
        if not await self._tokens.is_valid(entered.token, request, path):
            # The session may have ended while the user filled in the form. The text is kept, so that the user can save
            # it now.
            return await self._page(request, entered, None, forged=True)
        xid = await self._kernel.workers.read(partial(self._find_target, path, request.access))
        is_new_resource = xid.kind is Kind.RESOURCES
        posted = Posted(
            xid=xid,
            entered=entered,
            detected_format=await self._kernel.workers.read(entered.detect_format) if is_new_resource else "",
            root=request.root,
            access=request.access,
            max_depth=self._kernel.settings.max_depth,
        )
        work = partial(_try if entered.checks else self._save, posted=posted)
        alone = len(entered.values.get("document", "")) > LARGE
        try:
            result = await self._kernel.commit(work, alone=alone, about=(xid.resource,))
        except Forbidden as error:
            # A form does not show beforehand which ids the caller may create, so keep what was entered.
            if xid.kind not in _NEW:
                raise
            self._kernel.admission.record_refusal(error, request.scope)
            result = _build_forbidden(error)
        if isinstance(result, Verdict):
            return await self._page(request, entered, result)
        return Response(status=HTTPStatus.SEE_OTHER, headers=(("Location", f"{request.root}{PATH}{result}"), NO_STORE))

    def _save(self, batch: Batch, posted: Posted) -> Verdict | Xid:
        """Save, and return the written entity, or why nothing was saved."""
        try:
            with batch.writing(posted.access) as session:
                target = posted.execute(session).target
                if session.changes:
                    self._kernel.held(session)
        except RegistryError as error:
            return _build_refusal(error)
        return target

    async def _page(
        self, request: HTTPRequest, entered: Entered | None, verdict: Verdict | None, *, forged: bool = False
    ) -> Response:
        path = _read_path(request)
        token = await self._tokens.token(request, path)
        render = partial(self._build_page, path, request.access, token, entered, verdict)
        page = await self._kernel.workers.read(render)
        if forged:
            assert isinstance(page.content, EditContent)
            content = replace(page.content, forged=FORGED)
            page = replace(page, content=content, status=HTTPStatus.FORBIDDEN)
        return self._pages.build_response(page, request.root, NO_STORE, *token.headers)

    def _build_page(
        self, path: str, access: Access, token: FormToken, entered: Entered | None, verdict: Verdict | None
    ) -> Page:
        with self._kernel.engine.reading(access) as view:
            xid = _find_editable(view, path)
            form = build_form(view, xid)
            kind = view.model.resource_type(xid) or view.model.groups[xid.group_type]
        content = _build_edit_content(form, xid, kind.singular, token, entered, verdict)
        status = (
            HTTPStatus.OK if entered is None or entered.checks else _choose_status(verdict, conflict=content.conflict)
        )
        way = build_crumbs(xid, "edit" if xid.kind not in _NEW else f"new {_describe_new(xid, kind.singular)}")
        return Page(template="edit.html", title=content.title, content=content, crumbs=way, status=status)

    def _find_target(self, path: str, access: Access) -> Xid:
        with self._kernel.engine.reading(access) as view:
            return _find_editable(view, path)


def _read_path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(EDIT)


def _find_editable(view: View, path: str) -> Xid:
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


def _try(batch: Batch, posted: Posted) -> Verdict:
    """Return the verdict of ``/check`` without storing anything."""
    try:
        with batch.trying(None, posted.access) as session:
            result = posted.execute(session)
            changes = tuple(change.to_json() for change in session.changes)
            return Verdict(changes=changes, findings=(*result.findings, *session.doubts))
    except RegistryError as error:
        return _build_refusal(error)


def _build_refusal(error: RegistryError) -> Verdict:
    """Return the verdict on an error of the form. Raises errors that are not the form's."""
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    return Verdict.refused(error)


def _build_forbidden(error: Forbidden) -> Verdict:
    """Return the verdict on an id that the caller may not create."""
    entry = {"status": HTTPStatus.FORBIDDEN, "title": "Forbidden", "detail": str(error), "args": {"name": "id"}}
    return Verdict(errors=(entry,))


def _describe_new(xid: Xid, singular: str) -> str:
    """Return the name of what a form creates in a collection."""
    return "version" if xid.kind is Kind.VERSIONS else singular


def _choose_status(verdict: Verdict | None, *, conflict: bool) -> int:
    if conflict:
        return HTTPStatus.CONFLICT
    return int(verdict.errors[0]["status"]) if verdict is not None and verdict.errors else HTTPStatus.OK


def _build_edit_content(
    form: Form, xid: Xid, singular: str, token: FormToken, entered: Entered | None, verdict: Verdict | None
) -> EditContent:
    conflict = entered is not None and entered.made_from != form.made_from
    filled_fields = (
        () if entered is None else tuple(_fill_field(field, entered, conflict=conflict) for field in form.fields)
    )
    verdict_content = (
        None if verdict is None or entered is None or conflict else _build_verdict_content(verdict, form, entered)
    )
    wrong = {problem.field for problem in verdict_content.problems} if verdict_content is not None else set()
    new = xid.kind in _NEW
    place = f" of {xid.resource_id}" if xid.kind is Kind.VERSIONS else f" in {xid.group_id}" if xid.group_id else ""
    # A form keeps the state that it was made from. Only a user who has seen the stored values may overwrite them.
    resubmitted = None if entered is None or conflict else entered
    return EditContent(
        kind=f"{singular} {xid.kind}" if xid.resource_id and not new else singular,
        title=f"New {_describe_new(xid, singular)}{place}" if new else f"Edit {build_title(xid)}",
        xid=str(xid),
        action=f"/-/edit{xid}",
        token=token.text,
        made_from=form.made_from if resubmitted is None else resubmitted.made_from,
        originals=list_originals(form.fields) if resubmitted is None else _list_sent(resubmitted),
        fields=tuple(replace(field, wrong=field.id in wrong) for field in filled_fields or form.fields),
        conflict=conflict,
        verdict=verdict_content,
        impact=f"/-/impact{xid.resource}#try-a-change" if xid.resource_id and _has(form, "document") else "",
    )


def _has(form: Form, name: str) -> bool:
    return any(field.name == name for field in form.fields)


def _fill_field(field: Field, entered: Entered, *, conflict: bool) -> Field:
    """Return a field with the entered text and, if it differs, the currently stored text."""
    if not conflict:
        return replace(field, value=format_field(entered.text(field)))
    merged_field = merge_field(field, entered)
    field_conflict = merged_field.conflict
    if field_conflict is None:
        return merged_field
    was = None if field_conflict.was is None else field_conflict.was[:_STORED]
    return replace(merged_field, conflict=replace(field_conflict, was=was, stored=field_conflict.stored[:_STORED]))


def _list_sent(entered: Entered) -> tuple[tuple[str, str], ...]:
    """Return the hidden fields of a form that is shown again as it was sent."""
    return list_originals(Field(name=name, label="", value=format_field(text)) for name, text in entered.was.items())


def _build_verdict_content(verdict: Verdict, form: Form, entered: Entered) -> VerdictContent:
    good = "It can be saved"
    bad = "It cannot be saved" if entered.checks else "Nothing was saved"
    return VerdictContent(
        title=good if verdict.accepted else bad,
        good=verdict.accepted,
        problems=tuple(_build_problem_content(error, form) for error in verdict.errors),
        changes=tuple(
            (f"{change['action']} {change['xid']}", ", ".join(change.get("changed") or ())[:_STORED])
            for change in verdict.changes[:_MAX_SHOWN_ENTRIES]
        ),
        findings=verdict.findings[:_MAX_SHOWN_ENTRIES],
        document=_render_entered_document(entered) if _has(form, "document") else None,
    )


def _render_entered_document(entered: Entered) -> ShownDocument | None:
    """Return the entered document with highlighting, or None if it is empty or too long with its indentation."""
    text = indent_single_line(restore_hidden(entered.values.get("document", "")))
    if not text or len(format_field(text)) > MAX_HIGHLIGHTED_CHARS:
        return None
    content = text.encode("utf-8", "replace")
    format_name = entered.values.get("format", "").strip() or guess_format("", content)
    return render_document(content, contenttype=entered.values.get("contenttype", ""), format=format_name[:_STORED])


def _build_problem_content(error: JSONObject, form: Form) -> Problem:
    faults = tuple(Finding.from_json(fault) for fault in error.get("faults", ())[:_MAX_SHOWN_ENTRIES])
    names = (str(error.get("args", {}).get("name", "")), *(fault.path.strip("/").replace("/", ".") for fault in faults))
    names = _ABOUT.get(str(error.get("type", "")).partition("#")[2], names)
    ids = [field.id for name in names for field in form.fields if name and field.name in (name, name.partition(".")[0])]
    # Attributes without a field of their own are in the field for JSON, if the form has one.
    ids += [field.id for field in form.fields if field.name == "attributes" and any(names)]
    return Problem(
        title=str(error.get("title", ""))[:_STORED],
        detail=str(error.get("detail", ""))[:_STORED],
        field=ids[0] if ids else "",
        faults=faults,
    )
