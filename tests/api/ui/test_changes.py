"""The change feed for people: the newest first, in pages, of one entity, and no more than one may read."""

from datetime import timedelta
from urllib.parse import urlencode

from signalbook.storage.store import Store
from signalbook.values import now

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import Document, show
from .test_pages import HOSTILE, harmless


def subjects(page: Document) -> list[str]:
    """Return the changed subjects in the order of the page."""
    lists = (ordered_list for ordered_list in page.all("ol") if "changes" in (ordered_list.get("class") or ""))
    parts = (part for ordered_list in lists for line in ordered_list.iter("li") for part in line.iter())
    return [part.text or "" for part in parts if (part.text or "").startswith("/")]


def test_the_newest_comes_first(explorer: Client) -> None:
    explorer.put("/endpoints/new", {"usage": ["producer"]})
    explorer.send("DELETE", "/endpoints/new")
    page = show(explorer, "/-/changes")
    assert "/endpoints/new" in subjects(page)[:2]
    assert "deleted /endpoints/new group" in page.words("main")
    assert "created Order placed /messagegroups/shop/messages/placed resource" in page.words("main")
    assert page.links()["Order placed"].startswith("/ui/messagegroups/shop/messages/placed")
    assert "by" not in page.words("main").split(), "without a policy there is no audit"
    assert "/endpoints/new" not in page.links(), "there is nothing any more"
    assert page.links()["Changes"] == "/ui/-/changes"


def test_older_changes_are_on_the_next_page(explorer: Client) -> None:
    for number in range(130):
        explorer.put(f"/endpoints/e{number:03}", {"usage": ["producer"]})
    listed, page = [], show(explorer, "/-/changes")
    assert len(subjects(page)) == 50
    assert page.links()["a week earlier"] == f"/ui/-/changes?to={now().date() - timedelta(days=7)}"
    while True:
        listed += subjects(page)
        if "older" not in page.links():
            break
        page = show(explorer, page.links()["older"].removeprefix("/ui"))
        assert not any(subject.get("data-live") for subject in page.all("ol")), "what is old is not live"
    expected = [f"/endpoints/e{n:03}" for n in range(129, -1, -1)]
    assert [subject for subject in listed if subject.startswith("/endpoints/e")] == expected
    assert "/messagegroups/shop" in listed


def test_an_entity_has_its_own(explorer: Client) -> None:
    explorer.put("/schemagroups/shop/schemas/order2$details", {"format": "Own/1", "schema": "x"})
    page = show(explorer, "/schemagroups/shop/schemas/order")
    own_page = show(explorer, page.links()["Changes of this"].removeprefix("/ui"))
    assert {"/schemagroups/shop/schemas/order/versions/1", "/schemagroups/shop/schemas/order"} <= set(
        subjects(own_page)
    )
    assert not any("order2" in subject for subject in subjects(own_page))
    assert "Nothing" in show(explorer, "/-/changes?of=/endpoints/none").words("main")


def test_changes_are_found_by_their_day(explorer: Client) -> None:
    """The feed of a day is that between its midnights in UTC; the day itself is the heading."""
    today = now().date()
    yesterday, tomorrow = (today + timedelta(days=days) for days in (-1, 1))
    filters = {"of": "/messagegroups/shop", "from": yesterday.isoformat()}
    every = subjects(show(explorer, "/-/changes"))
    for query, there in (
        ({"from": today, "to": today}, True),
        ({"from": yesterday, "to": tomorrow}, True),
        ({"to": yesterday}, False),
        ({"from": tomorrow}, False),
        ({"from": tomorrow, "to": yesterday}, False),
    ):
        result = show(explorer, "/-/changes", params={name: str(day) for name, day in query.items()})
        assert subjects(result) == (every if there else []), query
    page = show(explorer, "/-/changes", params={**filters, "to": today.isoformat()})
    values = {tag.get("name"): tag.get("value") for tag in page.all("input")}
    assert filters.items() <= values.items()
    assert f"{today:%A, %d %B %Y}" in page.words("main")
    assert "a week earlier" not in page.links()
    assert page.links()["newest"] == f"/ui/-/changes?{urlencode(filters)}"
    assert not any(tag.get("data-live") for tag in page.all("ol")), "what has an end is not live"


def test_live_changes_begin_where_the_page_ends(explorer: Client) -> None:
    page = show(explorer, "/-/changes")
    live = next(tag.get("data-live") or "" for tag in page.all("ol") if tag.get("data-live"))
    assert explorer.get(live).json() == []
    explorer.put("/endpoints/new", {"usage": ["producer"]})
    assert "/endpoints/new" in [tag["subject"] for tag in explorer.get(live).json()]


def test_bad_questions_are_refused(explorer: Client) -> None:
    days = "from=yesterday to=9999-12-31 from=2026-02-30"
    wrong = f"of=a of=/a/b/c/d/e/f/g before=x before={'9' * 40} {days}"
    for query in (*wrong.split(), *(urlencode({"of": text}) for text in HOSTILE)):
        page = show(explorer, f"/-/changes?{query}")
        assert page.status == 400
        harmless(page)


def test_changes_show_only_readable_entities(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "role": "reader", "on": ["/messagegroups/open"]})
    for group in ("open", "secret"):
        client.put(f"/messagegroups/{group}", {"name": group}, headers=ADMINISTRATOR)
    ann = {"X-User": "ann"}
    page = show(client, "/-/changes", headers=ann)
    assert "/messagegroups/open" in subjects(page)
    assert "secret" not in page.text
    assert "by" not in page.words("main").split(), "who did it is for auditors"
    put_policy(store, {"who": ["subject:ann"], "role": "reader"}, {"who": ["subject:ann"], "role": "auditor"})
    assert "created secret by root /messagegroups/secret" in show(client, "/-/changes", headers=ann).words("main")
