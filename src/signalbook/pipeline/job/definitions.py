"""The definitions of a stream. They are read again only between batches, so that a batch uses a single state."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

from signalbook.client import Client, NotFound, Refused, Unreachable
from signalbook.errors import SignalbookError
from signalbook.messages import Policy
from signalbook.pipeline.job.documents import URL, is_foreign
from signalbook.pipeline.job.snapshot import Snapshot
from signalbook.pipeline.job.subjects import Strategy
from signalbook.values import canonical_json, fingerprint

Notify = Callable[[str], None]
_PATIENCE: Final = 10.0
# Seconds to wait after a registry did not respond, and between readings of a registry without a change feed.
_PAUSE: Final = 10.0


class _ChangeMarker(Protocol):
    """A function whose result changes whenever the definitions may have changed."""

    def __call__(self) -> object: ...


class Definitions:
    """The last valid state of the definitions of ``registry``.

    The state is stored in ``snapshot_file``, for use when the registry cannot be reached. ``notify`` is called with
    each new note about doubtful definitions, when the definitions have changed, when changes cannot be followed, and
    when they can be followed again. The constructor raises the errors of ``Snapshot.load`` and ``Snapshot.check``. It
    raises errors of ``Client`` if the registry does not respond and no state is stored.
    """

    def __init__(
        self,
        registry: str,
        groups: Sequence[str],
        policy: Policy,
        *,
        snapshot_file: Path,
        notify: Notify,
        subjects: Strategy = "",
    ) -> None:
        self._registry = registry
        self._groups = tuple(groups)
        self._subjects: Strategy = subjects
        self._policy = policy
        self._kept = snapshot_file
        self._notify = notify
        self._client = Client(registry, timeout=_PATIENCE, attempts=1) if registry.startswith(URL) else None
        self._clue = self._choose_marker()
        self._seen: object = None
        self._said = ""
        self._doubts: tuple[str, ...] = ()
        self._snapshot = self._read_first()

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def read_current(self) -> Snapshot:
        """Return the definitions for the next batch: the current state if available and valid, else the last state."""
        try:
            seen = self._clue()
            if seen != self._seen:
                before, self._snapshot = self._snapshot, self._read()
                self._seen = seen  # set only after success, so that a failed reading is repeated for the next batch
                if self._snapshot.fingerprint != before.fingerprint:
                    self._notify(f"new definitions: {self._snapshot.fingerprint[:12]}")
            if self._said:
                self._notify("the definitions can be followed again")
            self._said = ""
        except (SignalbookError, OSError) as error:
            self._notify_once(f"the definitions before stay in force: {error}")
        return self._snapshot

    def _choose_marker(self) -> _ChangeMarker:
        if self._client is not None:
            return _build_feed_marker(self._client)
        # A registry with only Confluent's API has no feed: always read again, for schemas that were just registered.
        return object if is_foreign(self._registry) else _build_file_marker(Path(self._registry))

    def _read_first(self) -> Snapshot:
        try:
            seen = self._read_first_clue()
            snapshot = self._read()
        except (Unreachable, Refused) as error:
            # a gateway may respond for a registry that is down: this is no statement about the definitions
            down = isinstance(error, Unreachable) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            if not (down and self._kept.exists()):
                raise
            self._notify_once(f"the definitions kept from before are in force: {error}")
            snapshot = self._check(Snapshot.from_json(self._kept.read_bytes()))
        else:
            self._seen = seen
        return snapshot

    def _read_first_clue(self) -> object:
        """Return the first marker, or None if the registry is too slow and no snapshot is stored.

        Reading the definitions has a longer timeout.
        """
        try:
            return self._clue()
        except Unreachable:
            if self._kept.exists():
                raise
            return None

    def _read(self) -> Snapshot:
        snapshot = self._check(Snapshot.load(self._registry, self._groups, subjects=self._subjects))
        # store only checked definitions, because a stream may have to start from them without its registry
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._kept.with_suffix(".new")
        fresh.write_bytes(snapshot.to_json())
        fresh.replace(self._kept)
        return snapshot

    def _check(self, snapshot: Snapshot) -> Snapshot:
        checked = snapshot.check(self._policy)
        for doubt in checked.doubts:
            if doubt not in self._doubts:
                self._notify(doubt)
        self._doubts = checked.doubts
        return checked

    def _notify_once(self, words: str) -> None:
        if words != self._said:
            self._notify(words)
        self._said = words


def build_file_name(registry: str, groups: Sequence[str], subjects: Strategy = "") -> str:
    """Return the name of the snapshot file, which is unique for registry, groups and subjects."""
    identity = [registry, sorted(groups), subjects] if subjects else [registry, sorted(groups)]
    return f"definitions-{fingerprint(identity)[:12]}.json"


def _build_feed_marker(client: Client) -> _ChangeMarker:
    """Return a marker that is the position of the registry's change feed.

    Without a feed, the marker changes every ``_PAUSE`` seconds.
    """
    down: tuple[float, Unreachable] | None = None

    def look() -> object:
        nonlocal down
        if down is not None and time.monotonic() < down[0]:
            raise down[1]
        try:
            down = None
            return client.last_event()
        except NotFound:
            # The definitions are read again whenever the marker changes. The fingerprint of the snapshot then shows
            # whether they have changed.
            return time.monotonic() // _PAUSE
        except Unreachable as error:
            # Batches continue with the last definitions, and must not all wait for an unreachable registry.
            down = time.monotonic() + _PAUSE, error
            raise

    return look


def _build_file_marker(path: Path) -> _ChangeMarker:
    """Return a marker with names, sizes and times of the files at ``path``."""

    def look() -> object:
        files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
        file_stats = [(str(file), file.stat()) for file in files]
        return canonical_json([[name, stat.st_size, stat.st_mtime_ns, stat.st_ino] for name, stat in file_stats])

    return look
