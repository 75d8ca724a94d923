"""The types of an Avro schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signalbook.codegen.datatypes import (
    ANY,
    NULL,
    ClosedSet,
    DataRecord,
    DataType,
    ListType,
    MapType,
    PlainKind,
    PlainType,
    RecordMember,
    RecordTable,
    union,
)
from signalbook.formats.avro.document import PRIMITIVES, Type
from signalbook.formats.avro.format import AvroSchema, make_shape
from signalbook.formats.shape import Scalar
from signalbook.values import JSONObject

SCALARS: Final[Mapping[str, PlainKind]] = {
    "bool": "boolean", "int32": "integer", "int64": "integer", "uint64": "integer", "float32": "number",
    "float64": "number", "string": "text", "bytes": "bytes", "timestamp": "timestamp", "date": "date", "time": "time",
    "decimal": "decimal", "uuid": "text", "duration": "decimal",
}  # fmt: skip
"""By the kind of a ``Scalar``: what ``Schema.decode`` gives for it."""


class AvroTypes:
    """The types of one schema and of the named types it uses, in ``table``."""

    def __init__(self, schema: AvroSchema, table: RecordTable) -> None:
        self._types = schema.names.types
        self._table = table

    def of(self, node: Type, hint: str) -> DataType:
        """The type of the data of ``node``."""
        if isinstance(node, list):
            return union(self.of(branch, hint) for branch in node)
        definition = self._types[node] if isinstance(node, str) and node not in PRIMITIVES else node
        kind = definition if isinstance(definition, str) else str(definition["type"])
        schema: JSONObject = {"type": definition} if isinstance(definition, str) else definition
        match kind:
            case "null":
                return NULL
            case "array":
                return ListType(self.of(schema["items"], hint))
            case "map":
                return MapType(self.of(schema["values"], hint))
            case "enum":
                return ClosedSet(tuple(schema["symbols"]))
            case "record" | "error":
                return self._record(schema)
        shape = make_shape(definition, self._types)
        return PlainType(SCALARS[shape.sent or shape.kind]) if isinstance(shape, Scalar) else ANY

    def _record(self, schema: JSONObject) -> DataType:
        name = str(schema["name"])

        def fill(record: DataRecord) -> None:
            record.members = tuple(
                RecordMember(
                    name=part["name"],
                    type=self.of(part["type"], f"{name} {part['name']}"),
                    required="default" not in part,
                    description=str(part.get("doc") or ""),
                )
                for part in schema["fields"]
            )

        return self._table.refer(name, name.rpartition(".")[2], fill, str(schema.get("doc") or ""))
