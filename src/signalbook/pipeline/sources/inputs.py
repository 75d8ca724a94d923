"""Find the input files in folders and object stores, and divide them between tasks."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.places import LocalPlace, Place, Storage, place_of
from signalbook.pipeline.sources.base import FileSource, Split, split_range
from signalbook.pipeline.sources.compression import has_compressed_name, remove_compressed_suffix
from signalbook.values import format_count

# Bytes. Each task writes a file per table, so that fewer tasks mean fewer and larger files. A task for less than the
# minimum costs more than it saves.
LEAST_TASK: Final = 16 * 1024 * 1024
LARGEST_TASK: Final = 1024 * 1024 * 1024
_HIDDEN: Final = (".", "_")
_MAGIC: Final = re.compile(r"[*?[]")
# Numbers and dates after a dot are not endings: ``events.jsonl.1``, ``part-0.2026-01-02``.
_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]*\Z", re.ASCII)
_MAX_ENDINGS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files to read, each with path or URL and size in bytes, and notices for users about skipped files."""

    files: tuple[tuple[str, int], ...]
    notices: tuple[str, ...] = ()


class Named(Protocol):
    """An object that states the endings of file names to read, such as a ``FileSource``."""

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings, without those of compression; empty for all files."""
        ...


def find_files(inputs: Sequence[str], source: Named, storage: Storage | None = None) -> FoundFiles:
    """Return every file that ``inputs`` name: files, folders and globs, paths or URLs, in a stable order.

    A file that an input names directly is always read. Folders are searched recursively. In folders and globs, files
    are skipped if their names begin with a dot or underscore, or do not have an ending of ``source``; a glob may name
    other endings. Raises ``PipelineError`` for an input without files to read.
    """
    sizes: dict[str, int] = {}
    notices: list[str] = []
    for text in inputs:
        try:
            selection = _Selection(text, source, place_of(text, storage))
            sizes.update(selection.choose_files())
        except OSError as error:
            raise PipelineError(f"cannot read the input {text}: {error}") from error
        notices += selection.list_notices()
    return FoundFiles(files=tuple(sorted(sizes.items())), notices=tuple(notices))


class _Selection:
    """The files that one input names."""

    def __init__(self, text: str, source: Named, place: Place) -> None:
        self._text = text
        self._place = place
        self._endings = {*source.endings, ""} if source.endings else set()
        self._others: Counter[str] = Counter()

    def choose_files(self) -> dict[str, int]:
        """Return the files to read with their sizes. Raises ``OSError``, and ``PipelineError`` if there are none."""
        if _exists(self._place):
            return {str(self._place): self._place.find_size()}
        if isinstance(self._place, LocalPlace) and self._place.exists() and not self._place.path.is_dir():
            raise PipelineError(f"the input {self._text} is a pipe or device, which is read once: write a file of it")
        root, listed = self._list_files()
        sizes = {str(root / path): size for path, size in listed if self._is_wanted(path)}
        if not sizes and self._others:
            raise PipelineError(f"nothing in the input {self._text} is read: {self._describe_left_out()}")
        if not sizes:
            if isinstance(self._place, LocalPlace) and self._place.path.is_dir():
                raise PipelineError(f"the input folder {self._text} holds no files")
            raise PipelineError(f"the input {self._text} is not there: give a file, a folder or a glob of files")
        return sizes

    def list_notices(self) -> list[str]:
        """Return notices for users about skipped files."""
        return [f"of the input {self._text} {self._describe_left_out()}"] if self._others else []

    def _describe_left_out(self) -> str:
        count = sum(self._others.values())
        kinds = [f"{number} {kind}" for kind, number in self._others.most_common(_MAX_ENDINGS)]
        endings = ", ".join(sorted(self._endings - {""}))
        return (
            f"{format_count(count, 'file is', 'files are')} skipped ({', '.join(kinds)}): of a folder those are "
            f"read whose names end in {endings or 'anything'} or in none of that kind; name a file to have it read"
        )

    def _is_wanted(self, path: str) -> bool:
        parts = PurePosixPath(path).parts
        input_name = PurePosixPath(self._text).name
        hidden = [part for part in parts if part.startswith(_HIDDEN)]
        if hidden and not (hidden == [parts[-1]] and _MAGIC.search(self._text) and input_name.startswith(_HIDDEN)):
            self._others["hidden"] += 1
            return False
        ending = _find_ending(parts[-1])
        if self._endings and ending not in self._endings and ending != _find_ending(input_name):
            self._others[ending] += 1
            return False
        return True

    def _list_files(self) -> tuple[Place, Iterator[tuple[str, int]]]:
        """Return a folder, and path and size of each file below it that the input names.

        The input is a glob only if it is not the name of an existing folder.
        """
        if isinstance(self._place, LocalPlace):
            return _list_on_disk(self._place.path)
        listed = ((file.path, file.size) for file in self._place.list_files(deep=True))
        if _MAGIC.search(str(self._place)) is None:
            return self._place, listed
        if (first := next(listed, None)) is not None:
            return self._place, chain([first], listed)
        root = self._place
        while _MAGIC.search(str(root)):
            root = root.parent
        patterns = str(self._place)[len(str(root)) + 1 :].split("/")
        below = ((file.path, file.size) for file in root.list_files(deep=True))
        return root, (pair for pair in below if _match_parts(pair[0].split("/"), patterns))


def _list_on_disk(path: Path) -> tuple[Place, Iterator[tuple[str, int]]]:
    home = Path.cwd()
    # special characters in the name of the working folder do not make a glob
    magic = _MAGIC.search(str(path), len(str(home)) if path.is_relative_to(home) else 0)
    if magic is None or path.is_dir():
        return LocalPlace(path), _walk_folder(path)
    base = Path(str(path)[: magic.start()].rpartition("/")[0] or "/")
    return LocalPlace(base), _iterate_glob(path.relative_to(base), base)


def _exists(place: Place) -> bool:
    """Return True for a file or an object that exists."""
    return place.path.is_file() if isinstance(place, LocalPlace) else bool(place.name) and place.exists()


def _walk_folder(folder: Path) -> Iterator[tuple[str, int]]:
    for root, _, names in os.walk(folder, onerror=_raise):
        for path in (Path(root, name) for name in names):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.stat().st_size


def _raise(error: OSError) -> None:
    # a folder that cannot be listed must not be taken for an empty folder
    if not isinstance(error, FileNotFoundError):
        raise error


def _iterate_glob(pattern: Path, base: Path) -> Iterator[tuple[str, int]]:
    for name in glob.glob(str(pattern), root_dir=base, recursive=True):  # noqa: PTH207 - the pattern may contain several stars
        path = base / name
        if path.is_file():
            yield path.relative_to(base).as_posix(), path.stat().st_size


def _match_parts(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return True if the path ``parts`` match the glob ``patterns``. ``**`` matches any number of folders.

    At the end of a glob ``**`` also matches all files.
    """
    if not (parts and patterns):
        return not (parts or patterns)
    if patterns[0] == "**":
        return len(patterns) == 1 or any(_match_parts(parts[n:], patterns[1:]) for n in range(len(parts)))
    return fnmatchcase(parts[0], patterns[0]) and _match_parts(parts[1:], patterns[1:])


def _find_ending(name: str) -> str:
    """Return the ending of a file name in lower case, ignoring a compression suffix, or "" if there is none."""
    match = _ENDING.search(remove_compressed_suffix(name))
    return match[0].lower() if match else ""


def plan_tasks(source: FileSource, files: Sequence[tuple[str, int]], parallelism: int) -> tuple[tuple[Split, ...], ...]:
    """Return the splits of each task: about ``parallelism`` tasks of equal size.

    There are more tasks if these were too large, and fewer if they were too small.
    """
    total = sum(size for _, size in files)
    target = min(max(-(-total // max(parallelism, 1)), LEAST_TASK), LARGEST_TASK)
    splits = [split for path, size in files for split in _split_file(source, path, size, target)]
    return _group_splits(splits, target)


def _split_file(source: FileSource, path: str, size: int, target: int) -> list[Split]:
    if not source.divisible or has_compressed_name(path) or size <= target:
        return [Split(path=path, start=0, end=size)] if size else []
    bounds = split_range(0, size, -(-size // target))
    return [Split(path=path, start=start, end=end) for start, end in bounds]


def _group_splits(splits: Sequence[Split], target: int) -> tuple[tuple[Split, ...], ...]:
    """Group consecutive splits into tasks of about ``target`` bytes."""
    tasks: list[list[Split]] = []
    filled = 0
    for split in splits:
        if not tasks or filled + split.size > target * 1.1:
            tasks.append([])
            filled = 0
        tasks[-1].append(split)
        filled += split.size
    return tuple(tuple(task) for task in tasks)
