"""XML Schema: the format.

The library is imported with the first document, so that a registry without XML Schema saves memory and start time.
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
    """The format for XML Schema documents, 1.0 and 1.1."""

    name: Final = "XSD"
    versions: Final = ("XSD/1.0", "XSD/1.1")

    def canonical(self, format: str) -> str | None:
        """Return ``XSD/1.0`` or ``XSD/1.1``; ``XSD`` if ``format`` has no version; None for other versions.

        ``XSD`` is read as 1.1, which only added to 1.0.
        """
        if "/" not in format:
            return self.name
        version = f"{self.name}/{format.partition('/')[2].strip()}"
        return version if version in self.versions else None

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about a document. If it has references, only checks that do not need them are made."""
        from signalbook.formats.xsd import schema

        return schema.check(document, self._choose_version(format))

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> XsdSchema:
        """Return the schema for the element or type that ``link`` names by an XPath or a name (G-17).

        Without ``link``, the schema accepts all top-level elements. ``resolve`` is called with each ``schemaLocation``,
        relative to the document that contains it. For an import without a location, it is called with ``{namespace}``,
        then with the namespace. Raises ``SchemaError``.
        """
        from signalbook.formats.xsd import schema

        name = self.canonical(format) or self.name
        return schema.parse(document, self._choose_version(format), format=name, link=link, resolve=resolve)

    def identities(self, document: bytes) -> tuple[str, ...]:
        """Return ``{namespace}`` if ``document`` has a ``targetNamespace``, by which others may import it; otherwise
        nothing.
        """
        from signalbook.formats.xsd import documents

        return documents.list_identities(document)

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Return the findings about a document and all documents that it refers to. Raises ``UnresolvedReferences``."""
        from signalbook.formats.xsd import documents

        sources = documents.gather(text.document, text.resolve)
        try:
            documents.build(self._choose_version(text.format), sources)
        except SchemaError as error:
            # The only problem may be missing declarations of a namespace that is imported without a location.
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
            # The library may fail in unforeseen ways on unusual schemas; report that instead of guessing.
            return [inclusion.make_undecided("", f"comparing failed: {error or type(error).__name__}")]

    def _choose_version(self, format: str) -> str:
        return "1.0" if self.canonical(format) == "XSD/1.0" else "1.1"


FORMAT: Final = XsdFormat()
