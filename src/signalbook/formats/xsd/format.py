"""XML Schema: the format.

The library is imported with the first document: a registry without any does not pay for it, in memory or at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from signalbook.formats import inclusion
from signalbook.formats.base import IMPORT, Resolve, SchemaError, UnresolvedReferences, shorten
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.values import Finding

if TYPE_CHECKING:
    from signalbook.formats.xsd.schema import XsdSchema


class XsdFormat:
    """Reads XML Schema documents, 1.0 and 1.1."""

    name: Final = "XSD"
    versions: Final = ("XSD/1.0", "XSD/1.1")

    def canonical(self, format: str) -> str | None:
        """Return ``XSD/1.0`` or ``XSD/1.1``; ``XSD`` alone is read as 1.1, which only added to 1.0."""
        if "/" not in format:
            return self.name
        version = f"{self.name}/{format.partition('/')[2].strip()}"
        return version if version in self.versions else None

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about a document; with references, those that are possible without them."""
        from signalbook.formats.xsd import schema

        return schema.check(document, self._choose_version(format))

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> XsdSchema:
        """Return the element or type that ``link`` means: an XPath, or a name; without one, the top-level elements
        (G-17).

        ``resolve`` is asked for what ``schemaLocation`` says, relative to the document that says so. Where an import
        has no location, it is asked for ``{namespace}``, then for the namespace. Raises ``SchemaError``.
        """
        from signalbook.formats.xsd import schema

        name = self.canonical(format) or self.name
        return schema.parse(document, self._choose_version(format), format=name, link=link, resolve=resolve)

    def identities(self, document: bytes) -> tuple[str, ...]:
        """Return ``{namespace}`` of a document with a ``targetNamespace``, by which others may import it."""
        from signalbook.formats.xsd import documents

        return documents.list_identities(document)

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Check a document with all documents it refers to. Raises ``UnresolvedReferences``."""
        from signalbook.formats.xsd import documents

        sources = documents.gather(text.document, text.resolve)
        try:
            documents.build(self._choose_version(text.format), sources)
        except SchemaError as error:
            # What a namespace without a location declares may be all that is missing.
            unknown = documents.find_unknown_namespaces(sources)
            if unknown:
                message = f"it imports {', '.join(unknown)}, which no schema is known for: {error}"
                raise UnresolvedReferences([Finding(path="", rule=IMPORT, message=shorten(message))]) from None
            return list(error.findings)
        return []

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why ``reader`` does not accept every document that ``writer`` allows.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        from signalbook.formats.xsd import comparison, documents, paths

        if reader.document == writer.document and reader.resolve is writer.resolve is None:
            return []
        new, old = (
            documents.build(self._choose_version(side.format), documents.gather(side.document, side.resolve)).schema
            for side in (reader, writer)
        )
        try:
            return comparison.find_differences(new, old, paths.list_roots)
        except documents.FAILED as error:
            # The library's objects may do anything with a schema that nobody thought of; a guess is never an answer.
            return [inclusion.make_undecided("", f"comparing failed: {error or type(error).__name__}")]

    def _choose_version(self, format: str) -> str:
        return "1.0" if self.canonical(format) == "XSD/1.0" else "1.1"


FORMAT: Final = XsdFormat()
