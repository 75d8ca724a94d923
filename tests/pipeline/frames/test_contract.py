"""The contract of a Spark program."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.frames.conftest import GROUP

from signalbook.messages import Policy
from signalbook.pipeline import Contract, PipelineError
from signalbook.pipeline.frames.validation import outcome_batches
from signalbook.pipeline.sources.base import RECORD_TYPES


def test_it_is_shipped_small_and_means_the_same(contract: Contract) -> None:
    text = pickle.dumps(contract)
    arrived: Contract = pickle.loads(text)
    assert arrived == contract
    assert arrived.snapshot() == contract.snapshot()
    assert len(text) < len(contract.snapshot().to_json())
    assert set(arrived.compiled().definitions) == set(contract.definitions)


def test_a_folder_and_groups(definitions: Path) -> None:
    """What ``pipeline run`` takes as its registry."""
    found = Contract.of(str(definitions.parent), groups=["/messagegroups/parcels"])
    assert found.definitions == tuple(f"{GROUP}parcel.{name}" for name in ("accepted", "delivered", "noted"))
    assert found.fingerprint == Contract.of(definitions).fingerprint
    with pytest.raises(PipelineError, match="no message group or endpoint /messagegroups/x"):
        Contract.of(definitions, groups=["/messagegroups/x"])


def test_definitions_by_xid(contract: Contract) -> None:
    assert contract.definition(f"{GROUP}sent") == f"{GROUP}sent"
    with pytest.raises(PipelineError, match=f"no message definition parcel.sent; did you mean {GROUP}") as caught:
        contract.definition("parcel.sent")
    assert GROUP in str(caught.value)


def test_what_nobody_can_follow(definitions: Path, parcels: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no table for messages without a definition"):
        Contract.of(definitions, policy=Policy(on_no_match="pass"))
    with pytest.raises(PipelineError, match="are not there"):
        Contract.of(tmp_path / "nowhere.json")


def test_a_broken_definition_stops_nobody_else(definitions: Path, parcels: Any) -> None:
    """It is left out and named; its messages are dead letters with the reason."""
    document = json.loads(definitions.read_text())
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"] = {"type": "nonsense"}
    definitions.write_text(json.dumps(document))
    contract = Contract.of(definitions)
    assert any("parcel.accepted" in doubt for doubt in contract.doubts)
    values = [json.dumps(parcels.event(0)).encode(), json.dumps(parcels.event(1, type="parcel.noted")).encode()]
    records = pa.RecordBatch.from_pylist(
        [{"protocol": "", "source": "", "position": place, "value": value} for place, value in enumerate(values)],
        RECORD_TYPES,
    )
    rows = [row for batch in outcome_batches(contract, iter([records])) for row in batch.to_pylist()]
    (dead,) = (row["dead_letter"] for row in rows if row["dead_letter"])
    (landed,) = (row["landed"] for row in rows if row["landed"])
    assert (dead["reason"], landed["ce_id"]) == ("contract_unavailable", "e-1")
