"""The page of a message: properties with their origin, the payload as a tree, a sample that conforms."""

import json
import re
from typing import Any

import pytest

from ..conftest import Client
from .conftest import Document, form_token, show

BASE = "/messagegroups/shop/messages/base"
MESSAGE = "/messagegroups/shop/messages/paid"
SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "additionalProperties": False,
    "properties": {"amount": {"type": "number", "minimum": 3, "description": "What was paid"}},
}
AVRO = {"type": "record", "name": "Paid", "fields": [{"name": "amount", "type": "double", "doc": "What was paid"}]}
STRUCTURE = {
    "$schema": "https://json-structure.org/meta/core/v0/#",
    "$id": "https://example.com/paid",
    "name": "Paid",
    "type": "object",
    "required": ["amount"],
    "properties": {"amount": {"type": "double", "description": "What was paid"}},
}
PROTO = 'syntax = "proto3";\nmessage Paid {\n  // What was paid\n  double amount = 1;\n}\n'
XSD = """<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="paid"><complexType><sequence>
<element name="amount" type="double"><annotation><documentation>What was paid</documentation></annotation></element>
</sequence></complexType></element></schema>"""
FORMATS: dict[str, Any] = {
    "JsonSchema/draft-07": SCHEMA,
    "Avro/1.11": AVRO,
    "JsonStructure/draft-04": STRUCTURE,
    "Protobuf/3": PROTO,
    "XSD/1.0": XSD,
}


def definition(format: str = "JsonSchema/draft-07", schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.paid"}}}
    return {**event, "dataschemaformat": format, "dataschema": schema, **more}


def put(client: Client, path: str, body: dict[str, Any]) -> None:
    answer = client.put(path, body)
    assert answer.is_success, answer.text


def element(page: Document, id: str) -> str:
    return "".join(next(node for node in page.root.iter() if node.get("id") == id).itertext())


def rows(page: Document) -> dict[str, str]:
    """The rows of all property tables, by the names of the properties."""
    tables = [node for node in page.all("table") if node.get("class") == "properties"]
    texts = [" ".join(" ".join(row.itertext()).split()) for table in tables for row in table.iter("tr")]
    return {text.partition(" ")[0]: text for text in texts}


def test_properties_show_required_fixed_templated_and_inherited(explorer: Client) -> None:
    metadata = {
        "source": {"type": "uritemplate", "value": "/shops/{shop}", "description": "Which shop"},
        "time": {"type": "timestamp", "required": True},
    }
    put(explorer, BASE, {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata})
    kafka: dict[str, Any] = {"protocol": "KAFKA", "protocoloptions": {"topic": "paid", "key": "{shop}"}}
    put(explorer, MESSAGE, definition(basemessage=BASE, **kafka))
    page = show(explorer, MESSAGE)
    properties = rows(page)
    assert "shop.paid · fixed" in properties["type"].replace("fixed", "· fixed")
    assert properties["source"].startswith("source required /shops/{shop} template")
    assert "from base Which shop" in properties["source"]
    assert "required" in properties["time"]
    assert "from base" in properties["time"]
    assert "any" in properties["time"]
    assert "from" not in properties["type"]
    assert "Every CloudEvent has it." in properties["id"]
    assert "paid fixed" in properties["topic"]
    assert "{shop} template" in properties["key"]
    assert page.links()["base"] == f"/ui{BASE}"


@pytest.mark.parametrize("format", FORMATS)
def test_the_payload_is_a_tree_in_every_format(explorer: Client, format: str) -> None:
    put(explorer, MESSAGE, definition(format, FORMATS[format]))
    page = show(explorer, MESSAGE)
    tree = next(tag for tag in page.all("div") if tag.get("class") == "tree")
    words = " ".join(" ".join(tree.itertext()).split())
    assert "amount" in words
    assert "What was paid" in words
    assert element(page, "sample-event"), "and a sample that conforms to it"


def test_sample_command_can_be_sent(explorer: Client) -> None:
    put(explorer, MESSAGE, definition())
    page = show(explorer, MESSAGE)
    event = json.loads(element(page, "sample-event"))
    assert event["type"] == "shop.paid"
    assert event["data"] == {"amount": 3}
    assert "-H 'ce-type: shop.paid'" in element(page, "sample-curl")
    assert "-H ce_type=shop.paid" in element(page, "sample-kafka")
    assert "conforms" in try_it(explorer, json.dumps(event)).words("main")


def test_record_command_uses_the_endpoint_address(explorer: Client) -> None:
    """The message's own topic comes first; endpoints may have any options."""
    place: dict[str, Any] = {"topic": "shop it's", "endpoints": [{"bootstrap.servers": ["b1:9092", "b2:9092"]}]}
    kafka = {"usage": ["producer"], "protocol": "KAFKA", "messagegroups": ["/messagegroups/shop"]}
    put(explorer, "/endpoints/kafka", {**kafka, "protocoloptions": place})
    put(explorer, MESSAGE, definition())
    page = show(explorer, MESSAGE)
    assert "kcat -P -b b1:9092,b2:9092 -t 'shop it'\"'\"'s' " in element(page, "sample-kafka")
    assert "Kafka record, by kcat, to /endpoints/kafka" in page.words("main")
    put(explorer, MESSAGE, definition(protocol="KAFKA", protocoloptions={"topic": "paid"}))
    assert "-b b1:9092,b2:9092 -t paid " in element(show(explorer, MESSAGE), "sample-kafka")
    put(explorer, "/endpoints/kafka", {**kafka, "protocoloptions": {"endpoints": []}})
    put(explorer, MESSAGE, definition(protocol="HTTP"))
    assert show(explorer, MESSAGE).status == 200
    inside = {"messages": {"paid": definition()}, "usage": ["producer"], "protocol": "KAFKA"}
    put(explorer, "/endpoints/own", {**inside, "protocoloptions": {"topic": "own"}})
    own_page = show(explorer, "/endpoints/own/messages/paid")
    assert "-b localhost:9092 -t own " in element(own_page, "sample-kafka")


def test_page_explains_a_missing_sample(explorer: Client) -> None:
    put(explorer, MESSAGE, definition(schema={**SCHEMA, "not": {"required": ["amount"]}}))
    assert "No sample could be made that conforms" in show(explorer, MESSAGE).words("main")


_CAPITALS = {"type": "string", "pattern": r"^\p{Lu}{3}$"}


@pytest.mark.parametrize(("required", "expected"), [([], "it conforms"), (["odd/~"], "It lacks required members")])
def test_a_member_without_a_value_is_left_out_of_a_sample(explorer: Client, required: list[str], expected: str) -> None:
    properties = {
        "parcel": {"type": "string", "pattern": "^P[0-9]{10}$"},
        "odd/~": _CAPITALS,
        "list": {"type": "array", "items": _CAPITALS},
        "weight": {"type": "number"},
    }
    put(explorer, MESSAGE, definition(schema={"type": "object", "required": required, "properties": properties}))
    page = show(explorer, MESSAGE)
    data = json.loads(element(page, "sample-event"))["data"]
    assert re.fullmatch("P[0-9]{10}", data.pop("parcel"))
    assert data == {"list": [], "weight": 1}
    words = page.words("main")
    assert expected in words
    assert 'data/odd~1~0 "odd/~" does not match' in words
    (box,) = show(explorer, f"/-/try{MESSAGE}").all("textarea")
    assert '"parcel": "P' in "".join(box.itertext()), "the form begins with what there is"


def test_page_reports_an_unknown_schema(explorer: Client) -> None:
    body = definition()
    del body["dataschema"]
    put(explorer, MESSAGE, {**body, "dataschemauri": "/schemagroups/shop/schemas/nowhere"})
    assert "names no schema" in show(explorer, MESSAGE).words("main")


def try_it(client: Client, text: str, **form: str) -> Document:
    path = f"/-/try{MESSAGE}"
    form_data = {"token": form_token(client, path), "message": text, **form}
    return show(client, path, method="POST", data=form_data)


def test_a_message_is_matched_and_each_violation_has_its_place(explorer: Client) -> None:
    put(explorer, MESSAGE, definition())
    event = {"specversion": "1.0", "id": "1", "source": "/shops/a", "type": "shop.paid", "data": {"amount": 1, "x": 2}}
    words = try_it(explorer, json.dumps(event)).words("main")
    assert "rejected schema_violation" in words
    assert "/amount 1 is less than the minimum of 3" in words
    assert f"It may have meant {MESSAGE}" in words
    other = {**event, "type": "shop.placed"}
    assert "It is a message of /messagegroups/shop/messages/placed" in try_it(explorer, json.dumps(other)).words("main")
    assert "unknown_kind" in try_it(explorer, json.dumps({**event, "type": "else"})).words("main")
    assert "invalid_cloudevent" in try_it(explorer, "{}").words("main")
    long = try_it(explorer, json.dumps({**event, "id": "1" * 300})).all("ul")[-1]
    assert '"amount": 1' in "".join(long.itertext()), "a piece of a long message around the place"


def test_a_payload_alone_is_held_to_the_schema(explorer: Client) -> None:
    put(explorer, MESSAGE, definition("Avro/1.11", AVRO))
    good = try_it(explorer, "AAAAAAAACEA=", kind="payload", base64="yes").words("main")
    assert "conforms" in good
    assert '"amount": 3.0' in good
    assert "decode_error" in try_it(explorer, "AAA=", kind="payload", base64="yes").words("main")
    assert "it is not Base64" in try_it(explorer, "?", kind="payload", base64="yes").words("main")


def test_form_contains_the_sample_and_keeps_lines(explorer: Client) -> None:
    put(explorer, MESSAGE, definition())
    assert json.loads(show(explorer, f"/-/try{MESSAGE}").words("textarea"))["data"] == {"amount": 3}
    assert "".join(try_it(explorer, "{\r\n}").all("textarea")[0].itertext()).strip() == "{\n}"


def test_invalid_trial_is_rejected(explorer: Client) -> None:
    for path in ("/-/try/schemagroups/shop/schemas/order", "/-/try/messagegroups/shop/messages/gone", "/-/try/x"):
        assert show(explorer, path).status == 404
    put(explorer, MESSAGE, definition())
    assert try_it(explorer, "{}", kind="else").status == 400
    assert try_it(explorer, "x" * 300_000).status == 400
    assert show(explorer, f"/-/try{MESSAGE}", method="POST", content=b"%ff%").status in (200, 400)
    before = explorer.get("/export").text
    try_it(explorer, "{}")
    assert explorer.get("/export").text == before


def test_a_page_of_another_site_cannot_use_the_form(explorer: Client) -> None:
    put(explorer, MESSAGE, definition())
    assert try_it(explorer, "{}", token="").status == 403
    sent = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = explorer.send("POST", f"/ui/-/try{MESSAGE}", data={"message": "{}"}, headers=sent)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"type": "string", "description": "d" * 90} for number in range(5_000)}},
        {"properties": {f"p{number}": {"enum": ["<&>\"'" * 100] * 20} for number in range(150)}},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"items": {"$ref": "#"}}}},
        {"description": "x" * 500_000, "properties": {"p" * 50_000: {"const": "y" * 200_000}}},
        {"properties": {f"p{number}": {"minimum": number} for number in range(300)}, "$comment": "<" * 15_000},
    ],
    ids=["wide", "escapes", "itself", "long", "document"],
)
def test_the_pages_of_a_large_schema_stay_small(explorer: Client, schema: dict[str, Any]) -> None:
    put(explorer, "/schemagroups/shop/schemas/large$details", {"format": "JsonSchema/draft-07", "schema": schema})
    body = definition(dataschemauri="/schemagroups/shop/schemas/large")
    del body["dataschema"]
    put(explorer, MESSAGE, body)
    for path in ("/schemagroups/shop/schemas/large", MESSAGE, f"/-/try{MESSAGE}"):
        page = show(explorer, path)
        assert page.status == 200
        assert ("tree" in {tag.get("class") for tag in page.all("div")}) is not path.startswith("/-/")
        assert len(page.text.encode()) < 200_000, path


def test_schemas_that_are_too_large_are_not_read_for_a_page(explorer: Client) -> None:
    schema = {"type": "object", "description": "x" * 2_200_000}
    body = {"format": "JsonSchema/draft-07", "schema": schema}
    assert explorer.put("/schemagroups/shop/schemas/order$details", body).is_success
    page = show(explorer, "/messagegroups/shop/messages/placed")
    assert page.status == 200
    words = page.words("main")
    assert "more than 2097152 bytes together: here they are not read." in words, words[200:1400]
    assert show(explorer, "/-/try/messagegroups/shop/messages/placed").status == 200
    assert "here they are not read" in show(explorer, "/schemagroups/shop/schemas/order").words("main")
