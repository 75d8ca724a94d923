"""The names of files that are made from ids, and the check of every path that is written below a folder.

Ids come from servers and documents, which may be hostile. ``file_name`` turns any text into the name of one file.
``OutputPaths`` checks relative paths before anything is written below a folder. Every command that writes more than one
file uses both.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from signalbook.errors import SignalbookError
from signalbook.values import digest

MAX_NAME_CHARS: Final = 200
"""File systems take 255 bytes in a name, and programs add suffixes."""
_CUT_NAME_CHARS: Final = 120
_MAX_NAME_BYTES: Final = 255
_PLAIN_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~@-")
_RESERVED_BY_WINDOWS: Final = frozenset('<>:"/\\|?*')
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{number}" for name in ("com", "lpt") for number in range(10))}
)
"""Names that Windows reserves for devices, with any suffix."""


class FileNameError(SignalbookError):
    """A path that must not be written: it leads out of its folder, or some file system cannot hold it."""


def file_name(text: str, *, mark: str = "%", not_first: str = ".", reserved: Collection[str] = ()) -> str:
    """Return ``text`` as the name of one file on any file system. Different texts have different names.

    A character that some file system or shell treats specially becomes ``mark`` and two hexadecimal digits for each
    byte. So do the first character of the name of a Windows device, of a name in ``reserved`` (in lower case) and of a
    name that begins with a character of ``not_first``, and a dot at the end. With ``%`` as the mark,
    ``urllib.parse.unquote`` restores the text, unless it was cut because it is too long.
    """
    name = "".join(char if char in _PLAIN_CHARS else _encode(char, mark) for char in text)
    if not name or name[0] in not_first or name.lower() in reserved or name.partition(".")[0].lower() in _DEVICES:
        name = _encode(text[:1], mark) + name[1:]
    if name.endswith("."):
        name = name[:-1] + _encode(".", mark)
    if len(name) > MAX_NAME_CHARS:
        return f"{name[:_CUT_NAME_CHARS]}{mark}~{digest(text.encode('utf-8', 'surrogatepass'))}"
    return name or mark


def _encode(char: str, mark: str) -> str:
    return "".join(f"{mark}{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


def check_path(text: str) -> PurePosixPath:
    """Return ``text`` as a path below some folder.

    Raises:
        FileNameError: if it is absolute, leads upwards, or has a part that some file system cannot hold. Names of
            Windows devices pass; ``file_name`` escapes them.
    """
    for part in text.split("/"):
        reason = _find_fault(part)
        if reason:
            raise FileNameError(f"{text!r} is not a path for a file in a folder: {part!r} {reason}")
    return PurePosixPath(text)


def _find_fault(part: str) -> str:
    """Return why ``part`` is not the name of a file on every file system, ``""`` if it is."""
    if part in ("", ".", ".."):
        return "is not a name"
    if any(char in _RESERVED_BY_WINDOWS or not char.isprintable() for char in part):
        return "has a character that file names must not have"
    if part[-1] in ". ":
        return "ends with a dot or a space"
    if len(part.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return f"has more than {_MAX_NAME_BYTES} bytes"
    return ""


class OutputPaths:
    """The paths below ``folder`` that one command writes or removes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Files and folders as file systems that ignore case see them: the path, and whether it is a file.
        self._claims: dict[str, tuple[str, bool]] = {}

    def add(self, path: PurePath) -> None:
        """Check the path of a file that is going to be written.

        Raises:
            FileNameError: if ``check_path`` rejects it, a link is on its way, or the file systems that ignore case
                would take it for another path that was added.
        """
        self.check_removal(path)
        text = path.as_posix()
        parts = text.split("/")
        for length in range(len(parts), 0, -1):
            self._claim("/".join(parts[:length]), is_file=length == len(parts))

    def check_removal(self, path: PurePath) -> None:
        """Check a path whose file or folder is going to be removed. Raises ``FileNameError`` like ``add``."""
        checked = check_path(path.as_posix())
        for above in list(checked.parents)[:-1]:
            # The last part may be a link: a file takes its place, what it leads to stays as it is.
            if (self._folder / above).is_symlink():
                raise FileNameError(f"{self._folder / above} is a link, which is not followed: remove it")

    def _claim(self, path: str, *, is_file: bool) -> None:
        claim = (path, is_file)
        earlier = self._claims.setdefault(unicodedata.normalize("NFC", path).casefold(), claim)
        # A folder may be claimed again by each file in it, if it is spelled the same.
        if earlier is not claim and (is_file or earlier != claim):
            raise FileNameError(f"{path!r} and {earlier[0]!r} would be one file on some file systems")
