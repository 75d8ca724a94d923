"""Build the server's application over a store, and run it in server processes. This module may import every package."""

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

from signalbook import metrics, tracing
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
from signalbook.version import __version__
from signalbook.xid import ROOT

_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_EXAMPLE_PASSWORDS: Final = frozenset({"change-me", "REPLACE-ME"})
"""Passwords in examples of deployments."""
_COPIES: Final = ("accept", "refuse")
_SHUTDOWN_SECONDS: Final = 10
_KILL_SECONDS: Final = 2
"""The time after ``_SHUTDOWN_SECONDS`` at which a server process that has not ended is killed."""
_ACCEPTED: Final = 8
"""Connections that a server process accepts in one turn of its event loop."""
_THINKING_SECONDS: Final = 60.0
"""The longest time between two SQL statements of a write. Longer work is done in the process for large requests, or
outside the write's turn."""
_HANG_SECONDS: Final = 60
"""A server process that does not respond for this time is replaced. Starting on a busy machine takes some seconds."""
_LOOK_SECONDS: Final = 0.5
"""The time between two checks of a server process whether its supervisor still runs."""
_ALLOCATIONS: Final = 10_000
"""The number of new objects between two garbage collections. A write makes hundreds of objects, but no cycles that
need the garbage collector."""
_SLICE_SECONDS: Final = 0.0005
"""The time after which a thread yields the interpreter to waiting threads. Python's default of 5 ms is too long with
many clients."""
_CENTURY: Final = 36_525
"""Days."""


class ServerError(SignalbookError):
    """The error for a server that cannot start. The message contains the reason and advice."""


def build(settings: Settings) -> Starlette:
    """Return the application over the store ``settings.db``, which is created or migrated first.

    Raises ``StorageError``, ``SettingError``, ``RegistryError``.
    """
    with ExitStack() as opened:  # closed here after an error, else by the application when it ends
        opened.callback(tracing.begin(os.environ, __version__))
        # Content copied from followed registries is checked within the write's turn, so a longer time is allowed.
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
    # This process reports no metrics: otherwise the folder would keep files of every process that ever ran.
    environment = {name: value for name, value in os.environ.items() if name != metrics.FOLDER}
    code = f"import signalbook.server; signalbook.server.serve_large_requests({theirs.fileno()}, {__version__!r})"
    command = [sys.executable, "-P", "-c", code]
    return subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)  # noqa: S603  no input of a client


def serve_large_requests(number: int, version: str) -> None:
    """Answer large requests that the server process sends over the socket with the file descriptor ``number``.

    Return when the socket is closed. Return at once if the installed version is not the ``version`` of the server
    process, because a newer version would migrate the database while the server process uses it.
    """
    if version != __version__:
        return
    # Ignore signals to the process group. The server process finishes its requests and then closes the socket.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    connection = Connection(number)
    settings: Settings = connection.recv()
    begin_log(settings.log_level.upper(), settings.log_format)
    # The server process has already applied rate limits, and the capabilities file when it started.
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
    # SQLite answers a single read in microseconds, so handing it to a thread would cost more. A database server is
    # slower.
    return settings.db.startswith("sqlite")


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. Requests in progress are finished first.

    Raises ``ServerError``, ``StorageError``, ``SettingError`` or ``RegistryError`` before serving if the server cannot
    start.
    """
    check_settings(settings)
    check_secrets(settings, os.environ)
    with ExitStack() as opened:
        ports = (settings.port, *((settings.confluent_port,) if settings.confluent_port else ()))
        listening = [opened.enter_context(_bind_socket(settings, port)) for port in ports]
        if settings.from_folder or is_throw_away(settings.db):
            # Use a temporary file, because every process of this server has to open the database.
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
        loop="auto",  # uvloop if it is installed
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
        # Each server process reads the certificate files when it starts. SIGHUP replaces all server processes.
        ssl_context_factory=partial(_build_tls, settings) if settings.tls_cert else None,
    )
    # Each turn of the event loop accepts one connection per socket, and turns are long under load. With a single
    # socket, the last of 256 simultaneous clients would wait for more than a second.
    more = [listener.dup() for listener in listening for _ in range(_ACCEPTED - 1)]
    supervisor = _Supervisor(config, [*listening, *more])
    # From now on clients can connect. They wait until the first server process accepts them.
    for listener in listening:
        listener.listen(config.backlog)
    _announce(settings, registryid, exposed=exposed)
    # The server processes share their metrics in this folder, which is new for each start of the server.
    with tempfile.TemporaryDirectory(prefix="signalbook-metrics-") as folder:
        metrics.share(folder)
        _favour_requests()
        supervisor.run()


def _build_tls(settings: Settings, *_: object) -> ssl.SSLContext:
    context = build_tls_context(settings)
    assert context is not None, "uvicorn asks only where there is a certificate"
    return context


class _Supervisor(Multiprocess):
    """Starts the server processes, and replaces a process that dies. At SIGHUP it replaces all of them, one by one.

    Processes are forked, so that each begins with all modules imported. The supervisor itself has no threads and no
    connections. After the first SIGHUP, processes are spawned, because a new version may have been installed.
    """

    def __init__(self, config: Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._spawned = multiprocess.get_subprocess  # type: ignore[attr-defined]
        # uvicorn has no settings for these. Outside Linux, system libraries may not work after a fork.
        multiprocess.Process = _ServerProcess  # type: ignore[misc]
        if sys.platform == "linux":
            multiprocess.get_subprocess = _fork  # type: ignore[assignment,attr-defined]

    def handle_hup(self) -> None:
        """Replace the server processes by new ones that import all modules and read all files again."""
        multiprocess.get_subprocess = self._spawned  # type: ignore[attr-defined]
        super().handle_hup()


class _ServerProcess(multiprocess.Process):
    """A server process that is killed if it has not ended some time after SIGHUP or SIGTERM."""

    _deadline = 0.0
    """On the monotonic clock."""

    def terminate(self) -> None:
        """Ask the process to end, and set the deadline after which it is killed."""
        super().terminate()
        self._deadline = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + _KILL_SECONDS

    def join(self) -> None:
        """Wait until the process has ended. Kill it at the deadline."""
        self.process.join(max(0.0, self._deadline - time.monotonic()))
        if self.process.is_alive():
            self.kill()
            self.process.join()


def _fork(config: Config, target: Callable[..., None], sockets: list[socket.socket]) -> BaseProcess:
    return multiprocessing.get_context("fork").Process(target=_begin, args=(config, target, sockets))


def _begin(config: Config, target: Callable[..., None], sockets: list[socket.socket]) -> None:
    for number in multiprocess.SIGNALS:  # a forked process inherits the supervisor's handlers: reset them
        signal.signal(number, signal.SIG_DFL)
    config.configure_logging()
    target(sockets=sockets)


def _watch(engine: Engine, settings: Settings) -> FolderWatch | None:
    """Return the watch over the folder ``settings.from_folder``, or None if no folder is set."""
    if not settings.from_folder:
        return None
    return FolderWatch(engine, Path(settings.from_folder), load_model_source(settings.model))


def _build_application(settings: Settings, *, exposed: bool, away: StorageUnavailable | None) -> Starlette | Waiting:
    """Build the application of a server process, which opens the store itself.

    ``away`` is the error of a database that is not available, or None. If there is an error, the application waits for
    the database.
    """
    begin_log(settings.log_level.upper(), settings.log_format)
    threading.Thread(target=_end_with_supervisor, name="supervisor", daemon=True).start()
    # uvicorn's signal handlers only stop serving. Use the default handlers here, so that a process ends at once if a
    # signal comes while it starts.
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
    """Stop this server process when its supervisor has ended, even if the supervisor was killed.

    Otherwise nobody could stop this process, and its port would stay in use.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        # A pipe to the supervisor would not be closed, because processes forked later also hold its other end.
        while os.getppid() == supervisor.pid:
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)


def _favour_requests() -> None:
    """Keep garbage collection and other threads from delaying requests.

    A collection over all objects loaded at the start would stop requests for 60 ms, and only 2 % of the objects are
    garbage: freeze them. After every system call the event loop waits for other threads to release the interpreter:
    shorten the time for which a thread may keep it.
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
    """Raise ``ServerError`` if the server is ``exposed`` to other machines without a policy or open access."""
    if exposed and settings.access != OPEN and policy is None:
        raise ServerError(_CLOSED.format(host=_format_host(settings)))


def _prepare(settings: Settings, *, exposed: bool) -> str:
    """Create or migrate the store, and return the registryid. Server processes must not inherit the store: close it.

    Raises ``ServerError`` if the server would be ``exposed`` to other machines without a policy or open access.
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
    """Raise ``SettingError`` if a setting has a value with which the server cannot start."""
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
    """Raise ``SettingError`` if a key file cannot be used, or the database password is the one of an example."""
    keyring(settings).keys()
    passwords = {environ.get("PGPASSWORD"), urlsplit(settings.db).password}
    if settings.db.startswith("postgresql") and not _EXAMPLE_PASSWORDS.isdisjoint(passwords):
        raise SettingError("the password of the database is that of an example: give its user another one")


def _bind_socket(settings: Settings, port: int) -> socket.socket:
    """Return a bound socket, which all server processes share and which does not listen yet. Raises ``ServerError``."""
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
