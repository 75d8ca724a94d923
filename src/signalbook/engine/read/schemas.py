"""Schemas as they are read in one view: the text of one, and what it refers to, found as writes find it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.confluent.schemas import linked_references, meant
from signalbook.engine.read.paging import PageRequest
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.write.context import schema_text
from signalbook.engine.write.imports import import_root, importable
from signalbook.errors import RegistryError
from signalbook.formats.base import Resolve
from signalbook.formats.imports import SchemaFiles, by_xid
from signalbook.values import dump_json
from signalbook.xid import Xid, named

_REFERRED: Final = 100
"""Documents that one schema may need, directly or through others."""
_FILES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """What an entity says of a payload, with the name of its format; None if it does not have the text here."""

    content: bytes | None
    format: str


def schema_of(view: View, xid: Xid) -> StoredSchema:
    """The document of a schema, or the schema inside of a message definition. Raises ``not_found``."""
    kind = view.model.groups[xid.group_type].resources[xid.resource_type]
    if kind.hasdocument:
        found = view.document(xid, ViewOptions())
        content = None if found.url is not None or found.is_dangling else found.content
        return StoredSchema(content=content, format=str(found.attributes.get("format", "")))
    shown = view.entity(xid, ViewOptions())
    schema = shown.get("dataschema")
    text = schema.encode("utf-8") if isinstance(schema, str) else None if schema is None else dump_json(schema)
    return StoredSchema(content=text, format=str(shown.get("dataschemaformat", "")))


class SchemaReferences:
    """Finds what schemas refer to, as writes do: as their references say, by xid or URL, by the path of an import.

    Of the imports of Protobuf that name no xid those of the schema's own Group are found, among its first thousand
    schemas. ``instead`` are texts to be taken for what Resources and Versions have.
    """

    def __init__(self, view: View, base_url: str, instead: Mapping[Xid, bytes] | None = None) -> None:
        self._view = view
        self._base_url = base_url
        self._instead = instead or {}
        self._files: dict[Xid, SchemaFiles] = {}

    def resolver(self, xid: Xid) -> Resolve:
        """Finds what the schema ``xid`` refers to, a hundred times at most."""
        left = iter(range(_REFERRED))

        def resolve(uri: str) -> bytes | None:
            if next(left, None) is None:
                return None
            return next((text for text in map(self._content, self._targets(xid, uri)) if text is not None), None)

        return resolve

    def imported(self, xid: Xid, path: str) -> Xid | None:
        """The schema of its own Group that ``xid`` imports by a path."""
        group = xid.resource.owner
        if group not in self._files:
            self._files[group] = self._files_of(xid)
        found = self._files[group].find(path, str(group))
        return None if found is None else Xid.parse(found)

    def _targets(self, xid: Xid, uri: str) -> Iterator[Xid | None]:
        yield self._stated(xid, uri)
        yield from (named(text, self._base_url) for text in (by_xid(uri) if uri.endswith(".proto") else (uri,)))
        if uri.endswith(".proto"):
            yield self.imported(xid, uri)

    def _content(self, target: Xid | None) -> bytes | None:
        if target is None or self._view.model.documented_type(target) is None:
            return None
        if self._instead and (text := self._instead.get(self._behind(target))) is not None:
            return text
        try:
            found = schema_of(self._view, target)
        except RegistryError:
            return None
        return None if found.content is None else schema_text(found.content, found.format)

    def _behind(self, target: Xid) -> Xid:
        """What a cross reference, or a Version of one, shows."""
        row = self._view.reader.get(target.resource)
        if row is None or row.xref is None:
            return target
        return row.xref if target == target.resource else row.xref / "versions" / target.version_id

    def _stated(self, xid: Xid, uri: str) -> Xid | None:
        """What a Version, or one of those that it refers to, calls by this name in its attribute ``references``."""
        seen: set[Xid] = set()
        waiting = [xid]
        while waiting and len(seen) < _REFERRED:
            here = waiting.pop()
            row = None if here in seen else self._view.reader.get(here)
            seen.add(here)
            targets = dict(reversed(linked_references({} if row is None else row.attributes)))
            found = meant(targets, uri)
            if found is not None:
                return found
            waiting.extend(targets.values())
        return None

    def _files_of(self, xid: Xid) -> SchemaFiles:
        view, group, below = self._view, xid.resource.owner, xid.resource.parent
        root = import_root(view.entity(group, ViewOptions()))
        listed = view.listed(below, ViewOptions(), PageRequest(limit=_FILES))
        known = view.members(below, listed, ViewOptions())
        return SchemaFiles(each for name, shown in known.items() for each in importable(below / name, shown, root))
