"""What Spark's checkpoint of a stream says: written by Spark before each micro-batch, one file for each.

The journal has the same offsets for what was landed, and decides: from it a checkpoint is made that is not there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from uuid import uuid4

from signalbook.pipeline.commit.journal import BATCHES, Journal
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import StreamJob
from signalbook.pipeline.tables.naming import escape
from signalbook.values import fingerprint

_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_METADATA: Final = "metadata"
_HEAD: Final = 2  # the format's version, and the settings of the batch
# The two lines of a file of offsets, and a file of commits, of a query that keeps no state.
_PLANNED: Final = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'
_LANDED: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def origin(checkpoint: Path, number: int) -> str:
    """Tells the input of a micro-batch from any other: where it begins and ends in its sources.

    Raises ``PipelineError`` if the checkpoint does not say.
    """
    return fingerprint([offsets(checkpoint, number - 1) if number else "", offsets(checkpoint, number)])


def offsets(checkpoint: Path, number: int) -> str:
    """Where a micro-batch ends in its sources. Raises ``PipelineError`` if the checkpoint does not say."""
    path = checkpoint / _OFFSETS / str(number)
    try:
        return "\n".join(path.read_text().splitlines()[_HEAD:])
    except OSError as error:
        raise PipelineError(
            f"cannot read the checkpoint of the stream, {path}: {error.strerror}; "
            "the output has to be a folder that driver and workers share"
        ) from error


def resume(checkpoint: Path, journal: Journal, job: StreamJob) -> str:
    """Have a checkpoint that is gone, or older than the journal, go on behind what was landed.

    The id of the batch it goes on behind, empty for a checkpoint that knows. Raises ``PipelineError`` for one that
    knows of other batches than the journal.
    """
    last = _landed(journal, job.name)
    planned, committed = _newest(checkpoint / _OFFSETS), _newest(checkpoint / _COMMITS)
    ends = [_ends(journal, job, number) for number in range(max(last - 1, 0), last + 1)]
    if planned < last and all(ends):
        _write(checkpoint, last, ends)
        return job.batch_id(last)
    if committed > last or (ends and ends[-1] and planned >= last and offsets(checkpoint, last) != ends[-1]):
        landed = job.batch_id(last) if ends else "the beginning"
        raise PipelineError(
            f"the checkpoint of the stream {job.name} is not the one that its batches were landed by, of which the "
            f"last is {landed}: remove {checkpoint}, and the stream goes on behind that"
        )
    return ""


def _landed(journal: Journal, name: str) -> int:
    """The number of the last micro-batch that the journal has, -1 without."""
    batch = re.compile(rf"{re.escape(escape(name))}-(\d+)\.json")
    with os.scandir(journal.output / BATCHES) as entries:
        return max((int(found[1]) for entry in entries if (found := batch.fullmatch(entry.name))), default=-1)


def _ends(journal: Journal, job: StreamJob, number: int) -> str:
    """Where a micro-batch of the journal ends; empty if it does not say."""
    batch = journal.find(job.batch_id(number))
    return batch.offsets if batch is not None and batch.stream == job.name else ""


def _newest(folder: Path) -> int:
    """The greatest number of a file there, -1 without."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


def _write(checkpoint: Path, last: int, ends: list[str]) -> None:
    """A checkpoint as after the batch ``last``; it has the one before, too. Sound whenever this dies."""
    if not (checkpoint / _METADATA).exists():
        _replace(checkpoint / _METADATA, f'{{"id":"{uuid4()}"}}')
    for number, end in enumerate(ends, last - len(ends) + 1):
        _replace(checkpoint / _OFFSETS / str(number), _PLANNED + end)
    _replace(checkpoint / _COMMITS / str(last), _LANDED)


def _replace(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)  # Spark's sum of what was there before
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(content)
    fresh.replace(path)
