"""Names and texts in statements, held to what Spark reads in them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.codegen.hostile import HOSTILE, document

from signalbook.codegen.base import generate, read_input
from signalbook.pipeline.tables.spark_sql import quote_identifier, quote_string
from signalbook.values import dump_json

TABLE = "hostile"


def test_safe_names_and_texts_are_readable() -> None:
    assert quote_identifier("it's `x`") == "`it's ``x```"
    assert quote_identifier("${env:HOME}") == "IDENTIFIER('`$\\{env:HOME}`')"
    assert quote_string("it's $5") == "'it\\'s $5'"
    assert quote_string("a\n\U0001f600\u202e") == "'a\\u000a\U0001f600\\u202e'"


def test_spark_substitutes_nothing_in_expressions(spark_session: SparkSession) -> None:
    """Spark substitutes no variables in texts, in names of columns and in those of members."""
    row = spark_session.sql(f"SELECT {', '.join(map(quote_string, HOSTILE))}").collect()[0]
    assert list(row) == list(HOSTILE)
    columns = spark_session.range(1).select(*(f.lit(text).alias(text) for text in HOSTILE))
    assert columns.selectExpr(*map(quote_identifier, HOSTILE)).columns == list(HOSTILE)
    struct = ", ".join(f"{quote_string(text)}, 1" for text in HOSTILE)
    structs = spark_session.sql(f"SELECT named_struct({struct}) AS s")
    kind: Any = structs.schema["s"].dataType
    assert kind.names == list(HOSTILE)
    assert len(structs.selectExpr(*(f"s[{quote_string(text)}]" for text in HOSTILE)).columns) == len(HOSTILE)


@pytest.fixture
def hostile_table(spark_session: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table made by the generated statement for hostile columns."""
    if tuple(map(int, spark_session.version.split(".")[:2])) < (4, 1):
        pytest.skip("an IDENTIFIER clause names columns of a table since Spark 4.1")
    path = tmp_path / "definitions.json"
    path.write_bytes(dump_json(document(HOSTILE)))
    files = generate(read_input("spark", str(path), (), {"format": "parquet"})).files
    (text,) = (file.content.decode() for file in files if file.path == "all.sql")
    _, name, statement = text.partition("CREATE TABLE IF NOT EXISTS `all`.`all`")
    assert name
    spark_session.sql(f"CREATE TABLE {TABLE}{statement.strip().removesuffix(';')} LOCATION '{tmp_path}/table'")
    yield TABLE
    spark_session.sql(f"DROP TABLE {TABLE}")


def test_spark_reads_generated_statements_as_data(spark_session: SparkSession, hostile_table: str) -> None:
    schema = spark_session.table(hostile_table).schema
    for text in HOSTILE:
        kind: Any = schema[text].dataType
        assert kind.names == [text, "fixed member", "chosen member"]
        assert (schema[text].metadata["comment"], kind[text].metadata["comment"]) == (text, text)
