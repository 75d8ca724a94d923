"""The page of a schema: its fields as a tree in every format, beside its text; bounded; why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Client
from .conftest import Document, show
from .test_messages import FORMATS, put
from .test_pages import HOSTILE, harmless

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


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"type": "string", "description": "d" * 90} for number in range(5_000)}},
        {"properties": {f"p{number}": {"enum": ["<&>\"'" * 100] * 20} for number in range(150)}},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "description": "x" * 59_000},
        {"properties": {f"p{number}": {"minimum": number} for number in range(300)}, "$comment": "<" * 15_000},
    ],
    ids=["wide", "escapes", "itself", "document"],
)
def test_the_page_stays_small(explorer: Client, schema: dict[str, Any]) -> None:
    store(explorer, "JsonSchema/draft-07", schema)
    page = show(explorer, SCHEMA)
    assert page.status == 200
    assert tree(page)
    assert len(page.text.encode()) < 200_000


def test_large_schema_is_not_parsed(explorer: Client) -> None:
    store(explorer, "JsonSchema/draft-07", {"description": "x" * 2_200_000})
    assert "here they are not read" in show(explorer, SCHEMA).words("main")


@pytest.mark.parametrize("text", HOSTILE)
def test_schema_content_is_not_executed(explorer: Client, text: str) -> None:
    member = {"description": text, "const": text, "title": text}
    store(explorer, "JsonSchema/draft-07", {"properties": {text: member}})
    page = show(explorer, SCHEMA)
    assert page.status == 200
    harmless(page)
