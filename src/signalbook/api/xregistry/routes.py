"""The xRegistry API, ``/check``, which tries a write and undoes it (R135), and host-based discovery (R140)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final
from urllib.parse import parse_qs

from starlette.routing import Route
from starlette.types import Scope

from signalbook.access.base import Action, Forbidden
from signalbook.api.kernel.admission import list_allowed_methods
from signalbook.api.kernel.errors import NO_STORE, NotAllowed
from signalbook.api.kernel.requests import HTTPRequest, raw_path
from signalbook.api.kernel.responses import Response, Sendable, build_options_response, json_response
from signalbook.api.kernel.routing import EntityAPI, Kernel, PathEndpoint, revalidate
from signalbook.api.kernel.streaming import Abandoned, SpooledResponse
from signalbook.api.openapi.document import describe
from signalbook.api.registrypaths import ALWAYS_THERE
from signalbook.api.xregistry.requests import (
    WRITES,
    RegistryRequest,
    check_path,
    check_specversion,
    explain_missing_entity,
    path_text,
    read_request,
)
from signalbook.api.xregistry.responses import (
    build_document_response,
    build_entity_response,
    build_tree_response,
    check_size,
    write_response,
)
from signalbook.engine import capabilities
from signalbook.engine.engine import Batch, Session
from signalbook.engine.read.view import View
from signalbook.engine.write.commands import Method
from signalbook.errors import RegistryError
from signalbook.fetching import AllowList, Errand
from signalbook.formats.compatibility import RULES
from signalbook.largejson import LARGE
from signalbook.storage.base import StorageBusy
from signalbook.values import JSONObject
from signalbook.verdict import Verdict
from signalbook.xid import ROOT, Xid

DISCOVERY: Final = "/.well-known/xregistry"
CHECK: Final = "/check"
_LOG: Final = logging.getLogger("signalbook.api")
_LOGGED_FINDINGS: Final = 20
_SERVER_ERROR: Final = 500
_READS: Final = ("GET", "HEAD", "OPTIONS")


class XRegistryAPI(EntityAPI[RegistryRequest]):
    """The xRegistry API. It handles all paths that belong to no other API."""

    writes = WRITES

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._under_way = 0
        self._fetched_from = AllowList(kernel.settings.allow_fetch)
        self._fetching = asyncio.Semaphore(1)

    def routes(self) -> list[Route]:
        """Return the routes with fixed paths: the check of writes, and discovery."""
        check = CheckEndpoint(self)
        discovery = PathEndpoint({"GET": revalidate(_list_registries)}, self.kernel, subject=DISCOVERY, public=True)
        return [Route(CHECK, check), Route(f"{CHECK}/{{path:any}}", check), *discovery.routes(DISCOVERY)]

    def request(self, scope: Scope, body: bytes) -> RegistryRequest:
        return read_request(scope, body, self.kernel.settings)

    def about(self, request: RegistryRequest) -> tuple[Xid, ...]:
        """Return the xid of the Resource in the path, if there is one."""
        target = request.path.target
        return (Xid(target.parts[:4]),) if target.resource_id else ()

    def check(self, view: View, request: RegistryRequest) -> None:
        """Raise an error unless the path exists and supports the method, and the requested version is supported.

        Raises ``not_found``, ``malformed_id``, ``not_available``, ``action_not_supported``, ``details_required``,
        ``unsupported_specversion``, and ``Forbidden``.
        """
        path, query = request.path, request.query.supported(view.capabilities)
        # Check access first: the names of types are visible only to callers who can read something.
        if not path.name and not request.access.is_readable(ROOT):
            if request.method in WRITES:
                raise Forbidden(Action.UPDATE, path.target)
            if not path.target.parts:
                # The caller knows that the server exists, and "not found" would suggest a wrong URL.
                request.access.require(Action.READ, ROOT)
            raise RegistryError("not_found", subject=str(ROOT))
        check_path(path, view.model)
        allow = path.methods(view.model)
        if request.method not in allow:
            if request.method == "PATCH" and path.type(view.model) is not None:
                raise NotAllowed("details_required", subject=str(path.target), allow=allow)
            raise NotAllowed(subject=path.text, allow=allow, action=request.method)
        check_specversion(query.specversion, view.capabilities["specversions"], subject=path.text)
        if path.name and path.name not in ALWAYS_THERE:
            capabilities.require_available(view.capabilities, path.name)

    def read_now(self, request: RegistryRequest) -> Response:
        """Return the response to a request. This may block.

        OPTIONS of a path reveals types of the model. So callers that can read nothing get the same response for every
        path, and no 404, because browsers send OPTIONS without credentials.
        """
        if request.method == "OPTIONS" and not request.access.is_readable(ROOT):
            return build_options_response((*_READS, *sorted(WRITES)), _READS)
        return super().read_now(request)

    def options(self, view: View, request: RegistryRequest) -> Response:
        """Return the methods of this path (R138)."""
        path = request.path
        mutable = capabilities.is_mutable(view.capabilities, path.capability)
        methods = [m for m in path.methods(view.model) if mutable or m not in WRITES]
        if path.capability == "entities":
            return build_options_response(methods, list_allowed_methods(request.access, path.target, methods))
        configures = request.access.may(Action.CONFIGURE, ROOT)
        return build_options_response(methods, [m for m in methods if configures or m not in WRITES])

    def read(self, view: View, request: RegistryRequest) -> Response:
        """Return the response to GET of an entity, a collection, or another document of the registry."""
        with _explain_missing(view, request):
            return self._read(view, request)

    def _read(self, view: View, request: RegistryRequest) -> Response:
        if request.path.name:
            view.access.require(Action.READ, ROOT)
        if request.path.name == "export":
            return build_tree_response(view, request, view.export_options(request.options(view, request.path.target)))
        if request.path.name:
            return check_size(json_response(_load_named_document(view, request)), request)
        if request.find_document_type(view) is not None:
            if request.query.supported(view.capabilities).collections:
                raise RegistryError("bad_flag", subject=request.subject, flag="collections")
            return build_document_response(view, request, request.path.target)
        if request.spool is not None:
            return build_tree_response(view, request, request.options(view, request.path.target))
        return build_entity_response(view, request, request.path.target)

    def write(self, session: Session, request: RegistryRequest) -> Response:
        """Execute the command completely or not at all, and render the response before it commits (R22)."""
        with _explain_missing(session.view, request):
            result = session.execute(request.command(session.view))
        logged = (finding for finding in result.findings if finding.severity != "info")
        for finding in islice(logged, _LOGGED_FINDINGS):
            _LOG.warning("%s %r: %r", request.method, request.path.text, str(finding))
        return write_response(session, request, result)

    def failed(self, error: Exception, scope: Scope) -> Response:
        """Return the response to an error of a request."""
        if isinstance(error, RegistryError):
            error.about_request(path_text(raw_path(scope)))
        return super().failed(error, scope)

    def is_point_read(self, request: RegistryRequest) -> bool:
        """Return True if the request reads one entity."""
        return request.is_small

    async def load(self, request: RegistryRequest) -> Sendable:
        """Return a new response. Point reads run on the event loop if the store is direct, except documents, which may
        be large."""
        request = await self._complete_path(request)
        if self.kernel.direct and request.is_quick:
            return self.read_now(request)
        if request.is_small:
            return await super().load(request)
        return await self._load_large(request)

    async def _complete_path(self, request: RegistryRequest) -> RegistryRequest:
        """Return a request with a short path with its full path (R32).

        The path is read separately, which is safe because an entity keeps its storage key.
        """
        return (
            request if request.path.short is None else await self.kernel.workers.read(partial(self._load_full, request))
        )

    def _load_full(self, request: RegistryRequest) -> RegistryRequest:
        with self.kernel.engine.reading(request.access) as view:
            return request.in_full(view)

    async def _load_large(self, request: RegistryRequest) -> Sendable:
        """Return a response whose body may be too large for memory. Such a body is sent while it is made."""
        settings = self.kernel.settings
        spool = SpooledResponse(timeout=settings.answer_timeout)
        running = asyncio.ensure_future(super().load(replace(request, spool=spool)))
        try:
            await asyncio.wait((running, spool.begun), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            spool.abandon()
            raise
        # The response was small, or failed before anything was sent: return the response, or raise the error.
        if not spool.begun.done():
            return running.result()
        running.add_done_callback(partial(_log_failure, request.path.text))
        if self._under_way >= settings.threads:  # each large response fills a file
            spool.abandon()
            raise StorageBusy(f"{self._under_way} large responses are under way; try again")
        self._under_way += 1
        spool.call_when_sent(self._count_sent)
        return spool

    def _count_sent(self) -> None:
        self._under_way -= 1

    async def prepare(self, request: RegistryRequest, *, large: bool) -> RegistryRequest:
        """Fetch the documents that a model in the body includes, for one request at a time."""
        request = await self._complete_path(request)
        if request.includes:
            # Nothing is fetched for callers that may not change the model.
            request.access.require(Action.CONFIGURE, ROOT)
            async with self._fetching:
                request = await self.kernel.workers.read(lambda: request.gather(Errand(self._fetched_from).load))
        return await super().prepare(request, large=large)


@contextmanager
def _explain_missing(view: View, request: RegistryRequest) -> Iterator[None]:
    """Add the name of the missing part of the path to a ``not_found`` error."""
    try:
        yield
    except RegistryError as error:
        if error.code == "not_found" and not error.detail:
            error.detail = explain_missing_entity(request.path.target, view)
        raise


def _load_named_document(view: View, request: RegistryRequest) -> JSONObject:
    match request.path.name:
        case "model":
            return view.model.document
        case "modelsource":
            return view.modelsource()
        case "capabilities":
            return view.capabilities
        case "capabilitiesoffered":
            return capabilities.list_offered()
        case "openapi.json":
            return describe(view.model, view.capabilities, base_url=request.base_url)
        case _:
            return {"registries": [request.base_url]}


async def _list_registries(request: HTTPRequest) -> Response:
    """Return the registries on this host."""
    return json_response({"registries": [request.root]})


def _log_failure(subject: str, running: asyncio.Future[Sendable]) -> None:
    """Log the failure of a response that has begun. The client sees only that the connection ends early."""
    error = running.exception()
    if error is not None and not isinstance(error, Abandoned):
        _LOG.error("the response for %r ended before its end", subject, exc_info=error)


class CheckEndpoint(PathEndpoint):
    """Tries any write with ``/check`` in front of its path, reports the result and undoes the write.

    Method, body, headers and flags are those of the write itself, so every client that can send a write can check it.
    The check is queued like a write.
    """

    def __init__(self, api: XRegistryAPI) -> None:
        super().__init__({method.value: self._try for method in Method}, api.kernel)
        self._api = api

    async def _try(self, request: HTTPRequest) -> Response:
        rule = _read_rule(request)
        kernel = self._api.kernel
        body = await request.body(kernel.settings.max_body_bytes, required=False)
        try:
            write = read_request(_strip_check(request.scope), body, kernel.settings)
        # An invalid path or invalid flags are the verdict: the write itself would be refused for them.
        except RegistryError as error:
            return _build_verdict_response(Verdict.refused(error))
        large = len(body) > LARGE
        if large:
            try:
                await kernel.decode(write)
            except RegistryError as error:
                return _build_verdict_response(Verdict.refused(error))
        run = partial(self._try_write, request=write, rule=rule)
        return _build_verdict_response(await kernel.commit(run, alone=large))

    def _try_write(self, batch: Batch, request: RegistryRequest, rule: str | None) -> Verdict:
        """Execute the write and undo it. ``rule`` replaces the compatibility rule of every Resource unless it is None.

        Raises ``RegistryError`` for errors that are not the request's.
        """
        try:
            # The block undoes all changes made in it, whether it ends normally or by an error.
            with batch.trying(rule, request.access) as session:
                request = request.in_full(session.view)
                self._api.admit(session.view, request)
                result = session.execute(request.command(session.view))
                changes = tuple(change.to_json() for change in session.changes)
                return Verdict(changes=changes, findings=(*result.findings, *session.doubts))
        except RegistryError as error:
            if error.status >= _SERVER_ERROR:
                raise
            error.about_request(request.path.text)
            return Verdict.refused(error)


def _build_verdict_response(verdict: Verdict) -> Response:
    return json_response(verdict.to_json(), headers=(NO_STORE,))


def _strip_check(scope: Scope) -> Scope:
    """Return ``scope`` with the path of the write itself, without ``/check``."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8")
    root = scope.get("root_path", "")
    behind = raw.removeprefix(root.encode("utf-8")).removeprefix(CHECK.encode("ascii"))
    return {**scope, "raw_path": root.encode("utf-8") + (behind or b"/")}


def _read_rule(request: HTTPRequest) -> str | None:
    """Return the flag ``compatibility``. Raises ``bad_flag``."""
    query = request.scope["query_string"].decode("latin-1")
    values: list[str] | None = parse_qs(query, keep_blank_values=True).get("compatibility")
    if values is None:
        return None
    if len(values) != 1 or values[0].casefold() not in RULES:
        detail = f"it is one of {', '.join(RULES)}"
        raise RegistryError("bad_flag", subject=request.path, flag="compatibility", detail=detail)
    return values[0].casefold()
