"""``constraints``: requirements of a Group for its Resources (core/model.md "constraints", core R104 to R110)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from signalbook.model.definitions import find
from signalbook.model.findings import ModelPosition
from signalbook.model.paths import DotPath, format_path, parse_path, pick
from signalbook.model.types import SCALARS, EntityTypes, describe, find_scalar_check
from signalbook.values import JSON, JSONObject

Kind: TypeAlias = Literal["enum", "equals"]

_ASPECTS: Final = {"default", "enum", "equals"}
# Version attributes whose values the specification compares without regard to case.
_CASELESS: Final = frozenset({("format",)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintViolation:
    """A constraint that a Version violates: the path of the attribute and the violated aspect (for
    ``constraint_failure``).
    """

    path: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint on an attribute of the Resources of one type."""

    resources: str
    path: DotPath
    default: JSON
    enum: tuple[JSON, ...]
    equals: DotPath

    def violations(self, version: JSONObject, group: JSONObject) -> Iterator[ConstraintViolation]:
        """Yield the violations of this constraint by a Version with the attributes ``version``.

        ``group`` are the attributes of its Group.
        """
        value = pick(version, self.path)
        if self.enum and value is not None and not any(_is_same_value(value, allowed) for allowed in self.enum):
            yield ConstraintViolation(path=format_path(self.path), kind="enum")
        required = pick(group, self.equals) if self.equals else None
        if required is not None and (value is None or not self._is_same(value, required)):
            yield ConstraintViolation(path=format_path(self.path), kind="equals")

    def _is_same(self, first: JSON, second: JSON) -> bool:
        return (
            _is_same_value(first, second)
            if self.path in _CASELESS
            else type(first) is type(second) and bool(first == second)
        )


def _is_same_value(first: JSON, second: JSON) -> bool:
    """Return True if two enum values are equal. Case is ignored."""
    if isinstance(first, str) and isinstance(second, str):
        return first.casefold() == second.casefold()
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


class Constraints:
    """All constraints in force in one Group."""

    def __init__(self, constraints: Sequence[Constraint] = ()) -> None:
        self._constraints = tuple(constraints)

    def __len__(self) -> int:
        return len(self._constraints)

    def fill(self, resources: str, version: JSONObject) -> JSONObject:
        """Return ``version`` with the defaults of these constraints for attributes without a value (core R105).

        Call this before the model's own defaults are filled in, and not for cross references.
        """
        for constraint in self._constraints:
            if constraint.resources == resources and constraint.default is not None:
                version = _fill(version, constraint.path, constraint.default)
        return version

    def violations(self, resources: str, version: JSONObject, group: JSONObject) -> tuple[ConstraintViolation, ...]:
        """Return the violations by a Version of the type ``resources``.

        ``version`` must have its defaults filled in.
        """
        return tuple(
            violation
            for constraint in self._constraints
            if constraint.resources == resources
            for violation in constraint.violations(version, group)
        )


def _fill(version: JSONObject, path: DotPath, default: JSON) -> JSONObject:
    owner = pick(version, path[:-1])
    if not isinstance(owner, dict) or owner.get(str(path[-1])) is not None:
        return version
    version = copy.deepcopy(version) if len(path) > 1 else dict(version)
    pick(version, path[:-1])[path[-1]] = default
    return version


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The definitions that constraints of a Group type are checked against: those of the Group and of its Versions."""

    group: JSONObject
    resources: Mapping[str, JSONObject]
    types: EntityTypes


def check_constraints(constraints: JSON, ground: Ground, place: ModelPosition) -> JSONObject:
    """Return the constraints without empty aspects. Problems are reported at ``place``."""
    if not isinstance(constraints, dict):
        place.report(f"must be an object, not {describe(constraints)}")
        return {}
    result = {}
    for key, aspects in constraints.items():
        here = place.at(key)
        if not isinstance(aspects, dict):
            here.report(f"must be an object, not {describe(aspects)}")
            continue
        for aspect in aspects.keys() - _ASPECTS:
            here.report("is not part of the model language", aspect)
        stated = _drop_empty(aspects)
        definition = _find_constrained(key, ground, here)
        if definition is not None:
            _check_values(stated, definition, ground.types, here)
            _check_equals(stated, definition, ground, here)
        result[key] = stated
    return result


def _drop_empty(aspects: JSONObject) -> JSONObject:
    """Return the aspects that have an effect: an empty enum and an empty equals have none."""
    silent = {"enum": [], "equals": ""}
    return {name: value for name, value in aspects.items() if value is not None and value != silent.get(name)}


def _find_constrained(key: str, ground: Ground, here: ModelPosition) -> JSONObject | None:
    try:
        resources, *path = parse_path(key)
    except ValueError as error:
        here.report(str(error))
        return None
    versions = ground.resources.get(str(resources))
    if versions is None:
        here.report(f'the Group type has no Resource type "{resources}"')
        return None
    definition = find(versions, path) if path else None
    if definition is None or definition["type"] not in SCALARS:
        here.report("must name a scalar attribute that is defined outside of arrays, maps, ifvalues and *")
        return None
    return definition


def _check_values(aspects: JSONObject, definition: JSONObject, types: EntityTypes, here: ModelPosition) -> None:
    check = find_scalar_check(definition["type"], types)
    strict = definition.get("enum") if definition.get("strict", True) else None
    if not isinstance(aspects.get("enum", []), list):
        here.report("must be an array", "enum")
        del aspects["enum"]
    for index, value in enumerate(aspects.get("enum", ())):
        _check_value(value, check, strict, here.at("enum", index))
    if "default" in aspects:
        _check_value(aspects["default"], check, aspects.get("enum", strict), here.at("default"))
    elif aspects.get("enum") and definition.get("default", aspects["enum"][0]) not in aspects["enum"]:
        here.report(f"must hold the attribute's own default, {describe(definition['default'])}", "enum")


def _check_value(
    value: JSON, check: Callable[[JSON], JSON], allowed: Sequence[JSON] | None, here: ModelPosition
) -> None:
    try:
        check(value)
    except ValueError as error:
        here.report(str(error))
    else:
        if allowed and value not in allowed:
            here.report(f"{describe(value)} is not among the values allowed")


def _check_equals(aspects: JSONObject, definition: JSONObject, ground: Ground, here: ModelPosition) -> None:
    if "equals" not in aspects:
        return
    path = aspects["equals"]
    try:
        other = find(ground.group, parse_path(path)) if isinstance(path, str) else None
    except ValueError:
        other = None
    if other is None:
        here.report(
            "must be the path of an attribute that the Group type defines outside of arrays, ifvalues and *", "equals"
        )
    elif other["type"] != definition["type"]:
        here.report(f"the Group's attribute has type {other['type']}, the Resource's {definition['type']}", "equals")


def compile_constraints(checked: JSONObject) -> Constraints:
    """Return valid constraints in the form in which they are applied."""
    constraints = []
    for key, aspects in checked.items():
        resources, *path = parse_path(key)
        constraints.append(
            Constraint(
                resources=str(resources),
                path=tuple(path),
                default=aspects.get("default"),
                enum=tuple(aspects.get("enum") or ()),
                equals=parse_path(aspects["equals"]) if aspects.get("equals") else (),
            )
        )
    return Constraints(constraints)


def narrow(broad: JSONObject, instance: JSONObject, ground: Ground, place: ModelPosition) -> JSONObject:
    """Return the Group type's constraints narrowed by those of a Group, which must not widen them (core R108).

    Problems are reported at ``place``.
    """
    merged = dict(broad)
    for key, aspects in instance.items():
        outer = broad.get(key, {})
        stated = _drop_empty(aspects)
        if "enum" in stated and outer.get("enum") and not all(value in outer["enum"] for value in stated["enum"]):
            place.report("must be among the values that the Group type allows", key, "enum")
        if "equals" in stated and stated["equals"] != outer.get("equals", stated["equals"]):
            place.report(f'the Group type says "{outer["equals"]}"', key, "equals")
        merged[key] = outer | stated
    return check_constraints(merged, ground, place)
