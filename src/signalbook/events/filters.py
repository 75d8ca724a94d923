"""Parse filters of events in the dialects of the CloudEvents Subscriptions API (subscriptions/spec.md 3.2.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from signalbook.errors import SignalbookError
from signalbook.events import cesql
from signalbook.values import JSON

Event = Mapping[str, object]
Filter = Callable[[Event], bool]

MAX_DEPTH: Final = 16
MAX_FILTERS: Final = 256


class FilterError(SignalbookError):
    """The error for an invalid filter. The message begins with the path of the filter in the document."""


def parse(value: JSON) -> Filter:
    """Return the filter in a JSON document, as a function that returns True if an event passes (D-29).

    ``value`` is a filter expression, or an array of expressions that must all be true. All events pass an empty array.
    Raises ``FilterError``.
    """
    reading = _Reading()
    if isinstance(value, list):
        return _match_all([reading.parse_filter(member, f"/{index}", 1) for index, member in enumerate(value)])
    return reading.parse_filter(value, "", 1)


class _Reading:
    """Parses one document, and counts its expressions: ``MAX_FILTERS`` at most are accepted."""

    def __init__(self) -> None:
        self._count = 0

    def parse_filter(self, value: JSON, path: str, depth: int) -> Filter:
        self._count += 1
        if self._count > MAX_FILTERS or depth > MAX_DEPTH:
            raise FilterError(f"{path}: at most {MAX_FILTERS} filters, {MAX_DEPTH} deep, are accepted")
        if not isinstance(value, dict) or len(value) != 1:
            raise _make_error(path, "a filter is an object with one member, its dialect")
        ((dialect, content),) = value.items()
        here = f"{path}/{dialect}"
        if dialect in _COMPARISONS:
            return _make_comparison(_COMPARISONS[dialect], content, here)
        if dialect == "sql":
            return _parse_sql(content, here)
        if dialect == "not":
            inner = self.parse_filter(content, here, depth + 1)
            return lambda event: not inner(event)
        if dialect in ("all", "any"):
            members = self._parse_several(content, here, depth)
            return _match_all(members) if dialect == "all" else _match_any(members)
        raise _make_error(
            here, f"there is no such dialect; there are {', '.join((*_COMPARISONS, 'all', 'any', 'not', 'sql'))}"
        )

    def _parse_several(self, content: JSON, path: str, depth: int) -> list[Filter]:
        if not isinstance(content, list) or not content:
            raise _make_error(path, "it takes an array of at least one filter")
        return [self.parse_filter(member, f"{path}/{index}", depth + 1) for index, member in enumerate(content)]


_COMPARISONS: Final[dict[str, Callable[[str, str], bool]]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}


def _make_comparison(compare: Callable[[str, str], bool], content: JSON, path: str) -> Filter:
    if not isinstance(content, dict) or not content:
        raise _make_error(path, "it takes an object of attribute names and values")
    for name, expected in content.items():
        if not name or not isinstance(expected, str) or not expected:
            raise _make_error(f"{path}/{name}", "names and values are texts, and not empty")
    return partial(_compare, compare, tuple(content.items()))


def _compare(compare: Callable[[str, str], bool], pairs: tuple[tuple[str, str], ...], event: Event) -> bool:
    for name, expected in pairs:
        value = event.get(name)
        if value is None or not compare(cesql.text(value), expected):
            return False
    return True


def _parse_sql(content: JSON, path: str) -> Filter:
    if not isinstance(content, str):
        raise _make_error(path, "it takes an expression")
    try:
        return cesql.parse(content).matches
    except cesql.ParseError as error:
        raise _make_error(path, str(error)) from None


def _match_all(filters: list[Filter]) -> Filter:
    return lambda event: all(passes(event) for passes in filters)


def _match_any(filters: list[Filter]) -> Filter:
    return lambda event: any(passes(event) for passes in filters)


def _make_error(path: str, message: Any) -> FilterError:
    return FilterError(f"{path or '/'}: {message}")
