"""A source for files of plain JSON: messages without an envelope, whose definitions are found by their content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from signalbook.messages import Message
from signalbook.pipeline.sources.base import BLANK, MessageBatch, Split, UnreadableMessage
from signalbook.pipeline.sources.files import JSON_ENDINGS, read_array_batches, read_line_batches
from signalbook.pipeline.sources.input_file import open_input, read_text_head

# Enough bytes to see how a file begins, even if it begins with many blanks.
_HEAD_BYTES: Final = 4096


class PlainJson:
    """A source of files with JSON values in lines, in one array, or as one document. Blank lines are skipped.

    The first line of a file that is not blank decides. If it begins with ``[``, the file is an array. If it is ``{``
    alone, the file is a document of several lines. Any other file is read line by line.
    """

    name = "json"
    divisible = True
    endings: tuple[str, ...] = JSON_ENDINGS
    cloudevents_json = False

    def read(self, split: Split) -> Iterator[MessageBatch]:
        """Yield the messages that begin in ``split``. The first split of a file has all of an array or document."""
        if _has_lines(split):
            yield from read_line_batches(split)
        elif split.start == 0:
            with open_input(split) as file:
                yield from read_array_batches(split.path, file, split.limit)

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the value at ``index`` as a message without a protocol. Raises ``UnreadableMessage`` for damage."""
        if batch.error:
            raise UnreadableMessage(batch.error)
        return Message(content_type="application/json", body=batch.raw(index))


def _has_lines(split: Split) -> bool:
    """Return True unless the file begins as an array or as a document of several lines."""
    with open_input(split) as file:
        head = read_text_head(split.path, file, _HEAD_BYTES)
    first_line = head.partition(b"\n")[0].rstrip(BLANK)
    return not first_line.startswith(b"[") and first_line != b"{"


PLAIN_JSON: Final = PlainJson()
