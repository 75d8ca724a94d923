import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tests.codegen.conftest import DOCUMENT

from signalbook.codegen.base import generate, read_input
from signalbook.documents import DocumentError, parse_source
from signalbook.values import dump_json

STANDARD = json.loads((files("open_data_contract_standard") / "schema.json").read_text())
CONTRACT: dict[str, Any] = {
    "apiVersion": "v3.1.0",
    "kind": "DataContract",
    "id": "orders",
    "name": "Orders",
    "version": "1.2.0",
    "status": "active",
    "description": {"purpose": "What was ordered.", "usage": "Any."},
    "servers": [
        {"server": "prod", "type": "kafka", "host": "a:9092,b:9092", "format": "json"},
        {"server": "lake", "type": "s3", "location": "s3://b/x"},
    ],
    "price": {"priceAmount": 5},
    "schema": [
        {
            "name": "Placed",
            "physicalName": "orders.placed",
            "physicalType": "topic",
            "tags": ["x"],
            "quality": [{"metric": "rowCount", "mustBeGreaterThan": 5}],
            "properties": [
                {"name": "id", "logicalType": "string", "required": True, "primaryKey": True, "unique": True,
                 "logicalTypeOptions": {"minLength": 1, "pattern": "^[a-z]+$"}, "classification": "secret"},
                {"name": "state", "logicalType": "string", "businessName": "State", "quality": [
                    {"metric": "invalidValues", "arguments": {"validValues": ["new", "old"]}, "mustBe": 0},
                    {"type": "sql", "query": "SELECT 1", "mustBe": 1}]},
                {"name": "day", "logicalType": "date", "logicalTypeOptions": {"format": "dd.MM.yyyy"}},
                {"name": "at", "logicalType": "timestamp", "examples": ["2026-01-01T00:00:00Z"],
                 "quality": [{"metric": "nullValues", "mustBe": 0}]},
                {"name": "items", "logicalType": "array", "logicalTypeOptions": {"minItems": 1}, "required": True,
                 "items": {"logicalType": "object", "properties": [
                     {"name": "sku", "logicalType": "string", "required": True},
                     {"name": "count", "logicalType": "integer"}]}},
            ],
        }
    ],
}  # fmt: skip


def read(document: Any) -> tuple[dict[str, Any], list[str]]:
    source = parse_source(json.dumps(document).encode(), name="orders.odcs.json")
    return source.document, [str(repair) for repair in source.repairs]


def of_properties(*properties: dict[str, Any]) -> dict[str, Any]:
    document = CONTRACT | {"schema": [{"name": "t", "properties": list(properties)}]}
    return dict(read(document)[0]["schemagroups"]["Orders"]["schemas"]["t"]["schema"])


def test_the_contract_keeps_to_the_standard() -> None:
    assert [error.message for error in jsonschema_rs.validator_for(STANDARD).iter_errors(CONTRACT)] == []


def test_schemas_messages_and_endpoints() -> None:
    imported, losses = read(CONTRACT)
    group = imported["schemagroups"]["Orders"]
    assert group["labels"] == {"odcs.id": "orders", "odcs.version": "1.2.0", "odcs.status": "active"}
    assert group["description"] == "What was ordered.\n\nAny."
    schema = group["schemas"]["Placed"]
    assert schema["labels"] == {"odcs.primarykey": "id", "odcs.unique": "id"}
    assert schema["schema"] == yaml.safe_load("""
    $schema: "https://json-schema.org/draft/2020-12/schema"
    type: object
    properties:
      id: {type: string, minLength: 1, pattern: "^[a-z]+$"}
      state: {title: State, type: [string, "null"], enum: [new, old, null]}
      day: {type: [string, "null"]}
      at: {type: string, format: date-time, examples: ["2026-01-01T00:00:00Z"]}
      items:
        type: array
        minItems: 1
        items: {type: object, properties: {sku: {type: string}, count: {type: [integer, "null"]}}, required: [sku]}
    required: [id, at, items]
    """)
    assert imported["messagegroups"]["Orders"]["messages"]["Placed"] == yaml.safe_load("""
    {dataschemaformat: JsonSchema/draft/2020-12, dataschemauri: /schemagroups/Orders/schemas/Placed, protocol: KAFKA,
      protocoloptions: {topic: orders.placed}, datacontenttype: application/json}
    """)
    expected = {"endpoints": [{"bootstrap.servers": ["a:9092", "b:9092"]}], "topic": "orders.placed"}
    assert imported["endpoints"]["Orders-prod"]["protocoloptions"] == expected
    for loss in (
        "left out price",
        "/servers/1: left out a server of type 's3'",
        "/schema/0: left out quality, tags [DC-2]",
        "properties/0: left out classification",
        "quality/1: left out a rule of quality (sql)",
        "properties/2/logicalTypeOptions: left out the format dd.MM.yyyy",
    ):
        assert any(loss in line for line in losses), loss


def test_maps_vectors_enums_and_limits_of_3_0() -> None:
    schema = of_properties(
        {"name": "m", "logicalType": "map", "required": True,
         "map": {"key": {"logicalType": "string"}, "value": {"logicalType": "integer"}}},
        {"name": "v", "logicalType": "vector", "required": True, "logicalTypeOptions": {"dimensions": 3}},
        {"name": "e", "logicalType": "integer", "required": True, "enum": [{"value": 1}, {"value": 2, "label": "two"}]},
        {"name": "n", "logicalType": "number", "required": True,
         "logicalTypeOptions": {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}},
    )  # fmt: skip
    expected = {"p": {"type": "string"}}
    assert of_properties({"name": "p", "physicalType": "VARCHAR(40)", "required": True})["properties"] == expected
    assert schema["properties"] == {
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "v": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3},
        "e": {"type": "integer", "enum": [1, 2]},
        "n": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
    }


def test_tables_and_messages_in_other_formats() -> None:
    imported, losses = read(
        {**CONTRACT, "servers": [{"server": "k", "type": "kafka", "host": "a:1", "format": "avro"}]}
    )
    assert "dataschemauri" not in imported["messagegroups"]["Orders"]["messages"]["Placed"]
    assert any("/schema/0: the message has no schema: it is in avro" in loss for loss in losses)
    imported, _ = read({**CONTRACT, "servers": []})
    assert "protocol" not in imported["messagegroups"]["Orders"]["messages"]["Placed"]
    assert "endpoints" not in imported


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (CONTRACT | {"apiVersion": "v2.2.2"}, "/apiVersion: v3.0.0 to v3.2.0"),
        (CONTRACT | {"schema": []}, "/schema: it has none"),
        (CONTRACT | {"schema": {}}, "/schema: must be a list"),
        (CONTRACT | {"schema": [5]}, "/schema/0: must be an object"),
        (CONTRACT | {"schema": [{}]}, "/schema/0: it has no name"),
        (CONTRACT | {"schema": [{"name": "a", "properties": [{"name": "x"}, {"name": "x"}]}]}, "two properties"),
        (CONTRACT | {"schema": [{"name": "a", "properties": [{"name": "x", "logicalType": "blob"}]}]}, "'blob'"),
        (CONTRACT | {"schema": [{"name": "a", "properties": [{"name": "x", "quality": {}}]}]}, "must be a list"),
        (CONTRACT | {"servers": [{"type": 5}]}, "/servers/0/type: must be a string"),
    ],
)
def test_errors_have_their_place(document: Any, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read(document)


def test_generated_contract_can_be_imported(tmp_path: Path) -> None:
    """The schema of a table has the columns of its contract: generated of it, they are the same."""
    contract = _generated(DOCUMENT, tmp_path)
    imported, losses = read(contract)
    assert "messagegroups" not in imported  # what the contract was generated of stays what it is
    assert all("was generated of" in entry for entry in losses)
    schemas = imported["schemagroups"]["shop.orders.tables"]["schemas"]
    rows = {
        name: {
            "protocol": "NATS",
            "protocoloptions": {"subject": name},
            "dataschemaformat": entry["format"],
            "dataschema": entry["schema"],
        }
        for name, entry in schemas.items()
    }
    again = _generated({"messagegroups": {"shop.orders": {"messages": rows}}}, tmp_path)
    after = {entry["name"]: {column["name"]: column for column in entry["properties"]} for entry in again["schema"]}
    compared = 0
    for table in contract["schema"]:
        for column in table["properties"]:
            # Those the landing adds to every table, whatever the payload has.
            if not column["name"].startswith(("_", "ce_")):
                compared += 1
                assert _said(after[table["name"]][column["name"]]) == _said(column), (table["name"], column["name"])
    assert compared >= 10


def _said(column: dict[str, Any]) -> dict[str, Any]:
    # Types of columns that the standard has one word for are one; times of day are text in JSON, and so are the maps
    # that version 3.1 has no word for.
    stated = {name: value for name, value in column.items() if name != "physicalType"}
    plain = stated["logicalType"] == "time" or (stated["logicalType"] == "object" and "properties" not in stated)
    return stated | ({"logicalType": "string"} if plain else {})


def _generated(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "definitions.json"
    path.write_bytes(dump_json(document))
    (generated_file,) = generate(read_input("odcs", str(path), (), {})).files
    document_: dict[str, Any] = yaml.safe_load(generated_file.content)
    return document_
