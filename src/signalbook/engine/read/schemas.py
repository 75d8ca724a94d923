"""Schemas as they are read in one view: the text of one, and what it refers to, found as writes find it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from signalbook.confluent.schemas import find_reference_targets
from signalbook.engine.read.view import View, ViewOptions
from signalbook.engine.schemanames import StoredNames, load_named
from signalbook.errors import RegistryError
from signalbook.formats.base import Resolve, extract_text
from signalbook.formats.references import follow_references, read_as_xids
from signalbook.values import dump_json
from signalbook.xid import Xid, named

_MAX_REFERENCES: Final = 100
"""Documents that one schema may need, directly or through others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """A payload's schema with the name of its format; None if the text is not stored here."""

    content: bytes | None
    format: str


def load_schema(view: View, xid: Xid) -> StoredSchema:
    """Return the document of a schema, or the schema inside of a message definition. Raises ``not_found``."""
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
    """Finds the schemas that schemas refer to, as writes do: see docs/references.md.

    ``instead`` are texts to be taken for what Resources and Versions have.
    """

    def __init__(self, view: View, base_url: str, substitutes: Mapping[Xid, bytes] | None = None) -> None:
        self._view = view
        self._base_url = base_url
        self._substitutes = substitutes or {}
        self._names = StoredNames()

    def make_resolver(self, xid: Xid) -> Resolve:
        """Return a function that finds what the schema ``xid`` refers to, a hundred times at most."""
        remaining = iter(range(_MAX_REFERENCES))

        def resolve(uri: str) -> bytes | None:
            return None if next(remaining, None) is None else self.find_content(xid, uri)

        return resolve

    def find_content(self, xid: Xid, uri: str) -> bytes | None:
        """Return the document that the schema ``xid`` calls ``uri``."""
        return next((text for text in map(self._read_content, self._list_targets(xid, uri)) if text is not None), None)

    def find(self, xid: Xid, name: str) -> Xid | None:
        """Return the schema that ``xid`` calls by a name of its own: a URI, a type or the path of a file."""
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
        """Return the target of a cross reference, or of a Version of one."""
        row = self._view.reader.get(target.resource)
        if row is None or row.xref is None:
            return target
        return row.xref if target == target.resource else row.xref / "versions" / target.version_id
