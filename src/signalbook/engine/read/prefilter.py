"""The SQL prefilter: the part of a filter that a store can test. It excludes only entities that fail the filter.

Attributes are stored as compact JSON text. A value that passes is part of this text, after its key. Only ASCII
characters that JSON does not escape can be compared in this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from signalbook.engine.read.filters import RELATIVE, FilterExpression, Operand, Operator
from signalbook.engine.read.paths import is_computed
from signalbook.model import Model
from signalbook.storage.base import Condition, Part

_SAFE: Final = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]+")
_YEAR: Final = re.compile(r"(?!0000|9999)[0-9]{4}", re.ASCII)
_NUMERIC_COLUMNS: Final = ("epoch", "createdat", "modifiedat")
_MAX_INTEGER: Final = 1 << 62
_PLAIN_NUMBERS: Final = (1e-3, 1e15)
_UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def store_conditions(expression: FilterExpression, model: Model, types: tuple[str, ...]) -> tuple[Condition, ...]:
    """Return the conditions that the store tests for ``expression``. Empty if the store cannot test it.

    ``types`` are the collections from the root to the entities that the expression is about.
    """
    if expression.operator in (Operator.UNEQUAL, Operator.ABSENT):
        return ()
    # A condition that every text satisfies is useless and makes the store scan all rows.
    return tuple(test for test in _Prefilter(expression, model, types).list_conditions() if "" not in test.values)


class _Prefilter:
    """The column in which the attribute of an expression is stored, and the conditions for it."""

    def __init__(self, expression: FilterExpression, model: Model, types: tuple[str, ...]) -> None:
        self._expression = expression
        self._operand = expression.operand
        self._types = types
        self._step = len(expression.types) - 1
        is_resource = len(types) == 2
        meta = is_resource and expression.steps[0] == "meta"
        self._steps = expression.steps[1:] if meta else expression.steps
        self._part: Part = "shown" if meta else "default" if is_resource else "own"
        self._is_computed = is_computed(model, types, expression.steps)
        self._id = f"{_find_singular(model, types)}id"

    def list_conditions(self) -> Iterator[Condition]:
        name = self._steps[0] if self._steps else None
        if not isinstance(name, str):
            return
        if not self._is_computed:
            yield from self._test_text()
        elif len(self._steps) > 1 or self._expression.operator is Operator.PRESENT:
            return
        elif name == "versionid" and self._part != "shown":
            yield from self._test_id(self._part)
        elif name == self._id and len(self._types) < 3:
            yield from self._test_id("own")
        elif name != "epoch" and name in _NUMERIC_COLUMNS and self._operand.wild:
            yield from self._test_year(name)
        elif name in _NUMERIC_COLUMNS:
            yield from self._test_number(name)
        elif name == "isdefault" and len(self._types) == 3:
            yield from self._test_default()

    def _test_id(self, part: Part) -> Iterator[Condition]:
        """Yield the condition for an id. Ids are stored in lower-case ASCII. PostgreSQL cannot compare with NUL."""
        operand = self._operand
        relation = "contains" if operand.wild else self._expression.operator.value
        text = max(operand.pieces, key=len) if operand.wild else operand.pieces[0]
        if "\0" not in text:
            yield self._make_condition(part, "folded", relation, text)

    def _test_default(self) -> Iterator[Condition]:
        if self._operand.boolean and self._expression.operator is Operator.EQUAL:
            yield self._make_condition("own", "folded", "default")

    def _test_number(self, column: str) -> Iterator[Condition]:
        instant = self._operand.instant
        value = self._operand.number if column == "epoch" else instant and _count_microseconds(instant)
        if isinstance(value, int) and abs(value) < _MAX_INTEGER:
            yield self._make_condition(self._part, column, self._expression.operator.value, value)

    def _test_year(self, column: str) -> Iterator[Condition]:
        """Yield the conditions for a timestamp with wildcards: only the year at its beginning is tested."""
        match = _YEAR.match(self._operand.pieces[0])
        if match is not None and self._expression.operator is Operator.EQUAL:
            year = int(match[0])
            for relation, first in ((">=", year), ("<", year + 1)):
                start = _count_microseconds(datetime(first, 1, 1, tzinfo=UTC))
                yield self._make_condition(self._part, column, relation, start)

    def _test_text(self) -> Iterator[Condition]:
        """Yield conditions for the JSON text: the key with the beginning of the value, and the longest part of a
        string.

        At most three conditions, however long the path is, because databases limit the depth of a query.
        """
        names = [step for step in self._steps if isinstance(step, str) and _SAFE.fullmatch(step)]
        if len(names) > 1:
            yield self._make_condition(self._part, "attributes", "contains", f'"{names[0]}":')
        key = f'"{names[-1]}":' if names else ""
        if self._expression.operator in RELATIVE or self._expression.operator is Operator.PRESENT:
            beginnings: tuple[str, ...] = ("",)
            longest = ""
        else:
            beginnings, longest = (
                _list_beginnings(self._operand, timestamp=self._expression.timestamp),
                _find_longest(self._operand),
            )
        if names and self._steps[-1] == names[-1]:
            yield self._make_condition(
                self._part, "attributes", "contains", *(key + beginning for beginning in beginnings)
            )
        else:
            yield self._make_condition(self._part, "attributes", "contains", key)
            yield self._make_condition(self._part, "attributes", "contains", *beginnings)
        if not all(longest in beginning for beginning in beginnings):
            yield self._make_condition(self._part, "attributes", "contains", longest)

    def _make_condition(self, part: Part, column: str, relation: str, *values: str | int) -> Condition:
        return Condition(step=self._step, part=part, column=column, relation=relation, values=values)


def _list_beginnings(operand: Operand, *, timestamp: bool) -> tuple[str, ...]:
    """Return the texts with which the JSON of an equal value can start."""
    if timestamp and operand.instant is not None:
        return ("",)
    piece = operand.pieces[0]
    match = _SAFE.match(piece)
    start = match[0] if match else ""
    text = f'"{start}"' if start == piece and not operand.wild else f'"{start}'
    if operand.boolean is not None:
        return text, operand.text
    return (text,) if operand.number is None else _list_number_beginnings(operand.number, text)


def _list_number_beginnings(number: float, text: str) -> tuple[str, ...]:
    """Return the texts with which the JSON of a number can start. ``text`` is the beginning of an equal string.

    Very small and large numbers have several spellings, and zero has two signs, so nothing is tested for them.
    """
    least, most = _PLAIN_NUMBERS
    if not least <= abs(number) < most:
        return ("",)
    sign = "-" if number < 0 else ""
    return text, f"{sign}{abs(int(number))}"


def _find_longest(operand: Operand) -> str:
    """Return the longest text that the JSON of an equal string must contain, or "" if values of other types may be
    equal.
    """
    if operand.number is not None or operand.boolean is not None or operand.instant is not None:
        return ""
    return max((run for piece in operand.pieces for run in _SAFE.findall(piece)), key=len, default="")


def _count_microseconds(instant: datetime) -> int:
    return (instant - _UNIX_EPOCH) // _MICROSECOND


def _find_singular(model: Model, types: tuple[str, ...]) -> str:
    group = model.groups[types[0]]
    return group.singular if len(types) == 1 else group.resources[types[1]].singular
