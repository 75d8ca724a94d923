"""Compile property definitions to checks (F-23 to F-29, K-19, K-20).

A check takes the values of a message by property name, and the values of placeholders found so far. It returns a
finding or ``None``, and adds the values that its template captures to the placeholders.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from signalbook.messages.cloudevents import is_timestamp
from signalbook.messages.content import same_content_type
from signalbook.messages.uritemplates import Template, TemplateError, is_template, parse_template, unify
from signalbook.uris import is_uri, is_uri_reference
from signalbook.values import JSON, Finding, JSONObject, Severity, parse_timestamp

Values = Mapping[str, Any]
Context = dict[str, str]
Check = Callable[[Values, Context], Finding | None]
ValueCheck = Callable[[Any, Context], Finding | None]

CONFLICT: Final = "placeholder_conflict"
# Types whose templates hold percent-encoded values (K-16, K-18).
ENCODED: Final = frozenset({"uritemplate", "uri", "urireference"})
_STRINGS: Final = frozenset({"any", "string", "symbol", *ENCODED})


class PropertyError(ValueError):
    """The error for a property definition that cannot be used. The message contains the reason."""


def finding(path: str, rule: str, message: str, severity: Severity = "error") -> Finding:
    """Return a finding about a definition or endpoint. ``path`` begins at its root."""
    return Finding(path=path, rule=rule, message=message, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A declared property of a message, wherever it is carried.

    ``name`` is its key among a message's values (``source``, ``headers.x-github-event``), ``path`` its place in the
    definition. If ``multiple`` is True, values are tuples, and one matching item is enough (K-26). ``role`` is the
    meaning of a wrong value: another kind of message (``discriminator``), a violation (``plain``), or nothing unless
    the policy is strict about delivery (``delivery``, K-27).
    """

    name: str
    path: str
    type: str = "string"
    value: JSON = None
    required: bool = False
    multiple: bool = False
    separator: str = "/"
    role: Literal["discriminator", "plain", "delivery"] = "plain"
    comparison: Literal["value", "content_type"] = "value"

    @property
    def constant(self) -> str | None:
        """The exact text that a message must have, or ``None`` if the declaration allows several values."""
        if self.comparison == "value" and self.type in _STRINGS and isinstance(self.value, str):
            native = self.type == "any" and (check_type("number", self.value) or check_type("boolean", self.value))
            return None if native or is_template(self.value) else self.value
        return None

    def template(self) -> Template | None:
        """Return the declared template, or None (F-28). Raises ``PropertyError`` if it is malformed (F-26)."""
        if not isinstance(self.value, str) or not (self.type == "uritemplate" or is_template(self.value)):
            return None
        try:
            template = parse_template(self.value, encoded=self.type in ENCODED, separator=self.separator)
        except TemplateError as error:
            raise PropertyError(f"{self.path}: {error}") from None
        return template if template.names else None


def check_type(type: str, value: Any) -> bool:
    """Return True if ``value`` is of ``type``, natively or as canonical string (K-19). Raises ``KeyError``."""
    return _TYPE_CHECKS[type](value)


def is_known_type(type: str) -> bool:
    """Return True if a property may have ``type`` (F-24)."""
    return type in _TYPE_CHECKS


def is_equal(type: str, declared: JSON, actual: Any) -> bool:
    """Return True if ``actual`` equals the declared value: timestamps by instant, numbers by value (K-20)."""
    compare = _EQUAL.get(type)
    return declared == actual if compare is None else compare(declared, actual)


def compile_property(declared: Property) -> Check | None:
    """Return the check of one property, or ``None`` if every message passes it.

    Raises ``PropertyError`` for an unknown type, a malformed template, or a value that is not of the type.
    """
    check = _compile_value_check(declared)
    if check is None and not declared.required:
        return None
    if declared.multiple:
        return _compile_multiple(declared, check)
    return _compile_single(declared, check)


def _compile_value_check(declared: Property) -> ValueCheck | None:
    if not is_known_type(declared.type):
        raise PropertyError(f"{declared.path}: there is no property type {declared.type!r}")
    template = declared.template()
    if template is not None:
        return _compile_template_check(declared.name, template)
    if declared.value is None or (declared.type == "timestamp" and declared.value in (NOW, LEGACY_NOW)):
        return None if declared.type in ("any", "uritemplate") else _compile_type_check(declared.name, declared.type)
    if declared.comparison == "content_type":
        return _compile_content_type(declared.name, str(declared.value))
    if not check_type(declared.type, declared.value):
        raise PropertyError(f"{declared.path}: the value {declared.value!r} is not of type {declared.type}")
    return _compile_constant(declared)


def _compile_constant(declared: Property) -> ValueCheck:
    name, kind, expected = declared.name, declared.type, declared.value

    def check(value: Any, _: Context) -> Finding | None:
        if value == expected or is_equal(kind, expected, value):
            return None
        return Finding(
            path=name, rule="value", message=f"{name} must be {_format_value(expected)}, not {_format_value(value)}"
        )

    return check


def _compile_content_type(name: str, expected: str) -> ValueCheck:
    def check(value: Any, _: Context) -> Finding | None:
        if value == expected or same_content_type(expected, str(value)):
            return None
        return Finding(path=name, rule="content_type", message=f"{name} must be {expected}, not {_format_value(value)}")

    return check


def _compile_type_check(name: str, type: str) -> ValueCheck:
    test = _TYPE_CHECKS[type]

    def check(value: Any, _: Context) -> Finding | None:
        if test(value):
            return None
        return Finding(path=name, rule="type", message=f"{name} must be of type {type}, not {_format_value(value)}")

    return check


def _compile_template_check(name: str, template: Template) -> ValueCheck:
    match, text = template.match, template.text

    def check(value: Any, context: Context) -> Finding | None:
        captured = match(value) if isinstance(value, str) else None
        if captured is None:
            return Finding(path=name, rule="uritemplate", message=f"{name} must fit {text}, not {_format_value(value)}")
        # A placeholder must have the same value in all properties of a message.
        clash = unify(context, captured)
        if clash is None:
            return None
        here, there = _format_value(captured[clash]), _format_value(context[clash])
        return Finding(
            path=name, rule=CONFLICT, message=f"{name}: {{{clash}}} stands for {here} here and {there} elsewhere"
        )

    return check


def _make_missing(name: str) -> Finding:
    return Finding(path=name, rule="required", message=f"{name} is required")


def _compile_single(declared: Property, check: ValueCheck | None) -> Check:
    name, missing = declared.name, _make_missing(declared.name) if declared.required else None

    def single(values: Values, context: Context) -> Finding | None:
        value = values.get(name)
        if value is None:
            return missing
        return None if check is None else check(value, context)

    return single


def _compile_multiple(declared: Property, check: ValueCheck | None) -> Check:
    """Return a check that any occurrence passes. If none does, the first finding is reported."""
    name, missing = declared.name, _make_missing(declared.name) if declared.required else None

    def multiple(values: Values, context: Context) -> Finding | None:
        occurrences = values.get(name)
        if not occurrences:
            return missing
        if check is None:
            return None
        return check(occurrences[0], context) if len(occurrences) == 1 else _check_any(check, occurrences, context)

    return multiple


def _check_any(check: ValueCheck, occurrences: Iterable[Any], context: Context) -> Finding | None:
    first: Finding | None = None
    for value in occurrences:
        # Check each occurrence with a copy of the context, so that a failed one leaves no captured values.
        attempt = dict(context)
        finding = check(value, attempt)
        if finding is None:
            context.update(attempt)
            return None
        first = first or finding
    return first


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"


_SYMBOL: Final = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_NUMBER_PATTERN: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION: Final = re.compile(
    r"P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)", re.ASCII
)
_INT32: Final = range(-(2**31), 2**31)
_UINT64: Final = range(2**64)
_LONGEST_INTEGER: Final = 20


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_binary(value: Any) -> bool:
    return isinstance(value, bytes) or (isinstance(value, str) and _from_base64(value) is not None)


def _from_base64(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or value in ("true", "false")


def _is_integer_in(bounds: range) -> Callable[[Any], bool]:
    def test(value: Any) -> bool:
        if isinstance(value, int):
            return not isinstance(value, bool) and value in bounds
        return (
            isinstance(value, str)
            and len(value) <= _LONGEST_INTEGER
            and _INTEGER.fullmatch(value) is not None
            and int(value) in bounds
        )

    return test


_is_integer: Final = _is_integer_in(_INT32)
_is_ulong: Final = _is_integer_in(_UINT64)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return _NUMBER_PATTERN.fullmatch(value) is not None
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_timestamp(value: Any) -> bool:
    return is_timestamp(value) if isinstance(value, str) else isinstance(value, datetime)


_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

_TYPE_CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "any": lambda _: True,
    "binary": _is_binary,
    "boolean": _is_boolean,
    "duration": lambda value: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    "integer": _is_integer,
    "number": _is_number,
    "string": _is_string,
    "symbol": lambda value: isinstance(value, str) and _SYMBOL.fullmatch(value) is not None,
    "timestamp": _is_timestamp,
    "ulong": _is_ulong,
    "uri": lambda value: isinstance(value, str) and is_uri(value),
    "urireference": lambda value: isinstance(value, str) and is_uri_reference(value),
    "uritemplate": _is_string,
    "uuid": lambda value: isinstance(value, UUID) or (isinstance(value, str) and _UUID.fullmatch(value) is not None),
}


def _is_same_integer(declared: JSON, actual: Any) -> bool:
    return (_is_integer(actual) or _is_ulong(actual)) and int(declared) == int(actual)


def _is_same_instant(declared: JSON, actual: Any) -> bool:
    if not _is_timestamp(actual):
        return False
    return parse_timestamp(declared) == (parse_timestamp(actual) if isinstance(actual, str) else actual)


def _decode_bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else _from_base64(value) if isinstance(value, str) else None


def _is_same_value(declared: JSON, actual: Any) -> bool:
    """Compare values of the type ``any``: a number or boolean equals its text."""
    kinds = ("boolean", "number") if not isinstance(actual, str) else ()
    return any(check_type(kind, declared) and is_equal(kind, declared, actual) for kind in kinds)


_EQUAL: Final[dict[str, Callable[[JSON, Any], bool]]] = {
    "any": _is_same_value,
    "binary": lambda declared, actual: _decode_bytes(declared) == _decode_bytes(actual),
    "boolean": lambda declared, actual: _is_boolean(actual) and str(declared).lower() == str(actual).lower(),
    "integer": _is_same_integer,
    "number": lambda declared, actual: _is_number(actual) and float(declared) == float(actual),
    "timestamp": _is_same_instant,
    "ulong": _is_same_integer,
    "uuid": lambda declared, actual: str(declared).lower() == str(actual).lower(),
}


# The value that stands for the current time. ``LEGACY_NOW`` is its form in documents of 2022 (I-6).
NOW: Final = "0000-01-01T00:00:00Z"


LEGACY_NOW: Final = "01-01-0000T00:00:00Z"


# Names of the 2022 and 2023 documents (I-6).
_LEGACY_TYPES: Final = {"var": "any", "datetime": "timestamp"}
TEXT: Final = (str, type(None))
_PROPERTY_MEMBERS: Final = (
    ("type", TEXT, "a string"),
    ("value", TEXT, "a string, a number, true or false: no message carries more under one name"),
    ("required", (bool, type(None)), "true or false"),
)


def find_malformed_property(path: str, entry: JSON) -> Iterator[Finding]:
    """Yield findings for members of one property definition that have the wrong JSON type."""
    if not isinstance(entry, dict):
        yield make_type_finding(path, "an object with type, value and required")
        return
    for name, kind, kind_text in _PROPERTY_MEMBERS:
        if not isinstance(entry.get(name), kind):
            yield make_type_finding(f"{path}.{name}", kind_text)


def normalise_property(entry: JSON) -> JSON:
    """Return a property definition with current type names and its value as text (F-41)."""
    if not isinstance(entry, dict):
        return entry
    normal = dict(entry)
    if isinstance(normal.get("type"), str):
        name = normal["type"].lower()
        normal["type"] = _LEGACY_TYPES.get(name, name)
    if "value" in normal:
        normal["value"] = _as_text(normal["value"])
    return normal


def _as_text(value: Any) -> JSON:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        # JSON has one kind of number: 5.0 is 5.
        return str(int(value) if isinstance(value, float) and value.is_integer() else value)
    return NOW if value == LEGACY_NOW else value


def make_type_finding(path: str, kind: str) -> Finding:
    return Finding(path=path, rule="structure", message=f"must be {kind}")


_ADJACENT: Final = re.compile(r"\}\{")


def lint_property(path: str, entry: JSONObject) -> Iterator[Finding]:
    """Yield findings for an empty description, an unknown type, a value of another type, or an invalid template."""
    if entry.get("description") == "":
        yield Finding(path=f"{path}.description", rule="empty", message="a description must not be empty: leave it out")
    declared, value = entry.get("type", "string"), entry.get("value")
    if not isinstance(declared, str) or not is_known_type(declared):
        yield Finding(path=f"{path}.type", rule="type", message=f"there is no property type {declared!r}")
        return
    if not isinstance(value, str):
        return
    if declared == "uritemplate" or is_template(value):
        yield from lint_template(f"{path}.value", value)
    elif not (check_type(declared, value) or (declared == "timestamp" and value == NOW)):
        yield Finding(path=f"{path}.value", rule="type", message=f"{value!r} is not of type {declared}")


def lint_template(path: str, text: str) -> Iterator[Finding]:
    """Yield findings for a text that is not a level 1 template, or whose placeholders are ambiguous (F-26)."""
    try:
        parse_template(text)
    except TemplateError as error:
        yield Finding(path=path, rule="uritemplate", message=str(error))
    if _ADJACENT.search(text):
        message = "nothing tells where one placeholder ends and the next begins"
        yield Finding(path=path, rule="adjacent", message=message, severity="warning")
