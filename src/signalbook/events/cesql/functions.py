"""The built-in functions (cesql/spec.md 3.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from signalbook.events.cesql.terms import LEAST, MOST, Fault, Type, Value, text, to_boolean, to_integer

Faults = list[Fault]
_S, _I, _B = Type.STRING, Type.INTEGER, Type.BOOLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of one arity. ``rest`` is the type of any further arguments; None in ``parameters`` takes all."""

    parameters: tuple[Type | None, ...]
    result: Type
    run: Callable[..., Value]
    rest: Type | None = None

    def takes(self, count: int) -> bool:
        """Whether it can be called with so many arguments."""
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))

    def types(self, count: int) -> tuple[Type | None, ...]:
        """The type each of ``count`` arguments is cast to."""
        return (*self.parameters, *[self.rest] * (count - len(self.parameters)))


def find(name: str, count: int) -> Function | None:
    """The function ``name`` (in upper case) for so many arguments."""
    return next((function for function in _FUNCTIONS.get(name, ()) if function.takes(count)), None)


def _left(faults: Faults, text: str, count: int) -> str:
    if count < 0:
        faults.append(Fault.FUNCTION_EVALUATION)
        return text
    return text[:count]


def _right(faults: Faults, text: str, count: int) -> str:
    if count < 0:
        faults.append(Fault.FUNCTION_EVALUATION)
        return text
    return text[max(0, len(text) - count) :]


def _substring(faults: Faults, text: str, position: int, length: int = MOST) -> str:
    if position == 0:
        return ""
    if abs(position) > len(text) or length < 0:
        faults.append(Fault.FUNCTION_EVALUATION)
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _absolute(faults: Faults, number: int) -> int:
    if number == LEAST:
        faults.append(Fault.MATH)
        return MOST
    return abs(number)


_FUNCTIONS: Final[dict[str, tuple[Function, ...]]] = {
    "INT": (Function(parameters=(None,), result=_I, run=lambda faults, value: to_integer(value, faults)),),
    "BOOL": (Function(parameters=(None,), result=_B, run=lambda faults, value: to_boolean(value, faults)),),
    "STRING": (Function(parameters=(None,), result=_S, run=lambda _, value: text(value)),),
    "LENGTH": (Function(parameters=(_S,), result=_I, run=lambda _, text: len(text)),),
    "CONCAT": (Function(parameters=(), rest=_S, result=_S, run=lambda _, *parts: "".join(parts)),),
    "CONCAT_WS": (Function(parameters=(_S,), rest=_S, result=_S, run=lambda _, mark, *parts: mark.join(parts)),),
    "LOWER": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.lower()),),
    "UPPER": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.upper()),),
    "TRIM": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.strip()),),
    "LEFT": (Function(parameters=(_S, _I), result=_S, run=_left),),
    "RIGHT": (Function(parameters=(_S, _I), result=_S, run=_right),),
    "SUBSTRING": (
        Function(parameters=(_S, _I), result=_S, run=_substring),
        Function(parameters=(_S, _I, _I), result=_S, run=_substring),
    ),
    "ABS": (Function(parameters=(_I,), result=_I, run=_absolute),),
}
