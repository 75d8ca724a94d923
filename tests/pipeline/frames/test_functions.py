"""SQL functions that say of messages whether they conform."""

import json
from typing import Any

from pyspark.sql import SparkSession
from tests.pipeline.frames.conftest import GROUP

from signalbook.pipeline import Contract, register


def test_each_row_has_its_own_verdict(spark_session: SparkSession, contract: Contract, parcels: Any) -> None:
    """Whatever order the events of many definitions are judged in; a batch conforms if all of its events do."""
    good, noted = parcels.event(0), parcels.event(1, type="parcel.noted", data="x")
    bad, batch = parcels.event(2, data={"id": 1}), "application/cloudevents-batch+json"
    values = [(bad, None), (good, None), (noted, None), ([good, noted], batch), ([good, bad], batch), ([], batch)]
    rows = [(json.dumps(value), kind) for value, kind in (*values, (7, "text/plain"))]
    register(spark_session, contract)
    frame = spark_session.createDataFrame([*rows, (None, None)], "value string, kind string").coalesce(1)
    verdicts = frame.selectExpr(
        "signalbook_valid(value, kind) AS valid", "signalbook_check(CAST(value AS binary), kind) AS found",
    ).selectExpr("valid", "found.*").collect()  # fmt: skip
    assert [row[0] for row in verdicts] == [row[1] for row in verdicts]
    assert [row[0] for row in verdicts] == [False, True, True, True, False, False, False, False], verdicts
    assert [row.reason for row in verdicts][:5] == ["schema_violation", None, None, None, "schema_violation"]
    assert verdicts[0].definition == verdicts[1].definition == f"{GROUP}parcel.accepted"
    assert verdicts[0].violations[0] == '"weight" is a required property'
    assert (verdicts[2].version, verdicts[2].data) == ("1", '"x"')
