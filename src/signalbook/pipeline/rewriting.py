"""One task of a replay: files of dead letters in, rows of tables and what remains of those files out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from signalbook.pipeline.job.jobs import Wanted
from signalbook.pipeline.landing.deadletters import LetterPlace, LetterSource, Mask, choose, frames, portions, verdicts
from signalbook.pipeline.landing.processing import Processing
from signalbook.pipeline.landing.rows import DeadLetter, DeadLetters
from signalbook.pipeline.landing.staging import Landing
from signalbook.pipeline.tables.naming import DEAD_LETTERS
from signalbook.pipeline.work import Manifest, Task, row

WANTED: Final = "wanted.json"
# What a letter keeps though its verdict changes: since when it is here.
_KEPT: Final = ("batch", "sidelined_at")


def rewrite(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function for ``mapInArrow`` over dead letters: task numbers in, one manifest as JSON out for each."""
    task = Task.of(folder)
    wanted = msgspec.json.decode((Path(folder) / WANTED).read_bytes(), type=Wanted)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield row(partial(_replay, task, wanted, number))


def _replay(task: Task, wanted: Wanted, number: int) -> Manifest:
    with task.landing(number) as landing:
        rejected: list[DeadLetter] = []
        processing = Processing(task.contract(), LetterSource(), landing, task.mark, rejected.append)
        work = _Rewriting(task, wanted, processing, landing, rejected)
        odometer = task.odometer(number, processing.tally)
        replaced = []
        for split in task.plan.tasks[number]:
            replaced += [split.path] if work.file(split.path) else []
            odometer.advance(split.size)
        return Manifest(
            files=landing.finish(),
            tally=processing.tally,
            replaced=tuple(replaced),
            replayed=work.replayed,
            changed=work.changed,
        )


class _Rewriting:
    """Runs the letters of files again; ``rejected`` is where ``processing`` puts those that are letters still."""

    def __init__(
        self, task: Task, wanted: Wanted, processing: Processing, landing: Landing, rejected: list[DeadLetter]
    ) -> None:
        self.replayed = 0
        self.changed = 0
        self._wanted = wanted
        self._processing = processing
        self._landing = landing
        self._rejected = rejected
        self._letters = DeadLetters(task.mark)

    def file(self, path: str) -> bool:
        """Run the letters of a file again, and tell whether it is to go, as what remains of it was landed anew.

        Letters whose verdict is another stay with the new one, all others as they are.
        """
        gone = [self._judged(first, rows) for first, rows in portions(path)]
        if not any(mask.any() for mask in gone):
            return False
        for (_, rows), mask in zip(portions(path), gone, strict=True):
            self._land(rows.filter(pa.array(~mask)))
        return True

    def _judged(self, first: int, rows: pa.RecordBatch) -> Mask:
        """Run the letters of a portion again; which of its rows are not to stay as they are."""
        gone = choose(self._wanted, rows)
        self.replayed += int(np.count_nonzero(gone))
        for frame in frames(first, rows, gone):
            self._processing.take(frame)
        self._processing.clear()
        if self._rejected:
            gone[self._unchanged(first, rows)] = False
        return gone

    def _unchanged(self, first: int, rows: pa.RecordBatch) -> Sequence[int]:
        """The rows whose letters say what they said before; new ones are landed for the others."""
        owners = [letter.place.row - first for letter in self._rejected if isinstance(letter.place, LetterPlace)]
        # What cannot be read as the message it was keeps what it has of it.
        unread = [letter.message is None for letter in self._rejected]
        for letter in self._rejected:
            self._letters.add(letter)
        self._rejected.clear()
        old, new = rows.take(pa.array(owners, pa.int64())), self._letters.take()
        judged = zip(unread, verdicts(old), verdicts(new), strict=True)
        same = np.array([cannot or before == now for cannot, before, now in judged], np.bool_)
        self.changed += int(np.count_nonzero(~same))
        self._land(_dated(new, old).filter(pa.array(~same)))
        return [owner for owner, stays in zip(owners, same.tolist(), strict=True) if stays]

    def _land(self, rows: pa.RecordBatch) -> None:
        if len(rows):
            self._landing.add(DEAD_LETTERS, rows)


def _dated(new: pa.RecordBatch, old: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [old.column(name) if name in _KEPT else new.column(name) for name in new.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=new.schema)
