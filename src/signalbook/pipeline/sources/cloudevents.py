"""Files of structured CloudEvents in JSON: one per line, or one JSON array per file (CloudEvents JSON format)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from signalbook.messages import Message
from signalbook.pipeline.failures import PipelineError
from signalbook.pipeline.sources import lines
from signalbook.pipeline.sources.base import Frame, Split

# A JSON array is decoded whole.
MAX_BATCH_FILE: Final = 256 * 1024 * 1024
_ELEMENTS: Final = 10_000
_CONTENT_TYPE: Final = "application/cloudevents+json"
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


class CloudEventLines:
    """One structured CloudEvent in each line; blank lines are none."""

    name = "cloudevents-jsonl"
    divisible = True
    cloudevents_json = True

    def frames(self, split: Split) -> Iterator[Frame]:
        """The lines that begin in the split."""
        return lines.frames(split)

    def message(self, frame: Frame, index: int) -> Message:
        """The line as a structured CloudEvent of a file."""
        return structured(frame, index)


class CloudEventBatch:
    """One JSON array of structured CloudEvents in each file; a file that is no array counts as one message."""

    name = "cloudevents-batch"
    divisible = False
    cloudevents_json = True

    def frames(self, split: Split) -> Iterator[Frame]:
        """The elements of the file's array; a position is an index in it."""
        content = _content(split.path)
        try:
            elements = [bytes(element) for element in _array.decode(content)]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield _whole(split.path, content)
            return
        for first in range(0, len(elements), _ELEMENTS):
            yield _joined(split.path, elements[first : first + _ELEMENTS], first)

    def message(self, frame: Frame, index: int) -> Message:
        """The element as a structured CloudEvent of a file."""
        return structured(frame, index)


JSONL: Final = CloudEventLines()
BATCH: Final = CloudEventBatch()


def structured(frame: Frame, index: int) -> Message:
    """A message whose body is a structured CloudEvent in JSON."""
    return Message(protocol="", content_type=_CONTENT_TYPE, body=frame.raw(index))


def _content(path: str) -> bytes:
    try:
        with lines.open_file(path) as file:
            content = file.read(MAX_BATCH_FILE + 1)
    except (OSError, EOFError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error
    if len(content) > MAX_BATCH_FILE:
        raise PipelineError(
            f"{path} is larger than {MAX_BATCH_FILE} bytes, and a JSON array is decoded whole: "
            "write one event a line and read it as cloudevents-jsonl"
        )
    return content


def _whole(path: str, content: bytes) -> Frame:
    zero = np.zeros(1, np.int64)
    return Frame(path=path, block=content, starts=zero, ends=zero + len(content), positions=zero)


def _joined(path: str, elements: list[bytes], first: int) -> Frame:
    lengths = np.array([len(element) for element in elements], np.int64)
    ends = np.cumsum(lengths + 1) - 1
    positions = np.arange(first, first + len(elements), dtype=np.int64)
    return Frame(path=path, block=b"\n".join(elements), starts=ends - lengths, ends=ends, positions=positions)
