"""JSON Schema, drafts 04 to 2020-12: the format and its schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

import jsonschema_rs

from signalbook.formats.base import (
    MAX_FINDINGS,
    JsonValues,
    Resolve,
    SchemaError,
    UnresolvedReferences,
    format_pointer,
    shorten,
)
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.jsonschema import document as documents
from signalbook.formats.jsonschema.columns import find_closed_members, find_constants, make_shape
from signalbook.formats.jsonschema.comparison import compare
from signalbook.formats.jsonschema.dialects import DIALECTS, UNUSABLE, find_by_format
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.formats.jsonschema.normal import NormalForm
from signalbook.formats.jsonschema.reader import read
from signalbook.formats.jsonschema.tree import make_tree
from signalbook.formats.shape import Shape
from signalbook.formats.tree import SchemaNode
from signalbook.values import JSON, Finding, digest

_MAX_CONSTANT_DEPTH: Final = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonSchema(JsonValues):
    """A compiled JSON Schema: the top level of a document, or the part that a deep link names."""

    document: JsonSchemaDocument
    uri: str
    warnings: tuple[Finding, ...] = ()

    @property
    def format(self) -> str:
        """The format of the document, ``JsonSchema/<version>``."""
        return self.document.dialect.format

    @cached_property
    def validator(self) -> jsonschema_rs.Validator:
        """The validator of the schema, compiled on first use. Raises one of ``UNUSABLE``, but not if ``parse`` made the
        schema.
        """
        return self.document.validator(self.uri)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the version, the documents and the deep link."""
        return digest(f"{self.document.fingerprint} {self.uri}".encode())

    def allows(self, value: JSON) -> bool:
        """Return True if ``value`` has no violation. This is faster than ``validate``."""
        return self.validator.is_valid(value)

    def validate(self, value: JSON) -> list[Finding]:
        """Return the violations in ``value``, at most ``MAX_FINDINGS``."""
        if self.allows(value):
            return []
        errors = islice(self.validator.iter_errors(value), MAX_FINDINGS)
        return [
            Finding(path=format_pointer(error.instance_path), rule=error.kind.name, message=shorten(error.message))
            for error in errors
        ]

    def shape(self) -> Shape:
        """Return the columns that a conforming payload fits into."""
        return make_shape(self.document, self.node)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return the required top-level members that have a closed set of scalar values."""
        return find_constants(self.node)

    def nested_constants(self) -> Mapping[tuple[str, ...], frozenset[JSON]]:
        """Return the required members of required objects that have a closed set of scalar values, by path of names."""
        members = find_closed_members(self.node, _MAX_CONSTANT_DEPTH)
        return {path: values for path, values in members.items() if len(path) > 1}

    def tree(self) -> SchemaNode:
        """Return the tree of conforming values."""
        return make_tree(self.document, self.uri)

    @cached_property
    def node(self) -> NormalForm:
        return read(self.document, self.uri)


class JsonSchemaFormat:
    """The format for JSON Schema documents."""

    name: Final = "JsonSchema"
    versions: Final = tuple(dialect.format for dialect in DIALECTS)

    def canonical(self, format: str) -> str | None:
        """Return ``JsonSchema/<version>``, or ``JsonSchema`` if ``format`` has no version; None for other versions.

        Without a version, the document's ``$schema`` decides.
        """
        if "/" not in format:
            return self.name
        dialect = find_by_format(format)
        return dialect.format if dialect else None

    def check(self, document: bytes, format: str) -> list[Finding]:
        """Return the findings about ``document`` alone."""
        return documents.inspect(document, format)

    def parse(self, document: bytes, format: str, *, link: str = "", resolve: Resolve | None = None) -> JsonSchema:
        """Return the schema at ``link``, a JSON Pointer or an anchor; an empty ``link`` means the whole document.

        Raises ``SchemaError``.
        """
        loaded = documents.load(document, format, resolve)
        uri = documents.link_uri(loaded, link)
        if link or not loaded.certain:
            try:
                # Compile the validator as a test, but do not keep it. A large one takes half a megabyte, and a pipeline
                # whose messages mostly conform uses few of them. Compiling it again takes half a millisecond.
                loaded.validator(uri)
            except UNUSABLE as error:
                raise _build_link_error(link, error) if link else documents.make_unusable_error(error) from None
        return JsonSchema(document=loaded, uri=uri, warnings=loaded.warnings)

    def identities(self, document: bytes) -> tuple[str, ...]:
        """Return the ``$id`` of the document, or nothing if it has none."""
        return documents.list_identities(document)

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Return the findings about a document and all documents that it refers to. Raises ``UnresolvedReferences``."""
        try:
            return list(self.parse(text.document, text.format, resolve=text.resolve).warnings)
        except UnresolvedReferences:
            raise
        except SchemaError as error:
            return list(error.findings)

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return up to ``MAX_FINDINGS`` reasons why ``reader`` does not accept every value that ``writer`` allows.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        new, old = (self.parse(side.document, side.format, resolve=side.resolve) for side in (reader, writer))
        return compare(new.document, old.document)


def _build_link_error(link: str, error: BaseException) -> SchemaError:
    reason = documents.make_unusable_error(error).findings[0].message
    return SchemaError(
        [Finding(path=link, rule="link", message=f"the deep link {link!r} names no usable schema: {reason}")]
    )


FORMAT: Final = JsonSchemaFormat()
