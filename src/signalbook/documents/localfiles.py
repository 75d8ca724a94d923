"""Read files that a document refers to, only from its folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from signalbook.documents.errors import DocumentError

_FILE_NAME: Final = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*:)[^/?#][^?#]*")


def is_file_reference(reference: str) -> bool:
    """Return True if a URI reference without a fragment is the relative path of a file."""
    return _FILE_NAME.fullmatch(reference) is not None


@dataclass(slots=True)
class LocalFiles:
    """The files below ``root`` that the document at ``document`` refers to.

    ``bytes_left`` is how much can still be read. ``paths`` are the real paths of the files that were read.
    """

    document: Path
    root: Path
    bytes_left: int
    paths: set[Path] = field(default_factory=set)

    def exists(self, name: str) -> bool:
        """Return True if there is a file below the root at the path ``name``, relative to the document."""
        try:
            return self._find(self.document.parent / name, name).is_file()
        except (DocumentError, OSError):  # a name that is too long, a folder that cannot be read
            return False

    def read(self, name: str, where: str, *, beside: Path | None = None) -> tuple[Path, bytes]:
        """Return the real path and the bytes of a file. ``name`` is relative to the document, or to ``beside``.

        ``where`` is the place that names the file. Raises ``DocumentError`` for a file that is missing, not below the
        root, or too large.
        """
        file = (beside or self.document).parent / name
        path = self._find(file, where)
        try:
            if path.is_fifo():  # nobody may ever write to it
                raise DocumentError(f"{where}: {file} is no regular file")
            with path.open("rb") as opened:
                content = opened.read(self.bytes_left + 1)
        except OSError as error:
            raise DocumentError(f"{where}: {file} cannot be read: {error.strerror}") from None
        # One byte more than the limit was asked for, so that a file which grows while it is read is noticed as well.
        if len(content) > self.bytes_left:
            raise DocumentError(f"{where}: with {file} the document and its files are too large: split it")
        self.bytes_left -= len(content)
        self.paths.add(path)
        return path, content

    def _find(self, file: Path, where: str) -> Path:
        # Links are followed first: one inside of the folder may lead out of it.
        try:
            path = file.resolve()
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, NUL or half a character in the name
            raise DocumentError(f"{where!r} cannot be read: {error}") from None
        if not path.is_relative_to(self.root.resolve()):
            raise DocumentError(
                f"{where}: {file} lies outside {self.root}, from where nothing is read: give a folder that holds both"
            )
        return path
