"""Where messages wait that a broker gives once: what is in a spool lasts, since it was written before it was confirmed.

Messages are numbered from 0, in the order they came, for as long as the spool lives. They lie in segments, files or
objects called by the number of their first message; a message is its length, a checksum and its parts. In a folder the
last segment is written on to. In a store messages that come together are a segment, created where none is: so no number
is given twice, even by two that both believe to be alone. Whoever writes holds the spool's lock; anybody may read.
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
# Each task that has a part of a segment reads all of it.
_SEGMENT: Final = 8 * 1024 * 1024
# So many bytes of segments are asked for at once, or one segment that is larger.
_TOGETHER: Final = 16 * 1024 * 1024
RECEIVED: Final = "received"
"""Below a stream's own place in the output: its spool."""


class SpooledMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A message as it waits; ``received_at`` in microseconds since 1970."""

    address: str | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = None
    received_at: int

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return len(self.value) + len(self.key or b"")


class SpoolSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session at a broker that fills a spool: the ``name`` it goes by, and what it receives.

    ``lost`` says that the broker forgot it.
    """

    name: str
    receives: tuple[str, ...] = msgspec.field(default=(), name="what")
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """Messages that lie together: the number of the first, and how many bytes they are."""

    first: int
    size: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(SpooledMessage)


class MessageSpool:
    """The writer's side; ``initial_end`` is what ``end`` was when it was opened. Methods raise ``PipelineError``.

    ``append`` is for one thread at a time. Any thread may use ``begin``, ``end``, ``find_segments``,
    ``read_session`` and ``trim``.
    """

    def __init__(
        self, place: Place, *, segment: int = _SEGMENT, limit: int | None = None, patience: float = 60.0
    ) -> None:
        """Open the spool at ``place``, which is created if missing and takes ``limit`` bytes at most.

        Raises ``PipelineError`` if another process keeps it.
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
                place.parent.settle()  # the entry of a new folder is on the disk, too, before anything is confirmed
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
        """The number of the first message there is, or will be."""
        with self._turn:
            return next(iter(self._sizes), self.end)

    @property
    def costly(self) -> bool:
        """True if each write is a request, so that messages are better written together."""
        return self._tail is None

    def append(self, messages: Sequence[SpooledMessage]) -> int:
        """Write as many of the first messages as there is room for. Return their number once they are durable.

        One that is larger than the limit has room when nothing else waits.
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
                self._start(self._tail.path.parent)  # so that all of what waits can be trimmed
        return written

    def find_segments(self, start: int, end: int) -> tuple[Segment, ...]:
        """Return the segments with messages from number ``start`` to before ``end``."""
        with self._turn:
            bounds = list(zip(pairwise((*self._sizes, self.end)), self._sizes.values(), strict=True))
        return tuple(Segment(first, size) for (first, stop), size in bounds if first < end and start < stop)

    def trim(self, number: int) -> None:
        """Forget the messages before ``number``, by whole segments."""
        # By whole segments: to cut a file at its beginning would be to copy it.
        with self._turn:  # never the last one: it is written to, or tells the next what number comes
            gone = [first for first, following in pairwise(self._sizes) if following <= number]
        with self._convert_errors():
            for _ in run_in_parallel(self._place, lambda first: (self._place / _format_name(first)).delete(), gone):
                pass
        with self._turn:
            for first in gone:
                self._bytes -= self._sizes.pop(first)
            if self._tail is None and number >= self.end and self._sizes:
                # What nobody waits for takes no room: else one that is as large as the limit would stop all others.
                last = next(reversed(self._sizes))
                self._bytes -= self._sizes[last]
                self._sizes[last] = 0

    def read_session(self) -> SpoolSession | None:
        """Return the session that was last remembered."""
        with self._convert_errors():
            try:
                content = (self._place / _SESSION).read()
            except FileNotFoundError:
                return None
        return msgspec.json.decode(content, type=SpoolSession)

    def remember(self, session: SpoolSession) -> SpoolSession:
        """Keep a session in the place of the one before."""
        with self._convert_errors():
            (self._place / _SESSION).replace(msgspec.json.encode(session))
        return session

    def close(self) -> None:
        """Leave it to another writer."""
        if self._tail is not None:
            self._tail.close()
        self._lock.release()

    def _encode_fitting(self, messages: Sequence[SpooledMessage], start: int) -> tuple[bytes, int]:
        """Return the messages from ``start`` on that fit into a segment, encoded, and their number."""
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
        """Append messages durably."""
        if self._tail is not None:
            if self._tail.size >= self._most:
                self._start(self._tail.path.parent)
            # What was written of them when this fails is cut off by the next writer, since none of it is counted.
            self._tail.write(content)
            self._add(self._tail.first, len(content), count)
            return
        while not (self._place / _format_name(self.end)).create(content):
            self._adopt()
        self._add(self.end, len(content), count)
        if not self._lock.is_held():  # the next writer has what is there: it may be confirmed no more, and comes again
            raise self._build_taken_error()

    def _add(self, first: int, size: int, count: int) -> None:
        with self._turn:
            self._sizes[first] = self._sizes.get(first, 0) + size
            self._bytes += size
            self.end += count

    def _adopt(self) -> None:
        """Add the next segment, which another process wrote.

        It is of a process that was killed before it knew that it had written it, or that does not know yet that it
        lost the lock.
        """
        content = (self._place / _format_name(self.end)).read()
        count = self._count(self.end, content)
        self._add(self.end, len(content), count)

    def _find_end(self) -> int:
        """Return the number after the last message."""
        self.end = next(reversed(self._sizes), 0)
        if self._sizes:
            self.end += self._repair_segment(self.end)
        if self._place.folder is None:
            # A listing may be old, and what a killed process wrote come late.
            while (self._place / _format_name(self.end)).exists():
                self._adopt()
        return self.end

    def _repair_segment(self, first: int) -> int:
        """Repair the last segment, and return the number of its messages."""
        place = self._place / _format_name(first)
        content = place.read()
        if place.folder is None:
            return self._count(first, content)
        # What was being written when its writer died, and so was never confirmed, is cut off. Only the last segment
        # can be torn: a new one is begun when the one before is on the disk.
        ends = list(_find_ends(content))
        self._sizes[first] = ends[-1] if ends else 0
        with place.folder.open("r+b") as file:
            file.truncate(self._sizes[first])
            os.fsync(file.fileno())
        return len(ends)

    def _count(self, first: int, content: bytes) -> int:
        """Return the number of messages in an object, which is always whole. Raises ``PipelineError``."""
        ends = list(_find_ends(content))
        if not ends or ends[-1] < len(content):
            raise PipelineError(f"{self._place / _format_name(first)} is damaged: restore it from a backup")
        return len(ends)

    def _start(self, folder: Path) -> None:
        """Begin a segment, or go on with one that has nothing in it."""
        if self._tail is not None:
            self._tail.close()
        with self._turn:
            self._tail = _Tail(folder, self.end)
            self._sizes.setdefault(self.end, 0)

    def _mark_full(self, *, full: bool) -> None:
        """Leave a mark for those who look after the stream."""
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
    """The segment of a folder that is written on to. Methods raise ``OSError``."""

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
        """Close the file, and again where it is closed."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def is_full(place: Place) -> bool:
    """Return True if the spool is full and messages wait at the broker. Raises ``OSError``."""
    return (place / _FULL).exists()


def read_messages(
    place: Place, segments: Sequence[Segment], start: int, end: int
) -> Iterator[tuple[int, SpooledMessage]]:
    """The messages from number ``start`` to before ``end``, with their numbers. Raises ``PipelineError`` for a gap."""
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
    """Yield the contents of segments with their first numbers; empty if missing. Raises ``PipelineError``."""

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
    """Yield the ends of the intact messages in a segment."""
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
