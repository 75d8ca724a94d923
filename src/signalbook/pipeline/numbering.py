"""Small numbers that stand for values, many at once: without sorting, as long as they are small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from signalbook.pipeline.sources.base import Offsets

# Sorting takes time in proportion for numbers of 16 bits.
_SHORT: Final = 1 << 16


def dense(numbers: Offsets, bound: int) -> tuple[Offsets, int]:
    """Numbers below ``bound`` by those from 0 on, in the same order, and how many there are of them."""
    if bound > max(_SHORT, 4 * len(numbers)):
        found, places = np.unique(numbers, return_inverse=True)
        return places, len(found)
    there = np.zeros(bound, np.bool_)
    there[numbers] = True
    places = np.cumsum(there)
    return (places - 1)[numbers], int(places[-1]) if bound else 0


def firsts(numbers: Offsets, count: int) -> Offsets:
    """Where each of the numbers below ``count`` occurs first; all of them have to."""
    found = np.empty(count, np.int64)
    found[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last to be written stays
    return found


def groups(numbers: Offsets, bound: int) -> Iterator[Offsets]:
    """The places of equal numbers below ``bound``, in order."""
    places, count = dense(numbers, bound)
    order = np.argsort(places.astype(np.uint16) if count <= _SHORT else places, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(places, minlength=count))[:-1]) if count else ()
