"""Whether a decoded value conforms to an Avro schema, and where it does not.

The library says so of single values; of records it names the innermost one only, so the walk down is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastavro.validation import validate

from signalbook.formats.avro.names import PRIMITIVES, Path, Type
from signalbook.formats.base import pointer, shorten
from signalbook.values import JSON, Finding, JSONObject

_MAX_DEPTH: Final = 64


def violations(value: JSON, node: Type, types: Mapping[str, JSONObject], path: Path = ()) -> Iterator[Finding]:
    """Every violation in ``value``, with its JSON Pointer."""
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if len(path) > _MAX_DEPTH:
        yield _finding(path, "depth", f"nested deeper than {_MAX_DEPTH} levels")
    elif isinstance(node, list):
        yield from _union(value, node, types, path)
    elif isinstance(node, dict) and node["type"] in _CONTAINERS:
        yield from _container(value, node, types, path)
    elif wrong := _wrong(value, node):
        yield _finding(path, "type", wrong)


_CONTAINERS: Final[dict[str, Any]] = {"record": dict, "map": dict, "array": list}


def _container(value: JSON, node: JSONObject, types: Mapping[str, JSONObject], path: Path) -> Iterator[Finding]:
    kind = node["type"]
    if not isinstance(value, _CONTAINERS[kind]):
        yield _finding(path, "type", f"{value!r} is no {kind}")
    elif kind == "record":
        for field in node["fields"]:
            if field["name"] in value or "default" not in field:
                yield from violations(value.get(field["name"]), field["type"], types, (*path, field["name"]))
    else:
        inner = node["values"] if kind == "map" else node["items"]
        for key, item in value.items() if kind == "map" else enumerate(value):
            yield from violations(item, inner, types, (*path, key))


def _union(value: JSON, node: list[Type], types: Mapping[str, JSONObject], path: Path) -> Iterator[Finding]:
    branches = [branch for branch in node if branch != "null"]
    if value is None and len(branches) < len(node):
        return
    if len(branches) == 1:
        yield from violations(value, branches[0], types, path)
    elif all(any(True for _ in violations(value, branch, types, path)) for branch in branches):
        yield _finding(path, "union", f"{value!r} is none of the alternatives")


def surplus(value: JSON, node: Type, types: Mapping[str, JSONObject], path: Path = ()) -> Iterator[Finding]:
    """Every member of a conforming value that its record does not have: a reader skips it, a writer would lose it."""
    if isinstance(node, str) and node not in PRIMITIVES:
        node = types[node]
    if isinstance(node, list):
        if value is not None:
            yield from surplus(value, chosen(value, node, types), types, path)
    elif isinstance(node, dict) and node["type"] == "record":
        fields = {field["name"]: field["type"] for field in node["fields"]}
        for name, item in value.items():
            if name in fields:
                yield from surplus(item, fields[name], types, (*path, name))
            else:
                yield _finding((*path, name), "unknown", f"the record {node['name']} has no such field")
    elif isinstance(node, dict) and node["type"] in ("map", "array"):
        inner = node["values"] if node["type"] == "map" else node["items"]
        for key, item in value.items() if node["type"] == "map" else enumerate(value):
            yield from surplus(item, inner, types, (*path, key))


def chosen(value: JSON, branches: list[Type], types: Mapping[str, JSONObject]) -> Type:
    """The alternative of a union that a conforming value is of: the first that has all of it, else the first."""
    fitting = [branch for branch in branches if not any(True for _ in violations(value, branch, types))]
    return next((branch for branch in fitting if not any(True for _ in surplus(value, branch, types))), fitting[0])


def _wrong(value: JSON, node: Type) -> str:
    """Why a value is none of a simple type, or ``""``."""
    try:
        if validate(value, node, raise_errors=False):
            return ""
        why = ""
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:  # as of a decimal with too many digits
        why = f": {error}"
    return f"{value!r} is no {node if isinstance(node, str) else node['type']}{why}"


def _finding(path: Path, rule: str, message: str) -> Finding:
    return Finding(path=pointer(path), rule=rule, message=shorten(message))
