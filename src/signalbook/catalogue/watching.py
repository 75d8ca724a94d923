"""Following a folder: looking now and then, reading when something is different, keeping the last good state."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from signalbook.catalogue.folder import mark, read_snapshot
from signalbook.catalogue.synchronising import NOTE, synchronise
from signalbook.engine.engine import Engine
from signalbook.errors import SignalbookError
from signalbook.storage.base import KeyValueStore
from signalbook.values import JSONObject

_LOG = logging.getLogger("signalbook.catalogue")
_TOLD = 20


class Watch:
    """The folder behind a registry. ``base`` is the model source that its documents extend.

    ``look`` raises nothing: what is wrong with the folder is told in the log and by ``status``, and what was there
    before stays.
    """

    def __init__(self, engine: Engine, folder: Path, base: JSONObject) -> None:
        self._engine = engine
        self._folder = folder
        self._base = base
        self._seen = ""
        self._error: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> JSONObject:
        """The ``folder``, the ``revision`` served ``since`` when, and the ``error`` of what is there now, if any."""
        note = KeyValueStore(self._engine.store).get(NOTE) or {}
        told = {name: note.get(name) for name in ("revision", "since", "documents", "repairs")}
        return {"folder": str(self._folder), **told, "error": self._error}

    def load(self) -> None:
        """Read the folder and bring the registry to it. Raises ``SignalbookError``; then nothing has changed."""
        snapshot = read_snapshot(self._folder)
        if synchronise(self._engine, snapshot, self._base):
            count = len(snapshot.source.parts)
            _LOG.info("%s: %d documents, revision %s", self._folder, count, snapshot.revision)
            for repair in snapshot.repairs[:_TOLD]:
                _LOG.warning("repaired %s", repair)

    def look(self) -> None:
        """Load the folder if it is not what it was at the last look, here or in another process of this server."""
        found = mark(self._folder)
        if found == self._seen:
            return
        self._seen, self._error = found, None
        if found == (KeyValueStore(self._engine.store).get(NOTE) or {}).get("mark"):
            return
        try:
            self.load()
        except SignalbookError as error:
            self._failed(str(error))
        except Exception as error:
            _LOG.exception("%s cannot be read", self._folder)
            self._failed(f"unexpected {type(error).__name__}")

    def start(self, seconds: float) -> None:
        """Look every ``seconds`` from now on, in a thread; with 0 never again."""
        self.look()
        if seconds > 0:
            self._thread = threading.Thread(target=self._follow, args=(seconds,), name="catalogue", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self.look()

    def _failed(self, error: str) -> None:
        _LOG.error("%s: keeping what was there before: %s", self._folder, error)
        self._error = error
