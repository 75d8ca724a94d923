"""``GET /impact``, on each database."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from tests.api.test_pipelines import report

from signalbook.api import impact as impact_api
from signalbook.api.impact import CheckedCandidate, ImpactContext, trial_document, trial_work
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.values import JSONObject
from signalbook.work import Abandoned, TooComplex, Work

SCHEMA = "/schemagroups/g/schemas/s"
MESSAGE = "/messagegroups/g/messages/m"
ANN = {"X-User": "ann"}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A message with a schema, which ann reads alone; a pipeline that lands it, and a subscription to it."""
    made = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": [SCHEMA]})
    body = {
        "schemagroups": {"g": {"schemas": {"s": {"format": "JsonSchema/draft-07", "schema": {}}}}},
        "messagegroups": {
            "g": {"messages": {"m": {"dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": SCHEMA}}}
        },
    }
    assert made.send("PATCH", "/", json=body, headers=ADMINISTRATOR).status_code == 200
    sent = made.send("POST", "/pipelines/lake/reports", json=report(), headers=ADMINISTRATOR)
    assert sent.status_code == 201
    other = {**report(), "by_message": {"/messagegroups/g/messages/other": report()["by_message"][MESSAGE]}}
    assert made.send("POST", "/pipelines/other/reports", json=other, headers=ADMINISTRATOR).status_code == 201
    return made


def impact(client: Client, query: str, who: dict[str, str] = ADMINISTRATOR) -> dict[str, Any]:
    answer = client.get(f"/impact?{query}", headers=who)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_whom_a_change_concerns(client: Client) -> None:
    wanted = {"sink": "https://hooks.example/", "protocol": "HTTP", "filters": [{"prefix": {"subject": MESSAGE[1:]}}]}
    all_of_it = {"sink": "https://hooks.example/", "protocol": "HTTP"}
    ids = []
    for document in (wanted, all_of_it):
        sent = client.send("POST", "/subscriptions", json=document, headers=ADMINISTRATOR)
        assert sent.status_code == 201, sent.text
        ids.append(sent.json()["id"])
    found = impact(client, f"xid={SCHEMA}")
    assert found["dependents"] == [{"xid": MESSAGE, "relation": "dataschema", "on": SCHEMA, "depth": 1}]
    assert (found["xid"], found["complete"]) == (SCHEMA, True)
    assert found["pipelines"] == [{"name": "lake", "messages": [MESSAGE]}]
    heard = {each["id"]: each["xids"] for each in found["subscriptions"]}
    assert heard[ids[1]] == [SCHEMA, MESSAGE]


def test_what_is_hidden_does_not_show(client: Client) -> None:
    assert client.send(
        "POST", "/subscriptions", json={"sink": "https://h.example/", "protocol": "HTTP"}, headers=ADMINISTRATOR
    ).is_success
    found = impact(client, f"xid={SCHEMA}", ANN)
    assert (found["dependents"], found["pipelines"], found["subscriptions"], found["complete"]) == ([], [], [], True)
    hidden, missing = (client.get(f"/impact?xid={xid}", headers=ANN) for xid in (MESSAGE, f"{MESSAGE}x"))
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace(MESSAGE, "") == missing.text.replace(f"{MESSAGE}x", "")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("xid=g", 400),
        ("xid=/", 400),
        ("xid=/schemagroups", 400),
        ("xid=/schemagroups/g&what=1", 400),
        ("xid=/schemagroups/g&depth=0", 400),
        ("xid=/schemagroups/none", 404),
    ],
)
def test_what_makes_no_sense_is_refused(client: Client, query: str, status: int) -> None:
    assert client.get(f"/impact?{query}", headers=ADMINISTRATOR).status_code == status


CHANGED = {"type": "object", "properties": {"own": {"type": "integer"}}}


def attempt(client: Client, document: Any, query: str = f"xid={SCHEMA}", who: dict[str, str] = ADMINISTRATOR) -> Any:
    return client.send("POST", f"/impact?{query}", json=document, headers=who)


@pytest.fixture
def strict(client: Client) -> Client:
    """With a version that says something, by the rule backward, and a subscription."""
    document = {"type": "object", "properties": {"own": {"type": "string"}}}
    body = {"format": "JsonSchema/draft-07", "schema": document, "meta": {"compatibility": "backward"}}
    assert client.send("PATCH", f"{SCHEMA}$details", json=body, headers=ADMINISTRATOR).is_success
    sent = {"sink": "https://h.example/", "protocol": "HTTP"}
    assert client.send("POST", "/subscriptions", json=sent, headers=ADMINISTRATOR).is_success
    return client


def test_a_change_is_tried(strict: Client) -> None:
    answer = attempt(strict, CHANGED)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["safe"], found["outcome"], found["rule"], found["default"]) == (False, "breaks", "backward", True)
    assert found["findings"][0]["rule"] == "type_changed"
    assert not found["check"]["accepted"]
    assert found["check"]["errors"][0]["type"].endswith("compatibility_violation")
    expected = {"xid": MESSAGE, "relation": "dataschema", "on": SCHEMA, "depth": 1, "outcome": "breaks"}
    assert found["dependents"] == [expected]
    assert found["pipelines"] == [{"name": "lake", "messages": [MESSAGE], "outcome": "breaks"}]
    assert found["subscriptions"][0]["xids"] == [SCHEMA, MESSAGE]
    assert strict.get(f"{SCHEMA}/versions", headers=ADMINISTRATOR).json().keys() == {"1"}, "nothing is stored"


def test_what_breaks_nothing_is_safe(strict: Client) -> None:
    wider = {"type": "object", "properties": {"own": {"type": ["string", "null"]}}}
    found = attempt(strict, wider).json()
    assert (found["safe"], found["outcome"], found["check"]["accepted"]) == (True, "holds", True)
    assert [each["outcome"] for each in (*found["dependents"], *found["pipelines"])] == ["holds", "holds"]
    forward = attempt(strict, wider, f"xid={SCHEMA}&compatibility=FORWARD").json()
    assert (forward["safe"], forward["outcome"], forward["rule"]) == (False, "breaks", "forward")
    assert attempt(strict, wider, f"xid={SCHEMA}/versions/1").json()["safe"]


def test_what_is_no_schema_is_refused_and_breaks_all(strict: Client) -> None:
    found = attempt(strict, {"type": 7}).json()
    assert (found["safe"], found["check"]["accepted"], found["outcome"]) == (False, False, "breaks")
    assert "could not be read" in found["why"]


def test_a_version_that_stays_keeps_others_from_meeting_the_new_one(strict: Client) -> None:
    body = {"defaultversionid": "1", "defaultversionsticky": True}
    assert strict.send("PATCH", f"{SCHEMA}/meta", json=body, headers=ADMINISTRATOR).is_success
    found = attempt(strict, CHANGED).json()
    assert (found["default"], found["dependents"], found["pipelines"]) == (False, [], [])


def test_trying_takes_no_more_than_reading_and_shows_no_more(strict: Client) -> None:
    found = attempt(strict, CHANGED, who=ANN).json()
    assert (found["outcome"], found["dependents"], found["pipelines"]) == ("breaks", [], [])
    assert MESSAGE not in json.dumps(found)
    assert attempt(strict, CHANGED, f"xid={MESSAGE}", ANN).status_code == 404


def test_trials_keep_nobody_else_waiting(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take a minute, and whoever may read may ask for many."""
    begun: list[Any] = []
    go = threading.Event()

    def slow(*given: Any) -> JSONObject:
        begun.append(given)
        go.wait(60)
        return trial_document(*given)

    monkeypatch.setattr(impact_api, "trial_document", slow)

    async def asked() -> list[int]:
        transport = httpx.ASGITransport(app=strict.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://r.example", headers=ADMINISTRATOR) as http:
            tasks = [asyncio.create_task(http.post(f"/impact?xid={SCHEMA}", json=CHANGED)) for _ in range(10)]
            while not begun:
                await asyncio.sleep(0.01)
            read, held = await http.get("/export"), len(begun)
            go.set()
            return [read.status_code, held, *(each.status_code for each in await asyncio.gather(*tasks))]

    assert strict.run(asked()) == [200, 1, *[200] * 10]


def test_a_trial_ends_when_the_client_goes_away(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons may take seconds each: they are for somebody who waits for them."""
    ended: list[type[BaseException]] = []
    loops: list[asyncio.AbstractEventLoop] = []
    over, begun, gone = threading.Event(), asyncio.Event(), asyncio.Event()
    abandon = Work.abandon

    def noted(work: Work) -> None:
        abandon(work)
        over.set()

    def slow(context: ImpactContext, checked: CheckedCandidate, work: Work) -> JSONObject:
        loops[0].call_soon_threadsafe(begun.set)
        assert over.wait(60)
        try:
            return trial_document(context, checked, work)
        except Abandoned as error:
            ended.append(type(error))
            raise
        finally:
            finished.set()

    monkeypatch.setattr(Work, "abandon", noted)
    monkeypatch.setattr(impact_api, "trial_document", slow)
    messages = iter([{"type": "http.request", "body": json.dumps(CHANGED).encode(), "more_body": False}])

    async def receive() -> Any:
        if (message := next(messages, None)) is not None:
            return message
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    finished = threading.Event()
    headers = [(b"host", b"r.example"), *((k.lower().encode(), v.encode()) for k, v in ADMINISTRATOR.items())]
    scope = {
        "type": "http", "method": "POST", "path": "/impact", "raw_path": b"/impact", "root_path": "", "scheme": "http",
        "query_string": f"xid={SCHEMA}".encode(), "headers": headers, "client": ("127.0.0.1", 1), "server": ("r", 80),
        "http_version": "1.1", "asgi": {"version": "3.0"},
    }  # fmt: skip

    async def leave() -> None:
        loops.append(asyncio.get_running_loop())
        asked = asyncio.create_task(strict.app(scope, receive, send))
        await begun.wait()
        gone.set()
        await asked

    strict.run(leave())
    assert finished.wait(60)
    assert ended == [Abandoned]


def test_a_refused_candidate_takes_a_part_of_the_work(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[int, float]] = []

    def counted(settings: Settings, *, accepted: bool) -> Work:
        spent.append((settings.max_work, settings.work_timeout))
        work = trial_work(settings, accepted=accepted)
        if not accepted:
            with pytest.raises(TooComplex), work.on_the_spot():
                work.spend(settings.max_work // 10 + 2)
        return trial_work(settings, accepted=accepted)

    monkeypatch.setattr(impact_api, "trial_work", counted)
    assert not attempt(strict, CHANGED).json()["check"]["accepted"]
    assert len(spent) == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        (f"xid={MESSAGE}", 400),
        ("xid=/schemagroups/g", 400),
        (f"xid={SCHEMA}x", 404),
        (f"xid={SCHEMA}&depth=2", 400),
        (f"xid={SCHEMA}&compatibility=sideways", 400),
        ("", 400),
    ],
)
def test_what_cannot_be_tried(client: Client, query: str, status: int) -> None:
    assert attempt(client, {}, query).status_code == status
    assert client.send("POST", f"/impact?xid={SCHEMA}", headers=ADMINISTRATOR).status_code == 400, "no document"
