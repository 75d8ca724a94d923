"""Cut a short excerpt out of a rejected message, around the place of a finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from json import loads
from typing import Final

LONGEST: Final = 120
"""The largest number of bytes of an excerpt."""
_BEFORE: Final = 24
"""The number of bytes before the place in an excerpt."""
_BEHIND: Final = 40
"""If this many bytes after the place fit into an excerpt from the beginning, the excerpt starts at the beginning."""
_READ: Final = 1 << 14
"""The number of bytes that are searched for the place. Making an excerpt must not cost more than checking a message."""
_CUT: Final = "…"
_JSON_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL)
_OPEN: Final = frozenset(b"[{")
_CLOSE: Final = frozenset(b"]}")
_ARRAY, _COMMA = b"[,"
_CONTINUATION: Final = range(0x80, 0xC0)


def excerpt(original: bytes, path: str) -> str:
    """Return at most ``LONGEST`` bytes of ``original`` around the place that ``path`` names, decoded as text.

    ``path`` is a JSON Pointer into the payload of a JSON message, or the dotted name of an attribute, as in findings.
    If the place is missing, its deepest existing ancestor is used, or else the beginning of the message.
    """
    start = max((_find_place(original, steps) for steps in _list_ways(path)), default=(0, 0))[1]
    start = 0 if start + _BEHIND <= LONGEST else start - _BEFORE
    while 0 < start < len(original) and original[start] in _CONTINUATION:
        start += 1
    end = start + LONGEST
    text = original[start:end].decode(errors="replace")
    return f"{_CUT if start else ''}{text}{_CUT if end < len(original) else ''}"


def _list_ways(path: str) -> Iterator[tuple[str, ...]]:
    """Yield the lists of member names that ``path`` may stand for.

    A payload may be the whole message, or the member ``data`` of an event. A dotted name may be one member or several.
    """
    if path.startswith("/"):
        steps = tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
        yield steps
        yield ("data", *steps)
    elif path:
        yield (path,)
        yield tuple(path.split("."))


def _find_place(text: bytes, steps: Sequence[str]) -> tuple[int, int]:
    """Return how many ``steps`` exist in a JSON text, and the byte at which the last of them begins."""
    steps_found, at, depth = 0, 0, 0
    # The innermost container reached: whether it is an array, the index of its current item, and whether the next
    # token begins a member.
    array, number, fresh = False, 0, False
    for token in _JSON_TOKEN.finditer(text, 0, _READ):
        first = text[token.start()]
        if depth == steps_found and depth and first == _COMMA:
            break  # the value of the last step is not a container, or it has ended
        if depth == steps_found + 1 and first == _COMMA:
            number, fresh = number + 1, True
        elif depth == steps_found + 1 and fresh and first not in _CLOSE:
            fresh = False
            if (str(number) if array else _parse_name(token[0])) == steps[steps_found]:
                steps_found, at = steps_found + 1, token.start()
                if steps_found == len(steps):
                    break
        if first in _OPEN:
            depth += 1
            if depth == steps_found + 1:
                array, number, fresh = first == _ARRAY, 0, True
        elif first in _CLOSE:
            depth -= 1
            if depth < steps_found:
                break
        elif not depth:
            break  # the text is not JSON, or its value has no members
    return steps_found, at


def _parse_name(token: bytes) -> str:
    """Return the decoded name of a member, or ``""`` if ``token`` is not a JSON string."""
    try:
        name = loads(token)
    except ValueError:
        return ""
    return name if isinstance(name, str) else ""
