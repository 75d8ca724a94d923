"""What stops a run: one error type, whose text says what, where and what to do."""

from __future__ import annotations

import errno
import re
from typing import Final

from signalbook.errors import SignalbookError

# How Spark 3.5 and 4 say it; a file that is gone, or of other columns, is none of these.
_DAMAGE: Final = re.compile(
    r"FAILED_READ_FILE\.NO_HINT|FAILED_READ_FILE\.CANNOT_READ_FILE_FOOTER|CANNOT_READ_FILE_FOOTER|Could not read footer"
    r"|is not a Parquet file|Encountered error while reading file"
)
_OTHER: Final = re.compile(
    r"FILE_NOT_EXIST|FileNotFoundException|COLUMN_DATA_TYPE_MISMATCH|AccessDenied|Permission denied"
)
_SPARK: Final = ("pyspark.", "py4j.")
_OWN_WORDS: Final = re.compile(r"PipelineError: (.+)")


class PipelineError(SignalbookError):
    """A run that cannot start or go on. Nothing of its batch is visible unless the text says otherwise."""


class Stopped(PipelineError):
    """A run that was asked to end while it waited: nothing failed."""


def build_disk_error(error: OSError, place: object) -> PipelineError:
    """Return the error for a place that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PipelineError(describe_full_disk(place))
    return PipelineError(f"cannot write to {place}: {error.strerror or error}")


def describe_full_disk(place: object) -> str:
    """Return the error text for a full disk."""
    return (
        f"no space left on device while writing to {place}; nothing of this batch was committed: "
        "make room and run again with the same batch id"
    )


def find_worker_error(text: str) -> str:
    """Return our worker's own error in Spark's text about a failed job; empty for other errors.

    The worker's traceback is in the middle of Java's exception text.
    """
    match = _OWN_WORDS.search(text)
    return match[1] if match else ""


def is_damage(error: BaseException) -> bool:
    """Return True if Spark failed at a damaged file."""
    text = f"{error} {error.__cause__ or ''}"
    return _DAMAGE.search(text) is not None and _OTHER.search(text) is None


def is_spark_error(error: BaseException) -> bool:
    """Return True if Spark, or the library by which Python talks to it, raised the error. Spark need not be there."""
    return any(base.__module__.startswith(_SPARK) for base in type(error).__mro__)
