"""The APIs of both Message Catalog drafts: their mounts and routes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from starlette.routing import Route
from starlette.types import Scope

from signalbook.api.cncf import CncfAPI, path_below
from signalbook.api.kernel.responses import Response
from signalbook.api.kernel.routing import Kernel
from signalbook.api.messagecatalog import first_draft, v01
from signalbook.api.messagecatalog.catalog import (
    CATALOG,
    FIRST,
    V01,
    CatalogRequest,
    CatalogView,
    CatalogWriter,
    Read,
    Routes,
    parse_path,
)
from signalbook.engine.engine import Session
from signalbook.engine.read.view import View
from signalbook.engine.write.commands import Method
from signalbook.xid import Xid

_DRAFTS: Final[dict[str, tuple[Routes, Read | None]]] = {
    FIRST: (first_draft.ROUTES, None),
    V01: (v01.ROUTES, v01.features),
}
"""The routes of each mount, and the handler for the features that OPTIONS of the catalog also returns, if any."""


def routes(kernel: Kernel) -> list[Route]:
    """Return the routes of both APIs."""
    return [Route(f"{mount}/{{path:any}}", MessageCatalogAPI(kernel, mount)) for mount in _DRAFTS]


class MessageCatalogAPI(CncfAPI[CatalogRequest]):
    """The API of a draft at the path ``mount``."""

    writes = frozenset(method.value for method in Method)

    def __init__(self, kernel: Kernel, mount: str) -> None:
        super().__init__(kernel)
        self._mount = mount
        self._routes, self._features = _DRAFTS[mount]

    def request(self, scope: Scope, body: bytes) -> CatalogRequest:
        path = parse_path(path_below(scope, self._mount))
        return CatalogRequest.of(scope, body, self.kernel.settings, path=path, mount=self._mount)

    def check_model(self, view: View, request: CatalogRequest) -> None:
        CatalogView(view, request)

    def methods(self, request: CatalogRequest, *, read_only: bool) -> tuple[str, ...]:
        writes = () if read_only else self._routes[request.path.template].writes
        return ("GET", "HEAD", "OPTIONS", *sorted(writes))

    def target(self, request: CatalogRequest) -> Xid:
        return request.path.xid

    def read(self, view: View, request: CatalogRequest) -> Response:
        return self._routes[request.path.template].read(CatalogView(view, request), request)

    def write(self, session: Session, request: CatalogRequest) -> Response:
        write = self._routes[request.path.template].writes[request.method]
        return write(CatalogWriter(session, request), request)

    def options(self, view: View, request: CatalogRequest) -> Response:
        """Return the methods, and for the catalog also its features (C-27)."""
        response = super().options(view, request)
        if self._features is None or request.path.template != CATALOG:
            return response
        features = self._features(CatalogView(view, request), request)
        return replace(features, headers=(*features.headers, *response.headers))
