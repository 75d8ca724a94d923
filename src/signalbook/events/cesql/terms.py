"""Values, their casts, and what can go wrong (cesql/spec.md 3.1, 3.3, 3.7)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

Value = str | int | bool

LEAST: Final = -(2**31)
MOST: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


class Fault(StrEnum):
    """An error during evaluation; the expression has a value all the same."""

    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"


class Type(StrEnum):
    """The three types of values."""

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"

    @property
    def zero(self) -> Value:
        """What stands for a value that could not be had."""
        return _ZEROS[self]


_ZEROS: Final[dict[Type, Value]] = {Type.STRING: "", Type.INTEGER: 0, Type.BOOLEAN: False}


def type_of(value: Value) -> Type:
    """The type of ``value``; Python's booleans are integers too, these are not."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    return Type.INTEGER if isinstance(value, int) else Type.STRING


def attribute(value: object) -> Value:
    """A context attribute as a value: what is none of the three types is a String (3.2)."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and LEAST <= value <= MOST:
        return value
    return str(value)


def text(value: object) -> str:
    """A context attribute as String."""
    plain = attribute(value)
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def cast(value: Value, type: Type, faults: list[Fault]) -> Value:
    """``value`` as ``type``, or its zero value and a fault (3.7)."""
    if type is Type.STRING:
        return text(value)
    if type is Type.BOOLEAN:
        return to_boolean(value, faults)
    return to_integer(value, faults)


def to_boolean(value: Value, faults: list[Fault]) -> bool:
    """``value`` as Boolean."""
    if not isinstance(value, str):
        return bool(value)
    found = _BOOLEANS.get(value.lower())
    if found is None:
        faults.append(Fault.CAST)
    return bool(found)


def to_integer(value: Value, faults: list[Fault]) -> int:
    """``value`` as Integer."""
    if not isinstance(value, str):
        return int(value)
    if _INTEGER.fullmatch(value) and LEAST <= int(value) <= MOST:
        return int(value)
    faults.append(Fault.CAST)
    return 0


def bounded(number: int, faults: list[Fault]) -> int:
    """``number``, or 0 and a fault where it has more than 32 bits."""
    if LEAST <= number <= MOST:
        return number
    faults.append(Fault.MATH)
    return 0
