"""Keep a target registry equal to a source: once, at intervals, or after each change (D-1, D-15)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from signalbook.client.registry import NoHistory, Pruned, ReadableRegistry, mark_of
from signalbook.engine.engine import Engine
from signalbook.errors import SignalbookError
from signalbook.replication.copying import Hints, of_events
from signalbook.replication.link import Link
from signalbook.storage.store import KeyValueStore
from signalbook.values import JSON, JSONError, JSONObject, dump_json, fingerprint, format_timestamp, now, parse_json

FOLDER: Final = "replications"
"""The prefix of all keys under which replication stores something."""


class StateError(SignalbookError):
    """The error for a state that cannot be read or written."""


class StateStore(Protocol):
    """A place where a state is stored."""

    def load(self) -> JSON:
        """Return the last saved state, or None."""

    def save(self, state: JSONObject) -> None:
        """Save ``state`` in place of the previous state."""


class StateInMemory:
    """A store that keeps the state in memory, until the program ends."""

    def __init__(self) -> None:
        self._state: JSON = None

    def load(self) -> JSON:
        return self._state

    def save(self, state: JSONObject) -> None:
        self._state = state


class StateFile:
    """A store that keeps the state in a file. The file is replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> JSON:
        """Load the state from its file. Raises ``StateError``."""
        try:
            return parse_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, JSONError) as error:
            raise StateError(f"{self._path} is no state of a replication: {error}") from None

    def save(self, state: JSONObject) -> None:
        """Save the state to its file. Raises ``StateError``."""
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            with new.open("wb") as file:
                file.write(dump_json(state))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise StateError(f"{self._path} cannot be written: {error.strerror}") from None


class StateInDatabase:
    """A store that keeps the state in the registry's database. ``name`` distinguishes it from other states there."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = f"{FOLDER}/{name}"

    def load(self) -> JSON:
        return KeyValueStore(self._engine.store).get(self._name)

    def save(self, state: JSONObject) -> None:
        KeyValueStore(self._engine.store).put({self._name: state})


def name_of(link: Link, creation_time: str = "") -> str:
    """Return a name for ``link`` that changes if any of its parts changes.

    ``creation_time`` is the time when the target was created, so that a new target does not continue an old state.
    """
    renames = {str(group): new for group, new in link.scope.renames.items()}
    parts: list[JSON] = [link.source, link.target, str(link.scope.xid), renames, list(link.authorities)]
    return fingerprint([*parts, creation_time] if creation_time else parts)[:16]


_LOG: Final = logging.getLogger("signalbook.replication")
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
Failed = Callable[[SignalbookError | None], None]
RIGHTS_SECONDS: Final = 60.0
"""Seconds between two checks whether the rights at the source have changed."""
_LISTEN: Final = 2.0
"""Seconds after which a waiting thread checks whether it should stop."""


class Repeatable(Protocol):
    """Compares two registries."""

    def everything(self) -> None:
        """Make the target equal to the source. Raises the errors of registries."""


class Copying(Repeatable, Protocol):
    """Copies over a link."""

    def changed(self, hints: Hints) -> None:
        """Make the entities in ``hints`` equal to those of the source. Raises like ``everything``."""


class Replication:
    """The replication over a link. ``state`` stores the position up to which the target has all changes of the source.

    ``copying`` begins a round of copying from the source to the target. The position advances only after the target has
    the changes. Copying a change twice has no effect. ``made`` returns the time when the target was created, for a
    state that is stored outside the target.
    """

    def __init__(
        self,
        source: ReadableRegistry,
        copying: Callable[[], Copying],
        link: Link,
        state: StateStore,
        *,
        made: Callable[[], str] = str,
    ) -> None:
        self._source = source
        self._copying = copying
        self._link = link
        self._state = state
        self._made = made
        self._name = name_of(link, made())
        self._looked = time.monotonic()

    def everything(self) -> None:
        """Compare all entities, and copy those that differ. Raises the errors of registries."""
        self._copying().everything()

    def advance(self) -> bool:
        """Copy everything the first time, and later some of the changes since then. Return True if there may be more.

        Raises like ``everything``.
        """
        position = self.position
        if position is None or self._has_other_rights():
            # Changes made while everything is read come after this position, and rights are checked again later.
            rights, position = self._source.rights(), self._source.position()
            mark = self._source.mark(position)
            self.everything()
            self._save_position(position, mark, rights=rights)
            return True
        try:
            changes = self._source.changes(position)
        except Pruned as error:
            _LOG.warning("%s: comparing everything: %s", self._link.source, error)
            self._save_position(None)
            return True
        if hints := of_events(changes.events):
            name = name_of(self._link, self._made())
            if name != self._name:
                _LOG.warning("%s: it was made anew: copying everything", self._link.target)
                self._name = name
                return True
            self._copying().changed(hints)
        if changes.position != position:
            self._save_position(changes.position, mark_of(changes.events, changes.position))
        return changes.more

    def begin(self) -> None:
        """Prepare to follow the source. If its history is another one than before, forget the position.

        This happens if the source was set up again or restored from a backup. Then its feed ends before the position,
        or has another change there.
        """
        position = self.position
        self._looked = -RIGHTS_SECONDS
        if position is not None and (self._source.position() < position or self._has_other_commit(position)):
            _LOG.warning("%s: its history begins anew: comparing everything", self._link.source)
            self._save_position(None)

    def listen(self, seconds: float = _LISTEN) -> None:
        """Wait for a change, but not longer than ``seconds``."""
        self._source.wait(self.position or 0, seconds)

    @property
    def position(self) -> int | None:
        """The position up to which changes were copied, or None before everything has been copied once."""
        state = self._state.load()
        if not isinstance(state, dict) or state.get("link") != self._name:
            return None
        position = state.get("position")
        return position if isinstance(position, int) else None

    def _has_other_commit(self, position: int) -> bool:
        """Return True if the commit at ``position`` is known to differ from the one that was seen."""
        state = self._state.load()
        saved_mark = state.get("mark") if isinstance(state, dict) else None
        mark = self._source.mark(position) if saved_mark else ""
        return bool(mark) and mark != saved_mark

    def _has_other_rights(self) -> bool:
        """Return True if the rights at the source may have changed since the last full comparison.

        Checked once a minute, because no events report what became readable.
        """
        if time.monotonic() - self._looked < RIGHTS_SECONDS:
            return False
        self._looked = time.monotonic()
        if self._source.rights() == self._rights:
            return False
        _LOG.info("%s: other rights may hold there: comparing everything", self._link.source)
        return True

    @property
    def _rights(self) -> str:
        state = self._state.load()
        return str(state.get("rights", "")) if isinstance(state, dict) else ""

    def _save_position(self, position: int | None, mark: str = "", *, rights: str | None = None) -> None:
        source, target = self._link.source, self._link.target
        state = {"link": self._name, "source": source, "target": target, "position": position, "mark": mark}
        state["rights"] = self._rights if rights is None else rights
        self._state.save({**state, "at": format_timestamp(now())})


def keep_up(replication: Replication, stop: threading.Event, failed: Failed) -> None:
    """Copy every change of the source until ``stop`` is set. After an error, try again after a growing pause.

    ``failed`` is called with each error, and with None when all changes were copied. Raises ``NoHistory`` if the source
    has no change feed.
    """
    pause, begun = _FIRST_PAUSE, False
    while not stop.is_set():
        try:
            if not begun:
                replication.begin()
            begun = True
            if not replication.advance():
                failed(None)
                replication.listen()
            pause = _FIRST_PAUSE
        # Trying again does not help, because the source has no feed at all.
        except NoHistory:
            raise
        except SignalbookError as error:
            # The source may have been set up again before it answers next, so check its history again.
            begun = False
            failed(error)
            stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def repeat(replication: Repeatable, pause: Callable[[], None], stop: threading.Event, failed: Failed) -> None:
    """Compare everything again after each ``pause`` until ``stop`` is set. ``failed`` is called as in ``keep_up``."""
    while not stop.is_set():
        try:
            replication.everything()
            failed(None)
        except SignalbookError as error:
            failed(error)
        pause()
