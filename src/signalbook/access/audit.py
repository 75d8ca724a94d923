"""The audit: who did what from where, and what was refused to whom. Never a secret, never a document.

Writes are recorded in their own transactions. Refusals are gathered for a second and stored in small batches, as many
together as are alike: whoever is refused a million times makes a few entries. Lines of JSON tell others of all entries.
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
"""Of one entry; of the rest their number is recorded."""
STDOUT: Final = "-"
"""As ``audit_log``: standard output."""
PROGRAM: Final = "(signalbook)"
"""The program itself, such as its command line over a database."""
SEVERAL: Final = "(several)"
"""Who was refused, where there were too many to tell them apart."""

_LOG: Final = logging.getLogger("signalbook.access")
_SETTING_CHOICES: Final = {"audit": ("auto", "on", "off"), "audit_reads": ("on", "off")}
_MAX_DETAIL_CHARS: Final = 256
"""Characters of what callers say of themselves."""
_SESSION: Final = 12
"""Characters of a session's id, which tell one person's apart."""
_SAMPLES: Final = 5
_PENDING: Final = 256
_BURST: Final = 1000.0
_RATE: Final = 1.0
"""Entries about refusals that one process adds each second in the long run, some 30 MB a day, after a burst."""
_GATHER_SECONDS: Final = 1.0
_PRUNE_SECONDS: Final = 60.0
_PRUNED_AT_ONCE: Final = 1000
_CENTURY: Final = 36_525
_UNTOLD: Final = "entries of the audit are stored, but could not be written to audit_log: %s"
_BUFFER: Final = 1 << 20


Done = tuple[Action, str]
"""An action, and the xid or path that it was done to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequests:
    """Requests alike that were refused. ``error`` is a status, its phrase and why, never what was sent."""

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

    The setting ``audit`` decides, else whether there is a policy.
    """
    return settings.audit == "on" or (settings.audit == "auto" and not access.unrestricted)


def select_recorded(
    settings: Settings, access: Access, actions: Iterable[Done], governed: Callable[[], bool] = lambda: False
) -> list[Done]:
    """Return the actions among ``actions`` to record. Administrative ones are recorded even before there is a policy.

    ``governed`` is whether there is a policy. The program's own actions are recorded too, although no policy limits
    them.
    """
    actions = list(actions)
    program = access.unrestricted and access.origin is None
    if must_record(settings, access) or (actions and program and settings.audit == "auto" and governed()):
        return actions
    return [action for action in actions if action[0] is Action.ADMINISTER] if settings.audit != "off" else []


def read_entries(store: Store, query: AuditQuery, limit: int) -> list[AuditEntry]:
    """Up to ``limit`` entries, the newest first."""
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
    """Record that the program itself administered ``path``, and return the entries for ``log_entries``."""
    actions = select_recorded(settings, UNRESTRICTED, [(Action.ADMINISTER, path)])
    administered = build_entries(UNRESTRICTED, actions, at=values.now(), correlationid="")
    entries = [replace(entry, details=dict(details)) for entry in administered]
    transaction.audit.append(entries)
    return entries


def open_recorded(settings: Settings, *, idle: float = IDLE) -> Store:
    """The store ``settings.db``. If that migrates it, the audit says so. ``idle`` and errors as of ``open_store``."""
    entries: list[AuditEntry] = []

    def record_migration(transaction: WriteTransaction, before: str) -> None:
        entries.extend(record(transaction, settings, "/", about=f"migrated from schema {before} to {REVISION}"))

    store = open_store(settings.db, timeout=settings.request_timeout, idle=idle, migrated=record_migration)
    log_entries(entries, settings)
    return store


def log_entries(entries: Sequence[AuditEntry], settings: Settings) -> None:
    """Write the lines of committed entries where no ``Audit`` is at work. That they cannot be written is logged."""
    if entries and settings.audit_log:
        try:
            lines = AuditLog(settings.audit_log)
        except SettingError as error:
            _LOG.error(_UNTOLD, error)
            return
        lines.write(entries)
        lines.close()


def format_entry(entry: AuditEntry) -> JSONObject:
    """Return an entry as JSON; without its number as long as it has none."""
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
    """The audit of a server process: records refusals, writes lines to the log, and removes old entries.

    Raises ``SettingError`` for settings that cannot be used.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        check_audit_settings(settings)
        self._store = store
        self._settings = settings
        self._days = timedelta(days=settings.audit_days)
        self._lines = AuditLog(settings.audit_log) if settings.audit_log else None
        self.reads = self._lines is not None and settings.audit_reads == "on"
        """Whether lines tell of reads."""
        self._lock = threading.Lock()
        self._pending: dict[RefusedRequests, _Gathered] = {}
        self._budget = TokenBucket(rate=_RATE, burst=_BURST)
        self._due, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        """Begin to store what was refused, and to remove what is old."""
        self._thread.start()

    def stop(self) -> None:
        """Store what is left, and end."""
        self._over.set()
        self._due.set()
        self._thread.join()
        self._budget = TokenBucket(rate=_RATE, burst=_BURST)
        self.store_refusals()
        if self._lines is not None:
            self._lines.close()

    def committed(self, entries: Sequence[AuditEntry]) -> None:
        """Tell others of entries that are stored."""
        if self._lines is not None and entries:
            self._lines.write(entries)

    def refused(self, refusal: RefusedRequests, xid: str = "") -> None:
        """Record a refusal soon. Takes microseconds, and no more memory however many there are."""
        with self._lock:
            self._collect(refusal, 1, (xid,) if xid else ())
        if not self._due.is_set():
            self._due.set()

    def read(self, identity: Identity, origin: RequestOrigin, path: str, status: int) -> None:
        """Tell others of a read; it is not stored."""
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
        """Remove entries older than the setting ``audit_days``; returns how many. Raises ``StorageError``."""
        if not self._days:
            return 0
        total, before = 0, values.now() - self._days
        # Most of the time there is nothing, and writers are not to be held up for it.
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
    """Return the one entry that stands for refusals when there are too many to store each."""
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
    """Entries as lines of JSON, in a file that its owner alone may read, or on standard output for ``-``.

    A file that was moved away, as logrotate does, is begun anew. Raises ``SettingError`` if it cannot be written.
    """

    def __init__(self, name: str) -> None:
        try:
            self._handler = _Output(sys.stdout) if name == STDOUT else _PrivateFile(name, encoding="utf-8")
        except OSError as error:
            raise SettingError(f"audit_log {name}: {error.strerror}; name a file that can be written") from None

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Write a line for each entry. They are committed by now, so that nothing may be raised."""
        text = "\n".join(dump_json(format_entry(entry)).decode() for entry in entries)
        record = logging.LogRecord("signalbook.audit", logging.INFO, "", 0, text, None, None)
        try:
            self._handler.handle(record)
        except OSError:  # the handler opens a file anew outside of what it guards itself
            self._handler.handleError(record)

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


class _Reporting(logging.Handler):
    """The log of entries. If it cannot be written, entries are stored in the database all the same."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  as the class has it
        """Say so in the log."""
        _LOG.error(_UNTOLD, sys.exc_info()[1])


class _Output(_Reporting, logging.StreamHandler[TextIO]):
    pass


class _PrivateFile(_Reporting, WatchedFileHandler):
    def _open(self) -> TextIOWrapper:
        # Before anything is in it: with the umask's mode others could open it in between.
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # What is written at once is one system call, so that lines of several server processes stay whole.
        return os.fdopen(descriptor, "a", buffering=_BUFFER, encoding="utf-8")


def check_audit_settings(settings: Settings) -> None:
    """Raise ``SettingError`` for a setting of the audit that has no usable value."""
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
