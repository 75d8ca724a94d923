"""Dead letters are selected by row, and their messages are read as they were sent."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.processing.test_deadletters import NOW

from signalbook.pipeline import columns
from signalbook.pipeline.commands.dead_letters import match_rows, read_dead_letters, read_message_batches
from signalbook.pipeline.job.jobs import DeadLetterFilter


def letters(*letters: dict[str, Any]) -> pa.RecordBatch:
    defaults = {"original": b"", "message": "{}", "candidates": [], "sidelined_at": NOW}
    return pa.RecordBatch.from_pylist([{**defaults, **letter} for letter in letters], columns.DEAD_LETTER)


@pytest.mark.parametrize(
    ("letter_filter", "expected"),
    [
        (DeadLetterFilter(), [True, True, True, False]),
        (DeadLetterFilter(reasons=("no_match", "ambiguous")), [True, False, True, False]),
        (DeadLetterFilter(definitions=("/d", "/e")), [False, True, True, False]),
        (DeadLetterFilter(batches=("b2",)), [False, True, False, False]),
        (DeadLetterFilter(since=NOW), [True, True, False, False]),
        (DeadLetterFilter(reasons=("ambiguous",), definitions=("/e",), batches=("b1",)), [False, False, True, False]),
    ],
)
def test_letters_are_chosen(letter_filter: DeadLetterFilter, expected: list[bool]) -> None:
    rows = letters(
        {"reason": "no_match", "batch": "b1"},
        {"reason": "schema_violation", "batch": "b2", "candidates": ["/d", "/e", "/d"]},
        {"reason": "ambiguous", "batch": "b1", "candidates": ["/x", "/e"], "sidelined_at": NOW - timedelta(days=1)},
        {"reason": "no_match", "batch": "b1", "message": None},
    )
    assert match_rows(letter_filter, rows).tolist() == expected
    assert match_rows(letter_filter, rows.slice(1, 2)).tolist() == expected[1:3]
    assert match_rows(letter_filter, rows.slice(0, 0)).tolist() == []


def test_letters_of_an_older_version_have_no_message(tmp_path: Path) -> None:
    old = letters({"reason": "no_match", "source": "f"}).select(["reason", "original", "source", "sidelined_at"])
    pq.write_table(pa.Table.from_batches([old]), tmp_path / "f.parquet")
    ((first, rows),) = read_dead_letters(str(tmp_path / "f.parquet"))
    assert (first, rows.schema, rows.column("reason").to_pylist()) == (0, columns.DEAD_LETTER, ["no_match"])
    assert not match_rows(DeadLetterFilter(), rows).any()


def test_frames_have_one_source_each() -> None:
    rows = letters(*({"source": name, "position": n, "original": b"x" * n} for n, name in enumerate("aabca")))
    frames = list(read_message_batches(10, rows, np.array([True, True, True, False, True])))
    assert [(frame.path, frame.numbers.tolist()) for frame in frames] == [("a", [10, 11]), ("b", [12]), ("a", [14])]
    assert (frames[0].raw(1), frames[2].raw(0), frames[2].location(0).position) == (b"x", b"xxxx", 4)
