"""Admission: who makes a request and what they may do, before anything of it is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.types import Scope

from signalbook.access.audit import Audit, Refusal, records
from signalbook.access.authentication import Authenticator
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
from signalbook.access.limits import Limits, TooManyRequests, Turn, network
from signalbook.access.policy import Policy
from signalbook.api.kernel.caching import Freshness
from signalbook.api.kernel.commits import Workers
from signalbook.api.kernel.origins import READS
from signalbook.engine.write.quotas import QuotaExceeded
from signalbook.metrics import REFUSED, api_of
from signalbook.settings import Settings
from signalbook.xid import Xid

_LIMITED: Final = "request"
_LOGIN: Final = "login"
_RECENT: Final = 0.5
"""Seconds for which policy and tokens are taken as they were, where asking takes a while."""
_CHANGES: Final = Action.CREATE | Action.UPDATE
_WRITES: Final = {**dict.fromkeys(("PUT", "PATCH", "POST"), _CHANGES), "DELETE": Action.DELETE}
"""Methods that write entities, and the actions of which one at least is what they do."""


def allowed_methods(access: Access, xid: Xid, methods: Iterable[str]) -> list[str]:
    """Those of ``methods`` that may be used at ``xid``, by its rights alone, be there anything or not."""
    writes = access.readable(xid)
    return [
        method
        for method in methods
        if method not in _WRITES or (writes and any(access.somewhere(action, xid) for action in _WRITES[method]))
    ]


class Admission:
    """Admits the requests of one server process. For one event loop.

    ``generation`` asks the store whether anything changed, at once; without it ``freshness`` does, which takes a while.
    A server that is ``exposed`` to other machines admits nobody without a policy.
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
        self._limits = Limits(settings)
        self._control = control
        self._authenticator = authenticator
        self._workers = workers
        self._freshness = freshness
        self._generation = generation
        self._exposed = exposed
        self._recent: Hashable = None
        self._asked = float("-inf")

    async def admit(self, scope: Scope) -> Access:
        """What whoever makes a request may do. Raises ``Unauthenticated``, and what asking the store raises."""
        if self._control.open:
            return UNRESTRICTED
        generation = await self._present(scope)
        policy = await self._policy(generation)
        if policy is None:
            if self._exposed:  # the server would not have started so: the policy is gone since
                raise CredentialsNeeded("nobody has said who may do what here")
            return UNRESTRICTED
        identity = await self._identity(scope, generation)
        access = policy.access(identity)
        # Browsers ask without credentials what a path takes, before they send any.
        if identity == ANONYMOUS and scope["method"] != "OPTIONS" and not access.somewhere(EVERYTHING):
            raise CredentialsNeeded
        return access

    async def admit_again(self, scope: Scope) -> None:
        """Replace what was found when the request began. Raises as ``admit``."""
        origin = scope["access"].origin
        access = await self.admit(scope)
        scope["access"] = access if origin is None else access.at(origin)

    def count(self, scope: Scope) -> None:
        """Hold an admitted request to its limits, and keep where a write came from. Raises ``TooManyRequests``."""
        access, writes = scope["access"], scope["method"] not in READS
        if self._limits.hold(access):
            self._limits.admit(self._caller(scope), write=writes)
        if writes and self._settings.audit != "off":
            scope["access"] = access.at(self._origin(scope))

    async def turn(self, scope: Scope) -> Turn | None:
        """A turn to read what takes its time, if there are any. Raises ``TooManyRequests``."""
        return await self._limits.turn(self._caller(scope)) if self._limits.hold(scope["access"]) else None

    def refused(self, error: Unauthenticated | Forbidden | TooManyRequests | QuotaExceeded, scope: Scope) -> None:
        """Count and record that a request was refused."""
        xid = ""
        match error:
            case Forbidden():
                reason, action, status, xid = "policy", error.action.word, HTTPStatus.FORBIDDEN, str(error.xid)
            case TooManyRequests():
                reason, action, status = error.limit, _LIMITED, HTTPStatus.TOO_MANY_REQUESTS
            case QuotaExceeded():
                reason, action, status, xid = "quota", _LIMITED, HTTPStatus.BAD_REQUEST, error.subject
            case Unauthenticated():
                reason, action, status = "credentials", _LOGIN, HTTPStatus.UNAUTHORIZED
        REFUSED.labels(reason).inc()
        # Without an access nobody was let in, so that there is a policy.
        access: Access | None = scope.get("access")
        if records(self._settings, access) if access is not None else self._settings.audit != "off":
            who = ANONYMOUS if access is None else access.identity
            words = f"{status.value} {status.phrase}" + (f": {reason}" if action == _LIMITED else "")
            self._audit.refused(Refusal(who=who, origin=self._origin(scope), action=action, error=words), xid)

    def read(self, scope: Scope, status: int) -> None:
        """Tell the audit's lines of a read."""
        access: Access | None = scope.get("access")
        if access is not None and records(self._settings, access):
            self._audit.read(access.identity, self._origin(scope), scope["path"], status)

    def _caller(self, scope: Scope) -> Hashable:
        return scope["access"].caller or network(self._origin(scope).address)

    def _origin(self, scope: Scope) -> RequestOrigin:
        client = scope.get("client")
        peer = client[0] if client else ""
        forwarded = self._authenticator.forwarded(scope) if peer else ""
        return RequestOrigin(peer=peer, forwarded=forwarded, api=api_of(scope["path"]), method=scope["method"])

    def challenges(self, root: str, error: Unauthenticated) -> tuple[tuple[str, str], ...]:
        """The headers that tell what credentials are taken here (RFC9110 11.6.1)."""
        return self._authenticator.challenges(root, None if isinstance(error, CredentialsNeeded) else error)

    def forget(self) -> None:
        """Ask again at once: this process changed something itself."""
        self._asked = float("-inf")

    async def _present(self, scope: Scope) -> Hashable:
        if self._generation is not None:
            # Kept responses are asked for by it, too: it takes a good part of what a hot read does.
            scope["generation"] = generation = self._generation()
            return generation
        now = time.monotonic()
        if now - self._asked > _RECENT:
            self._recent = await self._freshness.now()
            self._asked = now
        return self._recent

    async def _policy(self, generation: Hashable) -> Policy | None:
        if self._control.stale(generation):
            return await self._workers.read(partial(self._control.policy, generation))
        return self._control.policy(generation)

    async def _identity(self, scope: Scope, generation: Hashable) -> Identity:
        credentials = self._authenticator.credentials(scope)
        if credentials is None:
            return ANONYMOUS
        known = self._authenticator.known(credentials, generation)
        if known is not None:
            return known
        try:
            return await self._workers.read(partial(self._authenticator.identify, credentials, generation))
        except Unauthenticated:
            # Only of those that are wrong: no guessing locks out who has the right ones.
            address, logins = self._origin(scope).address, self._limits.logins
            logins.check(address, credentials.claimed)
            logins.failed(address, credentials.claimed, credentials)
            raise
