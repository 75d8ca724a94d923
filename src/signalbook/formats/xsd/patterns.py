"""XML Schema's patterns in a linear engine: Python's would try ``(a+)+`` for hours on one payload.

The pattern that the library makes of them for Python's engine is read back and written for the other one, character by
character, so that no dialect is left to guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element

import jsonschema_rs
from elementpath import ElementPathError
from elementpath.regex import RegexError, translate_pattern
from xmlschema.validators import XsdPatternFacets

# What Python takes a pattern for: not documented, but there in every release so far.
_parser: Final[Any] = import_module("re._parser")
codes: Final[Any] = import_module("re._constants")
MAX_PATTERN: Final = 10_000
_OPTIONS: Final = jsonschema_rs.RegexOptions(size_limit=10_000_000)
_SURROGATES: Final = (0xD800, 0xDFFF)
_LAST: Final = 0x10FFFF


class _Unknown(ValueError):
    """Something that no XML Schema pattern can mean."""


class Linear:
    """A pattern that a whole text has to match, as the library uses it."""

    def __init__(self, pattern: str, version: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a pattern of more than {MAX_PATTERN} characters")
        self.pattern = pattern
        self._validator = _compiled(pattern, version)

    def match(self, text: str) -> Literal[True] | None:
        """Whether ``text`` matches."""
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")
        return True if self._validator.is_valid(text) else None


class LinearPatterns(XsdPatternFacets):
    """The facet ``pattern``."""

    def _parse_value(self, elem: Element) -> Any:
        try:
            return Linear(elem.attrib.get("value", ""), self.xsd_version)
        except ValueError as error:
            self.parse_error(str(error), elem)
            return Linear("", self.xsd_version)


@lru_cache(maxsize=1024)
def _compiled(pattern: str, version: str) -> Any:
    try:
        python = translate_pattern(
            pattern, xsd_version=version, back_references=False, lazy_quantifiers=False, anchors=False
        )
        rust = "".join(map(_write, _parser.parse(python)))
    except (re.error, RegexError, ElementPathError, RecursionError, OverflowError) as error:
        raise _Unknown(f"no XML Schema pattern: {error}") from None
    try:
        return jsonschema_rs.Draft202012Validator({"type": "string", "pattern": rust}, pattern_options=_OPTIONS)
    except ValueError:
        raise _Unknown(f"the pattern {pattern!r} is too large") from None


def _write(node: tuple[Any, Any]) -> str:
    code, what = node
    if code is codes.AT:
        return "^" if what is codes.AT_BEGINNING else "$"
    if code is codes.ASSERT_NOT:
        return ""  # the library's way to say that $ is the very end, which it is here anyway
    if code is codes.LITERAL:
        return _char(what)
    if code is codes.NOT_LITERAL:
        return _class([(codes.NEGATE, None), (codes.LITERAL, what)])
    if code is codes.IN:
        return _class(what)
    if code is codes.BRANCH:
        return "(?:" + "|".join("".join(map(_write, branch)) for branch in what[1]) + ")"
    if code is codes.SUBPATTERN:
        return "(?:" + "".join(map(_write, what[-1])) + ")"
    if code is codes.MAX_REPEAT:
        least, most, inner = what
        bound = "" if most is codes.MAXREPEAT else most
        return "(?:" + "".join(map(_write, inner)) + f"){{{least},{bound}}}"
    raise _Unknown(f"no XML Schema pattern: {code}")


def _class(items: Iterable[tuple[Any, Any]]) -> str:
    ranges: list[tuple[int, int]] = []
    negated = False
    other: list[str] = []
    for code, what in items:
        if code is codes.NEGATE:
            negated = True
        elif code is codes.LITERAL:
            ranges.append((what, what))
        elif code is codes.RANGE:
            ranges.append(what)
        elif code is codes.CATEGORY and what in _CATEGORIES:
            other.append(_CATEGORIES[what])
        else:
            raise _Unknown(f"no XML Schema character class: {code}")
    inside = "".join(other) + "".join(_range(*part) for part in ranges)
    if not inside:
        return rf"[\u{{0}}-\u{{{_LAST:x}}}]" if negated else _NEVER
    return f"[{'^' if negated else ''}{inside}]"


# What the classes mean in XML Schema, which is not what they mean to Python: \w has no underscore, \s four characters.
_CATEGORIES: Final = {
    codes.CATEGORY_DIGIT: r"\p{Nd}",
    codes.CATEGORY_NOT_DIGIT: r"\P{Nd}",
    codes.CATEGORY_SPACE: r"\u{20}\u{9}\u{a}\u{d}",
    codes.CATEGORY_NOT_SPACE: r"\u{0}-\u{8}\u{b}\u{c}\u{e}-\u{1f}\u{21}-\u{10ffff}",
    codes.CATEGORY_WORD: r"\p{L}\p{M}\p{N}\p{S}",
    codes.CATEGORY_NOT_WORD: r"\p{P}\p{Z}\p{C}",
}
_NEVER: Final = r"[^\u{0}-\u{10ffff}]"


def _range(first: int, last: int) -> str:
    """A range without surrogates, which are no characters."""
    low, high = _SURROGATES
    parts = (
        [(first, min(last, low - 1)), (max(first, high + 1), last)]
        if first <= high and last >= low
        else [(first, last)]
    )
    return "".join(f"{_char(a)}-{_char(b)}" for a, b in parts if a <= b)


def _char(code: int) -> str:
    return rf"\u{{{code:x}}}"
