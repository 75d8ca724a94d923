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
"""The limit for the product of all repetition bounds in a pattern (they may be nested), with 2 for
each back-reference.
"""
MAX_CHARS: Final = 500
"""The length of the longest example, in characters."""
_SEEDS: Final = range(5)
_BOUND: Final = re.compile(r"(\d{1,9})\}")
_OPEN: Final = re.compile(r"[*+]|,\}")
_GROUP_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=")
# Escapes may name ranges of a million characters. Python warns about the other sequences, which may become set
# operations.
_UNUSABLE: Final = re.compile(r"\\[uUN]|\d{10}|\[\[|--|&&|~~|\|\|")


@lru_cache(maxsize=1_000)
def make_example(pattern: str, min_chars: int = 0, max_chars: int = MAX_CHARS) -> str | None:
    """Return a text that probably matches ``pattern``, or None if no short text can be made quickly.

    The result is the same in each run. The pattern is read by Python's rules and look-around is ignored, so callers
    have to check that the text matches.
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
    # The library raises the last four for patterns that it cannot fully parse.
    with suppress(StringGenError, IndexError, KeyError, RecursionError, OverflowError):
        for seed in _SEEDS:
            yield StringGen(pattern, seed, max_repeat=repetitions).render()


def _rank_oddness(text: str) -> tuple[bool, int, int, str]:
    """Return a sort key that prefers printable texts, then texts with few special characters, then short texts."""
    return not text.isprintable(), sum(not char.isalnum() for char in text), len(text), text
