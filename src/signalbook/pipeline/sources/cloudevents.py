"""Files of structured CloudEvents in JSON: one per line, or one JSON array per file (CloudEvents JSON format)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.messages import Message
from signalbook.messages.cloudevents import JSON_FORMAT
from signalbook.pipeline.sources import jsonarrays, lines
from signalbook.pipeline.sources.base import MessageBatch, Split, Unreadable


class CloudEventLines:
    """One structured CloudEvent in each line; blank lines are none."""

    name = "cloudevents-jsonl"
    divisible = True
    cloudevents_json = True

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The lines that begin in the split."""
        return lines.line_batches(split)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The line as a structured CloudEvent of a file."""
        return structured(batch, index)


class CloudEventBatch:
    """One JSON array of structured CloudEvents in each file; a file that is no array counts as one message."""

    name = "cloudevents-batch"
    divisible = False
    cloudevents_json = True

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """The elements of the file's array; a position is an index in it."""
        with lines.reading(split.path) as file:
            yield from jsonarrays.array_batches(split.path, file, split.limit)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """The element as a structured CloudEvent of a file. Raises ``Unreadable``."""
        return structured(batch, index)


JSONL: Final = CloudEventLines()
BATCH: Final = CloudEventBatch()


def structured(batch: MessageBatch, index: int, content_type: str = JSON_FORMAT) -> Message:
    """A message whose body is a structured CloudEvent. Raises ``Unreadable`` where the batch could not be read."""
    if batch.error:
        raise Unreadable(batch.error)
    return Message(protocol="", content_type=content_type, body=batch.raw(index))
