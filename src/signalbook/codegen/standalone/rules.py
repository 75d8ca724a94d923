"""JSON Schemas as a flat table of rules, for languages whose runtime checks values itself.

A rule is ``true``, ``false`` or an object; sub-schemas are places in the table. Rules are schemas in the normal form of
``jsonschema`` with other names of keywords. ``patterns`` has pairs of a pattern and a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from signalbook.codegen.standalone.jsonschema import CONTENT, JsonSchemas
from signalbook.codegen.standalone.patterns import portable
from signalbook.formats.jsonschema.document import JsonSchemaDocument
from signalbook.values import JSON

_NAMES: Final = {
    "enum": "values", "minimum": "min", "maximum": "max", "exclusiveMinimum": "above", "exclusiveMaximum": "below",
    "multipleOf": "multiple", "additionalProperties": "others", "propertyNames": "names", "uniqueItems": "unique",
    "dependentRequired": "requires", "dependentSchemas": "dependents", "prefixItems": "prefix", "allOf": "all",
    "anyOf": "any", "oneOf": "one",
}  # fmt: skip


class SchemaRules:
    """The rules of one document; they grow as places are asked for. ``pattern`` is as in ``JsonSchemas``."""

    format: Final[Literal["json"]] = "json"

    def __init__(self, document: JsonSchemaDocument, pattern: Callable[[str], str] = portable) -> None:
        self._schemas = JsonSchemas(document, pattern)

    @property
    def document(self) -> list[JSON]:
        """The table."""
        return [_write_rule(schema) for schema in self._schemas.rules]

    def of(self, schema: Any) -> int:
        """The place of a schema of the document. Raises ``Inexpressible``."""
        return self._schemas.at(schema.uri)


def _write_rule(schema: Any) -> JSON:
    if not isinstance(schema, dict):
        return bool(schema)
    rule = {_NAMES.get(name, name): value for name, value in schema.items() if name not in CONTENT}
    if "patternProperties" in rule:
        rule["patterns"] = [list(pair) for pair in rule.pop("patternProperties").items()]
    return rule
