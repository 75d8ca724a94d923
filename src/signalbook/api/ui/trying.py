"""Trying a message: what somebody pastes is matched, decoded and validated as the pipeline does; nothing is kept."""

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
from signalbook.api.ui.pages import PATH, FormPage, Page, Pages, crumbs
from signalbook.api.ui.samples import BASE64, EVENT, sampled
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
_BODY: Final = 4 * _MOST_BYTES
"""Of a form: percent-encoded text is up to three times as long."""
_MOST_OUTCOMES: Final = 20
_MOST_FINDINGS: Final = 50
_SHOWN: Final = 8_000
_FIELDS: Final = 10
_KINDS: Final = {"event": "a CloudEvent in JSON", "payload": "the payload alone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedViolation:
    """A violation, with the relevant piece of a long message."""

    path: str
    rule: str
    message: str
    excerpt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeContent:
    """The outcome for one message: ``verdict`` in a word, and why. ``definition`` is the page of its definition."""

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
    """The form as it was filled in, and what came of it; ``outcomes`` is None before anything was tried."""

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
        """The form in a body. Raises ``bad_request``."""
        given = parse_form(body, request, most=_FIELDS)
        attempt = cls(
            # Browsers end lines with CR LF, whatever was pasted.
            text=given.get("message", "").replace("\r\n", "\n"),
            kind=given.get("kind", "event"),
            base64="base64" in given,
            contenttype=given.get("contenttype", "")[:200],
            token=given.get("token", ""),
        )
        if attempt.kind not in _KINDS:
            raise request.wrong(f'"kind" is one of {", ".join(_KINDS)}')
        if len(attempt.text) > _MOST_BYTES:
            raise request.wrong(f"a message to try has at most {_MOST_BYTES} characters")
        return attempt

    def message(self) -> Message:
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
    """``/ui/-/try`` in front of the path of a message definition: the form, and what comes of it."""

    def __init__(self, kernel: Kernel, pages: Pages, tokens: FormTokens) -> None:
        self._kernel = kernel
        self._pages = pages
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """The one path. POST changes nothing: a message is too long for a URL."""
        handlers = {"GET": self._form, "POST": self._try}
        return [Route(f"{TRY}/{{path:any}}", FormPage(handlers, self._kernel, self._pages, needs=Action.READ))]

    async def _form(self, request: HTTPRequest) -> Response:
        return await self._page(request, None)

    async def _try(self, request: HTTPRequest) -> Response:
        attempt = Attempt.read(await request.body(_BODY), request)
        await self._tokens.require(attempt.token, request, _path(request))
        return await self._page(request, attempt)

    async def _page(self, request: HTTPRequest, attempt: Attempt | None) -> Response:
        path = _path(request)
        token = await self._tokens.token(request, path)
        made = partial(self._made, path, request.root, request.access, token.text, attempt)
        page = await self._kernel.workers.read(made)
        return self._pages.response(page, request.root, NO_STORE, *token.headers)

    def _made(self, path: str, root: str, access: Access, token: str, attempt: Attempt | None) -> Page:
        parsed = parse_path(path)
        access.require(Action.READ, ROOT)
        with self._kernel.engine.reading(access) as view:
            check_path(parsed, view.model)
            xid = parsed.target
            definitions = RegistryDefinitions(view=view, root=root)
            if not is_message(view, xid) or definitions.raw(xid) is None:
                dangling = explain_dangling_xref(view, xid) if is_message(view, xid) else ""
                detail = explain_missing_entity(xid, view) or dangling or "only messages can be tried"
                raise RegistryError("not_found", subject=str(xid), detail=detail)
            given = self._kernel.settings
            with Work(steps=given.max_work, seconds=given.work_timeout).on_the_spot():
                content = _content(definitions, xid, token, attempt)
        return Page(template="try.html", title=f"Try {xid.resource_id}", content=content, crumbs=crumbs(xid, "try"))


def _path(request: HTTPRequest) -> str:
    return raw_path(request.scope).removeprefix(TRY)


def _content(definitions: RegistryDefinitions, xid: Xid, token: str, attempt: Attempt | None) -> TryContent:
    shown = attempt or _sample(definitions, xid)
    return TryContent(
        xid=str(xid),
        name=xid.resource_id,
        action=f"/-/try{xid}",
        token=token,
        text=shown.text,
        kind=shown.kind,
        kinds=tuple(_KINDS.items()),
        base64=shown.base64,
        contenttype=shown.contenttype,
        most=MOST,
        outcomes=None if attempt is None else _outcomes(definitions, xid, attempt),
    )


def _sample(definitions: RegistryDefinitions, xid: Xid) -> Attempt:
    """Return the content of a new form: the sample, if there is one."""
    made = definitions.materialised(xid)
    try:
        compiled = None if made is None else definitions.compiled(xid, made)
    except DefinitionError:
        compiled = None
    forms = () if compiled is None else sampled(compiled).forms
    if not forms:
        return Attempt(text="")
    encoded = forms[0].text.startswith(BASE64)
    kind = "event" if forms[0].id == EVENT else "payload"
    return Attempt(text=forms[0].text.removeprefix(BASE64), kind=kind, base64=encoded)


def _outcomes(definitions: RegistryDefinitions, xid: Xid, attempt: Attempt) -> tuple[OutcomeContent, ...]:
    try:
        message = attempt.message()
    except ValueError as error:
        fault = Finding(path="", rule="base64", message=str(error))
        return (_nothing("not read", "decode_error", (fault,)),)
    if attempt.kind == "payload":
        return (_payload(definitions, xid, message),)
    contract = definitions.contract(xid)
    return tuple(map(_outcome, contract.process(message)[:_MOST_OUTCOMES]))


def _payload(definitions: RegistryDefinitions, xid: Xid, message: Message) -> OutcomeContent:
    """Check a payload by the schema of the one definition, whatever message it would be in."""
    made = definitions.materialised(xid)
    assert made is not None, "the page is of a definition that is there"
    try:
        compiled = definitions.compiled(xid, made)
    except DefinitionError as error:
        return _nothing("not decided", "contract_unavailable", error.findings)
    use = compiled.schema_use
    if use.schema is None:
        none = Finding(path="", rule="schema", message="the definition names no schema: any payload conforms")
        return _nothing("not decided", "schema_not_found", use.findings or (none,))
    try:
        data = use.schema.decode(message.body or b"", message.content_type or compiled.payload_type)
    except PayloadError as error:
        return _nothing("rejected", error.reason, error.findings, body=message.body or b"")
    return _good(str(xid), (), _data(data))


def _outcome(outcome: Outcome) -> OutcomeContent:
    if isinstance(outcome, Accepted):
        context = tuple((name, value) for name, value in outcome.context.items())
        data = "" if outcome.data is msgspec.UNSET else _data(outcome.data)
        return _good(outcome.definition.xid, context, data, outcome.warnings)
    if isinstance(outcome, Rejected):
        return _nothing("rejected", outcome.reason, outcome.violations, outcome.candidates, outcome.message.body or b"")
    return _nothing("matches nothing", "no_match", ())


def _good(
    xid: str, context: tuple[tuple[str, str], ...], data: str, warnings: tuple[Finding, ...] = ()
) -> OutcomeContent:
    return OutcomeContent(
        verdict="conforms",
        good=True,
        definition=xid,
        reason="",
        violations=_violations(warnings, b""),
        candidates=(),
        context=context,
        data=data,
    )


def _nothing(
    verdict: str, reason: str, violations: tuple[Finding, ...], candidates: tuple[str, ...] = (), body: bytes = b""
) -> OutcomeContent:
    return OutcomeContent(
        verdict=verdict,
        good=False,
        definition="",
        reason=str(reason),
        violations=_violations(violations, body),
        candidates=candidates[:_MOST_OUTCOMES],
        context=(),
        data="",
    )


def _violations(findings: Sequence[Finding], body: bytes) -> tuple[TriedViolation, ...]:
    pieces = len(body) > LONGEST
    return tuple(
        TriedViolation(
            path=each.path,
            rule=each.rule,
            message=each.message,
            excerpt=excerpt(body, each.path) if pieces and each.path else "",
        )
        for each in findings[:_MOST_FINDINGS]
    )


def _data(value: object) -> str:
    """A decoded payload as JSON; values that JSON has no form for as text."""
    text = msgspec.json.format(dump_json(_plain(value)), indent=2).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(value: object) -> object:
    match value:
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
    return value.hex() if isinstance(value, bytes) else str(value)
