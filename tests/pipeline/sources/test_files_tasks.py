"""Input is found, cut and dealt out evenly."""

from __future__ import annotations

from pathlib import Path

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.files import BATCH, JSONL, LARGEST_TASK, find_files, plan_tasks

MB = 1024 * 1024


def sizes(tasks: tuple[tuple[object, ...], ...]) -> list[int]:
    return [sum(split.size for split in task) for task in tasks]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("files", "parallelism", "expected"),
    [
        ([("a", 100 * MB)], 2, [50 * MB, 50 * MB]),
        ([("a", 10 * MB)], 4, [10 * MB]),
        ([("a", 100 * MB), ("b", 4 * MB), ("c", 4 * MB)], 2, [50 * MB, 58 * MB]),
        ([("a.gz", 100 * MB), ("b", 20 * MB)], 2, [100 * MB, 20 * MB]),
        ([("a", 0), ("b", 0)], 2, []),
        ([("a", 4 * LARGEST_TASK)], 2, [LARGEST_TASK] * 4),
    ],
)
def test_tasks_are_even(files: list[tuple[str, int]], parallelism: int, expected: list[int]) -> None:
    assert sizes(plan_tasks(JSONL, files, parallelism)) == expected


def test_arrays_are_not_cut() -> None:
    assert sizes(plan_tasks(BATCH, [("a", 100 * MB)], 4)) == [100 * MB]


def test_many_small_files_share_a_task() -> None:
    tasks = plan_tasks(JSONL, [(f"f{n:04d}", MB) for n in range(200)], 2)
    assert max(sizes(tasks)) <= 111 * MB
    assert sum(sizes(tasks)) == 200 * MB


@pytest.mark.parametrize("text", ["{0}", "{0}/*.jsonl", "file://{0}", "{0}/**/a.jsonl"])
def test_inputs_are_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.jsonl", "sub/a.jsonl", ".hidden", "_marker"):
        (tmp_path / name).write_text("x\n")
    found = find_files([text.format(tmp_path)])
    assert (str(tmp_path / "a.jsonl"), 2) in found
    assert {Path(path).name for path, _ in found} == {"a.jsonl"}


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert len(find_files([str(tmp_path), str(tmp_path / "a")])) == 1


@pytest.mark.parametrize("text", ["/nowhere", "/nowhere/*.jsonl"])
def test_input_that_is_not_there(text: str) -> None:
    with pytest.raises(PipelineError, match="is not there"):
        find_files([text])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds no files"):
        find_files([str(tmp_path)])
