"""Collections of any size: pages by position, sorted, filtered by text and label."""

import pytest

from signalbook.api.ui import listing

from ..conftest import Client
from .conftest import Document, show


@pytest.fixture
def groups(explorer: Client) -> Client:
    """120 message groups, of which every tenth has a label."""
    several = {
        f"g{number:03}": {
            "name": f"Name {999 - number}",
            "description": "about 100% of *all*" if number == 7 else "",
            **({"labels": {"tenth": "yes"}} if number % 10 == 0 else {}),
        }
        for number in range(120)
    }
    answer = explorer.send("POST", "/messagegroups", json=several)
    assert answer.is_success, answer.text
    return explorer


def ids(page: Document) -> list[str]:
    """The ids of a page of a collection."""
    return ["".join(anchor.itertext()) for anchor in page.all("a") if anchor.get("class") == "id"]


def follow(client: Client, page: Document, link: str) -> Document:
    return show(client, page.links()[link].removeprefix("/ui"))


def test_pages_lead_forward_and_back(groups: Client) -> None:
    expected = [f"g{number:03}" for number in range(120)] + ["shop"]
    first = show(groups, "/messagegroups")
    second = follow(groups, first, "next")
    third = follow(groups, second, "next")
    assert [*ids(first), *ids(second), *ids(third)] == expected
    assert "next" not in third.links()
    assert "previous" not in first.links()
    assert ids(follow(groups, third, "previous")) == ids(second)
    assert ids(follow(groups, first, "last")) == ids(third)
    assert ids(follow(groups, third, "first")) == ids(first)
    assert all("121 in all" in page.words("main") for page in (first, second, third))


def test_sorted_pages_lead_on_as_well(groups: Client) -> None:
    first = show(groups, "/messagegroups?sort=name")
    listed = [*ids(first), *ids(follow(groups, first, "next"))]
    assert listed[:2] == ["g119", "g118"]
    assert len(listed) == 100


def test_search_covers_ids_names_and_descriptions(groups: Client) -> None:
    for text, expected in (
        ("G01", [f"g{number:03}" for number in range(10, 20)]),
        ("name 89", [f"g{number}" for number in range(100, 110)]),
        ("100% of *all", ["g007"]),
        ("*", ["g007"]),
        ("no such text", []),
    ):
        page = show(groups, "/messagegroups", params={"q": text})
        assert ids(page) == expected
        assert f"{len(expected)} found" in page.words("main")


def test_label_links_to_all_entities_with_it(groups: Client) -> None:
    page = show(groups, show(groups, "/messagegroups/g010").links()["tenth=yes"].removeprefix("/ui"))
    assert ids(page) == [f"g{number:03}" for number in range(0, 120, 10)]
    assert ids(show(groups, "/messagegroups", params={"label": "tenth=yes", "q": "g05"})) == ["g050"]


def test_large_collection_is_not_sorted(groups: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page of a sorted collection would read all of it."""
    monkeypatch.setattr(listing, "MOST_SORTED", 100)
    page = show(groups, "/messagegroups?sort=name")
    assert ids(page)[0] == "g000"
    assert "too many to be sorted" in page.words("main")


def test_versions_come_newest_first_and_the_default_is_marked(explorer: Client) -> None:
    page = show(explorer, "/schemagroups/shop/schemas/order/versions")
    assert ids(page)[0] in ("1", "2")
    explorer.put("/schemagroups/shop/schemas/order/versions/3$details", {"format": "JsonSchema/draft-07", "schema": {}})
    page = show(explorer, "/schemagroups/shop/schemas/order/versions")
    assert ids(page)[0] == "3"
    assert page.words("table").count("default") == 1


def test_deprecated_entities_are_marked(explorer: Client) -> None:
    """The meta of a Resource marks it as deprecated."""
    explorer.send("PATCH", "/messagegroups/shop/messages/placed/meta", json={"deprecated": {}})
    assert "deprecated" in show(explorer, "/messagegroups").words("table")
    assert "deprecated" in show(explorer, "/messagegroups/shop/messages").words("table")


def test_empty_collections_name_the_next_step(explorer: Client) -> None:
    explorer.put("/messagegroups/empty", {})
    page = show(explorer, "/messagegroups/empty/messages")
    assert "There is nothing here yet. New message , or import a document" in page.words("main")
    assert page.links()["New message"] == "/ui/-/edit/messagegroups/empty/messages"
    filtered = show(explorer, "/messagegroups?q=no+such")
    assert filtered.links()["search everything"] == "/ui/-/search?q=no%20such"
