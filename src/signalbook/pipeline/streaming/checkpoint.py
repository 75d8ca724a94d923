"""What Spark's checkpoint of a stream says: written by Spark before each micro-batch, one file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from signalbook.pipeline.failures import PipelineError
from signalbook.values import fingerprint

_HEAD: Final = 2  # the format's version, and the settings of the batch


def origin(checkpoint: Path, number: int) -> str:
    """Tells the input of a micro-batch from any other: where it begins and ends in its sources.

    Raises ``PipelineError`` if the checkpoint does not say.
    """
    return fingerprint([_offsets(checkpoint, number - 1) if number else "", _offsets(checkpoint, number)])


def _offsets(checkpoint: Path, number: int) -> str:
    path = checkpoint / "offsets" / str(number)
    try:
        return "\n".join(path.read_text().splitlines()[_HEAD:])
    except OSError as error:
        raise PipelineError(
            f"cannot read the checkpoint of the stream, {path}: {error.strerror}; "
            "the output has to be a folder that driver and workers share"
        ) from error
