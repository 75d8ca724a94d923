"""The matching language of cases: what a response has to look like, and variables in any text.

An object names the members it cares about and ignores the rest; an array is matched item by item; anything else has to
be equal. A text that begins with ``~`` is a word of the language::

    ~any ~absent ~string ~uint ~integer ~number ~boolean ~object ~array ~timestamp ~url     a type, or no such member
    ~re PATTERN  ~contains TEXT  ~starts TEXT  ~ends TEXT  ~ci TEXT                          the form of a text
    ~gt NAME  ~ne NAME                                                                       beside a captured value
    ~instant TIME                                                                            the same moment

A word may end in `` >name``, which captures the value. ``~~`` begins a plain text with a ``~``. In place of an object,
``{~keys: [..]}`` asks for exactly these members, ``{~order: [..]}`` for these in this order, ``{~each: ..}`` for
something of every member or item, ``{~has: [..]}`` for some items of an array, ``{~size: n}`` for so many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from xregistry_conformance.values import JSON, dump_json, parse_timestamp

Variables = dict[str, JSON]
"""Names to values: paths and type names of the run, and what a case captured."""

_VARIABLE_NAME: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def fill(value: JSON, variables: Mapping[str, JSON]) -> JSON:
    """``value`` with its variables replaced, in keys too; a text that is one variable alone takes its value as is.

    Names that are no variable stay as they are: a document may well hold braces.
    """
    if isinstance(value, str):
        return _fill_text(value, variables)
    if isinstance(value, dict):
        return {str(_fill_text(key, variables)): fill(member, variables) for key, member in value.items()}
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    return value


def names(value: JSON) -> Iterator[str]:
    """Yield the names of variables anywhere in ``value``."""
    if isinstance(value, str):
        yield from _VARIABLE_NAME.findall(value)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _VARIABLE_NAME.findall(key)
            yield from names(member)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def _fill_text(text: str, variables: Mapping[str, JSON]) -> JSON:
    alone = _VARIABLE_NAME.fullmatch(text)
    if alone and alone[1] in variables:
        return variables[alone[1]]
    return _VARIABLE_NAME.sub(lambda found: str(variables.get(found[1], found[0])), text)


ABSENT: Final = type("Absent", (), {"__repr__": lambda _: "nothing"})()
"""The value of a member that is not there."""
_CAPTURE: Final = re.compile(r"(~.*?) >([a-z][a-z0-9_]*)")
_MAX_SHOWN_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A place in a response that is not as expected. ``path`` is a JSON Pointer, or names a part of the response.

    ``advice`` names a mere recommendation of the specification, whatever the level of the case; it counts once wherever
    it shows. ``""`` is a rule.
    """

    path: str
    expected: str
    actual: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.path or '/'}: expected {self.expected}, got {self.actual}"


def compare(expected: JSON, actual: JSON, variables: Variables, path: str = "") -> list[Mismatch]:
    """Compare ``actual`` with ``expected``. Captured values go into ``variables``.

    The variables of ``expected`` are filled in already. Raises ``ValueError`` for an unknown word.
    """
    return list(_find_mismatches(expected, actual, variables, path))


def show(value: JSON) -> str:
    """``value`` for people, on one line and not too long."""
    text = "nothing" if value is ABSENT else dump_json(value).decode()
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _find_mismatches(expected: JSON, actual: JSON, variables: Variables, path: str) -> Iterator[Mismatch]:
    if isinstance(expected, str) and expected.startswith("~"):
        yield from _check_word(expected, actual, variables, path)
    elif isinstance(expected, dict):
        yield from _check_object(expected, actual, variables, path)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for place, (expected_item, item) in enumerate(zip(expected, actual, strict=True)):
            yield from _find_mismatches(expected_item, item, variables, f"{path}/{place}")
    elif not _is_equal(expected, actual):
        yield Mismatch(path=path, expected=show(expected), actual=show(actual))


def _check_object(expected: dict[str, Any], actual: JSON, variables: Variables, path: str) -> Iterator[Mismatch]:
    shapes = {name: value for name, value in expected.items() if name in _SHAPES}
    if not isinstance(actual, dict) and not (shapes and isinstance(actual, list)):
        yield Mismatch(path=path, expected=show(expected), actual=show(actual))
        return
    for name, value in shapes.items():
        yield from _SHAPES[name](value, actual, variables, path)
    for name in (name for name in expected if name not in shapes):
        member = actual.get(name, ABSENT) if isinstance(actual, dict) else ABSENT
        yield from _find_mismatches(expected[name], member, variables, f"{path}/{name}")


def _check_keys(expected: JSON, actual: Any, _: Variables, path: str) -> Iterator[Mismatch]:
    if sorted(expected) != sorted(actual):
        yield Mismatch(path=path, expected=f"the members {show(sorted(expected))}", actual=show(sorted(actual)))


def _check_order(expected: JSON, actual: Any, _: Variables, path: str) -> Iterator[Mismatch]:
    if list(expected) != list(actual):
        yield Mismatch(path=path, expected=f"the members {show(expected)} in this order", actual=show(list(actual)))


def _check_size(expected: JSON, actual: Any, _: Variables, path: str) -> Iterator[Mismatch]:
    if len(actual) != expected:
        yield Mismatch(path=path, expected=f"{expected} members", actual=str(len(actual)))


def _check_each(expected: JSON, actual: Any, variables: Variables, path: str) -> Iterator[Mismatch]:
    for name, value in actual.items() if isinstance(actual, dict) else enumerate(actual):
        yield from _find_mismatches(expected, value, variables, f"{path}/{name}")


def _check_has(expected: JSON, actual: Any, variables: Variables, path: str) -> Iterator[Mismatch]:
    for item in expected:
        # An item matches where the walk finds no mismatch.
        if all(any(_find_mismatches(item, value, variables, path)) for value in actual):
            yield Mismatch(path=path, expected=f"an item {show(item)}", actual=show(actual))


_SHAPES: Final[dict[str, Callable[[JSON, Any, Variables, str], Iterator[Mismatch]]]] = {
    "~keys": _check_keys,
    "~order": _check_order,
    "~size": _check_size,
    "~each": _check_each,
    "~has": _check_has,
}


def _check_word(expected: str, actual: JSON, variables: Variables, path: str) -> Iterator[Mismatch]:
    captured = _CAPTURE.fullmatch(expected)
    word, name = (captured[1], captured[2]) if captured else (expected, "")
    if not _holds(word, actual, variables):
        yield Mismatch(path=path, expected=expected, actual=show(actual))
    elif name:
        variables[name] = actual


def _holds(word: str, actual: JSON, variables: Variables) -> bool:
    if word.startswith("~~"):
        return bool(actual == word[1:])
    verb, _, argument = word[1:].partition(" ")
    if verb in _TYPE_CHECKS:
        return actual is not ABSENT and _TYPE_CHECKS[verb](actual)
    if verb in _TEXT_CHECKS:
        return isinstance(actual, str) and _TEXT_CHECKS[verb](argument, actual)
    if verb in _BESIDE:
        return actual is not ABSENT and _BESIDE[verb](variables.get(argument), actual)
    if verb != "absent":
        raise ValueError(f"~{verb} is no word of the matching language")
    return actual is ABSENT


def _is_equal(expected: JSON, actual: JSON) -> bool:
    """JSON equality: true is not 1, but 1.0 is."""
    return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)


def _is_time(value: JSON) -> bool:
    try:
        return isinstance(value, str) and bool(parse_timestamp(value))
    except ValueError:
        return False


def _is_url(value: JSON) -> bool:
    return isinstance(value, str) and urlsplit(value).scheme in ("http", "https") and bool(urlsplit(value).netloc)


def _is_number(value: JSON) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPE_CHECKS: Final[dict[str, Callable[[JSON], bool]]] = {
    "any": lambda value: value is not None,
    "string": lambda value: isinstance(value, str),
    "uint": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "timestamp": lambda value: _is_time(value) and str(value).endswith("Z"),
    "url": _is_url,
}
_TEXT_CHECKS: Final[dict[str, Callable[[str, str], bool]]] = {
    "re": lambda pattern, value: re.search(pattern, value) is not None,
    "contains": lambda part, value: part in value,
    "starts": lambda part, value: value.startswith(part),
    "ends": lambda part, value: value.endswith(part),
    "ci": lambda text, value: text.casefold() == value.casefold(),
    "instant": lambda text, value: _is_time(value) and parse_timestamp(value) == parse_timestamp(text),
}
_BESIDE: Final[dict[str, Callable[[JSON, JSON], bool]]] = {
    "gt": lambda before, value: _is_later(before, value),
    "ne": lambda before, value: bool(before != value),
}


def _is_later(before: JSON, value: JSON) -> bool:
    """Numbers by size, timestamps by moment."""
    if _is_number(before) and _is_number(value):
        return bool(value > before)
    return _is_time(before) and _is_time(value) and parse_timestamp(value) > parse_timestamp(before)
