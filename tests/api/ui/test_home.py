"""The first page: numbers, pipelines, changes by request, owners, and definitions that need attention."""

from typing import Any

import pytest

from signalbook.api.ui import changes, home
from signalbook.engine.read import overview
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from ..test_pipelines import report
from .conftest import parse, show

SCHEMA: dict[str, Any] = {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}}}


def read_tiles(client: Client, **sent: Any) -> list[str]:
    lists = [element for element in show(client, "", **sent).all("ul") if element.get("class") == "kinds"]
    return [" ".join(" ".join(item.itertext()).split()) for tiles in lists for item in tiles.iter("li")]


def test_definitions_are_counted_instead_of_groups(explorer: Client) -> None:
    explorer.put("/endpoints/orders/messages/own", {})
    assert read_tiles(explorer) == [
        "2 messages in 1 messagegroup",
        "4 schemas in 1 schemagroup",
        "1 endpoint",
        "1 pipeline 1 failing",
    ]
    links = show(explorer, "").links()
    assert (links["2 messages"], links["1 endpoint"]) == ("/ui/messagegroups", "/ui/endpoints")


def test_pipelines_that_need_attention_are_first(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        sound = report(landed=3, dead_lettered=0, reasons={}, by_message={"/x": {"landed": 3, "rejected": 0}})
        explorer.send("POST", f"/pipelines/p{number}/reports", json=sound)
    page = show(explorer, "")
    assert page.words("main").index("orders failing") < page.words("main").index("p0 late")
    assert "p8" not in page.links(), "eight are shown"
    assert page.links()["All pipelines"] == "/ui/-/pipelines"
    assert "10 pipelines 1 failing, 9 late" in read_tiles(explorer)
    monkeypatch.setattr(home, "_PIPELINES", 9)
    assert "9 or more + pipelines 1 failing, 8 late" in read_tiles(explorer)


def test_page_shows_new_reports_immediately(explorer: Client) -> None:
    """Reports are no part of the registry, so the page must not come from memory."""
    assert "billing" not in show(explorer, "").links()
    explorer.send("POST", "/pipelines/billing/reports", json=report())
    page = show(explorer, "")
    assert "billing" in page.links()
    assert page.headers["cache-control"] == "no-store"


def test_changes_are_grouped_by_request(explorer: Client) -> None:
    schemas = {f"s{number}": SCHEMA for number in range(12)}
    explorer.put("/schemagroups/many", {"schemas": schemas})
    explorer.put("/messagegroups/shop/messages/placed", {"name": "Placed an order"})
    page = show(explorer, "")
    words = page.words("ol")
    assert words.startswith("just now updated Placed an order just now created 12 schemas, 1 schemagroup ")
    days = show(explorer, page.links()["12 schemas, 1 schemagroup"].removeprefix("/ui"))
    assert "/schemagroups/many/schemas/s3" in days.words("main")
    assert "updated" not in days.words("main").partition("/schemagroups/many/schemas/s3")[0], "it was later"


def test_changes_of_a_huge_request_are_counted_up_to_a_limit(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_WEEK_CHANGES", 500)
    explorer.put("/schemagroups/many", {"schemas": {f"s{number}": SCHEMA for number in range(260)}})
    assert "at least created 250 schemas" in show(explorer, "").words("ol")


def test_deprecated_and_unused_definitions_are_listed(explorer: Client) -> None:
    explorer.send("PATCH", "/schemagroups/shop/schemas/row/meta", json={"deprecated": {}})
    words = show(explorer, "").words("aside")
    assert "Deprecated 1 row Unused 3 far letter row Nothing that you may read refers to them." in words
    explorer.put("/messagegroups/alone/messages/m", {"dataschemauri": "/schemagroups/shop/schemas/far"})
    assert "Unused 3 m letter row" in show(explorer, "").words("aside"), "no endpoint uses its group"
    explorer.send("DELETE", "/endpoints/orders")
    assert "Unused 2 letter row" in show(explorer, "").words("aside"), "nothing could use a message"


def test_what_is_read_of_a_large_registry_is_limited(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MAX_DEFINITIONS", 2)
    monkeypatch.setattr(home, "MAX_GROUPS", 0)
    words = show(explorer, "").words("aside")
    assert "Unused 2 among those that were looked at far letter" in words
    assert "Owners of the groups that were looked at" in words
    assert "4 schemas in 1 schemagroup" in read_tiles(explorer)


def test_lists_are_complete_whatever_other_types_exist(explorer: Client) -> None:
    model = explorer.get("/modelsource").json()
    notes = {"singular": "note", "hasdocument": False}
    books = {"singular": "book", "resources": {"notes": notes}}
    assert explorer.put("/modelsource", {"groups": {**model["groups"], "books": books}}).is_success
    assert explorer.put("/books/mine", {"notes": {"first": {}}}).is_success
    assert "1 note in 1 book" in read_tiles(explorer)
    assert "looked at" not in show(explorer, "").words("aside")


def test_owners_are_those_of_labels(explorer: Client) -> None:
    explorer.put("/schemagroups/other", {"labels": {"owner": "iot", "team": "ignored"}})
    explorer.put("/schemagroups/more", {"labels": {"owner": "iot"}})
    page = show(explorer, "")
    assert "Owners iot 2 schemagroups checkout 1 messagegroup" in page.words("aside")
    listing = show(explorer, page.links()["2 schemagroups"].removeprefix("/ui"))
    assert {"other", "more"} <= listing.links().keys()
    assert "shop" not in listing.links()


def test_guide_disappears_with_the_first_group(store: Store, serve: Serve) -> None:
    client = serve(store, model="default")
    page = show(client, "")
    assert "From your messages to tables in three steps" in page.words("main")
    steps = [code.text or "" for code in page.all("code") if code.get("id")]
    assert [step.split(" --")[0] for step in steps] == [
        "signalbook pipeline infer",
        "signalbook import shop.yaml",
        "signalbook pipeline run",
    ]
    assert "http://r.example" in steps[1]
    client.put("/schemagroups/first", {})
    assert "three steps" not in show(client, "").words("main")


def test_page_shows_only_what_the_caller_may_read(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    groups = {
        "open": {"labels": {"owner": "friends"}, "schemas": {"seen": SCHEMA}},
        "closed": {"labels": {"owner": "strangers"}, "schemas": {"hidden": SCHEMA, "secret": SCHEMA}},
    }
    for name, group in groups.items():
        client.put(f"/schemagroups/{name}", group, headers=ADMINISTRATOR)
    client.send("POST", "/pipelines/payroll/reports", json=report(), headers=ADMINISTRATOR)
    put_policy(
        store,
        {"who": ["subject:ann"], "role": "reader", "on": ["/schemagroups/open"]},
        {"who": ["subject:bob"], "role": "reader", "on": ["/schemagroups/closed/schemas/secret"]},
    )
    assert "3 schemas in 2 schemagroups" in read_tiles(client, headers=ADMINISTRATOR)
    ann, bob, eve = ({"X-User": name} for name in ("ann", "bob", "eve"))
    assert "1 schema in 1 schemagroup" in read_tiles(client, headers=ann)
    assert "1 schema in 1 schemagroup" in read_tiles(client, headers=bob)
    text = show(client, "", headers=ann).text
    assert "seen" in text
    assert [word for word in ("closed", "strangers", "hidden", "secret", "payroll", "3 schemas") if word in text] == []
    assert "hidden" not in show(client, "", headers=bob).text
    assert show(client, "", headers=eve).status == 403


def test_counting_one_by_one_is_limited(store: Store, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(store, model="default", **PROXIED)
    for name in ("a", "b", "c"):
        client.put(f"/schemagroups/{name}", {"schemas": {"s": SCHEMA, "t": SCHEMA}}, headers=ADMINISTRATOR)
    rights = {"who": ["subject:ann"], "role": "reader"}
    put_policy(store, {**rights, "on": ["/schemagroups/*/schemas/s", "/schemagroups/c"]})
    ann = {"X-User": "ann"}
    assert "4 schemas in 3 schemagroups" in read_tiles(client, headers=ann)
    monkeypatch.setattr(overview, "MAX_COUNTED", 1)
    monkeypatch.setattr(overview, "_GROUPS_AT_ONCE", 1)
    assert "3 or more + schemas in 3 schemagroups" in read_tiles(client, headers=ann)


def test_page_is_small_whatever_is_stored(explorer: Client) -> None:
    long = "<" * 120
    for number in range(60):
        group = f"g{number:02}{'x' * 120}"
        explorer.put(f"/schemagroups/{group}", {"labels": {"owner": f"{number}{long}"}, "schemas": {"s": SCHEMA}})
        explorer.send("POST", f"/pipelines/{group}/reports", json=report())
    page = explorer.get("/ui")
    parse(page.text)
    assert len(page.content) < 100_000
