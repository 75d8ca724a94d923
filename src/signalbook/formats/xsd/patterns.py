"""Compile XML Schema patterns with RE2, whose time is linear: Python would run ``(a+)+`` for hours on one payload.

elementpath checks a pattern and translates it for Python with all character classes written out. The parts of that
translation that RE2 interprets differently are rewritten token by token.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Literal
from xml.etree.ElementTree import Element

import re2
from elementpath import ElementPathError
from elementpath.regex import RegexError, translate_pattern
from xmlschema.validators import XsdPatternFacets

from signalbook.work import spend

MAX_PATTERN: Final = 10_000
_MAX_TRANSLATION: Final = 1_000_000
_MAX_MEMORY: Final = 10_000_000
_STEPS: Final = 200
"""Steps of work for each character: a class of two characters may stand for hundreds of ranges."""
# RE2 refuses larger repetitions; nested repetitions are multiplied.
_MAX_REPEAT: Final = 1000
_PATTERN_TOKEN: Final = re.compile(
    r"\\(?P<escape>.) | \[(?P<negated>\^?)(?P<members>(?:\\.|[^\\\]])+)\]"
    r" | (?P<open>\(\?:) | (?P<close>\)) | (?P<bar>\|)"
    r" | (?P<repeat>[?*+] | \{(?P<least>\d+)(?P<comma>,?)(?P<most>\d*)\})"
    r" | (?P<literal>.)",
    re.DOTALL | re.VERBOSE,
)
# The meaning of the classes in XML Schema, which differs from Python and RE2: \w has no underscore, and \s is four
# characters.
_CLASSES: Final = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r"[ \t\n\r]",
    "S": r"[^ \t\n\r]",
    "w": r"[\p{L}\p{M}\p{N}\p{S}]",
    "W": r"[^\p{L}\p{M}\p{N}\p{S}]",
}
_ANY: Final = r"[\x{0}-\x{10ffff}]"
_EMPTY_CLASS: Final = r"[^\x{0}-\x{10ffff}]"
_SURROGATES: Final = re.compile(
    "(?P<first>[^\\\\])-(?P<last>[\ud800-\udfff])|(?P<low>[\ud800-\udfff])-(?P<high>[^\\\\])|[\ud800-\udfff]"
)


class LinearPattern:
    """A compiled pattern that a whole text has to match. Raises ``ValueError`` if the pattern is
    invalid or too large.
    """

    def __init__(self, pattern: str, version: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a pattern of more than {MAX_PATTERN} characters")
        spend(_STEPS * len(pattern))
        self.pattern = pattern
        self._compiled = _compile(pattern, version)

    def match(self, text: str) -> Literal[True] | None:
        """Return True if ``text`` matches, else None."""
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is not text")
        # A lone surrogate cannot be encoded in UTF-8, and no XML Schema pattern can match it.
        return True if _is_unicode(text) and self._compiled.fullmatch(text) else None


class LinearPatterns(XsdPatternFacets):
    """The facet ``pattern`` of simple types, compiled with RE2."""

    def _parse_value(self, elem: Element) -> Any:
        try:
            return LinearPattern(elem.attrib.get("value", ""), self.xsd_version)
        except ValueError as error:
            self.parse_error(str(error), elem)
            return LinearPattern("", self.xsd_version)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


@lru_cache(maxsize=1024)
def _compile(pattern: str, version: str) -> Any:
    try:
        python = translate_pattern(
            pattern, xsd_version=version, back_references=False, lazy_quantifiers=False, anchors=False
        )
    except (RegexError, ElementPathError, RecursionError, OverflowError) as error:
        raise ValueError(f"no XML Schema pattern: {error}") from None
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        # The anchors of the translation use look-ahead, which RE2 does not support. Use fullmatch instead.
        return re2.compile(_Translation(python.removeprefix("^").removesuffix(r"$(?!\n\Z)")).run(), options)
    except re2.error as error:
        raise ValueError(f"no XML Schema pattern, or too large: {error}") from None


class _Translation:
    """The translation of a Python pattern to RE2, which collects the pieces of each open group.

    A piece is a text for RE2 and the product of the repetitions nested in it. Repetitions beyond RE2's limit are
    written as several repetitions in a row.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._groups: list[list[tuple[str, int]]] = [[]]

    def run(self) -> str:
        for token in _PATTERN_TOKEN.finditer(self._python):
            self._take(token)
        return self._close()[0]

    def _take(self, token: re.Match[str]) -> None:
        pieces = self._groups[-1]
        if token["open"]:
            self._groups.append([])
        elif token["close"]:
            inner = self._close()
            self._groups[-1].append(inner)
        elif token["bar"]:
            pieces.append(("|", 1))
        elif token["repeat"]:
            pieces.append(self._repeat(*pieces.pop(), token))
        elif token["members"]:
            pieces.append((_build_class(token["negated"], token["members"]), 1))
        elif token["escape"]:
            pieces.append((_CLASSES.get(token["escape"], "\\" + token["escape"]), 1))
        else:
            pieces.append((re2.escape(token["literal"]), 1))

    def _close(self) -> tuple[str, int]:
        pieces = self._groups.pop()
        text = "".join(text for text, _ in pieces)
        if len(text) > _MAX_TRANSLATION:
            raise ValueError("the pattern is too large")
        return f"(?:{text})", max((weight for _, weight in pieces), default=1)

    def _repeat(self, text: str, weight: int, token: re.Match[str]) -> tuple[str, int]:
        if token["least"] is None:
            return f"(?:{text}{token['repeat']})", weight
        least = int(token["least"])
        most = int(token["most"]) if token["most"] else None if token["comma"] else least
        if most is not None and most < least:
            raise ValueError(f"no XML Schema pattern: {token['repeat']} has its bounds the wrong way round")
        # RE2 multiplies nested repetitions, so the limit for an outer repetition is divided by the inner repetitions.
        chunk = max(_MAX_REPEAT // weight, 1)
        if max(least, most or 0) > chunk * _MAX_TRANSLATION // len(text):
            raise ValueError("the pattern is too large")
        parts = [f"{text}{{{chunk}}}"] * (least // chunk) + [f"{text}{{{least % chunk}}}"]
        if most is None:
            parts.append(f"{text}*")
        else:
            parts += [f"{text}{{0,{chunk}}}"] * ((most - least) // chunk) + [f"{text}{{0,{(most - least) % chunk}}}"]
        return f"(?:{''.join(parts)})", weight * min(chunk, max(least, (most or least) - least, 1))


def _build_class(negated: str, members: str) -> str:
    """Return a class without surrogates, which RE2 has no text for.

    ``[^\\w\\W]`` is how the library writes an empty one.
    """
    if members == r"\w\W":
        return _EMPTY_CLASS if negated else _ANY
    characters = _SURROGATES.sub(_cut_surrogates, members)
    if not characters:
        return _ANY if negated else _EMPTY_CLASS
    return f"[{negated}{characters}]"


def _cut_surrogates(match: re.Match[str]) -> str:
    """Return the part of a range outside the surrogates, where one end of the range is a surrogate."""
    if match["first"] and not "\ud800" <= match["first"] <= "\udfff":
        return f"{match['first']}-\ud7ff"
    if match["high"] and not "\ud800" <= match["high"] <= "\udfff":
        return f"\ue000-{match['high']}"
    return ""
