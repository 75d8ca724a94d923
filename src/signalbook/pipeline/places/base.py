"""What a place can do: a folder, file, prefix or object, whichever of those is there."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypeVar

from signalbook.pipeline.places.settings import Storage

TOGETHER: Final = 16
"""Requests to a store that are made at once."""

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Stored:
    """A file or object as it is listed: its path below what was listed, bytes, and nanoseconds since 1970."""

    path: str
    size: int
    modified: int


class Output(ABC):
    """Something that is being written; ``sink`` is what Arrow writes to, a path or an open file.

    A block that fails abandons it.
    """

    sink: Any

    def __enter__(self) -> Self:
        """Return the output."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Give up if the block failed."""
        if kind is not None:
            self.abandon()

    @abstractmethod
    def finish(self) -> int:
        """Publish the output at its place, and return its size in bytes. Raises ``OSError``."""

    @abstractmethod
    def abandon(self) -> None:
        """Give up the output: it will not be used."""


class Place(ABC):
    """A place. All methods raise ``OSError``: ``FileNotFoundError`` if there is nothing, or with the reason in words.

    Writing is atomic: readers see the old or the new content, never a part.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of its path."""

    @property
    @abstractmethod
    def parent(self) -> Place:
        """The place above it."""

    @property
    @abstractmethod
    def folder(self) -> Path | None:
        """The path, if it is on one of this machine's file systems."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """The settings of its store."""

    @abstractmethod
    def __truediv__(self, path: str) -> Place:
        """The place ``path`` below it."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the path or URL for other programs."""

    @abstractmethod
    def read(self) -> bytes:
        """Read everything."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Open for reading, unbuffered and seekable."""

    @abstractmethod
    def open_for_arrow(self) -> Any:
        """Return the source from which Arrow reads Parquet."""

    @abstractmethod
    def open_output(self) -> Output:
        """Open a place for writing a large content, which appears once it is finished."""

    @abstractmethod
    def find_size(self) -> int:
        """Return the size of the content in bytes."""

    @abstractmethod
    def exists(self) -> bool:
        """Return True if the place exists."""

    @abstractmethod
    def write(self, content: bytes) -> None:
        """Write ``content`` over the old one. On a disk a crash of the machine may lose it."""

    @abstractmethod
    def replace(self, content: bytes) -> None:
        """Write ``content`` over the old one durably."""

    @abstractmethod
    def create(self, content: bytes) -> bool:
        """Create the place durably, and return False if it existed.

        Of several simultaneous callers one succeeds; on a disk only under a lock.
        """

    @abstractmethod
    def read_tagged(self) -> tuple[bytes, str]:
        """Return the content, and a tag that changes with it."""

    @abstractmethod
    def swap(self, content: bytes, tag: str) -> bool:
        """Replace the content durably if it has the tag, and return True if so.

        Of several simultaneous callers one succeeds; on a disk only under a lock.
        """

    @abstractmethod
    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the files right below a place, or with ``deep`` on all levels; none if it does not exist."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """Return the names of folders right below a place."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder, where stores have something like that."""

    @abstractmethod
    def move(self, to: Place) -> None:
        """Move the content to another place of the same kind, over the old one."""

    @abstractmethod
    def settle(self) -> None:
        """Make moves to this folder durable."""

    @abstractmethod
    def delete(self) -> None:
        """Remove what is there, if it is."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all that is below, as far as that can be done."""


class Ranges(io.RawIOBase):
    """A file or object that ``fetch`` has bytes of, from one position up to another; ``name`` is for errors."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, name: str) -> None:
        self._fetch = fetch
        self._size = size
        self._name = name
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Seek to a position from the start, from here, or from the end."""
        self._at = max((0, self._at, self._size)[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read as many bytes as there are and fit."""
        view = memoryview(buffer).cast("B")
        content = self._read_range(len(view))
        view[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Read the rest."""
        return self._read_range(self._size - self._at)

    def read(self, size: int | None = -1) -> bytes:
        """Read up to ``size`` bytes."""
        return self.readall() if size is None or size < 0 else self._read_range(size)

    def _read_range(self, count: int) -> bytes:
        end = min(self._at + count, self._size)
        if end <= self._at:
            return b""
        content = self._fetch(self._at, end)
        if len(content) < end - self._at:
            raise OSError(errno.EIO, "the file became shorter while it was read", self._name)
        self._at = end
        return content


class Upload(Output):
    """A file without a name, for ``send`` to take: killed at any time, nothing is left of it.

    Up to ``whole`` bytes are sent as one.
    """

    def __init__(self, send: Callable[[bytes | BinaryIO], None], whole: int) -> None:
        import pyarrow as pa

        self._send = send
        self._whole = whole
        handle, name = tempfile.mkstemp()
        try:
            self._file = os.fdopen(handle, "rb")
            self.sink = pa.OSFile(name, mode="wb")
        finally:
            Path(name).unlink()

    def finish(self) -> int:
        """Send it."""
        self.sink.close()
        with self._file as file:
            size = os.fstat(file.fileno()).st_size
            self._send(file.read() if size <= self._whole else file)
        return size

    def abandon(self) -> None:
        """Close it."""
        self._file.close()
        self.sink.close()


def run_in_parallel(
    output: Place, look: Callable[[_Item], _Found], items: Iterable[_Item], *, local: int = 1
) -> Iterator[_Found]:
    """Yield the results of ``look`` for each of ``items``, in order; in a store several at once.

    In a folder ``local`` run at once. Requests follow the consumer, so only a few results are held.
    """
    together = TOGETHER if output.folder is None else local
    if together == 1:
        yield from map(look, items)
        return
    remaining = iter(items)
    with ThreadPoolExecutor(together) as pool:
        futures = deque(pool.submit(look, item) for item in islice(remaining, together))
        while futures:
            result = futures.popleft().result()
            futures.extend(pool.submit(look, item) for item in islice(remaining, 1))
            yield result
