"""How far a replication has come, kept where it outlives whoever runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from signalbook.engine.engine import Engine
from signalbook.errors import SignalbookError
from signalbook.replication.link import Link
from signalbook.storage.base import KeyValueStore
from signalbook.values import JSON, JSONError, JSONObject, dump_json, fingerprint, parse_json

FOLDER: Final = "replications"
"""Of the notes beside a registry (``Engine.keep``)."""


class StateError(SignalbookError):
    """A state that cannot be read or written."""


class Keeping(Protocol):
    """Where a state is kept."""

    def load(self) -> JSON:
        """What was saved last, None if nothing was."""

    def save(self, state: JSONObject) -> None:
        """Keep ``state`` in place of what was there."""


class Memory:
    """A state that ends with the program."""

    def __init__(self) -> None:
        self._state: JSON = None

    def load(self) -> JSON:
        """As the protocol says."""
        return self._state

    def save(self, state: JSONObject) -> None:
        """As the protocol says."""
        self._state = state


class File:
    """A state in a file, which is always whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> JSON:
        """As the protocol says. Raises ``StateError``."""
        try:
            return parse_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, JSONError) as error:
            raise StateError(f"{self._path} is no state of a replication: {error}") from None

    def save(self, state: JSONObject) -> None:
        """As the protocol says. Raises ``StateError``."""
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            with new.open("wb") as file:
                file.write(dump_json(state))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise StateError(f"{self._path} cannot be written: {error.strerror}") from None


class Note:
    """A state beside the registry that this process has open; ``name`` tells it from others."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = f"{FOLDER}/{name}"

    def load(self) -> JSON:
        """As the protocol says."""
        return KeyValueStore(self._engine.store).get(self._name)

    def save(self, state: JSONObject) -> None:
        """As the protocol says."""
        KeyValueStore(self._engine.store).put({self._name: state})


def name_of(link: Link) -> str:
    """What tells a link from others: as soon as one of its parts is different, it is another one."""
    renames = {str(group): new for group, new in link.scope.renames.items()}
    parts: JSON = [link.source, link.target, str(link.scope.xid), renames, list(link.authorities)]
    return fingerprint(parts)[:16]
