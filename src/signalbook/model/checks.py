"""Checks of values by type: closures that return the value to store and note what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from signalbook.model.faults import Fault, FaultCode
from signalbook.model.paths import format_path
from signalbook.model.spec_attributes import SpecAttribute
from signalbook.model.types import (
    EXTENDED_NAME,
    KEY_RULE,
    EntityTypes,
    ReferenceFault,
    describe,
    parse_target,
    scalar_check,
    scalar_text,
)
from signalbook.values import JSON, JSONObject

# Core R11: name and value of a scalar attribute must fit into a header.
MAX_SCALAR_BYTES: Final = 4096


class Trouble:
    """A fault while it is being found: the path grows on the way out, so that good values cost nothing."""

    __slots__ = ("arguments", "code", "message", "steps")

    def __init__(self, code: FaultCode, message: str, *steps: str | int, **arguments: str) -> None:
        self.code = code
        self.message = message
        self.steps = list(steps)
        self.arguments = arguments

    def fault(self) -> Fault:
        """The fault, its path in dot notation."""
        path = format_path(reversed(self.steps))
        return Fault(code=self.code, path=path, message=self.message, arguments=self.arguments)


Check: TypeAlias = Callable[[JSON, list[Trouble]], JSON]


def under(step: str | int, found: list[Trouble], since: int) -> None:
    """Put ``step`` before the paths of what was found from position ``since`` on."""
    for trouble in found[since:]:
        trouble.steps.append(step)


def any_check(value: JSON, _found: list[Trouble]) -> JSON:
    """Whatever JSON it is (core R12)."""
    return value


def map_check(item: Check) -> Check:
    """A map whose keys are legal (core R4) and whose values pass ``item``; entries of null are left out."""

    def check(value: JSON, found: list[Trouble]) -> JSON:
        if not isinstance(value, dict):
            found.append(Trouble("invalid_attribute", f"must be a map, not {describe(value)}"))
            return value
        result = {}
        for key, member in value.items():
            if member is None:
                continue
            before = len(found)
            if not EXTENDED_NAME.fullmatch(key):
                found.append(Trouble("invalid_attribute", KEY_RULE))
            result[key] = item(member, found)
            if len(found) != before:
                under(key, found, before)
        return result

    return check


def array_check(item: Check) -> Check:
    """An array whose items are not null (core R3) and pass ``item``."""

    def check(value: JSON, found: list[Trouble]) -> JSON:
        if not isinstance(value, list):
            found.append(Trouble("invalid_attribute", f"must be an array, not {describe(value)}"))
            return value
        result = []
        for index, member in enumerate(value):
            before = len(found)
            if member is None:  # core R3
                found.append(Trouble("invalid_attribute", "an array must not hold null"))
            else:
                result.append(item(member, found))
            if len(found) != before:
                under(index, found, before)
        return result

    return check


def scalar_value_check(name: str, definition: JSONObject, types: EntityTypes, spec: SpecAttribute) -> Check:
    """A scalar of the defined type, in its strict enum, within the size limit (core R11, R80)."""
    target = parse_target(definition["target"], types) if "target" in definition else None
    scalar = scalar_check(spec.value_type or definition["type"], types, target)
    limit = MAX_SCALAR_BYTES - len(name) if name else None  # an item has no name of its own
    allowed = _allowed(definition, spec)
    caseless, nonempty = spec.caseless, spec.nonempty

    def check(value: JSON, found: list[Trouble]) -> JSON:
        try:
            result = scalar(value)
        except ReferenceFault as error:
            found.append(Trouble(error.code, str(error), **error.arguments))
            return value
        except ValueError as error:
            found.append(Trouble("invalid_attribute", str(error)))
            return value
        if nonempty and result == "":
            found.append(Trouble("invalid_attribute", "must not be empty"))
        if allowed and (result.casefold() if caseless else result) not in allowed:
            choices = ", ".join(scalar_text(choice) for choice in definition["enum"])
            found.append(Trouble("invalid_attribute", f"{describe(value)} is not one of: {choices}"))
        if limit is not None and _longer_than(result, limit):
            found.append(
                Trouble("invalid_attribute", f"name and value together must not exceed {MAX_SCALAR_BYTES} bytes")
            )
        return result

    return check


def _allowed(definition: JSONObject, spec: SpecAttribute) -> frozenset[JSON]:
    if not definition.get("strict", True):
        return frozenset()
    return frozenset(value.casefold() if spec.caseless else value for value in definition.get("enum") or ())


def _longer_than(value: JSON, limit: int) -> bool:
    if isinstance(value, str):
        return len(value) * 4 > limit and len(value.encode("utf-8", "surrogatepass")) > limit
    return isinstance(value, int) and value.bit_length() > limit * 3
