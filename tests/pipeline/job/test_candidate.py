"""A candidate takes the place of what it stands for, and of nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from signalbook.pipeline.errors import PipelineError
from signalbook.pipeline.job.candidate import find_affected, with_candidate
from signalbook.pipeline.job.snapshot import Snapshot

ACCEPTED, DELIVERED, NOTED = (f"/messagegroups/parcels/messages/parcel.{n}" for n in ("accepted", "delivered", "noted"))
SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "self": {"vendor": "com.acme"}, "type": "object"}


@pytest.fixture
def today(parcels: Any) -> dict[str, Any]:
    """The parcels, a second Version of their schema, and a group of its own."""
    document: dict[str, Any] = parcels.catalogue()
    parcel = document["schemagroups"]["parcels"]["schemas"]["parcel"]
    parcel["versions"]["2"] = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
    parcel["meta"] = {"defaultversionid": "1"}
    document["messagegroups"]["vans"] = {"messages": {"van.left": parcels.message("van.left")}}
    return document


def changed(today: dict[str, Any], candidate: str | Path, *definitions: str, groups: tuple[str, ...] = ()) -> list[str]:
    """The last part of the xids of all definitions that say something else then."""
    documents = [("today", today)]
    tomorrow = with_candidate(documents, groups, str(candidate), definitions)
    xids = find_affected(Snapshot.of_documents(documents, groups), tomorrow)
    return [xid.rpartition("/")[2] for xid in xids]


def test_document_replaces_the_named_definitions(today: dict[str, Any], parcels: Any, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    messages = {"parcel.noted": parcels.message("parcel.noted", description="new"), "parcel.new": parcels.message("n")}
    path.write_text(json.dumps({"messagegroups": {"parcels": {"messages": messages}}}))
    assert changed(today, path) == ["parcel.new", "parcel.noted"]


def test_groups_choose_of_the_candidate_too(today: dict[str, Any], tmp_path: Path) -> None:
    """Before, what other groups have in the candidate counted as new, and all that landed for it as mended."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps(today))
    assert changed(today, path, groups=("/messagegroups/parcels",)) == []
    today = today | {"endpoints": {"e": {"messagegroups": ["/messagegroups/vans"]}}}
    assert changed(today, path, groups=("/endpoints/e",)) == []


def test_a_candidate_may_derive_from_a_version(today: dict[str, Any], parcels: Any, tmp_path: Path) -> None:
    """The base is a message of the registry without other users; the candidate may also replace that Version (F-15)."""
    messages = today["messagegroups"]["parcels"]["messages"]
    messages["parcel.base"] = {"versions": {"1": parcels.message("parcel.base"), "2": {}}}
    derived = {"basemessage": "/messagegroups/parcels/messages/parcel.base/versions/1"}
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"messagegroups": {"parcels": {"messages": {"parcel.new": derived}}}}))
    assert changed(today, path) == ["parcel.new"]
    messages["parcel.old"] = derived
    version = {"1": parcels.message("parcel.base", description="anew"), "2": {}}
    path.write_text(json.dumps({"messagegroups": {"parcels": {"messages": {"parcel.base": {"versions": version}}}}}))
    assert changed(today, path) == ["parcel.old"]


def test_a_schema_is_for_definitions(today: dict[str, Any], tmp_path: Path) -> None:
    """A schema that describes itself is not a registry document."""
    path = tmp_path / "c.json"
    path.write_text(json.dumps(SCHEMA))
    assert changed(today, path, ACCEPTED) == ["parcel.accepted"]
    with pytest.raises(PipelineError, match=r"is a schema: say with --definition"):
        changed(today, path)
    with pytest.raises(PipelineError, match=f"the definition {NOTED} says no dataschemaformat"):
        changed(today, path, NOTED)


def test_a_version_of_the_registry(today: dict[str, Any]) -> None:
    version = "/schemagroups/parcels/schemas/parcel/versions/2"
    assert changed(today, version) == ["parcel.accepted", "parcel.delivered"]
    with pytest.raises(PipelineError, match="there is no Version"):
        changed(today, version + "0")
