"""Where replication resumes after a restart: its state, in memory, in a file or in the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from signalbook.engine.engine import Engine
from signalbook.errors import SignalbookError
from signalbook.storage.base import KeyValueStore
from signalbook.values import JSON, JSONError, JSONObject, dump_json, parse_json


class StateError(SignalbookError):
    """A state that cannot be read or written."""


class StateStore(Protocol):
    """Where a state is kept."""

    def load(self) -> JSON:
        """What was saved last, None if nothing was."""

    def save(self, state: JSONObject) -> None:
        """Keep ``state`` in place of what was there."""


class StateInMemory:
    """A state that ends with the program."""

    def __init__(self) -> None:
        self._state: JSON = None

    def load(self) -> JSON:
        return self._state

    def save(self, state: JSONObject) -> None:
        self._state = state


class StateFile:
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


class StateInDatabase:
    """A state beside the registry that this process has open; ``name`` distinguishes it from others."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = f"{FOLDER}/{name}"

    def load(self) -> JSON:
        return KeyValueStore(self._engine.store).get(self._name)

    def save(self, state: JSONObject) -> None:
        KeyValueStore(self._engine.store).put({self._name: state})


FOLDER: Final = "replications"
"""Of the notes beside a registry (``Engine.keep``)."""
