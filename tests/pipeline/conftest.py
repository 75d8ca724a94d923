"""A catalogue of parcels, events that fit it, and one Spark session for all tests of this room."""

import json
import sys
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.brokers.program import Broker, StartBroker

from signalbook.pipeline.job.session import open_session
from signalbook.pipeline.places import stores
from signalbook.values import JSONObject

CONNECTORS = Path(sys.prefix) / "brokers" / "spark"
"""Where ``tools/setup test`` lays the connectors that Spark is given."""

_REPEATED = {"google", "hdfs", "azurite", "rest"}
"""Stores and catalogs that repeat what a folder, S3Proxy and a catalog in SQL show. ``make merge`` runs their tests."""
_SECOND = {"s3mock"}
"""Stores with the API of another store, whose tests ``make merge`` runs. ``make soak`` runs theirs."""
_ON_SPARK = tuple(
    f"tests/pipeline/{name}.py"
    for name in ("frames/test_functions", "frames/test_landing", "job/test_session", "tables/test_ddl")
)
"""The tests on Spark that ``make test`` runs. What the others check has tests without Spark there, too."""

SCHEMA: JSONObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "weight"],
    "properties": {
        "id": {"type": "string", "description": "Number on the label"},
        "weight": {"type": "number", "minimum": 0},
        "size": {
            "type": "object",
            "required": ["l"],
            "properties": {"l": {"type": "integer"}, "w": {"type": "integer"}},
        },
        "stops": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "extra": {},
    },
}


class Parcels:
    """Builds documents and traffic; tests get it as the fixture ``parcels``."""

    def message(self, type: str, **more: Any) -> JSONObject:
        """A CloudEvents message definition."""
        metadata = {"type": {"value": type}, "source": {"type": "uritemplate", "value": "/depots/{depot}"}}
        return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata, **more}

    def catalogue(self) -> JSONObject:
        """Three messages: two with a schema, one without."""
        typed = {"dataschemaformat": "JsonSchema/draft-07", "dataschemauri": "/schemagroups/parcels/schemas/parcel"}
        messages = {
            "parcel.accepted": self.message("parcel.accepted", **typed),
            "parcel.delivered": self.message("parcel.delivered", **typed),
            "parcel.noted": self.message("parcel.noted"),
        }
        schemas = {"parcel": {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": deepcopy(SCHEMA)}}}}
        return {
            "messagegroups": {"parcels": {"messages": messages}},
            "schemagroups": {"parcels": {"schemas": schemas}},
        }

    def event(self, number: int = 0, **more: Any) -> JSONObject:
        """Return an event that conforms to ``parcel.accepted``, but for ``more``: ``...`` leaves a member out."""
        members = {
            "specversion": "1.0",
            "id": f"e-{number}",
            "source": "/depots/7",
            "type": "parcel.accepted",
            "time": "2026-01-02T03:04:05Z",
            "data": {"id": f"P{number}", "weight": 1.5, "size": {"l": number}},
            **more,
        }
        return {name: value for name, value in members.items() if value is not ...}

    def lines(self, *events: JSONObject | str) -> bytes:
        """JSON lines; texts as they are."""
        texts = [text if isinstance(text, str) else json.dumps(text) for text in events]
        return "".join(text + "\n" for text in texts).encode("utf-8", "surrogatepass")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Leave repetitions and most tests on Spark to ``make merge`` or ``make soak``, and run the tests on Spark first.

    The first process of a run gets the first tests, and the other processes take the last ones from it. So only one
    process starts Spark, which takes 25 seconds of processor time.
    """
    _mark_repetitions(items)
    on_spark = [item for item in items if "spark_session" in getattr(item, "fixturenames", ())]
    for item in on_spark:
        if not item.nodeid.startswith(_ON_SPARK):
            item.add_marker("merge")
    yield
    items.sort(key=lambda item: "spark_session" not in getattr(item, "fixturenames", ()))


def _mark_repetitions(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.nodeid.startswith("tests/pipeline/"):
            continue
        parameters = getattr(item, "callspec", None)
        words = {word for value in parameters.params.values() for word in _split(value)} if parameters else set()
        if words & _SECOND:
            item.add_marker("soak")
        elif words & _REPEATED:
            item.add_marker("merge")


def _split(parameter: object) -> list[str]:
    """Return the parts of a parameter such as ``delta-s3mock``, or of a tuple of these."""
    parts = parameter if isinstance(parameter, tuple) else (parameter,)
    return [word for part in parts if isinstance(part, str) for word in part.split("-")]


@pytest.fixture(scope="session", autouse=True)
def _short_pauses() -> Iterator[None]:
    """Repeat failed requests to stores after milliseconds, because many tests let every third request fail.

    Eight requests take a second then, instead of half a minute.
    """
    backoff = {"init_backoff": timedelta(milliseconds=5), "max_backoff": timedelta(seconds=1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_RETRIES", {**stores._RETRIES, "backoff": backoff})
        yield


@pytest.fixture(scope="session")
def parcels() -> Parcels:
    """The builder."""
    return Parcels()


@pytest.fixture
def definitions(tmp_path: Path, parcels: Parcels) -> Path:
    """The catalogue as a document."""
    path = tmp_path / "parcels.xreg.json"
    path.write_text(json.dumps(parcels.catalogue()))
    return path


@pytest.fixture
def own_catalog(own_server: StartBroker) -> Iterator[Broker]:
    """An Iceberg REST catalog that the test may kill; it runs again afterwards."""
    catalog = own_server("rest_catalog")
    yield catalog
    if not catalog.runs:
        catalog.start()


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """The session that runs of this process work in."""
    # the connectors are for one version of Spark: tools/spark-versions has others, without
    with open_session("local[2]", jars=[CONNECTORS] if CONNECTORS.is_dir() else []) as session:
        yield session
