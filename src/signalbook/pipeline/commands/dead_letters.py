"""Read dead letters, select those of a replay or backtest, and restore their messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signalbook.messages import Message, of_record
from signalbook.pipeline import columns
from signalbook.pipeline.arrays import Offsets
from signalbook.pipeline.job.jobs import DeadLetterFilter
from signalbook.pipeline.places import Where
from signalbook.pipeline.sources.base import MessageBatch, MessageLocation, UnreadableMessage
from signalbook.pipeline.tables.staged_files import read_rows

Mask = npt.NDArray[np.bool_]


def match_rows(criteria: DeadLetterFilter, rows: pa.RecordBatch) -> Mask:
    """Return a mask of rows of ``columns.DEAD_LETTER``.

    The mask is True for rows that meet ``criteria``, contain a message, and whose message landed for no definition.
    """
    # bytes that are not a message cannot be replayed, and a message that landed for another definition would land twice
    mask = pc.and_(rows.column("message").is_valid(), rows.column("definition").is_null())
    if criteria.reasons:
        mask = pc.and_(mask, pc.is_in(rows.column("reason"), pa.array(criteria.reasons, pa.string())))
    if criteria.batches:
        mask = pc.and_(mask, pc.is_in(rows.column("batch"), pa.array(criteria.batches, pa.string())))
    if criteria.since is not None:
        late = pc.greater_equal(rows.column("sidelined_at"), pa.scalar(criteria.since, columns.TIMESTAMP))
        mask = pc.and_(mask, late.fill_null(False))
    selected: Mask = mask.to_numpy(zero_copy_only=False)
    return selected & _has_candidate(rows, criteria.definitions) if criteria.definitions else selected


def _has_candidate(rows: pa.RecordBatch, definitions: tuple[str, ...]) -> Mask:
    """Return a mask: True for rows that have one of ``definitions`` among their candidates."""
    candidates = rows.column("candidates")
    hits = pc.is_in(candidates.flatten(), pa.array(definitions, pa.string())).to_numpy(zero_copy_only=False)
    owners = pc.list_parent_indices(candidates).to_numpy()
    is_candidate: Mask = np.bincount(owners[hits], minlength=len(rows)).astype(np.bool_)
    return is_candidate


@dataclass(frozen=True, slots=True)
class DeadLetterLocation(MessageLocation):
    """The place where a message was read before it became the dead letter in row ``row`` of a file."""

    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBatch(MessageBatch):
    """Dead letters whose messages came from one source; ``numbers`` are the rows of ``records`` in their file."""

    records: pa.RecordBatch
    numbers: Offsets

    def location(self, index: int) -> DeadLetterLocation:
        """Return the place where the message was read first."""
        element = self.records.column("element")[index].as_py()
        return DeadLetterLocation(self.path, int(self.positions[index]), element, row=int(self.numbers[index]))


class DeadLetterSource:
    """The source that restores the messages of dead letters."""

    name = "dead-letters"
    cloudevents_json = False

    def message(self, batch: MessageBatch, index: int) -> Message:
        """Return the message at ``index`` of a ``DeadLetterBatch``.

        Raises ``UnreadableMessage`` if its metadata cannot be read.
        """
        assert isinstance(batch, DeadLetterBatch)
        body = batch.records.column("body")[index].as_py()
        try:
            return of_record(batch.records.column("message")[index].as_py(), batch.raw(index) if body is None else body)
        except ValueError as error:
            raise UnreadableMessage(str(error)) from None


def read_dead_letters(place: Where) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return batches of the rows of a file of dead letters, each with the number of its first row.

    The columns are those of ``columns.DEAD_LETTER``. Raises ``PipelineError`` if the file cannot be read.
    """
    return ((first, _complete_columns(rows)) for first, rows in read_rows(place, "the dead letters in"))


def _complete_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with all columns in order. A column that files of an older version lack is null."""
    names = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(len(batch), field.type)
        for field in columns.DEAD_LETTER
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.DEAD_LETTER)


def read_message_batches(first: int, rows: pa.RecordBatch, mask: Mask) -> Iterator[DeadLetterBatch]:
    """Yield the dead letters that ``mask`` selects, as batches of successive rows from one source.

    ``first`` is the number of the first of ``rows`` in its file.
    """
    numbers = np.flatnonzero(mask)
    if not len(numbers):
        return
    chosen = rows.take(pa.array(numbers))
    codes = chosen.column("source").dictionary_encode(null_encoding="encode").indices.to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        yield _build_batch(chosen.slice(start, end - start), numbers[start:end] + first)


def _build_batch(dead_letters: pa.RecordBatch, numbers: Offsets) -> DeadLetterBatch:
    originals = dead_letters.column("original").to_pylist()
    ends = np.cumsum([len(original) for original in originals], dtype=np.int64)
    return DeadLetterBatch(
        path=dead_letters.column("source")[0].as_py() or "",
        content=b"".join(originals),
        starts=np.concatenate([np.zeros(1, np.int64), ends[:-1]]),
        ends=ends,
        positions=dead_letters.column("position").fill_null(0).to_numpy(),
        records=dead_letters,
        numbers=numbers,
    )


def read_verdicts(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Return the values of the columns ``_VERDICT`` of each row, by which verdicts can be compared."""
    return list(zip(*(rows.column(name).to_pylist() for name in _VERDICT), strict=True))


_VERDICT: Final = ("reason", "violations", "candidates", "element", "original", "definition")
