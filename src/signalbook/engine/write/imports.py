"""What Protobuf schemas of a registry import: loaded scope by scope, as far as a write has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from signalbook.formats.base import family
from signalbook.formats.imports import ROOT_LABEL, Importable, SchemaFiles, is_built_in
from signalbook.values import JSONObject
from signalbook.xid import ROOT, Xid

Scope: TypeAlias = tuple[Xid, tuple[str, ...]]
"""Resources below an entity, by the types on the way: those of a Group, or of all Groups of a type."""


class ImportableSchemas:
    """Stored schemas that others may import, by scope, as ``as_written`` says that a write leaves them.

    Scopes that are asked for and were not loaded are noted in ``missing``.
    """

    def __init__(self, as_written: Callable[[Scope, Iterable[Importable]], Iterable[Importable]]) -> None:
        self.missing: set[Scope] = set()
        self._as_written = as_written
        self._loaded: dict[Scope, list[Importable]] = {}
        self._files: dict[Scope, SchemaFiles] = {}

    def load(self, scope: Scope, stored: Iterable[Importable]) -> None:
        """Know what is stored in a scope."""
        self._loaded[scope] = list(stored)

    def find(self, path: str, referring: Xid) -> Xid | None:
        """What the schema ``referring`` imports by a path; None if there is nothing, and for now if it is missing.

        Other Groups are only asked for what its own does not have: there may be very many.
        """
        group, types = referring.resource.owner, (referring.group_type, referring.resource_type)
        scopes: list[Scope] = [(group, types[1:])]
        if not is_built_in(path):
            scopes.append((ROOT, types))
        for scope in scopes:
            files = self._files_in(scope)
            if files is None:
                return None
            found = files.find(path, str(group))
            if found is not None:
                return Xid.parse(found)
        return None

    def _files_in(self, scope: Scope) -> SchemaFiles | None:
        if scope not in self._loaded:
            self.missing.add(scope)
            return None
        if scope not in self._files:
            self._files[scope] = SchemaFiles(self._as_written(scope, self._loaded[scope]))
        return self._files[scope]


def in_scope(xid: Xid, scope: Scope) -> bool:
    """Whether a Resource is in a scope."""
    parent, types = scope
    depth = len(parent.parts)
    return xid.parts[:depth] == parent.parts and xid.parts[depth::2] == types


def importable(xid: Xid, attributes: JSONObject, root: str = "") -> Iterator[Importable]:
    """A Resource that has these attributes of its default Version, if others may import it."""
    if family(str(attributes.get("format", ""))) == "protobuf":
        yield Importable(str(xid), str(attributes.get("name", "")), root)


def import_root(group: JSONObject) -> str:
    """The import root that a Group with these attributes states."""
    return str((group.get("labels") or {}).get(ROOT_LABEL, ""))
