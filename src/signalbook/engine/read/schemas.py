"""Schemas as one view shows them: the text of a schema and its references, resolved as in writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.schemanames import StoredNames, load_named
from signalbook.errors import RegistryError
from signalbook.formats.base import Resolve, extract_text
from signalbook.formats.references import find_reference_targets, follow_references, read_as_xids
from signalbook.values import dump_json
from signalbook.xid import Xid, named

_MAX_REFERENCES: Final = 100
"""The maximum number of documents that one schema may need, directly or indirectly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """The text of a schema and the name of its format.

    ``content`` is None if there is no schema or its text is not stored in this registry.
    """

    content: bytes | None
    format: str


def load_schema(view: View, xid: Xid) -> StoredSchema:
    """Return the document of a schema, or the schema inside a message definition. Raises ``not_found``."""
    resource_type = view.model.groups[xid.group_type].resources[xid.resource_type]
    if resource_type.hasdocument:
        document = view.load_document(xid, ViewOptions())
        content = None if document.url is not None or document.is_dangling else document.content
        return StoredSchema(content=content, format=str(document.attributes.get("format", "")))
    attributes = view.render_entity(xid, ViewOptions())
    schema = attributes.get("dataschema")
    text = schema.encode("utf-8") if isinstance(schema, str) else None if schema is None else dump_json(schema)
    return StoredSchema(content=text, format=str(attributes.get("dataschemaformat", "")))


class SchemaReferences:
    """The resolution of references between schemas, as in writes: see docs/references.md.

    ``substitutes`` are documents to use instead of those of the given Resources and Versions.
    """

    def __init__(self, view: View, base_url: str, substitutes: Mapping[Xid, bytes] | None = None) -> None:
        self._view = view
        self._base_url = base_url
        self._substitutes = substitutes or {}
        self._names = StoredNames()

    def make_resolver(self, xid: Xid) -> Resolve:
        """Return a function that returns the document that ``xid`` refers to as a URI, or None.

        After ``_MAX_REFERENCES`` calls it always returns None.
        """
        remaining = iter(range(_MAX_REFERENCES))

        def resolve(uri: str) -> bytes | None:
            return None if next(remaining, None) is None else self.find_content(xid, uri)

        return resolve

    def find_content(self, xid: Xid, uri: str) -> bytes | None:
        """Return the document that the schema ``xid`` refers to as ``uri``, or None."""
        return next((text for text in map(self._read_content, self._list_targets(xid, uri)) if text is not None), None)

    def find(self, xid: Xid, name: str) -> Xid | None:
        """Return the schema that ``xid`` refers to by ``name`` (a URI, a type or the path of a file), or None."""
        while True:
            xid_found = self._names.find(name, xid, lambda _, stored: list(stored))
            if not self._names.missing:
                return xid_found
            self._names.load(load_named(self._view.index, self._view.reader, self._names.missing))
            self._names.missing.clear()

    def _list_targets(self, xid: Xid, uri: str) -> Iterator[Xid | None]:
        stated = follow_references(xid, uri, self._load_references)
        if stated is not None:
            yield stated
            return
        yield from (named(text, self._base_url) for text in read_as_xids(uri))
        yield self.find(xid, uri)

    def _load_references(self, xid: Xid) -> Mapping[str, Xid]:
        row = self._view.reader.get(xid)
        return {} if row is None else find_reference_targets(row.attributes)

    def _read_content(self, target: Xid | None) -> bytes | None:
        if target is None or self._view.model.documented_type(target) is None:
            return None
        if self._substitutes and (text := self._substitutes.get(self._follow_xref(target))) is not None:
            return text
        try:
            schema = load_schema(self._view, target)
        except RegistryError:
            return None
        return None if schema.content is None else extract_text(schema.content, schema.format)

    def _follow_xref(self, target: Xid) -> Xid:
        """Return the entity at which a Resource or Version is stored, following a cross reference."""
        row = self._view.reader.get(target.resource)
        if row is None or row.xref is None:
            return target
        return row.xref if target == target.resource else row.xref / "versions" / target.version_id
