"""Decode JSON of clients, with limits on the time and the memory that one text takes.

A decoder holds the interpreter's lock from the first byte to the last. For a text of 60 MB with 20 million values, all
other threads would wait for seconds. So values are counted before they are decoded.
"""

from __future__ import annotations

from typing import Final

from signalbook.values import JSON, MAX_DEPTH, parse_json

MAX_VALUES: Final = 1_000_000
"""The largest number of values in a document. Decoding them takes about 0.25 s, and about a hundred bytes for each."""
LARGE: Final = 1 << 18
"""Texts with more bytes are large: a decoder may need more than a few milliseconds for them."""


def parse_untrusted_json(
    data: bytes,
    *,
    max_depth: int = MAX_DEPTH,
    max_values: int = MAX_VALUES,
    unique: bool = False,
    exact: bool = False,
) -> JSON:
    """Parse like ``parse_json``, but accept at most ``MAX_VALUES`` values by default.

    Raises ``JSONError``, or ``TooManyValues`` before any value is decoded if there are more than ``max_values``.
    """
    return parse_json(data, max_depth=max_depth, max_values=max_values, unique=unique, exact=exact)
