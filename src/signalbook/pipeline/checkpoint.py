"""Spark's checkpoint of a stream: read the offsets of micro-batches, and rebuild a checkpoint that is lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from uuid import uuid4

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import StreamJob
from signalbook.pipeline.journal import Journal
from signalbook.pipeline.table_names import escape
from signalbook.values import fingerprint

# Names and contents of Spark's checkpoint.
OFFSETS: Final = "offsets"
COMMITS: Final = "commits"
_METADATA: Final = "metadata"
SOURCES: Final = "sources"
_HEAD: Final = 2  # the format's version, and the settings of the batch
# The two lines of a file of offsets, and a file of commits, of a query that keeps no state.
_PLANNED: Final = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'
_LANDED: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def build_input_fingerprint(checkpoint: Path, number: int) -> str:
    """Return a fingerprint of the input of micro-batch ``number``: its begin and end offsets in the sources.

    Raises ``PipelineError`` if the checkpoint lacks these offsets.
    """
    begin = read_end_offsets(checkpoint, number - 1) if number else ""
    return fingerprint([begin, read_end_offsets(checkpoint, number)])


def read_end_offsets(checkpoint: Path, number: int) -> str:
    """Return the end offsets of micro-batch ``number`` in its sources, as the checkpoint has them.

    Raises ``PipelineError`` if the checkpoint lacks them.
    """
    path = checkpoint / OFFSETS / str(number)
    try:
        return "\n".join(path.read_text().splitlines()[_HEAD:])
    except OSError as error:
        raise PipelineError(
            f"cannot read the checkpoint of the stream, {path}: {error.strerror}; "
            "the output has to be a folder that driver and workers share"
        ) from error


def restore_checkpoint(checkpoint: Path, journal: Journal, job: StreamJob) -> str:
    """Rebuild a checkpoint that is missing or older than the journal, so that a stream continues after landed batches.

    Return the id of the last landed batch, or an empty string if the checkpoint was valid and stays unchanged. Raises
    ``PipelineError`` for a checkpoint with batches, or offsets, that differ from those of the journal.
    """
    last = _find_last_landed(journal, job.name)
    planned, committed = _find_newest(checkpoint / OFFSETS), _find_newest(checkpoint / COMMITS)
    if planned < 0:
        # Remove the temporary files of a killed Java process: Spark does not start a query next to them.
        for leftover in (checkpoint / OFFSETS).glob(".*"):
            leftover.unlink()
    ends = [_read_end(journal, job, number) for number in range(max(last - 1, 0), last + 1)]
    # Spark plans a batch before it lands, so a valid checkpoint has planned at least the batches of the journal.
    if planned < last and all(ends):
        _write_checkpoint(checkpoint, last, ends)
        return job.batch_id(last)
    # Another program landed batches, or with other offsets: going on would skip messages or land some twice.
    if committed > last or (ends and ends[-1] and planned >= last and read_end_offsets(checkpoint, last) != ends[-1]):
        landed = f"the last one is {job.batch_id(last)}" if ends else "there are none"
        raise PipelineError(
            f"the checkpoint of the stream {job.name} does not fit its landed batches ({landed}): remove {checkpoint}, "
            "and the stream goes on after them"
        )
    return ""


def _find_last_landed(journal: Journal, name: str) -> int:
    """Return the number of the last micro-batch in the journal, -1 without one."""
    batch = re.compile(rf"{re.escape(escape(name))}-(\d+)")
    return max((int(match[1]) for entry in journal.list_names() if (match := batch.fullmatch(entry))), default=-1)


def _read_end(journal: Journal, job: StreamJob, number: int) -> str:
    """Return the end offsets of micro-batch ``number`` from the journal, or an empty string if the journal lacks it."""
    batch = journal.find(job.batch_id(number))
    return batch.offsets if batch is not None and batch.stream == job.name else ""


def _find_newest(folder: Path) -> int:
    """Return the greatest number of a file in a folder, -1 without one."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


def _write_checkpoint(checkpoint: Path, last: int, ends: list[str]) -> None:
    """Write the checkpoint that Spark has after the batch ``last``. ``ends`` are the end offsets of the last batches.

    The batch before ``last`` is included, because its end is where ``last`` began. If this process dies before the last
    file is written, Spark repeats the batch ``last``, which the journal recognises.
    """
    if not (checkpoint / _METADATA).exists():
        _replace(checkpoint / _METADATA, f'{{"id":"{uuid4()}"}}')
    for number, end in enumerate(ends, last - len(ends) + 1):
        _replace(checkpoint / OFFSETS / str(number), _PLANNED + end)
    # This file comes last. Without it Spark repeats the batch. With it but without the offsets, Spark would not start.
    _replace(checkpoint / COMMITS / str(last), _LANDED)


def _replace(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)  # Spark's sum of what was there before
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(content)
    fresh.replace(path)
