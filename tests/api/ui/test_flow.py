"""The flow of events as a graph, from producers to tables, on the first page and on those of groups and endpoints."""

from typing import Any

import pytest

from signalbook.api.ui import flow
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from ..test_pipelines import report
from .conftest import Document, show
from .test_pages import HOSTILE, harmless
from .test_pipelines import large

SVG = "{http://www.w3.org/2000/svg}"
PLACED = "/messagegroups/shop/messages/placed"


def read_flow(page: Document) -> dict[str, list[str]]:
    """Return the targets of each box by its text, as the table under the graph has them."""
    tables = [table for table in page.all("table") if [cell.text for cell in table.iter("th")][:2] == ["from", "to"]]
    rows = [row for table in tables for row in table.iter("tr")][1:]
    return {_read(row[0]): [_read(item) for item in row[1].iter("li")] for row in rows}


def _read(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def put_shop(client: Client) -> None:
    """Give the shop's endpoint a topic, and let a pipeline land its message."""
    options = {"protocol": "KAFKA", "protocoloptions": {"topic": "shop-orders"}}
    answer = client.send("PATCH", "/endpoints/orders", json={"name": "Orders", **options})
    assert answer.is_success, answer.text
    answer = client.send("POST", "/pipelines/lake/reports", json=large("b1", PLACED, 990, 10))
    assert answer.is_success, answer.text


FLOW = {
    "producer /shops/{shop}": ["KAFKA endpoint Orders"],
    "KAFKA endpoint Orders": ["topic shop-orders"],
    "topic shop-orders": ["message Order placed"],
    "message Order placed": ["pipeline: failing lake"],
    "pipeline: failing lake": ["table shop.placed"],
}


@pytest.mark.parametrize("path", ["", "/messagegroups/shop", "/endpoints/orders"])
def test_events_flow_from_producers_to_tables(explorer: Client, path: str) -> None:
    put_shop(explorer)
    page = show(explorer, path)
    flow_lines = read_flow(page)
    # The messages of the pipeline "orders" are not in the registry.
    assert {box: targets for box, targets in flow_lines.items() if targets} == FLOW
    links = page.links()
    assert links["message Order placed"] == f"/ui{PLACED}"
    assert links["pipeline: failing lake"] == "/ui/-/pipelines/lake"
    titles = [title.text for title in page.all(f"{SVG}title")]
    assert "990 landed, 10 rejected" in titles
    assert page.headers["cache-control"] == "no-store"


def test_messages_are_shown_by_group_if_they_are_many(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    put_shop(explorer)
    monkeypatch.setattr(flow, "_MAX_MESSAGES", 1)
    explorer.put("/messagegroups/shop/messages/paid", {})
    lines = read_flow(show(explorer, ""))
    assert lines["topic shop-orders"] == ["2 messages Orders"]
    assert lines["pipeline: failing lake"] == ["1 table shop"]


def test_messages_of_an_endpoint_have_topics_of_their_own(explorer: Client) -> None:
    options = {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "sensors/{id}"}}
    assert explorer.put("/endpoints/orders/messages/heat", options).is_success
    lines = read_flow(show(explorer, "/endpoints/orders"))
    assert lines["topic sensors/{id}"] == ["message heat"]
    assert lines["endpoint orders"] == ["message Order placed", "topic sensors/{id}"]


def test_nothing_connected_makes_no_graph(explorer: Client) -> None:
    explorer.put("/messagegroups/alone", {"messages": {"m": {}}})
    assert "Event flow" not in show(explorer, "/messagegroups/alone").words("main")


def test_what_a_graph_leaves_out_is_said(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    put_shop(explorer)
    explorer.put("/endpoints/zero", {"messagegroups": ["/messagegroups/shop"]})
    monkeypatch.setattr(flow, "_MAX_ENDPOINTS", 1)
    monkeypatch.setattr(flow, "_MAX_PIPELINES", 1)
    monkeypatch.setattr(flow, "_MAX_ARROWS", 2)
    words = show(explorer, "").words("main")
    assert "More than 1 endpoints: the others are not shown." in words
    assert "More than 1 pipelines: the others are not shown." in words
    assert "There are 2 arrows or more: the others are not shown." in words
    assert "More than 1 pipelines" in show(explorer, "/messagegroups/shop").words("main")
    monkeypatch.setattr(flow, "_MAX_PIPELINES", 2)
    monkeypatch.setattr(flow, "_MAX_REPORT_CHARS", 1)
    assert "not all pipelines are shown" in show(explorer, "").words("main")


def test_shared_arrows_are_counted_once(explorer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    put_shop(explorer)
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/shops/{shop}"}}}
    for name in ("paid", "sent"):
        assert explorer.put(f"/messagegroups/shop/messages/{name}", message).is_success
    monkeypatch.setattr(flow, "_MAX_ARROWS", 8)
    page = show(explorer, "/messagegroups/shop")
    assert sorted(read_flow(page)["topic shop-orders"]) == ["message Order placed", "message paid", "message sent"]
    assert "the others are not shown" not in page.words("main")


def test_all_messages_of_a_report_are_counted(explorer: Client) -> None:
    xids = [f"/messagegroups/shop/messages/m{number}" for number in range(300)]
    explorer.put("/messagegroups/shop", {"messages": {xid.rpartition("/")[2]: {} for xid in xids}})
    by_message = {xid: {"landed": 2, "rejected": 0} for xid in xids}
    sent = report(read=601, landed=600, by_message=by_message)
    assert explorer.send("POST", "/pipelines/lake/reports", json=sent).is_success
    page = show(explorer, "/messagegroups/shop")
    assert "600 landed, 0 rejected" in [title.text for title in page.all(f"{SVG}title")]
    assert read_flow(page)["pipeline: late lake"] == ["300 tables shop"]


def test_graph_shows_only_what_the_caller_may_read(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    client.put("/messagegroups/shop", {"messages": {"seen": {}, "hidden": {}}}, headers=ADMINISTRATOR)
    client.put("/messagegroups/closed", {"messages": {"secret": {}}}, headers=ADMINISTRATOR)
    groups = ["/messagegroups/shop", "/messagegroups/closed"]
    for name in ("open", "internal"):
        client.put(f"/endpoints/{name}", {"usage": ["producer"], "messagegroups": groups}, headers=ADMINISTRATOR)
    xids = ("/messagegroups/shop/messages/seen", "/messagegroups/shop/messages/hidden", f"{groups[1]}/messages/secret")
    by_message = {xid: {"landed": 1, "rejected": 0} for xid in xids}
    sent = report(read=4, landed=3, by_message=by_message)
    for name in ("mine", "payroll"):
        answer = client.send("POST", f"/pipelines/{name}/reports", json=sent, headers=ADMINISTRATOR)
        assert answer.is_success, answer.text
    put_policy(
        store,
        {"who": ["subject:ann"], "role": "reader", "on": ["/messagegroups/shop/messages/seen", "/endpoints/open"]},
        {"who": ["subject:ann"], "allow": ["report"], "on": ["/pipelines/mine"]},
    )
    everything = read_flow(show(client, "", headers=ADMINISTRATOR))
    assert sorted(everything["endpoint open"]) == ["message hidden", "message secret", "message seen"]
    ann = {"X-User": "ann"}
    assert read_flow(show(client, "", headers=ann)) == {
        "endpoint open": ["message seen"],
        "message seen": ["pipeline: failing mine"],
        "pipeline: failing mine": ["table shop.seen"],
    }
    for path in ("", "/endpoints/open", "/messagegroups/shop"):
        text = show(client, path, headers=ann).text
        leaked = [word for word in (">hidden<", "secret", "internal", "payroll") if word in text]
        assert leaked == [], path


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_flows_are_text(explorer: Client, text: str) -> None:
    put_shop(explorer)
    for path in ("/endpoints/orders", "/messagegroups/shop", PLACED):
        explorer.send("PATCH", path, json={"name": text})
    page = show(explorer, "/messagegroups/shop")
    assert page.status == 200
    harmless(page)
    harmless(show(explorer, ""))


def test_large_flow_makes_a_small_page(explorer: Client) -> None:
    long = "&" * 120
    xids = [f"/messagegroups/g{number}/messages/m" for number in range(40)]
    for number in range(40):
        explorer.put(f"/messagegroups/g{number}", {"name": f"{number}{long}", "messages": {"m": {}}})
    by_message = {xid: {"landed": 1, "rejected": 0} for xid in xids}
    for number in range(20):
        name, groups = f"p{number}{'x' * 100}", [f"/messagegroups/g{other}" for other in range(40)]
        explorer.put(f"/endpoints/e{number}", {"name": f"{number}{long}", "messagegroups": groups})
        explorer.send("POST", f"/pipelines/{name}/reports", json=report(read=41, landed=40, by_message=by_message))
    page = show(explorer, "")
    assert "the others are not shown" in page.words("main")
    assert len(page.text.encode()) < 200_000
