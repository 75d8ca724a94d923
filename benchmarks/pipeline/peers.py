"""The same job done with what Spark has, and with what people write by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import duckdb
import jsonschema
from benchmarks.pipeline.traffic import SCHEMA, STATUSES
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType

_ADDRESS = "struct<country:string,city:string,zip:string>"
_DATA = (
    "struct<parcel:struct<id:string,weight:double,size:struct<l:bigint,w:bigint,h:bigint>>,"
    f"`from`:{_ADDRESS},`to`:{_ADDRESS},status:string,codes:array<bigint>,insured:boolean,note:string>"
)
_EVENT = (
    "specversion string, id string, source string, type string, time timestamp, subject string,"
    f" datacontenttype string, data {_DATA}"
)


def from_json(spark: SparkSession, events: Path, output: Path) -> None:
    """Spark's own way, at its best: one schema fits all types, so one ``from_json``, native rules, one write."""
    judged(spark.read.text(str(events))).write.partitionBy("table").mode("overwrite").parquet(str(output))


def judged(events: DataFrame, *kept: str) -> DataFrame:
    """Events in the column ``value``, with the ``table`` they belong to and the columns ``kept``.

    Rows that break a rule belong to a table of their own and have their original text.
    """
    parsed = events.select("value", *kept, f.from_json("value", _EVENT).alias("e"))
    return parsed.select(
        f.when(_sound(), f.col("e.type")).otherwise("dead_letters").alias("table"),
        f.when(_sound(), None).otherwise(f.col("value")).alias("original"),
        *kept,
        "e.*",
    )


def _sound() -> Column:
    size = [f.col(f"e.data.parcel.size.{side}").between(1, 300) for side in "lwh"]
    ends = [
        (f.length(f"e.data.{end}.country") == 2) & f.length(f"e.data.{end}.city").between(1, 60)
        for end in ("from", "to")
    ]
    rules = [
        f.col("e.specversion") == "1.0",
        f.col("e.id").isNotNull(),
        f.col("e.type").isNotNull(),
        f.col("e.time").isNotNull(),
        f.col("e.subject").isNotNull(),
        f.col("e.source").rlike("^/carriers/[^/]+/depots/[^/]+$"),
        f.col("e.data.parcel.id").rlike("^P[0-9]{9}$"),
        f.col("e.data.parcel.weight").between(0, 100),
        *size,
        *ends,
        f.col("e.data.status").isin(*STATUSES),
        f.size("e.data.codes") <= 20,
        f.col("e.data.insured").isNotNull(),
    ]
    sound = rules[0]
    for rule in rules[1:]:
        sound = sound & rule
    return f.coalesce(sound, f.lit(False))


_COLUMNS = {
    **dict.fromkeys(("specversion", "id", "source", "type"), "VARCHAR"),
    "time": "TIMESTAMP",
    **dict.fromkeys(("subject", "datacontenttype"), "VARCHAR"),
    "data": (
        "STRUCT(parcel STRUCT(id VARCHAR, weight DOUBLE, size STRUCT(l BIGINT, w BIGINT, h BIGINT)), "
        '"from" STRUCT(country VARCHAR, city VARCHAR, zip VARCHAR), "to" STRUCT(country VARCHAR, city VARCHAR, '
        "zip VARCHAR), status VARCHAR, codes BIGINT[], insured BOOLEAN, note VARCHAR)"
    ),
}


def duckdb_copy(events: Path, output: Path, threads: int) -> None:
    """DuckDB's own way, at its best: one schema fits all types, nothing is validated, one write."""
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in _COLUMNS.items())
    read = f"SELECT * FROM read_json('{events}', format = 'newline_delimited', columns = {{{columns}}})"
    with duckdb.connect(config={"threads": threads}) as connection:
        connection.execute(f"COPY ({read}) TO '{output}' (FORMAT parquet, PARTITION_BY (type), OVERWRITE)")


def jsonschema_udf(spark: SparkSession, events: Path, output: Path, *, cached: bool) -> None:
    """A Python function with ``jsonschema`` on each payload; its rows are written too.

    ``cached``: with the validator kept between calls, else with ``jsonschema.validate`` as its documentation begins.
    """
    conforms = f.udf(_conforms_kept if cached else _conforms, BooleanType(), useArrow=False)
    envelope = "id string, source string, type string, time timestamp, subject string, data string"
    parsed = spark.read.text(str(events)).select(f.from_json("value", envelope).alias("e")).select("e.*")
    judged = parsed.withColumn("sound", conforms("data"))
    judged.write.partitionBy("type").mode("overwrite").parquet(str(output))


@cache
def _validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(SCHEMA)


def _conforms_kept(data: str | None) -> bool:
    return data is not None and _validator().is_valid(json.loads(data))


def _conforms(data: str | None) -> bool:
    try:
        jsonschema.validate(json.loads(data or ""), SCHEMA)
    except (jsonschema.ValidationError, ValueError):
        return False
    return True
