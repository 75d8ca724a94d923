"""What is doubtful or wrong about one property definition (domain.md F-23 to F-28), wherever it is declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from signalbook.messages.properties import check_type, known_type
from signalbook.messages.timestamps import NOW
from signalbook.messages.uritemplates import TemplateError, is_template, parse_template
from signalbook.values import Finding, JSONObject

Severity = Literal["error", "warning"]

_ADJACENT: Final = re.compile(r"\}\{")


def lint_property(path: str, entry: JSONObject) -> Iterator[Finding]:
    """An unknown type, a value that is not of its type, a template that is none."""
    declared, value = entry.get("type", "string"), entry.get("value")
    if not isinstance(declared, str) or not known_type(declared):
        yield Finding(path=f"{path}.type", rule="type", message=f"there is no property type {declared!r}")
        return
    if not isinstance(value, str):
        return
    if declared == "uritemplate" or is_template(value):
        yield from lint_template(f"{path}.value", value)
    elif not (check_type(declared, value) or (declared == "timestamp" and value == NOW)):
        yield Finding(path=f"{path}.value", rule="type", message=f"{value!r} is not of type {declared}")


def lint_template(path: str, text: str) -> Iterator[Finding]:
    """A text that is no level 1 template, or one that cannot be taken apart again (F-26)."""
    try:
        parse_template(text)
    except TemplateError as error:
        yield Finding(path=path, rule="uritemplate", message=str(error))
    if _ADJACENT.search(text):
        message = "nothing tells where one placeholder ends and the next begins"
        yield Finding(path=path, rule="adjacent", message=message, severity="warning")
