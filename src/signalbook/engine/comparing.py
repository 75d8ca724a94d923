"""Comparing an attribute's value with a text from a filter, and with others for sorting, by type (core R187, R188).

Booleans and numbers compare as such, timestamps (``datetime`` here) as instants, all else as strings without regard to
case.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

from signalbook.values import JSON, format_timestamp, parse_timestamp

Value: TypeAlias = JSON | datetime

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
_STAR: Final = re.compile(r"\\?\*")


class Operator(StrEnum):
    """How an expression tests its attribute; the value is how it is written."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    PRESENT = ""
    ABSENT = "=null"


_RELATIONS: Final[dict[Operator, Callable[[JSON, JSON], bool]]] = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.AT_MOST: operator.le,
    Operator.GREATER: operator.gt,
    Operator.AT_LEAST: operator.ge,
}
RELATIVE: Final = frozenset(_RELATIONS) - {Operator.EQUAL}


@dataclass(frozen=True)
class Operand:
    r"""The value of an expression as every type reads it. A star stands for any characters, ``\*`` for itself."""

    text: str

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """What stands between the wildcards, without regard to case; one piece is a text without any."""
        pieces, start = [""], 0
        for match in _STAR.finditer(self.text):
            pieces[-1] += self.text[start : match.start()]
            if match[0] == "*":
                pieces.append("")
            else:
                pieces[-1] += "*"
            start = match.end()
        pieces[-1] += self.text[start:]
        return tuple(piece.casefold() for piece in pieces)

    @property
    def wild(self) -> bool:
        """Whether there is a wildcard."""
        return len(self.pieces) > 1

    @cached_property
    def boolean(self) -> bool | None:
        """The boolean it spells, in lower case only."""
        return {"true": True, "false": False}.get(self.text)

    @cached_property
    def number(self) -> int | float | None:
        """The number it spells."""
        if not _NUMBER.fullmatch(self.text):
            return None
        return int(self.text) if _WHOLE.fullmatch(self.text) else float(self.text)

    @cached_property
    def instant(self) -> datetime | None:
        """The timestamp it spells, in UTC."""
        try:
            return parse_timestamp(self.text)
        except ValueError:
            return None

    def matches(self, text: str) -> bool:
        """Whether ``text`` is this, wildcards standing for any characters. In one pass, whatever the wildcards."""
        text = text.casefold()
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
            return False
        position, end = len(first), len(text) - len(last)
        for piece in middle:
            found = text.find(piece, position, end)
            if found < 0:
                return False
            position = found + len(piece)
        return True


def holds(value: Value, relation: Operator, operand: Operand) -> bool:
    """Whether a value that is there stands in ``relation`` (equal, or one of ``RELATIVE``) to ``operand``."""
    compare = _RELATIONS[relation]
    if isinstance(value, bool):
        return operand.boolean is not None and compare(value, operand.boolean)
    if isinstance(value, int | float):
        return operand.number is not None and compare(value, operand.number)
    if isinstance(value, datetime):
        if operand.instant is not None:
            return compare(value, operand.instant)
        value = format_timestamp(value)
    if not isinstance(value, str):
        return False
    if relation is Operator.EQUAL:
        return operand.matches(value)
    return compare(value.casefold(), operand.pieces[0])


SortKey: TypeAlias = tuple[int, bool | int | float | str | datetime]


def sort_key(value: Value) -> SortKey:
    """What a value sorts by: none, objects and arrays lowest (R214), then booleans, numbers, timestamps, strings."""
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 2, value
    if isinstance(value, datetime):
        return 3, value
    return (4, value.casefold()) if isinstance(value, str) else (0, 0)


def as_instant(value: JSON) -> Value:
    """The value of a timestamp attribute as an instant; what is no timestamp stays as it is."""
    try:
        return parse_timestamp(value) if isinstance(value, str) else value
    except ValueError:
        return value
