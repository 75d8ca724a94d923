"""DataFrames landed in tables, exactly once by batch."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.pipeline.frames.conftest import GROUP
from tests.pipeline.frames.test_validation import kafka, lines
from tests.pipeline.local import run
from tests.pipeline.s3 import place

from signalbook.pipeline import Contract, Job, PipelineError, Report, land, read, status, typed
from signalbook.pipeline.columns import DAY
from signalbook.pipeline.places import StorePlace

Lines = Callable[..., DataFrame]


@pytest.fixture
def texts(spark_session: SparkSession, parcels: Any) -> Lines:
    """A DataFrame of text with so many events and one that is none."""

    def frame(count: int = 2) -> DataFrame:
        events = [Row(value=json.dumps(parcels.event(number))) for number in range(count)]
        return spark_session.createDataFrame([*events, Row(value="{")]).coalesce(1)

    return frame


def counts(report: Report) -> tuple[int, int, int]:
    return report.tally.read, report.tally.landed.total(), report.tally.dead_lettered


def test_a_batch_lands_once(spark_session: SparkSession, contract: Contract, texts: Lines, tmp_path: Path) -> None:
    output = tmp_path / "lake"
    doubtful = replace(contract, doubts=("one thing",))
    report = land(texts(), str(output), doubtful, batch_id="b1", table_format="parquet")
    assert (counts(report), report.doubts) == ((3, 2, 1), ("one thing",))
    again = land(texts(5), output, contract, batch_id="b1", table_format="parquet")
    assert counts(again) == (3, 2, 1)
    assert "committed before" in again.note
    assert counts(land(texts(1), output, contract, batch_id="b2", table_format="parquet")) == (2, 1, 1)
    rows = read(spark_session, output, f"{GROUP}parcel.accepted").orderBy("_batch", "ce_id").collect()
    assert [(row._batch, row.ce_id, row.id) for row in rows] == [
        ("b1", "e-0", "P0"), ("b1", "e-1", "P1"), ("b2", "e-0", "P0"),
    ]  # fmt: skip
    assert {(row._source, row._position) for row in rows} == {(None, None)}
    assert [state.name for state in status(output).streams] == []


def test_landing_equals_a_run(
    spark_session: SparkSession, contract: Contract, parcels: Any, tmp_path: Path, definitions: Path
) -> None:
    """The same counts and rows, but for where a message was read."""
    texts = lines(parcels)
    (tmp_path / "in.jsonl").write_text("\n".join(texts) + "\n")
    frame = kafka(spark_session, texts)
    job = Job(registry=str(definitions), inputs=(str(tmp_path / "in.jsonl"),), output=tmp_path / "a")
    ran = run(replace(job, table_format="parquet"))
    landed = land(frame, tmp_path / "b", Contract.of(definitions), batch_id="b", table_format="parquet")
    assert counts(ran) == counts(landed)
    assert ran.tally.violations.found.keys() == landed.tally.violations.found.keys()
    xid = f"{GROUP}parcel.accepted"
    columns = read(spark_session, tmp_path / "b", xid).columns
    assert typed(frame, contract, xid).columns == [name for name in columns if name != DAY]
    (run_row,), (other,) = (read(spark_session, tmp_path / name, xid).collect() for name in "ab")
    assert {name for name, value in run_row.asDict().items() if value != other[name]} == {
        *("_protocol", "_address", "_key", "_headers", "_received_at", "_source", "_position", "_batch", "_landed_at")
    }
    with pytest.raises(PipelineError, match=r"the tables in .* are parquet"):
        land(frame, tmp_path / "a", contract, batch_id="c", table_format="iceberg")


def test_micro_batches_land_once(spark_session: SparkSession, contract: Contract, parcels: Any, tmp_path: Path) -> None:
    """A batch that Spark gives again changes nothing; a new checkpoint that gives its number to others is an error."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text("\n".join(lines(parcels)) + "\n")
    reports: list[Report] = []

    def query(checkpoint: str) -> None:
        def take(frame: DataFrame, number: int) -> None:
            again = partial(land, frame, tmp_path / "lake", contract, stream="s", table_format="parquet")
            reports.extend(again(batch_id=number) for _ in range(2))

        frame = spark_session.readStream.text(str(tmp_path / "in"))
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    query("one")
    assert [(report.batch, *counts(report), bool(report.note)) for report in reports] == [
        ("s-000000000", 4, 2, 2, False), ("s-000000000", 4, 2, 2, True),
    ]  # fmt: skip
    with pytest.raises(Exception, match="'s-000000000' was committed for other input"):
        query("two")


def test_invalid_landing_is_rejected(
    spark_session: SparkSession, contract: Contract, texts: Lines, tmp_path: Path
) -> None:
    frame = texts()
    with pytest.raises(PipelineError, match="give stream a name"):
        land(frame, tmp_path / "lake", contract, batch_id=0)
    with pytest.raises(PipelineError, match="named by batch_id"):
        land(frame, tmp_path / "lake", contract, batch_id="b", stream="s")
    with pytest.raises(PipelineError, match="call land in a function for"):
        land(spark_session.readStream.text(str(tmp_path)), tmp_path / "lake", contract, batch_id="b")
    with pytest.raises(PipelineError, match="no column 'value'"):
        land(spark_session.range(1), tmp_path / "lake", contract, batch_id="b")
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"table_format": "Parquet"}, "table_format is 'Parquet', and must be one of iceberg, parquet, delta"),
        ({"partition": "week"}, "partition is 'week', and must be one of day, none"),
        ({"table_format": "delta", "catalog": "prod"}, "a catalog is for tables of Iceberg, not of delta"),
    )
    for wrong, words in refused:
        with pytest.raises(PipelineError, match=words):
            land(frame, tmp_path / "pond", contract, batch_id="b", **wrong)
    assert not (tmp_path / "pond").exists()
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_an_output_may_be_in_a_store(
    spark_session: SparkSession, contract: Contract, texts: Lines, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Workers get the settings with their tasks, and no credential is in the journal."""
    output = place("s3proxy", tmp_path, request)
    assert isinstance(output, StorePlace)
    settings = dict(output.storage.options)
    for note in (False, True):
        report = land(texts(), str(output), contract, batch_id="b", table_format="parquet", storage=settings)
        assert (*counts(report), bool(report.note)) == (3, 2, 1, note)
    (entry,) = (entry_.path for entry_ in (output / "batches").list_files(deep=True))
    assert settings["secret_access_key"] not in (output / "batches" / entry).read().decode()
