"""Outputs that fail for good after some operations, as for a driver that crashes: stores in memory, and folders."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from obstore.store import MemoryStore

from signalbook.pipeline.places import LocalPlace, Storage, place_of

_CRASHING = Storage.of({"region": "crashing"})


class Crashed(SystemExit):
    """The driver is gone: nothing handles this error, and threads end with it in silence."""


class Countdown:
    """The number of operations before the crash."""

    def __init__(self, operations: int) -> None:
        self._left = operations
        self._turn = Lock()

    def operate(self) -> None:
        """Count an operation. Raises ``Crashed`` when none is left."""
        with self._turn:
            if not self._left:
                raise Crashed
            self._left -= 1


class FaultyStore:
    """A connection to a store that fails when the countdown has ended."""

    def __init__(self, store: MemoryStore, countdown: Countdown) -> None:
        self._store = store
        self._countdown = countdown

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method of the store that counts as an operation."""

        def ask(*arguments: Any, **options: Any) -> Any:
            self._countdown.operate()
            return getattr(self._store, name)(*arguments, **options)

        return ask

    def delete(self, keys: str | list[str]) -> None:
        """Delete objects one by one, as stores may."""
        for key in [keys] if isinstance(keys, str) else keys:
            self._countdown.operate()
            self._store.delete(key)


class MemoryStores:
    """A store in memory with two places for the same output: ``crashing`` fails after so many operations."""

    url = "s3://bucket/lake"
    crashing = place_of(url, _CRASHING)
    sound = place_of(url)

    def __init__(self, objects: Mapping[str, bytes], operations: int = 0) -> None:
        self._store = MemoryStore()
        for key, content in objects.items():
            self._store.put(key, content)
        self._faulty = FaultyStore(self._store, Countdown(operations))

    def connect(self, root: str, storage: Storage) -> Any:
        """Return the connection of a place."""
        return self._faulty if storage == _CRASHING else self._store

    def objects(self) -> dict[str, bytes]:
        """Return all that is in the store."""
        paths = [meta["path"] for chunk in self._store.list() for meta in chunk]
        return {path: self._store.get(path).bytes().to_bytes() for path in paths}


class Disk:
    """The state of a folder that is not on the disk yet, and is lost when the machine crashes."""

    def __init__(self, operations: int) -> None:
        self._countdown = Countdown(operations)
        self._unsynced: set[Path] = set()
        self._moved: dict[Path, Path] = {}
        self._before: dict[Path, bytes | None] = {}

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Make all places in folders, and ``os.fsync``, count their operations and record what is not on the disk."""
        notes: dict[str, Callable[..., None]] = {
            "open_output": self._fill,
            "write": self._write,
            "replace": self._change,
            "delete": self._change,
            "move": self._move,
            "clear": self._clear,
        }
        for name, note in notes.items():
            patch.setattr(LocalPlace, name, self._noting(note, getattr(LocalPlace, name)))
        patch.setattr(os, "fsync", self._sync)

    def _noting(self, note: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
        def work(place: LocalPlace, *arguments: Any) -> Any:
            self._countdown.operate()
            note(place, *arguments)
            return method(place, *arguments)

        return work

    def _change(self, place: LocalPlace, *_: bytes) -> None:
        """Note what is there, where a file is about to be written or deleted. Its folder is to be synced then."""
        self._before.setdefault(place.path, place.read() if place.exists() else None)

    def _write(self, place: LocalPlace, _: bytes) -> None:
        """Note that both the name and the content are to be synced."""
        self._change(place)
        self._fill(place)

    def _fill(self, place: LocalPlace) -> None:
        """Note that a file is written that is to be synced."""
        self._unsynced.add(place.path)

    def _move(self, place: LocalPlace, to: LocalPlace) -> None:
        """Note that a file is renamed. The folder that it comes to is to be synced."""
        self._moved[to.path] = place.path
        if place.path in self._unsynced:
            self._unsynced.add(to.path)

    def _clear(self, place: LocalPlace) -> None:
        """Note nothing: what is cleared may stay."""

    def _sync(self, descriptor: int) -> None:
        """Note that a file or folder is on the disk."""
        self._countdown.operate()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self._unsynced.discard(path)
        self._moved = {to: source for to, source in self._moved.items() if to.parent != path}
        self._before = {file: content for file, content in self._before.items() if file.parent != path}

    def crash(self) -> None:
        """Lose all that is not on the disk: content, new names, and that files were deleted."""
        for path in filter(Path.exists, self._unsynced):
            path.write_bytes(b"")
        for to, path in filter(lambda pair: pair[0].exists(), self._moved.items()):
            to.replace(path)
        for path, content in self._before.items():
            path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
