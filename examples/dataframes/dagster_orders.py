"""A Dagster asset: each day's events, landed exactly once however often it is materialised.

dagster dev -f dagster_orders.py
"""

from pathlib import Path

from dagster import AssetExecutionContext, Config, DailyPartitionsDefinition, Failure, MaterializeResult, asset
from pyspark.sql import SparkSession

from signalbook import pipeline


class Places(Config):
    """Where things are."""

    registry: str = "http://localhost:8080"
    events: str = "/data/events"
    output: str = "/data/lake"
    most_dead_letters: float = 0.5


@asset(partitions_def=DailyPartitionsDefinition(start_date="2026-01-01"))
def orders(context: AssetExecutionContext, config: Places) -> MaterializeResult[None]:
    """The tables of the shop's messages."""
    spark = SparkSession.builder.appName("orders").getOrCreate()
    day = context.partition_key
    report = pipeline.land(
        spark.read.text(str(Path(config.events) / f"{day}.jsonl")),
        config.output,
        pipeline.Contract.of(config.registry),
        batch_id=f"orders-{day}",
    )
    tally = report.tally
    if tally.dead_lettered > config.most_dead_letters * tally.read:
        raise Failure(f"{tally.dead_lettered} of {tally.read} messages are dead letters, see batch {report.batch}")
    return MaterializeResult(
        metadata={"landed": tally.landed.total(), "dead letters": tally.dead_lettered, "note": report.note}
    )
