"""Patterns as the engines of all languages read them alike.

The pipeline's engine takes more than ECMA-262 has (flags, classes by POSIX, sets in sets, possessive quantifiers), and
the engines of JavaScript and Java take some of it for something else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from signalbook.codegen.base import Inexpressible

# A general category of Unicode, short; other properties have a name of their own in each language.
_PROPERTY: Final = r"[pP]\{[A-Z][a-z]?\}"
_CODE: Final = r"u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}"
_COMMON: Final = rf"[dDwWsSnrtf]|{_CODE}|{_PROPERTY}|[!-/:-@\[-`{{-~ ]"
# What seems to begin or end a range, and is a class of its own.
_NO_RANGE: Final = re.compile(rf"\\(?:[dDwWsS]|{_PROPERTY})-[^\]]|[^\[^]-\\[dDwWsSpP]")
_PATTERN_TOKEN: Final = re.compile(
    rf"""
    (?P<open>\((?:\?(?::|<?[=!]|<[A-Za-z][A-Za-z0-9]*>))?(?![?]))
    | (?P<repeated>(?:[*+?]|\{{\d+(?:,\d*)?\}})\??(?![*+?{{]))
    | (?P<class>\[\^?(?:\\(?:{_COMMON})|[^\\\]\[&~-]|-(?!-)|&(?!&)|~(?!~))+\])
    | (?P<dot>\.)
    | (?P<edge>[\^$|)]|\\[bB])
    | (?P<one>\\(?:{_COMMON}|[1-9])|[^\\\[\](){{}}*+?.^$|])
    """,
    re.VERBOSE,
)
_ANY: Final = r"[^\n]"
# White space by ECMA-262, and all that is none, in classes: Java has less of it.
_SPACES: Final = {
    r"\s": r"\t-\r\u0020\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    r"\S": r"\u0000-\u0008\u000e-\u001f\u0021-\u009f\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e"
    r"\u2030-\u205e\u2060-\u2fff\u3001-\ufefe\uff00-\u{10ffff}",
}
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_MAX_SHOWN_CHARS: Final = 100
_REPEATABLE: Final = frozenset({"class", "dot", "one"})
_LOOK_AROUND: Final = frozenset({"(?=", "(?!", "(?<=", "(?<!"})
_MOST_REPEATED: Final = 1000
_DEEPEST: Final = 200


@lru_cache(maxsize=1 << 12)
def portable(pattern: str) -> str:
    """``pattern`` for every engine. Raises ``Inexpressible``: they do not all read it, or not alike."""
    parts, place, before = [], 0, ""
    while place < len(pattern):
        token = _PATTERN_TOKEN.match(pattern, place)
        kind = token.lastgroup if token else None
        if (
            token is None
            or kind is None
            or (kind == "repeated" and not _is_repeatable(before, pattern[place - 1]))
            or (kind == "class" and _NO_RANGE.search(token[0]))
        ):
            raise Inexpressible(
                f"its schema has a pattern that is another, or none, in other languages: {_shorten(pattern)}"
            )
        # Others end a line at more than a line feed.
        parts.append(_ANY if kind == "dot" else _with_spaces(token[0], "{}" if kind == "class" else "[{}]"))
        place, before = token.end(), kind
    return "".join(parts)


def linear(pattern: str) -> str:
    """``pattern`` for engines that take linear time and never go back (RE2, those of Go and Rust).

    Raises ``Inexpressible`` also for what these do not have: look-around, references to groups, and parts that are
    repeated more than a thousand times, those inside of others multiplied.
    """
    portable_pattern = portable(pattern)
    last, groups = 1, [1]  # how often the last part is repeated at most, and of each open group the part with most
    for token in _PATTERN_TOKEN.finditer(pattern):
        text = token[0]
        if text in _LOOK_AROUND or re.fullmatch(r"\\[1-9]", text):
            raise Inexpressible(f"its schema has a pattern with look-around or a back-reference: {_shorten(pattern)}")
        if token.lastgroup == "open":
            groups.append(1)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
        elif token.lastgroup == "repeated":
            last *= max([1, *map(int, re.findall(r"\d+", text))])
        else:
            last = 1
        groups[-1] = max(groups[-1], last)
        if groups[-1] > _MOST_REPEATED or len(groups) > _DEEPEST:
            raise Inexpressible(f"its schema has a pattern with too many repetitions or groups: {_shorten(pattern)}")
    return portable_pattern


def _shorten(pattern: str) -> str:
    return pattern if len(pattern) <= _MAX_SHOWN_CHARS else f"{pattern[:_MAX_SHOWN_CHARS]}…"


def _is_repeatable(kind: str, last: str) -> bool:
    return kind in _REPEATABLE or (kind == "edge" and last == ")")


def _with_spaces(token: str, shape: str) -> str:
    return _ESCAPE.sub(lambda found: shape.format(_SPACES[found[0]]) if found[0] in _SPACES else found[0], token)
