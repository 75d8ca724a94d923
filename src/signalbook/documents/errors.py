"""The error raised for a document that cannot be read, and the repairs that a lenient reading reports."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.errors import SignalbookError


class DocumentError(SignalbookError):
    """A document that is not there, too large, or neither JSON nor YAML; the message says where and what is wrong."""


def line_of(text: str, position: int) -> int:
    """The line, from 1, that the character at ``position`` is in."""
    return text.count("\n", 0, position) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A repair: what was changed, where, and why.

    ``line`` (from 1) is of a damaged text; ``path`` (``/endpoints/e#usage``) is of a valid document with outdated names
    or values. ``rule`` is the reason's number in docs/documents.md. ``file`` is named if a document was made of
    several.
    """

    message: str
    line: int | None = None
    path: str = ""
    rule: str = ""
    file: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" [{self.rule}]" if self.rule else "")
