"""The pages to log in and out, and the page with the caller's identity and rights.

A login begins a session (``access.sessions``), whose secret is in a cookie. People log in with the code flow at an
issuer, or with an API token in a form. The pages of logins are public, and show nothing of the registry.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import urlsplit

from starlette.routing import Route

from signalbook import values
from signalbook.access import audit, sessions
from signalbook.access.authentication import Credentials
from signalbook.access.base import AUTHENTICATED, WHOLE, Action, AuthenticationUnavailable, Unauthenticated
from signalbook.access.decisions import Access
from signalbook.access.login import ATTEMPT_SECONDS, AnotherLogin, LoginAttempt, LoginFailed
from signalbook.access.policy import Policy
from signalbook.access.sessions import LoggedIn
from signalbook.access.tokens import TOKEN
from signalbook.api.kernel.cookies import SESSION, Cookie, is_private
from signalbook.api.kernel.errors import NO_STORE, Denied
from signalbook.api.kernel.requests import HTTPRequest, parse_form
from signalbook.api.kernel.responses import Response, Sendable
from signalbook.api.kernel.routing import Handler, Kernel
from signalbook.api.ui.attributes import Shown, moment
from signalbook.api.ui.formtokens import FormTokens
from signalbook.api.ui.pages import (
    IDENTITY,
    LOGIN,
    PATH,
    SECURITY,
    Crumb,
    FormPage,
    Page,
    Pages,
    is_page,
    remove_basic,
)
from signalbook.engine.engine import Session
from signalbook.errors import RegistryError
from signalbook.storage.audit import AuditEntry
from signalbook.storage.base import StorageBusy
from signalbook.storage.sessions import StoredSession
from signalbook.values import JSONObject, format_timestamp
from signalbook.xid import ROOT

ISSUER: Final = f"{LOGIN}/issuer"
CALLBACK: Final = f"{LOGIN}/callback"
LOGOUT: Final = f"{PATH}/-/logout"
ATTEMPT: Final = Cookie(name="signalbook-login")
_LOG: Final = logging.getLogger("signalbook.access")
_MOST_BYTES: Final = 8192
_FIELDS: Final = 5
_PARAMETERS: Final = 1 << 13
"""The maximum characters of the query in an issuer's response."""
_MOST_RULES: Final = 50
_MOST_GROUPS: Final = 200
_ORIGIN: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+", re.ASCII)
_CSP: Final = "Content-Security-Policy"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginContent:
    """The ways to log in. ``problem`` says why the last login failed, ``unneeded`` why nobody needs to log in."""

    issuer: str
    tokens: bool
    token: str
    back: str
    problem: str = ""
    unneeded: str = ""
    out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContent:
    """A rule that gives rights to the reader: its role or actions in ``what``, and its patterns in ``on``."""

    what: str
    on: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RightContent:
    """An action, and whether it is allowed: ``everywhere``, ``in parts`` or ``no``."""

    action: str
    extent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityContent:
    """The identity of the reader, how and until when it is proven, and its rights."""

    name: str
    known: bool
    facts: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, Shown], ...]
    groups: tuple[str, ...]
    rules: tuple[RuleContent, ...]
    rights: tuple[RightContent, ...]
    open: bool
    token: str
    session: bool
    login: bool


class LoginPages:
    """``/ui/-/login`` and what is below it, ``/ui/-/logout`` and ``/ui/-/identity``."""

    def __init__(self, kernel: Kernel, pages: Pages, tokens: FormTokens) -> None:
        self._kernel = kernel
        self._pages = pages
        self._tokens = tokens
        self._client = kernel.authenticator.login
        self._taken = kernel.settings.login != "off"

    def routes(self) -> list[Route]:
        """Return the routes of the pages. If logins are off, only the identity page is available."""
        page = partial(FormPage, kernel=self._kernel, pages=self._pages)
        identity_routes = [Route(IDENTITY, page({"GET": self._show_identity}))]
        if not self._taken:
            return identity_routes
        return [
            Route(
                LOGIN, page({"GET": self._limit(self._show_form), "POST": self._limit(self._with_token)}, public=True)
            ),
            Route(ISSUER, page({"GET": self._limit(self._redirect_to_issuer)}, public=True)),
            Route(CALLBACK, page({"GET": self._limit(self._receive_callback)}, public=True)),
            Route(LOGOUT, page({"POST": self._log_out})),
            *identity_routes,
        ]

    def _limit(self, handler: Handler) -> Handler:
        """Wrap a handler for public pages, so that requests count against the limits of their address."""

        async def respond(request: HTTPRequest) -> Sendable:
            self._kernel.admission.admit_visitor(request.scope)
            return await handler(request)

        return respond

    async def _run_at_issuer(self, request: HTTPRequest, work: Callable[[], T]) -> T:
        """Run ``work``, which queries the issuer, in a turn of the client's address, so that other addresses get
        threads, too."""
        # Earlier failures do not refuse this request: only the issuer can tell whether a code is valid.
        turn = await self._kernel.admission.turn(request.scope)
        try:
            return await self._kernel.issuers.read(work)
        finally:
            if turn is not None:
                turn.release()

    async def _show_form(self, request: HTTPRequest) -> Response:
        """Return the page with the ways to log in."""
        return await self._show_ways(request, back=_check_back(request.query.get("back", "")))

    async def _with_token(self, request: HTTPRequest) -> Response:
        """Log in with the API token in the form."""
        self._check(request)
        if not self._takes_tokens:
            raise Denied("nobody logs in with API tokens here (setting login)")
        fields = parse_form(await request.body(_MOST_BYTES), request, most=_FIELDS)
        back = _check_back(fields.get("back", ""))
        if not await self._tokens.is_valid(fields.get("token", ""), request, LOGIN):
            problem = "The form is from another browser or another site, or its cookie is gone: try it again."
            return await self._show_ways(request, back=back, problem=problem, status=HTTPStatus.FORBIDDEN)
        try:
            who = await self._find_holder(fields.get("secret", "").strip(), request)
        except Unauthenticated as error:
            self._record_refusal(error, request)
            return await self._show_ways(request, back=back, problem=f"Not logged in: {error}.", error=error)
        return await self._begin_session(request, who, back)

    async def _find_holder(self, secret: str, request: HTTPRequest) -> LoggedIn:
        """Return the owner of an API token. Raises ``Unauthenticated``, ``TooManyRequests``."""
        if not TOKEN.fullmatch(secret):
            raise Unauthenticated("this is no API token: it begins with sbk_, and is taken as a whole")
        credentials = Credentials(header=f"Bearer {secret}".encode("ascii"))
        identity = await self._kernel.admission.identify(credentials, request.scope)

        def load_holder() -> LoggedIn:
            with self._kernel.engine.store.read() as transaction:
                stored = transaction.tokens.get(identity.token)
            return LoggedIn(identity=identity, until=None if stored is None else stored.expires)

        return await self._kernel.workers.read(load_holder)

    async def _redirect_to_issuer(self, request: HTTPRequest) -> Response:
        """Redirect to the issuer, which sends the browser back."""
        self._check(request)
        self._check_issuer(request)
        back = _check_back(request.query.get("back", ""))
        where, attempt = await self._run_at_issuer(
            request, partial(self._client.begin, f"{request.root}{CALLBACK}", back)
        )
        sealed = attempt.sealed(await self._tokens.key(b"login"))
        return _build_redirect(where, ATTEMPT.set(sealed, request.root, seconds=ATTEMPT_SECONDS))

    async def _receive_callback(self, request: HTTPRequest) -> Response:
        """Handle the issuer's response, with which the browser comes back."""
        self._check(request)
        self._check_issuer(request)
        if len(request.scope["query_string"]) > _PARAMETERS:
            raise request.wrong("the issuer's answer is too long")
        sealed = ATTEMPT.of(request.scope, request.root)
        attempt = LoginAttempt.opened(sealed, await self._tokens.key(b"login")) if sealed else None
        if attempt is None:
            return await self._show_failure(
                request, LoginFailed("no login was begun in this browser, or too long ago"), PATH
            )
        try:
            who = await self._finish_login(request, attempt)
        except (LoginFailed, Unauthenticated) as error:
            self._kernel.admission.record_failed_login(request.scope, "", request.query.get("code", ""))
            return await self._show_failure(request, error, attempt.back)
        except AuthenticationUnavailable as error:
            # The issuer may have received the code already, so another login needs a new code.
            problem, status = f"Not logged in: {error}.", HTTPStatus.SERVICE_UNAVAILABLE
            response = await self._show_ways(request, back=attempt.back, problem=problem, status=status)
            return replace(response, headers=(*response.headers, ATTEMPT.removed(request.root)))
        return await self._begin_session(request, who, attempt.back)

    async def _finish_login(self, request: HTTPRequest, attempt: LoginAttempt) -> LoggedIn:
        """Return the person in the issuer's answer. Raises as ``LoginClient.finish``."""
        who = await self._run_at_issuer(
            request, partial(self._client.finish, attempt, dict(request.query), f"{request.root}{CALLBACK}")
        )
        if who.groupless:
            policy = await self._kernel.workers.read(self._kernel.control.current)
            if policy is not None and policy.names_groups:
                raise LoginFailed(_GROUPLESS.format(claim=self._kernel.settings.oidc_groups_claim))
        return who

    async def _show_failure(self, request: HTTPRequest, error: LoginFailed | Unauthenticated, back: str) -> Response:
        """Return the page with the ways to log in, and the reason of the failure. A failed login cannot be
        continued."""
        wrong = error if isinstance(error, Unauthenticated) else Unauthenticated(str(error))
        self._record_refusal(wrong, request)
        response = await self._show_ways(request, back=back, problem=f"Not logged in: {error}.", error=wrong)
        if isinstance(error, AnotherLogin):
            return response
        return replace(response, headers=(*response.headers, ATTEMPT.removed(request.root)))

    async def _begin_session(self, request: HTTPRequest, who: LoggedIn, back: str) -> Response:
        """Begin a new session, end the browser's former session, and redirect to the page that the user wanted."""
        old, origin = SESSION.of(request.scope, request.root), self._kernel.admission.origin(request.scope)

        def begin(session: Session) -> tuple[StoredSession, str, list[AuditEntry]]:
            stored = session.transaction.sessions
            if sessions.is_secret(old):
                stored.remove(sessions.compute_session_id(old))
            new_session, secret = sessions.begin(stored, who, session.now, self._kernel.settings.session_hours)
            identity = replace(who.identity, session=new_session.id)
            return new_session, secret, self._record(session, audit.login(identity, origin, "login"))

        new_session, secret, recorded = await self._kernel.write(begin)
        self._kernel.audit.committed(recorded)
        seconds = int((new_session.expires - values.now()).total_seconds())
        cookies = (SESSION.set(secret, request.root, seconds=max(1, seconds)), ATTEMPT.removed(request.root))
        return _build_redirect(f"{request.root}{back}", *cookies)

    async def _log_out(self, request: HTTPRequest) -> Response:
        """End the session of this browser, or all sessions of its user. If possible, also end the session at the
        issuer."""
        fields = parse_form(await request.body(_MOST_BYTES), request, most=_FIELDS)
        await self._tokens.require(fields.get("token", ""), request, LOGOUT)
        identity, secret = request.access.identity, SESSION.of(request.scope, request.root)
        origin = self._kernel.admission.origin(request.scope)

        def end(session: Session) -> tuple[StoredSession | None, list[AuditEntry]]:
            stored = session.transaction.sessions
            ended_session = stored.get(identity.session) if identity.session else None
            everywhere = stored.of(identity.subject, identity.issuer) if fields.get("where") == "everywhere" else ()
            for ended in {*everywhere, *([ended_session.id] if ended_session else ())}:
                stored.remove(ended)
            return ended_session, self._record(session, audit.login(identity, origin, "logout"))

        ended_session, recorded = await self._kernel.write(end)
        self._kernel.admission.forget()
        self._kernel.audit.committed(recorded)
        where = f"{request.root}{LOGIN}?out=yes"
        if ended_session is not None and ended_session.issuer == self._client.issuer != "":
            where = (
                await self._find_issuer_logout(sessions.hint(ended_session, secret), f"{request.root}{LOGIN}") or where
            )
        return _build_redirect(where, SESSION.removed(request.root))

    async def _find_issuer_logout(self, hint: str, back: str) -> str:
        """Return the URL at which the issuer ends its own session, or "" if it has none or does not respond."""
        if not self._client.issuer:
            return ""
        try:
            return await self._kernel.issuers.read(partial(self._client.logout_url, hint, back))
        except (AuthenticationUnavailable, StorageBusy) as error:
            _LOG.warning("the issuer's logout: %s", error)
            return ""

    def _record(self, session: Session, entry: AuditEntry) -> list[AuditEntry]:
        if self._kernel.settings.audit == "off":
            return []
        session.transaction.audit.append([entry])
        return [entry]

    async def _show_identity(self, request: HTTPRequest) -> Response:
        """Show the caller's identity and rights."""
        token = await self._tokens.token(request, LOGOUT)
        policy = None
        if not request.access.unrestricted:
            policy = await self._kernel.workers.read(self._kernel.control.current)
        content = await self._kernel.workers.read(
            partial(self._build_identity_content, request.access, policy, token.text)
        )
        page = Page(
            template="identity.html",
            title="Your identity",
            content=content,
            crumbs=(Crumb(text="Registry", href=""), Crumb(text="Your identity")),
        )
        ends = await self._find_issuer_logout("", "") if content.session and request.access.identity.issuer else ""
        return self._pages.build_response(page, request.root, NO_STORE, *_allow_form_action(ends), *token.headers)

    def _build_identity_content(self, access: Access, policy: Policy | None, token: str) -> IdentityContent:
        identity = access.identity
        with self._kernel.engine.store.read() as transaction:
            session = transaction.sessions.get(identity.session) if identity.session else None
            api_token = transaction.tokens.get(identity.token) if identity.token else None
        facts = (
            ("Subject", identity.subject),
            ("Issuer", identity.issuer),
            ("API token", identity.token),
            ("Narrowed to", "" if identity.scopes is None else ", ".join(sorted(identity.scopes)) or "nothing"),
        )
        times = (
            ("Session since", session and session.created),
            ("Session until", session and session.expires),
            ("Token until", api_token and api_token.expires),
        )
        return IdentityContent(
            name=identity.displayname or identity.name,
            known=AUTHENTICATED in identity.principals,
            facts=tuple((name, value) for name, value in facts if value),
            times=tuple((name, moment(format_timestamp(stamp))) for name, stamp in times if stamp),
            groups=tuple(sorted(identity.groups)[:_MOST_GROUPS]),
            rules=tuple(_list_rules(policy, access)),
            rights=tuple(_build_right(action, access) for action in Action),
            open=access.unrestricted,
            token=token,
            session=session is not None,
            login=self._taken,
        )

    async def _show_ways(
        self,
        request: HTTPRequest,
        *,
        back: str,
        problem: str = "",
        error: Unauthenticated | None = None,
        status: int = HTTPStatus.OK,
    ) -> Response:
        """Return the page with the ways to log in. ``error`` is the reason why credentials were refused, if
        they were."""
        token, unneeded = await self._tokens.token(request, LOGIN), await self._explain_unneeded(request)
        content = LoginContent(
            issuer="" if unneeded else self._client.issuer,
            tokens=self._takes_tokens and not unneeded,
            token=token.text,
            back=back,
            problem=problem,
            unneeded=unneeded,
            out=request.query.get("out") == "yes" and not problem,
        )
        headers = (NO_STORE, *token.headers)
        if error is not None:
            status = HTTPStatus.UNAUTHORIZED
            challenges = self._kernel.admission.build_challenges(request.root, error)
            headers = (*headers, *remove_basic(challenges))
        page = Page(template="login.html", title="Log in", content=content, status=status)
        return self._pages.build_response(page, request.root, *headers)

    async def _explain_unneeded(self, request: HTTPRequest) -> str:
        """Return the reason why logging in is unnecessary or impossible here, or an empty text."""
        if not await self._kernel.admission.is_governed():
            return "Everybody may do everything here: there is no policy that says who may do what."
        return "" if is_private(request.root) else _INSECURE

    @property
    def _takes_tokens(self) -> bool:
        return self._kernel.settings.login in ("on", "tokens")

    def _check(self, request: HTTPRequest) -> None:
        """Raise ``Denied`` where a cookie could be read on its way."""
        if not is_private(request.root):
            raise Denied(_INSECURE)

    def _check_issuer(self, request: HTTPRequest) -> None:
        if not self._client.issuer:
            raise RegistryError("not_found", subject=request.path, detail="nobody logs in at an issuer here")

    def _record_refusal(self, error: Unauthenticated, request: HTTPRequest) -> None:
        """Count a failed login in the metrics, and record it in the audit log."""
        # Public pages have unrestricted access in the scope, which is not the access of the caller.
        scope = {name: value for name, value in request.scope.items() if name != "access"}
        self._kernel.admission.record_refusal(error, scope)


_INSECURE: Final = (
    "Logging in takes https, so that nobody on the way reads the cookie: use the https URL of this registry, which the "
    "setting base_url names where a proxy ends TLS."
)
_GROUPLESS: Final = (
    "the policy has rules for groups, and the issuer does not say which ones you are in: it has neither the claim "
    "{claim} in its ID tokens nor a UserInfo endpoint. The administrator of the issuer has to add the claim, an empty "
    "list for who has no group"
)


def _check_back(path: str) -> str:
    """Return where to go after a login: a page of the explorer, nothing else."""
    return path if is_page(path) and not path.startswith((LOGIN, LOGOUT)) else PATH


def _build_redirect(where: str, *cookies: tuple[str, str]) -> Response:
    return Response(status=HTTPStatus.SEE_OTHER, headers=(("Location", where), NO_STORE, *cookies))


def _allow_form_action(url: str) -> Iterable[tuple[str, str]]:
    """Yield the security policy of a page whose form redirects to ``url``, since browsers apply the policy to
    redirects."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if _ORIGIN.fullmatch(origin):
        yield _CSP, dict(SECURITY)[_CSP].replace("form-action 'self'", f"form-action 'self' {origin}")


def _list_rules(policy: Policy | None, access: Access) -> Iterable[RuleContent]:
    """Yield the rules that give rights to the caller. Rules that deny are left out: they name entities hidden from the
    caller."""
    numbers = [] if policy is None else policy.find_rules_about(access.identity)
    for number in numbers[:_MOST_RULES]:
        assert policy is not None
        rule, written = policy.rules[number], policy.document["rules"][number]
        if rule.allow:
            yield RuleContent(what=_describe_rule(written), on=rule.on, description=str(written.get("description", "")))


def _describe_rule(rule: JSONObject) -> str:
    return str(rule["role"]) if "role" in rule else ", ".join(rule["allow"])


def _build_right(action: Action, access: Access) -> RightContent:
    everywhere = access.may(action, ROOT) if action & WHOLE else access.allows_everything_below(action, ROOT)
    extent = "everywhere" if everywhere else "in parts" if access.allows_somewhere(action) else "no"
    return RightContent(action=action.word, extent=extent)
