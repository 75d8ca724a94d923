"""The error raised for documents that cannot be read, and the repairs that are reported for lenient reading."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.errors import SignalbookError


class DocumentError(SignalbookError):
    """Raised for a document that is missing, too large or invalid. The message says where, and what is wrong."""


def line_of(text: str, position: int) -> int:
    """Return the number of the line, from 1, with the character at ``position``."""
    return text.count("\n", 0, position) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A repair: what was changed, where, and why.

    ``line`` (from 1) is the place of a repair to damaged text, ``path`` (``/endpoints/e#usage``) that of a repair to
    outdated names or values. ``rule`` is the number of the reason in docs/documents.md. ``file`` is set if the document
    was merged from several files.
    """

    message: str
    line: int | None = None
    path: str = ""
    rule: str = ""
    file: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" [{self.rule}]" if self.rule else "")
