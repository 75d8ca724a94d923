"""Landed tables as sources of dbt: columns, types, descriptions, tests.

dbt renders the texts of a source as Jinja templates, which can run SQL and read environment variables, and puts names
of columns and accepted values into the SQL of tests. No text of a definition may be a template, or end its quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from signalbook.codegen.base import Generated, Generator, GeneratorInput
from signalbook.codegen.naming import group_files, last_part, snake, unique
from signalbook.codegen.yamlfiles import yaml_file
from signalbook.messages import CompiledDefinition
from signalbook.pipeline.tables.ddl import TableColumn, find_landing_table, list_table_columns
from signalbook.values import JSONObject, dump_json

# What dbt itself looks for before it renders a text.
_TEMPLATE: Final = re.compile(r"\{[{%#]|[#}%]\}")
# Jinja makes one kind of line break of all, and drops the last.
_LINE_BREAK: Final = re.compile(r"[\r\n]")
# Adapters put names of columns between double quotes or backquotes as they are, and values between single quotes. In
# some databases a backslash begins an escape there, and Spark replaces ${env:NAME} in any SQL. Such columns have no
# tests.
_UNSAFE_NAME: Final = re.compile(r"[\"`\\\x00-\x1f\x7f]|\$\{")
_UNSAFE_VALUE: Final = re.compile(r"[\\\x00-\x1f\x7f]|\$\{")


def _generate_dbt(input: GeneratorInput) -> Generated:
    """A file for each group, which is a source."""
    files = group_files(input.by_group)
    sources = unique(input.by_group, lambda group: snake(files[group], "source"))
    return Generated(
        files=tuple(
            yaml_file(
                input,
                f"{files[group]}.yml",
                _build_source(input, sources[group], group, definitions),
                (definition.xid for definition in definitions),
            )
            for group, definitions in input.by_group.items()
        )
    )


def _build_source(
    input: GeneratorInput, name: str, group: str, definitions: tuple[CompiledDefinition, ...]
) -> JSONObject:
    names = unique((definition.xid for definition in definitions), lambda xid: snake(last_part(xid), "message"))
    source: JSONObject = {"name": name, "schema": find_landing_table(definitions[0]).group}
    source |= _describe_entity(input.entity(group))
    source["quoting"] = {"schema": True, "identifier": True}
    source["tables"] = [_build_table(definition, names[definition.xid]) for definition in definitions]
    return {"version": 2, "sources": [source]}


def _build_table(definition: CompiledDefinition, name: str) -> JSONObject:
    table: JSONObject = {"name": name, "identifier": find_landing_table(definition).message}
    table |= _describe_entity(definition.definition)
    table["columns"] = [_build_column(column) for column in list_table_columns(definition, times=True)]
    return table


def _build_column(column: TableColumn) -> JSONObject:
    document: JSONObject = {
        "name": escape_template(column.name),
        "quote": True,
        "data_type": escape_template(column.type),
        **_build_description(column.description),
    }
    tests = [] if _UNSAFE_NAME.search(column.name) else list(_list_tests(column))
    return {**document, "data_tests": tests} if tests else document


def _list_tests(column: TableColumn) -> Iterator[str | JSONObject]:
    if column.required:
        yield "not_null"
    if column.values and not any(map(_UNSAFE_VALUE.search, column.values)):
        values = [_quote_accepted(value) for value in column.values]
        yield {"accepted_values": {"arguments": {"values": values}}}  # as of dbt 1.10.5


def _describe_entity(entity: JSONObject) -> JSONObject:
    return _build_description(str(entity.get("description") or ""))


def _build_description(text: str) -> JSONObject:
    # dbt renders a description only if it has something of a template.
    return {"description": _quote_template(text) if _TEMPLATE.search(text) else text} if text else {}


def escape_template(text: str) -> str:
    """Return a Jinja template that renders ``text``: the text itself, unless Jinja would change it."""
    return _quote_template(text) if _TEMPLATE.search(text) or _LINE_BREAK.search(text) else text


def _quote_template(text: str) -> str:
    return f"{{{{ {_quote_jinja(text)} }}}}"


def _quote_jinja(text: str) -> str:
    # Jinja reads the escapes of JSON. Without braces no delimiter of a template is left.
    return dump_json(text).decode().replace("{", "\\u007b").replace("}", "\\u007d")


def _quote_accepted(value: str) -> str:
    """Return the template of what dbt puts between single quotes in the SQL of a test."""
    if "'" in value:
        return f"{{{{ dbt.escape_single_quotes({_quote_jinja(value)}) }}}}"
    # Of a text like var('x') dbt makes a template by itself.
    return _quote_template(value) if "(" in value else escape_template(value)


GENERATOR: Final = Generator(summary="the landed tables as sources of dbt, with tests", generate=_generate_dbt)
