"""The page of a search: hits with the reason, facets as links, pages."""

from signalbook.values import JSONObject

from ..conftest import Client
from .conftest import show


def test_hits_highlight_the_matches(explorer: Client) -> None:
    page = show(explorer, "/-/search", params={"q": "customer"})
    assert page.links()["placed"] == "/ui/messagegroups/shop/messages/placed"
    assert [highlight.text for highlight in page.all("mark")] == ["customer"]
    assert "1 found" in page.words("main")


def test_field_of_a_referenced_schema_names_the_schema(explorer: Client) -> None:
    schema = {"format": "JsonSchema/draft-07", "schema": {"properties": {"price": {}}}}
    assert explorer.send("PUT", "/schemagroups/shop/schemas/priced$details", json=schema).is_success
    message = {"dataschemaxid": "/schemagroups/shop/schemas/priced"}
    assert explorer.send("PUT", "/messagegroups/shop/messages/priced", json=message).is_success
    page = show(explorer, "/-/search", params={"q": "field:price", "type": "messages"})
    assert page.links()["/schemagroups/shop/schemas/priced"] == "/ui/schemagroups/shop/schemas/priced"
    assert "field price of /schemagroups/shop/schemas/priced" in page.words("main")


def test_facets_narrow_and_widen(explorer: Client) -> None:
    wide = show(explorer, "/-/search", params={"q": "shop"})
    href = next(href for text, href in wide.links().items() if "type=schema" in href)
    narrow = show(explorer, href.removeprefix("/ui"))
    assert "type=" not in next(href for text, href in narrow.links().items() if "take away" in text)
    assert narrow.status == 200


def test_deprecated_entities_can_be_listed_alone(explorer: Client) -> None:
    groups: dict[str, JSONObject] = {"shop-old": {"deprecated": {}}, "shop-new": {}}
    assert explorer.send("POST", "/messagegroups", json=groups).is_success
    hrefs = show(explorer, "/-/search", params={"q": "shop"}).links()
    old = show(explorer, hrefs["yes"].removeprefix("/ui"))
    assert "shop-old" in old.links()
    assert "shop-new" not in old.links()
    new = show(explorer, hrefs["no"].removeprefix("/ui"))
    assert "shop-new" in new.links()
    assert "shop-old" not in new.links()
    assert explorer.get("/ui/-/search", params={"q": "shop", "deprecated": "x"}).status_code == 400


def test_pages_lead_on(explorer: Client) -> None:
    groups = {f"many{number:02}": {"name": "One of many"} for number in range(60)}
    assert explorer.send("POST", "/messagegroups", json=groups).is_success
    seen: list[str] = []
    path = "/-/search?q=many"
    for _ in range(3):
        page = show(explorer, path)
        seen += ["".join(anchor.itertext()) for anchor in page.all("a") if anchor.get("class") == "id"]
        path = page.links().get("next", "").removeprefix("/ui")
    assert len(set(seen)) == len(seen) == 60


def test_invalid_query_is_reported(explorer: Client) -> None:
    assert "cannot be searched for" in show(explorer, "/-/search", params={"q": 'field:"'}).words("main")
    assert show(explorer, "/-/search").status == 200
    assert show(explorer, "/-/search?q=shop&cursor=x").status == 400
