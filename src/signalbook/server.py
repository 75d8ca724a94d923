"""The server process: builds the application over a store, and runs it. It may import every package."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.log import LogLevels
from starlette.applications import Starlette

from signalbook.api.app import create_app
from signalbook.engine.engine import Engine, model_source
from signalbook.engine.read.view import ViewOptions
from signalbook.errors import SignalbookError
from signalbook.events.delivery.deliveries import Deliveries, sink_policy
from signalbook.events.feed import Head, Retention
from signalbook.events.subscriptions.store import SubscriptionStore
from signalbook.fetching import AllowList
from signalbook.folder_registry import FolderWatch
from signalbook.replication.following import Following, peers
from signalbook.settings import SettingError, Settings
from signalbook.storage import open_store
from signalbook.xid import ROOT

_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_COPIES: Final = ("accept", "refuse")
_SHUTDOWN_SECONDS: Final = 10
_ALLOCATIONS: Final = 10_000
"""Objects made between two looks for garbage: a write makes hundreds, and leaves none that has to be looked for."""
_CENTURY: Final = 36_525
"""Days."""


class ServerError(SignalbookError):
    """The server cannot start; the message says why and what to do."""


def build(settings: Settings) -> Starlette:
    """The application over the store ``settings.db``, which is created or migrated first.

    Raises ``StorageError``, ``SettingError``, ``RegistryError``.
    """
    # A file answers a point read in microseconds: handing it to a thread costs more. A database server does not.
    direct = settings.db.startswith("sqlite")
    with ExitStack() as opened:  # closed here if something is wrong, else by the application
        store = open_store(settings.db, timeout=settings.request_timeout)
        opened.callback(store.close)
        engine = Engine(store, settings=settings)
        watch = _watch(engine, settings)
        if watch is not None:
            watch.start(settings.reload_seconds)
            opened.callback(watch.stop)
        if settings.event_retention:
            retention = Retention(engine, days=settings.event_retention)
            retention.start()
            opened.callback(retention.stop)
        head, subscriptions = Head(engine.position), SubscriptionStore.of(engine, settings)
        deliveries = Deliveries(engine, subscriptions, head, settings)
        deliveries.start()
        opened.callback(deliveries.stop)
        following = Following(engine, settings)
        following.start()
        opened.callback(following.stop)
        close = opened.pop_all().close
    source = None if watch is None else (lambda: watch.status)
    return create_app(
        engine,
        settings,
        direct=direct,
        close=close,
        source=source,
        head=head,
        subscriptions=subscriptions,
        deliveries=deliveries,
        following=following,
    )


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are finished first.

    Everything that can keep it from starting is tried before: raises ``ServerError``, ``StorageError``,
    ``SettingError`` or ``RegistryError``.
    """
    _check_settings(settings)
    _check_address(settings)
    if settings.from_folder:
        with tempfile.TemporaryDirectory(prefix="signalbook-") as private:
            _serve(replace(settings, db=f"sqlite:///{private}/registry.db"))
    else:
        _serve(settings)


def _serve(settings: Settings) -> None:
    registryid = _prepare(settings)
    server = Granian(
        "signalbook",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers,
        loop=Loops.uvloop,
        websockets=False,
        log_level=LogLevels.warning,
        respawn_failed_workers=True,
        workers_kill_timeout=_SHUTDOWN_SECONDS,
    )
    server.on_startup(partial(_announce, settings, registryid))
    server.serve(target_loader=partial(_application, settings), wrap_loader=False)


def _watch(engine: Engine, settings: Settings) -> FolderWatch | None:
    """What follows ``settings.from_folder``, if it is set. The model that was founded is the one to extend."""
    if not settings.from_folder:
        return None
    return FolderWatch(engine, Path(settings.from_folder), model_source(settings.model))


def _application(settings: Settings) -> Starlette:
    """What each server process runs; it opens the store for itself."""
    # Until it serves, it has the handler of the process that it was made from, and would not end when asked to.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    begin_log(settings.log_level.upper())
    application = build(settings)
    _spare_what_stays()
    return application


def begin_log(level: str) -> None:
    """Write what is of this ``level`` or above to standard error."""
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if level != "DEBUG":
        # It names every request: to a registry that is followed, one a second for ever.
        logging.getLogger("httpx").setLevel(logging.WARNING)


def _spare_what_stays() -> None:
    """Keep the garbage collector from what was loaded to stay: looking it all through stops every request for 60 ms."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)


def _announce(settings: Settings, registryid: str) -> None:
    url = settings.base_url.rstrip("/") or f"http://{_host(settings)}:{settings.port}"
    sys.stdout.write(f'Signalbook serves the registry "{registryid}" at {url}/\n')
    sys.stdout.flush()


def _prepare(settings: Settings) -> str:
    """Create or migrate the store, and close it again: server processes must not inherit it. Returns the registryid."""
    store = open_store(settings.db, timeout=settings.request_timeout)
    try:
        engine = Engine(store, settings=settings)
        with engine.writing() as session:
            SubscriptionStore.of(engine, settings).renew(session)
        watch = _watch(engine, settings)
        if watch is not None:
            watch.load()
        with engine.reading() as view:
            return str(view.entity(ROOT, ViewOptions())["registryid"])
    finally:
        store.close()


def _check_settings(settings: Settings) -> None:
    for name in ("workers", "threads", "max_reports"):
        if getattr(settings, name) < 1:
            raise SettingError(f"{name} is at least 1, not {getattr(settings, name)}")
    if not 0 < settings.port < 65536:
        raise SettingError(f"port is 1 to 65535, not {settings.port}")
    if not 0 <= settings.event_retention <= _CENTURY:
        raise SettingError(f"event_retention is 0 to {_CENTURY} days, not {settings.event_retention}")
    AllowList(settings.allow_fetch)
    sink_policy(settings)
    peers(settings)
    if settings.copies not in _COPIES:
        raise SettingError(f"copies is one of {', '.join(_COPIES)}, not {settings.copies!r}")
    if settings.log_level.lower() not in _LOG_LEVELS:
        raise SettingError(f"log_level is one of {', '.join(_LOG_LEVELS)}, not {settings.log_level!r}")


def _check_address(settings: Settings) -> None:
    """Try the port: the server itself would share it with another process that listens there."""
    where = f"{_host(settings)}:{settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ServerError(f"cannot listen at {where}: {error.strerror}; choose another --host or --port") from None


def _host(settings: Settings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host
