"""Dot notation as filters and sort keys use it: with wildcards (core/spec.md "Dot-Notation in Filters", R189)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, TypeAlias

from signalbook.values import JSON

MAX_STEPS: Final = 32


class Wild(Enum):
    """``.*`` is any key of an object or map, ``[*]`` any item of an array; ``['*']`` is the key of that name."""

    KEY = "*"
    ITEM = "[*]"


Step: TypeAlias = str | int | Wild
Steps: TypeAlias = tuple[Step, ...]

_NAME: Final = r"[^.\[\]'\"=!<>*\s]+"
_PLAIN: Final = re.compile(_NAME)
_STEP: Final = re.compile(
    rf"""(?P<name>{_NAME})|(?P<every>\*)|\[(?P<index>[0-9]{{1,9}})\]|\[(?P<items>\*)\]"""
    r"""|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]"""
)


def read_path(text: str) -> tuple[Steps, str]:
    """The path ``text`` begins with, and what follows it: nothing, or something that starts with ``= ! < >``.

    Raises ``ValueError``, with a sentence for people, for text that does not begin with a path.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text) and text[position] not in "=!<>":
        dotted = text[position] == "."
        match = _STEP.match(text, position + dotted)
        if match is None or dotted != (bool(steps) and not match[0].startswith("[")):
            raise ValueError(f"cannot read a path at position {position + 1}")
        steps.append(_step(match))
        position = match.end()
    if not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"a path has 1 to {MAX_STEPS} steps")
    return tuple(steps), text[position:]


def _step(match: re.Match[str]) -> Step:
    kind, text = str(match.lastgroup), match[str(match.lastgroup)]
    if kind == "index":
        return int(text)
    return {"every": Wild.KEY, "items": Wild.ITEM}.get(kind, text)


def find_values(value: JSON, steps: Sequence[Step]) -> Iterator[JSON]:
    """Every value at ``steps`` inside ``value``; nulls are no values."""
    found: Iterable[JSON] = (value,)
    for step in steps:
        found = [inner for each in found for inner in _inside(each, step)]
    return (each for each in found if each is not None)


def _inside(value: JSON, step: Step) -> Iterable[JSON]:
    if isinstance(value, dict):
        if step is Wild.KEY:
            return value.values()
        return (value[step],) if isinstance(step, str) and step in value else ()
    if isinstance(value, list):
        if step is Wild.ITEM:
            return value
        return (value[step],) if isinstance(step, int) and step < len(value) else ()
    return ()


def write_path(steps: Sequence[Step]) -> str:
    """The inverse of ``read_path``."""
    return "".join(map(_written, steps)).removeprefix(".")


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, Wild):
        return ".*" if step is Wild.KEY else step.value
    if _PLAIN.fullmatch(step):
        return f".{step}"
    return f'["{step}"]' if "'" in step else f"['{step}']"
