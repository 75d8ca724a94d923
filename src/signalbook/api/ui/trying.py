"""Try a message: a pasted message is matched, decoded and validated as in the pipeline. Nothing is stored."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
from starlette.routing import Route

from signalbook.access.base import Action
from signalbook.access.decisions import Access
from signalbook.api.kernel.errors import NO_STORE
from signalbook.api.kernel.requests import HTTPRequest, parse_form, raw_path
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.ui.definitions import MOST, RegistryDefinitions, is_message
from signalbook.api.ui.formtokens import FormTokens
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, build_crumbs
from signalbook.api.ui.samples import BASE64, EVENT, build_sample
from signalbook.api.xregistry.requests import check_path, explain_dangling_xref, explain_missing_entity, parse_path
from signalbook.errors import RegistryError
from signalbook.excerpts import LONGEST, excerpt
from signalbook.formats import PayloadError
from signalbook.messages import Accepted, DefinitionError, Message, Outcome, Rejected
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.values import Finding, dump_json
from signalbook.work import Work
from signalbook.xid import ROOT, Xid

TRY: Final = f"{PATH}/-/try"
_MOST_BYTES: Final = 256 * 1024
_MAX_FORM_BYTES: Final = 4 * _MOST_BYTES
"""The maximum size of a form. Percent-encoded text is up to three times as long as the text."""
_MOST_OUTCOMES: Final = 20
_MOST_FINDINGS: Final = 50
_MAX_DATA_CHARS: Final = 8_000
_FIELDS: Final = 10
_MESSAGE_KINDS: Final = {"event": "a CloudEvent in JSON", "payload": "the payload alone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedViolation:
    """A violation, with the relevant piece of a long message."""

    path: str
    rule: str
    message: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeContent:
    """The outcome for one message: ``verdict`` is a word or two, ``reason`` and ``violations`` explain it.

    ``definition`` is the page of the definition that the message conforms to; otherwise it is empty.
    """

    verdict: str
    good: bool
    definition: str
    reason: str
    violations: tuple[TriedViolation, ...]
    candidates: tuple[str, ...]
    context: tuple[tuple[str, str], ...]
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TryContent:
    """The form as it was filled in, and its outcomes; ``outcomes`` is None before anything was tried."""

    xid: str
    name: str
    action: str
    token: str
    text: str
    kind: str
    kinds: tuple[tuple[str, str], ...]
    base64: bool
    contenttype: str
    most: int
    outcomes: tuple[OutcomeContent, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A message to try."""

    text: str
    kind: str = "event"
    base64: bool = False
    contenttype: str = ""
    token: str = ""

    @classmethod
    def read(cls, body: bytes, request: HTTPRequest) -> Attempt:
        """Read the form in a body. Raises ``bad_request``."""
        fields = parse_form(body, request, most=_FIELDS)
        attempt = cls(
            # Browsers end all lines with CR LF.
            text=fields.get("message", "").replace("\r\n", "\n"),
            kind=fields.get("kind", "event"),
            base64="base64" in fields,
            contenttype=fields.get("contenttype", "")[:200],
            token=fields.get("token", ""),
        )
        if attempt.kind not in _MESSAGE_KINDS:
            raise request.wrong(f'"kind" is one of {", ".join(_MESSAGE_KINDS)}')
        if len(attempt.text) > _MOST_BYTES:
            raise request.wrong(f"a message to try has at most {_MOST_BYTES} characters")
        return attempt

    def build_message(self) -> Message:
        """Return the message. Raises ``ValueError`` for invalid Base64."""
        body = self.text.encode("utf-8", "replace")
        if self.base64:
            try:
                body = b64decode(b"".join(body.split()), validate=True)
            except binascii.Error as error:
                raise ValueError(f"it is not Base64: {error}") from None
        if self.kind == "event":
            return Message(protocol="HTTP", content_type=JSON_FORMAT, body=body)
        return Message(content_type=self.contenttype, body=body)


class Trying:
    """``/ui/-/try`` in front of the path of a message definition: the form, and the outcome."""

    def __init__(self, kernel: Kernel, pages: Pages, tokens: FormTokens) -> None:
        self._kernel = kernel
        self._pages = pages
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Return the routes. The form uses POST although nothing changes, because a message is too long for a URL."""
        handlers = {"GET": self._show_form, "POST": self._try}
        return [Route(f"{TRY}/{{path:any}}", FormPage(handlers, self._kernel, self._pages, needs=Action.READ))]

    async def _show_form(self, request: HTTPRequest) -> Response:
        return await self._page(request, None)

    async def _try(self, request: HTTPRequest) -> Response:
        attempt = Attempt.read(await request.body(_MAX_FORM_BYTES), request)
        await self._tokens.require(attempt.token, request, _read_path(request))
        return await self._page(request, attempt)

    async def _page(self, request: HTTPRequest, attempt: Attempt | None) -> Response:
        path = _read_path(request)
        token = await self._tokens.token(request, path)
        render = partial(self._build_page, path, request.root, request.access, token.text, attempt)
        page = await self._kernel.workers.read(render)
        return self._pages.build_response(page, request.root, NO_STORE, *token.headers)

    def _build_page(self, path: str, root: str, access: Access, token: str, attempt: Attempt | None) -> Page:
        parsed = parse_path(path)
        access.require(Action.READ, ROOT)
        with self._kernel.engine.reading(access) as view:
            check_path(parsed, view.model)
            xid = parsed.target
            definitions = RegistryDefinitions(view=view, root=root)
            if not is_message(view, xid) or definitions.load_raw(xid) is None:
                dangling = explain_dangling_xref(view, xid) if is_message(view, xid) else ""
                detail = explain_missing_entity(xid, view) or dangling or "only messages can be tried"
                raise RegistryError("not_found", subject=str(xid), detail=detail)
            settings = self._kernel.settings
            with Work(steps=settings.max_work, seconds=settings.work_timeout).on_the_spot():
                content = _build_try_content(definitions, xid, token, attempt)
        return Page(
            template="try.html", title=f"Try {xid.resource_id}", content=content, crumbs=build_crumbs(xid, "try")
        )


def _read_path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(TRY)


def _build_try_content(definitions: RegistryDefinitions, xid: Xid, token: str, attempt: Attempt | None) -> TryContent:
    form_attempt = attempt or _sample(definitions, xid)
    return TryContent(
        xid=str(xid),
        name=xid.resource_id,
        action=f"/-/try{xid}",
        token=token,
        text=form_attempt.text,
        kind=form_attempt.kind,
        kinds=tuple(_MESSAGE_KINDS.items()),
        base64=form_attempt.base64,
        contenttype=form_attempt.contenttype,
        most=MOST,
        outcomes=None if attempt is None else _list_outcomes(definitions, xid, attempt),
    )


def _sample(definitions: RegistryDefinitions, xid: Xid) -> Attempt:
    """Return the content of a new form: the sample, if there is one."""
    materialised = definitions.materialised(xid)
    try:
        compiled = None if materialised is None else definitions.compile(xid, materialised)
    except DefinitionError:
        compiled = None
    forms = () if compiled is None else build_sample(compiled).forms
    if not forms:
        return Attempt(text="")
    encoded = forms[0].text.startswith(BASE64)
    kind = "event" if forms[0].id == EVENT else "payload"
    return Attempt(text=forms[0].text.removeprefix(BASE64), kind=kind, base64=encoded)


def _list_outcomes(definitions: RegistryDefinitions, xid: Xid, attempt: Attempt) -> tuple[OutcomeContent, ...]:
    try:
        message = attempt.build_message()
    except ValueError as error:
        fault = Finding(path="", rule="base64", message=str(error))
        return (_build_rejected("not read", "decode_error", (fault,)),)
    if attempt.kind == "payload":
        return (_check_payload(definitions, xid, message),)
    contract = definitions.build_contract(xid)
    return tuple(map(_render_outcome, contract.process(message)[:_MOST_OUTCOMES]))


def _check_payload(definitions: RegistryDefinitions, xid: Xid, message: Message) -> OutcomeContent:
    """Check a payload against the schema of the definition, without matching the message."""
    materialised = definitions.materialised(xid)
    assert materialised is not None, "the page is of a definition that is there"
    try:
        compiled = definitions.compile(xid, materialised)
    except DefinitionError as error:
        return _build_rejected("not decided", "contract_unavailable", error.findings)
    use = compiled.schema_use
    if use.schema is None:
        none = Finding(path="", rule="schema", message="the definition names no schema: any payload conforms")
        return _build_rejected("not decided", "schema_not_found", use.findings or (none,))
    try:
        data = use.schema.decode(message.body or b"", message.content_type or compiled.payload_type)
    except PayloadError as error:
        return _build_rejected("rejected", error.reason, error.findings, body=message.body or b"")
    return _build_accepted(str(xid), (), _render_data(data))


def _render_outcome(outcome: Outcome) -> OutcomeContent:
    if isinstance(outcome, Accepted):
        context = tuple((name, value) for name, value in outcome.context.items())
        data = "" if outcome.data is msgspec.UNSET else _render_data(outcome.data)
        return _build_accepted(outcome.definition.xid, context, data, outcome.warnings)
    if isinstance(outcome, Rejected):
        return _build_rejected(
            "rejected", outcome.reason, outcome.violations, outcome.candidates, outcome.message.body or b""
        )
    return _build_rejected("matches nothing", "no_match", ())


def _build_accepted(
    xid: str, context: tuple[tuple[str, str], ...], data: str, warnings: tuple[Finding, ...] = ()
) -> OutcomeContent:
    return OutcomeContent(
        verdict="conforms",
        good=True,
        definition=xid,
        reason="",
        violations=_render_violations(warnings, b""),
        candidates=(),
        context=context,
        data=data,
    )


def _build_rejected(
    verdict: str, reason: str, violations: tuple[Finding, ...], candidates: tuple[str, ...] = (), body: bytes = b""
) -> OutcomeContent:
    return OutcomeContent(
        verdict=verdict,
        good=False,
        definition="",
        reason=str(reason),
        violations=_render_violations(violations, body),
        candidates=candidates[:_MOST_OUTCOMES],
        context=(),
        data="",
    )


def _render_violations(findings: Sequence[Finding], body: bytes) -> tuple[TriedViolation, ...]:
    pieces = len(body) > LONGEST
    return tuple(
        TriedViolation(
            path=finding.path,
            rule=finding.rule,
            message=finding.message,
            excerpt=excerpt(body, finding.path) if pieces and finding.path else "",
        )
        for finding in findings[:_MOST_FINDINGS]
    )


def _render_data(value: object) -> str:
    """Return a decoded payload as JSON; values that JSON has no form for as text."""
    text = msgspec.json.format(dump_json(_convert_plain(value)), indent=2).decode()
    return text if len(text) <= _MAX_DATA_CHARS else f"{text[:_MAX_DATA_CHARS]}…"


def _convert_plain(value: object) -> object:
    match value:
        case dict():
            return {str(name): _convert_plain(member) for name, member in value.items()}
        case list() | tuple():
            return [_convert_plain(member) for member in value]
        case None | bool() | int() | float() | str():
            return value
    return value.hex() if isinstance(value, bytes) else str(value)
