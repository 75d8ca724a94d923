"""Files that commands read, and files that they write: whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from signalbook.errors import SignalbookError
from signalbook.filenames import FileNameError, OutputPaths

if TYPE_CHECKING:
    from signalbook.documents import FolderFile


STANDARD_INPUT: Final = "-"


class NotWritten(SignalbookError):
    """A file could not be written; what was there before still is."""


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Put ``pieces`` at ``path``: into a file beside it first, which then takes its place. Raises ``NotWritten``."""
    # A name of its own for each process, so that two at once do not write into one file.
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            # On the disk before it gets its name: a crash leaves the old file or the new one, whole.
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise _build_write_error(path, error) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def write_folder(path: Path, files: Iterable[FolderFile], *, instead: Iterable[PurePath]) -> int:
    """Make ``path`` hold ``files`` in place of the files and folders ``instead``, and return how many.

    Everything is written beside it first, and then put in place in the order of ``files``: a list of them that comes
    last is there only if all of them are. Paths may be made from the ids of a server: all are checked before anything
    is put in place. Raises ``NotWritten``, also if there are no files.
    """
    written: dict[PurePath, None] = {}
    paths = OutputPaths(path)
    beside = None
    try:
        stale = tuple(instead)
        for name in stale:
            paths.check_removal(name)
        path.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so on the same disk: its files can be moved into place.
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.resolve().parent))
        for file in files:
            paths.add(file.path)
            target = beside / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            written[file.path] = None
        if written:
            _take_place(beside, path, written, stale)
    except FileNameError as error:
        raise NotWritten(f"{path}: nothing was written: {error}") from None
    except OSError as error:
        raise _build_write_error(path, error) from None
    finally:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
    if not written:
        raise NotWritten(
            f"{path}: there is nothing to write: no Registry, Group or Resource was asked for, or it is gone"
        )
    return len(written)


def _take_place(beside: Path, path: Path, files: Iterable[PurePath], instead: Iterable[PurePath]) -> None:
    for stale in (path / name for name in instead):
        # Of a link, the link goes, never what it leads to.
        if stale.is_dir() and not stale.is_symlink():
            shutil.rmtree(stale)
        else:
            stale.unlink(missing_ok=True)
    for name in files:
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (beside / name).replace(target)


def _build_write_error(path: Path, error: OSError) -> NotWritten:
    return NotWritten(f"{path}: cannot be written: {error.strerror}")


def read_file(name: str) -> bytes:
    """Read a file, or standard input for ``-``. Raises ``DocumentError``."""
    from signalbook.documents import DocumentError, read_limited

    if name == STANDARD_INPUT:
        return read_limited(sys.stdin.buffer, name="standard input")
    try:
        with Path(name).open("rb") as file:
            return read_limited(file, name=name)
    except OSError as error:
        raise DocumentError(f"{name}: cannot be read: {error.strerror}") from None
