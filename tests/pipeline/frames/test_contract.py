"""The contract of a Spark program."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.frames.conftest import GROUP

from signalbook.messages import Policy
from signalbook.pipeline import Contract, PipelineError


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
