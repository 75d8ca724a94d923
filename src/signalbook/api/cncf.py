"""What the APIs of the CNCF drafts share: how a request is read, where it runs, how it is answered."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from signalbook.api.kernel.caching import (
    Freshness,
    ResponseCache,
    check_conditions,
    has_conditions,
    if_modified,
    with_etag,
)
from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.errors import ReadOnly, problem_response
from signalbook.api.kernel.requests import Disconnected, base_url, read_body
from signalbook.api.kernel.responses import Response, send_response
from signalbook.engine.engine import Batch, Engine, Session
from signalbook.engine.read.view import View
from signalbook.errors import RegistryError
from signalbook.settings import Settings
from signalbook.values import JSON, JSONError, JSONObject, parse_json

_MOST_PARAMETERS: Final = 100


class PathBelow(Protocol):
    """A path below a door, ``text`` as it came, still percent-encoded."""

    @property
    def text(self) -> str:
        """The path."""
        ...


P = TypeVar("P", bound=PathBelow)


@dataclass(frozen=True, kw_only=True)
class CncfRequest(Generic[P]):
    """``root`` is the URL of the registry, ``mount`` the path of the door below it; ``query`` is decoded."""

    method: str
    path: P
    root: str
    mount: str
    query: tuple[tuple[str, str], ...] = ()
    raw_headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, scope: Scope, body: bytes, settings: Settings, *, path: P, mount: str) -> Self:
        """The request that an ASGI scope and body make. Raises ``bad_request`` for a query that is none."""
        return cls(
            method="GET" if scope["method"] == "HEAD" else scope["method"],
            path=path,
            root=base_url(scope, settings),
            mount=mount,
            query=_query(scope["query_string"], path.text),
            raw_headers=tuple(scope["headers"]),
            body=body,
            settings=settings,
        )

    @property
    def base(self) -> str:
        """The URL of this door."""
        return f"{self.root}{self.mount}"

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """One value each, one character per byte, by names in lower case."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.raw_headers}

    def values(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    @property
    def uri(self) -> str:
        """The parameter ``uri``. Raises ``bad_request`` if there is none, or several."""
        given = self.values("uri")
        if len(given) == 1 and given[0]:
            return given[0]
        raise self.wrong("the query needs one parameter uri, the percent-encoded URI of a version")

    @cached_property
    def json(self) -> JSONObject:
        """The body. Raises ``missing_body``, ``parsing_data``, and ``bad_request`` if it is no JSON object."""
        found = self.read_json()
        if isinstance(found, dict):
            return found
        raise self.wrong("the body needs to be a JSON object")

    def read_json(self) -> JSON:
        """The JSON in the body. Raises ``missing_body``, ``parsing_data``."""
        if not self.body:
            raise RegistryError("missing_body", subject=self.path.text)
        try:
            return parse_json(self.body, max_depth=self.settings.max_depth, unique=True)
        except JSONError as error:
            raise RegistryError("parsing_data", subject=self.path.text, error_detail=str(error)) from None

    def wrong(self, detail: str) -> RegistryError:
        """The error for a request that says something it must not."""
        return RegistryError("bad_request", subject=self.path.text, error_detail=detail)


def path_below(scope: Scope, mount: str) -> str:
    """The path below a door, still percent-encoded."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    text: str = raw.decode("latin-1").partition("?")[0]
    return text.removeprefix(scope.get("root_path", "")).removeprefix(mount)


def _query(raw: bytes, subject: str) -> tuple[tuple[str, str], ...]:
    try:
        text = raw.decode("ascii")
        return tuple(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS))
    except ValueError:
        detail = f"the query string is not percent-encoded UTF-8 of at most {_MOST_PARAMETERS} parameters"
        raise RegistryError("bad_request", subject=subject, error_detail=detail) from None


R = TypeVar("R", bound=CncfRequest[Any])

_LARGE: Final = 1 << 18


class CncfAPI(ABC, Generic[R]):
    """A draft's API; ``R`` is what it makes of a request, and ``writes`` the methods that are for writes.

    ``direct`` as for the door of xRegistry: the generation is asked on the event loop. Every method may raise what
    ``problem`` answers.
    """

    writes: ClassVar[frozenset[str]]

    def __init__(
        self, engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._workers = workers
        self._commits = commits
        self._direct = direct
        self._memory = ResponseCache()
        self._freshness = Freshness(engine.generation, workers)

    @abstractmethod
    def request(self, scope: Scope, body: bytes) -> R:
        """The request that an ASGI scope and body make."""

    @abstractmethod
    def subject(self, scope: Scope) -> str:
        """What an error says it is about."""

    @abstractmethod
    def check(self, view: View, request: R) -> None:
        """Raise ``api_not_found`` if the model of the registry has nothing for this draft."""

    @abstractmethod
    def methods(self, request: R, *, read_only: bool) -> tuple[str, ...]:
        """What a path takes; in a ``read_only`` registry only what reads."""

    @abstractmethod
    def read(self, view: View, request: R) -> Response:
        """The answer to a GET."""

    @abstractmethod
    def write(self, session: Session, request: R) -> Response:
        """Do a write that the path takes, and render the answer."""

    def options(self, view: View, request: R) -> Response:
        """What may be done at a path; a preflight is answered alike."""
        allow = ", ".join(self.methods(request, read_only=not is_mutable(view)))
        return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except Disconnected:
            return
        except asyncio.CancelledError:
            raise
        except Exception as error:
            answer = problem_response(error, self.subject(scope), self._allowed(scope, error))
        await send_response(answer, scope, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        if scope["method"] in self.writes:
            limit, timeout = self._settings.max_body_bytes, self._settings.body_timeout
            body = await read_body(scope, receive, self.subject(scope), limit=limit, timeout=timeout)
            write = partial(self._write, request=self.request(scope, body))
            return await self._commits.write(write, alone=len(body) > _LARGE)
        if scope["method"] not in ("GET", "HEAD"):
            return await self._workers.read(partial(self._options, self.request(scope, b"")))
        key = (base_url(scope, self._settings), scope.get("raw_path") or scope["path"], scope["query_string"])
        generation = self._engine.generation() if self._direct else await self._freshness.now()
        answer = self._memory.recall(key, generation)
        if answer is None:
            answer = with_etag(await self._workers.read(partial(self._read, self.request(scope, b""))))
            self._memory.keep(key, generation, answer)
        return if_modified(answer, scope["headers"])

    def _read(self, request: R) -> Response:
        with self._engine.reading() as view:
            self.check(view, request)
            return self.read(view, request)

    def _options(self, request: R) -> Response:
        if request.method != "OPTIONS":
            raise _unknown(request)
        with self._engine.reading() as view:
            self.check(view, request)
            return self.options(view, request)

    def _write(self, batch: Batch, request: R) -> Response:
        """All or nothing, the answer rendered before it commits."""
        if request.method not in self.methods(request, read_only=False):
            raise _unknown(request)
        with batch.writing() as session:
            self.check(session.view, request)
            if not is_mutable(session.view):
                raise ReadOnly("this registry is read-only")
            self._require(session.view, request)
            answer = self.write(session, request)
            told = (("xRegistry-xregcorrelationid", session.correlationid),) if session.changes else ()
            return Response(status=answer.status, headers=(*answer.headers, *told), body=answer.body)

    def _require(self, view: View, request: R) -> None:
        """The conditions of a write hold for what GET of its URL shows. Raises ``PreconditionFailed``."""
        if not has_conditions(request.raw_headers):
            return
        try:
            shown = with_etag(self.read(view, request)).etag
        except RegistryError:
            shown = ""
        check_conditions(request.raw_headers, shown, request.path.text)

    def _allowed(self, scope: Scope, error: Exception) -> tuple[str, ...]:
        """The methods that go with an error, where the one tried was wrong."""
        read_only = isinstance(error, ReadOnly)
        if read_only or (isinstance(error, RegistryError) and error.code == "action_not_supported"):
            return self.methods(self.request(scope, b""), read_only=read_only)
        return ()


def _unknown(request: CncfRequest[Any]) -> RegistryError:
    return RegistryError("action_not_supported", subject=request.path.text, action=request.method)


def is_mutable(view: View) -> bool:
    """Whether clients may write (C-37)."""
    return bool(view.capabilities["available"].get("entities", {}).get("mutable", False))
