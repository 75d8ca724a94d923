"""The types of payloads, one table for each schema document, for targets that make code of definitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from signalbook.codegen.avrotypes import AvroTypes
from signalbook.codegen.base import GeneratorInput, Inexpressible
from signalbook.codegen.datatypes import ANY, DataType, RecordTable
from signalbook.codegen.jsontypes import JsonTypes
from signalbook.codegen.naming import last_part, pascal, snake, unique
from signalbook.codegen.prototypes import ProtobufTypes
from signalbook.codegen.structuretypes import StructureTypes
from signalbook.formats.avro.format import AvroSchema
from signalbook.formats.jsonschema.format import JsonSchema
from signalbook.formats.jsonstructure.format import JsonStructure
from signalbook.formats.protobuf.format import ProtobufSchema
from signalbook.messages import CompiledDefinition

JSON_AVRO_PROTOBUF: Final = frozenset({"JsonSchema", "Avro", "Protobuf"})
ALL_FORMATS: Final = JSON_AVRO_PROTOBUF | {"XSD", "JsonStructure"}
_LINK: Final = re.compile(r"[^/#.]+$")


@dataclass(slots=True)
class PayloadTypes:
    """A schema document: its unique name, its types, and the type of each payload by the definition's xid."""

    name: str
    table: RecordTable
    roots: dict[str, DataType]


def payload_types(
    input: GeneratorInput, formats: frozenset[str] = JSON_AVRO_PROTOBUF
) -> tuple[dict[str, PayloadTypes], dict[str, str]]:
    """The documents by what names them, and the definitions whose types cannot be had, with the reason.

    ``formats`` are those that a target has a use for, by the names of their families.
    """
    documents: dict[str, PayloadTypes] = {}
    left_out: dict[str, str] = {}
    for xid, definition in input.messages.items():
        use = definition.schema_use
        if use.schema is None or use.schema.format.partition("/")[0] not in formats:
            continue
        document = documents.setdefault(use.document, PayloadTypes(_choose_name(definition), RecordTable(), {}))
        try:
            document.roots[xid] = _find_root(definition, document.table)
        except (Inexpressible, RecursionError) as error:
            left_out[xid] = str(error) or "its schema is nested too deep"
    names = unique(documents, lambda key: documents[key].name)
    for key, document in documents.items():
        document.name = names[key]
    return documents, left_out


def _choose_name(definition: CompiledDefinition) -> str:
    """Return the name of the schema. An inline one has the name of its message."""
    return snake(last_part(definition.schema_use.resource or definition.xid), "payload")


def _find_root(definition: CompiledDefinition, table: RecordTable) -> DataType:
    """Raises ``Inexpressible``."""
    use = definition.schema_use
    link = _LINK.search(use.link)
    hint = link[0] if link else pascal(last_part(use.resource or definition.xid), "Payload")
    match use.schema:
        case JsonSchema():
            return JsonTypes(use.schema, table).at(use.schema.uri, hint)
        case AvroSchema():
            return AvroTypes(use.schema, table).of(use.schema.type, hint)
        case ProtobufSchema():
            return ProtobufTypes(table).message(use.schema.descriptor)
        case JsonStructure():
            return StructureTypes(use.schema.structure, table).root(use.schema, hint)
    # Its library is imported with the first document: most have none.
    from signalbook.codegen.xsdtypes import XsdTypes
    from signalbook.formats.xsd.schema import XsdSchema

    return XsdTypes(table).root(use.schema) if isinstance(use.schema, XsdSchema) else ANY
