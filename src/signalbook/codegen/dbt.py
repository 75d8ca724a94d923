"""Landed tables as sources of dbt: columns, types, descriptions, tests."""

from __future__ import annotations

from typing import Final

from signalbook.codegen.base import Generated, Generator, GeneratorInput
from signalbook.codegen.naming import group_files, last_part, snake, unique
from signalbook.codegen.yamlfiles import yaml_file
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, landing_table, table_columns
from signalbook.values import JSONObject


def _generate(given: GeneratorInput) -> Generated:
    """A file for each group, which is a source."""
    files = group_files(given.by_group)
    sources = unique(given.by_group, lambda group: snake(files[group], "source"))
    return Generated(
        files=tuple(
            yaml_file(
                given,
                f"{files[group]}.yml",
                _source(given, sources[group], group, definitions),
                (each.xid for each in definitions),
            )
            for group, definitions in given.by_group.items()
        )
    )


def _source(given: GeneratorInput, name: str, group: str, definitions: tuple[CompiledDefinition, ...]) -> JSONObject:
    names = unique((each.xid for each in definitions), lambda xid: snake(last_part(xid), "message"))
    source: JSONObject = {"name": name, "schema": landing_table(definitions[0]).group}
    source |= _described(given.entity(group))
    source["quoting"] = {"schema": True, "identifier": True}
    source["tables"] = [_table(each, names[each.xid]) for each in definitions]
    return {"version": 2, "sources": [source]}


def _table(definition: CompiledDefinition, name: str) -> JSONObject:
    table: JSONObject = {"name": name, "identifier": landing_table(definition).message}
    table |= _described(definition.definition)
    table["columns"] = [_column(each) for each in table_columns(definition, times=True)]
    return table


def _column(column: TableColumn) -> JSONObject:
    found: JSONObject = {"name": column.name, "quote": True, "data_type": column.type}
    if column.description:
        found["description"] = _plain(column.description)
    tests: list[str | JSONObject] = ["not_null"] if column.required else []
    if column.values:
        tests.append({"accepted_values": {"arguments": {"values": list(column.values)}}})  # as of dbt 1.10.5
    return {**found, "data_tests": tests} if tests else found


def _described(entity: JSONObject) -> JSONObject:
    text = str(entity.get("description") or "")
    return {"description": _plain(text)} if text else {}


def _plain(text: str) -> str:
    """A description that dbt renders as it is: what looks like the beginning of a template is none."""
    return text.replace("{{", "{ {").replace("{%", "{ %").replace("{#", "{ #")


GENERATOR: Final = Generator(summary="the landed tables as sources of dbt, with tests", generate=_generate)
