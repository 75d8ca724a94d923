"""What the xRegistry API does with a request: check, run, render."""

from __future__ import annotations

import logging
from typing import Final

from signalbook.api.kernel.caching import check_conditions, has_conditions, with_etag
from signalbook.api.kernel.responses import Response, json_response
from signalbook.api.openapi.document import describe
from signalbook.api.xregistry.requests import ALWAYS_THERE, RegistryRequest, check_path, check_specversion
from signalbook.api.xregistry.responses import (
    document_response,
    entity_response,
    limited,
    tree_response,
    write_response,
)
from signalbook.engine.config import capabilities
from signalbook.engine.engine import Batch, Engine, Session
from signalbook.engine.read.view import View
from signalbook.engine.write.commands import WriteResult
from signalbook.errors import RegistryError
from signalbook.values import JSONObject

_LOG: Final = logging.getLogger("signalbook.api")
_LOGGED: Final = 20


def answer(engine: Engine, request: RegistryRequest) -> Response:
    """The answer to a request that only reads. Raises ``RegistryError``."""
    with engine.reading() as view:
        check(view, request)
        return options(view, request) if request.method == "OPTIONS" else read(view, request)


def write(batch: Batch, request: RegistryRequest) -> Response:
    """Execute the command all or nothing, and render the answer before it commits (R22).

    Raises ``RegistryError``; then nothing has changed.
    """
    with batch.writing() as session:
        result = execute(session, request)
        for finding in result.findings[:_LOGGED]:
            _LOG.warning("%s %r: %r", request.method, request.path.text, str(finding))
        return write_response(session, request, result)


def execute(session: Session, request: RegistryRequest) -> WriteResult:
    """What a write does within its transaction. Raises ``RegistryError``, ``PreconditionFailed``."""
    check(session.view, request)
    require(session.view, request)
    return session.execute(request.command(session.view))


def require(view: View, request: RegistryRequest) -> None:
    """The conditions of a write hold for what GET of its URL shows. Raises ``PreconditionFailed``."""
    if not has_conditions(request.raw_headers):
        return
    try:
        shown = with_etag(read(view, request)).etag
    except RegistryError:
        shown = ""
    check_conditions(request.raw_headers, shown, request.path.text)


def read(view: View, request: RegistryRequest) -> Response:
    """GET of an entity or a collection, or of what lies beside them."""
    if request.path.name == "export":
        return tree_response(view, request, view.export_options(request.options(view, request.path.target)))
    if request.path.name:
        return limited(json_response(_named(view, request)), request)
    if request.document_type(view) is not None:
        return document_response(view, request, request.path.target)
    if request.spool is not None:
        return tree_response(view, request, request.options(view, request.path.target))
    return entity_response(view, request, request.path.target)


def options(view: View, request: RegistryRequest) -> Response:
    """What may be done at this path (R138)."""
    allow = ", ".join(request.path.methods(view.model))
    return Response(headers=(("Allow", allow), ("Access-Control-Allow-Methods", allow)))


def check(view: View, request: RegistryRequest) -> None:
    """The path exists and takes the method, and the server speaks the version asked for.

    Raises ``not_found``, ``malformed_id``, ``not_available``, ``action_not_supported``, ``details_required``,
    ``unsupported_specversion``.
    """
    path, query = request.path, request.query.supported(view.capabilities)
    check_path(path, view.model)
    if request.method != "GET" and request.method not in path.methods(view.model):
        if request.method == "PATCH" and path.type(view.model) is not None:
            raise RegistryError("details_required", subject=str(path.target))
        raise RegistryError("action_not_supported", subject=path.text, action=request.method)
    check_specversion(query.specversion, view.capabilities["specversions"], subject=path.text)
    if path.name and path.name not in ALWAYS_THERE:
        capabilities.require_available(view.capabilities, path.name)


def _named(view: View, request: RegistryRequest) -> JSONObject:
    match request.path.name:
        case "model":
            return view.model.document
        case "modelsource":
            return view.modelsource()
        case "capabilities":
            return view.capabilities
        case "capabilitiesoffered":
            return capabilities.offered()
        case "openapi.json":
            flags, paged = tuple(view.capabilities["flags"]), view.capabilities["pagination"]
            return describe(view.model, flags, paged=paged, base_url=request.base_url)
        case _:
            return {"registries": [f"{request.base_url}/"]}


def allowed(engine: Engine, request: RegistryRequest) -> tuple[str, ...]:
    """The methods of the request's path, to go with 405."""
    with engine.reading() as view:
        return request.path.methods(view.model)
