"""The errors that stop a run. Their text says what is wrong, where, and what to do."""

from __future__ import annotations

import errno
import re
from typing import Final

from signalbook.errors import SignalbookError

# Error texts of Spark 3.5 and 4 for a damaged file. ``_OTHER`` are texts for a missing file, a file with other columns
# and a file that may not be read: these files are not damaged.
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
    """The error of a run that cannot start or continue. Nothing of its batch is in tables unless the text says so."""


class Stopped(PipelineError):
    """The error of a run that was stopped while it waited. Nothing failed."""


def build_disk_error(error: OSError, place: object) -> PipelineError:
    """Return the error to raise because writing to ``place`` failed with ``error``."""
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
    """Return the message of a ``PipelineError`` that a worker raised, from Spark's ``text`` about a failed job.

    Return an empty string for other errors. The worker's traceback is in the middle of Java's exception text.
    """
    match = _OWN_WORDS.search(text)
    return match[1] if match else ""


def is_damage(error: BaseException) -> bool:
    """Return True if ``error`` says that Spark could not read a damaged file."""
    text = f"{error} {error.__cause__ or ''}"
    return _DAMAGE.search(text) is not None and _OTHER.search(text) is None


def is_spark_error(error: BaseException) -> bool:
    """Return True if PySpark or Py4J raised ``error``. Neither needs to be installed."""
    return any(base.__module__.startswith(_SPARK) for base in type(error).__mro__)
