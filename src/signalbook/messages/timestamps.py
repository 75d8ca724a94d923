"""Timestamps of message metadata: RFC 3339 with a zone, and the sentinel that stands for "now" (domain.md F-25)."""

from __future__ import annotations

import re
from typing import Final

from signalbook.values import parse_timestamp

# Also as the 2022 documents write it (domain.md I-6).
NOW: Final = "0000-01-01T00:00:00Z"
LEGACY_NOW: Final = "01-01-0000T00:00:00Z"

_STAMP: Final = re.compile(
    r"(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)"
    r"(?:\.\d{1,12})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)


def is_timestamp(text: str) -> bool:
    """Whether ``text`` is an RFC 3339 instant in the years 1 to 9999; unlike the registry's, it must have a zone."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return False
    return (match[1] < "29" and "0002" < text[:4] < "9998") or _exists(text)


def _exists(text: str) -> bool:
    try:
        parse_timestamp(text)
    except ValueError:
        return False
    return True
