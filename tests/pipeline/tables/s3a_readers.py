"""What Spark's own readers find in an S3 server by Hadoop's S3A, and events that come from there as a DataFrame.

They need 700 MB of jars and a version of Spark that Iceberg and Delta have jars for: ``make hadoop`` runs this.
"""

import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from tests.brokers.program import Broker
from tests.brokers.servers import BUCKET, PASSWORD, USER
from tests.pipeline.s3 import storage_of
from tests.pipeline.tables.test_store_readers import ACCEPTED, EXPECTED, FORMATS, ROWS, WEIGHED, XIDS, folder, landed

from signalbook.pipeline import Contract, Place, land, place_of, read, views
from signalbook.pipeline.journal import TableFormat
from signalbook.pipeline.table_names import TableName

_S3A: Final = "spark.hadoop.fs.s3a"
_PREFIX: Final = secrets.token_hex(4)
GROUP: Final = "/messagegroups/parcels/messages"
_COLUMNS: Final = "SELECT ce_id, weight, size.l, stops, unix_micros(at), _rescue FROM {} ORDER BY ce_id"


@pytest.fixture(scope="module")
def session(s3proxy: Broker) -> Iterator[SparkSession]:
    """Return a session that reads from the server as described in docs/storage.md."""
    settings = {
        "spark.jars": ",".join(map(str, Path(os.environ["HADOOP_JARS"]).glob("*.jar"))),
        "spark.sql.session.timeZone": "UTC",
        f"{_S3A}.endpoint": f"http://127.0.0.1:{s3proxy.ports['plain']}",
        f"{_S3A}.endpoint.region": "us-east-1",
        f"{_S3A}.path.style.access": "true",
        f"{_S3A}.connection.ssl.enabled": "false",
        f"{_S3A}.access.key": USER,
        f"{_S3A}.secret.key": PASSWORD,
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **{
            f"spark.sql.catalog.{scheme}{key}": value
            for scheme in ("s3", "s3a")
            for key, value in {
                "": "org.apache.iceberg.spark.SparkCatalog",
                ".type": "hadoop",
                ".warehouse": f"s3a://{BUCKET}/{_PREFIX}{scheme}/iceberg/tables",
            }.items()
        },
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


@pytest.fixture(scope="module", params=["s3", "s3a"])
def lakes(
    session: SparkSession,  # which runs go in
    s3proxy: Broker,
    parcels: Any,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[TableFormat, Place]:
    """Outputs by URLs of either scheme."""
    root = place_of(f"{request.param}://{BUCKET}/{_PREFIX}{request.param}", storage_of(s3proxy.ports["plain"]))
    return landed(root, tmp_path_factory.mktemp("lakes"), parcels)


def source(lake: Place, table: TableName, table_format: TableFormat) -> str:
    """A table in Spark's SQL."""
    scheme, _, location = str(folder(lake, table, table_format)).partition("://")
    if table_format == "iceberg":
        return f"{scheme}.{table.group}.`{table.message}`"
    return f"{table_format}.`s3a://{location}`"


@pytest.mark.parametrize("table", [ACCEPTED, WEIGHED], ids=str)
@pytest.mark.parametrize("table_format", FORMATS)
def test_sql(
    session: SparkSession, lakes: dict[TableFormat, Place], table_format: TableFormat, table: TableName
) -> None:
    frame = session.sql(_COLUMNS.format(source(lakes[table_format], table, table_format)))
    assert [tuple(row) for row in frame.collect()] == EXPECTED


@pytest.mark.parametrize("table_format", FORMATS)
def test_read_and_views(session: SparkSession, lakes: dict[TableFormat, Place], table_format: TableFormat) -> None:
    lake = lakes[table_format]
    for name in XIDS.values():
        frame = read(session, lake, f"{GROUP}/{name}")
        assert sorted(frame.select("ce_id").collect()) == sorted((row[0],) for row in EXPECTED)
        assert "s3" in frame.inputFiles()[0]  # by Spark itself, not by Python
    for view in views(lake, catalog=str(lake).partition("://")[0]):
        session.sql(view["sql"])
        assert session.table(view["view"]).where("landed_on > DATE'2026-01-01'").count() == ROWS


def test_events_come_as_a_frame(
    session: SparkSession, lakes: dict[TableFormat, Place], parcels: Any, tmp_path: Path
) -> None:
    lake = lakes["parquet"]
    (definitions := tmp_path / "parcels.xreg.json").write_bytes(parcels.lines(parcels.catalogue()))
    there = str(lake.parent / "in").replace("s3://", "s3a://")
    storage = dict(lake.storage.options)
    output = str(lake.parent / "framed")
    report = land(session.read.text(there), output, Contract.of(definitions), batch_id="b1", storage=storage)
    assert (report.tally.landed.total(), report.tally.dead_lettered) == (ROWS, ROWS + 1)
    assert read(session, place_of(output, lake.storage), f"{GROUP}/parcel.accepted").count() == ROWS
