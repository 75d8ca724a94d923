"""The page of a schema: its fields as a tree in every format, beside its text; bounded; why there is none."""

from typing import Any

import pytest

from ..conftest import Client
from .conftest import Document, show
from .test_messages import FORMATS, put

SCHEMA = "/schemagroups/shop/schemas/paid"


def store(client: Client, format: str, schema: Any) -> None:
    put(client, f"{SCHEMA}$details", {"format": format, "schema": schema})


def tree(page: Document) -> str:
    """Return the text of the tree."""
    trees = (node for node in page.all("div") if node.get("class") == "tree")
    return " ".join(" ".join(text for node in trees for text in node.itertext()).split())


@pytest.mark.parametrize("format", FORMATS)
def test_fields_are_shown_as_a_tree_in_every_format(explorer: Client, format: str) -> None:
    store(explorer, format, FORMATS[format])
    for path in (SCHEMA, f"{SCHEMA}/versions/1"):
        page = show(explorer, path)
        assert "amount" in tree(page)
        assert "What was paid" in tree(page)
        assert f"Fields {format}" in page.words("main")
        assert "amount" in "".join(next(tag for tag in page.all("code") if tag.get("id") == "text").itertext())


def test_referenced_schema_is_expanded(explorer: Client) -> None:
    store(explorer, "JsonSchema/draft-07", FORMATS["JsonSchema/draft-07"])
    order = {"type": "object", "properties": {"payment": {"$ref": SCHEMA}}}
    put(explorer, f"{SCHEMA}-order$details", {"format": "JsonSchema/draft-07", "schema": order})
    assert "What was paid" in tree(show(explorer, f"{SCHEMA}-order"))


def test_references_by_path_and_id_are_resolved(explorer: Client) -> None:
    """References by path and by $id work in a schema and in a message."""
    store(explorer, "JsonSchema/draft-07", {**FORMATS["JsonSchema/draft-07"], "$id": "https://e.org/paid"})
    for name, reference in (("by-path", "./paid.json"), ("by-id", "https://e.org/paid")):
        order = {"type": "object", "properties": {"payment": {"$ref": reference}}}
        put(explorer, f"{SCHEMA}-{name}$details", {"format": "JsonSchema/draft-07", "schema": order})
        assert "What was paid" in tree(show(explorer, f"{SCHEMA}-{name}"))
        inline = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": order}
        put(explorer, "/messagegroups/shop/messages/m", {"envelope": "CloudEvents/1.0", **inline})
        assert "What was paid" in tree(show(explorer, "/messagegroups/shop/messages/m"))


def test_each_message_type_of_a_document_has_a_tree(explorer: Client) -> None:
    types = 'syntax = "proto3";\nmessage Order { repeated Line lines = 1; }\nmessage Line { string sku = 1; }\n'
    store(explorer, "Protobuf/3", types)
    page = show(explorer, SCHEMA)
    assert len([tag for tag in page.all("div") if tag.get("class") == "tree"]) == 2
    assert "Order lines" in tree(page)
    assert "Line sku string" in tree(page)


def test_a_document_of_which_nothing_is_known_has_its_text_alone(explorer: Client) -> None:
    store(explorer, "Own/1", "anything")
    page = show(explorer, SCHEMA)
    assert "Fields" not in page.words("main")
    assert "anything" in page.words("main")
