"""The explorer over a registry on each database, and its pages as parsed documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import pytest
import yaml

from signalbook.storage.store import Store

from ..conftest import Client, Serve
from ..test_pipelines import report

REGISTRY: dict[str, Any] = yaml.safe_load("""
name: The workshop
schemagroups:
  shop:
    description: Payloads of orders.
    schemas:
      order:
        versions:
          "1": {format: JsonSchema/draft-07, schema: {type: object, title: An order}}
          "2": {format: JsonSchema/draft-07, schema: {type: object, title: A better one}}
      row: {format: Avro/1.11, schema: {type: record, name: Row, fields: []}}
      letter:
        format: XSD/1.0
        contenttype: application/xml
        schema: <schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="letter" type="string"/></schema>
      far: {format: Avro/1.11, schemaurl: "https://example.com/far.avsc"}
messagegroups:
  shop:
    name: Orders
    labels: {team: checkout}
    documentation: https://example.com/orders
    deprecated: {effective: "2030-01-01T00:00:00Z", alternative: "https://example.com/new"}
    messages:
      placed:
        name: Order placed
        description: A customer placed an order.
        envelope: CloudEvents/1.0
        envelopemetadata: {type: {value: shop.placed}, source: {value: "/shops/{shop}"}}
        dataschemaformat: JsonSchema/draft-07
        dataschemauri: /schemagroups/shop/schemas/order
        labels: {pii: "yes", empty: ""}
endpoints: {orders: {usage: [producer], messagegroups: [/messagegroups/shop]}}
""")
_PAGES = """/messagegroups /messagegroups/shop /messagegroups/shop/messages /messagegroups/shop/messages/placed
    /messagegroups/shop/messages/placed/meta /messagegroups/shop/messages/placed/versions
    /messagegroups/shop/messages/placed/versions/1
    /schemagroups/shop /schemagroups/shop/schemas /schemagroups/shop/schemas/order /schemagroups/shop/schemas/row
    /schemagroups/shop/schemas/letter /schemagroups/shop/schemas/far
    /schemagroups/shop/schemas/order/versions?sort=createdat /schemagroups/shop/schemas/order/versions/2
    /endpoints/orders /endpoints?q=nothing /-/search?q=order /-/try/messagegroups/shop/messages/placed
    /-/edit/messagegroups/shop /-/edit/messagegroups/shop/messages/placed/meta
    /-/edit/schemagroups/shop/schemas/order/versions /-/edit/endpoints /-/edit/schemagroups/shop/schemas
    /-/compare?of=/schemagroups/shop/schemas/order&old=1&new=2
    /-/compare?of=/schemagroups/shop/schemas/order&old=1&new=2&text=sides /-/compare?of=/schemagroups/shop/schemas/row
    /-/impact/schemagroups/shop/schemas/order /-/impact/endpoints/orders
    /-/relations/schemagroups/shop/schemas/order /-/relations/endpoints/orders?steps=2
    /-/changes /-/changes?of=/schemagroups/shop/schemas/order /-/changes?from=2026-01-01&to=2030-01-01
    /-/subscriptions /-/pipelines /-/pipelines/orders /-/pipelines/orders/1
    /-/pipelines?of=/messagegroups/g/messages/m"""
PATHS = ("", *_PAGES.split())
"""A page of each kind, below ``/ui``."""


@dataclass(frozen=True)
class Document:
    """A page as a browser understands it."""

    status: int
    headers: Any
    text: str
    root: Element

    def all(self, tag: str) -> list[Element]:
        """Elements by their name."""
        return list(self.root.iter(tag))

    def words(self, tag: str = "body") -> str:
        """Return the visible text of the first element with a tag, with single spaces and without explanations."""
        return " ".join(" ".join(_read(self.all(tag)[0])).split())

    def links(self) -> dict[str, str]:
        """Return the targets of links by their texts; of several links with the same text the first."""
        return {"".join(anchor.itertext()).strip(): anchor.get("href", "") for anchor in reversed(self.all("a"))}


def _read(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        yield from () if child.get("class") == "meaning" else _read(child)
        yield child.tail or ""


def parse(text: str) -> Element:
    """A document in HTML. Raises ``ParseError`` for anything that HTML5 calls an error."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(text)
    return root


def show(client: Client, path: str, method: str = "GET", **sent: Any) -> Document:
    answer = client.send(method, f"/ui{path}", **sent)
    return Document(answer.status_code, answer.headers, answer.text, parse(answer.text))


def form_token(client: Client, path: str, **sent: Any) -> str:
    fields = show(client, path, **sent).all("input")
    return next((field.get("value", "") for field in fields if field.get("name") == "token"), "")


@pytest.fixture
def explorer(store: Store, serve: Serve) -> Client:
    """A registry with something of each kind."""
    client = serve(store, model="default")
    answer = client.put("/?inline=*", REGISTRY)
    assert answer.is_success, answer.text
    for batch in ("b1", "b2"):
        client.send("POST", "/pipelines/orders/reports", json=report(batch))
    return client
