"""Attribute definitions compiled into checks of values (core/model.md "attributes", core/spec.md "Attributes").

A check is a closure that returns the value to store and adds problems to a list.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from signalbook.model.findings import FaultCode, ValueFinding
from signalbook.model.paths import format_path
from signalbook.model.spec_attributes import SpecAttribute, SpecTable
from signalbook.model.types import (
    CHARSET_RULES,
    CHARSETS,
    EXTENDED_NAME,
    KEY_RULE,
    SCALARS,
    EntityTypes,
    ReferenceFault,
    describe,
    find_scalar_check,
    parse_target,
)
from signalbook.values import JSON, JSONObject, format_scalar
from signalbook.work import spend

_WORK: Final = 20
"""The number of work units that compiling one definition costs the request that brings the model."""
# Core R11: name and value of a scalar attribute must fit into a header.
MAX_SCALAR_BYTES: Final = 4096


class Trouble:
    """A problem found in a value.

    The path is collected on the way out of nested values, so that good values cost nothing.
    """

    __slots__ = ("arguments", "code", "message", "steps")

    def __init__(self, code: FaultCode, message: str, *steps: str | int, **arguments: str) -> None:
        self.code = code
        self.message = message
        self.steps = list(steps)
        self.arguments = arguments

    def report(self) -> ValueFinding:
        """Return the finding, with its path in dot notation."""
        path = format_path(reversed(self.steps))
        return ValueFinding(code=self.code, path=path, message=self.message, arguments=self.arguments)


Check: TypeAlias = Callable[[JSON, list[Trouble]], JSON]


def add_step(step: str | int, troubles: list[Trouble], since: int) -> None:
    """Add ``step`` to the front of the paths of all problems in ``troubles`` from index ``since`` on."""
    for trouble in troubles[since:]:
        trouble.steps.append(step)


def check_any(value: JSON, _troubles: list[Trouble]) -> JSON:
    """Accept any JSON value (core R12)."""
    return value


def make_map_check(item: Check) -> Check:
    """Return a check of a map with valid keys (core R4) whose values pass ``item``.

    Entries that are null are dropped.
    """

    def check(value: JSON, troubles: list[Trouble]) -> JSON:
        if not isinstance(value, dict):
            troubles.append(Trouble("invalid_attribute", f"must be a map, not {describe(value)}"))
            return value
        result = {}
        for key, member in value.items():
            if member is None:
                continue
            before = len(troubles)
            if not EXTENDED_NAME.fullmatch(key):
                troubles.append(Trouble("invalid_attribute", KEY_RULE))
            result[key] = item(member, troubles)
            if len(troubles) != before:
                add_step(key, troubles, before)
        return result

    return check


def make_array_check(item: Check) -> Check:
    """Return a check of an array whose items are not null (core R3) and pass ``item``."""

    def check(value: JSON, troubles: list[Trouble]) -> JSON:
        if not isinstance(value, list):
            troubles.append(Trouble("invalid_attribute", f"must be an array, not {describe(value)}"))
            return value
        result = []
        for index, member in enumerate(value):
            before = len(troubles)
            if member is None:  # core R3
                troubles.append(Trouble("invalid_attribute", "an array must not hold null"))
            else:
                result.append(item(member, troubles))
            if len(troubles) != before:
                add_step(index, troubles, before)
        return result

    return check


def make_scalar_check(name: str, definition: JSONObject, types: EntityTypes, spec: SpecAttribute) -> Check:
    """Return a check of a scalar: its type, its strict enum and its maximum size (core R11, R80)."""
    target = parse_target(definition["target"], types) if "target" in definition else None
    scalar = find_scalar_check(spec.value_type or definition["type"], types, target)
    limit = MAX_SCALAR_BYTES - len(name) if name else None  # items of maps and arrays have no name
    allowed = _fold_enum(definition)
    nonempty = spec.nonempty

    def check(value: JSON, troubles: list[Trouble]) -> JSON:
        try:
            result = scalar(value)
        except ReferenceFault as error:
            troubles.append(Trouble(error.code, str(error), **error.arguments))
            return value
        except ValueError as error:
            troubles.append(Trouble("invalid_attribute", str(error)))
            return value
        if nonempty and result == "":
            troubles.append(Trouble("invalid_attribute", "must not be empty"))
        if allowed and _fold(result) not in allowed:
            choices = ", ".join(format_scalar(choice) for choice in definition["enum"])
            troubles.append(Trouble("invalid_attribute", f"{describe(value)} is not one of: {choices}"))
        if limit is not None and _is_longer(result, limit):
            troubles.append(
                Trouble("invalid_attribute", f"name and value together must not exceed {MAX_SCALAR_BYTES} bytes")
            )
        return result

    return check


def _fold_enum(definition: JSONObject) -> frozenset[JSON]:
    """Return the values of a strict enum with case folded. Empty if the enum is missing or not strict.

    The specification does not say whether case matters, and clients expect that it does not.
    """
    if not definition.get("strict", True):
        return frozenset()
    return frozenset(_fold(value) for value in definition.get("enum") or ())


def _fold(value: JSON) -> JSON:
    return value.casefold() if isinstance(value, str) else value


def _is_longer(value: JSON, limit: int) -> bool:
    if isinstance(value, str):
        return len(value) * 4 > limit and len(value.encode("utf-8", "surrogatepass")) > limit
    return isinstance(value, int) and value.bit_length() > limit * 3


# The maximum number of cached combinations of ifvalues branches per attribute set.
_MAX_TABLES: Final = 256
# Suggesting similar names takes time, so many or long unknown names get no suggestion.
_MAX_HINTS: Final = 16
_MAX_HINTED_NAME: Final = 64
_UNKNOWN: Final = "is not defined in the model"
_PLAIN_SPEC: Final = SpecAttribute(definition={})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attribute:
    """An attribute (or the item of a map or array) as the full model defines it, with its check.

    The server sets the values of ``managed`` attributes. ``caseless`` attributes compare without regard to case.
    ``branches`` maps a value (with case folded) to the attributes that ``ifvalues`` adds for it.
    """

    name: str
    type: str
    definition: JSONObject
    check: Check
    managed: bool = False
    caseless: bool = False
    attributes: AttributeSet | None = None
    item: Attribute | None = None
    branches: Mapping[str, Mapping[str, Attribute]]

    @property
    def required(self) -> bool:
        """True if the attribute must have a value."""
        return bool(self.definition.get("required"))

    @property
    def readonly(self) -> bool:
        """True if the server ignores a value that a client sends (core R82)."""
        return bool(self.definition.get("readonly"))

    @property
    def default(self) -> JSON:
        """The value used if a client sends none, or None if the attribute has no default."""
        return self.definition.get("default")

    @property
    def scalar(self) -> bool:
        """True if the attribute has a scalar type (core R2)."""
        return self.type in SCALARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The outcome of a check: the values to store and all findings. Without findings the values are valid."""

    values: JSONObject
    findings: tuple[ValueFinding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The attributes in force for one combination of ifvalues branches.

    A check of None drops the value, because the attribute is read-only. ``wanted`` are required attributes with their
    defaults, ``clashes`` are names that two branches define.
    """

    checks: Mapping[str, Check | None]
    star: Check | None
    wanted: tuple[tuple[str, JSON], ...]
    clashes: tuple[str, ...]


class AttributeSet(Mapping[str, Attribute]):
    """The attributes of one entity or nested object, by name, with a check of its values. Immutable."""

    def __init__(self, attributes: Mapping[str, Attribute], *, charset: str = "strict") -> None:
        self._attributes = dict(attributes)
        self._charset = charset
        self._switches = [attribute for attribute in self._attributes.values() if attribute.branches]
        self._tables: dict[tuple[int, ...], _Table] = {}
        self._base = _build_table([self._attributes])

    def __getitem__(self, name: str) -> Attribute:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def check(self, values: JSONObject) -> Checked:
        """Check the ``values`` that a client may set on an entity (core R3 to R18, R73 to R89).

        The returned copy has defaults filled in, timestamps in UTC, no nulls, and no values that the client sent for
        read-only attributes. Values inside an ``any`` are not changed.
        Attributes that the server supplies are checked if sent, but not required. All
        findings are returned, each with its path. Values with findings must not be stored.
        """
        troubles: list[Trouble] = []
        checked = self.collect(values, troubles)
        return Checked(values=checked, findings=tuple(trouble.report() for trouble in troubles))

    def active(self, values: JSONObject) -> Mapping[str, Attribute]:
        """Return the attributes in force for these values: the static ones and those that ``ifvalues`` add."""
        branches = self._find_active_branches(values)
        return {name: attribute for group in (self._attributes, *branches) for name, attribute in group.items()}

    def collect(self, values: JSONObject, troubles: list[Trouble]) -> JSONObject:
        """Check a nested object as ``check`` does, but append problems to ``troubles``. Returns the values to store."""
        table = self._find_table(values)
        checks, result = table.checks, {}
        for name, value in values.items():
            if value is None:
                continue
            check = checks.get(name, table.star)
            if name in checks:
                if check is None:
                    continue
            elif check is None:
                message = self._explain(name, table) if len(troubles) < _MAX_HINTS else _UNKNOWN
                troubles.append(Trouble("unknown_attribute", message, name))
                continue
            elif not CHARSETS[self._charset].fullmatch(name):
                troubles.append(Trouble("invalid_attribute", CHARSET_RULES[self._charset], name))
                continue
            before = len(troubles)
            result[name] = check(value, troubles)
            if len(troubles) != before:
                add_step(name, troubles, before)
        for name, default in table.wanted:
            if name not in result:
                if default is not None:
                    result[name] = default
                else:
                    troubles.append(Trouble("required_attribute_missing", "is required", name))
        for name in table.clashes:
            troubles.append(
                Trouble("invalid_attribute", "is defined by the values of two other attributes at once", name)
            )
        return result

    def _find_active_branches(self, values: JSONObject) -> list[Mapping[str, Attribute]]:
        active: list[Mapping[str, Attribute]] = []
        pending = list(self._switches)
        for switch in pending:  # the list grows, because a branch may add attributes with ifvalues
            value = switch.default if switch.readonly else values.get(switch.name)
            if value is None:
                value = switch.default
            if isinstance(value, (str, int, float)):
                branch = switch.branches.get(format_scalar(value).casefold())
                if branch is not None:
                    active.append(branch)
                    pending += [attribute for attribute in branch.values() if attribute.branches]
        return active

    def _find_table(self, values: JSONObject) -> _Table:
        active = self._find_active_branches(values) if self._switches else []
        if not active:
            return self._base
        key = tuple(map(id, active))
        table = self._tables.get(key)
        if table is None:
            table = _build_table([self._attributes, *active])
            if len(self._tables) < _MAX_TABLES:
                self._tables[key] = table
        return table

    def _explain(self, name: str, table: _Table) -> str:
        switches = list(self._switches)
        for switch in switches:
            values = [value for value, branch in switch.branches.items() if name in branch]
            if values:
                value_names = [key for key in switch.definition["ifvalues"] if key.casefold() in values]
                return f"is only defined where {switch.name} is {' or '.join(value_names)}"
            switches += [a for branch in switch.branches.values() for a in branch.values() if a.branches]
        close = difflib.get_close_matches(name, table.checks, n=1) if len(name) < _MAX_HINTED_NAME else []
        return f"{_UNKNOWN}; did you mean {close[0]}?" if close else _UNKNOWN


def _build_table(groups: Sequence[Mapping[str, Attribute]]) -> _Table:
    merged: dict[str, Attribute] = {}
    clashes = []
    for group in groups:
        clashes += [name for name in group if name in merged]
        merged |= group
    star = merged.pop("*", None)
    return _Table(
        checks={name: None if a.readonly else a.check for name, a in merged.items()},
        star=star.check if star else None,
        wanted=tuple(
            (name, a.default)
            for name, a in merged.items()
            if a.required and not a.managed and (not a.readonly or a.default is not None)
        ),
        clashes=tuple(clashes),
    )


def compile_attributes(
    definitions: JSONObject, types: EntityTypes, *, charset: str = "strict", spec: SpecTable | None = None
) -> AttributeSet:
    """Return the attribute set of complete and valid ``definitions``.

    ``spec`` adds properties of the specification's own attributes, such as ``managed``.
    """
    return AttributeSet(
        {
            name: _compile_attribute(name, item, types, (spec or {}).get(name, _PLAIN_SPEC))
            for name, item in definitions.items()
        },
        charset=charset,
    )


def _compile_attribute(
    name: str, definition: JSONObject, types: EntityTypes, spec: SpecAttribute = _PLAIN_SPEC
) -> Attribute:
    spend(_WORK)
    kind = definition["type"]
    charset = definition.get("namecharset", "strict").lower()
    attributes = (
        compile_attributes(definition.get("attributes", {}), types, charset=charset) if kind == "object" else None
    )
    item = _compile_attribute("", _build_item(definition), types) if kind in ("map", "array") else None
    return Attribute(
        name=name,
        type=kind,
        definition=definition,
        check=_make_check(name, definition, types, spec, attributes, item),
        managed=spec.managed,
        caseless=spec.caseless,
        attributes=attributes,
        item=item,
        branches={
            value.casefold(): {
                key: _compile_attribute(key, sibling, types)
                for key, sibling in branch.get("siblingattributes", {}).items()
            }
            for value, branch in definition.get("ifvalues", {}).items()
        },
    )


def _build_item(definition: JSONObject) -> JSONObject:
    """Return the definition of a map's values or an array's items. An array's ``enum`` applies to each item."""
    limits = {
        aspect: definition[aspect] for aspect in ("enum", "strict") if "enum" in definition and aspect in definition
    }
    return {**definition["item"], **limits}


def _make_check(
    name: str,
    definition: JSONObject,
    types: EntityTypes,
    spec: SpecAttribute,
    attributes: AttributeSet | None,
    item: Attribute | None,
) -> Check:
    if attributes is not None:
        return _make_object_check(attributes, spec)
    if item is not None:
        return make_map_check(item.check) if definition["type"] == "map" else make_array_check(item.check)
    return check_any if definition["type"] == "any" else make_scalar_check(name, definition, types, spec)


def _make_object_check(attributes: AttributeSet, spec: SpecAttribute) -> Check:
    further = spec.further

    def check(value: JSON, troubles: list[Trouble]) -> JSON:
        if not isinstance(value, dict):
            troubles.append(Trouble("invalid_attribute", f"must be an object, not {describe(value)}"))
            return value
        result = attributes.collect(value, troubles)
        wrong = further(result) if further else None
        if wrong:
            member, message = wrong
            troubles.append(Trouble("invalid_attribute", message, member))
        return result

    return check
