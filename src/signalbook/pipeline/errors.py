"""What stops a run: one error type, whose text says what, where and what to do."""

from __future__ import annotations

import errno
import re
from typing import Final

from signalbook.errors import SignalbookError

_OWN_WORDS: Final = re.compile(r"PipelineError: (.+)")


class PipelineError(SignalbookError):
    """A run that cannot start or go on. Nothing of its batch is visible unless the text says otherwise."""


class Stopped(PipelineError):
    """A run that was asked to end while it waited: nothing failed."""


def disk_failure(error: OSError, place: object) -> PipelineError:
    """The error for a place that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PipelineError(full_disk(place))
    return PipelineError(f"cannot write to {place}: {error.strerror or error}")


def full_disk(place: object) -> str:
    """Return the error text for a full disk."""
    return (
        f"no space left on device while writing to {place}; nothing of this batch was committed: "
        "make room and run again with the same batch id"
    )


def own_words(text: str) -> str:
    """Return our worker's own error in Spark's text about a failed job; empty for other errors.

    The worker's traceback is in the middle of Java's exception text.
    """
    found = _OWN_WORDS.search(text)
    return found[1] if found else ""
