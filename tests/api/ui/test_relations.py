"""The relations of an entity as a graph and as a table: both say the same, bounded, and harmless."""

import pytest

from ..conftest import Client
from .conftest import Document, show
from .test_pages import harmless

SVG = "{http://www.w3.org/2000/svg}"
ORDER = "/schemagroups/shop/schemas/order"
PLACED = "/messagegroups/shop/messages/placed"


def table(page: Document) -> dict[str, str]:
    """Return the remaining cells of each line by the entity in its first cell."""
    lines = [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in page.all("tr")[1:]]
    return {line[0].partition(" ")[0]: " | ".join(line[1:]) for line in lines}


def boxes(page: Document) -> dict[str, str]:
    """Return the targets of the boxes of the graph by their titles."""
    return {box.findtext(f"{SVG}title") or "": box.get("href", "") for box in page.root.iter(f"{SVG}a")}


def test_graph_and_table_agree(explorer: Client) -> None:
    page = show(explorer, f"/-/relations{ORDER}")
    assert table(page) == {
        "/endpoints/orders": "3 steps before it | messagegroups shop",
        "/messagegroups/shop": "2 steps before it | messages placed",
        PLACED: "1 step before it | dataschema order",
        ORDER: "this one | ",
    }
    assert boxes(page) == {
        "endpoint /endpoints/orders": "/ui/-/relations/endpoints/orders",
        "messagegroup /messagegroups/shop": "/ui/-/relations/messagegroups/shop",
        f"message {PLACED}": f"/ui/-/relations{PLACED}",
    }
    curves = [node for node in page.root.iter(f"{SVG}path") if node.get("class") == "link"]
    assert sorted(node.findtext(f"{SVG}title") or "" for node in curves) == ["dataschema", "messagegroups", "messages"]
    assert page.links()[PLACED] == f"/ui{PLACED}"


def test_steps_are_asked_for(explorer: Client) -> None:
    page = show(explorer, f"/-/relations{ORDER}?steps=1")
    assert list(table(page)) == [PLACED, ORDER]
    assert page.links()["One step more"] == f"/ui/-/relations{ORDER}?steps=2"
    assert "One step less" not in page.links()
    assert "One step more" not in show(explorer, f"/-/relations{ORDER}?steps=999").links()


def test_the_graph_of_a_group_and_those_of_its_members_lead_to_each_other(explorer: Client) -> None:
    group = show(explorer, "/-/relations/schemagroups/shop")
    assert boxes(group)[f"schema {ORDER}"] == f"/ui/-/relations{ORDER}"
    member = show(explorer, f"/-/relations{ORDER}")
    assert member.links()["/schemagroups/shop"] == "/ui/-/relations/schemagroups/shop"
    assert "It is in /schemagroups/shop" in member.words("main")
    assert "It is in" not in show(explorer, f"/-/relations{PLACED}").words("main"), "its group is in the graph"


def test_page_of_an_entity_links_to_its_relations(explorer: Client) -> None:
    assert show(explorer, PLACED).links()["Relations"] == f"/ui/-/relations{PLACED}"
    assert "Relations" not in show(explorer, f"{PLACED}/meta").links()


def test_page_reports_missing_relations(explorer: Client) -> None:
    page = show(explorer, "/-/relations/schemagroups/shop/schemas/row")
    assert "nothing that you may read refers to it" in page.words("main")
    assert list(page.root.iter(f"{SVG}svg")) == []


def test_many_relations_are_bounded_and_counted(explorer: Client) -> None:
    messages = {f"m{'x' * 100}{at:03}": {"dataschemaxid": ORDER} for at in range(300)}
    body = {at: {**content, "dataschemaformat": "JsonSchema/draft-07"} for at, content in messages.items()}
    assert explorer.send("POST", "/messagegroups/shop/messages", json=body).is_success
    page = show(explorer, f"/-/relations{ORDER}")
    assert "1 step before it: 241 more are not shown." in page.words("main")
    assert len(table(page)) == len(boxes(page)) + 1
    assert len(page.text.encode()) < 200_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/schemagroups/shop/schemas/none", 404),
        ("/schemagroups", 404),
        ("/nothing/x", 404),
        ("", 404),
        (f"{PLACED}/meta", 404),
        (f"{ORDER}?steps=0", 400),
        (f"{ORDER}?steps=many", 400),
        ("/schemagroups/a%2Fb", 400),
    ],
)
def test_bad_questions_are_refused(explorer: Client, path: str, status: int) -> None:
    page = show(explorer, f"/-/relations{path}")
    assert page.status == status
    harmless(page)
