"""The check of default values against their types, at any depth (Avro 1.12, "Complex Types", field ``default``).

A reader uses the default if the writer has no such field. So a default that is not a value of its type would be read as
a value that the schema does not allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from signalbook.formats.base import Path
from signalbook.values import JSON, JSONObject
from signalbook.work import spend

FLOATS: Final = frozenset({"float", "double"})
MAX_COMPARISONS: Final = 100_000
_RANGES: Final = {"int": 2**31, "long": 2**63}
_Problem = tuple[Path, str]
"""The path of the problem in a default, and a message."""


class TooManyDefaults(Exception):
    """Raised if the defaults of a document take more than ``MAX_COMPARISONS`` comparisons."""


class DefaultCheck:
    """A check of the defaults of one document. Each pair of value and type is checked only once."""

    def __init__(self, types: Mapping[str, JSONObject]) -> None:
        self._types = types
        self._results: dict[tuple[int, int], _Problem | None] = {}
        self._left = MAX_COMPARISONS

    def find_problem(self, default: JSON, type: Any) -> _Problem | None:
        """Return the problem of ``default`` as a value of ``type``, or None. Raises ``TooManyDefaults``.

        The default of a union may be a value of any of its alternatives. Members that a record does not declare are
        ignored, as reference implementations do.
        """
        return self._find(default, type, ())

    def _find(self, value: JSON, type: Any, path: Path) -> _Problem | None:
        spend()
        self._left -= 1
        if self._left < 0:
            raise TooManyDefaults
        node = self._types.get(type, type) if isinstance(type, str) else type
        if isinstance(node, str):
            return self._check_scalar(value, node, node, path)
        key = id(value), id(node)
        if key not in self._results:
            # A record whose default needs the same default has no finite value.
            self._results[key] = path, "the default contains itself"
            self._results[key] = self._check_composite(value, node, path)
        return self._results[key]

    def _check_composite(self, value: JSON, node: Any, path: Path) -> _Problem | None:
        if isinstance(node, list):
            return self._check_union(value, node, path)
        match node["type"]:
            case "record":
                return self._record(value, node, path)
            case "array" if isinstance(value, list):
                problems = (self._find(item, node["items"], (*path, index)) for index, item in enumerate(value))
            case "map" if isinstance(value, dict):
                problems = (self._find(item, node["values"], (*path, name)) for name, item in value.items())
            case "array" | "map" as kind:
                return path, f"expected {'an array' if kind == 'array' else 'an object'}"
            case "enum":
                is_symbol = isinstance(value, str) and value in node["symbols"]
                return None if is_symbol else (path, f"expected one of {', '.join(node['symbols'])}")
            case kind:
                return self._check_scalar(value, kind, node, path)
        return next((problem for problem in problems if problem is not None), None)

    def _check_union(self, value: JSON, alternatives: list[Any], path: Path) -> _Problem | None:
        reasons = []
        for alternative in alternatives:
            problem = self._find(value, alternative, path)
            if problem is None:
                return None
            if alternative != "null":
                reasons.append(problem)
        # With a single alternative besides null its reason is useful; with several, the intended one is unknown.
        return reasons[0] if len(reasons) == 1 else (path, "expected a value of one of the alternatives of the union")

    def _record(self, value: JSON, node: JSONObject, path: Path) -> _Problem | None:
        if not isinstance(value, dict):
            return path, f"expected an object for the record {node['name']}"
        for field in node["fields"]:
            name = field["name"]
            if name not in value and "default" not in field:
                return (*path, name), "the field is missing and has no default"
            problem = self._find(value.get(name, field.get("default")), field["type"], (*path, name))
            if problem is not None:
                return problem
        return None

    def _check_scalar(self, value: JSON, kind: str, node: Any, path: Path) -> _Problem | None:
        expected = explain_scalar(value, kind, node)
        return (path, f"expected {expected}") if expected else None


def explain_scalar(value: JSON, kind: str, node: Any) -> str:
    """Return what was expected instead of ``value``, a default or a JSON value; ``""`` if the value is right."""
    if kind in ("bytes", "fixed"):
        if not isinstance(value, str) or any(ord(char) > 255 for char in value):
            return "bytes as text with one character up to U+00FF per byte"
        return f"{node['size']} bytes" if kind == "fixed" and len(value) != node["size"] else ""
    if kind in _RANGES:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return "" if whole and -_RANGES[kind] <= value < _RANGES[kind] else f"a whole number in the range of {kind}"
    if kind in FLOATS:
        return "" if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else "a number"
    expected: type = {"string": str, "boolean": bool}.get(kind, type(None))
    return "" if isinstance(value, expected) else kind
