"""The APIs of both Message Catalog drafts: what each path takes, and what it does."""

from __future__ import annotations

from typing import Final

from starlette.routing import Route
from starlette.types import Scope

from signalbook.api.cncf import CncfAPI
from signalbook.api.kernel.commits import Commits, Workers
from signalbook.api.kernel.responses import Response
from signalbook.api.messagecatalog import first_draft, v01
from signalbook.api.messagecatalog.catalog import CatalogDraft, CatalogWriter, open_catalog
from signalbook.api.messagecatalog.requests import FIRST, MOUNTS, V01, CatalogRequest, CatalogTarget, read_request
from signalbook.engine.engine import Batch, Engine, Session
from signalbook.engine.read.view import View
from signalbook.engine.write.commands import Method
from signalbook.settings import Settings

_DIALECTS: Final = {FIRST: first_draft.DIALECT, V01: v01.DIALECT}


def routes(
    engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
) -> list[Route]:
    """Every path below the two doors. ``direct`` as for ``DraftDoor``."""
    doors = {
        mount: MessageCatalogAPI(engine, settings, workers, commits, direct=direct, mount=mount) for mount in MOUNTS
    }
    return [Route(f"{mount}/{{path:path}}", door) for mount, door in doors.items()]


class MessageCatalogAPI(CncfAPI[CatalogRequest]):
    """One draft's API at the path ``mount``."""

    writes = frozenset(method.value for method in Method)

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        workers: Workers,
        commits: Commits[Batch],
        *,
        direct: bool,
        mount: str,
    ) -> None:
        super().__init__(engine, settings, workers, commits, direct=direct)
        self._mount = mount
        self._dialect: CatalogDraft = _DIALECTS[mount]

    def request(self, scope: Scope, body: bytes) -> CatalogRequest:
        return read_request(scope, body, self._settings, self._mount)

    def subject(self, scope: Scope) -> str:
        path: str = scope["path"]
        return path

    def check(self, view: View, request: CatalogRequest) -> None:
        open_catalog(view, request)

    def methods(self, request: CatalogRequest, *, read_only: bool) -> tuple[str, ...]:
        return self._dialect.methods(request.path.place, read_only=read_only)

    def read(self, view: View, request: CatalogRequest) -> Response:
        return self._dialect.reads[request.path.place](open_catalog(view, request), request)

    def write(self, session: Session, request: CatalogRequest) -> Response:
        return self._dialect.writes[request.method, request.path.place](CatalogWriter(session, request), request)

    def options(self, view: View, request: CatalogRequest) -> Response:
        """Of the catalog its features beside (C-27)."""
        answer = super().options(view, request)
        if self._dialect.features is None or request.path.place is not CatalogTarget.CATALOG:
            return answer
        told = self._dialect.features(open_catalog(view, request), request)
        return Response(headers=(*told.headers, *answer.headers), body=told.body)
