"""Ids as the drafts write them: one segment of a path without colon (domain.md A-2, J-19)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+", re.ASCII)
"""``segment-nz-nc`` of RFC3986 3.3."""


def is_segment(text: object) -> bool:
    """Whether ``text`` is a legal id of the drafts."""
    return isinstance(text, str) and SEGMENT.fullmatch(text) is not None


def same_id(one: str, other: str) -> bool:
    """Whether two ids differ by no more than what is percent-encoded: in a CloudEvents type nothing is (B-13)."""
    return one == other or unquote(one) == unquote(other)
