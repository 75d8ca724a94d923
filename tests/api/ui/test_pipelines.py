"""Pipelines for people: batches over time, violations, which definitions are obeyed; to who may see reports."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbook.api.ui import pipelines
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from ..test_pipelines import XID, report
from .conftest import show
from .test_pages import HOSTILE, harmless

SVG = "{http://www.w3.org/2000/svg}"
PLACED = "/messagegroups/shop/messages/placed"
FINISHED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""The end of each batch of ``report``."""


@pytest.fixture(autouse=True)
def _stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "now", lambda: FINISHED + timedelta(minutes=30))


def put_reports(client: Client, *reports: dict[str, Any], name: str = "orders") -> None:
    for report_ in reports:
        answer = client.send("POST", f"/pipelines/{name}/reports", json=report_)
        assert answer.is_success, answer.text


def large(batch: str, definition: str, landed: int, rejected: int) -> dict[str, Any]:
    """A report of that many messages of one definition."""
    return report(
        batch,
        read=landed + rejected,
        landed=landed,
        dead_lettered=rejected,
        reasons={"schema_violation": rejected},
        by_message={definition: {"landed": landed, "rejected": rejected, "reasons": {"schema_violation": rejected}}},
    )


def test_pipelines_are_listed_by_name_with_their_newest_batch(explorer: Client) -> None:
    put_reports(explorer, large("b", PLACED, 12_000, 3), name="billing")
    page = show(explorer, "/-/pipelines")
    words = page.words("table")
    assert "billing ok 1 batch: 12,000 landed, 3 dead letters, 0 dropped 12,000 3 < 0.1 % 5 s 30 min ago" in words
    assert "orders failing 2 batches: 4 landed, 2 dead letters, 0 dropped 2 1 33.3 % 5 s 30 min ago" in words
    assert [time.get("title") for time in page.all("time")] == ["2026-01-02 03:04:05 UTC"] * 2
    assert [mark.get("class") for mark in page.all("span") if "%" in (mark.text or "")] == ["mark few", "mark no"]
    assert page.links()["billing"] == "/ui/-/pipelines/billing"
    assert page.links()["Pipelines"] == "/ui/-/pipelines"


@pytest.mark.parametrize(
    ("hours", "rejected", "status", "age"),
    [(0, 0, "ok", "just now"), (24, 9, "ok", "24 h ago"), (25, 9, "late", "25 h ago"), (25, 10, "failing", "25 h ago")],
)
def test_pipeline_is_late_or_failing_beyond_the_thresholds(
    explorer: Client, monkeypatch: pytest.MonkeyPatch, hours: int, rejected: int, status: str, age: str
) -> None:
    monkeypatch.setattr(pipelines, "now", lambda: FINISHED + timedelta(hours=hours))
    put_reports(explorer, large("b", PLACED, 1000 - rejected, rejected), name="billing")
    assert f"billing {status} 1 batch" in show(explorer, "/-/pipelines").words("table")
    words = show(explorer, "/-/pipelines/billing").words("main")
    assert f"billing {status} The newest batch ended {age} with " in words


@pytest.mark.parametrize("hours", [float("inf"), 1e12])
def test_any_number_of_hours_is_a_threshold(store: Store, serve: Serve, hours: float) -> None:
    client = serve(store, model="default", pipeline_late_hours=hours)
    put_reports(client, large("b", PLACED, 1, 0), name="billing")
    assert "billing ok" in show(client, "/-/pipelines").words("table")


@pytest.mark.parametrize("days", [61, -1])
def test_time_that_is_old_or_in_the_future_is_exact(
    explorer: Client, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.setattr(pipelines, "now", lambda: FINISHED + timedelta(days=days))
    assert "2026-01-02 03:04" in show(explorer, "/-/pipelines").words("table")


def test_many_of_them_come_in_pages(explorer: Client) -> None:
    for number in range(60):
        put_reports(explorer, report(), name=f"p{number:02}")
    first = show(explorer, "/-/pipelines")
    second = show(explorer, first.links()["next"].removeprefix("/ui"))
    assert "p48" in first.links()
    assert "p59" in second.links()
    assert "next" not in second.links()


def test_new_report_is_shown_immediately(explorer: Client) -> None:
    """Reports are no part of the registry: what is kept until something is committed must not be a page of these."""
    show(explorer, "/-/pipelines/orders")
    put_reports(explorer, large("new", PLACED, 5, 0))
    page = show(explorer, "/-/pipelines/orders")
    assert "3 batches as a table" in page.words("main")
    assert page.headers["cache-control"] == "no-store"


def test_dead_letters_of_no_definition_are_counted(explorer: Client) -> None:
    """The map ``by_message`` does not contain them."""
    put_reports(explorer, large("b4", PLACED, 8, 0) | {"read": 10, "dead_lettered": 2, "reasons": {"no_match": 2}})
    words = show(explorer, "/-/pipelines/orders").words("main")
    assert "Why messages became dead letters 4 no_match so none of the definitions above counts them" in words


def test_batches_are_bars_and_rows(explorer: Client) -> None:
    put_reports(explorer, large("b3", PLACED, 8, 2))
    page = show(explorer, "/-/pipelines/orders")
    bars = [shape.get("class") for shape in page.all(f"{SVG}rect")]
    assert [bars.count(kind) for kind in ("landed", "dead", "reason-1", "reason-2", "lag")] == [3, 3, 2, 1, 3]
    labels = [shape.get("aria-label") or "" for shape in page.all(f"{SVG}svg")]
    assert labels[0] == "Messages of each batch, from 2026-01-02 03:04 to 2026-01-02 03:04, up to 10"
    assert page.words("tbody").count("2026-01-02") == 3
    batch = show(explorer, page.links()["b3"].removeprefix("/ui"))
    assert "batch of orders b3 It ended 2026-01-02 03:04 with 20.0 % dead letters." in batch.words("main")
    assert "Order placed 8 2 20.0 % 2 schema_violation" in batch.words("main")
    assert explorer.get(batch.links()["/pipelines/orders/reports/3"]).json()["report"]["landed"] == 8


def test_batch_shows_what_could_not_be_used(explorer: Client) -> None:
    rescued = [{"definition": PLACED, "path": "/extra", "messages": 7}]
    put_reports(explorer, report("b3", left_out={"/messagegroups/g/messages/x": ["it has no schema"]}, rescued=rescued))
    words = show(explorer, "/-/pipelines/orders/3").words("main")
    assert "Definitions that could not be used /messagegroups/g/messages/x it has no schema" in words
    assert f"Values without a column 7 /extra {PLACED}" in words


def test_dead_letters_are_charted_by_reason(explorer: Client) -> None:
    reasons = {f"r{number}": number for number in range(1, 7)}
    put_reports(explorer, report("b3", read=23, dead_lettered=21, reasons=reasons))
    page = show(explorer, "/-/pipelines/orders")
    titles = [(shape.get("class"), shape.findtext(f"{SVG}title")) for shape in page.all(f"{SVG}rect")]
    assert ("reason-1", "2026-01-02 03:04: 6 r6") in titles
    assert ("reason-3", "2026-01-02 03:04: 4 r4") in titles
    assert ("reason-other", "2026-01-02 03:04: 6 other reasons") in titles
    assert ("reason-other", "2026-01-02 03:04: 1 other reasons") in titles


def test_violation_leads_to_its_field(explorer: Client) -> None:
    properties = {"items": {"type": "array", "items": {"type": "object", "properties": {"a b": {"type": "string"}}}}}
    schema = {"format": "JsonSchema/draft-07", "schema": {"type": "object", "properties": properties}}
    answer = explorer.put("/schemagroups/shop/schemas/order/versions/3$details", schema)
    assert answer.is_success, answer.text
    violation = {**report()["violations"][0], "definition": PLACED, "path": "/items/*/a b"}
    put_reports(explorer, report("b3", violations=[violation]))
    href = show(explorer, "/-/pipelines/orders/3").links()["/items/*/a b"]
    path, _, anchor = href.partition("#")
    assert path == f"/ui{PLACED}"
    page = show(explorer, PLACED)
    (field,) = [element for element in page.root.iter() if element.get("id") == anchor]
    assert "a b" in "".join(field.itertext())


def test_definitions_are_obeyed_or_not(explorer: Client) -> None:
    put_reports(explorer, large("b3", PLACED, 8, 0))
    page = show(explorer, "/-/pipelines/orders")
    words = page.words("main")
    assert f"{XID} 4 2 33.3 % 2 no_match" in words
    assert "Order placed 8 0 obeyed" in words
    assert page.links()["Order placed"] == f"/ui{PLACED}"
    assert XID not in page.links(), "there is no such definition here"


def test_violations_are_added_up_with_an_example(explorer: Client) -> None:
    words = show(explorer, "/-/pipelines/orders").words("main")
    assert "2 /a type no" in words
    assert "for example f, position 0" in words


def test_a_definition_has_its_pipelines(explorer: Client) -> None:
    put_reports(explorer, large("b", PLACED, 90, 10), name="billing")
    link = show(explorer, PLACED).links()["Which pipelines land it, and is it obeyed?"]
    page = show(explorer, link.removeprefix("/ui"))
    assert "billing failing 90 10 10.0 %" in page.words("table")
    assert page.words("h1") == "Order placed"
    assert "orders" not in page.links()
    assert "2 pipelines were looked at" in show(explorer, "/-/pipelines?of=/none").words("main")


def test_older_batches_are_on_pages_of_their_own(explorer: Client) -> None:
    for number in range(61):
        put_reports(explorer, report(f"more{number}"))
    first = show(explorer, "/-/pipelines/orders")
    assert len(first.text.encode()) < 200_000
    assert "3 batches as a table" in show(explorer, first.links()["Older batches"].removeprefix("/ui")).words("main")


def test_unknown_pipeline_has_an_error_page(explorer: Client) -> None:
    for path, status in (
        ("/-/pipelines/none", 404),
        ("/-/pipelines/a%20b", 404),
        ("/-/pipelines?after=a%20b", 400),
        ("/-/pipelines/orders?before=x", 400),
    ):
        page = show(explorer, path)
        assert page.status == status, path
        harmless(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_reports_are_text(explorer: Client, text: str) -> None:
    bad = report(text, reasons={text: 1}, note=text)
    bad["by_message"] = {text: {"landed": 2, "rejected": 1, "reasons": {text: 1}}}
    bad["violations"][0] |= {"definition": text, "path": text, "rule": text}
    bad["violations"][0]["example"] |= {"source": text, "message": text, "excerpt": text}
    put_reports(explorer, bad)
    page = show(explorer, "/-/pipelines/orders")
    assert page.status == 200
    harmless(page)
    harmless(show(explorer, "/-/pipelines", params={"of": text}))


def test_large_reports_make_small_pages(explorer: Client) -> None:
    many = {f"/messagegroups/g/messages/{'m' * 100}{n}": {"landed": 0, "rejected": 0} for n in range(5000)}
    violation = {**report()["violations"][0], "path": "<" * 500}
    violations = [{**violation, "rule": f"r{n}"} for n in range(500)]
    for number in range(4):
        put_reports(
            explorer, report(f"l{number}", landed=0, read=1, by_message=many, violations=violations, note="&" * 500)
        )
    page = show(explorer, "/-/pipelines/orders")
    assert page.status == 200
    assert len(page.text.encode()) < 200_000
    assert "4,961 more are not shown" in page.words("main")


def test_pages_of_full_reports_are_small(explorer: Client) -> None:
    text = "&" * 500
    reasons = {f"{text}{number}": 10 for number in range(6)}
    by_message = {f"{text}{number:03}": {"landed": 9, "rejected": 1, "reasons": reasons} for number in range(50)}
    violation = {"definition": text, "path": text, "rule": text, "messages": 5}
    example = {"source": text, "position": 8, "message": text, "excerpt": text}
    violations = [{**violation, "example": example, "path": f"{number}{text}"} for number in range(30)]
    broken = {f"{text}{number}": [text] * 9 for number in range(40)}
    rescued = [{"definition": text, "path": text, "messages": 1}] * 40
    counts = {"read": 510, "landed": 450, "dead_lettered": 60, "by_message": by_message, "reasons": reasons}
    for number in range(60):
        more = {"note": text, "violations": violations, "left_out": broken, "rescued": rescued}
        put_reports(explorer, report(f"{number}{text}", **counts, **more), name="full")
    for path in ("", "/full", "/full/60"):
        page = show(explorer, f"/-/pipelines{path}")
        assert page.status == 200
        assert len(page.text.encode()) < 200_000, path


def test_reports_require_the_right_to_read_them(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    for name in ("mine", "theirs"):
        client.send("POST", f"/pipelines/{name}/reports", json=report(), headers=ADMINISTRATOR)
    put_policy(
        store,
        {"who": ["subject:ann"], "allow": ["report"], "on": ["/pipelines/mine"]},
        {"who": ["subject:bob"], "role": "reader", "on": ["/messagegroups/*"]},
    )
    ann, bob = {"X-User": "ann"}, {"X-User": "bob"}
    assert "theirs" not in show(client, "/-/pipelines", headers=ann).text
    assert "theirs" not in show(client, "/-/pipelines", params={"of": XID}, headers=ann).text
    assert show(client, "/-/pipelines/mine", headers=ann).status == 200
    assert show(client, "/-/pipelines/theirs", headers=ann).status == 403
    assert show(client, "/-/pipelines", headers=bob).status == 403
