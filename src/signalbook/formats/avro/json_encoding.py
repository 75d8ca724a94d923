"""Encode values in Avro's JSON encoding, decode them strictly, and report every finding with its path.

The library's own reader accepts text as a number and silently drops unknown members, which is not acceptable here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, Final

from fastavro.validation import validate
from fastavro.write import LOGICAL_WRITERS

from signalbook.formats.avro.defaults import FLOATS, explain_scalar
from signalbook.formats.avro.document import PRIMITIVES, Type, find_branch_name
from signalbook.formats.base import MAX_FINDINGS, Path, make_finding
from signalbook.values import JSON, NONFINITE, Finding, JSONObject

_MAX_VALUE_DEPTH: Final = 64


def list_violations(value: JSON, node: Type, types: Mapping[str, JSONObject], path: Path = ()) -> Iterator[Finding]:
    """Yield every violation in the decoded ``value`` of the type ``node``, with its JSON Pointer."""
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if len(path) > _MAX_VALUE_DEPTH:
        yield make_finding(path, "depth", f"nested deeper than {_MAX_VALUE_DEPTH} levels")
    elif isinstance(node, list):
        yield from _check_union(value, node, types, path)
    elif isinstance(node, dict) and node["type"] in _CONTAINERS:
        yield from _check_container(value, node, types, path)
    elif wrong := _explain_wrong(value, node):
        yield make_finding(path, "type", wrong)


_CONTAINERS: Final[dict[str, Any]] = {"record": dict, "map": dict, "array": list}


def _check_container(value: JSON, node: JSONObject, types: Mapping[str, JSONObject], path: Path) -> Iterator[Finding]:
    kind = node["type"]
    if not isinstance(value, _CONTAINERS[kind]):
        yield make_finding(path, "type", f"{value!r} is no {kind}")
    elif kind == "record":
        for field in node["fields"]:
            if field["name"] in value or "default" not in field:
                yield from list_violations(value.get(field["name"]), field["type"], types, (*path, field["name"]))
    else:
        inner = node["values"] if kind == "map" else node["items"]
        for key, item in value.items() if kind == "map" else enumerate(value):
            yield from list_violations(item, inner, types, (*path, key))


def _check_union(value: JSON, node: list[Type], types: Mapping[str, JSONObject], path: Path) -> Iterator[Finding]:
    branches = [branch for branch in node if branch != "null"]
    if value is None and len(branches) < len(node):
        return
    if len(branches) == 1:
        yield from list_violations(value, branches[0], types, path)
    elif all(any(True for _ in list_violations(value, branch, types, path)) for branch in branches):
        yield make_finding(path, "union", f"{value!r} is none of the alternatives")


def list_surplus(value: JSON, node: Type, types: Mapping[str, JSONObject], path: Path = ()) -> Iterator[Finding]:
    """Yield a finding for every member of a conforming ``value`` that its record does not declare.

    A reader may skip such members, but a writer would lose them.
    """
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if isinstance(node, list):
        if value is not None:
            yield from list_surplus(value, choose_branch(value, node, types), types, path)
    elif isinstance(node, dict) and node["type"] == "record":
        fields = {field["name"]: field["type"] for field in node["fields"]}
        for name, item in value.items():
            if name in fields:
                yield from list_surplus(item, fields[name], types, (*path, name))
            else:
                yield make_finding((*path, name), "unknown", f"the record {node['name']} has no such field")
    elif isinstance(node, dict) and node["type"] in ("map", "array"):
        inner = node["values"] if node["type"] == "map" else node["items"]
        for key, item in value.items() if node["type"] == "map" else enumerate(value):
            yield from list_surplus(item, inner, types, (*path, key))


def choose_branch(value: JSON, branches: list[Type], types: Mapping[str, JSONObject]) -> Type:
    """Return the alternative of a union for a conforming ``value``.

    The first conforming alternative that declares all its members takes precedence over other conforming alternatives.
    """
    # A record with only optional members fits nearly any object, so prefer an alternative that loses nothing.
    fitting = [branch for branch in branches if not any(True for _ in list_violations(value, branch, types))]
    return next((branch for branch in fitting if not any(True for _ in list_surplus(value, branch, types))), fitting[0])


def with_numbers(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> JSON:
    """Return ``value``, stored as JSON, with the names in ``NONFINITE`` replaced by numbers.

    A name remains where ``node`` allows a text.
    """
    return _convert_numbers(value, node, types) if _has_names(value) else value


def _has_names(value: JSON) -> bool:
    if isinstance(value, (dict, list)):
        return any(map(_has_names, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value in NONFINITE


def _convert_numbers(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> JSON:
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if isinstance(node, list):
        return _convert_alternative(value, node, types)
    kind = node if isinstance(node, str) else node["type"]
    if kind in FLOATS and isinstance(value, str):
        return NONFINITE.get(value, value)
    if kind == "record" and isinstance(value, dict):
        fields = {field["name"]: field["type"] for field in node["fields"]}
        return {
            name: _convert_numbers(member, fields[name], types) if name in fields else member
            for name, member in value.items()
        }
    if kind == "map" and isinstance(value, dict):
        return {name: _convert_numbers(member, node["values"], types) for name, member in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_convert_numbers(member, node["items"], types) for member in value]
    return value


def _convert_alternative(value: JSON, node: list[Type], types: Mapping[str, JSONObject]) -> JSON:
    branches = [branch for branch in node if branch != "null"]
    # If an alternative accepts the name as text, keep the text.
    if len(branches) > 1:
        if not any(True for _ in list_violations(value, node, types)):
            return value
        branches = [branch for branch in branches if _is_like(value, branch, types)]
    return _convert_numbers(value, branches[0], types) if branches else value


def _is_like(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> bool:
    """Return True if ``value``, which contains names of numbers, may belong to the alternative ``node`` of a union."""
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    kind = node if isinstance(node, str) else node["type"]
    if kind == "record":
        return isinstance(value, dict) and value.keys() == {field["name"] for field in node["fields"]}
    return isinstance(value, str) if kind in FLOATS else isinstance(value, _CONTAINERS.get(kind, ()))


def _explain_wrong(value: JSON, node: Type) -> str:
    """Return why ``value`` does not conform to a simple type, or ``""`` if it does."""
    try:
        if validate(value, node, raise_errors=False):
            return ""
        why = ""
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:  # too many digits
        why = f": {error}"
    return f"{value!r} is no {node if isinstance(node, str) else node['type']}{why}"


_EPOCH_DATE: Final = datetime(1970, 1, 1, tzinfo=UTC)


def decode(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> tuple[JSON, list[Finding]]:
    """Return the decoded value of ``value``, JSON-encoded Avro of the type ``node``, and the first findings."""
    reader = _Reader(types)
    return reader.read(value, node, ()), reader.findings[:MAX_FINDINGS]


def encode(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> JSON:
    """Return a conforming value in Avro's JSON encoding; an absent field with a default is left out.

    Raises ``ValueError`` for a number that JSON cannot represent, and the library's exceptions for a value of a logical
    type that it cannot write.
    """
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if isinstance(node, list):
        return _tag_value(value, node, types)
    kind = node if isinstance(node, str) else node["type"]
    if kind == "record":
        parts = [part for part in node["fields"] if part["name"] in value or "default" not in part]
        return {part["name"]: encode(value.get(part["name"]), part["type"], types) for part in parts}
    if kind == "array":
        return [encode(item, node["items"], types) for item in value]
    if kind == "map":
        return {name: encode(item, node["values"], types) for name, item in value.items()}
    plain = _simplify_value(value, kind, node)
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"JSON has no number {plain}")
    return plain.decode("latin-1") if isinstance(plain, bytes) else plain


def _tag_value(value: JSON, branches: list[Type], types: Mapping[str, JSONObject]) -> JSON:
    """Return a value of a union as an object whose only member has the name of its alternative; null stays null."""
    if value is None:
        return None
    branch = choose_branch(value, branches, types)
    return {find_branch_name(branch): encode(value, branch, types)}


def _simplify_value(value: JSON, kind: str, node: Type) -> JSON:
    """Return a value of a logical type as a value of the underlying type."""
    logical = "" if isinstance(node, str) else node.get("logicalType", "")
    return LOGICAL_WRITERS[f"{kind}-{logical}"](value, node) if (kind, logical) in _LOGICAL else value


def read_default(field: JSONObject, types: Mapping[str, JSONObject]) -> JSON:
    """Return the default of a record's field as the binary decoder would return it."""
    reader = _Reader(types)
    value = reader.field({}, field, ())
    # A default that does not belong to the first alternative of a union is returned unchanged.
    return field["default"] if reader.findings else value


class _Reader:
    """Decodes one value and collects the findings."""

    def __init__(self, types: Mapping[str, JSONObject]) -> None:
        self.types = types
        self.findings: list[Finding] = []
        self.tagged = True

    def report(self, path: Path, rule: str, message: str) -> None:
        self.findings.append(make_finding(path, rule, message))

    def read(self, value: JSON, node: Type, path: Path) -> JSON:
        if isinstance(node, str) and node not in PRIMITIVES:
            node = self.types[node]
        if isinstance(node, list):
            return self.union(value, node, path)
        kind = node if isinstance(node, str) else node["type"]
        composite = getattr(self, f"read_{kind}", None)
        if composite is not None:
            return composite(value, node, path)
        return self.scalar(value, kind, node, path)

    def union(self, value: JSON, node: list[Type], path: Path) -> JSON:
        if not self.tagged:
            return self.read(value, node[0], path)  # a default belongs to the first alternative
        if value is None and "null" in node:
            return None
        branches = {find_branch_name(item): item for item in node if item != "null"}
        if isinstance(value, dict) and len(value) == 1:
            ((tag, inner),) = value.items()
            if tag in branches:
                return self.read(inner, branches[tag], (*path, tag))
        names = [*(["null"] if "null" in node else []), *(f'{{"{name}": ...}}' for name in branches)]
        self.report(path, "union", f"expected {' or '.join(names)}")
        return None

    def read_record(self, value: JSON, node: JSONObject, path: Path) -> JSON:
        if not isinstance(value, dict):
            self.report(path, "type", f"expected an object for the record {node['name']}")
            return None
        fields = {part["name"]: part for part in node["fields"]}
        for name in value.keys() - fields.keys():
            self.report((*path, name), "unknown", f"the record {node['name']} has no such field")
        return {name: self.field(value, part, (*path, name)) for name, part in fields.items()}

    def field(self, value: JSONObject, part: JSONObject, path: Path) -> JSON:
        if part["name"] in value:
            return self.read(value[part["name"]], part["type"], path)
        if "default" not in part:
            self.report(path, "required", "the field is missing and has no default")
            return None
        # Defaults in a schema are written without the name of an alternative, unlike values in a payload.
        before, self.tagged = self.tagged, False
        default = self.read(part["default"], part["type"], path)
        self.tagged = before
        return default

    def read_array(self, value: JSON, node: JSONObject, path: Path) -> JSON:
        if not isinstance(value, list):
            self.report(path, "type", "expected an array")
            return None
        return [self.read(item, node["items"], (*path, index)) for index, item in enumerate(value)]

    def read_map(self, value: JSON, node: JSONObject, path: Path) -> JSON:
        if not isinstance(value, dict):
            self.report(path, "type", "expected an object")
            return None
        return {key: self.read(item, node["values"], (*path, key)) for key, item in value.items()}

    def read_enum(self, value: JSON, node: JSONObject, path: Path) -> JSON:
        if not isinstance(value, str) or value not in node["symbols"]:
            self.report(path, "enum", f"expected one of {', '.join(node['symbols'])}")
        return value

    def scalar(self, value: JSON, kind: str, node: Type, path: Path) -> JSON:
        wrong = explain_scalar(value, kind, node)
        if wrong:
            self.report(path, "type", f"expected {wrong}")
            return None
        # By the specification, one character in JSON represents one byte.
        plain = value.encode("latin-1") if kind in ("bytes", "fixed") else value
        try:
            return _to_float(value, kind) if kind in FLOATS else _decode_logical(plain, node)
        except (ArithmeticError, ValueError) as error:
            type_name = node["logicalType"] if isinstance(node, dict) and "logicalType" in node else kind
            self.report(path, "range", f"not a {type_name}: {error}")
            return None


# The largest numbers of the types that JSON numbers are rounded to.
_LARGEST_FLOATS: Final = {"float": (2 - 2**-23) * 2.0**127, "double": sys.float_info.max}


def _to_float(value: Any, kind: str) -> float:
    """Return ``value`` as a float. Raises ``ValueError`` if it is too large for the type ``kind``."""
    if not abs(value) <= _LARGEST_FLOATS[kind]:
        raise ValueError("it is too large")
    return float(value)


def _build_timestamp(unit: timedelta) -> Callable[[int, JSONObject], datetime]:
    return lambda value, _: _EPOCH_DATE + value * unit


def _time(unit: int) -> Callable[[int, JSONObject], time]:
    def convert(value: int, _: JSONObject) -> time:
        micros = value * unit
        if not 0 <= micros < 86_400_000_000:
            raise ValueError("outside one day")
        return (datetime.min + timedelta(microseconds=micros)).time()

    return convert


def _decode_decimal(value: bytes, node: JSONObject) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    # The default context would round to 28 digits. A byte needs less than three digits.
    exact = Context(prec=max(len(value) * 3, 1))
    return exact.create_decimal(number).scaleb(-int(node.get("scale", 0)), exact)


# Converters to the same Python values that the binary decoder returns.
_LOGICAL: Final[dict[tuple[str, str], Callable[[Any, JSONObject], Any]]] = {
    ("long", "timestamp-millis"): _build_timestamp(timedelta(milliseconds=1)),
    ("long", "timestamp-micros"): _build_timestamp(timedelta(microseconds=1)),
    ("int", "date"): lambda value, _: date(1970, 1, 1) + timedelta(days=value),
    ("int", "time-millis"): _time(1000),
    ("long", "time-micros"): _time(1),
    ("bytes", "decimal"): _decode_decimal,
    ("fixed", "decimal"): _decode_decimal,
}


def _decode_logical(value: JSON, node: Type) -> JSON:
    if isinstance(node, str):
        return value
    convert = _LOGICAL.get((node["type"], node.get("logicalType", "")))
    return convert(value, node) if convert else value
