"""Text as the value of a header, both ways (core/http.md "HTTP Header Values", CloudEvents HTTP binding 3.1.3.2)."""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = re.compile(r"[^!#$&-~]")


def encode(text: str) -> str:
    """Percent-encode a value: space, quote, percent and everything outside printable ASCII (R166)."""
    if _UNSAFE.search(text) is None:
        return text
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), text)


def decode(value: str) -> str:
    """The inverse, after undoing double-quoted strings (R167). ``value`` holds one character per byte.

    Raises ``ValueError`` for broken quotes, broken escapes and bytes that are not UTF-8.
    """
    data = bytearray()
    position, text = 0, _unquote(value)
    while position < len(text):
        if text[position] == "%":
            data.append(_byte(text[position + 1 : position + 3]))
            position += 3
        else:
            data += text[position].encode("latin-1")
            position += 1
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} of the decoded value is not UTF-8") from None


def _byte(digits: str) -> int:
    if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return int(digits, 16)
    raise ValueError(f'"%{digits}" is no percent-encoded byte')


def _unquote(value: str) -> str:
    value = value.strip(" \t")
    if '"' not in value:
        return value
    result, quoted, position = [], False, 0
    while position < len(value):
        character = value[position]
        if character == '"':
            quoted = not quoted
        elif character == "\\" and quoted:
            position += 1
            result.append(value[position : position + 1])
        else:
            result.append(character)
        position += 1
    if quoted:
        raise ValueError("a double quote is not closed")
    return "".join(result)
