"""Places in HDFS, accessed by hdfs-native.

If several clients rename to the same free name, the NameNode lets only one succeed, and its listings are current. Files
are written under a hidden name and then renamed. HDFS has no writes that depend on the current content of a file.
Therefore ``swap`` claims the right to replace a content by renaming a folder to a name that is derived from this
content; only one client can succeed. The folder contains the new content, so that any client can complete the
replacement if the one that claimed it is killed.
"""

from __future__ import annotations

import errno
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final, TypeVar, cast

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places.base import Output, Place, Ranges, RemotePlace, Stored, Upload
from signalbook.pipeline.places.settings import Storage
from signalbook.plugins import install
from signalbook.values import digest

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus

SCHEME: Final = "hdfs"

_Found = TypeVar("_Found")
# How often hdfs-native looks for a reachable NameNode, and how long it waits in between: two minutes in total.
_RETRIES: Final = {
    "dfs.client.failover.max.attempts": "12",
    "dfs.client.failover.sleep.base.millis": "500",
    "dfs.client.failover.sleep.max.millis": "15000",
}
# The seconds for one request with all its retries. Data is transferred in portions of one request each.
_PATIENCE: Final = 300.0
_PORTION: Final = 8 * 1024 * 1024
_LISTED: Final = 1000
# Errors after which hdfs-native does not retry, because it is unknown whether a change was made. This module retries.
_LOST: Final = re.compile(r"disconnected|reset by peer|broken pipe|aborted|end of file|eof", re.IGNORECASE)
_TRIES: Final = 3
# How often, and after how many seconds each, to check whether the whole file is visible.
_LOOKS: Final = 100
_LOOK: Final = 0.1
# The names of hidden files and folders: files that are being written, and claims of ``swap``.
_OWN: Final = re.compile(r"(?:^|/)\.[0-9a-f]{32}\.(?:new|next)(?:/|$)")
# A Java exception in the text of an hdfs-native error: its class, and the first line of its message.
_REMOTE: Final = re.compile(r'RPCError\("(?:[\w$]+\.)*([\w$]+)", "((?:[^"\\]|\\[^n])*)')


@dataclass(frozen=True, slots=True)
class HdfsPlace(RemotePlace):
    """The file or folder ``path`` in the namespace at ``root``."""

    @classmethod
    def of(cls, url: str, storage: Storage) -> HdfsPlace:
        """Return the place of ``url``.

        Raises ``PipelineError`` for a URL without a host, with a user, or with parts that no HDFS path can have.
        """
        scheme, _, remainder = url.partition("://")
        host, _, path = remainder.partition("/")
        parts = path.rstrip("/").split("/") if path.rstrip("/") else []
        if "@" in host:
            raise PipelineError(  # the text omits the URL, which may contain secrets
                "an hdfs: URL with a user is not taken, for it is shown and kept: HADOOP_USER_NAME or a Kerberos "
                "ticket says who asks"
            )
        if not re.fullmatch(r"[\w.-]+(?::\d{1,5})?", host, re.ASCII):
            raise PipelineError(f"{url} names no NameNode: write {scheme}://HOST:PORT/FOLDER or a name service's name")
        if any(part in ("", ".", "..") or ":" in part for part in parts):
            raise PipelineError(f"{url} has an empty part, '.', '..' or a colon, which HDFS has no names with")
        return cls(f"{SCHEME}://{host}", "/".join(parts), storage)

    @property
    def _at(self) -> str:
        return f"/{self.path}"

    def _request(self, request: Callable[[Client], _Found]) -> _Found:
        """Send a request to the NameNode, again if the connection was lost. Raises ``OSError``."""
        client = connect(self.root, self.settings)
        with self._convert_errors():
            return _retry(lambda: run_with_timeout(lambda: request(client)))

    def _fetch_status(self) -> FileStatus:
        status = self._request(lambda client: client.get_file_info(self._at))
        if status.isdir:
            raise FileNotFoundError(errno.ENOENT, "not there", str(self))
        return status

    def _open_reader(self) -> FileReader:
        """Open the file once HDFS shows all of it, and return the reader. Raises ``OSError``."""
        for _ in range(_LOOKS):
            length = self.find_size()
            reader = self._request(lambda client: client.read(self._at))
            if len(reader) >= length:
                return reader
            # A NameNode may close a file before a DataNode has reported its last block, which is invisible until then.
            time.sleep(_LOOK)
        raise OSError(errno.EIO, "HDFS does not show the end of the file, which DataNodes have not reported", str(self))

    def _read_range(self, reader: FileReader, start: int, end: int) -> bytes:
        with self._convert_errors():
            return (
                _retry(lambda: run_with_timeout(lambda: reader.read_range(start, end - start))) if end > start else b""
            )

    def read(self) -> bytes:
        """Return the content of the file."""
        reader = self._open_reader()
        return self._read_range(reader, 0, len(reader))

    def open(self) -> BinaryIO:
        """Return the opened file. Each read of it is a request to the DataNodes."""
        reader = self._open_reader()
        return cast("BinaryIO", Ranges(lambda start, end: self._read_range(reader, start, end), len(reader), str(self)))

    def open_output(self) -> Output:
        """Return an output that is a temporary file without a name, and is uploaded by ``finish``."""
        return Upload(self.upload, _PORTION)

    def find_size(self) -> int:
        """Return the size of the file."""
        return int(self._fetch_status().length)

    def replace(self, content: bytes) -> None:
        """Write ``content`` to a hidden file in the same folder, and rename this file."""
        fresh = self._create_fresh(content)
        with suppress(FileNotFoundError):  # the file was renamed, but the response was lost
            fresh.move(self)

    def upload(self, content: bytes | BinaryIO) -> None:
        """Write ``content`` directly to this place. Until the file is closed, readers see only a part."""
        source = BytesIO(content) if isinstance(content, bytes) else content
        with self._convert_errors():
            _retry(lambda: self._send(source))

    def _send(self, source: BinaryIO) -> None:
        from hdfs_native import WriteOptions

        source.seek(0)
        # Use the inner client. The outer client returns a Python file, which is closed when it is garbage-collected.
        # Closing would wait for an unreachable NameNode, and make an incomplete file look complete.
        client = connect(self.root, self.settings).inner
        writer = run_with_timeout(lambda: client.create(self._at, WriteOptions(overwrite=True)))
        while portion := source.read(_PORTION):
            run_with_timeout(partial(writer.write, portion))
        run_with_timeout(writer.close)

    def _create_fresh(self, content: bytes, below: str = "") -> HdfsPlace:
        """Write ``content`` to a new hidden file next to this place, and return its place.

        With ``below`` create a hidden folder instead, with the file of this name in it. Leftovers stay hidden.
        """
        fresh = self.parent / f".{secrets.token_hex(16)}.new"
        (fresh / below).upload(content)
        return fresh

    def _claim(self, fresh: HdfsPlace) -> bool:
        """Rename ``fresh`` to this place. If the name is taken, remove ``fresh`` and return False."""
        try:
            self._request(lambda client: client.rename(fresh._at, self._at, overwrite=False))
        except FileExistsError:
            fresh.clear()
            return False
        except FileNotFoundError:  # the file was renamed, but the response was lost
            pass
        return True

    def create(self, content: bytes) -> bool:
        """Create the file from a hidden file, which is renamed only if the name is free. Return False if it is not.

        Return True also if the existing file has the same ``content``.
        """
        if self.exists():  # usually this saves writing the hidden file
            return self._has(content)
        return self._claim(self._create_fresh(content)) or self._has(content)

    def read_tagged(self) -> tuple[bytes, str]:
        """Return the content, with its digest as tag."""
        content = self.read()
        return content, digest(content)

    def _is_tagged(self, tag: str) -> bool:
        try:
            return self.read_tagged()[1] == tag
        except FileNotFoundError:
            return False

    def swap(self, content: bytes, tag: str) -> bool:
        """Replace the content by ``content`` if its tag is ``tag``. Return True if the place has ``content`` then.

        The right to do so is a folder named after the old content, which only one client can create.
        """
        if not self._is_tagged(tag):
            return self._has(content)
        following = self.parent / f".{digest(f'{self.name} {tag}'.encode())[:32]}.next"
        name = secrets.token_hex(16)
        claimed = following._claim(self._create_fresh(content, name))
        self._follow(following, tag)
        if not claimed:
            return self._has(content)
        # If the new content is still in the folder, the old content had been replaced before the claim. Discard it.
        stale = self._request(lambda client: client.delete((following / name)._at, recursive=False))
        self._forget(following)
        return not stale and self._has(content)

    def _follow(self, following: HdfsPlace, tag: str) -> None:
        """Complete the replacement that the folder ``following`` claims, by this or another client.

        The tag is compared after the claim was seen: from then on only the claimed content can replace the content that
        has the tag.
        """
        for claim in list(following._list(deep=False)):
            if self._is_tagged(tag):
                with suppress(FileNotFoundError):  # another client completed the replacement
                    HdfsPlace(self.root, claim.path.lstrip("/"), self.settings).move(self)
        self._forget(following)

    def _forget(self, following: HdfsPlace) -> None:
        """Remove the folder ``following`` of a claim if it is empty."""
        with suppress(OSError):
            self._request(lambda client: client.delete(following._at, recursive=False))

    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the files below this place, or directly in it without ``deep``. A request lists a thousand."""
        skipped = len(self._at.rstrip("/")) + 1
        for status in self._list(deep=deep):
            path = status.path[skipped:]
            # The path is empty if this place is a file, because HDFS then lists the file itself.
            if path and not status.isdir and not _OWN.search(path):
                yield Stored(path, int(status.length), int(status.modification_time) * 1_000_000)

    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below this place, in order."""
        names = (status.path.rpartition("/")[2] for status in self._list(deep=False) if status.isdir)
        return sorted(name for name in names if not _OWN.search(name))

    def _list(self, *, deep: bool) -> Iterator[FileStatus]:
        client = connect(self.root, self.settings)
        with self._convert_errors():
            statuses = client.list_status(self._at, deep)
            while some := self._take_some(statuses):
                yield from some

    def _take_some(self, statuses: Iterator[FileStatus]) -> list[FileStatus]:
        try:
            return run_with_timeout(lambda: list(islice(statuses, _LISTED)))
        except FileNotFoundError:
            return []

    def make(self) -> None:
        """Make the folder and its parents."""
        self._request(lambda client: client.mkdirs(self._at, create_parent=True))

    def move(self, to: Place) -> None:
        """Rename the file to ``to``, replacing an existing file."""
        assert isinstance(to, HdfsPlace)
        assert to.root == self.root
        self._request(lambda client: client.rename(self._at, to._at, overwrite=True))

    def delete(self) -> None:
        """Delete the file, if it exists."""
        self._request(lambda client: client.delete(self._at, recursive=False))

    def clear(self) -> None:
        """Remove the folder with its content. Raises no ``OSError``."""
        with suppress(OSError):  # the next call removes the rest
            self._request(lambda client: client.delete(self._at, recursive=True))

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors raised in the context to ``OSError`` with short texts."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "not there", str(self)) from None
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "already there", str(self)) from None
        except TimeoutError:
            raise OSError(errno.EIO, "HDFS does not answer", str(self)) from None
        except OSError as error:
            words = f"HDFS does not answer: {str(error).partition(chr(10))[0]}"
            raise OSError(errno.EIO, words, str(self)) from None
        except (RuntimeError, NotImplementedError) as error:
            raise OSError(errno.EIO, _shorten_error(str(error)), str(self)) from None


def _retry(attempt: Callable[[], _Found]) -> _Found:
    """Return the result of ``attempt``, which is repeated if the connection was lost."""
    for _ in range(_TRIES - 1):
        try:
            return attempt()
        except OSError as error:
            if not _LOST.search(str(error)):
                raise
    return attempt()


def _shorten_error(text: str) -> str:
    """Return the text of an hdfs-native error as one line, without Java's stack trace."""
    match = _REMOTE.search(text)
    if match is None:
        return f"HDFS: {text.partition(chr(10))[0]}"
    words = match[2].replace('\\"', '"').replace("\\'", "'")
    return f"HDFS answers {match[1]}: {words}"


@lru_cache(maxsize=64)
def connect(root: str, storage: Storage) -> Client:
    """Return the client of the namespace ``root``, cached with its connections. Raises ``PipelineError``."""
    try:
        from hdfs_native import Client
    except ModuleNotFoundError as error:
        raise PipelineError(f"{root} needs {error.name}: {install('hdfs')}") from error
    try:
        return Client(root, {**_RETRIES, **storage.build_hadoop_options(root)})
    except (RuntimeError, OSError) as error:
        if "No NameNode hosts found" in str(error):
            raise PipelineError(
                f"{root} has no port and is no name service that is known: give the NameNode's port, or say where "
                "NameNodes are, by namenodes in the section storage of the job or by HADOOP_CONF_DIR"
            ) from None
        raise PipelineError(f"{root} cannot be used: {_shorten_error(str(error))}") from None


def run_with_timeout(request: Callable[[], _Found]) -> _Found:
    """Return the result of ``request``, run in a thread. Raises ``TimeoutError`` after ``_PATIENCE`` seconds."""
    # hdfs-native waits for an answer as long as the connection lasts. Its asynchronous client can be cancelled, but
    # panics when it has to wait for another NameNode.
    future: Future[_Found] = Future()

    def ask() -> None:
        try:
            future.set_result(request())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=ask, name="hdfs", daemon=True).start()
    return future.result(_PATIENCE)
