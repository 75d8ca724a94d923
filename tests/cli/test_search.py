import json

from .conftest import Cli

YAML = b"""
messagegroups:
  m1:
    name: "First\\e[31m"
    messages:
      made:
        envelope: CloudEvents/1.0
        description: Somebody bought something
        dataschemaxid: /schemagroups/g/schemas/order
schemagroups:
  g:
    schemas:
      order: {format: JsonSchema/draft-07, schema: {properties: {customer_id: {description: who bought}}}}
"""


def test_hits_and_why(cli: Cli, where: list[str]) -> None:
    ran = cli("search", "bought", *where)
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "/messagegroups/m1/messages/made",
        "    attribute description: Somebody bought something",
        "/schemagroups/g/schemas/order",
        "    field customer_id: who bought",
    ]
    assert "2 found" in ran.err


def test_messages_by_a_field_of_their_schema(cli: Cli, where: list[str]) -> None:
    assert cli("search", "field:customer_id", "--type", "messages", *where).out.splitlines() == [
        "/messagegroups/m1/messages/made",
        "    field customer_id of /schemagroups/g/schemas/order",
    ]


def test_json_and_facets(cli: Cli, where: list[str]) -> None:
    ran = cli("search", "field:customer_id", "--type", "schemas", "--format", "jsonschema", "--json", *where)
    result = json.loads(ran.out)
    assert [hit["xid"] for hit in result["hits"]] == ["/schemagroups/g/schemas/order"]
    assert result["facets"]["group"] == {"/schemagroups/g": 1}
    assert json.loads(cli("search", "bought", "--deprecated", "--json", *where).out)["count"] == 0


def test_no_escape_reaches_the_terminal(cli: Cli, where: list[str]) -> None:
    assert "\x1b" not in cli("search", "first", *where).out


def test_invalid_query_is_an_error(cli: Cli, where: list[str]) -> None:
    ran = cli("search", '"open', *where)
    assert ran.code != 0
    assert "has no end" in ran.err
