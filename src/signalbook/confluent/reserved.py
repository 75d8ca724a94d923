"""Check reserved fields: names in the metadata of a schema that its fields must not have.

The property ``confluent:reserved`` lists them, separated by commas. They are checked if a config has ``validateFields``
(Confluent's ``ParsedSchema.getReservedFields``).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from signalbook.confluent.metadata import properties
from signalbook.confluent.protobuf import build_file_descriptor
from signalbook.formats.base import find_family
from signalbook.formats.compatibility import SchemaText
from signalbook.largejson import parse_untrusted_json
from signalbook.values import JSON

_PROPERTY: Final = "confluent:reserved"


def list_reserved_fields(metadata: JSON) -> set[str]:
    """Return the names that metadata reserves."""
    stated = properties(metadata).get(_PROPERTY)
    names = stated.split(",") if isinstance(stated, str) else ()
    return {name.strip() for name in names if name.strip()}


def find_conflicts(schema: SchemaText, reserved: Set[str], reserved_before: Set[str]) -> list[str]:
    """Return messages about fields of the schema that are ``reserved``, and about names that are no longer reserved.

    ``reserved_before`` are the names that the previous version reserves.
    """
    lost = [f"the field '{name}' is no longer reserved in the metadata" for name in sorted(reserved_before - reserved)]
    conflicts = sorted(reserved & list_top_level_fields(schema)) if reserved else []
    return [*lost, *(f"the schema has the field '{name}', which its metadata reserves" for name in conflicts)]


def list_top_level_fields(schema: SchemaText) -> set[str]:
    """Return the field names of an Avro record, a JSON object, or the first message of a Protobuf document."""
    if find_family(schema.format) == "protobuf":
        described = build_file_descriptor(schema.document.decode("utf-8"), schema.resolve or (lambda _: None))
        messages = FileDescriptorProto.FromString(described).message_type
        return {field.name for message in messages[:1] for field in message.field}
    value = parse_untrusted_json(schema.document)
    if not isinstance(value, dict):
        return set()
    if find_family(schema.format) == "jsonschema":
        return set(value["properties"]) if isinstance(value.get("properties"), dict) else set()
    fields = value.get("fields")
    names = (field.get("name") for field in fields if isinstance(field, dict)) if isinstance(fields, list) else ()
    return {name for name in names if isinstance(name, str)}
