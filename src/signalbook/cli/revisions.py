"""What git revisions have of files and folders."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from signalbook.batches import batched
from signalbook.documents import DocumentError
from signalbook.errors import SignalbookError

_OF_A_HOOK: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})
_REGULAR: Final = frozenset({"100644", "100755"})
"""The modes of regular files: links and submodules have others."""
_READ_TOGETHER: Final = 100
"""Files that one process of git reads, and that are in memory together."""


def file_at(path: Path, revision: str) -> bytes | None:
    """Return the content of a file at a revision, or None. Raises ``SignalbookError``."""
    commit = _find_commit(path, revision)
    return None if commit is None else _run_git(path.parent, "cat-file", "blob", f"{commit}:./{path.name}")


@contextmanager
def copy_at(path: Path, revision: str) -> Iterator[Path | None]:
    """A copy of a folder, or of a file with what lies beside it, at a revision. As ``file_at``."""
    commit = _find_commit(path, revision)
    if commit is None:
        yield None
        return
    folder, name = _split_path(path)
    with tempfile.TemporaryDirectory(prefix="signalbook-") as copy:
        content = _run_git(folder, "archive", "--format=tar", commit, "--", ".")
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                archive.extractall(copy, filter="data")
        except tarfile.TarError as error:
            raise SignalbookError(f"{path} as it was ({revision}): {error}") from None
        yield Path(copy, name)


@dataclass(frozen=True, slots=True, eq=False)
class RevisionFiles:
    """The regular files of a folder at a git revision: the ids of their contents by path."""

    top: Path
    ids: Mapping[Path, str]

    def list_paths(self) -> Iterator[Path]:
        """Yield all files, sorted by path."""
        yield from self.ids

    def is_file(self, path: Path) -> bool:
        """Return True if the revision has this file."""
        return path in self.ids

    def read(self, path: Path) -> bytes:
        """Return the content of a file. Raises ``SignalbookError``."""
        return _run_git(self.top, "cat-file", "blob", self.ids[path])

    def read_small(self, paths: Iterable[Path], max_bytes: int) -> Iterator[tuple[Path, bytes]]:
        """Yield those of the files that have at most ``max_bytes``, with their contents. Raises ``SignalbookError``."""
        for part in batched(paths, _READ_TOGETHER):
            # Of a content that a partial clone does not have, git prints no size.
            sizes = self._run_batch("--batch-check=%(objectsize)", part).splitlines()
            small = [path for path, size in zip(part, sizes, strict=True) if size.isdigit() and int(size) <= max_bytes]
            output = io.BytesIO(self._run_batch("--batch=%(objectsize)", small))
            for path in small:
                content = output.read(int(output.readline()))
                output.readline()
                yield path, content

    def _run_batch(self, option: str, paths: Iterable[Path]) -> bytes:
        lines = "".join(f"{self.ids[path]}\n" for path in paths)
        return _run_git(self.top, "cat-file", option, standard_input=lines.encode("ascii"))


def files_at(top: Path, revision: str) -> RevisionFiles:
    """Return the files that a folder of a repository has at a revision. Raises ``SignalbookError``."""
    commit = _find_commit(top, revision)
    entries = [] if commit is None else _run_git(top, "ls-tree", "-r", "-z", commit).split(b"\0")
    ids = {}
    for entry in filter(None, entries):
        description, _, path = entry.partition(b"\t")
        mode, _, blob = description.decode("ascii").split()
        if mode in _REGULAR:
            ids[top / os.fsdecode(path)] = blob
    return RevisionFiles(top, ids)


class FileChange(NamedTuple):
    """A file that changed since a revision: ``old`` is its earlier name, ``new`` is None if it was deleted."""

    old: Path
    new: Path | None


def changed_files(folder: Path, revision: str) -> list[FileChange]:
    """Return the files that a folder had at a revision and that changed, have another name or are gone.

    Raises ``SignalbookError``.
    """
    commit = _find_commit(folder, revision)
    if commit is None:
        return []
    # Relative to the folder; each status is followed by one name, of a renamed file by two.
    options = ("--name-status", "--find-renames", "--no-ext-diff", "--relative", "-z")
    parts = _run_git(folder, "diff", *options, commit, "--", ".")
    names = iter(parts.decode("utf-8", "surrogateescape").split("\0"))
    changes = []
    for status in filter(None, names):
        old = folder / next(names)
        new = folder / next(names) if status.startswith(("R", "C")) else None if status == "D" else old
        if not status.startswith(("A", "C")):
            changes.append(FileChange(old, new))
    return changes


def _split_path(path: Path) -> tuple[Path, str]:
    return (path, ".") if path.is_dir() else (path.parent, path.name)


def _find_commit(path: Path, revision: str) -> str | None:
    """The commit that a revision names, None if it does not have ``path``, or is the HEAD of a repository without any.

    Raises ``DocumentError`` for what is no file and no folder now, ``SignalbookError`` for what git does not know.
    """
    if not path.exists():
        raise DocumentError(f"{path}: cannot be read: there is no such file or folder")
    folder, name = _split_path(path)
    _run_git(folder, "rev-parse", "--git-dir")
    try:
        # Behind this option it is none itself, whatever it begins with.
        output = _run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except SignalbookError:
        if revision == "HEAD":
            return None
        raise SignalbookError(f"git has no revision {revision!r} (--against git:{revision})") from None
    commit = output.decode("ascii").strip()
    return commit if _run_git(folder, "ls-tree", "--name-only", commit, "--", name).strip() else None


def _run_git(folder: Path, *arguments: str, standard_input: bytes = b"") -> bytes:
    # In a hook git says which repository and folder it is about: all else would be looked for there, and not be found.
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    command = ["git", "-C", str(folder), *arguments]
    try:
        process = subprocess.run(command, input=standard_input, capture_output=True, check=False, env=environment)  # noqa: S603
    except FileNotFoundError:
        raise SignalbookError("--against git:... needs git, which is not installed") from None
    if process.returncode:
        raise SignalbookError(f"git {arguments[0]}: {process.stderr.decode('utf-8', 'replace').strip()}")
    return process.stdout
