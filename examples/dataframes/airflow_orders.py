"""An Airflow DAG: each day's events, landed exactly once however often the task is retried or its run cleared.

Airflow's variables orders_registry, orders_events and orders_output say where things are.
"""

from datetime import datetime
from pathlib import Path

from airflow.sdk import Variable, dag, task


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)
def orders() -> None:
    """The tables of the shop's messages."""

    @task(retries=3)
    def land(ds: str) -> dict[str, int]:
        """Land the day's file; a retry with the same batch id completes what was begun, and changes nothing else."""
        # Here, since Airflow reads this file every few seconds.
        from pyspark.sql import SparkSession

        from signalbook import pipeline

        spark = SparkSession.builder.appName("orders").getOrCreate()
        try:
            report = pipeline.land(
                spark.read.text(str(Path(Variable.get("orders_events")) / f"{ds}.jsonl")),
                Variable.get("orders_output"),
                pipeline.Contract.of(Variable.get("orders_registry")),
                batch_id=f"orders-{ds}",
            )
        finally:
            spark.stop()
        return {"landed": report.tally.landed.total(), "dead_letters": report.tally.dead_lettered}

    @task
    def check(counts: dict[str, int]) -> None:
        """Fail the run, after its tables are committed, if most of a day is of no use."""
        if counts["dead_letters"] > counts["landed"]:
            raise ValueError(f"more dead letters than messages: {counts}")

    check(land())


DAG = orders()
