"""Find the schema of a payload with a lookup of documents, and parse each document once (K-39)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final

from signalbook.formats import Schema, SchemaError, find
from signalbook.messages.content import NUMBER_LABEL, reference_of_number
from signalbook.messages.message import Reason
from signalbook.values import JSON, Finding, JSONObject, digest, dump_json

_VERSIONS_PATH: Final = "/versions/"
_VALUE_SUFFIX: Final = "-value"
_KEY_SUFFIX: Final = "-key"
_MAX_COLONS: Final = 8


def readings(uri: str) -> Iterator[tuple[str, str]]:
    """Yield the possible splits of a reference into the name of a document and a deep link, the most likely first.

    An id may contain ``:``, and a fragment may name an entity or a place in a document. Callers look up the first part
    of each split, and use the first one that exists.
    """
    uri = uri.removeprefix("#") if uri.startswith("#/") else uri
    yield uri, ""
    base, separator, fragment = uri.partition("#")
    yield from _split_at_colons(uri)
    if separator:
        yield base, fragment
        yield from ((entity, f"{link}#{fragment}") for entity, link in _split_at_colons(base))


def _split_at_colons(uri: str) -> Iterator[tuple[str, str]]:
    """Yield the splits of ``uri`` at its colons, the last colon first. Colons in scheme and authority are skipped."""
    path = uri.find("/", uri.find("://") + 3) if "://" in uri else 0
    position = len(uri)
    for _ in range(_MAX_COLONS):
        position = uri.rfind(":", max(path, 0), position)
        if position < 0:
            return
        yield uri[:position], uri[position + 1 :]


def resource_of(xid: str) -> str:
    """Return the xid of the Resource, given the xid of a Resource or of one of its Versions."""
    return xid.partition(_VERSIONS_PATH)[0]


def find_named_version(uri: str, resource: str) -> str | None:
    """Return the xid of the Version of ``resource`` that an event's ``dataschema`` names, or ``resource`` itself.

    Return ``None`` if the URI names something else. Its host does not matter, because nothing is fetched (K-39).
    """
    path = uri.partition("#")[0].partition("?")[0]
    start = path.find(resource)
    if start < 0 or not resource:
        return None
    remainder = path[start + len(resource) :]
    if remainder in ("", "$details"):
        return resource
    if remainder.startswith(":") and "/" not in remainder:
        return resource
    version = remainder.removeprefix(_VERSIONS_PATH)
    if version == remainder or "/" in version:
        return None
    return resource + _VERSIONS_PATH + version.removesuffix("$details")


_VALUE_FORMATS: Final = ("jsonschema/", "jsonstructure/")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDocument:
    """A schema document. ``xid`` is the xid of its Version, or another name that identifies the content.

    ``versions`` are the ids of all Versions of its Resource, the oldest first, or empty if they are unknown.
    """

    content: bytes
    format: str
    xid: str
    versions: Sequence[str] = field(default=(), compare=False)


# Returns the document that an xid or absolute URI without deep link names, or None. It never uses the network.
Lookup = Callable[[str], SchemaDocument | None]
# Takes the URI or path of a file that a schema imports, and the xid of that schema. Returns the content, or None.
ImportLookup = Callable[[str, str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaUse:
    """A schema ready for use, or the reason why there is none.

    ``of_values`` is True if decoded JSON values can be checked by ``Schema.validate`` instead of ``Schema.decode``.
    ``resource`` is the xid of the schema Resource (``""`` for an inline schema), ``document`` the xid of the document.
    ``format`` is the stated format, which also applies to Versions of the Resource that state none.
    """

    schema: Schema | None = None
    reason: Reason | None = None
    findings: tuple[Finding, ...] = ()
    of_values: bool = False
    resource: str = ""
    document: str = ""
    link: str = ""
    format: str = ""


NONE: Final = SchemaUse()


class ContractSchemas:
    """The schemas of one contract. Parsing is lazy and happens once per document and deep link."""

    def __init__(self, lookup: Lookup, imports: ImportLookup | None = None) -> None:
        self._lookup = lookup
        self._imports = imports
        self._parsed: dict[tuple[str, str, str], SchemaUse] = {}
        # Keys: the document and deep link of the definition's schema, and the reference of the writer's Version.
        self._writers: dict[tuple[str, str, str], SchemaUse] = {}

    def of_definition(self, definition: JSONObject) -> SchemaUse:
        """Return the schema of a materialised definition: inline, by xid, or by URI, in this order (K-39).

        Return ``NONE`` if it names no schema.
        """
        stated = str(definition.get("dataschemaformat") or "")
        if definition.get("dataschema") is not None:
            return self._inline(definition["dataschema"], stated)
        for name in ("dataschemaxid", "dataschemauri"):
            if isinstance(definition.get(name), str):
                return self._find_referred(definition[name], stated, name)
        return NONE

    def of_writer(self, use: SchemaUse, dataschema: str) -> SchemaUse:
        """Return the Version of the schema in ``use`` that an event's ``dataschema`` names, or ``use`` if none."""
        xid = find_named_version(dataschema, use.resource)
        if xid is None or xid == use.resource:
            return use
        return self._find_written(use, xid, "dataschema", f"there is no schema {xid} that wrote this event")

    def of_number(self, use: SchemaUse, number: int | str) -> SchemaUse:
        """Return the Version of the schema in ``use`` with the ``number`` or guid of a wire prefix.

        Return ``use`` itself for an inline schema, which has no Versions.
        """
        if not use.resource:
            return use
        text = f"no Version of {use.resource} has the schema id {number} of this payload (label {NUMBER_LABEL})"
        return self._find_written(use, reference_of_number(use.resource, number), "wire_prefix", text)

    def earlier(self, use: SchemaUse) -> Iterator[Schema]:
        """Yield the schemas of the Versions before the Version in ``use``, the oldest first."""
        document = self._lookup(use.document) if use.resource else None
        versions = () if document is None else (f"{use.resource}{_VERSIONS_PATH}{name}" for name in document.versions)
        for xid in takewhile(lambda xid: xid != use.document, versions):
            version = self._lookup(xid)
            schema = None if version is None else self._parse_version(version, use).schema
            if schema is not None:
                yield schema

    def of_keys(self, use: SchemaUse) -> SchemaUse:
        """Return the schema ``NAME-key`` beside the schema ``NAME-value`` that ``use`` is of, or ``NONE``.

        Confluent's serializers name the two like this after the topic (TopicNameStrategy).
        """
        name = use.resource.removesuffix(_VALUE_SUFFIX)
        document = None if name == use.resource else self._lookup(f"{name}{_KEY_SUFFIX}")
        return NONE if document is None else self._parse(document, "", resource_of(document.xid))

    def _find_written(self, use: SchemaUse, reference: str, path: str, missing: str) -> SchemaUse:
        """Return the Version with this ``reference``, to read payloads as the schema in ``use`` defines them (K-40).

        ``path`` and ``missing`` are the path and the message of the finding if the Version does not exist.
        """
        key = (use.document, use.link, reference)
        if key not in self._writers:
            document = self._lookup(reference)
            if document is None:
                return _make_unusable(Reason.SCHEMA_NOT_FOUND, path, missing)
            # Cache only Versions that exist, because messages may contain any number of unknown references.
            self._writers[key] = _read_as(use, self._parse_version(document, use))
        return self._writers[key]

    def _inline(self, schema: JSON, format: str) -> SchemaUse:
        content = inline_document(schema)
        return self._parse(SchemaDocument(content=content, format=format, xid=f"sha256:{digest(content)}"), "", "")

    def _find_referred(self, uri: str, format: str, name: str) -> SchemaUse:
        # Ids may contain colons, and deep links begin with one. Use the first split that exists.
        for reference, link in readings(uri):
            document = self._lookup(reference)
            if document is not None:
                return self._parse(_add_format(document, format), link, resource_of(document.xid))
        return _make_unusable(Reason.SCHEMA_NOT_FOUND, name, f"{name} {uri!r} names no schema of this contract")

    def _parse_version(self, document: SchemaDocument, use: SchemaUse) -> SchemaUse:
        """Parse the Version in ``document`` of the schema Resource in ``use``, with the same deep link."""
        return self._parse(_add_format(document, use.format), use.link, use.resource)

    def _parse(self, document: SchemaDocument, link: str, resource: str) -> SchemaUse:
        key = (document.xid, document.format, link)
        if key not in self._parsed:
            self._parsed[key] = self._parse_document(document, link, resource)
        return self._parsed[key]

    def _parse_document(self, document: SchemaDocument, link: str, resource: str) -> SchemaUse:
        reader = find(document.format)
        if reader is None:
            text = f"no reader for schemas of format {document.format!r}"
            return _make_unusable(Reason.UNSUPPORTED_FORMAT, "dataschemaformat", text)
        try:
            resolve = partial(self._find_content, document.xid)
            schema = reader.parse(document.content, document.format, link=link, resolve=resolve)
        except SchemaError as error:
            # A schema that does not parse is cached with its findings, so that it is not parsed for each message.
            reason, document_xid = Reason.CONTRACT_UNAVAILABLE, document.xid
            return SchemaUse(
                reason=reason,
                findings=error.findings,
                resource=resource,
                document=document_xid,
                link=link,
                format=document.format,
            )
        return SchemaUse(
            schema=schema,
            of_values=schema.format.lower().startswith(_VALUE_FORMATS),
            resource=resource,
            document=document.xid,
            link=link,
            format=document.format,
        )

    def _find_content(self, xid: str, uri: str) -> bytes | None:
        """Return the document that a document with this ``xid`` refers to, or None."""
        if self._imports is not None:
            return self._imports(uri, xid)
        document = self._lookup(uri)
        return None if document is None else document.content


def _add_format(document: SchemaDocument, format: str) -> SchemaDocument:
    return document if document.format else replace(document, format=format)


def inline_document(schema: JSON) -> bytes:
    """Return the content of an inline ``dataschema``: a text itself, or the JSON of any other value (F-11)."""
    return schema.encode("utf-8") if isinstance(schema, str) else dump_json(schema)


def _read_as(reader: SchemaUse, writer: SchemaUse) -> SchemaUse:
    if writer.schema is None or reader.schema is None or writer.schema is reader.schema:
        return writer
    return replace(writer, schema=reader.schema.reading(writer.schema))


def _make_unusable(reason: Reason, path: str, message: str) -> SchemaUse:
    return SchemaUse(reason=reason, findings=(Finding(path=path, rule=reason.value, message=message),))
