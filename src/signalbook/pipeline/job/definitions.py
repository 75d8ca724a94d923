"""The definitions of a stream: read again between its batches, so that no batch is held to two states of them."""

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
# After a registry did not answer it is left alone for a while, and one without a change feed is read so often.
_PAUSE: Final = 10.0


class _ChangeMarker(Protocol):
    """Something that is another whenever the definitions may be."""

    def __call__(self) -> object: ...


class Definitions:
    """The last good state of the definitions of ``registry``, kept in the file ``kept`` for when that is out of reach.

    ``notify`` is called, once each, with what is doubtful, what cannot be followed, and that it can again. Raises as
    ``Snapshot.load`` and ``Snapshot.check`` do, and for a registry that does not answer what ``Client`` raises, if
    nothing is kept.
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
        """Return the definitions for the next batch: the current ones if available and sound, else the former ones."""
        try:
            seen = self._clue()
            if seen != self._seen:
                before, self._snapshot = self._snapshot, self._read()
                self._seen = seen  # only now: what could not be read is tried again for the next batch
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
        # There is no feed: what a record of the next batch names may be there since a moment.
        return object if is_foreign(self._registry) else _build_file_marker(Path(self._registry))

    def _read_first(self) -> Snapshot:
        try:
            seen = self._read_first_clue()
            snapshot = self._read()
        except (Unreachable, Refused) as error:
            # a gateway answers for a registry that is away: nothing is said of the definitions
            down = isinstance(error, Unreachable) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            if not (down and self._kept.exists()):
                raise
            self._notify_once(f"the definitions kept from before are in force: {error}")
            snapshot = self._check(Snapshot.from_json(self._kept.read_bytes()))
        else:
            self._seen = seen
        return snapshot

    def _read_first_clue(self) -> object:
        """Return the first marker, None if that takes too long and there is no snapshot: reading has more time."""
        try:
            return self._clue()
        except Unreachable:
            if self._kept.exists():
                raise
            return None

    def _read(self) -> Snapshot:
        snapshot = self._check(Snapshot.load(self._registry, self._groups, subjects=self._subjects))
        # checked before it is kept: a stream that restarts without its registry must not start from what cannot be used
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
    """Return the name of the file for the definitions of a registry, which differs for other registries."""
    identity = [registry, sorted(groups), subjects] if subjects else [registry, sorted(groups)]
    return f"definitions-{fingerprint(identity)[:12]}.json"


def _build_feed_marker(client: Client) -> _ChangeMarker:
    """Return the position of the registry's change feed, or a marker that changes every few seconds without a feed."""
    down: tuple[float, Unreachable] | None = None

    def look() -> object:
        nonlocal down
        if down is not None and time.monotonic() < down[0]:
            raise down[1]
        try:
            down = None
            return client.last_event()
        except NotFound:
            # A clue that changes every few seconds has the definitions read as often; Snapshot fingerprints tell
            # whether anything changed.
            return time.monotonic() // _PAUSE
        except Unreachable as error:
            # Batches go on with the definitions they have, and not each of them waits for a registry that is away.
            down = time.monotonic() + _PAUSE, error
            raise

    return look


def _build_file_marker(path: Path) -> _ChangeMarker:
    """Return the files with their sizes and times."""

    def look() -> object:
        files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
        file_stats = [(str(file), file.stat()) for file in files]
        return canonical_json([[name, stat.st_size, stat.st_mtime_ns, stat.st_ino] for name, stat in file_stats])

    return look
