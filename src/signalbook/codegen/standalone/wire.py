"""Avro schemas and Protobuf messages as flat tables of nodes, for programs that read and write the binary encodings.

Nodes refer to each other by their places. Values are JSON: bytes are base64, decimals and times text.

Avro: ``null``, ``boolean``, ``int``, ``long``, ``float``, ``double``, ``bytes``, ``string``, ``fixed`` (``size``), with
``logical`` (``date``, ``time-millis``, ``time-micros``, ``timestamp-millis``, ``timestamp-micros``, ``decimal`` with
``precision`` and ``scale``); ``enum`` (``symbols``), ``array`` and ``map`` (``of``), ``union`` (``branches``),
``record`` (``fields``: ``name``, ``of``, ``default`` if it has one).

Protobuf: the scalars by their names; ``enum`` (``numbers`` by name, ``closed``), ``wrapper`` (``of``), ``timestamp``,
``duration``, ``message`` (``fields``: ``name``, ``number``, ``of``, ``label``: ``implicit``, ``optional``,
``required``, ``repeated``, ``packed`` or ``map``, whose keys are ``key``; ``oneof``, a name).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final, Literal

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from signalbook.codegen.base import Inexpressible
from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.protobuf.convert import map_value
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.values import JSON, JSONObject

_LOGICAL: Final = frozenset(
    {
        *(("int", "date"), ("int", "time-millis"), ("long", "time-micros")),
        *(("long", "timestamp-millis"), ("long", "timestamp-micros"), ("bytes", "decimal"), ("fixed", "decimal")),
    }
)
_F: Final = FieldDescriptor
_SCALARS: Final[Mapping[int, str]] = {
    getattr(_F, f"TYPE_{name.upper()}"): name
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
_GOOGLE: Final = "google.protobuf."
_TIME_KINDS: Final = {_GOOGLE + "Timestamp": "timestamp", _GOOGLE + "Duration": "duration"}
_WRAPPERS: Final = frozenset(
    f"{_GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class WireNodes:
    """The nodes of one document; ``nodes`` grows as types are asked for. ``format`` is ``avro`` or ``protobuf``."""

    def __init__(self, format: Literal["avro", "protobuf"]) -> None:
        self.format = format
        self.nodes: list[JSON] = []
        self._known: dict[str, int] = {}

    @property
    def document(self) -> JSON:
        """The table."""
        return self.nodes

    def of(self, schema: Any) -> int:
        """The place of the type of an Avro or Protobuf schema. Raises ``Inexpressible``."""
        if isinstance(schema, AvroSchema):
            return self._add_avro(schema.type, schema.names.types)
        assert isinstance(schema, ProtobufSchema)
        return self._add_message(schema.descriptor)

    def _add(self, node: JSONObject) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _add_named(self, name: str) -> tuple[int, JSONObject]:
        """The place of a type that may refer to itself, and the node to be filled."""
        node: JSONObject = {}
        self._known[name] = self._add(node)
        return self._known[name], node

    def _add_avro(self, node: Type, types: Mapping[str, JSONObject]) -> int:
        if isinstance(node, str):
            return self._add_avro({"type": node} if node in PRIMITIVES else types[node], types)
        if isinstance(node, list):
            return self._add({"kind": "union", "branches": [self._add_avro(branch, types) for branch in node]})
        kind, name = str(node["type"]), str(node.get("name", ""))
        if name and name in self._known:
            return self._known[name]
        place, entry = self._add_named(name) if name else (self._add({}), {})
        if not name:
            self.nodes[place] = entry
        entry["kind"] = "record" if kind == "error" else kind
        self._fill_avro(kind, node, types, entry)
        return place

    def _fill_avro(self, kind: str, node: JSONObject, types: Mapping[str, JSONObject], entry: JSONObject) -> None:
        logical = str(node.get("logicalType", ""))
        if (kind, logical) in _LOGICAL:
            entry["logical"] = logical
        if logical == "decimal":
            entry |= {"precision": node.get("precision", 0), "scale": node.get("scale", 0)}
        match kind:
            case "array" | "map":
                entry["of"] = self._add_avro(node["items" if kind == "array" else "values"], types)
            case "enum":
                entry["symbols"] = list(node["symbols"])
            case "fixed":
                entry["size"] = node["size"]
            case "record" | "error":
                entry["fields"] = [self._build_avro_field(field, types) for field in node["fields"]]

    def _build_avro_field(self, field: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject:
        place = self._add_avro(field["type"], types)
        document: JSONObject = {"name": field["name"], "of": place}
        if "default" in field:
            document["default"] = _encode_default(field["default"], field["type"], types)
        return document

    def _add_message(self, descriptor: Descriptor) -> int:
        name = descriptor.full_name
        if name in self._known:
            return self._known[name]
        if name in _TIME_KINDS:
            return self._add({"kind": _TIME_KINDS[name]})
        if name in _WRAPPERS:
            return self._add({"kind": "wrapper", "of": self._add_single(descriptor.fields_by_name["value"])})
        if name.startswith(_GOOGLE):
            raise Inexpressible(f"its payload has a {name}, which this target does not write")
        place, entry = self._add_named(name)
        entry["kind"] = "message"
        entry["fields"] = [self._build_field(field) for field in descriptor.fields]
        return place

    def _build_field(self, field: FieldDescriptor) -> JSONObject:
        entry = map_value(field)
        document: JSONObject = {"name": field.name, "number": field.number, "of": self._add_single(entry or field)}
        if entry is not None and field.message_type is not None:
            return {**document, "label": "map", "key": self._add_single(field.message_type.fields_by_name["key"])}
        if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1:
            document["oneof"] = field.containing_oneof.name
        return {**document, "label": _choose_label(field)}

    def _add_single(self, field: FieldDescriptor) -> int:
        if field.type == _F.TYPE_GROUP:
            raise Inexpressible(f"its payload has a group, {field.full_name}, which this target does not write")
        if field.message_type is not None:
            return self._add_message(field.message_type)
        if field.enum_type is not None:
            return self._add_enum(field.enum_type)
        return self._add({"kind": _SCALARS[field.type]})

    def _add_enum(self, descriptor: EnumDescriptor) -> int:
        numbers = {value.name: value.number for value in descriptor.values}
        return self._add({"kind": "enum", "numbers": numbers, "closed": descriptor.is_closed})


def _choose_label(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "packed" if field.is_packed else "repeated"
    if field.is_required:
        return "required"
    return "optional" if field.has_presence else "implicit"


def _encode_default(value: JSON, node: Type, types: Mapping[str, JSONObject]) -> JSON:
    """A default of a schema as values have it: bytes, which are text with a character for each byte, as base64."""
    if isinstance(node, list):
        return _encode_default(value, node[0], types)
    if isinstance(node, str):
        node = {"type": node} if node in PRIMITIVES else types[node]
    kind = node["type"]
    if (kind, node.get("logicalType")) in _LOGICAL:
        raise Inexpressible(f"its schema has a default for a {node['logicalType']}")
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return b64encode(value.encode("latin-1")).decode()
    if kind == "array" and isinstance(value, list):
        return [_encode_default(member, node["items"], types) for member in value]
    if kind == "map" and isinstance(value, dict):
        return {name: _encode_default(member, node["values"], types) for name, member in value.items()}
    if kind in ("record", "error") and isinstance(value, dict):
        types_by_field = {field["name"]: field["type"] for field in node["fields"]}
        return {
            name: _encode_default(member, types_by_field[name], types)
            for name, member in value.items()
            if name in types_by_field
        }
    return value
