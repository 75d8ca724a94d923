"""Runs whose keys are those of a role, and runs whose keys end while they work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.brokers.program import Broker
from tests.pipeline.commands.test_stores import ACCEPTED, job_for
from tests.pipeline.places.test_credentials import role
from tests.pipeline.s3 import place, storage_of
from tests.pipeline.storeway import Answer, Asked, Deliver, StoreWay, delivered, store_way

from signalbook.pipeline import PipelineError, locks, place_of, read, run, status
from signalbook.pipeline.journal import TableFormat

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("way", "table_format"),
    [
        ("instance", "delta"),
        pytest.param("web identity", "iceberg", marks=slow),
        pytest.param("web identity", "delta", marks=slow),
        pytest.param("token", "iceberg", marks=slow),
        pytest.param("token", "delta", marks=slow),
        pytest.param("token file", "delta", marks=slow),
    ],
)
def test_a_run_by_a_role(
    way: str,
    table_format: TableFormat,
    s3proxy: Broker,
    definitions: Path,
    parcels: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Driver and workers ask for keys by themselves: the job has none, nor has its environment."""
    root = place("s3proxy", tmp_path, request)
    events = [parcels.event(number) for number in range(10)]
    (root / "in/a.jsonl").write(parcels.lines(*events, parcels.event(10, data={"id": 7})))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environ |= {"AWS_ENDPOINT_URL_S3": root.storage.get("endpoint"), "AWS_ALLOW_HTTP": "true", "HOME": str(tmp_path)}
    environ |= {"AWS_REGION": "us-east-1", **role(way, request, tmp_path)}
    command = [sys.executable, "-m", "signalbook", "pipeline", "run", "--registry", str(definitions)]
    command += ["--input", f"{root}/in/", "--output", f"{root}/lake", "--table-format", table_format]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    (report,) = status(root / "lake").reports
    assert (report.tally.read, report.landed, report.tally.dead_lettered) == (11, 10, 1)
    assert "WARN" not in done.stderr


class Session:
    """Keys that end with the first request to a path with ``word`` in it, before it is done or after."""

    def __init__(self, word: str, *, after: bool) -> None:
        self.ended = False
        self._word, self._after = word, after

    def __call__(self, asked: Asked, deliver: Deliver) -> Answer:
        """What the store answers."""
        if self.ended or asked.method != "PUT" or self._word not in asked.path:
            return self._ended() if self.ended else deliver()
        self.ended = True
        return deliver() if self._after else self._ended()

    def _ended(self) -> Answer:
        body = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        return Answer(400, (("content-type", "application/xml"), ("content-length", str(len(body)))), body)


@pytest.fixture
def way(s3proxy: Broker) -> Iterator[StoreWay]:
    """A way to the store."""
    with store_way(s3proxy.ports["plain"]) as found:
        yield found


@pytest.mark.parametrize(
    ("word", "after", "table_format"),
    [
        pytest.param(".staging/", False, "parquet", marks=slow),
        ("batches/prepared/", True, "parquet"),
        pytest.param("batches/prepared/", True, "delta", marks=slow),
        pytest.param("batches/prepared/", True, "iceberg", marks=slow),
        pytest.param("_delta_log/", False, "delta", marks=slow),
        pytest.param("metadata/", False, "iceberg", marks=slow),
    ],
)
def test_keys_that_end_in_a_run(
    word: str,
    after: bool,
    table_format: TableFormat,
    way: StoreWay,
    definitions: Path,
    parcels: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    spark_session: SparkSession,
) -> None:
    """It stops and says so; with new ones the same batch lands, once."""
    monkeypatch.setattr(locks, "TERM", 0.5)  # that of the first run, which cannot release it, is waited for
    root = place("s3proxy", tmp_path, request)
    (root / "in/a.jsonl").write(parcels.lines(*map(parcels.event, range(10))))
    on_the_way = place_of(str(root), storage_of(way.own, session_token="session-1"))
    job = replace(job_for(on_the_way, definitions, table_format), batch_id="b")
    way.fate = session = Session(word, after=after)
    with pytest.raises(PipelineError, match=r"400 Bad Request \(ExpiredToken|the token .* may have ended\)") as failure:
        run(job)
    assert session.ended
    assert "session-1" not in str(failure.value)
    way.fate = delivered
    report = run(replace(job, storage=storage_of(way.own, session_token="session-2")))
    assert (report.tally.read, report.landed) == (10, 10)
    assert sorted(row.ce_id for row in read(spark_session, root / "lake", ACCEPTED).collect()) == [
        f"e-{number}" for number in range(10)
    ]
