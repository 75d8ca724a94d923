"""Parse values of fields in the template language of both drafts (B-10, B-11, C-19 to C-22).

Expressions in braces are those of RFC6570, all levels. The text around them need not be part of a URI: a content type,
for instance, has spaces.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from signalbook.values import JSON, JSONObject, parse_timestamp

# RFC6570 allows no dash in names of variables, but examples in both drafts have one (C-21).
_VARIABLE_NAME: Final = r"(?:[A-Za-z0-9_-]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_-]|%[0-9A-Fa-f]{2})+)*"
_VARIABLE: Final = rf"{_VARIABLE_NAME}(?::[1-9][0-9]{{0,3}}|\*)?"
_EXPRESSION: Final = re.compile(rf"\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}}", re.ASCII)
_SIMPLE: Final = re.compile(r"\{[A-Za-z0-9_]+\}", re.ASCII)
_DASHED: Final = re.compile(r"\{[A-Za-z0-9_-]+\}", re.ASCII)
_LITERAL: Final = re.compile(r"(?:[^\x00-\x20\"%'<>\\^`{|}\x7f]|%[0-9A-Fa-f]{2})*")
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)

STRING: Final = "string"
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
TIMESTAMP: Final = "timestamp"
BINARY: Final = "binary"
ANY: Final = "any"
"""A string, an integer or a boolean."""

_TYPE_NAMES: Final = {
    STRING: "a string",
    BOOLEAN: "a boolean",
    INTEGER: "an integer",
    TIMESTAMP: "a timestamp",
    BINARY: "bytes in base64",
    ANY: "a string, an integer or a boolean",
}


def find_value_error(value: JSON, type: str) -> str:
    """Return the reason why the ``value`` of a field of ``type`` is invalid, or "". None means no constraint (B-11)."""
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return _find_text_error(value, type)
    # Before int: in Python True is one.
    if isinstance(value, bool):
        return "" if type in (BOOLEAN, ANY) else f"it needs to be {_TYPE_NAMES[type]}, not {str(value).lower()}"
    if isinstance(value, int) and type in (INTEGER, ANY):
        return ""
    return f"it needs to be {_TYPE_NAMES[type]} or a template in a string"


def find_expression_error(text: str) -> str:
    """Return the reason why the expressions of a template are invalid, or ""."""
    remainder = _EXPRESSION.sub("", text)
    if "{" in remainder or "}" in remainder:
        return "a brace begins or ends no expression of RFC6570"
    return ""


def has_expressions(text: str) -> bool:
    """Return True if ``text`` has a variable part, so that it is not an exact value."""
    return "{" in text and _EXPRESSION.search(text) is not None


def is_simple(text: str) -> bool:
    """Return True if ``text`` has expressions and all are of RFC6570's level 1, which xRegistry supports (J-17)."""
    return _SIMPLE.search(text) is not None and not any(sign in _SIMPLE.sub("", text) for sign in "{}")


def replace_dashes(text: str) -> str:
    """Return ``text`` with ``_`` in place of dashes in variable names, which RFC6570 does not allow (C-21)."""
    return _DASHED.sub(lambda match: match[0].replace("-", "_"), text)


def is_uri_template(text: str) -> bool:
    """Return True if the text around the expressions is a URI."""
    return find_expression_error(text) == "" and _LITERAL.fullmatch(_EXPRESSION.sub("", text)) is not None


def literal(template: JSON) -> JSON:
    """Return the exact value that a field's ``template`` requires, or None if it allows several values."""
    value = template.get("value") if isinstance(template, dict) else None
    if value is None or value == "" or (isinstance(value, str) and has_expressions(value)):
        return None
    return value


def convert_value(value: JSON, type: str) -> JSON:
    """Return an exact ``value`` in the JSON form of its ``type`` (C-22): ``"true"`` becomes ``true``."""
    if not isinstance(value, str):
        return value
    if type == BOOLEAN:
        return {"true": True, "false": False}.get(value, value)
    return int(value) if type == INTEGER and _INTEGER.fullmatch(value) else value


def plain(template: JSONObject) -> JSON:
    """Return the first draft's spelling of a field (C-5) that is an object in 0.1: its value, or ``""`` for any."""
    value = template.get("value")
    return "" if value is None else value


def _find_text_error(text: str, type: str) -> str:
    wrong = find_expression_error(text)
    if wrong or has_expressions(text):
        return wrong
    if type == BOOLEAN and text not in ("true", "false"):
        return "it needs to be true or false, or a template"
    if type == INTEGER and not _INTEGER.fullmatch(text):
        return "it needs to be an integer, or a template"
    if type == TIMESTAMP:
        try:
            parse_timestamp(text)
        except ValueError:
            return "it needs to be an RFC3339 timestamp, or a template"
    if type == BINARY:
        try:
            base64.b64decode(text, validate=True)
        except ValueError:
            return "it needs to be bytes in base64, or a template"
    return ""
