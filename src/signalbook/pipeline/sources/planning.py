"""Which files there are, and how they are dealt out to tasks."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.sources.base import FileSource, Split
from signalbook.pipeline.sources.lines import is_packed

# Each task writes a file per table, so fewer tasks mean fewer and larger files; below the least it is not worth one.
LEAST_TASK: Final = 16 * 1024 * 1024
LARGEST_TASK: Final = 1024 * 1024 * 1024
_HIDDEN: Final = (".", "_")


def find_files(inputs: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Every file that ``inputs`` (files, folders, globs) name, with its size in bytes, in a stable order.

    Folders are searched to the bottom, without hidden files. Raises ``PipelineError`` for one that names nothing.
    """
    found = {str(file): file.stat().st_size for text in inputs for file in _expand(text)}
    return tuple(sorted(found.items()))


def plan(source: FileSource, files: Sequence[tuple[str, int]], parallelism: int) -> tuple[tuple[Split, ...], ...]:
    """The splits of each task: about ``parallelism`` tasks of equal size, more only where they would be too large."""
    total = sum(size for _, size in files)
    target = min(max(-(-total // max(parallelism, 1)), LEAST_TASK), LARGEST_TASK)
    splits = [split for path, size in files for split in _cut(source, path, size, target)]
    return _deal(splits, target)


def _expand(text: str) -> list[Path]:
    path = Path(text.removeprefix("file://"))
    if path.is_file():
        return [path.absolute()]
    if path.is_dir():
        files = [file.absolute() for file in path.rglob("*") if file.is_file() and not _hidden(file.relative_to(path))]
        if not files:
            raise PipelineError(f"the input folder {text} holds no files")
        return files
    found = [Path(name).absolute() for name in glob.glob(str(path), recursive=True) if Path(name).is_file()]  # noqa: PTH207
    if not found:
        raise PipelineError(f"the input {text} is not there: give a file, a folder or a glob of files")
    return found


def _hidden(path: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in path.parts)


def _cut(source: FileSource, path: str, size: int, target: int) -> list[Split]:
    if not source.divisible or is_packed(path) or size <= target:
        return [Split(path=path, start=0, end=size)] if size else []
    pieces = -(-size // target)
    bounds = [size * i // pieces for i in range(pieces + 1)]
    return [Split(path=path, start=start, end=end) for start, end in pairwise(bounds)]


def _deal(splits: Sequence[Split], target: int) -> tuple[tuple[Split, ...], ...]:
    """Neighbours share a task until it is full."""
    tasks: list[list[Split]] = []
    filled = 0
    for split in splits:
        if not tasks or filled + split.size > target * 1.1:
            tasks.append([])
            filled = 0
        tasks[-1].append(split)
        filled += split.size
    return tuple(tuple(task) for task in tasks)
