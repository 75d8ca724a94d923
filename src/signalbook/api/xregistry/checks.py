"""The path ``/check``: any write with this in front of its path is tried, told about, and undone (R135).

Method, body, headers and flags are those of the write itself, so that whoever can send one can ask about it.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import parse_qs

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.api.answers import Response, json_response, send_response
from signalbook.api.bodies import Disconnected, read_body
from signalbook.api.commits import Commits
from signalbook.api.errors import NO_STORE, PreconditionFailed, error_response, failure_response, precondition_response
from signalbook.api.xregistry import handlers
from signalbook.api.xregistry.requests import RegistryRequest, read_request
from signalbook.engine.commands import Method
from signalbook.engine.engine import Batch
from signalbook.errors import RegistryError
from signalbook.formats.compatibility import RULES
from signalbook.settings import Settings
from signalbook.verdict import Verdict

PATH: Final = "/check"
_METHODS: Final = (*(method.value for method in Method), "OPTIONS")
_SERVER_ERROR: Final = 500
_LARGE: Final = 1 << 18


def routes(settings: Settings, commits: Commits[Batch]) -> list[Route]:
    """``/check`` for the Registry itself, and everything below."""
    checks = Checks(settings, commits)
    return [Route(PATH, checks), Route(f"{PATH}/{{path:path}}", checks)]


class Checks:
    """Tries writes. It takes its turn among them, since it does what they do."""

    def __init__(self, settings: Settings, commits: Commits[Batch]) -> None:
        self._settings = settings
        self._commits = commits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except RegistryError as error:
            answer = error_response(error, allow=_METHODS)
        except PreconditionFailed as error:
            answer = precondition_response(error)
        except Exception as error:
            answer = failure_response(error, scope["path"])
        await send_response(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] == "OPTIONS":
            allow = ", ".join(_METHODS)
            return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))
        if scope["method"] not in _METHODS:
            raise RegistryError("action_not_supported", subject=scope["path"], action=scope["method"])
        rule = _rule(scope)
        limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
        body = await read_body(scope, receive, scope["path"], limit=limit, timeout=timeout)
        try:
            request = read_request(_behind(scope), body, self._settings)
        except RegistryError as error:
            return _told(Verdict.refused(error))
        work = partial(check, request=request, rule=rule)
        return _told(await self._commits.write(work, alone=len(body) > _LARGE))


def check(batch: Batch, request: RegistryRequest, rule: str | None) -> Verdict:
    """Do what the write would do, with ``rule`` for that of every Resource if there is one, and undo it.

    Raises ``RegistryError`` for what is no fault of the request.
    """
    try:
        with batch.trying(rule) as session:
            result = handlers.execute(session, request)
            return Verdict(
                changes=tuple(change.to_json() for change in session.changes),
                findings=(*result.findings, *session.doubts),
            )
    except RegistryError as error:
        if error.status >= _SERVER_ERROR:
            raise
        return Verdict.refused(error)


def _told(verdict: Verdict) -> Response:
    return json_response(verdict.to_json(), headers=(NO_STORE,))


def _behind(scope: Scope) -> Scope:
    """``scope`` as the write itself would have it."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    root = scope.get("root_path", "")
    behind = raw.removeprefix(root.encode("utf-8")).removeprefix(PATH.encode("ascii"))
    return {**scope, "raw_path": root.encode("utf-8") + (behind or b"/")}


def _rule(scope: Scope) -> str | None:
    """The flag ``compatibility``. Raises ``bad_flag``."""
    given: list[str] | None = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get(
        "compatibility"
    )
    if given is None:
        return None
    if len(given) != 1 or given[0].casefold() not in RULES:
        detail = f"it is one of {', '.join(RULES)}"
        raise RegistryError("bad_flag", subject=scope["path"], flag="compatibility", detail=detail)
    return given[0].casefold()
