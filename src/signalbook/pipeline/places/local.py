"""Places in a file system: files and folders, as durable as the disk."""

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
        """The parent folder."""
        return LocalPlace(self.path.parent)

    @property
    def folder(self) -> Path | None:
        return self.path

    @property
    def storage(self) -> Storage:
        """The settings, which are empty for local files."""
        return Storage()

    def __truediv__(self, path: str) -> LocalPlace:
        """Return the place ``path`` below this place."""
        return LocalPlace(self.path / path)

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)

    def __fspath__(self) -> str:
        """Return the path, for functions that open files themselves."""
        return str(self.path)

    def read(self) -> bytes:
        """Return the content of the file."""
        return self.path.read_bytes()

    def open(self) -> BinaryIO:
        """Return the opened file."""
        return self.path.open("rb", buffering=0)

    def open_for_arrow(self) -> str:
        """Return the path, because Arrow reads a file itself faster than through Python."""
        return str(self.path)

    def open_output(self) -> Output:
        """Return an output that writes directly to the file, which nobody reads before it is finished."""
        return _LocalOutput(self.path)

    def find_size(self) -> int:
        """Return the size of the file in bytes."""
        return self.path.stat().st_size

    def exists(self) -> bool:
        """Return True if the file or folder exists."""
        return self.path.exists()

    def write(self, content: bytes) -> None:
        """Write ``content`` to a temporary file in the same folder, and rename this file."""
        fresh = self.path.with_suffix(f".{os.getpid()}.new")
        fresh.write_bytes(content)
        fresh.replace(self.path)

    def replace(self, content: bytes) -> None:
        """Write ``content`` to a temporary file in the same folder, sync it to the disk, and rename it."""
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            # The journal compares this time, and the clock of a file system may be too coarse for successive batches.
            os.utime(file.fileno(), ns=(time.time_ns(), time.time_ns()))
            os.fsync(file.fileno())
        # the content must be on disk before the new name, and the name before this method returns
        fresh.replace(self.path)
        sync_folder(self.path.parent)

    def create(self, content: bytes) -> bool:
        """Create the file like ``replace``. Return False if it exists with another content.

        Hard links would make this atomic, but mounted buckets do not support them.
        """
        if self.path.exists():
            return self.path.read_bytes() == content
        self.replace(content)
        return True

    def read_tagged(self) -> tuple[bytes, str]:
        """Return the content, with its digest as tag."""
        content = self.path.read_bytes()
        return content, digest(content)

    def swap(self, content: bytes, tag: str) -> bool:
        """Replace the content if its digest is ``tag``. Return True if the file has ``content`` afterwards."""
        if not self.path.exists():
            return False
        existing, current_tag = self.read_tagged()
        if current_tag == tag:
            self.replace(content)
        return current_tag == tag or existing == content

    def list_files(self, *, deep: bool = False) -> Iterator[Stored]:
        """Yield the files directly below the place, or with ``deep`` on all levels, in no particular order."""
        pending = [""]
        while pending:
            below = pending.pop()
            try:
                with os.scandir(self.path / below) as entries:
                    for entry in entries:
                        if entry.is_file():
                            status = entry.stat()
                            yield Stored(below + entry.name, status.st_size, status.st_mtime_ns)
                        elif deep and entry.is_dir():  # pipes and devices are skipped
                            pending.append(f"{below}{entry.name}/")
            except FileNotFoundError:  # the folder was deleted in the meantime, or never existed
                continue

    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below the place, in order."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def make(self) -> None:
        """Make the folder and its parents."""
        self.path.mkdir(parents=True, exist_ok=True)

    def move(self, to: Place) -> None:
        """Rename the file to ``to``, replacing an existing file."""
        assert isinstance(to, LocalPlace)
        self.path.replace(to.path)

    def settle(self) -> None:
        """Sync the folder to the disk, so that moves into it are durable."""
        sync_folder(self.path)

    def delete(self) -> None:
        """Delete the file, if it exists."""
        self.path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder with its content. Raises nothing."""
        shutil.rmtree(self.path, ignore_errors=True)


class _LocalOutput(Output):
    def __init__(self, path: Path) -> None:
        self.sink = str(path)

    def finish(self) -> int:
        # Sync before the journal names the file, because after a crash of the machine it would be empty otherwise.
        with Path(self.sink).open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def abandon(self) -> None:
        pass


def sync_folder(folder: Path) -> None:
    """Sync ``folder`` to the disk, so that renames in it survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
