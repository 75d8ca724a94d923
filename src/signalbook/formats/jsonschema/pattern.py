"""Translate regular expressions so that Python's engine matches exactly like the validator, in linear time.

Python backtracks: with a pattern such as ``(a+)+$``, one payload can take hours. An accepted pattern has at most one
open-ended repetition, and only if anchored, and a small product of all other choices. For all other patterns the
validator has to be used.
"""

from __future__ import annotations

import re
from typing import Final

_MAX_CHOICES: Final = 64
_MAX_REPEAT: Final = 1000
_MAX_PATTERN: Final = 1000
_SPECIAL: Final = frozenset("\\^$.|?*+()[]{}")
_ESCAPED: Final = _SPECIAL | frozenset("-/")
# These classes are ASCII here as in the validator. \s is not, so patterns with it are left to the validator.
_CLASSES: Final = {"d": "0-9", "w": "A-Za-z0-9_"}
# Unescaped in a class, these are set operations in one of the two engines.
_REFUSED_IN_CLASS: Final = frozenset("[&~|")
# A character or a class of characters, with its repetition.
_ATOM: Final = re.compile(
    r"(?:\\[dDwWsS./\-]|\[\^?[A-Za-z0-9_ .,:/-]+\]|[A-Za-z0-9_ .,:/@#-])(?:\{(\d{1,4})(?:,(\d{0,4}))?\}|([?*+]))?",
    re.ASCII,
)


def find_lengths(pattern: str) -> tuple[int, int | None]:
    """Return the minimum and maximum length of matching texts, in characters; None means no maximum.

    For patterns with groups, alternatives and similar constructs, the result is 0 and None.
    """
    inner = pattern.removeprefix("^").removesuffix("$")
    low, high, at = 0, 0, 0
    is_bounded = pattern.startswith("^") and pattern.endswith("$")
    while at < len(inner):
        atom = _ATOM.match(inner, at)
        if atom is None:
            return 0, None
        least, most, mark = atom.groups()
        low += int(least) if least else 0 if mark in ("?", "*") else 1
        is_bounded &= mark not in ("*", "+") and most != ""
        high += int(most or least or 1)
        at = atom.end()
    return low, high if is_bounded else None


class _Refused(Exception):
    """Raised for a pattern outside the supported subset."""


def translate(pattern: str) -> str | None:
    """Return an equivalent pattern for ``re.search``, or None if no safe and equivalent one is known."""
    if len(pattern) > _MAX_PATTERN:
        return None
    try:
        return _Translator(pattern).run()
    except _Refused:
        return None


class _Translator:
    """Translates a pattern to Python's dialect and counts the choices that backtracking could try."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.choices = 1
        self.open_ended = 0

    def run(self) -> str:
        anchored = self.take("^")
        out = [self.read_alternatives(top=True)]
        ended = self.take("$")
        if self.at < len(self.text) or self.choices > _MAX_CHOICES or self.open_ended > (1 if anchored else 0):
            raise _Refused
        return ("^" if anchored else "") + "".join(out) + (r"\Z" if ended else "")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        matches = self.text.startswith(text, self.at)
        self.at += len(text) if matches else 0
        return matches

    def read_alternatives(self, *, top: bool) -> str:
        branches = [self.read_sequence()]
        while self.peek() == "|":
            if top:
                raise _Refused  # in ^a|b$, each anchor belongs to one alternative
            self.at += 1
            branches.append(self.read_sequence())
        self.choices *= len(branches)
        return "|".join(branches)

    def read_sequence(self) -> str:
        out = []
        while self.peek() and self.peek() not in "|)$":
            atom, simple = self.read_atom()
            out.append(atom + self.read_quantifier(simple))
        return "".join(out)

    def read_atom(self) -> tuple[str, bool]:
        """Return an atom, and True if the atom may be repeated."""
        char = self.peek()
        if char == "(":
            return self.group(), False
        if char == "[":
            return self.read_class(), True
        self.at += 1
        if char == "\\":
            return self.escape(in_class=False), True
        if char == ".":
            return r"[^\n]", True
        if char in _SPECIAL:
            raise _Refused
        return char, True

    def group(self) -> str:
        self.at += 1
        if self.peek() == "?" and not self.take("?:"):
            raise _Refused
        inner = self.read_alternatives(top=False)
        if not self.take(")"):
            raise _Refused
        return f"(?:{inner})"

    def escape(self, *, in_class: bool) -> str:
        char = self.peek()
        self.at += 1
        if char in _CLASSES:
            return _CLASSES[char] if in_class else f"[{_CLASSES[char]}]"
        if char in _ESCAPED:
            return "\\" + char
        raise _Refused

    def read_class(self) -> str:
        self.at += 1
        out = ["[^" if self.take("^") else "["]
        while self.peek() != "]" or len(out) == 1:
            out.append(self.read_class_member())
        self.at += 1
        return "".join(out) + "]"

    def read_class_member(self) -> str:
        char = self.peek()
        if not char or char in _REFUSED_IN_CLASS or char == "]" or self.text.startswith("--", self.at):
            raise _Refused
        self.at += 1
        return self.escape(in_class=True) if char == "\\" else char

    def read_quantifier(self, repeatable: bool) -> str:
        least, most, text = self.read_bounds()
        if not text:
            return ""
        if not repeatable or self.peek() in ("?", "+", "*", "{"):
            raise _Refused
        if most is None:
            self.open_ended += 1
        elif least > most or most > _MAX_REPEAT:
            raise _Refused
        else:
            self.choices *= most - least + 1
        return text

    def read_bounds(self) -> tuple[int, int | None, str]:
        for mark, least, most in (("?", 0, 1), ("*", 0, None), ("+", 1, None)):
            if self.take(mark):
                return least, most, mark
        if not self.take("{"):
            return 1, 1, ""
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : end].partition(",")
        if end < 0 or not low.isdecimal() or not low.isascii() or (high and not (high.isdecimal() and high.isascii())):
            raise _Refused
        self.at = end + 1
        if not comma:
            return int(low), int(low), f"{{{low}}}"
        return int(low), int(high) if high else None, f"{{{low},{high}}}"
