"""The server process: builds the application over a store, and runs it. It may import every package."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from uvicorn import Config
from uvicorn.supervisors import Multiprocess, multiprocess

from signalbook import __version__, metrics, tracing
from signalbook.access.audit import Audit, check_audit_settings, open_recorded
from signalbook.access.authentication import check_authentication
from signalbook.access.control import OPEN, AccessControl, check_access_settings
from signalbook.access.limits import check_limits
from signalbook.access.policy import Policy
from signalbook.api.app import create_app
from signalbook.api.kernel.connection import IDLE_SECONDS, HTTPConnection
from signalbook.api.kernel.large_requests import LargeRequests, serve
from signalbook.api.kernel.origins import Origins, is_loopback
from signalbook.api.kernel.tls import build_tls_context
from signalbook.api.waiting import Waiting
from signalbook.engine.engine import Engine, check_choices, load_model_source
from signalbook.engine.read.view import ViewOptions
from signalbook.errors import SignalbookError
from signalbook.events.delivery.deliveries import Deliveries, sink_policy
from signalbook.events.feed import Head, Retention
from signalbook.events.subscriptions.store import SubscriptionStore, keyring
from signalbook.fetching import AllowList
from signalbook.folder_registry import FolderWatch
from signalbook.logs import FORMATS, begin_log
from signalbook.replication.following import Following, parse_peers
from signalbook.settings import SettingError, Settings
from signalbook.storage.base import StorageUnavailable
from signalbook.storage.dialect import IDLE
from signalbook.storage.store import is_throw_away
from signalbook.terminal import strip_controls
from signalbook.xid import ROOT

_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_EXAMPLE_PASSWORDS: Final = frozenset({"change-me", "REPLACE-ME"})
"""Passwords in examples of deployments."""
_COPIES: Final = ("accept", "refuse")
_SHUTDOWN_SECONDS: Final = 10
_KILL_SECONDS: Final = 2
"""More for a server process that has not ended by itself."""
_ACCEPTED: Final = 8
"""Connections that a server process accepts in one turn of its event loop."""
_THINKING_SECONDS: Final = 60.0
"""Between two statements of a write: what takes longer is for the process beside, or outside of the turn."""
_HANG_SECONDS: Final = 60
"""A server process that does nothing at all for so long is replaced. Starting on a busy machine takes some."""
_LOOK_SECONDS: Final = 0.5
"""Between two looks of a server process for the one that started it."""
_ALLOCATIONS: Final = 10_000
"""Objects made between two looks for garbage: a write makes hundreds, and leaves none that has to be looked for."""
_SLICE_SECONDS: Final = 0.0005
"""For which a thread keeps the interpreter to itself while others wait; Python's own 5 ms add up over many clients."""
_CENTURY: Final = 36_525
"""Days."""


class ServerError(SignalbookError):
    """The server cannot start; the message says why and what to do."""


def build(settings: Settings) -> Starlette:
    """The application over the store ``settings.db``, which is created or migrated first.

    Raises ``StorageError``, ``SettingError``, ``RegistryError``.
    """
    with ExitStack() as opened:  # closed here if something is wrong, else by the application
        opened.callback(tracing.begin(os.environ, __version__))
        # What it copies from registries that it follows is checked in the turn.
        store = open_recorded(settings, idle=IDLE if settings.follow else _THINKING_SECONDS)
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
        control = AccessControl(store, settings)
        deliveries = Deliveries(engine, control, subscriptions, head, settings)
        deliveries.start()
        opened.callback(deliveries.stop)
        following = Following(engine, settings)
        following.start()
        opened.callback(following.stop)
        audit = Audit(store, settings)
        audit.start()
        opened.callback(audit.stop)
        close = opened.pop_all().close
    source = None if watch is None else (lambda: watch.status)
    return create_app(
        engine,
        settings,
        direct=_is_direct(settings),
        close=close,
        source=source,
        head=head,
        control=control,
        subscriptions=subscriptions,
        deliveries=deliveries,
        following=following,
        audit=audit,
        large_requests=LargeRequests(_start_large_requests, settings),
    )


def _start_large_requests(theirs: socket.socket) -> subprocess.Popen[bytes]:
    # What it counts is not in the metrics, whose folder would have files of every process that ever was.
    environment = {name: value for name, value in os.environ.items() if name != metrics.FOLDER}
    code = f"import signalbook.server; signalbook.server.serve_large_requests({theirs.fileno()}, {__version__!r})"
    command = [sys.executable, "-P", "-c", code]
    return subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)  # noqa: S603  nothing of a client


def serve_large_requests(number: int, version: str) -> None:
    """Answer the large requests that come by the socket of this ``number``, until it is closed.

    Ends at once where another version than that of the server process is installed by now: it would migrate the
    database under that one.
    """
    if version != __version__:
        return
    # Signals to the group are for the server process, which finishes what it has and then closes the socket.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    connection = Connection(number)
    settings: Settings = connection.recv()
    begin_log(settings.log_level.upper(), settings.log_format)
    # Each request was counted where it came in, and the capabilities of a file were put in force at the start.
    settings = replace(settings, limits="off", capabilities="")
    store = open_recorded(settings)
    audit = Audit(store, settings)
    audit.start()

    def close() -> None:
        audit.stop()
        store.close()

    app = create_app(Engine(store, settings=settings), settings, direct=_is_direct(settings), close=close, audit=audit)

    async def answering() -> None:
        async with app.router.lifespan_context(app):
            await serve(app.find, connection)

    asyncio.run(answering())


def _is_direct(settings: Settings) -> bool:
    # A file answers a point read in microseconds: handing it to a thread costs more. A database server does not.
    return settings.db.startswith("sqlite")


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are finished first.

    Everything that can keep it from starting is tried before: raises ``ServerError``, ``StorageError``,
    ``SettingError`` or ``RegistryError``.
    """
    check_settings(settings)
    check_secrets(settings, os.environ)
    with ExitStack() as opened:
        ports = (settings.port, *((settings.confluent_port,) if settings.confluent_port else ()))
        listening = [opened.enter_context(_bind_socket(settings, port)) for port in ports]
        if settings.from_folder or is_throw_away(settings.db):
            # In a file, which every process of this server opens.
            with tempfile.TemporaryDirectory(prefix="signalbook-") as private:
                _serve(replace(settings, db=f"sqlite:///{private}/registry.db"), listening)
        else:
            _serve(settings, listening)


def _serve(settings: Settings, listening: list[socket.socket]) -> None:
    exposed = not (is_loopback(settings.host) and is_loopback(str(listening[0].getsockname()[0])))
    away: StorageUnavailable | None = None
    registryid = ""
    try:
        registryid = _prepare(settings, exposed=exposed)
    except StorageUnavailable as error:
        away = error
        sys.stderr.write(f"{strip_controls(str(error))}; this server waits for it\n")
    config = Config(
        partial(_build_application, settings, exposed=exposed, away=away),
        factory=True,
        workers=settings.workers,
        interface="asgi3",
        lifespan="on",
        loop="auto",  # uvloop, where there is one
        http=HTTPConnection,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=_HANG_SECONDS,
        # Each server process reads the files: they are read anew at SIGHUP, which replaces all of them.
        ssl_context_factory=partial(_build_tls, settings) if settings.tls_cert else None,
    )
    # A turn of the event loop takes one connection from a socket, and a turn is long under load: with one socket alone
    # the last of 256 clients that come at once waits for more than a second.
    more = [listener.dup() for listener in listening for _ in range(_ACCEPTED - 1)]
    supervisor = _Supervisor(config, [*listening, *more])
    # From now on clients may connect: they wait for the first server process.
    for listener in listening:
        listener.listen(config.backlog)
    _announce(settings, registryid, exposed=exposed)
    # Its processes share their counts there, which begin anew with it.
    with tempfile.TemporaryDirectory(prefix="signalbook-metrics-") as folder:
        metrics.share(folder)
        _favour_requests()
        supervisor.run()


def _build_tls(settings: Settings, *_: object) -> ssl.SSLContext:
    context = build_tls_context(settings)
    assert context is not None, "uvicorn asks only where there is a certificate"
    return context


class _Supervisor(Multiprocess):
    """Starts the server processes, replaces one that dies, and all of them, one by one, at SIGHUP.

    They are forked, so that each begins with everything imported. This process has no threads and no connections.
    From the first SIGHUP on they are spawned: a new version may have been installed in place.
    """

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._spawned = multiprocess.get_subprocess  # type: ignore[attr-defined]
        # uvicorn has no settings for these. Elsewhere the system's own libraries do not survive a fork.
        multiprocess.Process = _ServerProcess  # type: ignore[misc]
        if sys.platform == "linux":
            multiprocess.get_subprocess = _fork  # type: ignore[assignment,attr-defined]

    def handle_hup(self) -> None:
        """Replace the server processes by some that read and import everything anew."""
        multiprocess.get_subprocess = self._spawned  # type: ignore[attr-defined]
        super().handle_hup()


class _ServerProcess(multiprocess.Process):
    """A server process that is killed if it has not ended some time after SIGHUP or SIGTERM."""

    _deadline = 0.0
    """On the monotonic clock."""

    def terminate(self) -> None:
        """Ask it to end."""
        super().terminate()
        self._deadline = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + _KILL_SECONDS

    def join(self) -> None:
        """Wait for its end."""
        self.process.join(max(0.0, self._deadline - time.monotonic()))
        if self.process.is_alive():
            self.kill()
            self.process.join()


def _fork(config: Config, target: Callable[..., None], sockets: list[socket.socket]) -> BaseProcess:
    return multiprocessing.get_context("fork").Process(target=_begin, args=(config, target, sockets))


def _begin(config: Config, target: Callable[..., None], sockets: list[socket.socket]) -> None:
    for number in multiprocess.SIGNALS:  # else those that the supervisor waits for would be waited for here
        signal.signal(number, signal.SIG_DFL)
    config.configure_logging()
    target(sockets=sockets)


def _watch(engine: Engine, settings: Settings) -> FolderWatch | None:
    """Return the watch over ``settings.from_folder``, if set. It extends the founded model."""
    if not settings.from_folder:
        return None
    return FolderWatch(engine, Path(settings.from_folder), load_model_source(settings.model))


def _build_application(settings: Settings, *, exposed: bool, away: StorageUnavailable | None) -> Starlette | Waiting:
    """Build the application of a server process, which opens the store itself. ``away`` tells why it must wait."""
    begin_log(settings.log_level.upper(), settings.log_format)
    threading.Thread(target=_end_with_supervisor, name="supervisor", daemon=True).start()
    # uvicorn's handlers only ask it to stop serving: while it starts, the process ends at once.
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGINT)}
    late = partial(_build_late, settings, exposed=exposed)
    application: Starlette | Waiting
    if away is not None:
        application = Waiting(late, away)
    else:
        try:
            application = build(settings)
        except StorageUnavailable as error:
            application = Waiting(late, error)
    _favour_requests()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return application


def _build_late(settings: Settings, *, exposed: bool) -> Starlette:
    _prepare(settings, exposed=exposed)
    return build(settings)


def _end_with_supervisor() -> None:
    """Stop once the process that started this one is gone, be it killed: nobody could stop it, or take its port."""
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        # Its end of a pipe would tell at once, but processes that were forked later hold that too.
        while os.getppid() == supervisor.pid:
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)


def _favour_requests() -> None:
    """Keep requests from waiting for what else the process does.

    Looking through all that was loaded to stay for garbage would stop each of them for 60 ms, and ready comes as much
    earlier without a look at the start: 2 % of it is garbage. A thread that works for one makes the event loop wait at
    every system call, for as long as threads may keep the interpreter to themselves.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(_ALLOCATIONS)
    sys.setswitchinterval(_SLICE_SECONDS)


def _announce(settings: Settings, registryid: str, *, exposed: bool) -> None:
    scheme = "https" if settings.tls_cert else "http"
    url = settings.base_url.rstrip("/") or f"{scheme}://{_format_host(settings)}:{settings.port}"
    serves = f'Signalbook serves the registry "{registryid}"' if registryid else "Signalbook waits for its database"
    sys.stdout.write(f"{serves} at {url}/\n")
    if settings.confluent_port:
        place = f"{scheme}://{_format_host(settings)}:{settings.confluent_port}"
        sys.stdout.write(f"Kafka's clients find its schemas at {place} (schema.registry.url).\n")
    if settings.access == OPEN and exposed:
        sys.stdout.write("Everybody who can reach it may do everything (--access open).\n")
    elif not exposed:
        sys.stdout.write(f"It listens on this machine only ({_format_host(settings)}).\n")
    elif not settings.tls_cert:
        sys.stdout.write("Without TLS credentials can be read on the way: give --tls-cert, or let a proxy end TLS.\n")
    sys.stdout.flush()


_CLOSED: Final = """\
{host} can be reached from other machines, and nobody has said who may do what here. One of these will do:
  --host 127.0.0.1                     only this machine (the default)
  signalbook access init subject:NAME  a first policy: NAME administers, whoever is authenticated reads
  signalbook access set FILE           a policy of your own in the database; docs/access.md has examples
  --access-file FILE                   a policy in a file
  --access open                        everybody who can reach the server may do everything"""


def check_exposure(settings: Settings, policy: Policy | None, *, exposed: bool) -> None:
    """Raise ``ServerError`` if it were ``exposed`` to other machines and nobody had said who may do what."""
    if exposed and settings.access != OPEN and policy is None:
        raise ServerError(_CLOSED.format(host=_format_host(settings)))


def _prepare(settings: Settings, *, exposed: bool) -> str:
    """Create or migrate the store, and close it again: server processes must not inherit it. Returns the registryid.

    Raises ``ServerError`` if it would be ``exposed`` to other machines without anybody having said who may do what.
    """
    store = open_recorded(settings, idle=_THINKING_SECONDS)
    try:
        engine = Engine(store, settings=settings)
        with engine.writing() as session:
            SubscriptionStore.of(engine, settings).renew(session)
        check_exposure(settings, AccessControl(store, settings).current(), exposed=exposed)
        watch = _watch(engine, settings)
        if watch is not None:
            watch.load()
        with engine.reading() as view:
            return str(view.render_entity(ROOT, ViewOptions())["registryid"])
    finally:
        store.close()


def check_settings(settings: Settings) -> None:
    """Raise ``SettingError`` for values that no server can start with."""
    for name in ("workers", "threads", "max_reports", "max_entity_bytes"):
        if getattr(settings, name) < 1:
            raise SettingError(f"{name} is at least 1, not {getattr(settings, name)}")
    if not 0 < settings.port < 65536:
        raise SettingError(f"port is 1 to 65535, not {settings.port}")
    if not 0 <= settings.confluent_port < 65536 or settings.confluent_port == settings.port:
        raise SettingError(f"confluent_port is 0 to 65535, and not port, but it is {settings.confluent_port}")
    if not 0 <= settings.event_retention <= _CENTURY:
        raise SettingError(f"event_retention is 0 to {_CENTURY} days, not {settings.event_retention}")
    AllowList(settings.allow_fetch)
    Origins(settings)
    check_audit_settings(settings)
    check_limits(settings)
    check_access_settings(settings)
    check_authentication(settings)
    check_choices(settings)
    build_tls_context(settings)
    sink_policy(settings)
    parse_peers(settings)
    if settings.copies not in _COPIES:
        raise SettingError(f"copies is one of {', '.join(_COPIES)}, not {settings.copies!r}")
    if settings.log_level.lower() not in _LOG_LEVELS:
        raise SettingError(f"log_level is one of {', '.join(_LOG_LEVELS)}, not {settings.log_level!r}")
    if settings.log_format not in FORMATS:
        raise SettingError(f"log_format is one of {', '.join(FORMATS)}, not {settings.log_format!r}")
    tracing.check(os.environ)


def check_secrets(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise ``SettingError`` for secrets that cannot be used, or that everybody knows from an example."""
    keyring(settings).keys()
    passwords = {environ.get("PGPASSWORD"), urlsplit(settings.db).password}
    if settings.db.startswith("postgresql") and not _EXAMPLE_PASSWORDS.isdisjoint(passwords):
        raise SettingError("the password of the database is that of an example: give its user another one")


def _bind_socket(settings: Settings, port: int) -> socket.socket:
    """Return the socket that all server processes share; it does not listen yet. Raises ``ServerError``."""
    where = f"{_format_host(settings)}:{port}"
    option = "--port" if port == settings.port else "--confluent-port"
    try:
        infos = socket.getaddrinfo(settings.host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = infos[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise ServerError(f"cannot listen at {where}: {error.strerror}; choose another --host or {option}") from None
    return listening


def _format_host(settings: Settings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host
