"""Imports of Protobuf: which schema is the file that an ``import`` names (docs/documents.md "Protobuf").

A registry has no files. Its schemas have ids and names, and their groups an import root, which together are paths. One
rule for all who follow imports: the registry, checks, the pipeline and producers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Final, Protocol, TypeGuard, runtime_checkable

import msgspec

from signalbook.formats.compatibility import SchemaText
from signalbook.values import Finding
from signalbook.xid import group_of

ROOT_LABEL: Final = "protobuf.root"
"""The label of a schema group that says which folder its schemas are in, for those that import them."""

_SUFFIX: Final = ".proto"
_INCLUDE: Final = Path(__file__).parent / "protobuf" / "include"
_COMMON: Final = "googleapis-common-protos"
# What goes by another name in the package, since Python has a module of the one it should have.
_RENAMED: Final = {"google/longrunning/operations.proto": "google/longrunning/operations_proto.proto"}


@runtime_checkable
class Importing(Protocol):
    """What a ``Format`` has beside its other methods if its documents mean nothing without those that they import."""

    def imports(self, document: bytes) -> list[str]:
        """What ``document`` imports, as it names it: without any, ``Format.check`` says all there is to say."""
        ...

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """As ``Format.check``, with all that is imported. Raises ``UnresolvedReferences`` where that is missing."""
        ...


def is_importing(reader: object) -> TypeGuard[Importing]:
    """Whether a format's documents import others."""
    return _is_importing(type(reader))  # type: ignore[arg-type]  # mypy takes the hash of instances for its own


@cache
def _is_importing(kind: type) -> bool:
    # Asking a protocol takes 50 us each time.
    return issubclass(kind, Importing)


class Importable(msgspec.Struct, frozen=True, array_like=True):
    """A schema that others may import: the xid of the Resource, its name, and the import root its group states."""

    xid: str
    name: str = ""
    root: str = ""

    @property
    def group(self) -> str:
        """The xid of its group."""
        return group_of(self.xid)

    def paths(self) -> set[str]:
        """The paths of the file that it is: by id and by name, alone and below the import root of its group.

        Dots may stand for folders: an id has no slashes. A group that states no root has its id for it.
        """
        parts = self.xid.split("/")
        own = _spellings(parts[4]) | _spellings(self.name)
        root = (self.root or parts[2].replace(".", "/")).strip("/")
        return own | {f"{root}/{path}" for path in own}


def _spellings(name: str) -> set[str]:
    stem = name.removesuffix(_SUFFIX)
    return {f"{stem}{_SUFFIX}", f"{stem.replace('.', '/')}{_SUFFIX}"} if stem else set()


class SchemaFiles:
    """Schemas by the paths that they may be imported by."""

    def __init__(self, schemas: Iterable[Importable]) -> None:
        self._schemas: dict[str, set[Importable]] = defaultdict(set)
        for schema in schemas:
            for path in schema.paths():
                self._schemas[path].add(schema)

    def find(self, path: str, group: str) -> str | None:
        """The xid of the schema that a document of ``group`` imports by ``path``; None if there is none, or several.

        Its own group comes first, then what is built in (for which this is None), then all other groups together.
        """
        found = self._schemas.get(path, set())
        own = {schema for schema in found if schema.group == group}
        if own or is_built_in(path):
            found = own
        return next(iter(found)).xid if len(found) == 1 else None


def by_xid(path: str) -> tuple[str, str]:
    """The xids that an import may state, as in ``import "schemagroups/g/schemas/s.proto"``."""
    return f"/{path}", f"/{path.removesuffix(_SUFFIX)}"


def is_well_known(path: str) -> bool:
    """Whether the compiler itself has this file; nobody may have another in its place."""
    return path in _well_known()


def is_built_in(path: str) -> bool:
    """Whether this file comes with the program: well-known types, Google's common protos, those of Kafka's clients."""
    return path in _RENAMED or path in _common() or is_well_known(path) or path in _own()


def renamed(path: str) -> bytes | None:
    """The text of a file that is built in, and is not at ``path`` in ``include_folders``."""
    return (_package() / _RENAMED[path]).read_bytes() if path in _RENAMED else None


def include_folders() -> tuple[Path, ...]:
    """Where the files are that are built in."""
    return _compiler(), _package(), _INCLUDE


@cache
def _compiler() -> Path:
    return Path(str(files("grpc_tools"))) / "_proto"


@cache
def _well_known() -> frozenset[str]:
    root = _compiler()
    return frozenset(file.relative_to(root).as_posix() for file in (root / "google/protobuf").rglob(f"*{_SUFFIX}"))


@cache
def _own() -> frozenset[str]:
    return frozenset(file.relative_to(_INCLUDE).as_posix() for file in _INCLUDE.rglob(f"*{_SUFFIX}"))


@cache
def _package() -> Path:
    return Path(str(distribution(_COMMON).locate_file("")))


@cache
def _common() -> frozenset[str]:
    # By the list of that package: others have files below google/, too, and not on every machine.
    return frozenset(str(file) for file in distribution(_COMMON).files or () if file.suffix == _SUFFIX)
