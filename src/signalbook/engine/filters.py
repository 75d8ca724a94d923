"""The ``filter`` flag: which entities a response holds (core/spec.md "Filter Flag", core R181 to R196)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from signalbook.engine import dotpath
from signalbook.engine.comparing import RELATIVE, Operand, Operator, Value, holds
from signalbook.engine.definitions import collections_of, defined, entity_type
from signalbook.engine.dotpath import Steps
from signalbook.errors import RegistryError
from signalbook.model import Model, ResourceType
from signalbook.xid import Kind, Xid

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterExpression:
    """One test of one attribute.

    ``types`` are the collections to step through from the entity that the filter is relative to (R182), ``steps`` lead
    to the attribute inside the entity reached; ``timestamp`` says that it is one. ``ending`` is the operator and value
    as written.
    """

    types: tuple[str, ...]
    steps: Steps
    operator: Operator
    operand: Operand
    timestamp: bool
    ending: str

    def accepts(self, found: Iterable[Value]) -> bool:
        """Whether the values at ``steps`` pass. What is not there is unequal to everything (R183, R184)."""
        match self.operator:
            case Operator.PRESENT:
                return any(True for _ in found)
            case Operator.ABSENT:
                return not any(True for _ in found)
            case Operator.UNEQUAL:
                return not any(holds(value, Operator.EQUAL, self.operand) for value in found)
            case _:
                return any(holds(value, self.operator, self.operand) for value in found)

    def below(self, depth: int) -> str:
        """How it is written relative to the members of its collection number ``depth``."""
        return dotpath.write_path((*self.types[depth:], *self.steps)) + self.ending


Alternative: TypeAlias = tuple[FilterExpression, ...]
"""Expressions that an entity and those around it have to pass together (R181)."""


@dataclass(frozen=True)
class Filter:
    """What to keep: entities that pass one of ``alternatives``, with all around and beneath them. None passes none."""

    alternatives: tuple[Alternative, ...] = ()

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """Of each alternative the collections that lead to the entities it keeps."""
        return tuple(max((each.types for each in alternative), key=len) for alternative in self.alternatives)


FILTER_NOTHING: Final = Filter()


def parse_filter(values: Sequence[str], target: Xid, model: Model, *, subject: str) -> Filter | None:
    """The flag's ``values``, one per occurrence, relative to the entity or collection ``target``; None without any.

    The outcome is relative to an entity: of a collection to its owner. Raises ``bad_filter`` about ``subject``.
    """
    if not values:
        return None
    if EXCLUDE_ALL in values and len(values) == 1:
        return FILTER_NOTHING
    if sum(value.count(",") + 1 for value in values) > MAX_EXPRESSIONS:
        detail = f"there are more than {MAX_EXPRESSIONS} expressions; ask in several requests"
        raise RegistryError("bad_filter", subject=subject, value=values[0][:100], error_detail=detail)
    parsed = (_alternative(value, target, model, subject) for value in values)
    return Filter(tuple(dict.fromkeys(each for each in parsed if _joined(each))))


def _alternative(value: str, target: Xid, model: Model, subject: str) -> Alternative:
    expressions = []
    for text in value.split(","):
        try:
            expressions.append(_expression(text.lstrip(" "), target, model))
        except ValueError as error:
            shown = text if len(text) <= 100 else f"{text[:100]}..."
            raise RegistryError("bad_filter", subject=subject, value=shown, error_detail=str(error)) from None
    return tuple(dict.fromkeys(expressions))


def _joined(alternative: Alternative) -> bool:
    """Whether all expressions are about one entity and those around it: no entity lies on two branches."""
    longest = max((each.types for each in alternative), key=len)
    return all(each.types == longest[: len(each.types)] for each in alternative)


def _expression(text: str, target: Xid, model: Model) -> FilterExpression:
    if not text:
        raise ValueError("an expression is missing; a comma stands between two")
    if text == EXCLUDE_ALL:
        raise ValueError(f"{EXCLUDE_ALL} stands alone")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"an expression has at most {MAX_LENGTH} characters")
    steps, ending = dotpath.read_path(text)
    operator, operand = _test(ending)
    types, steps = _split(steps, target, model)
    # Types that are fixed by the target are no part of the way.
    start = len(_owner_types(target))
    timestamp = any(each.type == "timestamp" for each in defined(model, types, steps))
    return FilterExpression(
        types=types[start:], steps=steps, operator=operator, operand=operand, timestamp=timestamp, ending=ending
    )


def _test(ending: str) -> tuple[Operator, Operand]:
    """The operator and the value behind a path (R183 to R185)."""
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


def _owner_types(target: Xid) -> tuple[str, ...]:
    types = target.parts[0::2]
    return types[:2] if target.kind is Kind.META else types[:-1] if target.is_collection else types


def _split(steps: Steps, target: Xid, model: Model) -> tuple[tuple[str, ...], Steps]:
    """The collections that ``steps`` go through from the root, and the attribute of the entity they come to."""
    if target.kind is Kind.META:
        return target.parts[0:4:2], ("meta", *steps)
    types = target.parts[0::2]
    while steps and steps[0] in collections_of(model, types):
        types, steps = (*types, str(steps[0])), steps[1:]
    if not steps:
        raise ValueError(f'"{types[-1]}" is a collection: name an attribute of its entities behind it')
    found = entity_type(model, types)
    if isinstance(found, ResourceType) and found.hasdocument and steps[0] in _document_names(found):
        raise ValueError("documents are not searched, only attributes")
    return types, steps


def _document_names(type: ResourceType) -> tuple[str, str]:
    return type.singular, f"{type.singular}base64"
