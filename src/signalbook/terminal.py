"""Make text from clients, servers and documents safe to print: it must not control the terminal."""

from __future__ import annotations

from typing import Final

_ALLOWED_CONTROLS: Final = frozenset("\n\t")


def strip_controls(text: str) -> str:
    """Return ``text`` without characters that control a terminal: escapes, C1 codes, bidirectional overrides.

    Line breaks, tabs and all kinds of spaces within a line stay.
    """
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in _ALLOWED_CONTROLS or _is_space(char))


def _is_space(char: str) -> bool:
    return char.isspace() and char > "\x9f" and char not in "\u2028\u2029"
