"""What is raised for a document that cannot be read."""

from __future__ import annotations

from signalbook.errors import SignalbookError


class DocumentError(SignalbookError):
    """A document that is not there, too large, or neither JSON nor YAML; the message says where and what is wrong."""


def line_of(text: str, position: int) -> int:
    """The line, from 1, that the character at ``position`` is in."""
    return text.count("\n", 0, position) + 1
