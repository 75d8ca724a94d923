"""Dead letters on their way back: which are wanted, what messages they were, and what remains of their file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signalbook.messages import Message, of_record, to_record
from signalbook.pipeline import columns
from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.jobs import DeadLetterFilter
from signalbook.pipeline.landing.rows import Bookkeeping, address, violation_row
from signalbook.pipeline.sources.base import LIGHTEST, MessageBatch, MessageLocation, Offsets, UnreadableMessage
from signalbook.values import Finding

Mask = npt.NDArray[np.bool_]
# Letters are judged in portions: of so many rows, and of one row group, which Landing bounds in bytes.
_ROWS: Final = 1024


def matching_rows(wanted: DeadLetterFilter, rows: pa.RecordBatch) -> Mask:
    """Which rows of ``columns.DEAD_LETTER`` are wanted, and are messages that have landed nowhere."""
    mask = pc.and_(rows.column("message").is_valid(), rows.column("definition").is_null())
    if wanted.reasons:
        mask = pc.and_(mask, pc.is_in(rows.column("reason"), pa.array(wanted.reasons, pa.string())))
    if wanted.batches:
        mask = pc.and_(mask, pc.is_in(rows.column("batch"), pa.array(wanted.batches, pa.string())))
    if wanted.since is not None:
        late = pc.greater_equal(rows.column("sidelined_at"), pa.scalar(wanted.since, columns.TIMESTAMP))
        mask = pc.and_(mask, late.fill_null(False))
    found: Mask = mask.to_numpy(zero_copy_only=False)
    return found & _meant(rows, wanted.definitions) if wanted.definitions else found


def _meant(rows: pa.RecordBatch, definitions: tuple[str, ...]) -> Mask:
    """Which rows have one of the definitions among their candidates."""
    candidates = rows.column("candidates")
    hits = pc.is_in(candidates.flatten(), pa.array(definitions, pa.string())).to_numpy(zero_copy_only=False)
    owners = pc.list_parent_indices(candidates).to_numpy()
    found: Mask = np.bincount(owners[hits], minlength=len(rows)).astype(np.bool_)
    return found


@dataclass(frozen=True, slots=True)
class DeadLetterLocation(MessageLocation):
    """Where a message was read before it became the dead letter in row ``row`` of a file."""

    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterBatch(MessageBatch):
    """Dead letters whose messages came from one source; ``numbers`` are the rows of ``records`` in their file."""

    records: pa.RecordBatch
    numbers: Offsets

    def location(self, index: int) -> DeadLetterLocation:
        """The place it had when it was read first."""
        element = self.records.column("element")[index].as_py()
        return DeadLetterLocation(self.path, int(self.positions[index]), element, row=int(self.numbers[index]))


class DeadLetterSource:
    """Turns dead letters into the messages they were."""

    name = "dead-letters"
    cloudevents_json = False

    def message(self, frame: MessageBatch, index: int) -> Message:
        """The message of a ``DeadLetterBatch``. Raises ``Unreadable`` for a record that somebody else wrote."""
        assert isinstance(frame, DeadLetterBatch)
        body = frame.records.column("body")[index].as_py()
        try:
            return of_record(frame.records.column("message")[index].as_py(), frame.raw(index) if body is None else body)
        except ValueError as error:
            raise UnreadableMessage(str(error)) from None


def read_dead_letters(path: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a file of dead letters with the number of the first, as ``columns.DEAD_LETTER`` has them.

    Raises ``PipelineError`` for a file that is none.
    """
    first = 0
    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(_ROWS, row_groups=[group]):
                    yield first, _conformed(batch)
                    first += len(batch)
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"cannot read the dead letters in {path}: {error}") from error


def _conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same with all columns in order, null where files of an older version lack one."""
    names = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(len(batch), field.type)
        for field in columns.DEAD_LETTER
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.DEAD_LETTER)


def message_batches(first: int, rows: pa.RecordBatch, mask: Mask) -> Iterator[DeadLetterBatch]:
    """The letters of a portion that ``mask`` has, neighbours of one source together."""
    numbers = np.flatnonzero(mask)
    if not len(numbers):
        return
    chosen = rows.take(pa.array(numbers))
    codes = chosen.column("source").dictionary_encode(null_encoding="encode").indices.to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(edges):
        yield _frame(chosen.slice(start, end - start), numbers[start:end] + first)


def _frame(letters: pa.RecordBatch, numbers: Offsets) -> DeadLetterBatch:
    originals = letters.column("original").to_pylist()
    ends = np.cumsum([len(original) for original in originals], dtype=np.int64)
    return DeadLetterBatch(
        path=letters.column("source")[0].as_py() or "",
        content=b"".join(originals),
        starts=np.concatenate([np.zeros(1, np.int64), ends[:-1]]),
        ends=ends,
        positions=letters.column("position").fill_null(0).to_numpy(),
        records=letters,
        numbers=numbers,
    )


def verdicts(rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """What each row says of its message: reason, violations, candidates, and which event of a batch it is."""
    return list(zip(*(rows.column(name).to_pylist() for name in _VERDICT), strict=True))


_VERDICT: Final = ("reason", "violations", "candidates", "element", "original", "definition")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """One message to be sidelined, with everything known of it.

    ``message`` is None for bytes that are none, ``definition`` that for which it did not land, where it did for others.
    """

    reason: str
    violations: Sequence[Finding]
    original: bytes
    place: MessageLocation
    candidates: Sequence[str] = ()
    message: Message | None = None
    definition: str | None = None


@dataclass(slots=True)
class DeadLetterRows:
    """Dead letters on their way to their table."""

    mark: Bookkeeping
    bytes: int = 0
    _letters: list[DeadLetter] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: DeadLetter) -> None:
        """Take one."""
        self._letters.append(letter)
        self.bytes += max(len(letter.original), LIGHTEST)

    def take(self) -> pa.RecordBatch:
        """All of them as rows of ``columns.DEAD_LETTER``; none remain."""
        letters, self._letters, self.bytes = self._letters, [], 0
        kinds = columns.DEAD_LETTER.types
        arrays = [pa.array(list(values), kind) for values, kind in zip(self._columns(letters), kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=columns.DEAD_LETTER)

    def _columns(self, letters: Sequence[DeadLetter]) -> Iterable[Iterable[Any]]:
        messages = [letter.message for letter in letters]
        yield (letter.reason for letter in letters)
        yield ([violation_row(finding) for finding in letter.violations] for letter in letters)
        yield (letter.candidates for letter in letters)
        yield (letter.original for letter in letters)
        yield (_body(letter) for letter in letters)
        yield (to_record(message) if message else None for message in messages)
        yield (message.protocol or None if message else None for message in messages)
        yield (message.content_type or None if message else None for message in messages)
        yield (address(message) if message else None for message in messages)
        yield (letter.place.path for letter in letters)
        yield (letter.place.position for letter in letters)
        yield (letter.place.element for letter in letters)
        yield (message.received_at if message else None for message in messages)
        yield (letter.definition for letter in letters)
        yield (self.mark.fingerprint for _ in letters)
        yield (self.mark.batch for _ in letters)
        yield (self.mark.landed_at for _ in letters)


def _body(letter: DeadLetter) -> bytes | None:
    body = None if letter.message is None else letter.message.body
    return None if body == letter.original else body
