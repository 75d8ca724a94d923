"""Built-in Protobuf files, and the label of a schema group that states the group's folder (docs/references.md)."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Final

ROOT_LABEL: Final = "protobuf.root"
"""The label of a schema group that states the folder of its schemas, from which other schemas import them."""

_SUFFIX: Final = ".proto"
_INCLUDE: Final = Path(__file__).parent / "protobuf" / "include"
_COMMON: Final = "googleapis-common-protos"
# Files with another name in the package, because their own name would clash with a Python module.
_RENAMED: Final = {"google/longrunning/operations.proto": "google/longrunning/operations_proto.proto"}


def is_well_known(path: str) -> bool:
    """Return True if the file at ``path`` is part of the compiler, so that no schema may replace it."""
    return path in _list_well_known()


def is_built_in(path: str) -> bool:
    """Return True if the file at ``path`` comes with Signalbook: Google's well-known and common
    types, Confluent's types.
    """
    return path in _RENAMED or path in _list_common() or is_well_known(path) or path in _list_own()


def find_renamed(path: str) -> bytes | None:
    """Return the text of a built-in file that has another name in its package; None for all other files."""
    return (_find_package() / _RENAMED[path]).read_bytes() if path in _RENAMED else None


def include_folders() -> tuple[Path, ...]:
    """Return the folders of the built-in files."""
    return _find_compiler(), _find_package(), _INCLUDE


@cache
def _find_compiler() -> Path:
    return Path(str(files("grpc_tools"))) / "_proto"


@cache
def _list_well_known() -> frozenset[str]:
    root = _find_compiler()
    return frozenset(file.relative_to(root).as_posix() for file in (root / "google/protobuf").rglob(f"*{_SUFFIX}"))


@cache
def _list_own() -> frozenset[str]:
    return frozenset(file.relative_to(_INCLUDE).as_posix() for file in _INCLUDE.rglob(f"*{_SUFFIX}"))


@cache
def _find_package() -> Path:
    return Path(str(distribution(_COMMON).locate_file("")))


@cache
def _list_common() -> frozenset[str]:
    # Read the file list of that distribution, because others also install files below google/.
    return frozenset(str(file) for file in distribution(_COMMON).files or () if file.suffix == _SUFFIX)
