"""The ``filter`` flag: its syntax and the comparison of values (core/spec.md "Filter Flag", core R181 to R196).

Booleans and numbers compare as such, and timestamps (``datetime`` here) as instants. Other values compare as strings
without regard to case.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

from signalbook.engine.read.paths import (
    Steps,
    find_definitions,
    find_entity_type,
    list_collections,
    read_path,
    write_path,
)
from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.values import JSON, format_timestamp, parse_timestamp
from signalbook.xid import Kind, Xid

Value: TypeAlias = JSON | datetime

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?", re.ASCII)
_WHOLE: Final = re.compile(r"-?[0-9]+", re.ASCII)
_STAR: Final = re.compile(r"\\?\*")


class Operator(StrEnum):
    """The operator of an expression. The value is its spelling."""

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
    r"""The value in an expression, converted to each type it can have. A star matches any characters, ``\*`` a star."""

    text: str

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The texts between the wildcards, with case folded. A single piece means that there are no wildcards."""
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
        """True if the value contains a wildcard."""
        return len(self.pieces) > 1

    @cached_property
    def boolean(self) -> bool | None:
        """The boolean that the text spells in lower case, else None."""
        return {"true": True, "false": False}.get(self.text)

    @cached_property
    def number(self) -> int | float | None:
        """The number that the text spells, else None."""
        if not _NUMBER.fullmatch(self.text):
            return None
        return int(self.text) if _WHOLE.fullmatch(self.text) else float(self.text)

    @cached_property
    def instant(self) -> datetime | None:
        """The timestamp that the text spells, in UTC, else None."""
        try:
            return parse_timestamp(self.text)
        except ValueError:
            return None

    @cached_property
    def matches(self) -> Callable[[str], bool]:
        """A function that returns True if a text matches the value with its wildcards. It reads the text only once."""
        first, *middle = self.pieces
        if not middle:
            return lambda text: text.casefold() == first
        last = middle.pop()
        start, least = len(first), len(first) + len(last)

        def matches(text: str) -> bool:
            text = text.casefold()
            if len(text) < least or not text.startswith(first) or not text.endswith(last):
                return False
            position, end = start, len(text) - len(last)
            for piece in middle:
                index = text.find(piece, position, end)
                if index < 0:
                    return False
                position = index + len(piece)
            return True

        return matches


def make_comparison(relation: Operator, operand: Operand) -> Callable[[Value], bool]:
    """Return a function that compares a value with ``operand``.

    ``relation`` is EQUAL or one of ``RELATIVE``. The function returns False for values of other types.
    """
    compare, text = _RELATIONS[relation], operand.pieces[0]
    boolean, number, instant = operand.boolean, operand.number, operand.instant
    matches = operand.matches if relation is Operator.EQUAL else lambda text_value: compare(text_value.casefold(), text)

    def test(value: Value) -> bool:
        if isinstance(value, str):
            return matches(value)
        if isinstance(value, bool):
            return boolean is not None and compare(value, boolean)
        if isinstance(value, (int, float)):
            return number is not None and compare(value, number)
        if isinstance(value, datetime):
            return compare(value, instant) if instant is not None else matches(format_timestamp(value))
        return False

    return test


SortKey: TypeAlias = tuple[int, bool | int | float | str | datetime]


def sort_key(value: Value) -> SortKey:
    """Return the sort key of a value.

    Nulls, objects and arrays come first (R214), then booleans, numbers, timestamps and strings.
    """
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 2, value
    if isinstance(value, datetime):
        return 3, value
    return (4, value.casefold()) if isinstance(value, str) else (0, 0)


def as_instant(value: JSON) -> Value:
    """Return the value of a timestamp attribute as a ``datetime``.

    A value that is not a timestamp is returned as it is.
    """
    try:
        return parse_timestamp(value) if isinstance(value, str) else value
    except ValueError:
        return value


MAX_EXPRESSIONS: Final = 100
MAX_LENGTH: Final = 2000
EXCLUDE_ALL: Final = "excludeall"

_OPERATORS: Final = {
    "!=": Operator.UNEQUAL,
    "<>": Operator.UNEQUAL,
    "<=": Operator.AT_MOST,
    ">=": Operator.AT_LEAST,
    "=": Operator.EQUAL,
    "<": Operator.LESS,
    ">": Operator.GREATER,
}


@dataclass(frozen=True, kw_only=True)
class FilterExpression:
    """A test of one attribute.

    ``types`` are the collections on the path from the entity that the filter is relative to (R182). ``steps`` lead to
    the attribute inside the entity at the end of this path. ``timestamp`` means that the attribute is a timestamp.
    ``ending`` is the operator and value as written.
    """

    types: tuple[str, ...]
    steps: Steps
    operator: Operator
    operand: Operand
    timestamp: bool
    ending: str

    @cached_property
    def accepts(self) -> Callable[[Sequence[Value]], bool]:
        """A function that returns True if the values at ``steps`` pass.

        A missing value is unequal to everything (R183, R184).
        """
        match self.operator:
            case Operator.PRESENT:
                return bool
            case Operator.ABSENT:
                return operator.not_
            case Operator.UNEQUAL:
                equal = make_comparison(Operator.EQUAL, self.operand)
                return lambda values: not any(map(equal, values))
            case _:
                test = make_comparison(self.operator, self.operand)
                return lambda values: any(map(test, values))

    def write_below(self, depth: int) -> str:
        """Return the text of the expression, relative to the members of the collection ``types[depth - 1]``."""
        return write_path((*self.types[depth:], *self.steps)) + self.ending


Alternative: TypeAlias = tuple[FilterExpression, ...]
"""Expressions about the entities on one path that must all be satisfied (R181)."""


@dataclass(frozen=True)
class Filter:
    """A filter.

    It keeps the entities that satisfy one of ``alternatives``, with their owners and everything under them. Without
    alternatives nothing is kept.
    """

    alternatives: tuple[Alternative, ...] = ()

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The collections on the path to the kept entities, for each alternative."""
        return tuple(
            max((expression.types for expression in alternative), key=len) for alternative in self.alternatives
        )


FILTER_NOTHING: Final = Filter()


def parse_filter(values: Sequence[str], target: Xid, model: Model, *, subject: str) -> Filter | None:
    """Parse the flag's ``values``, one per occurrence. Returns None if there are no values.

    Paths are relative to ``target``, an entity or collection. The result is relative to the entity, or to the owner of
    the collection. Raises ``bad_filter`` about ``subject``.
    """
    if not values:
        return None
    if EXCLUDE_ALL in values and len(values) == 1:
        return FILTER_NOTHING
    if sum(value.count(",") + 1 for value in values) > MAX_EXPRESSIONS:
        detail = f"there are more than {MAX_EXPRESSIONS} expressions; ask in several requests"
        raise RegistryError("bad_filter", subject=subject, value=values[0][:100], error_detail=detail)
    parsed = (_parse_alternative(value, target, model, subject) for value in values)
    return Filter(tuple(dict.fromkeys(alternative for alternative in parsed if _is_one_branch(alternative))))


def _parse_alternative(value: str, target: Xid, model: Model, subject: str) -> Alternative:
    expressions = []
    for text in value.split(","):
        try:
            expressions.append(_parse_expression(text.lstrip(" "), target, model))
        except ValueError as error:
            excerpt = text if len(text) <= 100 else f"{text[:100]}..."
            raise RegistryError("bad_filter", subject=subject, value=excerpt, error_detail=str(error)) from None
    return tuple(dict.fromkeys(expressions))


def _is_one_branch(alternative: Alternative) -> bool:
    """Return True if all expressions are about entities on one path, so that they do not test two different
    collections.
    """
    longest = max((expression.types for expression in alternative), key=len)
    return all(expression.types == longest[: len(expression.types)] for expression in alternative)


def _parse_expression(text: str, target: Xid, model: Model) -> FilterExpression:
    if not text:
        raise ValueError("an expression is missing; a comma stands between two")
    if text == EXCLUDE_ALL:
        raise ValueError(f"{EXCLUDE_ALL} stands alone")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"an expression has at most {MAX_LENGTH} characters")
    steps, ending = read_path(text)
    operator, operand = _parse_test(ending)
    types, steps = _split_steps(steps, target, model)
    # Types that the target already fixes are not part of the path.
    start = len(_find_owner_types(target))
    timestamp = any(attribute.type == "timestamp" for attribute in find_definitions(model, types, steps))
    return FilterExpression(
        types=types[start:], steps=steps, operator=operator, operand=operand, timestamp=timestamp, ending=ending
    )


def _parse_test(ending: str) -> tuple[Operator, Operand]:
    """Parse the operator and value that follow a path (R183 to R185). Raises ``ValueError``."""
    if not ending:
        return Operator.PRESENT, Operand("")
    sign = next((sign for sign in _OPERATORS if ending.startswith(sign)), None)
    if sign is None:
        raise ValueError("an operator is one of = != <> < <= > >=")
    operator, operand = _OPERATORS[sign], Operand(ending.removeprefix(sign))
    if operator in RELATIVE and (operand.wild or operand.text == "null"):
        raise ValueError(f"{sign} takes no {'wildcard' if operand.wild else 'null'}")
    if operand.text == "null":
        return (Operator.ABSENT if operator is Operator.EQUAL else Operator.PRESENT), operand
    if operand.text == "*":
        return (Operator.PRESENT if operator is Operator.EQUAL else Operator.ABSENT), operand
    return operator, operand


def _find_owner_types(target: Xid) -> tuple[str, ...]:
    types = target.parts[0::2]
    return types[:2] if target.kind is Kind.META else types[:-1] if target.is_collection else types


def _split_steps(steps: Steps, target: Xid, model: Model) -> tuple[tuple[str, ...], Steps]:
    """Split ``steps`` into the types of the entity, from the root, and the steps of the attribute inside it.

    Raises ``ValueError`` if the steps lead to a collection or a document.
    """
    if target.kind is Kind.META:
        return target.parts[0:4:2], ("meta", *steps)
    types = target.parts[0::2]
    while steps and steps[0] in list_collections(model, types):
        types, steps = (*types, str(steps[0])), steps[1:]
    if not steps:
        raise ValueError(f'"{types[-1]}" is a collection: name an attribute of its entities behind it')
    entity = find_entity_type(model, types)
    if isinstance(entity, ResourceType) and entity.hasdocument and steps[0] in _list_document_names(entity):
        raise ValueError("documents are not searched, only attributes")
    return types, steps


def _list_document_names(type: ResourceType) -> tuple[str, str]:
    return type.singular, f"{type.singular}base64"
