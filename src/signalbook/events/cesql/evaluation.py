"""Compile parsed expressions into functions of an event, for complete evaluation mode (cesql/spec.md 3.3, 3.4, 4.1).

If an operand fails, for instance because the event lacks an attribute, its operator returns the zero value of the
operator's type (3.2, and the test vectors for all other errors). Each expression is compiled once, so that evaluating
an event costs as many calls as the expression has terms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Final

from signalbook.events.cesql import parser
from signalbook.events.cesql.parser import (
    LEAST,
    MOST,
    ErrorKind,
    Value,
    ValueType,
    attribute,
    cast,
    check_range,
    text,
    to_boolean,
    to_integer,
    type_of,
)

Errors = list[ErrorKind]
_S, _I, _B = ValueType.STRING, ValueType.INTEGER, ValueType.BOOLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of one arity.

    ``rest`` is the type of any further arguments; None in ``parameters`` accepts any type.
    """

    parameters: tuple[ValueType | None, ...]
    result: ValueType
    run: Callable[..., Value]
    rest: ValueType | None = None

    def takes(self, count: int) -> bool:
        """Return True if the function can be called with ``count`` arguments."""
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))

    def types(self, count: int) -> tuple[ValueType | None, ...]:
        """Return the types to which ``count`` arguments are cast; None means that an argument is not cast."""
        return (*self.parameters, *[self.rest] * (count - len(self.parameters)))


def find(name: str, count: int) -> Function | None:
    """Return the function ``name`` (in upper case) that takes ``count`` arguments, or None."""
    return next((function for function in _FUNCTIONS.get(name, ()) if function.takes(count)), None)


def _take_left(errors: Errors, text: str, count: int) -> str:
    if count < 0:
        errors.append(ErrorKind.FUNCTION_EVALUATION)
        return text
    return text[:count]


def _take_right(errors: Errors, text: str, count: int) -> str:
    if count < 0:
        errors.append(ErrorKind.FUNCTION_EVALUATION)
        return text
    return text[max(0, len(text) - count) :]


def _take_substring(errors: Errors, text: str, position: int, length: int = MOST) -> str:
    if position == 0:
        return ""
    if abs(position) > len(text) or length < 0:
        errors.append(ErrorKind.FUNCTION_EVALUATION)
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start : start + length]


def _compute_absolute(errors: Errors, number: int) -> int:
    if number == LEAST:
        errors.append(ErrorKind.MATH)
        return MOST
    return abs(number)


_FUNCTIONS: Final[dict[str, tuple[Function, ...]]] = {
    "INT": (Function(parameters=(None,), result=_I, run=lambda errors, value: to_integer(value, errors)),),
    "BOOL": (Function(parameters=(None,), result=_B, run=lambda errors, value: to_boolean(value, errors)),),
    "STRING": (Function(parameters=(None,), result=_S, run=lambda _, value: text(value)),),
    "LENGTH": (Function(parameters=(_S,), result=_I, run=lambda _, text: len(text)),),
    "CONCAT": (Function(parameters=(), rest=_S, result=_S, run=lambda _, *parts: "".join(parts)),),
    "CONCAT_WS": (Function(parameters=(_S,), rest=_S, result=_S, run=lambda _, mark, *parts: mark.join(parts)),),
    "LOWER": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.lower()),),
    "UPPER": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.upper()),),
    "TRIM": (Function(parameters=(_S,), result=_S, run=lambda _, text: text.strip()),),
    "LEFT": (Function(parameters=(_S, _I), result=_S, run=_take_left),),
    "RIGHT": (Function(parameters=(_S, _I), result=_S, run=_take_right),),
    "SUBSTRING": (
        Function(parameters=(_S, _I), result=_S, run=_take_substring),
        Function(parameters=(_S, _I, _I), result=_S, run=_take_substring),
    ),
    "ABS": (Function(parameters=(_I,), result=_I, run=_compute_absolute),),
}


Event = Mapping[str, object]


Run = Callable[[Event, Errors], Value]

_ARITHMETIC: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The value of an expression for one event, and the errors during its evaluation."""

    value: Value
    errors: tuple[ErrorKind, ...]


class CesqlExpression:
    """A parsed expression. Immutable; safe to share between threads."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._run = _compile(parser.read(text))

    def evaluate(self, event: Event) -> EvaluationResult:
        """Return the value and the errors for the context attributes of one event. Never raises."""
        errors: Errors = []
        value = self._run(event, errors)
        return EvaluationResult(value=value, errors=tuple(errors))

    def matches(self, event: Event) -> bool:
        """Return True if the value for the event is true and there was no error (1.2)."""
        outcome = self.evaluate(event)
        return outcome.value is True and not outcome.errors


def parse(text: str) -> CesqlExpression:
    """Parse the expression ``text``. Raises ``ParseError``."""
    return CesqlExpression(text)


@singledispatch
def _compile(node: Any) -> Run:
    raise TypeError(f"{type(node).__name__} is no part of an expression")


@_compile.register
def _(node: parser.Literal) -> Run:
    return lambda _event, _errors: node.value


@_compile.register
def _(node: parser.AttributeReference) -> Run:
    def run(event: Event, errors: Errors) -> Value:
        value = event.get(node.name)
        if value is None:
            errors.append(ErrorKind.MISSING_ATTRIBUTE)
            return False
        return attribute(value)

    return run


@_compile.register
def _(node: parser.ExistsOperation) -> Run:
    return lambda event, _errors: event.get(node.name) is not None


@_compile.register
def _(node: parser.UnaryOperation) -> Run:
    if node.operator == "-":
        return _compile_operator([node.operand], _compute_negative, ValueType.INTEGER)
    return _compile_operator([node.operand], _compute_not, ValueType.BOOLEAN)


@_compile.register
def _(node: parser.LikeOperation) -> Run:
    pattern = _parse_pattern(node.pattern)

    def like(errors: Errors, value: Value) -> bool:
        return _match_pattern(str(cast(value, ValueType.STRING, errors)), pattern) is not node.negated

    return _compile_operator([node.operand], like, ValueType.BOOLEAN)


@_compile.register
def _(node: parser.InOperation) -> Run:
    def within(_errors: Errors, value: Value, *members: Value) -> bool:
        """Cast each member to the type of the left operand (3.7) before comparing.

        Errors of these casts are ignored: such a member counts as the zero value of the type.
        """
        is_member = any(cast(member, type_of(value), []) == value for member in members)
        return is_member is not node.negated

    return _compile_operator([node.operand, *node.members], within, ValueType.BOOLEAN)


@_compile.register
def _(node: parser.FunctionCall) -> Run:
    function = find(node.name, len(node.arguments))
    if function is None:
        return _compile_operator([], _report_missing_function, ValueType.BOOLEAN)
    types = function.types(len(node.arguments))

    def call(errors: Errors, *values: Value) -> Value:
        pairs = zip(values, types, strict=True)
        return function.run(
            errors,
            *(
                value if parameter_type is None else cast(value, parameter_type, errors)
                for value, parameter_type in pairs
            ),
        )

    return _compile_operator(node.arguments, call, function.result)


@_compile.register
def _(node: parser.BinaryOperation) -> Run:
    if node.operator in ("AND", "OR"):
        return _compile_short_circuit(_compile(node.left), _compile(node.right), decided_by=node.operator == "OR")
    decide, result = _DECIDE[node.operator]
    return _compile_operator([node.left, node.right], decide, result)


def _compile_operator(operands: Iterable[parser.Node], decide: Callable[..., Value], result: ValueType) -> Run:
    """Return a function that evaluates ``operands`` and applies ``decide`` to their values.

    If an operand has an error, the function returns the zero value of ``result`` instead.
    """
    compiled = [_compile(operand) for operand in operands]

    def run(event: Event, errors: Errors) -> Value:
        # Evaluate all operands, also after one has failed: each error counts (complete evaluation mode).
        errors_before = len(errors)
        values = [operand(event, errors) for operand in compiled]
        return result.zero if len(errors) > errors_before else decide(errors, *values)

    return run


def _compile_short_circuit(evaluate_left: Run, evaluate_right: Run, *, decided_by: bool) -> Run:
    """Evaluate AND or OR. The right operand is not evaluated if the left one decides (3.6)."""

    def run(event: Event, errors: Errors) -> Value:
        errors_before = len(errors)
        value = to_boolean(evaluate_left(event, errors), errors)
        if len(errors) == errors_before and value is not decided_by:
            value = to_boolean(evaluate_right(event, errors), errors)
        return value if len(errors) == errors_before else False

    return run


def _compute_negative(errors: Errors, value: Value) -> int:
    return check_range(-to_integer(value, errors), errors)


def _compute_not(errors: Errors, value: Value) -> bool:
    if type_of(value) is ValueType.INTEGER:  # as in the test vectors, although 3.7 has such a cast
        errors.append(ErrorKind.CAST)
        return True
    return not to_boolean(value, errors)


def _report_missing_function(errors: Errors) -> bool:
    errors.append(ErrorKind.MISSING_FUNCTION)
    return False


def _is_equal(errors: Errors, first: Value, second: Value) -> bool:
    """Compare two values after casting ``first`` to the type of ``second`` (3.7)."""
    return cast(first, type_of(second), errors) == second


def _make_arithmetic(sign: str) -> Callable[[Errors, Value, Value], Value]:
    compute = _ARITHMETIC[sign]

    def run(errors: Errors, first: Value, second: Value) -> Value:
        return check_range(compute(*_cast_integers(errors, first, second)), errors)

    return run


def _compute_quotient(errors: Errors, first: Value, second: Value) -> int:
    """Return the quotient, rounded towards 0."""
    dividend, divisor = _cast_integers(errors, first, second)
    if divisor == 0:
        errors.append(ErrorKind.MATH)
        return 0
    quotient = abs(dividend) // abs(divisor)
    return check_range(quotient if (dividend < 0) is (divisor < 0) else -quotient, errors)


def _compute_remainder(errors: Errors, first: Value, second: Value) -> int:
    """Return the remainder of a division, with the sign of the dividend."""
    dividend, divisor = _cast_integers(errors, first, second)
    if divisor == 0:
        errors.append(ErrorKind.MATH)
        return 0
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


def _cast_integers(errors: Errors, first: Value, second: Value) -> tuple[int, int]:
    return to_integer(first, errors), to_integer(second, errors)


def _make_comparison(sign: str) -> Callable[[Errors, Value, Value], Value]:
    compare = _ORDER[sign]
    return lambda errors, one, other: compare(*_cast_integers(errors, one, other))


_DECIDE: Final[dict[str, tuple[Callable[[Errors, Value, Value], Value], ValueType]]] = {
    "=": (_is_equal, ValueType.BOOLEAN),
    "!=": (lambda errors, one, other: not _is_equal(errors, one, other), ValueType.BOOLEAN),
    "<>": (lambda errors, one, other: not _is_equal(errors, one, other), ValueType.BOOLEAN),
    "XOR": (lambda errors, one, other: to_boolean(one, errors) is not to_boolean(other, errors), ValueType.BOOLEAN),
    **{sign: (_make_comparison(sign), ValueType.BOOLEAN) for sign in _ORDER},
    **{sign: (_make_arithmetic(sign), ValueType.INTEGER) for sign in _ARITHMETIC},
    "/": (_compute_quotient, ValueType.INTEGER),
    "%": (_compute_remainder, ValueType.INTEGER),
}

_ANY_NUMBER: Final = None
_ONE: Final = True
_Step = str | bool | None


def _parse_pattern(text: str) -> tuple[_Step, ...]:
    """Return a LIKE pattern as steps: a character, ``_ONE`` for any one character, ``_ANY_NUMBER`` for any number."""
    steps: list[_Step] = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            ahead = next(characters, "")
            steps += [ahead] if ahead in ("%", "_") else [character, *ahead]
        else:
            steps.append({"%": _ANY_NUMBER, "_": _ONE}.get(character, character))
    return tuple(steps)


def _match_pattern(text: str, pattern: tuple[_Step, ...]) -> bool:
    """Return True if ``text`` matches a LIKE pattern.

    The time is at most proportional to the product of both lengths. A regular expression could take exponential time.
    """
    at = step = 0
    again: tuple[int, int] | None = None
    while at < len(text):
        if step < len(pattern) and pattern[step] is _ANY_NUMBER:
            again = (at, step)
            step += 1
        elif step < len(pattern) and pattern[step] in (_ONE, text[at]):
            at, step = at + 1, step + 1
        elif again is not None:
            # Retry only the last %, one character further: no earlier % has to match fewer characters then.
            again = (again[0] + 1, again[1])
            at, step = again[0], again[1] + 1
        else:
            return False
    return all(last_step is _ANY_NUMBER for last_step in pattern[step:])
