"""A user's own DataFrames held to a contract: in batches, in streams, lazily."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.pipeline.frames.conftest import GROUP

from signalbook.pipeline import Contract, MessageColumns, PipelineError, typed, validate
from signalbook.pipeline.columns import DEAD_LETTER, build_landed
from signalbook.pipeline.frames.rows import LANDED
from signalbook.pipeline.sources.message_columns import select_messages

KAFKA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
AT = datetime(2026, 1, 2, tzinfo=UTC)
EVENT = ("content-type", b"application/cloudevents+json")


def lines(parcels: Any) -> list[str]:
    """Two events that conform, of two definitions, one that does not, and what is none."""
    events = [parcels.event(0), parcels.event(1, type="parcel.noted", data="x"), parcels.event(2, data={"id": 1})]
    return [*map(json.dumps, events), "{"]


def kafka(session: SparkSession, texts: list[str]) -> DataFrame:
    """Records as Spark's source has them, some columns in another order."""
    rows = [(b"k", text.encode(), "orders", 0, 70 + place, AT, 0, [EVENT]) for place, text in enumerate(texts)]
    order = ["headers", "offset", "key", "value", "topic", "partition", "timestamp", "timestampType"]
    return session.createDataFrame(rows, KAFKA).select("offset", "*")[order]


def test_records_of_kafka(spark_session: SparkSession, contract: Contract, parcels: Any) -> None:
    """The columns are those of Kafka; both results come from one pass if it is cached."""
    settings = spark_session.sql("SET").collect()
    validated = validate(kafka(spark_session, lines(parcels)), contract)
    validated.outcomes.cache()
    try:
        good, bad = validated
        assert (good.columns, bad.columns) == (LANDED.names, DEAD_LETTER.names)
        first, second = good.orderBy("_position").collect()
        third, fourth = bad.orderBy("position").collect()
        assert "InMemoryTableScan" in bad._jdf.queryExecution().executedPlan().toString()
    finally:
        validated.outcomes.unpersist()
    assert (first._source, first._position, first._address) == ("kafka:orders/0", 70, "orders")
    assert (json.loads(first.data), first._context) == (parcels.event(0)["data"], {"depot": "7"})
    assert (first._definition, first._version) == (f"{GROUP}parcel.accepted", "1")
    expected = (f"{GROUP}parcel.noted", '"x"', contract.fingerprint)
    assert (second._definition, second.data, second._fingerprint) == expected
    assert (third.reason, third.candidates) == ("schema_violation", [f"{GROUP}parcel.accepted"])
    assert (fourth.reason, bytes(fourth.original), fourth.position) == ("decode_error", b"{", 73)
    assert third.violations[0].asDict().keys() == {"path", "rule", "message"}
    assert spark_session.sql("SET").collect() == settings


@contextmanager
def time_zone(session: SparkSession, name: str) -> Iterator[None]:
    session.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


def test_columns_by_their_names(spark_session: SparkSession, contract: Contract) -> None:
    """The columns have various types: text and bytes, maps and lists, and a time as an attribute."""
    frame = spark_session.createDataFrame(
        [('{"id": "P", "weight": 1}', "parcel.accepted", "/depots/7", "1", {"trace": "t"}, AT, 5)],
        "payload string, kind string, `from` string, id string, meta map<string, string>, at timestamp, number int",
    )
    columns = MessageColumns(
        body="payload", attributes={"type": "kind", "source": "from", "id": "id", "time": "AT"}, headers="meta",
        position="number", source="kind", received_at="at",
    )  # fmt: skip
    of_map = frame.selectExpr("payload", "'KAFKA' AS p", "map('ce-type', kind, 'source', `from`, 'id', id) AS a")
    with time_zone(spark_session, "America/New_York"):
        (row,) = validate(frame, contract, columns).landed.collect()
        validated = validate(of_map, contract, MessageColumns(body="payload", attributes="a", protocol="p"))
        (same,) = validated.landed.select("ce_id", "ce_type", "_protocol", "data").collect()
    assert (row.ce_time.astimezone(UTC), row._received_at.astimezone(UTC)) == (AT, AT)
    assert (row._position, row._source, row._headers["trace"]) == (5, "parcel.accepted", "t")
    assert tuple(same) == ("1", "parcel.accepted", "KAFKA", row.data)


def test_keys_are_used_only_for_kafka(spark_session: SparkSession, parcels: Any) -> None:
    """The column for the key is ignored in rows of other protocols."""
    rows = [(protocol, b"order-1", json.dumps(parcels.event(1))) for protocol in ("kafka", "AMQP", "mqtt", "http", "")]
    frame = spark_session.createDataFrame(rows, "p string, k binary, body string")
    records = select_messages(frame, MessageColumns(body="body", key="k", protocol="p")).collect()
    assert [row.key for row in records] == [b"order-1", None, None, None, None]


def test_times_as_attributes(spark_session: SparkSession, contract: Contract) -> None:
    """Times are in UTC, even if they are skipped or repeated in local time; those without a zone are in the zone of
    the session.
    """
    gap, again = (datetime(2026, 3, 29, 2, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 0, 0, 500_000, tzinfo=UTC))
    rows = [("1", gap, datetime(2026, 1, 2, 1)), ("2", again, None)]
    frame = spark_session.createDataFrame(rows, "id string, at timestamp, plain timestamp_ntz").selectExpr(
        '\'{"id": "P", "weight": 1}\' AS body', "'parcel.accepted' AS type", "'/depots/7' AS source", "*"
    )
    names = {name: name for name in ("type", "source", "id")}
    columns = MessageColumns(body="body", attributes={**names, "time": "at", "sent": "at", "plain": "plain"})
    with time_zone(spark_session, "Europe/Berlin"):
        landed_rows = validate(frame, contract, columns).landed.orderBy("ce_id").collect()
    assert [row.ce_time.astimezone(UTC) for row in landed_rows] == [gap, again]
    expected = [{"sent": "2026-03-29T02:30:00Z", "plain": "2026-01-02T00:00:00Z"}, {"sent": "2026-10-25T01:00:00.5Z"}]
    assert [row.ce_extensions for row in landed_rows] == expected


def test_unusable_columns_are_errors(spark_session: SparkSession, contract: Contract) -> None:
    frame = spark_session.range(1).selectExpr("id", "struct(id) AS parsed", "'x' AS text")
    for columns, words in (
        (None, "has no column 'value' for the body of messages"),
        (MessageColumns(body="text", key="k"), "has no column 'k' for the key"),
        (MessageColumns(body="parsed"), "`parsed` is struct<id:bigint>, and a message is bytes or text"),
        (MessageColumns(body="text", headers="id"), "`id` holds no headers"),
        (MessageColumns(body="text", attributes="id"), "`id` is no map"),
        (MessageColumns(body="text", attributes={"type": "t"}), "no column 't' for the ce_type"),
    ):
        with pytest.raises(PipelineError) as caught:
            validate(frame, contract, columns)
        assert words in str(caught.value)


def test_one_message_with_its_columns(spark_session: SparkSession, contract: Contract, parcels: Any) -> None:
    frame = spark_session.createDataFrame([Row(value=text) for text in lines(parcels)])
    frame_ = typed(frame, contract, f"{GROUP}parcel.accepted")
    assert frame_.columns[8:14] == ["at", "extra", "id", "size", "stops", "weight"]
    (row,) = frame_.where("weight > 1").select("id", "weight", "size.l", "_definition").collect()
    assert tuple(row) == ("P0", 1.5, 0, f"{GROUP}parcel.accepted")
    with pytest.raises(PipelineError, match="no message definition nothing"):
        typed(frame, contract, "nothing")


def test_streams_are_validated(spark_session: SparkSession, contract: Contract, parcels: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate(lines(parcels)):
        (folder / f"{number}.jsonl").write_text(text + "\n")
    good, bad = validate(spark_session.readStream.text(str(folder)), contract)
    assert good.isStreaming
    assert bad.isStreaming
    late = good.withWatermark("ce_time", "1 hour").select("_definition")  # it is a stream like any other
    writers = [
        frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        for name, frame in (("good", late), ("bad", bad.select("reason")))
    ]
    for writer in writers:
        writer.awaitTermination()
    assert sorted(row[0] for row in spark_session.table("good").collect()) == [
        f"{GROUP}parcel.accepted", f"{GROUP}parcel.noted",
    ]  # fmt: skip
    assert sorted(row[0] for row in spark_session.table("bad").collect()) == ["decode_error", "schema_violation"]


def test_validation_is_lazy(spark_session: SparkSession, contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = spark_session.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup())
    validate(spark_session.range(3).selectExpr("CAST(id AS string) AS value"), contract)
    assert len(tracker.getJobIdsForGroup()) == before


def test_the_columns_of_outcomes_are_those_of_tables() -> None:
    assert LANDED.remove_metadata() == pa.schema(list(build_landed(None))).remove_metadata()
