"""Regular expressions that the native decoder of JSON runs: sequences of sets of characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from signalbook.pipeline.columnar.inexpressible import Inexpressible

# What translated patterns (``formats.jsonschema.pattern``) are made of, groups left out.
_PART: Final = re.compile(
    r"(?:\\(?P<escaped>.)|\[(?P<negated>\^?)(?P<members>(?:\\.|[^\\\]])+)\]|(?P<plain>[^\\\[\](){}.*+?|^$]))"
    r"(?P<times>[?*+]|\{(?P<least>\d+)(?P<open>,(?P<most>\d*))?\})?",
    re.DOTALL | re.ASCII,
)
_MEMBER: Final = re.compile(r"\\.|[^\\]", re.DOTALL)
_TIMES: Final = {"?": (0, 1), "*": (0, None), "+": (1, None)}
_END: Final = r"\Z"

Ranges = list[tuple[int, int]]


def program(pattern: str) -> tuple[bool, bool, list[tuple[bool, Ranges, int, int | None]]]:
    """What the native module wants of a translated pattern: whether it is bound to start and end, and its parts.

    A part has whether its ranges of characters are those it is not of, the ranges, and how often it comes at least and
    at most. Raises ``Inexpressible``.
    """
    anchored, ended = pattern.startswith("^"), pattern.endswith(_END)
    text = pattern[anchored : len(pattern) - len(_END) if ended else None]
    return anchored, ended, list(_parts(text))


def _parts(text: str) -> Iterator[tuple[bool, Ranges, int, int | None]]:
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None:
            raise Inexpressible
        at = found.end()
        if found["members"]:
            yield bool(found["negated"]), list(_ranges(_MEMBER.findall(found["members"]))), *_times(found)
        else:
            code = ord(found["escaped"] or found["plain"])
            yield False, [(code, code)], *_times(found)


def _times(found: re.Match[str]) -> tuple[int, int | None]:
    if found["times"] is None:
        return 1, 1
    if found["least"] is None:
        return _TIMES[found["times"]]
    least = int(found["least"])
    if found["open"] is None:
        return least, least
    return least, int(found["most"]) if found["most"] else None


def _ranges(members: list[str]) -> Iterator[tuple[int, int]]:
    """The ranges of a set. A hyphen that is not between two characters is one only at either end."""
    at = 0
    while at < len(members):
        low = high = _code(members[at])
        if members[at] == "-" and 0 < at < len(members) - 1:
            raise Inexpressible
        if at + 2 < len(members) and members[at + 1] == "-":
            high = _code(members[at + 2])
            at += 2
        yield low, high
        at += 1


def _code(member: str) -> int:
    return ord("\n") if member == r"\n" else ord(member[-1])
