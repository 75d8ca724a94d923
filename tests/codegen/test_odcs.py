"""Data contracts, held to the JSON Schema of the standard."""

import json
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from tests.codegen.conftest import Make
from tests.codegen.hostile import HOSTILE, document, entity_id, texts

SCHEMA = json.loads((files("open_data_contract_standard") / "schema.json").read_text())


def contract(make: Make, **options: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(make("odcs", **options).files[0].content)
    return document


def test_contract_conforms_to_the_standard(make: Make) -> None:
    document = contract(make, version="2.1.0")
    faults = [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(document)]
    assert faults == []
    assert (document["version"], document["status"], document["description"]) == (
        "2.1.0",
        "active",
        {"purpose": "To the door."},
    )


def test_columns(make: Make) -> None:
    tables = {entry["name"]: entry for entry in contract(make)["schema"]}
    columns = {entry["name"]: entry for entry in tables["order.placed"]["properties"]}
    assert columns["kind"]["required"]
    assert columns["kind"]["quality"][0]["arguments"] == {"validValues": ["again", "new"]}
    assert columns["total"]["description"] == "Euros | cents"
    assert columns["buyer"]["properties"] == [{"name": "e-mail", "logicalType": "string"}]
    rides = {entry["name"]: entry["logicalType"] for entry in tables["class"]["properties"]}
    assert (rides["fare"], rides["at"], rides["tags"], rides["_landed_at"]) == ("number", "time", "object", "timestamp")


@pytest.mark.merge
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
@example(texts=[*HOSTILE])
def test_hostile_texts_are_data(make: Make, texts: list[str]) -> None:
    """Look for the texts in names, descriptions and closed sets of the contracts."""
    generated = make("odcs", document(texts))
    contracts = [yaml.load(file.content, yaml.CSafeLoader) for file in generated.files]
    tables = {contract_["customProperties"][0]["value"]: (contract_, contract_["schema"][0]) for contract_ in contracts}
    every = {column["name"]: column for column in tables["/messagegroups/all"][1]["properties"]}
    for number, text in enumerate(texts):
        contract_, table = tables[f"/messagegroups/{entity_id(text)}"]
        assert (contract_["name"], contract_["description"]) == (text, {"purpose": text})
        assert (table["name"], table["description"]) == (text, text)
        assert every[text]["description"] == text
        assert [member["name"] for member in every[text]["properties"]] == [text, "fixed member", "chosen member"]
        assert set(every[f"choice {number}"]["quality"][0]["arguments"]["validValues"]) == {text, "other"}
