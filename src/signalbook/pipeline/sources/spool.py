"""A folder in which messages wait that a broker gives once: what is in it was written to disk before it was confirmed.

Messages are numbered from 0, in the order they came, for as long as the folder lives. They lie in segments, files
called by the number of their first message; a message is its length, a checksum and its parts. Whoever writes holds the
folder's lock, which dies with its process; anybody may read.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, Self

import msgspec

from signalbook.pipeline.errors import PipelineError, disk_failure
from signalbook.pipeline.locks import locked
from signalbook.pipeline.places import LocalPlace
from signalbook.pipeline.places.local import sync_folder

_SUFFIX: Final = ".messages"
_SESSION: Final = "memory.json"
_FULL: Final = "full"
_LOCK: Final = ".lock"
_HEAD: Final = Struct("!II")
# Each task of each batch reads the segment that is being written.
_SEGMENT: Final = 8 * 1024 * 1024
_LOCK_PAUSE: Final = 0.2
RECEIVED: Final = "received"
"""The folder of a stream's own folder that is its spool."""


class SpooledMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message as it waits; ``received_at`` in microseconds since 1970."""

    address: str | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    key: bytes | None = None
    received_at: int


class SpoolSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session at a broker that fills a spool: the ``name`` it goes by, and what it receives.

    ``lost`` says that the broker forgot it.
    """

    name: str
    receives: tuple[str, ...] = msgspec.field(default=(), name="what")
    lost: bool = False


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(SpooledMessage)


class MessageSpool:
    """The writer's side. For one thread, but for ``end`` and ``trim``; ``found`` is what ``end`` was at first."""

    def __init__(
        self, folder: Path, *, segment: int = _SEGMENT, limit: int | None = None, patience: float = 60.0
    ) -> None:
        """Open the folder, made if it is not there, which takes ``limit`` bytes at most.

        Raises ``PipelineError`` if another process keeps it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)  # the entry of a new folder is on the disk, too, before anything is confirmed
        self._folder = folder
        self._most = segment
        self._limit = limit
        self._counting = threading.Lock()
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        self._file = -1
        try:
            self._take(patience)
            self.end = self.found = self._repair()
            self._bytes = sum(path.stat().st_size for _, path in _segments(folder))
            self._start()
            self._mark_full(full=False)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def begin(self) -> int:
        """The number of the first message there is, or will be."""
        return _segments(self._folder)[0][0]

    def append(self, messages: Sequence[SpooledMessage]) -> int:
        """Write as many of the first messages as there is room for; returns how many, once they are on the disk.

        One that is larger than the limit has room when nothing else waits. Raises ``PipelineError``.
        """
        if not messages:
            return 0
        if self._size >= self._most:
            self._start()
        content, count = self._fitting(messages)
        try:
            _write(self._file, content)
            os.fsync(self._file)
        except OSError as error:
            # What was written of them is cut off by the next writer, since none of it is counted.
            raise disk_failure(error, self._folder) from error
        self._size += len(content)
        self._count(len(content))
        self.end += count
        self._mark_full(full=count < len(messages))
        if count < len(messages) and self._size:
            self._start()  # so that all of what waits can be trimmed
        return count

    def trim(self, number: int) -> None:
        """Forget the messages before ``number``, by whole segments."""
        found = _segments(self._folder)
        # By whole segments: to cut a file at its beginning would be to copy it.
        for (_, path), (following, _) in pairwise(found):
            if following <= number:  # never the last segment, which is written to
                self._count(-path.stat().st_size)
                path.unlink()

    def session(self) -> SpoolSession | None:
        """The session that was last remembered."""
        path = self._folder / _SESSION
        return msgspec.json.decode(path.read_bytes(), type=SpoolSession) if path.exists() else None

    def remember(self, session: SpoolSession) -> SpoolSession:
        """Keep a session in the place of the one before."""
        LocalPlace(self._folder / _SESSION).replace(msgspec.json.encode(session))
        return session

    def close(self) -> None:
        """Leave it to another writer."""
        for handle in (self._file, self._lock):
            if handle >= 0:
                os.close(handle)
        self._file = self._lock = -1

    def _fitting(self, messages: Sequence[SpooledMessage]) -> tuple[bytes, int]:
        """Those of the first messages that there is room for, as they are written, and how many those are."""
        framed, waiting = list[bytes](), self._bytes
        for message in messages:
            content = _framed(message)
            if self._limit is not None and waiting and waiting + len(content) > self._limit:
                break
            framed.append(content)
            waiting += len(content)
        return b"".join(framed), len(framed)

    def _count(self, more: int) -> None:
        with self._counting:
            self._bytes += more

    def _mark_full(self, *, full: bool) -> None:
        """Leave a file for those who look after the stream."""
        place = self._folder / _FULL
        if full and not place.exists():
            place.touch()
        elif not full:
            place.unlink(missing_ok=True)

    def _take(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while not locked(self._lock):
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"another process receives messages into {self._folder}: end it, or name this stream otherwise"
                )
            time.sleep(_LOCK_PAUSE)

    def _repair(self) -> int:
        """Cut off what was being written when its writer died, and so was never confirmed. The next number."""
        found = _segments(self._folder)
        if not found:
            return 0
        first, path = found[-1]
        ends = list(_ends(path.read_bytes()))
        with path.open("r+b") as file:
            # Only the last segment can be torn: a new one is begun when the one before is on the disk.
            file.truncate(ends[-1] if ends else 0)
            os.fsync(file.fileno())
        return first + len(ends)

    def _start(self) -> None:
        """Begin a segment, or go on with one that has nothing in it."""
        if self._file >= 0:
            os.close(self._file)
        path = self._folder / f"{self.end:020d}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        sync_folder(self._folder)
        self._size = 0


def is_full(folder: Path) -> bool:
    """Whether more messages wait at the broker than the folder takes."""
    return (folder / _FULL).exists()


def read_messages(folder: Path, start: int, end: int) -> Iterator[tuple[int, SpooledMessage]]:
    """The messages from number ``start`` to before ``end``, with their numbers. Raises ``PipelineError`` for a gap."""
    number = start
    found = _segments(folder)
    for (first, path), following in zip(found, [*(first for first, _ in found[1:]), end], strict=True):
        if following <= number or first > number or number >= end:
            continue
        content = path.read_bytes()
        before = 0
        for number_here, stop in enumerate(_ends(content), first):
            if number_here >= end:
                return
            if number_here >= number:
                yield number_here, _decoder.decode(memoryview(content)[before + _HEAD.size : stop])
            before = stop
            number = max(number, number_here + 1)
    if number < end:
        raise PipelineError(
            f"the messages {number} to {end - 1} of {folder} are not there or damaged: the folder has to be one that "
            "driver and workers share, and nobody else's"
        )


def _ends(content: bytes) -> Iterator[int]:
    """Where the messages of a segment end, as far as they are sound."""
    position = 0
    while position + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, position)
        stop = position + _HEAD.size + length
        if stop > len(content) or zlib.crc32(memoryview(content)[position + _HEAD.size : stop]) != checksum:
            return
        yield stop
        position = stop


def _framed(message: SpooledMessage) -> bytes:
    content = _encoder.encode(message)
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _segments(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in folder.glob(f"*{_SUFFIX}"))


def _write(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
