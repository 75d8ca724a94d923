"""The contract of a Spark program."""

import json
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.frames.conftest import GROUP
from tests.pipeline.frames.test_messages import records
from tests.pipeline.job.test_definitions import served

from signalbook.client import Client
from signalbook.client.responses import NotAuthenticated
from signalbook.errors import SignalbookError
from signalbook.messages import Policy
from signalbook.pipeline import Contract, PipelineError, land, register, typed, validate
from signalbook.pipeline.frames.validation import build_outcomes
from signalbook.values import JSONObject

PARCELS = tuple(f"{GROUP}parcel.{name}" for name in ("accepted", "delivered", "noted"))


def test_pickled_contract_is_small_and_equal(contract: Contract) -> None:
    text = pickle.dumps(contract)
    arrived: Contract = pickle.loads(text)
    assert arrived == contract
    assert arrived.snapshot() == contract.snapshot()
    assert len(text) < len(contract.snapshot().to_json())
    assert set(arrived.load_compiled().definitions) == set(contract.definitions)


def test_a_folder_and_groups(definitions: Path) -> None:
    """A contract accepts the registries that ``pipeline run`` accepts."""
    contract = Contract.of(str(definitions.parent), groups=["/messagegroups/parcels"])
    assert contract.definitions == PARCELS
    assert contract.fingerprint == Contract.of(definitions).fingerprint
    with pytest.raises(PipelineError, match="no message group or endpoint /messagegroups/x"):
        Contract.of(definitions, groups=["/messagegroups/x"])


def test_a_registry(parcels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry is read once by its URL, with a token in a variable. The contract contains what the identity can
    read, and does not change.
    """
    document = parcels.catalogue()
    document["messagegroups"]["others"] = {"messages": {"secret.one": parcels.message("secret.one")}}
    with served(tmp_path) as url, Client(url) as client:
        client.import_document(document)
        assert Contract.of(url).definitions == ("/messagegroups/others/messages/secret.one", *PARCELS)
        token = client.tokens.add({"subject": "spark"})["token"]
        root = {"who": ["subject:root"], "role": "administrator"}
        spark = {"who": ["subject:spark"], "role": "reader", "on": ["/messagegroups/parcels", "/schemagroups"]}
        client.access.put({"rules": [root, spark]}, new=True)
        with pytest.raises(NotAuthenticated, match="send credentials"):
            Contract.of(url)
        monkeypatch.setenv("TOKEN_OF_TESTS", token)
        contract = Contract.of(url.replace("http://", "http://${TOKEN_OF_TESTS}@"))
    assert contract.definitions == PARCELS
    assert any("spark may not read all of it" in doubt for doubt in contract.doubts)
    assert token not in f"{contract} {contract.snapshot().to_json()!r}"
    arrived: Contract = pickle.loads(pickle.dumps(contract))
    events = [parcels.event(0), parcels.event(1, data={"id": 1}), parcels.event(2, type="secret.one")]
    assert results(arrived, *events) == ["landed", "schema_violation", "unknown_kind"]


def results(contract: Contract, *events: JSONObject) -> list[str]:
    """Return the outcomes of events: that they landed, or the reason for the rejection."""
    sent = records(*({"value": json.dumps(event).encode()} for event in events))
    rows = [row for batch in build_outcomes(contract, iter([sent])) for row in batch.to_pylist()]
    landed = {row["landed"]["ce_id"] for row in rows if row["landed"]}
    dead = {row["dead_letter"]["position"]: row["dead_letter"]["reason"] for row in rows if row["dead_letter"]}
    return ["landed" if event["id"] in landed else dead[number] for number, event in enumerate(events)]


def test_definitions_by_xid(contract: Contract) -> None:
    assert contract.definition(f"{GROUP}sent") == f"{GROUP}sent"
    with pytest.raises(PipelineError, match=f"no message definition parcel.sent; did you mean {GROUP}") as caught:
        contract.definition("parcel.sent")
    assert GROUP in str(caught.value)


def test_unusable_policy_or_registry_is_an_error(definitions: Path, parcels: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no table for messages without a definition"):
        Contract.of(definitions, policy=Policy(on_no_match="pass"))
    with pytest.raises(PipelineError, match="are not there"):
        Contract.of(tmp_path / "nowhere.json")
    unknown: Any = "name"
    with pytest.raises(PipelineError, match="subjects is 'name', and must be one of topic, record, topic-record"):
        Contract.of(definitions, subjects=unknown)


def test_policy_of_a_job_file_is_accepted(definitions: Path, parcels: Any) -> None:
    contract = Contract.of(definitions, policy={f"{GROUP}parcel.accepted": {"on_schema_violation": "tag"}})
    assert results(contract, parcels.event(0, data={"id": 1})) == ["landed"]
    assert Contract.of(definitions, policy={}).policy == Policy()
    wrong: Any
    for wrong, words in (
        ({"on_nothing": "drop"}, "policy: there is no setting 'on_nothing'; there are: on_no_match, "),
        ({"on_removed": "drop"}, "policy: on_removed is 'drop', and must be one of warn, dead_letter"),
        ({"on_no_match": "pass"}, "no table for messages without a definition"),
        ("on_removed=warn", "policy: must be an object of settings"),
    ):
        with pytest.raises(SignalbookError, match=words):
            Contract.of(definitions, policy=wrong)


def test_invalid_contract_is_rejected(spark_session: SparkSession, definitions: Path, tmp_path: Path) -> None:
    """The driver rejects it before a worker uses it."""
    frame, path = spark_session.sql("SELECT '{}' AS value"), cast("Contract", str(definitions))
    for refused in (
        lambda: validate(frame, path),
        lambda: typed(frame, path, f"{GROUP}sent"),
        lambda: land(frame, tmp_path / "lake", path, batch_id="b"),
        lambda: register(spark_session, path),
    ):
        with pytest.raises(TypeError, match=r"is a str: give what pipeline\.Contract\.of\(registry\) makes"):
            refused()


def test_broken_definition_does_not_affect_others(definitions: Path, parcels: Any) -> None:
    """The definition is omitted and reported; its messages become dead letters with the reason."""
    document = json.loads(definitions.read_text())
    document["schemagroups"]["parcels"]["schemas"]["parcel"]["versions"]["1"]["schema"] = {"type": "nonsense"}
    definitions.write_text(json.dumps(document))
    contract = Contract.of(definitions)
    assert any("parcel.accepted" in doubt for doubt in contract.doubts)
    events = parcels.event(0), parcels.event(1, type="parcel.noted")
    assert results(contract, *events) == ["contract_unavailable", "landed"]
