"""Schemas in files, and the files beside them that they refer to (docs/references.md)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from posixpath import normpath
from typing import Final

from signalbook.cli.files import STANDARD_INPUT, guess_format, read_file
from signalbook.errors import SignalbookError

MAX_FILES: Final = 5_000
"""Files of a folder that are looked through for the names that they give themselves."""
MAX_FILE_BYTES: Final = 1024 * 1024
_NAMED: Final = (".avsc", ".json", ".jsonschema")
"""The endings of files that give themselves names."""
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
        return self.stated or guess_format(self.name, self.content)

    def resolve(self, name: str) -> bytes | None:
        """Return the content of the file that a document calls ``name``.

        A path starts in the folder of this file, or in one above it. Any other name is that of the nearest file that
        gives itself this name. Files outside of the repository, or else of the working directory, are never read.
        """
        path = Path(self.name)
        if self.name == STANDARD_INPUT or "://" in self.name or not path.exists():
            return None
        folder = path.resolve().parent
        top = _find_top(folder)
        found = _find_by_path(name, folder, top) or _find_by_identity(name, folder, top)
        return None if found is None else self._read(found)

    def _read(self, path: Path) -> bytes:
        if self.revision:
            from signalbook.cli.revisions import file_at

            content = file_at(path, self.revision)
            if content is not None:
                return content
        return read_file(str(path))


def _find_top(folder: Path) -> Path:
    """Return the folder that bounds what is read: the repository, the working directory, or the folder itself."""
    above = (folder, *folder.parents)
    repository = next((each for each in above if (each / ".git").exists()), None)
    if repository is not None:
        return repository
    working = Path.cwd()
    return working if working in above else folder


def _find_by_path(name: str, folder: Path, top: Path) -> Path | None:
    relative = name.lstrip("/")
    if "://" in name or "\0" in name or _is_hidden(relative):
        return None
    for start in _folders_up(folder, top):
        for ending in _ENDINGS:
            path = Path(normpath(start / f"{relative}{ending}"))
            if path.is_relative_to(top) and _is_file_under(path, top):
                return path
    return None


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in {".", ".."} for part in path.split("/"))


def _is_file_under(path: Path, top: Path) -> bool:
    try:
        # A link may lead anywhere.
        return path.is_file() and path.resolve().is_relative_to(top)
    except OSError:  # a name that is too long, a folder that cannot be read
        return False


def _find_by_identity(name: str, folder: Path, top: Path) -> Path | None:
    """Return the nearest file that gives itself this name; None if several are as near."""
    paths = _identities(top).get(name, ())
    for start in _folders_up(folder, top):
        near = [path for path in paths if path.is_relative_to(start)]
        if near:
            return near[0] if len(near) == 1 else None
    return None


def _folders_up(folder: Path, top: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        if each.is_relative_to(top):
            yield each


@lru_cache(maxsize=8)
def _identities(top: Path) -> dict[str, list[Path]]:
    """Return the files in a folder by the names that they give themselves."""
    from signalbook.formats.references import identities

    found: dict[str, list[Path]] = {}
    for path in _walk(top):
        try:
            content = read_file(str(path))
        except SignalbookError:
            continue
        format = "Avro" if path.suffix == ".avsc" else "JsonSchema"  # noqa: A001  the spec's name
        for name in identities(content, format):
            found.setdefault(name, []).append(path)
    return found


def forget_files() -> None:
    """Look through folders again: their files may have changed since an earlier command of this process."""
    _identities.cache_clear()


def _is_small_file(path: Path) -> bool:
    """Return True for a regular file: reading a named pipe would wait for ever, and a link may lead anywhere."""
    try:
        status = path.lstat()
    except OSError:  # removed since the folder was listed
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES


def _walk(top: Path) -> Iterator[Path]:
    count = 0
    for folder, below, names in os.walk(top):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            path = Path(folder, name)
            if name.endswith(_NAMED) and _is_small_file(path):
                count += 1
                if count > MAX_FILES:
                    return
                yield path
