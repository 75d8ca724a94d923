"""Places in a file system: plain files and folders, as lasting as the disk makes them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from signalbook.pipeline.places.base import Output, Place, Stored
from signalbook.pipeline.places.settings import Storage
from signalbook.values import digest


@dataclass(frozen=True, slots=True)
class LocalPlace(Place):
    """A path of a file system."""

    path: Path

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.name

    @property
    def parent(self) -> LocalPlace:
        """The folder it is in."""
        return LocalPlace(self.path.parent)

    @property
    def folder(self) -> Path | None:
        """The path."""
        return self.path

    @property
    def storage(self) -> Storage:
        """The settings, which are empty for local files."""
        return Storage()

    def __truediv__(self, path: str) -> LocalPlace:
        """A path below it."""
        return LocalPlace(self.path / path)

    def __str__(self) -> str:
        """The path."""
        return str(self.path)

    def __fspath__(self) -> str:
        """The path, for what opens files by themselves."""
        return str(self.path)

    def read(self) -> bytes:
        """The file's content."""
        return self.path.read_bytes()

    def open(self) -> BinaryIO:
        """The file."""
        return self.path.open("rb", buffering=0)

    def open_for_arrow(self) -> str:
        """Return the path: Arrow reads files by itself, faster than through Python."""
        return str(self.path)

    def open_output(self) -> Output:
        """Return the file itself, which nobody looks for before it is finished."""
        return _LocalOutput(self.path)

    def find_size(self) -> int:
        """Return the size."""
        return self.path.stat().st_size

    def exists(self) -> bool:
        """Return True if the file or folder exists."""
        return self.path.exists()

    def write(self, content: bytes) -> None:
        """Write a file next to it and rename that."""
        fresh = self.path.with_suffix(f".{os.getpid()}.new")
        fresh.write_bytes(content)
        fresh.replace(self.path)

    def replace(self, content: bytes) -> None:
        """Write a file next to it, sync it to the disk, and rename it."""
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            # The journal goes by this time; the clock of a file system may tick more slowly than batches are committed.
            os.utime(file.fileno(), ns=(time.time_ns(), time.time_ns()))
            os.fsync(file.fileno())
        # the content is on disk before the name is, and the name before anyone relies on it
        fresh.replace(self.path)
        sync_folder(self.path.parent)

    def create(self, content: bytes) -> bool:
        """Create like ``replace``: mounted buckets have no hard links, which would be atomic."""
        if self.path.exists():
            return self.path.read_bytes() == content
        self.replace(content)
        return True

    def read_tagged(self) -> tuple[bytes, str]:
        """Read with a digest of the content as tag."""
        content = self.path.read_bytes()
        return content, digest(content)

    def swap(self, content: bytes, tag: str) -> bool:
        """Replace if the content has the digest."""
        if not self.path.exists():
            return False
        existing, current_tag = self.read_tagged()
        if current_tag == tag:
            self.replace(content)
        return current_tag == tag or existing == content

    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the files in no order."""
        pending = [""]
        while pending:
            below = pending.pop()
            try:
                with os.scandir(self.path / below) as entries:
                    for entry in entries:
                        if entry.is_file():
                            status = entry.stat()
                            yield Stored(below + entry.name, status.st_size, status.st_mtime_ns)
                        elif deep and entry.is_dir():  # and no pipe
                            pending.append(f"{below}{entry.name}/")
            except FileNotFoundError:  # taken away in between, or never there
                continue

    def list_folders(self) -> list[str]:
        """Return the folders in order."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def make(self) -> None:
        """Make the folder and its parents."""
        self.path.mkdir(parents=True, exist_ok=True)

    def move(self, to: Place) -> None:
        """Rename the file."""
        assert isinstance(to, LocalPlace)
        self.path.replace(to.path)

    def settle(self) -> None:
        """Sync the folder to the disk."""
        sync_folder(self.path)

    def delete(self) -> None:
        """The file."""
        self.path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)


class _LocalOutput(Output):
    def __init__(self, path: Path) -> None:
        self.sink = str(path)

    def finish(self) -> int:
        # Before the journal says that there is such a file: after a crash of the machine it would be empty.
        with Path(self.sink).open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def abandon(self) -> None:
        pass


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` last through a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
