"""Pipelines and the history of their reports over HTTP, on each database."""

from typing import Any

import pytest
from tests.api.conftest import PROXIED, Client, Serve, put_policy

from signalbook.storage.store import Store

XID = "/messagegroups/g/messages/m"
LONG = "0" * 5000 + "1"
"""More digits than ``int`` takes from a text."""


def report(batch: str = "b1", **more: Any) -> dict[str, Any]:
    """Return a consistent report, as a pipeline sends it."""
    counts = {"read": 3, "landed": 2, "dead_lettered": 1, "dropped": 0, "seconds": 0.5, "events_per_second": 6}
    example = {"source": "f", "position": 0, "message": "no", "excerpt": "{}"}
    return {
        "batch": batch,
        "fingerprint": "f",
        "finished": "2026-01-02T03:04:05Z",
        **counts,
        "bytes": {"read": 90, "written": 1000},
        "lag": {"oldest": "2026-01-02T03:00:00Z", "newest": "2026-01-02T03:04:00Z", "seconds": 5.0},
        "by_message": {XID: {"landed": 2, "rejected": 1, "rejected_share": 0.333333, "reasons": {"no_match": 1}}},
        "reasons": {"no_match": 1},
        "violations": [{"definition": XID, "path": "/a", "rule": "type", "messages": 1, "example": example}],
        **more,
    }


def post(client: Client, *batches: str, name: str = "p") -> None:
    for batch in batches:
        answer = client.send("POST", f"/pipelines/{name}/reports", json=report(batch))
        assert answer.status_code == 201, answer.text


def test_repeated_report_is_stored_once(client: Client) -> None:
    first = client.send("POST", "/pipelines/p/reports", json=report())
    again = client.send("POST", "/pipelines/p/reports/", json=report())
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == {"pipeline": "p", "number": 1}
    assert first.headers["Location"] == "http://r.example/pipelines/p/reports/1"
    stored = client.get("/pipelines/p/reports/1")
    assert (stored.json()["number"], stored.json()["report"]) == (1, report())
    assert stored.headers["Cache-Control"] == "no-store"
    assert len(client.get("/pipelines/p/reports").json()) == 1


def test_pipelines_are_listed_with_their_last_report(client: Client) -> None:
    assert client.get("/pipelines").json() == []
    post(client, "b1", "b2")
    post(client, "b1", name="Other")
    (other, mine) = client.get("/pipelines").json()
    assert (other["name"], mine["name"], mine["last"]["number"], mine["last"]["batch"]) == ("Other", "p", 2, "b2")
    assert mine["last"]["lag"]["seconds"] == 5.0
    assert "by_message" not in mine["last"]
    last = client.get("/pipelines/p").json()["last"]
    assert (last["number"], last["report"]) == (2, report("b2"))


def test_pages(client: Client) -> None:
    post(client, *(f"b{number}" for number in range(5)))
    pages = client.pages("/pipelines/p/reports?limit=2")
    batches = [[entry["report"]["batch"] for entry in page.json()] for page in pages]
    assert batches == [["b4", "b3"], ["b2", "b1"], ["b0"]]
    post(client, "x", name="q")
    first = client.get("/pipelines?limit=1")
    assert [entry["name"] for entry in first.json()] == ["p"]
    assert any("cursor=p" in link for link in first.headers.get_list("link"))
    assert [entry["name"] for entry in client.get("/pipelines?cursor=p").json()] == ["q"]


def test_pages_contain_and_name_only_visible_pipelines(store: Store, serve: Serve) -> None:
    """Pages of the API and of the explorer are full, and no link names a hidden pipeline (A-9)."""
    client = serve(store, model="default", **PROXIED)
    names = ("a", "merger-with-acme", "payroll", "x", "z")
    for name in names:
        post(client, "b1", name=name)
    rules = {"who": ["subject:ann"], "role": "owner", "on": ["/pipelines/a*", "/pipelines/x", "/pipelines/z"]}
    put_policy(store, rules, {"who": ["subject:ann"], "role": "reader"})
    ann = {"X-User": "ann"}
    pages = list(client.pages("/pipelines?limit=2", headers=ann))
    assert not [name for name in names[1:3] for page in pages if name in f"{page.headers}{page.text}"]
    assert [[pipeline["name"] for pipeline in page.json()] for page in pages] == [["a", "x"], ["z"]]
    explorer = client.get("/ui/-/pipelines", headers=ann).text
    assert [name in explorer for name in names] == [True, False, False, True, True]


def test_newest_reports_are_kept(store: Store, serve: Serve) -> None:
    client = serve(store, max_reports=2, max_pipelines=1)
    post(client, "b1", "b2", "b3")
    assert [entry["number"] for entry in client.get("/pipelines/p/reports").json()] == [3, 2]
    assert client.get("/pipelines/p/reports/1").status_code == 404
    full = client.send("POST", "/pipelines/q/reports", json=report())
    assert (full.status_code, "max_pipelines" in full.text) == (400, True)


def test_a_pipeline_is_forgotten(client: Client) -> None:
    post(client, "b1")
    assert client.send("DELETE", "/pipelines/p").status_code == 204
    for path in ("/pipelines/p", "/pipelines/p/reports", "/pipelines/p/reports/1"):
        assert client.get(path).status_code == 404, path
    assert client.send("DELETE", "/pipelines/p").status_code == 404


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"read": 4}, "/read: it is 4, but landed + dead_lettered + dropped is 3"),
        ({"landed": 3, "read": 4}, "/landed: it is 3, but what landed by message is 2"),
        ({"reasons": {}}, "/dead_lettered: it is 1, but the messages of all reasons is 0"),
        ({"read": -1}, "/: "),
        ({"read": "3"}, "Expected `int`"),
        ({"batch": ""}, "length >= 1"),
        ({"batch": "x" * 600}, "length <= 512"),
        ({"batch": "a\0b"}, "Expected `str` matching regex"),
        ({"more": 1}, "unknown field `more`"),
        ({"finished": "today"}, "is no RFC3339 timestamp"),
        ({"by_message": {XID: {"landed": 2, "rejected": 1, "newest": "x"}}}, "newest: 'x' is no RFC3339"),
        ({"violations": [{}] * 501}, "length <= 500"),
        ({"violations": [{"definition": ""}]}, "missing required field"),
    ],
)
def test_inconsistent_report_is_rejected(client: Client, change: dict[str, Any], words: str) -> None:
    answer = client.send("POST", "/pipelines/p/reports", json=report() | change)
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert body["type"].endswith("#bad_request")
    assert words.removeprefix("/: ") in body["title"] + body.get("detail", "") + str(body.get("faults", ""))
    assert client.get("/pipelines").json() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100, b'{"batch":"a","batch":"b"}', b"\xff"])
def test_invalid_json_is_rejected(client: Client, content: bytes) -> None:
    assert client.send("POST", "/pipelines/p/reports", content=content).status_code == 400


def test_a_large_body_is_refused(client: Client) -> None:
    answer = client.send("POST", "/pipelines/p/reports", json=report(note="x" * 5_000_000))
    assert answer.status_code in (400, 406, 413), answer.status_code


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/pipelines", 405),
        ("PATCH", "/pipelines/p", 405),
        ("DELETE", "/pipelines/p/reports", 405),
        ("GET", "/pipelines/p", 404),
        ("GET", "/pipelines/p/reports", 404),
        ("GET", "/pipelines/p/reports/x", 404),
        ("GET", "/pipelines/p/reports/99999999999999999999", 404),
        ("GET", "/pipelines/%2E%2E", 404),
        ("GET", "/pipelines/%00", 404),
        ("POST", "/pipelines/a%20b/reports", 400),
        ("GET", "/pipelines?limit=0", 400),
        ("GET", "/pipelines?cursor=a%20b", 400),
        ("OPTIONS", "/pipelines/p", 200),
    ],
)
def test_other_requests(client: Client, method: str, path: str, status: int) -> None:
    assert client.send(method, path, json=report() if method == "POST" else None).status_code == status


def test_leading_zeros(client: Client) -> None:
    """Few leading zeros are harmless; a number with thousands of digits is rejected."""
    post(client, "b1")
    assert client.get("/pipelines/p/reports/0001").json()["number"] == 1
    assert client.get("/pipelines/p/reports?limit=01&cursor=02").status_code == 200
    assert client.get(f"/pipelines/p/reports/{LONG}").status_code == 404
    for path in ("/pipelines?limit=", "/pipelines/p/reports?limit=", "/pipelines/p/reports?cursor="):
        assert client.get(path + LONG).status_code == 400, path


def test_reports_do_not_change_the_registry(store: Store, serve: Serve) -> None:
    """A report makes no event and no epoch, and cached responses stay valid."""
    client = serve(store)
    before, events = client.get("/").text, client.get("/events").text
    with store.read() as reader:
        position = reader.outbox.position()
    generation = store.generation()
    post(client, "b1", "b2")
    assert (client.get("/").text, client.get("/events").text) == (before, events)
    with store.read() as reader:
        assert reader.outbox.position() == position
    assert store.generation() == generation
