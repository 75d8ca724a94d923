"""Sources of dbt."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import duckdb
import jinja2
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from tests.codegen.conftest import Make
from tests.codegen.hostile import HOSTILE, document, texts


def test_sources(make: Make) -> None:
    (source,) = yaml.safe_load(make("dbt").files[0].content)["sources"]
    assert (source["name"], source["schema"], source["description"]) == ("shop_orders", "shop.orders", "To the door.")
    names = {table["identifier"]: table["name"] for table in source["tables"]}
    expected = ("order_placed_2", "order_placed", "class_")
    assert (names["order.placed"], names["order-placed"], names["class"]) == expected
    columns = column_by_name(source, "order.placed")
    accepted = {"accepted_values": {"arguments": {"values": ["again", "new"]}}}
    assert columns["kind"]["data_tests"] == ["not_null", accepted]
    assert columns["total"]["data_type"] == "DOUBLE"
    assert "data_tests" not in columns["buyer"]
    assert columns["ce_id"]["data_tests"] == ["not_null"]
    # dbt renders descriptions as templates
    description = column_by_name(source, "class")["n"]["description"]
    assert description == r"""{{ "a 'quoted' \u007b\u007b thing \u007d\u007d -- \\ x" }}"""
    assert render_description(description) == "a 'quoted' {{ thing }} -- \\ x"


def column_by_name(source: dict[str, Any], identifier: str) -> dict[str, Any]:
    table = next(entry for entry in source["tables"] if entry["identifier"] == identifier)
    return {entry["name"]: entry for entry in table["columns"]}


@pytest.mark.merge
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
@example(texts=[*HOSTILE])
def test_hostile_texts_are_data(make: Make, texts: list[str]) -> None:
    """Render what dbt renders, and look for the texts in it."""
    generated = make("dbt", document(texts))
    sources = [source for file in generated.files for source in yaml.load(file.content, yaml.CSafeLoader)["sources"]]
    assert {render_description(entry["description"]) for entry in sources if "description" in entry} == set(texts)
    tables = {table["identifier"]: table for source in sources for table in source["tables"]}
    columns = {render_name(column["name"]): column for column in tables["all"]["columns"]}
    for number, text in enumerate(texts):
        assert render_description(columns[text]["description"]) == text
        assert f"`{text.replace('`', '``')}`: STRING" in render_name(columns[text]["data_type"])
        accepted = list(accepted_values(columns[f"choice {number}"]))
        # a database may take these for escapes
        assert accepted == ([] if re.search(r"[\\\x00-\x1f\x7f]|\$\{", text) else sorted([text, "other"]))


def test_columns_that_adapters_cannot_quote_have_no_tests(make: Make) -> None:
    names = ["it's", "a-b", 'a"b', "a`b", "a\\b", "${a}"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    message = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": schema}
    generated = make("dbt", {"messagegroups": {"g": {"messages": {"m": message}}}})
    (source,) = yaml.safe_load(generated.files[0].content)["sources"]
    columns = column_by_name(source, "m")
    assert [name for name in names if "data_tests" in columns[name]] == ["it's", "a-b"]


def accepted_values(column: dict[str, Any]) -> Iterator[str]:
    """Yield the values of the test of a column as a database reads them in the SQL of dbt's macro."""
    for test in column["data_tests"]:
        if isinstance(test, dict):
            for value in test["accepted_values"]["arguments"]["values"]:
                ((text,),) = duckdb.execute(f"SELECT '{render_argument(value)}'").fetchall()
                yield text


def render_name(text: str) -> str:
    """Return what dbt reads in a YAML file, where it renders everything but descriptions and arguments of tests."""
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render()


def render_description(text: str) -> str:
    """Render a description as dbt does, with nothing in the context that is harmless."""
    return render_name(text) if re.search(r"{[{%#]|[#}%]}", text) else text


def render_argument(text: str) -> str:
    """Render an argument of a test as dbt does, with the macro of adapters that double single quotes."""
    if re.match(r"^\s*(env_var|ref|var|source|doc)\s*\(.+\)\s*$", text):
        text = f"{{{{ {text} }}}}"
    macros = SimpleNamespace(escape_single_quotes=lambda value: value.replace("'", "''"))
    return jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(text).render(dbt=macros)
