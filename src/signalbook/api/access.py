"""The API for the access policy: read and replace it, explain its decisions, show the caller's rights, end sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.routing import Route

from signalbook.access.base import ACTIONS, AUTHENTICATED, Action, CredentialsNeeded, Identity
from signalbook.access.control import MAX_BYTES, MAX_DEPTH, PolicyRefused
from signalbook.access.policy import InvalidPolicy, Policy, read_policy, split_principals
from signalbook.access.review import list_warnings, with_warnings
from signalbook.access.sessions import PATH as SESSIONS
from signalbook.api.kernel.caching import check_conditions, compute_entity_tag
from signalbook.api.kernel.errors import NO_STORE, Conflict
from signalbook.api.kernel.requests import HTTPRequest, parse_json_body
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.kernel.routing import Handler, Kernel, PathEndpoint
from signalbook.engine.engine import Session
from signalbook.errors import RegistryError
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid, XidError

PATH: Final = "/access"
_NO_POLICY: Final = "no policy is configured, everybody may do everything: PUT one"


class AccessAPI:
    """The paths ``/access`` and, below it, ``explain``, ``self`` and ``sessions``, with or without a trailing slash."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._control = kernel.control

    def routes(self) -> list[Route]:
        table: dict[str, dict[str, Handler]] = {
            PATH: {"GET": self._show, "PUT": self._replace},
            f"{PATH}/explain": {"GET": self._explain},
            f"{PATH}/self": {"GET": self._show_caller},
            SESSIONS: {"DELETE": self._end_sessions},
        }
        return [
            route
            for path, handlers in table.items()
            for route in PathEndpoint(handlers, self._kernel, explain=_explain).routes(path)
        ]

    async def _show(self, request: HTTPRequest) -> Response:
        """Return the policy as it was written."""
        return _build_policy_response(await self._load_policy(request))

    async def _replace(self, request: HTTPRequest) -> Response:
        """Put another policy in force."""
        _require_administrator(request)
        self._control.check_closed()
        body = await request.body(MAX_BYTES)
        # Reading a large policy takes a second, so it is done in a thread and before the write has its turn.
        policy, odd = await self._kernel.workers.read(partial(self._read, body, request))
        return await self._kernel.write(partial(self._put, request=request, policy=policy, odd=odd), request.access)

    def _read(self, body: bytes, request: HTTPRequest) -> tuple[Policy, list[str]]:
        """Return the policy in a body, and warnings about it. Raises ``InvalidPolicy``, ``RegistryError``."""
        policy = read_policy(parse_json_body(body, request.subject, max_depth=MAX_DEPTH))
        with self._kernel.engine.reading() as view:
            model = view.model.document
        # A warning names types of the model, which not every administrator can read.
        return policy, list_warnings(policy, model if request.access.is_readable(ROOT) else None)

    def _put(self, session: Session, *, request: HTTPRequest, policy: Policy, odd: list[str]) -> Response:
        before = self._control.stored(session.transaction)
        # The request was admitted while there was no policy. While it waited, another request put the first policy in
        # force.
        if before is not None and request.access.unrestricted:
            raise CredentialsNeeded
        self._control.put(session.transaction, policy, by=request.access)
        # An error raised here undoes the write.
        check_conditions(request.scope["headers"], "" if before is None else _compute_tag(before), request.path)
        session.record(Action.ADMINISTER, PATH)
        return _build_policy_response(policy, status=201 if before is None else 200, odd=odd)

    async def _explain(self, request: HTTPRequest) -> Response:
        """Return whether the identity ``who`` may do an action on an xid, and the rules that decide it."""
        policy = await self._load_policy(request)
        action, xid = _read_action(request), _read_xid(request)
        identity = await self._kernel.workers.read(partial(self._read_identity, request))
        explanation = await self._kernel.workers.read(partial(policy.explain, identity, action, xid))
        question = {"who": request.query["who"], "what": action.word, "xid": str(xid)}
        return json_response({**question, **explanation.to_json(policy)}, headers=(NO_STORE,))

    def _read_identity(self, request: HTTPRequest) -> Identity:
        """Return the identity that ``who`` names: principals separated by commas. Raises ``bad_request``."""
        try:
            return self._control.identity(split_principals(request.query.get("who", "")))
        except ValueError as error:
            raise request.wrong(f'"who": {error}') from None

    async def _show_caller(self, request: HTTPRequest) -> Response:
        """Return the caller, and the caller's rights at ``xid`` (default: the Registry) and elsewhere."""
        access, xid, changes = request.access, _read_xid(request), 0
        if not access.unrestricted:
            # Use the current policy, not the cached one: a copy would treat entities hidden since as deleted.
            policy = await self._kernel.workers.read(self._control.current)
            access = access if policy is None else policy.access(access.identity)
            changes = await self._kernel.workers.read(self._control.count_changes)
        caller = {
            **_describe_identity(access.identity),
            "restricted": not access.unrestricted,
            "policy": changes,
            "hidden": not access.reads_everything,
            "xid": str(xid),
            "may": [action.word for action in Action if access.may(action, xid)],
            "somewhere": [action.word for action in Action if access.allows_somewhere(action)],
        }
        return json_response(caller, headers=(NO_STORE,))

    async def _end_sessions(self, request: HTTPRequest) -> Response:
        """End all sessions of ``subject`` in the explorer, on all servers."""
        _require_administrator(request)
        self._control.check_closed()
        subject = request.query.get("subject", "")
        if not subject:
            raise request.wrong('"subject" names whose sessions are to end')
        ended = await self._kernel.write(lambda session: session.end_sessions(subject), request.access)
        return json_response({"subject": subject, "ended": ended}, headers=(NO_STORE,))

    async def _load_policy(self, request: HTTPRequest) -> Policy:
        """Return the current policy. Raises ``Forbidden``, and ``not_found`` if there is none."""
        _require_administrator(request)
        policy = await self._kernel.workers.read(self._control.current)
        if policy is None:
            raise RegistryError("not_found", subject=request.path, detail=_NO_POLICY)
        return policy


def _require_administrator(request: HTTPRequest) -> None:
    request.access.require(Action.ADMINISTER, ROOT)


def _build_policy_response(policy: Policy, status: int = 200, odd: Sequence[str] = ()) -> Response:
    document = with_warnings(policy, odd)
    return json_response(document, status=status, headers=(NO_STORE, ("ETag", _compute_tag(policy))))


def _compute_tag(policy: Policy) -> str:
    return compute_entity_tag(policy.revision.encode("ascii"))


def _read_action(request: HTTPRequest) -> Action:
    text = request.query.get("what", "")
    if text not in ACTIONS:
        raise request.wrong(f'"what" is one of {", ".join(ACTIONS)}, not "{text[:40]}"')
    return ACTIONS[text]


def _read_xid(request: HTTPRequest) -> Xid:
    text = request.query.get("xid", "/")
    try:
        return Xid.parse(text)
    except XidError as error:
        raise request.wrong(f'"xid": {error}') from None


def _describe_identity(identity: Identity) -> JSONObject:
    description: JSONObject = {"name": identity.name, "authenticated": AUTHENTICATED in identity.principals}
    for name in ("subject", "issuer", "token"):
        if getattr(identity, name):
            description[name] = getattr(identity, name)
    description["groups"] = sorted(identity.groups)
    return description if identity.scopes is None else {**description, "scopes": sorted(identity.scopes)}


def _explain(error: Exception, path: str) -> Exception:
    """Return ``bad_request`` for an invalid policy, ``Conflict`` for a refused one, and other errors unchanged."""
    match error:
        case InvalidPolicy():
            first = error.faults[0]
            detail = f"the policy cannot be used: {first.path or '/'}: {first.message}"
            return RegistryError("bad_request", subject=path, error_detail=detail, faults=error.faults)
        case PolicyRefused():
            return Conflict(path, str(error))
        case _:
            return error
