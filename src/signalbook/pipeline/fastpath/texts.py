"""Whether bytes are text, and JSON that is not too deep: what decoders to typed objects do not look at everywhere."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from signalbook.values import JSONError, parse_json

_OPENING: Final = ord("{")
# What tells a brace from the bracket of the same side.
_CASE: Final = np.uint8(ord("{") ^ ord("["))


def too_deep(block: Any, starts: npt.NDArray[Any], ends: npt.NDArray[Any], depth: int) -> set[int]:
    """The indices of texts nested deeper than ``depth``, in a block of bytes. Most have too few brackets to be."""
    text = np.frombuffer(block, np.uint8)
    brackets = np.flatnonzero((text | _CASE) == _OPENING)
    counts = np.searchsorted(brackets, ends) - np.searchsorted(brackets, starts)
    many = np.flatnonzero(counts >= depth).tolist()
    return {index for index in many if not _is_shallow(bytes(block[int(starts[index]) : int(ends[index])]), depth)}


def is_text(raw: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_shallow(raw: bytes, depth: int) -> bool:
    try:
        parse_json(raw, max_depth=depth)
    except JSONError:
        return False
    return True
