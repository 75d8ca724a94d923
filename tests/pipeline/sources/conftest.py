"""Stores, spools and jobs that read captures."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.s3 import place

from signalbook.pipeline import Job, Place
from signalbook.pipeline.places import LocalPlace, StorePlace
from signalbook.pipeline.sources.captures import CLOUDEVENTS
from signalbook.pipeline.sources.spool import MessageSpool


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> StorePlace:
    """An empty prefix in a store of which Spark has no connector."""
    root = place("s3proxy", tmp_path, request)
    assert isinstance(root, StorePlace)
    return root


@pytest.fixture
def job(spark_session: SparkSession, definitions: Path, tmp_path: Path) -> Callable[..., Job]:
    """Return a function that makes a job: it lands captures of events in the folder ``out``."""

    def make(source: str | Path | Place, **more: Any) -> Job:
        storage = {"storage": source.storage} if isinstance(source, StorePlace) else {}
        defaults: dict[str, Any] = {"table_format": "parquet", "input_format": CLOUDEVENTS.name, **storage}
        return Job(registry=str(definitions), inputs=(str(source),), output=tmp_path / "out", **(defaults | more))

    return make


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[MessageSpool]:
    with MessageSpool(LocalPlace(tmp_path / "spool")) as opened:
        yield opened
