"""A spool for messages of brokers that deliver each message only once.

A message is written to the spool before it is confirmed to the broker, so that it cannot be lost. Messages are numbered
from 0 in the order of their arrival, for the lifetime of the spool. They are stored in segments: files or objects whose
name is the number of their first message. Each message is stored as its length, a checksum and its content. In a folder
new messages are appended to the last segment. In a store, messages that arrive together become a new segment, which is
created only if no object has its name. So no number is used twice, even if two writers both believe to be the only
one. A writer holds the lock of the spool; reading needs no lock.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, Self

import msgspec

from signalbook.pipeline.errors import PipelineError, build_disk_error
from signalbook.pipeline.locks import lock_of
from signalbook.pipeline.places import Place, run_in_parallel
from signalbook.pipeline.places.local import sync_folder

_SUFFIX: Final = ".messages"
_SESSION: Final = "memory.json"
_FULL: Final = "full"
_LOCK: Final = ".lock"
_HEAD: Final = Struct("!II")
# Bytes. Segments are small, because each task that needs a part of a segment reads all of it.
_SEGMENT: Final = 8 * 1024 * 1024
# The bytes of segments that are read at once. A single larger segment is read alone.
_TOGETHER: Final = 16 * 1024 * 1024
RECEIVED: Final = "received"
"""The name of the folder of the spool, in the folder of a stream in the output."""


class SpooledMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message in a spool.

    ``received_at`` is in microseconds since 1970; ``key`` has data that depend on the source.
    """

    address: str | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = None
    received_at: int

    @property
    def weight(self) -> int:
        """The approximate size of the message in bytes."""
        return len(self.value) + len(self.key or b"")


class SpoolSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session at a broker whose messages fill a spool.

    ``name`` identifies the session at the broker, ``receives`` are its subscriptions. ``lost`` means that the broker
    has forgotten the session.
    """

    name: str
    receives: tuple[str, ...] = msgspec.field(default=(), name="what")
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """A file or object with messages: the number of its first message, and its size in bytes."""

    first: int
    size: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(SpooledMessage)


class MessageSpool:
    """A spool that is open for writing. Its methods raise ``PipelineError``.

    ``end`` is the number that the next message gets, ``initial_end`` its value when the spool was opened. Only one
    thread at a time may call ``append``. Any thread may use ``begin``, ``end``, ``find_segments``, ``read_session`` and
    ``trim``.
    """

    def __init__(
        self, place: Place, *, segment: int = _SEGMENT, limit: int | None = None, patience: float = 60.0
    ) -> None:
        """Open the spool at ``place``, which is created if missing and holds at most ``limit`` bytes (None: no limit).

        ``segment`` is the size of a segment in bytes. Raises ``PipelineError`` if another process still holds the lock
        after ``patience`` seconds.
        """
        self._place = place
        self._most = segment
        self._limit = limit
        self._turn = threading.Lock()
        self._tail: _Tail | None = None
        self._full = True
        self._bytes = 0
        self._lock = lock_of(place / _LOCK)
        try:
            with self._convert_errors():
                place.make()
                # Before any message is confirmed, the entry of a new folder must be on the disk, too.
                place.parent.settle()
                self._take(patience)
                self._sizes = {listed.first: listed.size for listed in _list_segments(place)}
                self.end = self.initial_end = self._find_end()
                self._bytes = sum(self._sizes.values())
                if place.folder is not None:
                    self._start(place.folder)
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
        """The number of the first message in the spool; ``end`` if the spool is empty."""
        with self._turn:
            return next(iter(self._sizes), self.end)

    @property
    def costly(self) -> bool:
        """True if each write is a request to a store, so that messages should be written together."""
        return self._tail is None

    def append(self, messages: Sequence[SpooledMessage]) -> int:
        """Write as many of ``messages`` as the spool has room for, in order, and return how many are now durable.

        A message that is larger than the limit is written when the spool is empty.
        """
        written = 0
        while written < len(messages):
            content, count = self._encode_fitting(messages, written)
            if not count:
                break
            with self._convert_errors():
                self._write(content, count)
            written += count
        if messages:
            self._mark_full(full=written < len(messages))
        if self._tail is not None and written < len(messages) and self._tail.size:
            with self._convert_errors():
                # A full spool ends its last segment, so that trimming can remove all waiting messages.
                self._start(self._tail.path.parent)
        return written

    def find_segments(self, start: int, end: int) -> tuple[Segment, ...]:
        """Return the segments that contain the messages from number ``start`` to before ``end``."""
        with self._turn:
            bounds = list(zip(pairwise((*self._sizes, self.end)), self._sizes.values(), strict=True))
        return tuple(Segment(first, size) for (first, stop), size in bounds if first < end and start < stop)

    def trim(self, number: int) -> None:
        """Delete segments that contain only messages before ``number``."""
        # Only whole segments are deleted, because removing the beginning of a file would mean to copy the rest.
        with self._turn:  # keep the last segment: it is open for writing, or its name tells the next writer the number
            gone = [first for first, following in pairwise(self._sizes) if following <= number]
        with self._convert_errors():
            for _ in run_in_parallel(self._place, lambda first: (self._place / _format_name(first)).delete(), gone):
                pass
        with self._turn:
            for first in gone:
                self._bytes -= self._sizes.pop(first)
            if self._tail is None and number >= self.end and self._sizes:
                # The last segment is read but stays. Do not count its bytes: a segment as large as the limit would
                # otherwise block all further messages.
                last = next(reversed(self._sizes))
                self._bytes -= self._sizes[last]
                self._sizes[last] = 0

    def read_session(self) -> SpoolSession | None:
        """Return the session that was last stored by ``remember``, or None if none was stored."""
        with self._convert_errors():
            try:
                content = (self._place / _SESSION).read()
            except FileNotFoundError:
                return None
        return msgspec.json.decode(content, type=SpoolSession)

    def remember(self, session: SpoolSession) -> SpoolSession:
        """Store ``session`` durably, replacing the previous one, and return it."""
        with self._convert_errors():
            (self._place / _SESSION).replace(msgspec.json.encode(session))
        return session

    def close(self) -> None:
        """Close the spool and release its lock, so that another writer can open it."""
        if self._tail is not None:
            self._tail.close()
        self._lock.release()

    def _encode_fitting(self, messages: Sequence[SpooledMessage], start: int) -> tuple[bytes, int]:
        """Return messages from index ``start`` on, encoded, and their number.

        These are as many as fit into one segment and into the rest of the spool.
        """
        framed, size = list[bytes](), 0
        for place in range(start, len(messages)):
            content = _encode_message(messages[place])
            waiting = self._bytes + size
            if self._limit is not None and waiting and waiting + len(content) > self._limit:
                break
            if size and size + len(content) > self._most:
                break
            framed.append(content)
            size += len(content)
        return b"".join(framed), len(framed)

    def _write(self, content: bytes, count: int) -> None:
        """Append ``count`` messages, encoded in ``content``, durably."""
        if self._tail is not None:
            if self._tail.size >= self._most:
                self._start(self._tail.path.parent)
            # If this fails, the next writer removes the part that was written, because it was not counted.
            self._tail.write(content)
            self._add(self._tail.first, len(content), count)
            return
        while not (self._place / _format_name(self.end)).create(content):
            self._adopt()
        self._add(self.end, len(content), count)
        # The next writer owns these messages: do not confirm them, so that the broker sends them again.
        if not self._lock.is_held():
            raise self._build_taken_error()

    def _add(self, first: int, size: int, count: int) -> None:
        with self._turn:
            self._sizes[first] = self._sizes.get(first, 0) + size
            self._bytes += size
            self.end += count

    def _adopt(self) -> None:
        """Take over the segment with the number ``end``, which another process wrote.

        That process was killed before its write was confirmed, or it does not know yet that it has lost the lock.
        """
        content = (self._place / _format_name(self.end)).read()
        count = self._count(self.end, content)
        self._add(self.end, len(content), count)

    def _find_end(self) -> int:
        """Set ``end`` to the number after the last message, and return it."""
        self.end = next(reversed(self._sizes), 0)
        if self._sizes:
            self.end += self._repair_segment(self.end)
        if self._place.folder is None:
            # The listing may be outdated, and a write of a killed process may complete late.
            while (self._place / _format_name(self.end)).exists():
                self._adopt()
        return self.end

    def _repair_segment(self, first: int) -> int:
        """Repair the last segment, which begins with message ``first``, and return the number of its messages."""
        place = self._place / _format_name(first)
        content = place.read()
        if place.folder is None:
            return self._count(first, content)
        # Remove the incomplete message of a writer that died; it was never confirmed. Only the last segment can be
        # incomplete, because a new segment is begun only when the previous one is on the disk.
        ends = list(_find_ends(content))
        self._sizes[first] = ends[-1] if ends else 0
        with place.folder.open("r+b") as file:
            file.truncate(self._sizes[first])
            os.fsync(file.fileno())
        return len(ends)

    def _count(self, first: int, content: bytes) -> int:
        """Return the number of messages in ``content``, a complete segment.

        Raises ``PipelineError`` if it is damaged.
        """
        ends = list(_find_ends(content))
        if not ends or ends[-1] < len(content):
            raise PipelineError(f"{self._place / _format_name(first)} is damaged: restore it from a backup")
        return len(ends)

    def _start(self, folder: Path) -> None:
        """Begin a new segment in ``folder``, or continue with the existing empty segment of the same number."""
        if self._tail is not None:
            self._tail.close()
        with self._turn:
            self._tail = _Tail(folder, self.end)
            self._sizes.setdefault(self.end, 0)

    def _mark_full(self, *, full: bool) -> None:
        """Create or remove the file that shows other processes that the spool is full."""
        if full == self._full:
            return
        place = self._place / _FULL
        with self._convert_errors():
            if full:
                place.write(b"")
            else:
                place.delete()
        self._full = full

    def _take(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while not self._lock.take():
            if time.monotonic() > deadline:
                raise self._build_taken_error()
            time.sleep(self._lock.pause)

    def _build_taken_error(self) -> PipelineError:
        return PipelineError(
            f"another process receives messages into {self._place}: end it, or name this stream otherwise"
        )

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Raise ``PipelineError`` for errors of a disk or a store."""
        try:
            yield
        except OSError as error:
            raise build_disk_error(error, self._place) from error


class _Tail:
    """The last segment in a folder, to which messages are appended. Methods raise ``OSError``."""

    def __init__(self, folder: Path, first: int) -> None:
        self.first = first
        self.path = folder / _format_name(first)
        self.size = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        sync_folder(folder)

    def write(self, content: bytes) -> None:
        """Append to the file and sync it to the disk."""
        view = memoryview(content)
        while view:
            view = view[os.write(self._file, view) :]
        os.fsync(self._file)
        self.size += len(content)

    def close(self) -> None:
        """Close the file. Further calls do nothing."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def is_full(place: Place) -> bool:
    """Return True if the spool is full and messages wait at the broker. Raises ``OSError``."""
    return (place / _FULL).exists()


def read_messages(
    place: Place, segments: Sequence[Segment], start: int, end: int
) -> Iterator[tuple[int, SpooledMessage]]:
    """Yield number and message for each number from ``start`` to before ``end``, read from ``segments``.

    Raises ``PipelineError`` if messages are missing or damaged.
    """
    number = start
    for first, content in _read_contents(place, segments):
        if first > number:
            break
        before = 0
        for number_here, stop in enumerate(_find_ends(content), first):
            if number_here >= end:
                return
            if number_here >= number:
                yield number_here, _decoder.decode(memoryview(content)[before + _HEAD.size : stop])
                number = number_here + 1
            before = stop
    if number < end:
        shared = "the folder has to be one that driver and workers share, and nobody else's"
        raise PipelineError(
            f"the messages {number} to {end - 1} of {place} are not there or damaged: "
            f"{shared if place.folder is not None else 'nobody else may change what is there'}"
        )


def _read_contents(place: Place, segments: Sequence[Segment]) -> Iterator[tuple[int, bytes]]:
    """Yield the first number and the content of each segment, empty if it is missing. Raises ``PipelineError``."""

    def read(segment: Segment) -> bytes:
        try:
            return (place / _format_name(segment.first)).read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise PipelineError(f"cannot read from {place}: {error.strerror or error}") from error

    for group in _group_segments(segments):
        for segment, content in zip(group, run_in_parallel(place, read, group), strict=True):
            yield segment.first, content


def _group_segments(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    group, size = list[Segment](), 0
    for segment in segments:
        if group and size + segment.size > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


def _find_ends(content: bytes) -> Iterator[int]:
    """Yield the end offset of each message in ``content``, up to the first incomplete or damaged message."""
    position = 0
    while position + _HEAD.size <= len(content):
        length, checksum = _HEAD.unpack_from(content, position)
        stop = position + _HEAD.size + length
        if stop > len(content) or zlib.crc32(memoryview(content)[position + _HEAD.size : stop]) != checksum:
            return
        yield stop
        position = stop


def _encode_message(message: SpooledMessage) -> bytes:
    content = _encoder.encode(message)
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def _format_name(first: int) -> str:
    return f"{first:020d}{_SUFFIX}"


def _list_segments(place: Place) -> list[Segment]:
    """Return the existing segments, in the order of their messages."""
    named_files = (
        (file.path.removesuffix(_SUFFIX), file) for file in place.list_files() if file.path.endswith(_SUFFIX)
    )
    segments = (Segment(int(name), file.size) for name, file in named_files if name.isdecimal())
    return sorted(segments, key=lambda segment: segment.first)
