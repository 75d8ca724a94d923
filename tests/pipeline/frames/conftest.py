"""A contract of parcels in several formats, and what becomes of rows that are held to it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.kafkarows import AVRO, PROTO, written

from signalbook.pipeline import Contract
from signalbook.pipeline.frames.validation import build_outcomes
from signalbook.values import JSONObject

GROUP = "/messagegroups/parcels/messages/"
Outcomes = list[dict[str, Any]]
Held = Callable[[pa.RecordBatch], Outcomes]


def document(parcels: Any) -> JSONObject:
    """The parcels, those measured in Avro and scanned in Protobuf, and one that HTTP has."""
    catalogue: JSONObject = parcels.catalogue()
    messages = catalogue["messagegroups"]["parcels"]["messages"]
    typed = {name: messages["parcel.accepted"][name] for name in ("dataschemaformat", "dataschemauri")}
    messages |= {
        "measured": parcels.message("parcel.measured", **written("Avro/1.11", "measure")),
        "scanned": parcels.message("parcel.scanned", **written("Protobuf/3", "scan")),
        "sent": parcels.message("parcel.sent", protocol="HTTP", protocoloptions={"path": "/in"}, **typed),
    }
    catalogue["schemagroups"]["parcels"]["schemas"] |= {
        "measure": {"versions": {"1": {"format": "Avro/1.11", "schema": AVRO}}},
        "scan": {"versions": {"1": {"format": "Protobuf/3", "schema": PROTO}}},
    }
    return catalogue


@pytest.fixture(scope="session")
def contract(parcels: Any, tmp_path_factory: pytest.TempPathFactory) -> Contract:
    path: Path = tmp_path_factory.mktemp("contract") / "parcels.xreg.json"
    path.write_text(json.dumps(document(parcels)))
    return Contract.of(path)


@pytest.fixture
def held(contract: Contract) -> Held:
    def outcomes(records: pa.RecordBatch) -> Outcomes:
        rows = [row for batch in build_outcomes(contract, iter([records])) for row in batch.to_pylist()]
        assert all((row["landed"] is None) != (row["dead_letter"] is None) for row in rows)
        return sorted(rows, key=_place)

    return outcomes


def _place(outcome: dict[str, Any]) -> int:
    landed = outcome["landed"]
    return int((landed["_position"] if landed else outcome["dead_letter"]["position"]) or 0)
