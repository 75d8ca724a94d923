"""The interface of places: a place is a file or folder, or an object or prefix in a store."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, TypeVar

from signalbook.pipeline.places.settings import Storage

TOGETHER: Final = 16
"""The number of concurrent requests to a store."""

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Stored:
    """A listed file or object: path relative to the listed place, bytes, and modification in nanoseconds since 1970."""

    path: str
    size: int
    modified: int


class Output(ABC):
    """A file or object that is being written. ``sink`` is the path or open file that Arrow writes to.

    As a context manager it abandons the output if the block fails.
    """

    sink: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Abandon the output if the block failed."""
        if kind is not None:
            self.abandon()

    @abstractmethod
    def finish(self) -> int:
        """Complete the content at its place, and return its size in bytes. Raises ``OSError``."""

    @abstractmethod
    def abandon(self) -> None:
        """Give up the output. On a disk the incomplete file stays, and is removed with the other staged files."""


class Place(ABC):
    """A file or folder, or an object or prefix in a store.

    Methods raise ``OSError`` with a reason in words, or ``FileNotFoundError`` if nothing exists at the place. They
    raise ``PipelineError`` for a store that cannot be used, such as one without credentials. Writes are atomic, except
    those of ``open_output``: readers see either the old or the new content, never a part.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The last part of the path."""

    @property
    @abstractmethod
    def parent(self) -> Place:
        """The parent folder of the place."""

    @property
    @abstractmethod
    def folder(self) -> Path | None:
        """The path if the place is in a file system of this machine, otherwise None."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """The settings of the store of the place."""

    @abstractmethod
    def __truediv__(self, path: str) -> Place:
        """Return the place ``path`` below this place."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the path or URL of the place, which other programs can use."""

    @abstractmethod
    def read(self) -> bytes:
        """Return the content."""

    @abstractmethod
    def open(self) -> BinaryIO:
        """Return the file or object opened for reading, unbuffered and seekable."""

    @abstractmethod
    def open_for_arrow(self) -> Any:
        """Return the source from which Arrow reads Parquet."""

    @abstractmethod
    def open_output(self) -> Output:
        """Return an output for writing large content. Nobody may read the place before the output is finished.

        On a disk and in HDFS, an incomplete content may be visible until then.
        """

    @abstractmethod
    def find_size(self) -> int:
        """Return the size of the content in bytes."""

    @abstractmethod
    def exists(self) -> bool:
        """Return True if the place exists."""

    @abstractmethod
    def write(self, content: bytes) -> None:
        """Replace the content by ``content``. On a disk, a crash of the machine may lose the new content."""

    @abstractmethod
    def replace(self, content: bytes) -> None:
        """Replace the content by ``content`` durably."""

    @abstractmethod
    def create(self, content: bytes) -> bool:
        """Create the file or object durably. Return False if it exists with another content.

        Only one of several concurrent callers succeeds; on a disk this holds only if callers use a lock.
        """

    @abstractmethod
    def read_tagged(self) -> tuple[bytes, str]:
        """Return the content, and a tag that changes when the content changes."""

    @abstractmethod
    def swap(self, content: bytes, tag: str) -> bool:
        """Replace the content durably if its tag is ``tag``. Return True if the place has ``content`` afterwards.

        Only one of several concurrent callers succeeds; on a disk this holds only if callers use a lock.
        """

    @abstractmethod
    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the files directly below the place, or with ``deep`` on all levels; none if there is no such place."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below the place."""

    @abstractmethod
    def make(self) -> None:
        """Create the folder, if the store has folders."""

    @abstractmethod
    def move(self, to: Place) -> None:
        """Move the content to the place ``to`` of the same kind and store, replacing its content."""

    @abstractmethod
    def settle(self) -> None:
        """Make completed moves into this folder durable."""

    @abstractmethod
    def delete(self) -> None:
        """Delete the file or object, if it exists."""

    @abstractmethod
    def clear(self) -> None:
        """Delete everything below the place, as far as possible. Raises no ``OSError``."""


@dataclass(frozen=True, slots=True)
class RemotePlace(Place):
    """The file, object or folder ``path`` in the store or HDFS namespace at ``root``.

    A store or HDFS reports success only for durable changes, so nothing has to be synchronized afterwards.
    """

    root: str
    path: str
    settings: Storage = field(default_factory=Storage)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The parent folder."""
        return replace(self, path=self.path.rpartition("/")[0])

    @property
    def folder(self) -> None:
        """None: the place is not in a file system of this machine."""

    @property
    def storage(self) -> Storage:
        """The settings of the store."""
        return self.settings

    def __truediv__(self, path: str) -> Self:
        """Return the place ``path`` below this place."""
        return replace(self, path="/".join(filter(None, (self.path, path.strip("/")))))

    def __str__(self) -> str:
        """Return the URL of the place."""
        return f"{self.root}/{self.path}" if self.path else self.root

    def open_for_arrow(self) -> Any:
        """Return the opened file."""
        return self.open()

    def exists(self) -> bool:
        """Return True if the file or object exists. Return False for a folder."""
        try:
            self.find_size()
        except FileNotFoundError:
            return False
        return True

    def write(self, content: bytes) -> None:
        """Write ``content`` like ``replace``: all writes are durable."""
        self.replace(content)

    def settle(self) -> None:
        """Do nothing: completed moves are durable."""

    def _has(self, content: bytes) -> bool:
        try:
            return self.read() == content
        except FileNotFoundError:
            return False


class Ranges(io.RawIOBase):
    """A readable file of ``size`` bytes. ``fetch`` returns the bytes from a start to before an end offset.

    ``name`` is the name of the file in errors.
    """

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
        """Go to ``offset`` from the start, the current position or the end, and return the new position."""
        self._at = max((0, self._at, self._size)[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes into ``buffer``, and return their number."""
        view = memoryview(buffer).cast("B")
        content = self._read_range(len(view))
        view[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Return the rest of the file."""
        return self._read_range(self._size - self._at)

    def read(self, size: int | None = -1) -> bytes:
        """Return up to ``size`` bytes, or the rest of the file if ``size`` is None or negative."""
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
    """An output that is written to a temporary file and passed to ``send`` when it is finished.

    The temporary file has no name, so that nothing is left of it if the process is killed. Up to ``whole`` bytes are
    passed as bytes, more as an open file.
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
        """Send the content, and return its size in bytes."""
        self.sink.close()
        with self._file as file:
            size = os.fstat(file.fileno()).st_size
            self._send(file.read() if size <= self._whole else file)
        return size

    def abandon(self) -> None:
        """Discard the temporary file."""
        self._file.close()
        self.sink.close()


def run_in_parallel(
    output: Place, look: Callable[[_Item], _Found], items: Iterable[_Item], *, local: int = 1
) -> Iterator[_Found]:
    """Yield the result of ``look`` for each of ``items``, in order. For a store ``TOGETHER`` calls run concurrently.

    If ``output`` is a folder, ``local`` calls run concurrently. New calls start only as results are consumed, so that
    only a few results are in memory.
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
