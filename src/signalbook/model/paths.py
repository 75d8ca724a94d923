"""Dot notation: paths inside an entity as text (core/spec.md "xRegistry Dot Notation")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from signalbook.values import JSON

DotPath: TypeAlias = tuple[str | int, ...]

_PLAIN_STEP: Final = re.compile(r"[A-Za-z_$*@-][A-Za-z0-9_$*@:/-]*", re.ASCII)
_STEP_PATTERN: Final = re.compile(r"""\.?([^.\[\]'"]+)|\[([0-9]+)\]|\['([^']*)'\]|\["([^"]*)"\]""")


def format_path(path: Iterable[str | int]) -> str:
    """Return ``path`` as text: ``("a", 0, "b.c")`` becomes ``a[0]['b.c']``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not _PLAIN_STEP.fullmatch(step):
            text += f'["{step}"]' if "'" in step else f"['{step}']"
        else:
            text += f".{step}" if text else step
    return text


def parse_path(text: str) -> DotPath:
    """Parse a path: the inverse of ``format_path``. Raises ``ValueError`` if ``text`` is not in dot notation."""
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _STEP_PATTERN.match(text, position)
        if match is None or (position and match[1] is not None and text[position] != "."):
            raise ValueError(f'"{text}" is not dot notation: cannot read it from position {position}')
        name = next((group for group in (match[1], match[3], match[4]) if group is not None), None)
        steps.append(int(match[2]) if name is None else name)
        position = match.end()
    if not steps:
        raise ValueError("a path is not empty")
    return tuple(steps)


def pick(value: JSON, path: Sequence[str | int]) -> JSON:
    """Return the value at ``path`` inside ``value``, or None if there is none."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value
