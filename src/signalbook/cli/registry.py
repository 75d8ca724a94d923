"""The registry a command works on: a server, or a database in this very process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from signalbook import settings
from signalbook.errors import RegistryError, SignalbookError
from signalbook.values import JSON, JSONObject
from signalbook.xid import ROOT, Xid

if TYPE_CHECKING:
    from signalbook.documents import Upload
    from signalbook.engine.engine import Engine

ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The registry at this URL.", show_default=False)
]
DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help=f"The registry in this database (default {settings.Settings.db}).",
        show_default=False,
    ),
]
_SQLITE_FILE: Final = "sqlite:///"


class Registry(Protocol):
    """What import and export ask of a registry; ``client.Client`` is one."""

    def import_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Upload:
        """As ``client.Client.import_document``."""

    def export(self, target: Xid) -> JSONObject:
        """As ``client.Client.export``."""

    def model(self) -> JSONObject:
        """The full model."""


@contextmanager
def open_registry(server: str | None, db: str | None, *, create: bool) -> Iterator[Registry]:
    """The registry that the options name, by default that of the setting ``db``.

    ``create`` allows to make a new one where there is none. Raises ``SignalbookError``, and ``typer.BadParameter`` if
    both options are given.
    """
    if server is not None and db is not None:
        raise typer.BadParameter("give one of --server and --db, not both")
    if server is not None:
        from signalbook.client import Client

        # Twice as long as a server waits for its database: its word on that is better than ours.
        with Client(server, timeout=2 * settings.Settings.request_timeout) as client:
            yield client
        return
    with _local(settings.load({"db": db}, environ=os.environ), create=create) as registry:
        yield registry


@contextmanager
def _local(given: settings.Settings, *, create: bool) -> Iterator[Registry]:
    from signalbook.engine.engine import Engine
    from signalbook.storage import open_store

    file = Path(given.db.removeprefix(_SQLITE_FILE).partition("?")[0])
    if not create and given.db.startswith(_SQLITE_FILE) and not file.exists():
        raise SignalbookError(f"there is no registry at {file}: import something first, or name one: --server or --db")
    store = open_store(given.db, timeout=given.request_timeout)
    try:
        yield LocalRegistry(Engine(store, settings=given))
    finally:
        store.close()


class LocalRegistry:
    """A registry run by this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def import_document(self, document: JSON, *, ignore: Sequence[str] = ()) -> Upload:
        """As the client's: one PATCH, in one transaction; who may open the database may do all an admin may."""
        from signalbook.documents import aim, extend_model
        from signalbook.engine.capabilities import resolve_ignore
        from signalbook.engine.commands import Command, Flags, Method

        upload = aim(document)
        with self._engine.writing(admin=True) as session:
            if "modelsource" in upload.body and upload.target == ROOT:
                upload = extend_model(upload, session.view.modelsource())
            names = resolve_ignore(session.view.capabilities, [*upload.ignore, *ignore], upload.target)
            flags = Flags(ignore=names)
            session.execute(Command(method=Method.PATCH, target=upload.target, body=upload.body, flags=flags))
        return upload

    def export(self, target: Xid) -> JSONObject:
        """As the client's."""
        from signalbook.engine import inline
        from signalbook.engine.view import ViewOptions

        with self._engine.reading() as view:
            if target == ROOT:
                return view.export(ViewOptions(doc=True))
            if view.model.group_type(target) is None or (target.resource_type and not view.model.resource_type(target)):
                raise RegistryError("not_found", subject=str(target))
            options = ViewOptions(doc=True, inline=inline.ALL)
            return view.collection(target, options) if target.is_collection else view.entity(target, options)

    def model(self) -> JSONObject:
        """The full model."""
        with self._engine.reading() as view:
            return view.model.document
