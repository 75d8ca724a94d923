"""Schemas in files, and the files beside them that they refer to (docs/references.md)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, Final, TypeAlias

from signalbook.cli.files import STANDARD_INPUT, read_file
from signalbook.errors import SignalbookError

if TYPE_CHECKING:
    from signalbook.cli.revisions import RevisionFiles

MAX_FILES: Final = 5_000
"""Files of a folder that are looked through for the names that they give themselves."""
MAX_FILE_BYTES: Final = 1024 * 1024
_FORMATS_BY_SUFFIX: Final = {".avsc": "Avro", ".json": "JsonSchema", ".jsonschema": "JsonSchema", ".xsd": "XSD"}
"""The formats whose files state their own names, by file ending."""
_ENDINGS: Final = ("", ".json", ".schema.json")
_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """A schema in a file.

    ``stated`` is the format that the user states, or ``""``. With a ``revision`` the file is as git has it there, and
    so are the files that it refers to. ``name`` is a path, a URL or ``-``.
    """

    name: str
    content: bytes = field(repr=False)
    stated: str = ""
    revision: str = ""

    @property
    def label(self) -> str:
        """The name to show to the user."""
        return f"{self.name} ({self.revision})" if self.revision else self.name

    @property
    def format(self) -> str:
        """The format that is stated, or that the file shows; ``""`` for neither."""
        from signalbook.documents import guess_format

        return self.stated or guess_format(self.name, self.content)

    def resolve(self, name: str) -> bytes | None:
        """Return the content of the file that a document calls ``name``.

        A path starts in the folder of this file, or in one above it. Any other name is that of the nearest file that
        gives itself this name. Files outside of the repository, or else of the working directory, are never read.
        """
        path = Path(self.name)
        if self.name == STANDARD_INPUT or "://" in self.name or not (self.revision or path.exists()):
            return None
        folder = path.resolve().parent
        files = _open_files(_find_top(folder), self.revision)
        match = _find_by_path(name, folder, files) or _find_by_identity(name, folder, files)
        return None if match is None else files.read(match)


@dataclass(frozen=True, slots=True, eq=False)
class _WorkingFiles:
    """The files of a folder as they are now."""

    top: Path

    def list_paths(self) -> Iterator[Path]:
        for folder, below, names in os.walk(self.top):
            below[:] = sorted(name for name in below if not _is_skipped(name))
            yield from (Path(folder, name) for name in sorted(names))

    def is_file(self, path: Path) -> bool:
        try:
            # A link may lead anywhere.
            return path.is_file() and path.resolve().is_relative_to(self.top)
        except OSError:  # a name that is too long, a folder that cannot be read
            return False

    def read(self, path: Path) -> bytes:
        return read_file(str(path))

    def read_small(self, paths: Iterable[Path], max_bytes: int) -> Iterator[tuple[Path, bytes]]:
        for path in paths:
            if _is_small_file(path, max_bytes):
                with suppress(SignalbookError):
                    yield path, read_file(str(path))


_Files: TypeAlias = "_WorkingFiles | RevisionFiles"


@lru_cache(maxsize=8)
def _open_files(top: Path, revision: str) -> _Files:
    if not revision:
        return _WorkingFiles(top)
    from signalbook.cli.revisions import files_at

    return files_at(top, revision)


def _find_top(folder: Path) -> Path:
    """Return the folder that bounds what is read: the repository, the working directory, or the folder itself."""
    above = (folder, *folder.parents)
    repository = next((parent for parent in above if (parent / ".git").exists()), None)
    if repository is not None:
        return repository
    working = Path.cwd()
    return working if working in above else folder


def _find_by_path(name: str, folder: Path, files: _Files) -> Path | None:
    relative = name.lstrip("/")
    if "://" in name or "\0" in name or _is_hidden(relative):
        return None
    for start in _walk_up(folder, files.top):
        for ending in _ENDINGS:
            path = Path(normpath(start / f"{relative}{ending}"))
            if path.is_relative_to(files.top) and files.is_file(path):
                return path
    return None


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in {".", ".."} for part in path.split("/"))


def _find_by_identity(name: str, folder: Path, files: _Files) -> Path | None:
    """Return the nearest file that gives itself this name; None if several are as near."""
    paths = _index_by_identity(files).get(name, ())
    for start in _walk_up(folder, files.top):
        near = [path for path in paths if path.is_relative_to(start)]
        if near:
            return near[0] if len(near) == 1 else None
    return None


def _walk_up(folder: Path, top: Path) -> Iterator[Path]:
    for parent in (folder, *folder.parents):
        if parent.is_relative_to(top):
            yield parent


@lru_cache(maxsize=8)
def _index_by_identity(files: _Files) -> dict[str, list[Path]]:
    """Return the files of a folder by the names that they give themselves."""
    from signalbook.formats.references import list_identities

    paths_by_name: dict[str, list[Path]] = {}
    for path, content in files.read_small(islice(_list_named(files), MAX_FILES), MAX_FILE_BYTES):
        for name in list_identities(content, _FORMATS_BY_SUFFIX[path.suffix]):
            paths_by_name.setdefault(name, []).append(path)
    return paths_by_name


def forget_files() -> None:
    """Look through folders again: their files may have changed since an earlier command of this process."""
    _open_files.cache_clear()
    _index_by_identity.cache_clear()


def _list_named(files: _Files) -> Iterator[Path]:
    for path in files.list_paths():
        if path.suffix in _FORMATS_BY_SUFFIX and not any(map(_is_skipped, path.relative_to(files.top).parts[:-1])):
            yield path


def _is_skipped(folder_name: str) -> bool:
    return folder_name.startswith(".") or folder_name in _SKIPPED


def _is_small_file(path: Path, max_bytes: int) -> bool:
    """Return True for a regular file: reading a named pipe would wait for ever, and a link may lead anywhere."""
    try:
        status = path.lstat()
    except OSError:  # removed since the folder was listed
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes
