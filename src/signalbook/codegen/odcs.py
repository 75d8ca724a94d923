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
from signalbook.pipeline.tables.ddl import TableColumn, find_landing_table, list_table_columns
from signalbook.values import JSONObject

_ODCS_VERSION: Final = "v3.1.0"
_LOGICAL_TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
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


def _generate_odcs(input: GeneratorInput) -> Generated:
    """A contract for each group."""
    names = group_files(input.by_group)
    return Generated(
        files=tuple(
            yaml_file(
                input,
                f"{names[group]}.odcs.yaml",
                _build_contract(input, group, definitions),
                (definition.xid for definition in definitions),
            )
            for group, definitions in input.by_group.items()
        )
    )


def _build_contract(input: GeneratorInput, group: str, definitions: tuple[CompiledDefinition, ...]) -> JSONObject:
    entity = input.entity(group)
    deprecated = all(definition.definition.get("deprecated") for definition in definitions)
    contract: JSONObject = {
        "apiVersion": _ODCS_VERSION,
        "kind": "DataContract",
        # The same in every run: a contract is known by it.
        "id": str(uuid5(NAMESPACE_URL, group)),
        "name": str(entity.get("name") or last_part(group)),
        "version": input.option("version") or "1.0.0",
        "status": "deprecated" if deprecated else "active",
    }
    if entity.get("description"):
        contract["description"] = {"purpose": str(entity["description"])}
    contract["schema"] = [_build_table(definition) for definition in definitions]
    contract["customProperties"] = [{"property": "xid", "value": group}]
    return contract


def _build_table(definition: CompiledDefinition) -> JSONObject:
    name = find_landing_table(definition)
    table: JSONObject = {
        "name": str(definition.definition.get("name") or definition.message_id),
        "physicalName": str(name),
        "logicalType": "object",
        "physicalType": "table",
    }
    if definition.definition.get("description"):
        table["description"] = str(definition.definition["description"])
    table["properties"] = [_build_column(column) for column in list_table_columns(definition, times=True)]
    table["customProperties"] = [{"property": "xid", "value": definition.xid}]
    return table


def _build_column(column: TableColumn) -> JSONObject:
    document = {"name": column.name, **_describe_type(column.field.type), "physicalType": column.type}
    if column.description:
        document["description"] = column.description
    if column.required:
        document["required"] = True
    if column.values:
        arguments = {"validValues": list(column.values)}
        document["quality"] = [{"type": "library", "metric": "invalidValues", "arguments": arguments, "mustBe": 0}]
    return document


def _describe_type(kind: pa.DataType) -> JSONObject:
    """The logical type; what the standard has no word for (bytes, text) is a string."""
    document: JSONObject = {"logicalType": next((name for holds, name in _LOGICAL_TYPES if holds(kind)), "string")}
    if pa.types.is_list(kind):
        document["items"] = _describe_type(kind.value_type)
    elif pa.types.is_struct(kind):
        document["properties"] = [{"name": field.name, **_describe_type(field.type)} for field in kind]
    return document


GENERATOR: Final = Generator(
    summary="data contracts of the landed tables: Open Data Contract Standard 3",
    generate=_generate_odcs,
    options={"version": "the version of the contracts, such as 1.0.0"},
)
