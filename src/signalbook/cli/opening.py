"""The registry a command works on: a server, or a database in this very process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from signalbook import settings
from signalbook.cli.registry import Registry
from signalbook.errors import SignalbookError

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


@contextmanager
def open_registry(server: str | None, db: str | None, *, create: bool) -> Iterator[Registry]:
    """The registry that the options name, by default that of the setting ``db``.

    ``create`` allows to make a new one where there is none. Raises ``SignalbookError``, and ``typer.BadParameter`` if
    both options are given.
    """
    if server is not None and db is not None:
        raise typer.BadParameter("give one of --server and --db, not both")
    if server is not None:
        from signalbook.cli.remote import RemoteRegistry
        from signalbook.client import Client

        # Twice as long as a server waits for its database: its word on that is better than ours.
        with Client(server, timeout=2 * settings.Settings.request_timeout) as client:
            yield RemoteRegistry(client)
        return
    with _local(settings.load({"db": db}, environ=os.environ), create=create) as registry:
        yield registry


@contextmanager
def _local(given: settings.Settings, *, create: bool) -> Iterator[Registry]:
    from signalbook.cli.local import LocalRegistry
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
