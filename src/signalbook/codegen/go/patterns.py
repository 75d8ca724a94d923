"""Patterns of JSON Schema in the syntax of Go's ``regexp``."""

from __future__ import annotations

import re
from typing import Final

from signalbook.codegen.base import Inexpressible
from signalbook.codegen.standalone.patterns import linear

_DIFFERENT: Final = re.compile(
    r"""
    \\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\u(?P<code>[0-9a-fA-F]{4}) | \\u\{(?P<braced>[0-9a-fA-F]+)\}
    | (?P<name>\(\?<(?![=!]))
    | \\.
    """,
    re.VERBOSE | re.DOTALL,
)


def translate_pattern(pattern: str) -> str:
    """Return ``pattern`` for ``regexp``. Raises ``Inexpressible``."""
    return _DIFFERENT.sub(_translate_token, linear(pattern))


def _translate_token(token: re.Match[str]) -> str:
    if token["name"]:
        return "(?P<"
    if token["high"]:
        return _write_character(0x10000 + ((int(token["high"], 16) - 0xD800) << 10) + int(token["low"], 16) - 0xDC00)
    digits = token["code"] or token["braced"]
    return _write_character(int(digits, 16)) if digits else token[0]


def _write_character(code: int) -> str:
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise Inexpressible("its schema has a pattern with half a character, which Go has no form for")
    return rf"\x{{{code:x}}}"
