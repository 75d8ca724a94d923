"""The change feed for people: the newest first, in pages, of one entity, and no more than one may read."""

from __future__ import annotations

from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import Document, show
from .test_pages import HOSTILE, harmless


def subjects(page: Document) -> list[str]:
    """What changed, in the order of the page."""
    lines = (each for each in page.all("ol") if "changes" in (each.get("class") or ""))
    return [
        "".join(part.itertext())
        for line in next(lines).iter("li")
        for part in line
        if "".join(part.itertext()).startswith("/")
    ]


def test_the_newest_comes_first(explorer: Client) -> None:
    explorer.put("/endpoints/new", {"usage": ["producer"]})
    explorer.send("DELETE", "/endpoints/new")
    page = show(explorer, "/-/changes")
    assert "/endpoints/new" in subjects(page)[:2]
    assert "deleted /endpoints/new group" in page.words("main")
    assert "/endpoints/new" not in page.links(), "there is nothing any more"
    assert page.links()["Changes"] == "/ui/-/changes"


def test_older_ones_are_a_page_away(explorer: Client) -> None:
    for number in range(130):
        explorer.put(f"/endpoints/e{number:03}", {"usage": ["producer"]})
    found, page = [], show(explorer, "/-/changes")
    assert len(subjects(page)) == 50
    while True:
        found += subjects(page)
        if "older" not in page.links():
            break
        page = show(explorer, page.links()["older"].removeprefix("/ui"))
        assert not any(each.get("data-live") for each in page.all("ol")), "what is old is not live"
    assert [each for each in found if each.startswith("/endpoints/e")] == [
        f"/endpoints/e{n:03}" for n in range(129, -1, -1)
    ]
    assert "/messagegroups/shop" in found


def test_an_entity_has_its_own(explorer: Client) -> None:
    explorer.put("/schemagroups/shop/schemas/order2$details", {"format": "Own/1", "schema": "x"})
    page = show(explorer, "/schemagroups/shop/schemas/order")
    own = show(explorer, page.links()["Changes of this"].removeprefix("/ui"))
    assert {"/schemagroups/shop/schemas/order/versions/1", "/schemagroups/shop/schemas/order"} <= set(subjects(own))
    assert not any("order2" in each for each in subjects(own))
    assert "Nothing" in show(explorer, "/-/changes?of=/endpoints/none").words("main")


def test_live_ones_begin_where_the_page_ends(explorer: Client) -> None:
    page = show(explorer, "/-/changes")
    live = next(each.get("data-live") or "" for each in page.all("ol") if each.get("data-live"))
    assert explorer.get(live).json() == []
    explorer.put("/endpoints/new", {"usage": ["producer"]})
    assert "/endpoints/new" in [each["subject"] for each in explorer.get(live).json()]


def test_bad_questions_are_refused(explorer: Client) -> None:
    for params in (
        {"of": "a"},
        {"of": "/a/b/c/d/e/f/g"},
        {"before": "x"},
        {"before": "9" * 40},
        *({"of": t} for t in HOSTILE),
    ):
        page = show(explorer, "/-/changes", params=params)
        assert page.status == 400
        harmless(page)


def test_it_shows_what_the_identity_may_read(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "role": "reader", "on": ["/messagegroups/open"]})
    for group in ("open", "secret"):
        client.put(f"/messagegroups/{group}", {"name": group}, headers=ADMINISTRATOR)
    page = show(client, "/-/changes", headers={"X-User": "ann"})
    assert "/messagegroups/open" in subjects(page)
    assert "secret" not in page.text
