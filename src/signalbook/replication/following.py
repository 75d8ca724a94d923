"""Replicate from and to other registries in a server, with one thread for each, in one of the processes on a store."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Self, TypeVar

from signalbook.client.registry import NoHistory
from signalbook.client.remote import RemoteRegistry
from signalbook.engine.engine import Engine
from signalbook.errors import SignalbookError
from signalbook.events.delivery.lease import LEASE_SECONDS, Lease
from signalbook.metrics import REPLICATION_FAILING, REPLICATION_SYNCED
from signalbook.replication.cncf.registry import CncfApi
from signalbook.replication.link import Scope, ScopeError, is_within
from signalbook.replication.local import LocalRegistry
from signalbook.replication.opening import copying, link, open_source, open_target
from signalbook.replication.replicating import FOLDER, Replication, StateInDatabase, keep_up, repeat
from signalbook.replication.report import CopyReport, NotCopied
from signalbook.settings import SettingError, Settings
from signalbook.storage.base import StorageError, StorageUnavailable
from signalbook.storage.store import KeyValueStore
from signalbook.uris import hide_user, is_address, without_user
from signalbook.values import JSON, JSONObject, digest, format_timestamp, now
from signalbook.xid import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A registry at ``url`` to copy from or, if ``target`` is True, to copy to. ``scope`` selects what is copied."""

    url: str
    scope: Scope
    target: bool = False

    @classmethod
    def parse(cls, text: str, *, target: bool = False) -> Self:
        """Read ``URL``, ``URL#XID`` or, for a Group under another name, ``URL#XID=NAME``. Raises ``SettingError``."""
        setting = "push" if target else "follow"
        url, _, part = text.partition("#")
        xid, _, name = part.partition("=")
        if not is_address(url):
            raise SettingError(f"{setting}: {hide_user(text)!r} does not begin with the URL of a registry")
        try:
            scope = Scope.parse(xid or "/", [f"{xid.strip('/')}={name}"] if name else ())
        except ScopeError as error:
            raise SettingError(f"{setting}: {text!r}: {error}") from None
        return cls(url=url.rstrip("/"), scope=scope, target=target)

    @property
    def shown(self) -> str:
        """The URL in the setting without user and password."""
        renamed = "".join(f"={new}" for new in self.scope.renames.values())
        part = f"#{self.scope.xid}{renamed}" if self.scope.xid.parts else ""
        return f"{without_user(self.url)}{part}"

    @property
    def name(self) -> str:
        """The name of the peer in keys of stored settings."""
        return digest(f"{'push ' if self.target else ''}{self.shown}".encode())[:16]

    def __str__(self) -> str:
        return f"{'pushing to' if self.target else 'following'} {self.shown}"

    def speaks(self, source: str) -> bool:
        """Return True if an event with this ``source`` is from the peer: from its root, or from an API below it."""
        return is_within(source, without_user(self.url))


def parse_peers(settings: Settings) -> tuple[Peer, ...]:
    """Return all registries that a server copies from or to. Raises ``SettingError``."""
    if settings.push and not settings.base_url:
        raise SettingError("push needs base_url: copies name the registry that they come from")
    followed = [Peer.parse(text) for text in settings.follow]
    return (*followed, *(Peer.parse(text, target=True) for text in settings.push))


_LOG: Final = logging.getLogger("signalbook.replication")
_LEASE: Final = f"{FOLDER}/lease"
_LOOK_SECONDS: Final = 0.5
_RETRY: Final = 5.0
_FINISH: Final = 5.0
"""Seconds that work in progress has to end. Unfinished work is repeated by the next process."""


class Following:
    """All peers of a server. Raises ``SettingError`` for invalid settings."""

    def __init__(self, engine: Engine, settings: Settings, *, lease: float = LEASE_SECONDS) -> None:
        self.peers = parse_peers(settings)
        self.sources = tuple(peer for peer in self.peers if not peer.target)
        self._engine = engine
        self._settings = settings
        self._lease = Lease(_LEASE, seconds=lease)
        self._stop = threading.Event()
        self._links: tuple[PeerLink, ...] = ()
        self._thread = threading.Thread(target=self._run, name="following", daemon=True)

    def start(self) -> None:
        """Start to copy if there are peers. Only the process that holds the lease copies."""
        if self.peers:
            self._thread.start()

    def stop(self) -> None:
        """Stop copying, and wait some seconds for work in progress."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def notify(self, sources: Iterable[str]) -> set[str]:
        """Check the peers with these event ``sources`` for changes at once. Return the sources that are followed.

        Any process may call this. It notifies the process that follows with a single write to the store.
        """
        meant = {source: [peer for peer in self.sources if peer.speaks(source)] for source in sources}
        at = format_timestamp(now())
        if marks := {_make_notice_key(peer): at for followed in meant.values() for peer in followed}:
            KeyValueStore(self._engine.store).put(marks)
        return {source for source, followed in meant.items() if followed}

    def status(self) -> JSONObject:
        """Return whether this process ``follows`` and pushes, and the status of each source and target."""
        status: JSONObject = {"follows": self._lease.held, "sources": {}}
        for peer_link in self._links:
            status.setdefault("targets" if peer_link.peer.target else "sources", {})[peer_link.peer.shown] = (
                peer_link.status()
            )
        return status

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._lease.due:
                self._renew()
            # Only the process that holds the lease copies: two would write the same copies at once.
            if self._lease.held and not self._links:
                self._links = tuple(PeerLink(self._engine, self._settings, peer) for peer in self.peers)
            elif not self._lease.held:
                self._end()
            self._stop.wait(_LOOK_SECONDS)
        self._end()
        with suppress(StorageError), self._engine.writing() as session:
            self._lease.release(session)

    def _renew(self) -> None:
        try:
            if not self._lease.is_free(KeyValueStore(self._engine.store).get(_LEASE)):
                return
            with self._engine.writing() as session:
                is_taken = self._lease.take(session)
            if is_taken:
                self._lease.confirm()
        except StorageUnavailable:
            pass  # the store logs it, once
        except StorageError as error:
            _LOG.warning("who follows cannot be settled: %s", error)

    def _end(self) -> None:
        _finish(self._links)
        self._links = ()


class PeerLink:
    """The replication with one peer, which runs until ``stop`` is set."""

    def __init__(self, engine: Engine, settings: Settings, peer: Peer) -> None:
        self.peer = peer
        self.stop = threading.Event()
        self._engine = engine
        self._settings = settings
        self._report = CopyReport()
        self._logged: RecentlySeen[NotCopied] = RecentlySeen()
        self._error = ""
        self._since = ""
        self._state = StateInDatabase(engine, peer.name)
        self._notified: JSON = None
        # Last of all: the thread begins with what was set above.
        self.thread = threading.Thread(target=self._run, name=str(peer), daemon=True)
        self.thread.start()

    def status(self) -> JSONObject:
        """Return the work since this process began. ``error``, since ``since``, is what prevents further work."""
        trouble = {"error": self._error, "since": self._since} if self._error else {}
        return {**trouble, **self._report.summary()}

    def _run(self) -> None:
        while not self.stop.is_set():
            try:
                if self.peer.target:
                    self._push()
                else:
                    self._follow()
            except SignalbookError as error:
                self._note_result(error)
            except Exception as error:
                _LOG.exception("%s failed", self.peer)
                self._note_result(SignalbookError(f"unexpected {type(error).__name__}"))
            self.stop.wait(_RETRY)

    def _follow(self) -> None:
        # Read before the first comparison, so that a notice during a comparison is not lost.
        self._notified = KeyValueStore(self._engine.store).get(_make_notice_key(self.peer))
        target = LocalRegistry(self._engine, self._settings.base_url)
        authorities = self._settings.follow_authorities
        with open_source(self.peer.url, timeout=2 * self._settings.request_timeout) as source:
            between = link(source, target, self.peer.scope, reached=self.peer.url, authorities=authorities)
            work = Replication(source, copying(source, target, between, self._report), between, self._state)
            try:
                keep_up(work, self.stop, self._note_result)
            except NoHistory as error:
                _LOG.info("%s", error)
                repeat(work, self._pause, self.stop, self._note_result)

    def _push(self) -> None:
        source, timeout = LocalRegistry(self._engine, self._settings.base_url), 2 * self._settings.request_timeout
        with open_target(self.peer.url, timeout=timeout, source=self._settings.base_url) as target:
            between = link(source, target, self.peer.scope)
            copy = copying(source, target, between, self._report)
            work = Replication(source, copy, between, self._state, made=partial(_find_creation_time, target))
            keep_up(work, self.stop, self._note_result)

    def _pause(self) -> None:
        """Wait until it is time to compare everything again, or until a notice arrives."""
        seconds_left = self._settings.follow_seconds
        while seconds_left > 0 and not self.stop.wait(min(seconds_left, _LOOK_SECONDS)):
            seconds_left -= _LOOK_SECONDS
            with suppress(StorageError):
                last_notice, self._notified = (
                    self._notified,
                    KeyValueStore(self._engine.store).get(_make_notice_key(self.peer)),
                )
                if self._notified != last_notice:
                    return

    def _note_result(self, error: SignalbookError | None) -> None:
        self._log_refusals()
        REPLICATION_FAILING.labels(self.peer.shown).set(error is not None)
        if error is None:
            REPLICATION_SYNCED.labels(self.peer.shown).set_to_current_time()
            self._error = self._since = ""
            return
        if str(error) != self._error:
            _LOG.warning("%s: %s", self.peer, error)
        self._since = self._since or format_timestamp(now())
        self._error = str(error)

    def _log_refusals(self) -> None:
        """Log each refused entity once, because the status contains only their number.

        The report has room for a limited number of refusals, so logged ones are removed from it.
        """
        for refusal in self._report.refused:
            if refusal not in self._logged:
                self._logged.add(refusal)
                _LOG.warning("%s: %s is refused: %s", self.peer, refusal.xid, refusal.reason)
        self._report.refused.clear()


def _find_creation_time(target: RemoteRegistry | CncfApi) -> str:
    """Return the time when a registry was made, or an empty text. Raises ``ClientError``."""
    return str(target.get(ROOT).get("createdat", "")) if isinstance(target, RemoteRegistry) else ""


def _make_notice_key(source: Peer) -> str:
    """Return the key of the stored time of the last notice about a source."""
    return f"{FOLDER}/{source.name}.knock"


def _finish(links: Sequence[PeerLink]) -> None:
    for peer_link in links:
        peer_link.stop.set()
    deadline = time.monotonic() + _FINISH
    for peer_link in links:
        peer_link.thread.join(max(0.0, deadline - time.monotonic()))


_MAX_REMEMBERED: Final = 10_000
T = TypeVar("T", bound=Hashable)


class RecentlySeen(Generic[T]):
    """The values that were added last, up to ``limit`` of them. Older values are forgotten."""

    def __init__(self, *, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._known: OrderedDict[T, None] = OrderedDict()

    def __contains__(self, value: T) -> bool:
        return value in self._known

    def add(self, value: T) -> None:
        """Remember ``value``. If there are too many values, forget the oldest."""
        self._known[value] = None
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
