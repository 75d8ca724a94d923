"""Data contracts: the landed tables of each group in the Open Data Contract Standard 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa

from signalbook.codegen.base import Generated, Generator, GeneratorInput
from signalbook.codegen.naming import group_files, last_part
from signalbook.codegen.yamlfiles import yaml_file
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, landing_table, table_columns
from signalbook.values import JSONObject

_VERSION: Final = "v3.1.0"
_KINDS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time"),
    (pa.types.is_list, "array"),
    (pa.types.is_struct, "object"),
    (pa.types.is_map, "object"),
)


def _generate(given: GeneratorInput) -> Generated:
    """A contract for each group."""
    names = group_files(given.by_group)
    return Generated(
        files=tuple(
            yaml_file(
                given,
                f"{names[group]}.odcs.yaml",
                _contract(given, group, definitions),
                (each.xid for each in definitions),
            )
            for group, definitions in given.by_group.items()
        )
    )


def _contract(given: GeneratorInput, group: str, definitions: tuple[CompiledDefinition, ...]) -> JSONObject:
    entity = given.entity(group)
    deprecated = all(each.definition.get("deprecated") for each in definitions)
    contract: JSONObject = {
        "apiVersion": _VERSION,
        "kind": "DataContract",
        # The same in every run: a contract is known by it.
        "id": str(uuid5(NAMESPACE_URL, group)),
        "name": str(entity.get("name") or last_part(group)),
        "version": given.option("version") or "1.0.0",
        "status": "deprecated" if deprecated else "active",
    }
    if entity.get("description"):
        contract["description"] = {"purpose": str(entity["description"])}
    contract["schema"] = [_table(each) for each in definitions]
    contract["customProperties"] = [{"property": "xid", "value": group}]
    return contract


def _table(definition: CompiledDefinition) -> JSONObject:
    name = landing_table(definition)
    table: JSONObject = {
        "name": str(definition.definition.get("name") or definition.message_id),
        "physicalName": str(name),
        "logicalType": "object",
        "physicalType": "table",
    }
    if definition.definition.get("description"):
        table["description"] = str(definition.definition["description"])
    table["properties"] = [_column(each) for each in table_columns(definition, times=True)]
    table["customProperties"] = [{"property": "xid", "value": definition.xid}]
    return table


def _column(column: TableColumn) -> JSONObject:
    found = {"name": column.name, **_typed(column.field.type), "physicalType": column.type}
    if column.description:
        found["description"] = column.description
    if column.required:
        found["required"] = True
    if column.values:
        arguments = {"validValues": list(column.values)}
        found["quality"] = [{"type": "library", "metric": "invalidValues", "arguments": arguments, "mustBe": 0}]
    return found


def _typed(kind: pa.DataType) -> JSONObject:
    """The logical type; what the standard has no word for (bytes, text) is a string."""
    found: JSONObject = {"logicalType": next((name for holds, name in _KINDS if holds(kind)), "string")}
    if pa.types.is_list(kind):
        found["items"] = _typed(kind.value_type)
    elif pa.types.is_struct(kind):
        found["properties"] = [{"name": field.name, **_typed(field.type)} for field in kind]
    return found


GENERATOR: Final = Generator(
    summary="data contracts of the landed tables: Open Data Contract Standard 3",
    generate=_generate,
    options={"version": "the version of the contracts, such as 1.0.0"},
)
