"""Route requests to handlers and send their responses: the base classes of all API endpoints.

An endpoint is an ASGI application. It makes a response value from a request, or from the error that was raised, and
sends it. There are two kinds. ``PathEndpoint`` is a path with a handler for each method. ``EntityAPI`` is a whole API
on entities: its reads come from the cache or run in one read transaction, its writes are queued for a group commit.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from signalbook.access.audit import Audit
from signalbook.access.authentication import Authenticator
from signalbook.access.base import ANONYMOUS, NOTHING, Action, CredentialsNeeded, Forbidden, Unauthenticated
from signalbook.access.control import AccessControl
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.limits import TooManyRequests
from signalbook.access.sessions import SessionEnded
from signalbook.api.kernel.admission import Admission
from signalbook.api.kernel.caching import (
    CachedResponses,
    Freshness,
    OncePerTurn,
    RequestHeaders,
    check_conditions,
    has_conditions,
    if_modified,
    with_etag,
)
from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.compression import AT_ONCE, choose_coding, compress_response
from signalbook.api.kernel.cookies import SESSION
from signalbook.api.kernel.errors import NotAllowed, build_error_response
from signalbook.api.kernel.large_requests import LargeRequests
from signalbook.api.kernel.origins import READS, is_loopback
from signalbook.api.kernel.requests import Disconnected, HTTPRequest, LargeBody, base_url, read_body
from signalbook.api.kernel.responses import Header, Response, Sendable, build_options_response, format_laid_out
from signalbook.api.kernel.streaming import SpooledResponse, forbid_caching
from signalbook.engine.engine import Batch, Engine, Session
from signalbook.engine.read.view import View
from signalbook.engine.write.quotas import QuotaExceeded
from signalbook.errors import RegistryError
from signalbook.largejson import LARGE
from signalbook.metrics import HTTP
from signalbook.settings import Settings
from signalbook.storage.base import StorageBusy
from signalbook.work import Postponed, Work
from signalbook.xid import ROOT, Xid


class AnyPath(PathConvertor):
    """A converter for the rest of a path. Unlike ``{path:path}``, ``{path:any}`` also matches line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("any", AnyPath())

CORRELATION: Final = "xRegistry-xregcorrelationid"
"""The header of the response to a write that changed something."""
_MAX_TRIES: Final = 10
"""The maximum number of attempts of a write.

One attempt finds nearly all work that has to be postponed. More are needed if one result decides what has to be worked
out next, and whenever a schema that the documents refer to has changed.
"""
_STOPPED: Final = "this server stops: send the request again"
_STOPPED_WRITE: Final = "this server stops; whether the write was kept is unknown: read it again"
Handler = Callable[[HTTPRequest], Awaitable[Sendable]]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The parts that all APIs of a server process share.

    ``generation`` is set only if the store is ``direct``: then single entities may be read on the event loop. Use it
    for a store that responds from this process's memory and disk in microseconds, not for one across a network.
    Requests with large bodies are passed to ``large_requests``. ``held`` is called for every write; it raises if the
    write breaks the requirements that one API sets for all. ``small_work`` and ``large_work`` run work that writes
    postpone. They have separate, few threads, so that large work delays nothing else and does not slow down the
    process. ``trials`` run changes that are only tried, one at a time, since every reader may request many. ``issuers``
    run logins: a response may take seconds, and there are more threads than one address may use (``limit_reads``).
    """

    engine: Engine
    settings: Settings
    generation: Callable[[], Hashable] | None
    workers: Workers
    small_work: Workers
    large_work: Workers
    trials: Workers
    issuers: Workers
    commits: Commits[Batch]
    cache: CachedResponses = field(default_factory=CachedResponses)
    freshness: Freshness
    control: AccessControl
    authenticator: Authenticator
    admission: Admission
    audit: Audit
    large_requests: LargeRequests | None = None
    held: Callable[[Session], None] = lambda session: None  # noqa: ARG005
    decoding: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, 1))

    @classmethod
    def over(
        cls,
        engine: Engine,
        settings: Settings,
        *,
        direct: bool,
        control: AccessControl,
        audit: Audit,
        large_requests: LargeRequests | None = None,
        held: Callable[[Session], None] = lambda session: None,  # noqa: ARG005
    ) -> Kernel:
        """Return the kernel of a new server process. ``close`` ends its threads."""
        engine.listen_to_audit(audit.committed)
        workers = Workers(threads=settings.threads, timeout=settings.request_timeout)
        freshness = Freshness(engine.generation, workers)
        authenticator = Authenticator(engine.store, settings)
        generation = OncePerTurn(engine.store.generation) if direct else None
        exposed = not is_loopback(settings.host)
        admission = Admission(control, authenticator, workers, freshness, generation, audit, settings, exposed=exposed)
        engine.listen_to_access(admission.forget)
        return cls(
            engine=engine,
            settings=settings,
            generation=generation,
            workers=workers,
            small_work=Workers(threads=2, timeout=settings.request_timeout, name="work"),
            large_work=Workers(threads=1, timeout=settings.request_timeout, name="work"),
            trials=Workers(threads=1, timeout=settings.request_timeout, name="trial"),
            issuers=Workers(threads=8, timeout=settings.request_timeout, name="issuer"),
            commits=Commits(engine.batch, Batch.expect, timeout=settings.request_timeout),
            freshness=freshness,
            control=control,
            authenticator=authenticator,
            admission=admission,
            audit=audit,
            large_requests=large_requests,
            held=held,
        )

    @property
    def direct(self) -> bool:
        """True if single entities may be read on the event loop, because the store responds at once."""
        return self.generation is not None

    async def write(self, work: Callable[[Session], T], access: Access = UNRESTRICTED) -> T:
        """Run ``work`` in a write transaction, after the writes queued before. Raises what ``work`` or the commit
        raises."""

        def run(batch: Batch) -> T:
            with batch.writing(access) as session:
                return work(session)

        return await self.commit(run)

    async def commit(self, work: Callable[[Batch], T], *, alone: bool = False, about: Collection[Xid] = ()) -> T:
        """Run ``work`` in a group commit, as ``Commits.write`` does. Do work that it postpones, then try again.

        Raises what ``work`` and the commit raise, ``TooComplex``, ``OutOfTime``, and ``StorageBusy`` after too many
        attempts.
        """
        budget = Work(steps=self.settings.max_work, seconds=self.settings.work_timeout)

        def run(batch: Batch) -> T:
            with budget.in_turn():
                return work(batch)

        for _ in range(_MAX_TRIES):
            try:
                return await self.commits.write(run, alone=alone, about=about)
            except Postponed:
                await (self.large_work if budget.size > LARGE else self.small_work).read(budget.work_out)
        raise StorageBusy("what the documents refer to changed with every try; try again")

    async def decode(self, request: EntityRequest) -> None:
        """Prepare a request with a large body, one at a time: it takes many times its size in memory, and a thread for
        seconds."""
        async with self.decoding:
            await self.workers.read(request.prepare)

    def close(self) -> None:
        """Finish the running requests and end all threads."""
        if self.large_requests is not None:
            self.large_requests.close()
        self.commits.close()
        for workers in (self.workers, self.small_work, self.large_work, self.trials, self.issuers):
            workers.close()
        self.authenticator.usage.stop()


class Endpoint(ABC):
    """An ASGI application that responds to every request with one response value.

    If it is ``public``, callers are not identified and may always use it. If it is ``personal``, responses depend on
    the identity.
    """

    public = False
    personal = False

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        try:
            if self.public:
                scope["access"] = UNRESTRICTED
            else:
                await self.kernel.admission.admit(scope)
            reads = scope["method"] in READS
            response = await (self.respond(scope, receive) if reads else self._respond(scope, receive))
        except Disconnected:
            return
        except (Unauthenticated, Forbidden, TooManyRequests) as error:
            response = self._refuse(error, scope)
        except QuotaExceeded as error:
            self.kernel.admission.record_refusal(error, scope)
            response = self.failed(error, scope)
        except asyncio.CancelledError:  # only a stopping server cancels requests, after it has waited long enough
            response = self.failed(StorageBusy(_STOPPED if scope["method"] in READS else _STOPPED_WRITE), scope)
        except Exception as error:
            response = self.failed(error, scope)
        if self.personal or scope.get("session_secret"):
            response = self.completed(response, scope)
            # Other callers with the same rights and headers are other people.
            scope.pop("repeatable", None)
        if self.kernel.audit.reads and not self.public and scope["method"] in READS:
            self.kernel.admission.read(scope, response.status if isinstance(response, Response) else HTTPStatus.OK)
        if isinstance(response, Response):
            response = format_laid_out(response, scope["headers"])
            if name := choose_coding(response, scope["headers"]):
                response = await self._compress(response, name)
            if "repeatable" in scope and "target" in scope:
                scope["response"] = response
        await response.send(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive) -> Sendable:
        large = self.kernel.large_requests
        if large is None:
            return await self.respond(scope, receive)
        scope["spool"] = True
        try:
            return await self.respond(scope, receive)
        except LargeBody as body:
            answer = await large.respond(scope, body.file)
        self.kernel.admission.forget()
        return answer

    async def _compress(self, response: Response, name: str) -> Response:
        if len(response.body) <= AT_ONCE or name in response.encodings:
            return compress_response(response, name)
        try:
            return await self.kernel.workers.read(partial(compress_response, response, name))
        except StorageBusy:  # an uncompressed response is better than an error
            return response

    def completed(self, response: Sendable, scope: Scope) -> Sendable:
        """Complete a ``response``, which may have been made for another caller with the same rights.

        No cache may store a response for a session: caches do not treat cookies as credentials, as they do
        ``Authorization``.
        """
        access: Access | None = scope.get("access")
        return response if access is None or not access.identity.session else forbid_caching(response)

    @abstractmethod
    async def respond(self, scope: Scope, receive: Receive) -> Sendable:
        """Return the response to a request."""

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return the response to a request for which ``respond`` raised ``error``."""
        return build_error_response(error, self.subject(scope))

    def subject(self, scope: Scope) -> str:
        """Return the subject of an error."""
        path: str = scope["path"]
        return path

    def _refuse(self, error: Unauthenticated | Forbidden | TooManyRequests, scope: Scope) -> Response:
        """Return and record a refusal: 401 if credentials may help, else 403; 429 beyond a limit."""
        self.kernel.admission.record_refusal(error, scope)
        if isinstance(error, TooManyRequests):
            return self.failed(error, scope)
        if isinstance(error, Forbidden):
            if scope["access"].identity != ANONYMOUS:
                return self.failed(error, scope)
            error = CredentialsNeeded(str(error))
        response = self.failed(error, scope)
        headers = self.build_challenges(error, scope)
        if isinstance(error, SessionEnded):
            headers = (*headers, SESSION.removed(base_url(scope, self.kernel.settings)))
        return replace(response, headers=(*response.headers, *headers))

    def build_challenges(self, error: Unauthenticated, scope: Scope) -> tuple[Header, ...]:
        """Return the headers that list the accepted kinds of credentials."""
        return self.kernel.admission.build_challenges(base_url(scope, self.kernel.settings), error)


class PathEndpoint(Endpoint):
    """A path with a handler for each method. HEAD is added to GET unless ``head`` is False, and OPTIONS is always
    added.

    ``subject`` is the subject of errors; if it is empty, the path as it was sent. ``needs`` are actions that the caller
    must be allowed to do on at least one entity. ``explain`` turns an error of a handler and the subject into another
    error of the error catalogue; it returns other errors unchanged.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        kernel: Kernel,
        *,
        subject: str = "",
        head: bool = True,
        public: bool = False,
        needs: Action = NOTHING,
        explain: Callable[[Exception, str], Exception] = lambda error, _: error,
    ) -> None:
        super().__init__(kernel)
        self.public = public
        self._needs = needs
        self._subject = subject
        self._explain = explain
        self._handlers = dict(handlers)
        methods = list(handlers)
        if head and "GET" in handlers:
            self._handlers["HEAD"] = handlers["GET"]
            methods.insert(1, "HEAD")
        self._allow = tuple(methods) if "OPTIONS" in handlers else (*methods, "OPTIONS")

    def routes(self, path: str) -> list[Route]:
        """Return the routes for ``path``, with or without a trailing slash."""
        return [Route(path, self), Route(f"{path}/", self)]

    async def respond(self, scope: Scope, receive: Receive) -> Sendable:
        """Return the response of the method's handler. Raises ``NotAllowed``, ``Forbidden``."""
        method = scope["method"]
        if method == "OPTIONS" and method not in self._handlers:
            return build_options_response(self._allow)
        if method not in self._handlers:
            raise NotAllowed(subject=self.subject(scope), allow=self._allow, action=method)
        for action in self._needs:
            if not scope["access"].allows_somewhere(action):
                raise Forbidden(action, ROOT)
        return await self._handlers[method](HTTPRequest(scope, receive, self.kernel.settings, self._subject))

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return the response to an error that a handler raised."""
        subject = self.subject(scope)
        return build_error_response(self._explain(error, subject), subject)

    def subject(self, scope: Scope) -> str:
        """Return the subject of an error."""
        return self._subject or super().subject(scope)


def revalidate(handler: Handler) -> Handler:
    """Wrap a handler of GET: add an entity tag to its response, and return 304 if the client has this
    response already."""

    async def respond(request: HTTPRequest) -> Sendable:
        response = await handler(request)
        if not isinstance(response, Response):
            return response
        return if_modified(with_etag(response), request.scope["headers"])

    return respond


class EntityRequest(Protocol):
    """The part of an API's request that the kernel uses. ``method`` is GET for HEAD requests, too."""

    @property
    def method(self) -> str:
        """The method."""

    @property
    def raw_headers(self) -> RequestHeaders:
        """The headers as ASGI gives them, with a record of the headers that were read."""

    @property
    def subject(self) -> str:
        """The path as errors quote it."""

    @property
    def access(self) -> Access:
        """The rights of the caller."""

    def prepare(self) -> None:
        """Decode a large body. This takes long and needs no transaction."""


R = TypeVar("R", bound=EntityRequest)


class EntityAPI(Endpoint, Generic[R]):
    """An API on entities. ``R`` is its type of request, and ``writes`` are the methods that write.

    Every request is one transaction, with the response rendered before it commits. The methods below run in it, in a
    thread. Exceptions that they raise are passed to ``failed``.
    """

    writes: ClassVar[frozenset[str]]
    holds: ClassVar[bool] = False
    """True if the API's writes themselves enforce the requirements that ``Kernel.held`` enforces for other APIs."""

    @abstractmethod
    def request(self, scope: Scope, body: bytes) -> R:
        """Return the API's request for an ASGI scope and a body."""

    @abstractmethod
    def check(self, view: View, request: R) -> None:
        """Raise an error unless the path exists and supports the method."""

    @abstractmethod
    def options(self, view: View, request: R) -> Response:
        """Return the response to OPTIONS."""

    @abstractmethod
    def read(self, view: View, request: R) -> Response:
        """Return the response to GET."""

    @abstractmethod
    def write(self, session: Session, request: R) -> Response:
        """Do the changes of a write, and return the response."""

    async def respond(self, scope: Scope, receive: Receive) -> Sendable:
        """Return a response from the cache, a new response, or the response to a committed write."""
        method = scope["method"]
        if method in ("GET", "HEAD"):
            return await self._respond_from_cache(scope)
        if method not in self.writes:
            return await self.load(self.request(scope, b""))
        settings = self.kernel.settings
        limit, timeout = settings.max_body_bytes, settings.body_timeout
        body = await read_body(scope, receive, self.subject(scope), limit=limit, timeout=timeout)
        # A large write has a transaction of its own, so that no other write waits for it.
        large = len(body) > LARGE
        # Work that takes long and needs no transaction is done before the write is queued.
        request = await self.prepare(self.request(scope, body), large=large)
        work = partial(self._commit, request=request)
        return await self.kernel.commit(work, alone=large, about=self.about(request))

    async def prepare(self, request: R, *, large: bool) -> R:
        """Prepare a write before its turn, so that other writes do not wait for it."""
        if large:
            await self.kernel.decode(request)
        return request

    def about(self, request: R) -> Collection[Xid]:  # noqa: ARG002  for those that override it
        """Return xids of entities that the write will read. Those of all writes waiting together are read with one
        query."""
        return ()

    async def load(self, request: R) -> Sendable:
        """Return a new response to a request that only reads."""
        return await self.kernel.workers.read(partial(self.read_now, request))

    def read_now(self, request: R) -> Response:
        """Return a new response to a request that only reads. Call this in a thread, because it may block."""
        with self.kernel.engine.reading(request.access) as view:
            self.check(view, request)
            return self.options(view, request) if request.method == "OPTIONS" else self.read(view, request)

    def admit(self, view: View, request: R) -> None:
        """Raise an error unless the write's path supports it and its conditions hold for the current GET response of
        its URL."""
        self.check(view, request)
        conditions = request.raw_headers.conditions
        if not has_conditions(conditions):
            return
        try:
            current_etag = with_etag(self.read(view, request)).etag
        except RegistryError:  # there is nothing yet
            current_etag = ""
        check_conditions(conditions, current_etag, request.subject)

    async def _respond_from_cache(self, scope: Scope) -> Sendable:
        # A response from memory costs a few microseconds: no thread, no routing, no parsing of the request.
        kernel = self.kernel
        path = (scope["path"], scope.get("raw_path"), scope["query_string"])
        key = (base_url(scope, kernel.settings), *path, scope["access"].key)
        # Read the generation first: after a commit in between, the response is newer than its generation, never older.
        generation = await kernel.freshness.now() if kernel.generation is None else kernel.generation()
        response = kernel.cache.get(key, generation, scope["headers"])
        if response is not None:
            HTTP.hits += 1
            scope["repeatable"] = generation, b""
        else:
            HTTP.misses += 1
            request = self.request(scope, b"")
            loaded = await self._load_in_turn(scope, request)
            # A response that is sent while it is made is neither cached nor tagged here.
            if not isinstance(loaded, Response):
                return loaded
            response = with_etag(loaded)
            read = request.raw_headers.names_read
            kernel.cache.put(key, generation, response, scope["headers"], names_read=read)
        return if_modified(response, scope["headers"])

    async def _load_in_turn(self, scope: Scope, request: R) -> Sendable:
        """Return a new response to a read. A read of many entities first waits for the caller's turn."""
        turn = None if self.is_point_read(request) else await self.kernel.admission.turn(scope)
        if turn is None:
            return await self.load(request)
        lasting = False
        try:
            response = await self.load(request)
            if isinstance(response, SpooledResponse):
                response.call_when_sent(turn.release)
                lasting = True
            return response
        finally:
            if not lasting:
                turn.release()

    def is_point_read(self, request: R) -> bool:  # noqa: ARG002  for those that override it
        """Return True if a request reads only a few entities."""
        return False

    def _commit(self, batch: Batch, request: R) -> Response:
        with batch.writing(request.access) as session:
            self.admit(session.view, request)
            # Rendered in the transaction: if rendering the response fails, the write is undone (R22).
            response = self.write(session, request)
            if not session.changes:
                return response
            if not self.holds:
                self.kernel.held(session)
            return replace(response, headers=(*response.headers, (CORRELATION, session.correlationid)))
