"""The audit log: who did what from where, and which requests were refused. It contains no secrets and no documents.

Writes are recorded in their own transactions. Refusals are collected for a second and stored in small batches; equal
refusals make one entry, so a million refusals of one caller make few entries. All entries can also be written as JSON
lines (``audit_log``).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final, TextIO

from signalbook import values
from signalbook.access.base import Action, Identity, RequestOrigin
from signalbook.access.decisions import UNRESTRICTED, Access
from signalbook.access.limits import TokenBucket
from signalbook.settings import SettingError, Settings
from signalbook.storage.audit import AuditEntry, AuditQuery
from signalbook.storage.base import StorageError
from signalbook.storage.dialect import IDLE
from signalbook.storage.schema import REVISION
from signalbook.storage.store import Store, WriteTransaction, open_store
from signalbook.values import JSONObject, dump_json, format_timestamp

DONE: Final = "done"
REFUSED: Final = "refused"
MOST_XIDS: Final = 100
"""The maximum number of xids in one entry. For the remaining xids only their number is recorded."""
STDOUT: Final = "-"
"""The value of the setting ``audit_log`` for standard output."""
PROGRAM: Final = "(signalbook)"
"""The name of the program itself in entries, for example when its command line changes a database."""
SEVERAL: Final = "(several)"
"""The name in entries that combine refusals of many callers."""

_LOG: Final = logging.getLogger("signalbook.access")
_SETTING_CHOICES: Final = {"audit": ("auto", "on", "off"), "audit_reads": ("on", "off")}
_MAX_DETAIL_CHARS: Final = 256
"""The maximum length of texts that callers send about themselves."""
_SESSION: Final = 12
"""The number of characters of a session's id that are recorded, to tell the sessions of one person apart."""
_SAMPLES: Final = 5
_PENDING: Final = 256
_BURST: Final = 1000.0
_RATE: Final = 1.0
"""The number of refusal entries per second that one process stores in the long run, after a burst: some 30 MB a day."""
_GATHER_SECONDS: Final = 1.0
_PRUNE_SECONDS: Final = 60.0
_PRUNED_AT_ONCE: Final = 1000
_CENTURY: Final = 36_525
_UNTOLD: Final = "entries of the audit are stored, but could not be written to audit_log: %s"
_BUFFER: Final = 1 << 20


Done = tuple[Action, str]
"""An action, and the xid or path that it was applied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequests:
    """Equal refused requests, which make one entry. ``error`` is the status, its phrase and the reason, never
    content of the requests."""

    who: Identity | None
    origin: RequestOrigin
    action: str
    error: str


@dataclass(slots=True)
class _Gathered:
    count: int = 0
    xids: dict[str, None] = field(default_factory=dict)


def must_record(settings: Settings, access: Access) -> bool:
    """Return True if the actions of ``access`` are recorded.

    The setting ``audit`` decides. If it is "auto", actions are recorded unless ``access`` is unrestricted.
    """
    return settings.audit == "on" or (settings.audit == "auto" and not access.unrestricted)


def select_recorded(
    settings: Settings, access: Access, actions: Iterable[Done], governed: Callable[[], bool] = lambda: False
) -> list[Done]:
    """Return the actions among ``actions`` to record. Administrative actions are recorded even if there is no policy.

    ``governed`` returns whether there is a policy. If there is one, the program's own actions are recorded, too.
    """
    actions = list(actions)
    program = access.unrestricted and access.origin is None
    if must_record(settings, access) or (actions and program and settings.audit == "auto" and governed()):
        return actions
    return [action for action in actions if action[0] is Action.ADMINISTER] if settings.audit != "off" else []


def read_entries(store: Store, query: AuditQuery, limit: int) -> list[AuditEntry]:
    """Return up to ``limit`` entries that match ``query``, the newest first."""
    with store.read() as transaction:
        return transaction.audit.entries(query, limit)


def build_entries(
    access: Access, actions: Iterable[Done], *, at: datetime, correlationid: str, about: str = ""
) -> list[AuditEntry]:
    """Return an entry for each action of a request. ``about`` adds details that the xids do not show."""
    by_action: dict[str, dict[str, None]] = {}
    for action, xid in actions:
        by_action.setdefault(action.word, {})[xid] = None
    identity, origin = access.identity, access.origin or RequestOrigin()
    who = PROGRAM if access.unrestricted and access.origin is None else _truncate(identity.name)
    return [
        AuditEntry(
            time=at,
            who=who,
            action=action,
            outcome=DONE,
            xids=tuple(xids)[:MOST_XIDS],
            correlationid=correlationid,
            details=_build_details(identity, origin, more=max(len(xids) - MOST_XIDS, 0), about=about),
        )
        for action, xids in by_action.items()
    ]


def login(identity: Identity, origin: RequestOrigin, action: str) -> AuditEntry:
    """Return the entry for a session that began or ended. ``action`` is login or logout."""
    return AuditEntry(
        time=values.now(),
        who=_truncate(identity.name),
        action=action,
        outcome=DONE,
        xids=(),
        correlationid="",
        details=_build_details(identity, origin),
    )


def record(transaction: WriteTransaction, settings: Settings, path: str, **details: str) -> list[AuditEntry]:
    """Record that the program itself administered ``path``. Return the entries for ``log_entries``, after
    the commit."""
    actions = select_recorded(settings, UNRESTRICTED, [(Action.ADMINISTER, path)])
    administered = build_entries(UNRESTRICTED, actions, at=values.now(), correlationid="")
    entries = [replace(entry, details=dict(details)) for entry in administered]
    transaction.audit.append(entries)
    return entries


def open_recorded(settings: Settings, *, idle: float = IDLE) -> Store:
    """Open the store ``settings.db``. If it has to be migrated, record that in the audit log.

    ``idle`` and the raised errors are those of ``open_store``.
    """
    entries: list[AuditEntry] = []

    def record_migration(transaction: WriteTransaction, before: str) -> None:
        entries.extend(record(transaction, settings, "/", about=f"migrated from schema {before} to {REVISION}"))

    store = open_store(settings.db, timeout=settings.request_timeout, idle=idle, migrated=record_migration)
    log_entries(entries, settings)
    return store


def log_entries(entries: Sequence[AuditEntry], settings: Settings) -> None:
    """Write the JSON lines of committed entries in a program that runs no ``Audit``. If that fails, log an error."""
    if entries and settings.audit_log:
        try:
            lines = AuditLog(settings.audit_log)
        except SettingError as error:
            _LOG.error(_UNTOLD, error)
            return
        lines.write(entries)
        lines.close()


def format_entry(entry: AuditEntry) -> JSONObject:
    """Return an entry as JSON. The number is left out if the entry has none yet."""
    number = {"number": entry.number} if entry.number else {}
    correlation = {"correlationid": entry.correlationid} if entry.correlationid else {}
    return {
        **number,
        "time": format_timestamp(entry.time),
        "who": entry.who,
        "action": entry.action,
        "outcome": entry.outcome,
        "xids": list(entry.xids),
        **correlation,
        **entry.details,
    }


class Audit:
    """The audit log of a server process: it records refusals, writes JSON lines, and removes old entries.

    Raises ``SettingError`` for settings that cannot be used.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        check_audit_settings(settings)
        self._store = store
        self._settings = settings
        self._days = timedelta(days=settings.audit_days)
        self._lines = AuditLog(settings.audit_log) if settings.audit_log else None
        self.reads = self._lines is not None and settings.audit_reads == "on"
        """True if reads are written to ``audit_log``."""
        self._lock = threading.Lock()
        self._pending: dict[RefusedRequests, _Gathered] = {}
        self._budget = TokenBucket(rate=_RATE, burst=_BURST)
        self._due, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Start the thread that stores refusals and removes old entries."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and store the remaining refusals."""
        self._over.set()
        self._due.set()
        self._thread.join()
        self._budget = TokenBucket(rate=_RATE, burst=_BURST)
        self.store_refusals()
        if self._lines is not None:
            self._lines.close()

    def committed(self, entries: Sequence[AuditEntry]) -> None:
        """Write committed entries to ``audit_log``, if there is one."""
        if self._lines is not None and entries:
            self._lines.write(entries)

    def refused(self, refusal: RefusedRequests, xid: str = "") -> None:
        """Record a refusal within about a second. Takes microseconds, and bounded memory for any number of refusals."""
        with self._lock:
            self._collect(refusal, 1, (xid,) if xid else ())
        if not self._due.is_set():
            self._due.set()

    def read(self, identity: Identity, origin: RequestOrigin, path: str, status: int) -> None:
        """Write a read to ``audit_log``, if there is one. Reads are not stored in the database."""
        if self._lines is not None:
            details = _build_details(identity, origin, status=status)
            xids = (path[:_MAX_DETAIL_CHARS],)
            who = _truncate(identity.name)
            self._lines.write(
                [AuditEntry(time=values.now(), who=who, action="read", outcome=DONE, xids=xids, details=details)]
            )

    def store_refusals(self) -> int:
        """Store the refused requests within the budget of entries. Return the number of entries stored."""
        with self._lock:
            pending, self._pending = self._pending, {}
            # Refusals beyond the budget are combined into one entry, which is stored later.
            stored = {refusal: pending[refusal] for refusal in list(pending)[: self._take_budget(len(pending))]}
            for refusal, gathered in pending.items():
                if refusal not in stored:
                    self._collect(_combine_refusals(refusal), gathered.count, gathered.xids)
        entries = [_build_refusal_entry(refusal, gathered) for refusal, gathered in stored.items()]
        if not entries:
            return 0
        try:
            with self._store.write() as transaction:
                transaction.audit.append(entries)
        except StorageError as error:
            _LOG.warning("refused requests could not be recorded, will retry: %s", error)
            with self._lock:
                for refusal, gathered in stored.items():
                    self._collect(refusal, gathered.count, gathered.xids)
            return 0
        self.committed(entries)
        return len(entries)

    def prune(self) -> int:
        """Remove entries older than the setting ``audit_days``. Return their number. Raises ``StorageError``."""
        if not self._days:
            return 0
        total, before = 0, values.now() - self._days
        # Usually there is nothing to remove, and then no write transaction should hold up other writers.
        if not read_entries(self._store, AuditQuery(until=before), 1):
            return 0
        while not self._over.is_set():
            with self._store.write() as transaction:
                count = transaction.audit.prune(before, _PRUNED_AT_ONCE)
            total += count
            if count < _PRUNED_AT_ONCE:
                break
        return total

    def _collect(self, refusal: RefusedRequests, count: int, xids: Iterable[str]) -> None:
        if refusal not in self._pending and len(self._pending) >= _PENDING:
            refusal = _combine_refusals(refusal)
        gathered = self._pending.setdefault(refusal, _Gathered())
        gathered.count += count
        if refusal.who is not None and len(gathered.xids) < _SAMPLES:
            gathered.xids.update(dict.fromkeys(xids))

    def _take_budget(self, max_entries: int) -> int:
        room = 0
        while room < max_entries and not self._budget.take():
            room += 1
        return room

    def _run(self) -> None:
        looked = -_PRUNE_SECONDS
        while not self._over.is_set():
            if (now := time.monotonic()) - looked >= _PRUNE_SECONDS:
                looked = now
                self._try_pruning()
            if self._due.wait(_PRUNE_SECONDS):
                self._over.wait(_GATHER_SECONDS)
                self._due.clear()
                self.store_refusals()
                with self._lock:
                    if self._pending:
                        self._due.set()

    def _try_pruning(self) -> None:
        try:
            count = self.prune()
        except StorageError as error:  # a busy or absent database is no reason to give up
            _LOG.warning("old entries of the audit could not be removed, will retry: %s", error)
        else:
            if count:
                _LOG.info("removed %d old entries of the audit", count)


def _combine_refusals(refusal: RefusedRequests) -> RefusedRequests:
    """Return the refusal that replaces ``refusal`` when there are too many to store each: without caller and origin."""
    return RefusedRequests(who=None, origin=RequestOrigin(), action=refusal.action, error=refusal.error)


def _build_refusal_entry(refusal: RefusedRequests, gathered: _Gathered) -> AuditEntry:
    details: JSONObject = {"error": refusal.error, "count": gathered.count}
    return AuditEntry(
        time=values.now(),
        who=SEVERAL if refusal.who is None else _truncate(refusal.who.name),
        action=refusal.action,
        outcome=REFUSED,
        xids=tuple(gathered.xids),
        details=details if refusal.who is None else _build_details(refusal.who, refusal.origin, **details),
    )


def _build_details(identity: Identity, origin: RequestOrigin, **more: int | str) -> JSONObject:
    """Return the non-empty details of a request, except its caller."""
    details: JSONObject = {
        "subject": identity.subject,
        "token": identity.token,
        "issuer": identity.issuer,
        "session": identity.session[:_SESSION],
        "peer": origin.peer,
        "forwarded": origin.forwarded,
        "api": origin.api,
        "method": origin.method,
        **more,
    }
    return {name: _truncate(value) if isinstance(value, str) else value for name, value in details.items() if value}


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[: _MAX_DETAIL_CHARS - 1]}\N{HORIZONTAL ELLIPSIS}"


class AuditLog:
    """Writes entries as JSON lines to a file that only its owner may read, or to standard output for ``-``.

    If the file was moved away, as logrotate does, a new file is created. Raises ``SettingError`` if the file cannot be
    opened.
    """

    def __init__(self, name: str) -> None:
        try:
            self._handler = _Output(sys.stdout) if name == STDOUT else _PrivateFile(name, encoding="utf-8")
        except OSError as error:
            raise SettingError(f"audit_log {name}: {error.strerror}; name a file that can be written") from None

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Write a line for each entry. Raises nothing, because the entries are already committed."""
        text = "\n".join(dump_json(format_entry(entry)).decode() for entry in entries)
        record = logging.LogRecord("signalbook.audit", logging.INFO, "", 0, text, None, None)
        try:
            self._handler.handle(record)
        except OSError:  # reopening a moved file is outside of the handler's own error handling
            self._handler.handleError(record)

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


class _Reporting(logging.Handler):
    """The handler for audit lines. If a line cannot be written, the entry is still stored in the database."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  as the class has it
        """Log that the line could not be written."""
        _LOG.error(_UNTOLD, sys.exc_info()[1])


class _Output(_Reporting, logging.StreamHandler[TextIO]):
    pass


class _PrivateFile(_Reporting, WatchedFileHandler):
    def _open(self) -> TextIOWrapper:
        # Create the file with this mode at once: with the umask's mode, others could open it before a later chmod.
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # Each write is one system call, so that lines of several server processes are not mixed.
        return os.fdopen(descriptor, "a", buffering=_BUFFER, encoding="utf-8")


def check_audit_settings(settings: Settings) -> None:
    """Raise ``SettingError`` if a setting of the audit log has no usable value."""
    for name, choices in _SETTING_CHOICES.items():
        if getattr(settings, name) not in choices:
            raise SettingError(f"{name} is one of {', '.join(choices)}, not {getattr(settings, name)!r}")
    if not 0 <= settings.audit_days <= _CENTURY:
        raise SettingError(f"audit_days is 0 to {_CENTURY}, not {settings.audit_days}")
    if settings.audit_reads == "on" and not settings.audit_log:
        raise SettingError("audit_reads needs audit_log: reads are not stored, only written there")
    if settings.audit_log not in ("", STDOUT):
        _check_log(Path(settings.audit_log))


def _check_log(path: Path) -> None:
    """Check that the log can be written, without leaving a file behind."""
    if path.exists():
        problem = "" if path.is_file() and os.access(path, os.W_OK) else "it is no file that can be written"
    elif not path.parent.is_dir():
        problem = f"there is no folder {path.parent}"
    else:
        problem = "" if os.access(path.parent, os.W_OK | os.X_OK) else f"no file can be made in {path.parent}"
    if problem:
        raise SettingError(f"audit_log {path}: {problem}")
