"""Message definitions as tables: what a program has to know of one to build, send, match and read its messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from signalbook.codegen.base import GeneratorInput, Inexpressible
from signalbook.codegen.datatypes import DataType
from signalbook.codegen.payloadtypes import PayloadTypes, payload_types
from signalbook.codegen.standalone.avro import AvroSchemas
from signalbook.codegen.standalone.jsonschema import JsonSchemas
from signalbook.codegen.standalone.patterns import portable
from signalbook.codegen.standalone.protobuf import ProtobufFiles
from signalbook.codegen.standalone.rules import SchemaRules
from signalbook.codegen.standalone.wire import WireNodes
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.base import is_json, parse_media_type
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.messages import CompiledDefinition, Param, required_inputs
from signalbook.messages.cloudevents import JSON_FORMAT, MEDIA_TYPE
from signalbook.messages.content import aliases, is_content_type
from signalbook.messages.producing.building import declare_properties, is_open
from signalbook.messages.producing.values import ENVELOPE
from signalbook.messages.properties import LEGACY_NOW, NOW, Property
from signalbook.uris import is_uri
from signalbook.values import JSON, JSONObject

_ENCODINGS: Final = ("content-encoding", "content_encoding")
_IDENTITY: Final = ("", "identity")
SchemaFormat = Literal["json", "avro", "protobuf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneMessage:
    """A definition for code without Signalbook's runtime.

    ``inputs`` are arguments of ``build`` in addition to the payload, ``table`` is the data for the runtime. ``type`` is
    the payload's, None for bytes that no schema describes.
    """

    definition: CompiledDefinition
    inputs: tuple[Param, ...]
    table: JSONObject
    types: PayloadTypes | None
    type: DataType | None


SchemaTable = JsonSchemas | SchemaRules | WireNodes | AvroSchemas | ProtobufFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadDocument:
    """The types of one schema document, the schema for a runtime, and the xids of the messages that use it."""

    types: PayloadTypes
    table: SchemaTable
    xids: tuple[str, ...]

    @property
    def schema(self) -> JSONObject:
        """The schema as a runtime without libraries reads it."""
        return {"format": self.table.format, "rules" if self.table.format == "json" else "wire": self.table.document}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """The common content of standalone targets: messages, the schema of each document, and what is left out."""

    messages: Mapping[str, StandaloneMessage]
    schemas: Mapping[str, SchemaTable]
    left_out: Mapping[str, str]

    @property
    def documents(self) -> dict[str, PayloadDocument]:
        """The documents that messages use, by name."""
        users: dict[str, list[str]] = {}
        types = {}
        for xid, message in self.messages.items():
            if message.types is not None:
                types[message.types.name] = message.types
                users.setdefault(message.types.name, []).append(xid)
        return {
            name: PayloadDocument(types=types[name], table=self.schemas[name], xids=tuple(xids))
            for name, xids in users.items()
        }


def standalone(
    input: GeneratorInput,
    check: Callable[[PayloadTypes], None] = lambda _: None,
    pattern: Callable[[str], str] = portable,
    libraries: Collection[SchemaFormat] = (),
) -> Standalone:
    """The messages of the input, and those that such code has no form for.

    ``check`` raises ``Inexpressible`` for types that the language has no form for, ``pattern`` for patterns.
    ``libraries`` are the formats for which generated code calls a library. Other formats are read by the runtime.
    """
    input.progress("reading the types of payloads")
    documents, left_out = payload_types(input)
    schemas: dict[str, SchemaTable] = {}
    messages = {}
    for xid, definition in input.messages.items():
        if xid in left_out:
            continue
        types = documents.get(definition.schema_use.document) if definition.schema_use.schema else None
        try:
            if types is not None:
                check(types)
            messages[xid] = _build_message(definition, types, partial(_find_root, schemas, pattern, libraries))
        except (Inexpressible, RecursionError) as error:
            left_out[xid] = str(error) or "its schema is nested too deep"
    return Standalone(messages=messages, schemas=schemas, left_out=left_out)


def _build_message(
    definition: CompiledDefinition,
    types: PayloadTypes | None,
    find_root: Callable[[CompiledDefinition, PayloadTypes | None, str], JSON],
) -> StandaloneMessage:
    """Raises ``Inexpressible``."""
    inputs = tuple(param for param in required_inputs(definition) if param.source == "template" or param.required)
    input_paths = {param.paths[0] for param in inputs if param.source == "property"}
    mode, form = _choose_mode(definition)
    content_type, stated = _choose_content_type(definition)
    table: JSONObject = {
        "xid": definition.xid,
        "id": definition.message_id,
        "event": definition.is_event,
        "protocol": definition.protocol,
        "mode": mode or ("structured" if form else ""),
        "contentType": content_type,
        "stated": stated,
        "aliases": sorted(aliases(content_type)),
        "properties": [_describe_property(param, input_paths) for param in declare_properties(definition)],
    }
    uri = definition.definition.get("dataschemauri")
    if isinstance(uri, str) and is_uri(uri):
        table["dataschema"] = uri
    if definition.schema_use.schema is not None:
        table["root"] = find_root(definition, types, content_type)
    return StandaloneMessage(
        definition=definition,
        inputs=inputs,
        table=table,
        types=types,
        type=types.roots[definition.xid] if types is not None else None,
    )


def _find_root(
    schemas: dict[str, SchemaTable],
    pattern: Callable[[str], str],
    libraries: Collection[SchemaFormat],
    definition: CompiledDefinition,
    types: PayloadTypes | None,
    content_type: str,
) -> JSON:
    """Return the place of the payload's type in the table of its document."""
    schema = definition.schema_use.schema
    if types is None or not isinstance(schema, (JsonSchema, AvroSchema, ProtobufSchema)):
        raise Inexpressible(f"its payload is of {schema and schema.format}, which this target does not write")
    if content_type and is_json(content_type) != isinstance(schema, JsonSchema):
        raise Inexpressible(f"its payload is {content_type}, and this target does not write {schema.format} as that")
    if types.name not in schemas:
        schemas[types.name] = _make_table(schema, pattern, libraries)
    return schemas[types.name].of(schema)


def _make_table(
    schema: JsonSchema | AvroSchema | ProtobufSchema,
    pattern: Callable[[str], str],
    libraries: Collection[SchemaFormat],
) -> SchemaTable:
    match schema:
        case JsonSchema():
            table = JsonSchemas if "json" in libraries else SchemaRules
            return table(schema.document, pattern)
        case AvroSchema():
            return AvroSchemas() if "avro" in libraries else WireNodes("avro")
        case ProtobufSchema():
            return ProtobufFiles() if "protobuf" in libraries else WireNodes("protobuf")


def _choose_content_type(definition: CompiledDefinition) -> tuple[str, bool]:
    """Return the content type of payloads, and whether the definition states it, so that only the same will do."""
    outer = str(definition.definition.get("datacontenttype") or "")
    return definition.payload_type, definition.payload_type == outer and is_content_type(outer)


def _choose_mode(definition: CompiledDefinition) -> tuple[str, str]:
    """Return the content mode and the event format that the definition demands. Raises ``Inexpressible``."""
    options = definition.definition.get("envelopeoptions") or {}
    outer = str(definition.definition.get("datacontenttype") or "")
    form = outer if outer.lower().startswith(MEDIA_TYPE) else str(options.get("format") or "")
    if form and parse_media_type(form) != JSON_FORMAT:
        raise Inexpressible(f"its events are {form}; this target has them in {JSON_FORMAT} alone")
    return str(options.get("mode") or ""), form


def _describe_property(declared: Property, input_paths: set[str]) -> JSONObject:
    """An attribute or an option of the protocol. Raises ``Inexpressible``."""
    scope, _, name = declared.path.partition(".")
    value = declared.value
    if name.lower().rpartition(".")[2] in _ENCODINGS and str(value or "").lower() not in _IDENTITY:
        raise Inexpressible(f"its payload is compressed ({value}), which this target does not do")
    entry: JSONObject = {"name": declared.name, "path": declared.path, "type": declared.type}
    flags = {
        "attribute": scope + "." == ENVELOPE,
        "required": declared.required,
        "multiple": declared.multiple,
        "delivery": declared.role == "delivery",
        "contentType": declared.comparison == "content_type",
        "input": declared.path in input_paths,
    }
    entry |= {flag: True for flag, on in flags.items() if on}
    template = declared.template()
    if template is not None:
        entry["template"] = {
            "text": template.text,
            "names": list(template.names),
            "literals": list(template.literals),
            "encoded": template.encoded,
            "separator": template.separator,
        }
    elif value in (NOW, LEGACY_NOW) and declared.type == "timestamp":
        entry["now"] = True
    elif not is_open(declared):
        entry["value"] = _format_value(value)
    return entry


def _format_value(value: JSON) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def argument_names(message: StandaloneMessage) -> Iterator[Param]:
    """Yield the arguments of ``build`` in addition to the payload, required ones first."""
    yield from sorted(message.inputs, key=lambda each: not each.required)
