"""Statements in other dialects: run by DuckDB, read by the library for the rest."""

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, example, given, settings
from tests.codegen.conftest import GROUP, Make
from tests.codegen.hostile import HOSTILE, document, texts

from signalbook.codegen.base import printable
from signalbook.codegen.sql import DIALECTS


def statements(make: Make, dialect: str) -> str:
    return make("sql", dialect=dialect).files[0].content.decode()


def test_duckdb_accepts_the_statements(make: Make) -> None:
    """The tables have all columns and descriptions, and a description that looks like a statement is not executed."""
    connection = duckdb.connect()
    connection.execute(statements(make, "duckdb"))
    tables = connection.execute("SELECT table_name, comment FROM duckdb_tables() ORDER BY 1").fetchall()
    assert [name for name, _ in tables] == ["class", "image", "order-placed", "order.placed", "parcel", "xml"]
    assert dict(tables)["order.placed"] == "It's <b>placed</b> '; DROP TABLE x; --"
    kinds = dict(connection.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'class'")
                 .fetchall())  # fmt: skip
    assert (kinds["fare"], kinds["at"], kinds["tags"]) == ("DECIMAL(38,2)", "TIME", "MAP(VARCHAR, BIGINT[][])")
    comments = dict(connection.execute("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'class'")
                    .fetchall())  # fmt: skip
    assert comments["n"] == "a 'quoted' {{ thing }} -- \\ x"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_parses_its_statements(dialect: str, make: Make) -> None:
    read = sqlglot.parse(statements(make, dialect), read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    assert sum(isinstance(statement, sqlglot.exp.Create) for statement in read) == (6 if dialect == "bigquery" else 7)


def test_bigquery_has_no_maps_and_no_lists_of_lists(make: Make) -> None:
    text = statements(make, "bigquery")
    assert "MAP<" not in text
    assert "`tags` ARRAY<STRUCT<`key` STRING, `value` ARRAY<STRUCT<`element` ARRAY<INT64>>>>>" in text
    assert "`fare` BIGNUMERIC(38, 2)" in text
    assert "`shop_orders`.`order_placed_2`" in text


def test_table_with_unsupported_column_names_is_omitted(make: Make) -> None:
    generated = make("sql")
    assert generated.left_out[GROUP + "order-placed"] == "bigquery: a column may not be named 'a.b'"
    by_path = {file.path: file.xids for file in generated.files}
    assert GROUP + "order-placed" in by_path["trino/shop.orders.sql"]
    assert GROUP + "order-placed" not in by_path["bigquery/shop.orders.sql"]


def test_times_are_in_microseconds_for_trino(make: Make) -> None:
    text = statements(make, "trino")
    assert '"ce_time" TIMESTAMP(6) WITH TIME ZONE' in text
    assert '"at" TIME(6)' in text


@pytest.mark.merge
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
@example(texts=[*HOSTILE])
def test_hostile_texts_are_data(make: Make, texts: list[str]) -> None:
    """Read the statements of each dialect, and look for names and descriptions.

    Each text has a table of its own; a dialect that has no form for a name has no such table.
    """
    generated = make("sql", document(texts))
    for dialect in DIALECTS.values():
        files = [file.content.decode() for file in generated.files if file.path.startswith(f"{dialect.name}/")]
        names: dict[str, set[str]] = {}
        for content in files:
            for create in sqlglot.parse("".join(content), read=dialect.name, error_level=sqlglot.ErrorLevel.RAISE):
                assert isinstance(create, sqlglot.exp.Create | sqlglot.exp.Comment)
                for column in create.find_all(sqlglot.exp.ColumnDef):
                    literals = {literal.this for literal in create.find_all(sqlglot.exp.Literal)}
                    names.setdefault(column.name, set()).update(literals)
        for text in texts:
            if dialect.refused_in_names.search(text):
                assert text not in names
            else:
                assert text in names
                assert dialect.apart or printable(text) in names[text]


def test_hostile_texts_are_comments_in_duckdb(make: Make) -> None:
    connection = duckdb.connect()
    safe = [text for text in HOSTILE if "\0" not in text]
    for file in make("sql", document(safe), dialect="duckdb").files:
        connection.execute(file.content.decode())
    columns = "SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = 'all'"
    comments = {name: (kind, comment) for name, kind, comment in connection.execute(columns).fetchall()}
    for text in safe:
        kind, comment = comments[text]
        assert kind.count("VARCHAR") == 3
        assert comment == printable(text)


def test_the_shell_of_snowflake_replaces_nothing(make: Make) -> None:
    for file in make("sql", document(HOSTILE), dialect="snowflake").files:
        content = file.content.decode()
        assert "<%" not in content
        assert "&{" not in content
