"""The page of an entity: its attributes in the model's words, its document, links to what it refers to."""

from urllib.parse import quote

from ..conftest import Client
from .conftest import show

MESSAGE = "/messagegroups/shop/messages/placed"
ORDER = "/schemagroups/shop/schemas/order"


def test_attributes_are_shown_with_their_descriptions(explorer: Client) -> None:
    assert "Order placed" in show(explorer, MESSAGE).words("main")
    assert "usage array of string producer" in show(explorer, "/endpoints/orders").words("main")
    schema = show(explorer, ORDER).words("main")
    assert "format string JsonSchema/draft-07 Schema format as NAME/VERSION" in schema


def test_references_are_links(explorer: Client) -> None:
    links = show(explorer, MESSAGE).links()
    assert links["order, version 2"] == "/ui/schemagroups/shop/schemas/order/versions/2"
    assert links["pii=yes"] == "/ui/messagegroups/shop/messages?label=pii%3Dyes"
    assert show(explorer, "/endpoints/orders").links()["/messagegroups/shop"] == "/ui/messagegroups/shop"
    group = show(explorer, "/messagegroups/shop")
    assert group.links()["https://example.com/orders"] == "https://example.com/orders"
    away = next(anchor for anchor in group.all("a") if anchor.get("href") == "https://example.com/orders")
    assert away.get("rel") == "noopener noreferrer nofollow"


def test_unresolvable_reference_is_text(explorer: Client) -> None:
    explorer.send("PATCH", MESSAGE, json={"dataschemauri": "/nothing/here/at/all", "dataschemaformat": "Avro/1.11"})
    assert "/nothing/here/at/all" not in show(explorer, MESSAGE).links()


def test_page_shows_the_command_for_its_json(explorer: Client) -> None:
    for path, url_path in ((MESSAGE, MESSAGE), (ORDER, f"{ORDER}$details")):
        page = show(explorer, path)
        assert f"curl -s 'http://r.example{url_path}'" in page.words("aside")
        assert explorer.get(page.links()[path]).json()["xid"] == path


def test_page_lists_dependents(explorer: Client) -> None:
    assert "Used by Order placed message" in show(explorer, ORDER).words("aside")
    message = show(explorer, "/messagegroups/shop/messages/placed")
    assert "Used by orders endpoint: producer" in message.words("aside")
    assert message.links()["orders"] == "/ui/endpoints/orders"
    assert "Used by" not in show(explorer, "/endpoints/orders").words("aside")


def test_schema_page_counts_further_dependents(explorer: Client) -> None:
    messages = {f"m{number:02}": {"dataschemaxid": ORDER} for number in range(25)}
    assert explorer.send("POST", "/messagegroups/shop/messages", json=messages).is_success
    assert show(explorer, ORDER).links()["and 16 more"] == f"/ui/-/impact{ORDER}"


def test_an_endpoint_has_the_messages_of_its_groups(explorer: Client) -> None:
    explorer.put("/endpoints/far", {"usage": ["producer"], "messagegroups": ["/messagegroups/gone", "#/a", "x:y"]})
    page = show(explorer, "/endpoints/orders")
    assert "messages of its groups Orders message group: 1 message" in page.words("main")
    assert page.links()["Orders"] == "/ui/messagegroups/shop"
    assert "None yet" not in page.words("main")
    assert show(explorer, "/endpoints/far").status == 200
    words = show(explorer, "/endpoints").words("table")
    assert "of 1 group" in words
    assert "of 3 groups" in words
    assert "producer" in words
    assert "[" not in words, "a list is shown by its values"


def test_version_links_to_its_comparisons(explorer: Client) -> None:
    compared = f"/ui/-/compare?of={quote(ORDER, safe='')}&old=1&new=2"
    assert show(explorer, f"{ORDER}/versions/2").links()["What changed since version 1"] == compared
    first = show(explorer, f"{ORDER}/versions/1").links()
    assert first["What the default version, 2, has instead"] == compared
    assert not any(text.startswith("What changed since") for text in first)
    assert show(explorer, compared.removeprefix("/ui")).status == 200


def test_versions_are_called_after_their_resource(explorer: Client) -> None:
    assert show(explorer, "/schemagroups/shop/schemas/order/versions/2").words("h1") == "order, version 2"
    assert show(explorer, "/-/edit/schemagroups/shop/schemas/order/versions/2").words("h1") == "Edit order, version 2"
    assert show(explorer, f"/-/edit{ORDER}/meta").words("h1") == "Edit order, for all versions"
    assert show(explorer, f"/-/relations{MESSAGE}").words("h1") == "Order placed"
    assert show(explorer, f"/-/impact{ORDER}/versions/2").words("h1") == "order, version 2"


def test_documents_are_highlighted_and_laid_out(explorer: Client) -> None:
    page = show(explorer, "/schemagroups/shop/schemas/order/versions/1")
    code = next(tag for tag in page.all("code") if tag.get("id") == "text")
    assert "".join(code.itertext()) == '{\n  "type": "object",\n  "title": "An order"\n}'
    assert {tag.get("class") for tag in code.iter("span")} >= {"nt", "s2"}
    xml = show(explorer, "/schemagroups/shop/schemas/letter")
    assert '<element name="letter"' in "".join(xml.root.itertext())


def test_binary_and_external_documents_are_described(explorer: Client) -> None:
    assert "It is kept elsewhere." in show(explorer, "/schemagroups/shop/schemas/far").words("main")
    put = explorer.put_document(
        "/schemagroups/shop/schemas/raw", b"\xff\x00", "application/octet-stream", format="Own/1"
    )
    assert put.is_success, put.text
    assert "It is not text. 2 bytes" in show(explorer, "/schemagroups/shop/schemas/raw").words("main")


def test_deprecation_is_shown_with_its_details(explorer: Client) -> None:
    words = show(explorer, "/messagegroups/shop").words("main")
    assert "effective 2030-01-01 00:00 alternative https://example.com/new" in words
    assert show(explorer, "/messagegroups/shop").links()["https://example.com/new"] == "https://example.com/new"
    explorer.send("PATCH", f"{MESSAGE}/meta", json={"deprecated": {"removal": "2031-02-03T04:05:06Z"}})
    assert "removal 2031-02-03 04:05" in show(explorer, MESSAGE).words("main")


def test_a_cross_reference_shows_its_target(explorer: Client) -> None:
    put = explorer.put("/messagegroups/shop/messages/alias", {"meta": {"xref": MESSAGE}})
    assert put.is_success, put.text
    page = show(explorer, "/messagegroups/shop/messages/alias")
    assert page.links()[MESSAGE] == f"/ui{MESSAGE}"
    assert "A customer placed an order." in page.words("main")


def test_start_page_shows_counts_and_changes(explorer: Client) -> None:
    explorer.send("DELETE", "/endpoints/orders")
    words = show(explorer, "").words("main")
    assert "The workshop" in words
    assert "0 endpoints" in words
    assert "1 message in 1 messagegroup" in words
    assert "deleted /endpoints/orders" in words
    assert "/endpoints/orders" not in show(explorer, "").links()


def test_groups_have_attributes_whose_names_only_resources_give_a_meaning(explorer: Client) -> None:
    model = explorer.get("/model").json()
    names = {"meta": "string", "xref": "integer", "versionid": "boolean"}
    dirs = {"singular": "dir", "attributes": {name: {"type": of} for name, of in names.items()}}
    assert explorer.send("PUT", "/modelsource", json={"groups": {**model["groups"], "dirs": dirs}}).is_success
    assert explorer.put("/dirs/d", {"meta": "of a group", "xref": 5, "versionid": True}).is_success
    assert "meta string of a group xref integer 5 versionid boolean true" in show(explorer, "/dirs/d").words("main")
    assert "d" in show(explorer, "/dirs").words("main")
