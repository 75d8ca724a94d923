"""Example texts for the regular expressions of schemas."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from string_gen import StringGen, StringGenError

_MAX_PATTERN_CHARS: Final = 200
_MAX_REPETITIONS: Final = 300
"""The upper bounds of all repetitions of a pattern multiplied, as they may be nested, and 2 for each group repeated."""
MAX_CHARS: Final = 500
"""The length of the longest example, in characters."""
_SEEDS: Final = range(5)
_BOUND: Final = re.compile(r"(\d{1,9})\}")
_OPEN: Final = re.compile(r"[*+]|,\}")
_GROUP_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=")
# Escapes may name ranges of a million characters. Of the rest Python warns: it may become an operation on sets.
_UNUSABLE: Final = re.compile(r"\\[uUN]|\d{10}|\[\[|--|&&|~~|\|\|")


@lru_cache(maxsize=1_000)
def make_example(pattern: str, min_chars: int = 0, max_chars: int = MAX_CHARS) -> str | None:
    """Return a text that ``pattern`` is likely to match, or None if none is short and quickly made.

    The text is the same in each run. The pattern is read by Python's rules and look-around is ignored, so callers have
    to check the text.
    """
    if len(pattern) > _MAX_PATTERN_CHARS or not pattern.isascii() or _UNUSABLE.search(pattern):
        return None
    bounded = math.prod(max(1, int(bound)) for bound in _BOUND.findall(pattern))
    bounded *= 2 ** len(_GROUP_REFERENCE.findall(pattern))
    if bounded > _MAX_REPETITIONS:
        return None
    repetitions = max(1, 2 * min_chars)
    if bounded * repetitions ** len(_OPEN.findall(pattern)) > _MAX_REPETITIONS:
        repetitions = 1
    texts = (text for text in _render(pattern, repetitions) if min_chars <= len(text) <= max_chars)
    return min(texts, key=_rank_oddness, default=None)


def _render(pattern: str, repetitions: int) -> Iterator[str]:
    # The last four are what the library raises for patterns that it reads only in part.
    with suppress(StringGenError, IndexError, KeyError, RecursionError, OverflowError):
        for seed in _SEEDS:
            yield StringGen(pattern, seed, max_repeat=repetitions).render()


def _rank_oddness(text: str) -> tuple[bool, int, int, str]:
    """Return a sort key that prefers printable texts, then those with few signs, then short ones."""
    return not text.isprintable(), sum(not char.isalnum() for char in text), len(text), text
