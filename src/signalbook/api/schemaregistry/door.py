"""The door: what each path takes, and what it does."""

from __future__ import annotations

from starlette.routing import Route
from starlette.types import Scope

from signalbook.api.answers import Response
from signalbook.api.commits import Commits
from signalbook.api.drafts.door import CncfAPI
from signalbook.api.drafts.requests import path_below
from signalbook.api.schemaregistry import handlers
from signalbook.api.schemaregistry.requests import MOUNT, SchemaRequest, read_request
from signalbook.api.workers import Workers
from signalbook.engine.engine import Batch, Engine, Session
from signalbook.engine.view import View
from signalbook.settings import SettingError, Settings


def routes(
    engine: Engine, settings: Settings, workers: Workers, commits: Commits[Batch], *, direct: bool
) -> list[Route]:
    """The door where it is mounted. ``direct`` as for ``DraftDoor``.

    Raises ``SettingError`` for a ``strict_openapi`` that is none.
    """
    if settings.strict_openapi not in ("off", "on"):
        raise SettingError(f"strict_openapi is off or on, not {settings.strict_openapi!r}")
    door = SchemaRegistryAPI(engine, settings, workers, commits, direct=direct)
    return [Route(MOUNT, door), Route(f"{MOUNT}/{{path:path}}", door)]


class SchemaRegistryAPI(CncfAPI[SchemaRequest]):
    """The Schema Registry API 0.2."""

    writes = frozenset(method for _, method in handlers.WRITES)

    def request(self, scope: Scope, body: bytes) -> SchemaRequest:
        return read_request(scope, body, self._settings)

    def subject(self, scope: Scope) -> str:
        return path_below(scope, MOUNT)

    def check(self, view: View, request: SchemaRequest) -> None:
        handlers.check(view, request)

    def methods(self, request: SchemaRequest, *, read_only: bool) -> tuple[str, ...]:
        place = request.path.place
        writes = () if read_only else (method for where, method in handlers.WRITES if where is place)
        return ("GET", "HEAD", *writes, "OPTIONS")

    def read(self, view: View, request: SchemaRequest) -> Response:
        return handlers.READS[request.path.place](view, request)

    def write(self, session: Session, request: SchemaRequest) -> Response:
        return handlers.WRITES[request.path.place, request.method](session, request)
