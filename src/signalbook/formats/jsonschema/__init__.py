"""JSON Schema."""

from signalbook.formats.jsonschema.format import FORMAT, JsonSchema, JsonSchemaFormat

__all__ = ["FORMAT", "JsonSchema", "JsonSchemaFormat"]
