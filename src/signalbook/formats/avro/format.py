"""Apache Avro: the format and its schemas. A payload is a single datum in the binary or the JSON encoding of Avro."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import BytesIO
from itertools import islice
from typing import Any, Final

import fastavro
from fastavro import _read_py
from fastavro.read import SchemaResolutionError

from signalbook.formats.avro import json_encoding, resolution
from signalbook.formats.avro.document import (
    PRIMITIVES,
    Names,
    Type,
    has_empty_items,
    is_recursive,
    list_defined_names,
    read,
)
from signalbook.formats.avro.indices import check_indices, has_indices
from signalbook.formats.avro.json_encoding import list_surplus, list_violations
from signalbook.formats.avro.tree import make_tree
from signalbook.formats.base import (
    MAX_FINDINGS,
    PayloadError,
    Resolve,
    Schema,
    SchemaError,
    is_json,
    make_payload_error,
    make_unsupported_error,
    parse_media_type,
    read_json,
    shorten,
)
from signalbook.formats.compatibility import Difference, SchemaText
from signalbook.formats.shape import Anything, Field, Kind, ListOf, MapOf, Scalar, Shape, Struct
from signalbook.formats.tree import SchemaNode
from signalbook.values import JSON, Finding, JSONObject, digest, dump_json

_PLAIN_KINDS: Final[dict[str, Kind]] = {
    "boolean": "bool",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
}
_LOGICAL: Final[dict[tuple[str, str], Kind]] = {
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("int", "date"): "date",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    ("string", "uuid"): "uuid",
}


def make_shape(node: Type, types: Mapping[str, JSONObject], *, nullable: bool = False) -> Shape:
    """Return the shape of the values of ``node``.

    Recursive types and unions of several types besides null become ``Anything``.
    """
    return _build_shape(node, types, nullable, frozenset())


def _build_shape(node: Type, types: Mapping[str, JSONObject], nullable: bool, above: frozenset[str]) -> Shape:
    if isinstance(node, str) and node not in PRIMITIVES:
        if node in above:
            return Anything(nullable=nullable)
        node = types[node]
    if isinstance(node, list):
        branches = [item for item in node if item != "null"]
        nullable = nullable or len(branches) < len(node)
        return _build_shape(branches[0], types, nullable, above) if len(branches) == 1 else Anything(nullable=nullable)
    if isinstance(node, str):
        return _build_scalar(node, {"type": node}, nullable)
    if node["type"] == "array":
        return ListOf(item=_build_shape(node["items"], types, False, above), nullable=nullable)
    if node["type"] == "map":
        return MapOf(value=_build_shape(node["values"], types, False, above), nullable=nullable)
    if node["type"] == "record":
        return Struct(fields=_build_fields(node, types, above | {node["name"]}), nullable=nullable)
    return _build_scalar(node["type"], node, nullable)


def _build_fields(node: JSONObject, types: Mapping[str, JSONObject], above: frozenset[str]) -> tuple[Field, ...]:
    return tuple(
        Field(
            name=part["name"],
            attribute=part["name"],
            shape=_build_shape(part["type"], types, False, above),
            required=True,
            description=str(part.get("doc", "")),
        )
        for part in node["fields"]
    )


def _build_scalar(kind: str, node: JSONObject, nullable: bool) -> Shape:
    if kind == "null":
        return Scalar(kind="string", nullable=True)
    logical = node.get("logicalType", "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(node.get("precision", 0)), int(node.get("scale", 0))
        return Scalar(kind="decimal", nullable=nullable, precision=precision, scale=scale)
    if (kind, logical) == ("long", "timestamp-nanos"):
        return Scalar(kind="timestamp", sent="int64", nullable=nullable)
    return Scalar(kind=_LOGICAL.get((kind, logical), _PLAIN_KINDS[kind]), nullable=nullable)


def find_constants(node: Type, types: Mapping[str, JSONObject]) -> dict[str, frozenset[JSON]]:
    """Return the enum fields of the record ``node``, each with its symbols; empty if ``node`` is not a record."""
    node = types.get(node, node) if isinstance(node, str) else node
    values_by_name: dict[str, frozenset[JSON]] = {}
    for part in node.get("fields", ()) if isinstance(node, dict) else ():
        kind = part["type"]
        kind = types.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, dict) and kind["type"] == "enum":
            values_by_name[part["name"]] = frozenset(kind["symbols"])
    return values_by_name


# The exceptions that the binary decoder raises for bytes that do not match the schema.
BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    SchemaResolutionError,
    struct.error,
)
# The library's messages name the stream with an address that differs each time.
_STREAM: Final = re.compile(r" from <_io\.BytesIO object at 0x[0-9a-f]+>")
# The first release whose enums may have a default for unknown symbols.
_ENUM_DEFAULTS: Final = (1, 9)
_RELEASE: Final = re.compile(r"\d+(\.\d+)*", re.ASCII)


@dataclass(frozen=True, kw_only=True, eq=False)
class AvroSchema:
    """An Avro schema: the top-level type of a document, or the named type of a deep link."""

    format: str
    names: Names
    type: Type
    link: str
    writer: AvroSchema | None = None
    warnings: tuple[Finding, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 digest of the format, the document and the deep link."""
        return digest(f"{self.format} {self.names.fingerprint} {self.link}".encode())

    def encode(self, value: JSON, content_type: str = "") -> bytes:
        """Return ``value`` as JSON if ``content_type`` is JSON, otherwise in binary. Raises ``PayloadError``."""
        if not (is_json(content_type) or self.is_binary(content_type)):
            raise make_unsupported_error(content_type, self.format)
        # The library's writer silently drops members that a record does not declare, so report them here.
        findings = self.validate(value) or list(islice(list_surplus(value, self.type, self.names.types), MAX_FINDINGS))
        if findings:
            raise PayloadError("schema_violation", findings)
        try:
            if is_json(content_type):
                return dump_json(json_encoding.encode(value, self.type, self.names.types))
            return self._encode_binary(value)
        except BROKEN as error:
            raise make_payload_error(
                "schema_violation", "avro", f"has no form in Avro: {error or type(error).__name__}"
            ) from None

    def _encode_binary(self, value: JSON) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, self._with_defaults, value)
        return stream.getvalue()

    def reading(self, writer: Schema) -> Schema:
        """Return this schema as the reader of payloads that ``writer`` wrote, by Avro's schema resolution (K-40)."""
        return replace(self, writer=writer) if isinstance(writer, AvroSchema) else writer

    def decode(self, payload: bytes, content_type: str = "") -> JSON:
        """Decode JSON if ``content_type`` is JSON, otherwise binary. Raises ``PayloadError``."""
        if is_json(content_type):
            return self._decode_text(payload)
        if not self.is_binary(content_type):
            raise make_unsupported_error(content_type, self.format)
        return self._decode_binary(payload)

    def is_binary(self, content_type: str) -> bool:
        """Return True if ``content_type`` means the binary encoding, as an empty one does."""
        name = parse_media_type(content_type)
        return not name or name == "application/octet-stream" or ("avro" in name and not is_json(name))

    def _decode_text(self, payload: bytes) -> JSON:
        sent = read_json(payload)
        written = self.writer or self
        value, findings = json_encoding.decode(sent, written.type, written.names.types)
        if findings:
            raise PayloadError("schema_violation", findings)
        return value if self.writer is None else self._resolve_value(value, self.writer)

    def _resolve_value(self, value: JSON, writer: AvroSchema) -> JSON:
        """Convert a value of the schema ``writer`` to this schema. Resolution is defined for the
        binary encoding only.
        """
        stream = BytesIO()
        try:
            fastavro.schemaless_writer(stream, writer.parsed, value)
        except BROKEN as error:
            raise make_payload_error("decode_error", "avro", f"not of the schema that wrote it: {error}") from None
        return self._decode_binary(stream.getvalue())

    def _decode_binary(self, payload: bytes) -> JSON:
        stream = BytesIO(payload)
        written = self.writer or self
        try:
            if self.writer is None:
                value = written.read_datum(stream, written.parsed, None)
            else:
                value = written.read_datum(stream, written.parsed, self._with_defaults)
            if written.has_indices:
                check_indices(payload, written.type, written.names.types)
        except BROKEN as error:
            why = _STREAM.sub(", the payload ends", str(error)) or type(error).__name__
            raise make_payload_error(
                "decode_error", "avro", f"not {self.link or 'this schema'} in Avro: {why}"
            ) from None
        # A datum does not encode its end. Remaining bytes mean that it was written with another schema.
        if stream.tell() != len(payload):
            surplus = len(payload) - stream.tell()
            raise make_payload_error("decode_error", "avro", f"{surplus} bytes follow the datum")
        return value

    @cached_property
    def has_indices(self) -> bool:
        """True if a datum may contain the index of a symbol or of an alternative, which has to be checked."""
        return has_indices(self.type, self.names.types)

    @cached_property
    def parsed(self) -> Any:
        """The schema in the form that the binary decoder of the library needs."""
        return fastavro.parse_schema(self.names.complete(self.type))

    @cached_property
    def _with_defaults(self) -> Any:
        """The parsed schema with defaults as Python values, as the library expects them when it reads and writes."""
        complete = _read_defaults(self.names.complete(self.type), self.names.types)
        return fastavro.parse_schema(complete, _ignore_default_error=True)

    @cached_property
    def read_datum(self) -> Any:
        """The function that decodes binary datums. Recursive schemas need the pure Python one: the
        compiled one crashes.
        """
        # The pure Python reader is ten times slower, so it is used for recursive schemas only.
        recursive = is_recursive(self.type, self.names.types)
        return _read_py.schemaless_reader if recursive else fastavro.schemaless_reader

    def validate(self, value: JSON) -> list[Finding]:
        """Return every violation in the decoded ``value``, at most ``MAX_FINDINGS``."""
        return list(islice(list_violations(value, self.type, self.names.types), MAX_FINDINGS))

    def with_numbers(self, value: JSON) -> JSON:
        """Return ``value``, stored as JSON, with the names of NaN and infinities replaced by numbers.

        A name remains where a type accepts it as text.
        """
        return json_encoding.with_numbers(value, self.type, self.names.types)

    def shape(self) -> Shape:
        """Return the shape of the values, for a record the columns of its fields."""
        return self._shape

    @cached_property
    def _shape(self) -> Shape:
        return make_shape(self.type, self.names.types)

    def tree(self) -> SchemaNode:
        """Return the tree of conforming values."""
        return make_tree(self.type, self.names.types)

    def constants(self) -> Mapping[str, frozenset[JSON]]:
        """Return the enum fields of a record with their symbols."""
        return find_constants(self.type, self.names.types)


def _read_defaults(node: Type, types: Mapping[str, JSONObject]) -> Type:
    """Return the complete schema ``node`` with all defaults as decoded values."""
    if isinstance(node, list):
        return [_read_defaults(branch, types) for branch in node]
    if not isinstance(node, dict):
        return node
    complete = {**node, **{key: _read_defaults(node[key], types) for key in ("items", "values") if key in node}}
    if "fields" in node:
        complete["fields"] = [_read_default(part, types) for part in node["fields"]]
    return complete


def _read_default(part: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject:
    # Use the original field, because its default may rely on defaults inside its type.
    value = {"default": json_encoding.read_default(part, types)} if "default" in part else {}
    return {**part, **value, "type": _read_defaults(part["type"], types)}


class AvroFormat:
    """The format for Avro schema documents of all releases. Later releases only added to the language."""

    name: Final = "Avro"
    versions: Final = (
        *("Avro/*", "Avro/1.8.2", "Avro/1.9", "Avro/1.10"),
        *("Avro/1.11", "Avro/1.11.0", "Avro/1.12", "Avro/1.12.0"),
    )

    def canonical(self, format: str) -> str | None:
        """Return ``Avro/<release>``, or ``Avro`` if ``format`` has no release; None if the release
        is not a version number.
        """
        version = format.partition("/")[2].strip()
        if "/" not in format:
            return self.name
        return f"{self.name}/{version}" if _RELEASE.fullmatch(version) else None

    def check(self, document: bytes, format: str) -> list[Finding]:  # noqa: ARG002 - all releases are read alike
        """Return the findings about ``document``. Types that it does not define are errors."""
        return self._find_problems(document, None)

    def parse(
        self,
        document: bytes,
        format: str,
        *,
        link: str = "",
        resolve: Resolve | None = None,
    ) -> AvroSchema:
        """Return the schema that ``link`` names: ``#Record``, ``:Record`` or only the name.

        ``resolve`` returns the documents of types that the document does not define, by full name. Raises
        ``SchemaError``.
        """
        names = _read_names(document, resolve)
        stated = link.removeprefix("#").removeprefix(":").removeprefix("/")
        name = names.find(stated) if stated else None
        if stated and name is None:
            there = ", ".join(names.types) or "none"
            message = f"{stated!r} names no type of the document, or several; there are: {there}"
            raise SchemaError([Finding(path=link, rule="link", message=shorten(message))])
        start = name or names.root
        # Such a schema is a security risk: a payload of ten bytes would make a reader create 2**60 items.
        if has_empty_items(start, names.types):
            message = "an array has items that take no bytes, so its length could not be trusted"
            raise SchemaError([Finding(path="", rule="empty_items", message=message)])
        return AvroSchema(format=self.canonical(format) or self.name, names=names, type=start, link=name or "")

    def identities(self, document: bytes) -> tuple[str, ...]:
        """Return the full names of the types that ``document`` defines at its top level."""
        return list_defined_names(document)

    def check_whole(self, text: SchemaText) -> list[Finding]:
        """Return the findings about a document and the types it uses from others. A missing type is an error."""
        return self._find_problems(text.document, text.resolve)

    def _find_problems(self, document: bytes, resolve: Resolve | None) -> list[Finding]:
        try:
            return list(_read_names(document, resolve).tolerated)
        except SchemaError as error:
            return list(error.findings)

    def differences(self, reader: SchemaText, writer: SchemaText) -> list[Difference]:
        """Return why schema resolution fails for some datum of ``writer``, comparing the top-level types.

        Raises ``SchemaError`` for a document that cannot be used.
        """
        return resolution.find_differences(
            _read_names(reader.document, reader.resolve),
            _read_names(writer.document, writer.resolve),
            enum_defaults=_release(reader.format) >= _ENUM_DEFAULTS,
        )


def _read_names(document: bytes, resolve: Resolve | None) -> Names:
    return read(document, resolve) if resolve else _read(document)


def _release(format: str) -> tuple[float, ...]:
    """Return the release in ``format`` as a tuple of numbers; without a release, a tuple greater than all releases."""
    version = format.partition("/")[2].strip()
    return tuple(map(int, version.split("."))) if _RELEASE.fullmatch(version) else (math.inf,)


_read = lru_cache(maxsize=64)(read)
FORMAT: Final = AvroFormat()
