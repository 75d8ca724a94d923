"""The registry a command works on: a server (``--server``), or a database that this process opens (``--db``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer
from typer import Option

from signalbook import settings
from signalbook.errors import SignalbookError
from signalbook.xid import Xid, XidError

if TYPE_CHECKING:
    from signalbook.client import Client
    from signalbook.client.registry import Registry
    from signalbook.engine.engine import Engine


SERVER_VARIABLE: Final = "SIGNALBOOK_SERVER"
ServerOption = Annotated[
    str | None,
    Option("--server", metavar="URL", help=f"The registry at this URL. Default without --db: {SERVER_VARIABLE}."),
]
RunningServerOption = Annotated[
    str | None,
    Option(
        "--server",
        metavar="URL",
        help=f"The registry at this URL. Default: {SERVER_VARIABLE}, else the settings host and port.",
    ),
]
DbOption = Annotated[
    str | None, Option("--db", metavar="URL", help=f"The registry in this database (default {settings.Settings.db}).")
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]
RegistryOption = Annotated[str, Option("--registry", metavar="URL|FILE|DIR", help="Where the definitions are.")]
Part = TypeVar("Part")
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - where servers listen that are also here
_SQLITE_FILE: Final = "sqlite:///"


def choose_server(server: str | None, db: str | None) -> str | None:
    """Return the server of a command, from its options or SIGNALBOOK_SERVER; None if it works on a database."""
    return server if server is not None or db is not None else os.environ.get(SERVER_VARIABLE) or None


def describe_registry(server: str | None, db: str | None) -> str:
    """Return the registry that the options name, as shown to users: the URL of the server, or the database."""
    from signalbook.uris import hide_user, without_user

    server = choose_server(server, db)
    if server is not None:
        return without_user(server)
    url = settings.load({"db": db}, environ=os.environ).db
    if url.startswith(_SQLITE_FILE):
        return str(Path(_find_file(url)).absolute())
    # The password in the URL of a database may contain any character but "@".
    return hide_user(url).partition("?")[0]


def open_registry(server: str | None, db: str | None, *, create: bool) -> AbstractContextManager[Registry]:
    """Open the registry that the options name: see ``open_part``."""

    def local(engine: Engine, _: settings.Settings) -> Registry:
        from signalbook.engine.read.view import UNLIMITED
        from signalbook.replication.local import LocalRegistry

        return LocalRegistry(engine, admin=True, max_bytes=UNLIMITED)

    def remote(client: Client) -> Registry:
        from signalbook.client.remote import RemoteRegistry

        return RemoteRegistry(client)

    return open_part(server, db, remote=remote, local=local, create=create)


@contextmanager
def open_part(
    server: str | None,
    db: str | None,
    *,
    remote: Callable[[Client], Part],
    local: Callable[[Engine, settings.Settings], Part],
    create: bool,
) -> Iterator[Part]:
    """Open what a command works on: ``remote`` of a server, else ``local`` of a database.

    The default is the database of the setting ``db``. ``create`` allows a new registry. Raises ``SignalbookError``, and
    ``typer.BadParameter`` if both options are given.
    """
    if server is not None and db is not None:
        raise typer.BadParameter("give one of --server and --db, not both")
    if (server := choose_server(server, db)) is not None:
        with open_client(server) as client:
            yield remote(client)
        return
    loaded = database_settings(db)
    with open_engine(loaded, create=create) as engine:
        yield local(engine, loaded)


@contextmanager
def open_client(server: str) -> Iterator[Client]:
    """Open a client of the registry at this URL. Raises ``ClientError``."""
    from signalbook.client import Client

    # Twice as long as a server waits for its database, because the error of the server says more than a timeout here.
    with Client(server, timeout=2 * settings.Settings.request_timeout) as client:
        yield client


def find_running_server(server: str | None) -> str:
    """Return ``server``, else SIGNALBOOK_SERVER, else the URL that the settings ``host`` and ``port`` name."""
    if (named := choose_server(server, None)) is not None:
        return named
    loaded = settings.load(environ=os.environ)
    host = "127.0.0.1" if loaded.host in _EVERYWHERE else loaded.host
    return f"http://[{host}]:{loaded.port}" if ":" in host else f"http://{host}:{loaded.port}"


def database_settings(db: str | None) -> settings.Settings:
    """Return the settings of a command that opens a database itself, by default that of the setting ``db``.

    They never send lines of the audit to standard output, which a command needs for its results.
    """
    from signalbook.access.audit import STDOUT

    loaded = settings.load({"db": db}, environ=os.environ)
    return replace(loaded, audit_log="") if loaded.audit_log == STDOUT else loaded


@contextmanager
def open_engine(loaded: settings.Settings, *, create: bool) -> Iterator[Engine]:
    """Open the registry in the database ``loaded.db`` in this process. Raises ``SignalbookError``."""
    from signalbook.access import audit
    from signalbook.engine.engine import Engine

    if not create:
        require_database(loaded.db)
    store = audit.open_recorded(loaded)
    try:
        engine = Engine(store, settings=loaded)
        engine.listen_to_audit(partial(audit.log_entries, settings=loaded))
        yield engine
    finally:
        store.close()


def require_database(url: str) -> None:
    """Raise ``SignalbookError`` if the file of the database is missing: a misspelt name must not create a new one."""
    name = _find_file(url)
    if url.startswith(_SQLITE_FILE) and not Path(name).exists():
        raise SignalbookError(
            f"there is no registry at {name}: name one by --server, --db or {SERVER_VARIABLE}, or make one by "
            "signalbook serve, import or access init"
        )


def _find_file(url: str) -> str:
    """Return the file of an SQLite database."""
    return url.removeprefix(_SQLITE_FILE).partition("?")[0]


def add_slashes(xids: list[str] | None) -> list[str] | None:
    """Return the xids of a repeatable option, each with its first slash: the callback of such options."""
    return None if xids is None else [f"/{xid}" if "/" in xid and not xid.startswith("/") else xid for xid in xids]


def read_xid(text: str, option: str, also: str = "") -> Xid:
    """Return the xid given with ``option``, whose first slash may be missing. Raises ``typer.BadParameter``.

    ``also`` begins the error if the option accepts other things than xids: "no file and ".
    """
    try:
        return Xid.parse(f"/{text.removeprefix('/')}")
    except XidError as error:
        raise typer.BadParameter(f"{text!r} is {also}no xid: {error}", param_hint=option) from None
