"""What generated files do to a folder: decided before anything is written, by a manifest of what was written before.

The manifest of a target has the SHA-256 of each file. A file that it does not name is somebody else's and is never
overwritten; one that is no longer as it was written was edited, which only ``overwrite`` allows to be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from signalbook.codegen.base import Generated, GeneratorError, GeneratorInput
from signalbook.filenames import FileNameError, OutputPaths, check_path
from signalbook.values import digest, dump_json

_MAX_FILE_BYTES: Final = 64 * 1024 * 1024


class _Entry(msgspec.Struct, frozen=True):
    sha256: str
    definitions: tuple[str, ...]


class _Manifest(msgspec.Struct, frozen=True):
    target: str
    options: dict[str, str]
    files: dict[str, _Entry]
    left_out: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlan:
    """The plan for the files of a target in a folder, by their paths.

    ``foreign`` files are in the way and not in the manifest; ``edited`` ones are in it and were changed by hand, which
    would be lost. ``writes`` are the files to write, the manifest last.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    writes: Mapping[str, bytes]

    @property
    def stale(self) -> Iterator[tuple[str, str]]:
        """The files that differ from what would be generated now, with the difference."""
        yield from ((path, "is edited by hand") for path in self.edited)
        yield from ((path, "is in the way and not generated") for path in self.foreign)
        yield from ((path, "is missing") for path in self.created)
        yield from ((path, "is out of date") for path in self.updated if path not in self.edited)
        yield from ((path, "is no longer generated") for path in self.removed if path not in self.edited)


def manifest_name(target: str) -> str:
    return f".signalbook-{target}.json"


def plan_output(folder: Path, input: GeneratorInput, generated: Generated) -> OutputPlan:
    """Compare the generated files with those in ``folder``.

    Raises:
        GeneratorError: for a broken manifest, and for a path that leads out of the folder or that two files have.
    """
    name = manifest_name(input.target)
    _check_paths(folder, input.target, generated)
    before = _read_manifest(folder / name)
    contents = {file.path: file.content for file in generated.files}
    manifest = dump_json(
        msgspec.to_builtins(
            _Manifest(
                target=input.target,
                options=dict(sorted(input.options.items())),
                files={file.path: _Entry(digest(file.content), file.xids) for file in generated.files},
                left_out=dict(generated.left_out),
            )
        ),
        indent=2,
    ) + b"\n"  # fmt: skip
    paths_by_kind: dict[str, list[str]] = {}
    for path in sorted(contents.keys() | before.keys()):
        for kind in _find_states(folder, path, contents.get(path), before.get(path)):
            paths_by_kind.setdefault(kind, []).append(path)
    writes = {path: contents[path] for path in (*paths_by_kind.get("created", ()), *paths_by_kind.get("updated", ()))}
    if _read_content(folder, name) != manifest:
        if not paths_by_kind.keys() & {"created", "updated", "removed"}:
            paths_by_kind["updated"] = [name]
        writes[name] = manifest  # last: a crash before it leaves files that are known to be ours, or as they would be
    return OutputPlan(**{kind: tuple(paths) for kind, paths in paths_by_kind.items()}, writes=writes)


def _check_paths(folder: Path, target: str, generated: Generated) -> None:
    paths = OutputPaths(folder)
    for file in generated.files:
        if file.path.startswith("."):
            raise GeneratorError(f"{target} made a hidden file, which manifests are: {file.path!r}")
        try:
            paths.add(PurePosixPath(check_path(file.path)))
        except FileNameError as error:
            raise GeneratorError(f"{target}: {error}") from None


def _find_states(folder: Path, path: str, content: bytes | None, before: _Entry | None) -> Iterator[str]:
    """Yield the names of the fields of ``OutputPlan`` that a path belongs to."""
    there = _read_content(folder, path)
    if content is not None and there == content:
        yield "unchanged"
        return
    if there is not None and before is None:
        yield "foreign"
    elif there is not None and before is not None and digest(there) != before.sha256:
        yield "edited"
    if content is None:
        if there is not None:
            yield "removed"
    else:
        yield "created" if there is None else "updated"


def _read_content(folder: Path, path: str) -> bytes | None:
    """Return the file's bytes, ``None`` if there is none.

    Raises ``GeneratorError`` for what is no file of this folder.
    """
    place = folder
    for part in PurePosixPath(path).parts:
        place /= part
        if place.is_symlink():
            raise GeneratorError(
                f"{place} is a link, which is not followed: remove it, or generate into another folder"
            )
    if place.is_dir() or (place.exists() and (not place.is_file() or place.stat().st_size > _MAX_FILE_BYTES)):
        raise GeneratorError(f"{place} is in the way: remove it, or generate into another folder")
    try:
        return place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read_manifest(path: Path) -> Mapping[str, _Entry]:
    content = _read_content(path.parent, path.name)
    if content is None:
        return {}
    try:
        manifest = msgspec.json.decode(content, type=_Manifest)
    except msgspec.DecodeError as error:
        advice = "restore it, or generate into another folder"
        raise GeneratorError(f"{path}: the list of generated files is broken: {error}; {advice}") from None
    for name in manifest.files:
        # The list says what may be removed: it may have come from anywhere.
        try:
            check_path(name)
        except FileNameError as error:
            raise GeneratorError(f"{path}: {error}") from None
    return manifest.files
