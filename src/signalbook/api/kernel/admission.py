"""Admission: identify the caller of a request and determine its rights and limits, before the body is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.types import Scope

from signalbook.access.audit import Audit, RefusedRequests, must_record
from signalbook.access.authentication import Authenticator, Credentials
from signalbook.access.base import (
    ANONYMOUS,
    EVERYTHING,
    Action,
    CredentialsNeeded,
    Forbidden,
    Identity,
    RequestOrigin,
    Unauthenticated,
)
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.limits import Caller, RequestLimits, TooManyRequests
from signalbook.access.policy import Policy
from signalbook.access.sessions import SessionEnded
from signalbook.access.tokens import PATH as TOKENS
from signalbook.api.kernel.caching import Freshness
from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.cookies import read_session_secret
from signalbook.api.kernel.origins import READS, PageRefused
from signalbook.api.kernel.requests import base_url
from signalbook.engine.write.quotas import QuotaExceeded
from signalbook.errors import SignalbookError
from signalbook.metrics import REFUSED, api_of
from signalbook.settings import Settings
from signalbook.xid import Xid

_REQUEST: Final = "request"
_LOGIN: Final = "login"
_RECENT: Final = 0.5
"""The seconds for which admitted callers are cached, and the generation of the store if reading it takes long."""
_MOST_PLACES: Final = 64
"""The maximum number of origins for which the write access of one caller is cached."""
_CHANGES: Final = Action.CREATE | Action.UPDATE
_WRITES: Final = {**dict.fromkeys(("PUT", "PATCH", "POST"), _CHANGES), "DELETE": Action.DELETE}
"""The methods that write entities, each with the actions of which a request does at least one."""


def list_allowed_methods(access: Access, xid: Xid, methods: Iterable[str]) -> list[str]:
    """Return those of ``methods`` that the rights allow at ``xid``, whether it exists or not."""
    writes = access.is_readable(xid)
    return [
        method
        for method in methods
        if method not in _WRITES or (writes and any(access.allows_somewhere(action, xid) for action in _WRITES[method]))
    ]


class Admitted(NamedTuple):
    """The rights of a caller, and the caller's limits; ``caller`` is None if no limits apply."""

    access: Access
    caller: Caller | None
    placed: dict[RequestOrigin, Access]
    """The access with the origin of writes, cached by origin."""

    def at(self, origin: RequestOrigin) -> Access:
        """Return the access for a write from ``origin``."""
        access = self.placed.get(origin)
        if access is None:
            if len(self.placed) >= _MOST_PLACES:
                self.placed.clear()
            access = self.placed[origin] = self.access.at(origin)
        return access


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """The state of one ``generation`` of the store during one ``tick``: the ``policy``, and the admitted callers.

    Callers are identified by address, certificate, and headers. A tick lasts ``_RECENT`` seconds. Every full second
    begins a new tick, because JWTs expire at full seconds.
    """

    generation: Hashable = None
    tick: int = -1
    policy: Policy | None = None
    admitted: dict[Hashable, Admitted] = field(default_factory=dict)


class Admission:
    """Admits the requests of one server process. For one event loop.

    ``generation`` reads the generation of the store at once. If it is None, ``freshness`` is used, which takes longer.
    If the server is ``exposed`` to other machines, it admits nobody while there is no policy, unless access is open.
    """

    def __init__(
        self,
        control: AccessControl,
        authenticator: Authenticator,
        workers: Workers,
        freshness: Freshness,
        generation: Callable[[], Hashable] | None,
        audit: Audit,
        settings: Settings,
        *,
        exposed: bool,
    ) -> None:
        self._audit = audit
        self._settings = settings
        self._limits = RequestLimits(settings)
        self._control = control
        self._authenticator = authenticator
        self._workers = workers
        self._freshness = freshness
        self._generation = None if control.open else generation
        self._exposed = exposed
        self._identifying = authenticator.headers
        self._moment = _Moment()

    async def admit(self, scope: Scope) -> None:
        """Put the rights of the caller into ``scope`` and count the request against the caller's limits.

        For a write, the access records the origin. Raises ``Unauthenticated``, ``TooManyRequests``, and the errors of
        the store.
        """
        admitted = await self._find_or_admit(scope)
        scope["access"] = admitted.access
        writes = scope["method"] not in READS
        if admitted.caller is not None:
            scope["caller"] = admitted.caller
            admitted.caller.admit(write=writes)
        if writes:
            scope["admit_again"] = partial(self._admit_again, scope)
            if self._settings.audit != "off":
                scope["access"] = admitted.at(self.origin(scope))

    def admit_visitor(self, scope: Scope) -> None:
        """Count a request for a public page against the limits of its address. Raises ``TooManyRequests``."""
        caller = self._limits.visitor(self.origin(scope).address)
        if caller is not None:
            scope["caller"] = caller
            caller.admit(write=False)

    async def access(self, scope: Scope) -> Access:
        """Return the current rights of a request's caller. Raises as ``admit``."""
        return (await self._find_or_admit(scope)).access

    def find_admitted(self, scope: Scope) -> Admitted | None:
        """Return the admission of a request's caller if it is cached, else None. After None, call ``admit``.

        Nothing is counted. Raises the errors of the store.
        """
        moment = self._moment
        now = int(time.time() / _RECENT) == moment.tick
        if not now or (self._generation is not None and self._generation() != moment.generation):
            return None
        for name, _ in scope["headers"]:
            # Whether a session's cookie is used depends on the requested page.
            if name == b"cookie" and name in self._identifying:
                return None
        return moment.admitted.get(self._build_caller_key(scope))

    async def turn(self, scope: Scope) -> asyncio.Semaphore | None:
        """Wait for the caller's turn for a long read. Return its acquired semaphore, or None without limits.

        Raises ``TooManyRequests``.
        """
        caller: Caller | None = scope.get("caller")
        return None if caller is None else await caller.turn()

    def record_refusal(
        self, error: Unauthenticated | Forbidden | TooManyRequests | QuotaExceeded, scope: Scope
    ) -> None:
        """Count a refused request in the metrics, and record it in the audit log."""
        xid = why = ""
        match error:
            case Forbidden():
                reason, action, status, xid = "policy", error.action.word, HTTPStatus.FORBIDDEN, str(error.xid)
            case TooManyRequests():
                reason, action, status = error.limit, _REQUEST, HTTPStatus.TOO_MANY_REQUESTS
                why = f": {reason}"
            case QuotaExceeded():
                reason, action, status, xid = "quota", _REQUEST, HTTPStatus.BAD_REQUEST, error.subject
                why = f": {reason}"
            case Unauthenticated():
                reason, action, status = "credentials", _LOGIN, HTTPStatus.UNAUTHORIZED
                xid = f"{TOKENS}/{error.token}" if error.token else ""
                why = f": {error}"
        REFUSED.labels(reason).inc()
        # Without an access the caller was not admitted, so there is a policy.
        access: Access | None = scope.get("access")
        if must_record(self._settings, access) if access is not None else self._settings.audit != "off":
            who = ANONYMOUS if access is None else access.identity
            words = f"{status.value} {status.phrase}{why}"
            self._audit.refused(RefusedRequests(who=who, origin=self.origin(scope), action=action, error=words), xid)

    async def is_governed(self) -> bool:
        """Return True if there is a policy, so that identities matter."""
        generation = self._generation() if self._generation is not None else None
        return (await self._load_moment(int(time.time() / _RECENT), generation)).policy is not None

    async def record_refused_page(self, refusal: PageRefused, scope: Scope) -> None:
        """Count and record a request that was refused before its caller was identified."""
        REFUSED.labels(refusal.reason).inc()
        recorded = self._settings.audit == "on"
        if self._settings.audit == "auto" and not self._control.open:
            # Use the policy of the last request, if there was one: refused requests must not cause queries to the
            # store.
            moment = self._moment
            try:
                if moment.tick < 0:
                    moment = await self._load_moment(0, self._generation() if self._generation is not None else None)
                recorded = moment.policy is not None
            except SignalbookError:  # if the policy cannot be read, assume that there is one
                recorded = True
        if recorded:
            words = f"{refusal.response.status} {HTTPStatus(refusal.response.status).phrase}: {refusal.reason}"
            self._audit.refused(RefusedRequests(who=ANONYMOUS, origin=self.origin(scope), action=_REQUEST, error=words))

    def read(self, scope: Scope, status: int) -> None:
        """Write a read to the lines of the audit log, if actions of its caller are recorded."""
        access: Access | None = scope.get("access")
        if access is not None and must_record(self._settings, access):
            self._audit.read(access.identity, self.origin(scope), scope["path"], status)

    def origin(self, scope: Scope) -> RequestOrigin:
        client = scope.get("client")
        peer = client[0] if client else ""
        forwarded = self._authenticator.find_forwarded_address(scope) if peer else ""
        return RequestOrigin(peer=peer, forwarded=forwarded, api=api_of(scope["path"]), method=scope["method"])

    def build_challenges(self, root: str, error: Unauthenticated) -> tuple[tuple[str, str], ...]:
        """Return the headers that list the accepted kinds of credentials (RFC9110 11.6.1)."""
        return self._authenticator.build_challenges(root, None if isinstance(error, CredentialsNeeded) else error)

    def forget(self) -> None:
        """Drop the cached state, because this process changed something itself."""
        self._moment = _Moment()

    async def _find_or_admit(self, scope: Scope) -> Admitted:
        moment, tick = self._moment, int(time.time() / _RECENT)
        generation = moment.generation
        if self._generation is not None:
            generation = self._generation()
        if tick != moment.tick or generation != moment.generation:
            moment = await self._load_moment(tick, generation)
        key = self._build_caller_key(scope)
        return moment.admitted.get(key) or await self._admit(scope, moment, key)

    def _build_caller_key(self, scope: Scope) -> Hashable:
        """Return a key with everything that identifies the caller of a request. Also set ``session_secret`` in
        ``scope``."""
        client = scope.get("client")
        identifying = [header for header in scope["headers"] if header[0] in self._identifying]
        scope["session_secret"] = secret = ""
        for header in identifying:
            if header[0] == b"cookie":
                scope["session_secret"] = secret = read_session_secret(scope, base_url(scope, self._settings))
                # Other cookies do not identify the caller.
                identifying = [header for header in identifying if header[0] != b"cookie"]
                break
        return (client and client[0], scope.get("certificate"), secret, *identifying)

    async def _load_moment(self, tick: int, generation: Hashable) -> _Moment:
        """Load and return the current state. It becomes the cached state unless that changed in the meantime."""
        before = self._moment
        if self._generation is None and not self._control.open:
            generation = await self._freshness.now()
        if self._generation is None and self._control.is_stale(generation):
            policy = await self._workers.read(partial(self._control.policy, generation))
        else:
            # For a store that is read at once, checking after each write that the policy is unchanged takes
            # microseconds.
            policy = self._control.policy(generation)
        moment = _Moment(generation=generation, tick=tick, policy=policy)
        # If the cached state changed, this one may be older than a change that this process made.
        if self._moment is before:
            self._moment = moment
        return moment

    async def _admit(self, scope: Scope, moment: _Moment, key: Hashable) -> Admitted:
        """Admit the caller of a request, identified by ``key``."""
        access, is_known = UNRESTRICTED, True
        if moment.policy is not None:
            identity = await self._find_identity(scope, moment.generation)
            access = moment.policy.access(identity)
            is_known = identity != ANONYMOUS or access.allows_somewhere(EVERYTHING)
            # Browsers send OPTIONS without credentials before a request with credentials.
            if not is_known and scope["method"] != "OPTIONS":
                raise CredentialsNeeded
        elif self._exposed and not self._control.open:  # the policy was removed after the start
            raise CredentialsNeeded("nobody has said who may do what here")
        admitted = Admitted(access, self._limits.caller(access, self.origin(scope).address), {})
        if is_known:
            moment.admitted[key] = admitted
        return admitted

    async def _admit_again(self, scope: Scope) -> None:
        """Admit the caller of a running request again, and replace the access in ``scope``. Raises as ``access``."""
        origin = scope["access"].origin
        access = await self.access(scope)
        scope["access"] = access if origin is None else access.at(origin)

    async def _find_identity(self, scope: Scope, generation: Hashable) -> Identity:
        credentials = self._authenticator.read_credentials(scope)
        return ANONYMOUS if credentials is None else await self._verify(credentials, scope, generation)

    async def identify(self, credentials: Credentials, scope: Scope) -> Identity:
        """Return the current identity of credentials that did not come in a header. Raises as ``admit``."""
        generation = await self._freshness.now() if self._generation is None else self._generation()
        return await self._verify(credentials, scope, generation)

    async def _verify(self, credentials: Credentials, scope: Scope, generation: Hashable) -> Identity:
        identity = self._authenticator.find_verified(credentials, generation)
        if identity is not None:
            return identity
        try:
            return await self._workers.read(partial(self._authenticator.identify, credentials, generation))
        except SessionEnded:
            raise
        except Unauthenticated:
            # Count only wrong credentials, so that guessing does not lock out callers with the right credentials.
            self.record_failed_login(scope, credentials.claimed, credentials)
            raise

    def record_failed_login(self, scope: Scope, claimed: str, credentials: Hashable) -> None:
        """Count a failed login. Raises ``TooManyRequests`` if the login should have waited."""
        address, logins = self.origin(scope).address, self._limits.logins
        logins.check(address, claimed)
        logins.record_failure(address, claimed, credentials)
