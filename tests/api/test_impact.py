"""``GET /impact``, on each database."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from tests.api.test_pipelines import report

from signalbook.api import impact as impact_api
from signalbook.api.impact import CheckedCandidate, ImpactContext, build_trial_document, build_trial_work
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
    new_client = serve(store, model="default", **PROXIED)
    put_policy(store, {"who": ["subject:ann"], "allow": ["read"], "on": [SCHEMA]})
    body = {
        "schemagroups": {"g": {"schemas": {"s": {"format": "JsonSchema/draft-07", "schema": {}}}}},
        "messagegroups": {
            "g": {"messages": {"m": {"dataschemaformat": "JsonSchema/draft-07", "dataschemaxid": SCHEMA}}}
        },
    }
    assert new_client.send("PATCH", "/", json=body, headers=ADMINISTRATOR).status_code == 200
    sent = new_client.send("POST", "/pipelines/lake/reports", json=report(), headers=ADMINISTRATOR)
    assert sent.status_code == 201
    other = {**report(), "by_message": {"/messagegroups/g/messages/other": report()["by_message"][MESSAGE]}}
    assert new_client.send("POST", "/pipelines/other/reports", json=other, headers=ADMINISTRATOR).status_code == 201
    return new_client


def impact(client: Client, query: str, who: dict[str, str] = ADMINISTRATOR) -> dict[str, Any]:
    answer = client.get(f"/impact?{query}", headers=who)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def test_impact_lists_dependents_and_subscriptions(client: Client) -> None:
    filtered = {"sink": "https://hooks.example/", "protocol": "HTTP", "filters": [{"prefix": {"subject": MESSAGE[1:]}}]}
    all_of_it = {"sink": "https://hooks.example/", "protocol": "HTTP"}
    ids = []
    for document in (filtered, all_of_it):
        sent = client.send("POST", "/subscriptions", json=document, headers=ADMINISTRATOR)
        assert sent.status_code == 201, sent.text
        ids.append(sent.json()["id"])
    result = impact(client, f"xid={SCHEMA}")
    assert result["dependents"] == [{"xid": MESSAGE, "relation": "dataschema", "on": SCHEMA, "depth": 1}]
    assert (result["xid"], result["complete"]) == (SCHEMA, True)
    assert result["pipelines"] == [{"name": "lake", "messages": [MESSAGE]}]
    heard = {subscription["id"]: subscription["xids"] for subscription in result["subscriptions"]}
    assert heard[ids[1]] == [SCHEMA, MESSAGE]
    assert result["cut"] == []


def test_lists_that_a_limit_cuts_are_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impact_api, "_PIPELINES", 1)
    assert impact(client, f"xid={SCHEMA}")["cut"] == ["pipelines"]
    monkeypatch.setattr(impact_api, "_MENTIONED", 1)
    assert impact(client, f"xid={SCHEMA}")["cut"] == ["pipelines", "subscriptions"]


def test_impact_hides_unreadable_entities(client: Client) -> None:
    assert client.send(
        "POST", "/subscriptions", json={"sink": "https://h.example/", "protocol": "HTTP"}, headers=ADMINISTRATOR
    ).is_success
    result = impact(client, f"xid={SCHEMA}", ANN)
    assert (result["dependents"], result["pipelines"], result["subscriptions"], result["complete"]) == (
        [],
        [],
        [],
        True,
    )
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
def test_invalid_impact_request_is_rejected(client: Client, query: str, status: int) -> None:
    assert client.get(f"/impact?{query}", headers=ADMINISTRATOR).status_code == status


CHANGED = {"type": "object", "properties": {"own": {"type": "integer"}}}


def attempt(client: Client, document: Any, query: str = f"xid={SCHEMA}", who: dict[str, str] = ADMINISTRATOR) -> Any:
    return client.send("POST", f"/impact?{query}", json=document, headers=who)


@pytest.fixture
def strict(client: Client) -> Client:
    """Return a client of a registry with a version under the rule backward, and a subscription."""
    document = {"type": "object", "properties": {"own": {"type": "string"}}}
    body = {"format": "JsonSchema/draft-07", "schema": document, "meta": {"compatibility": "backward"}}
    assert client.send("PATCH", f"{SCHEMA}$details", json=body, headers=ADMINISTRATOR).is_success
    sent = {"sink": "https://h.example/", "protocol": "HTTP"}
    assert client.send("POST", "/subscriptions", json=sent, headers=ADMINISTRATOR).is_success
    return client


def test_a_change_is_tried(strict: Client) -> None:
    answer = attempt(strict, CHANGED)
    assert answer.status_code == 200, answer.text
    result = answer.json()
    assert (result["safe"], result["outcome"], result["rule"], result["default"]) == (False, "breaks", "backward", True)
    assert result["findings"][0]["rule"] == "type_changed"
    assert not result["check"]["accepted"]
    assert result["check"]["errors"][0]["type"].endswith("compatibility_violation")
    expected = {"xid": MESSAGE, "relation": "dataschema", "on": SCHEMA, "depth": 1, "outcome": "breaks"}
    assert result["dependents"] == [expected]
    assert result["pipelines"] == [{"name": "lake", "messages": [MESSAGE], "outcome": "breaks"}]
    assert result["subscriptions"][0]["xids"] == [SCHEMA, MESSAGE]
    assert strict.get(f"{SCHEMA}/versions", headers=ADMINISTRATOR).json().keys() == {"1"}, "nothing is stored"


def test_compatible_change_is_safe(strict: Client) -> None:
    wider = {"type": "object", "properties": {"own": {"type": ["string", "null"]}}}
    result = attempt(strict, wider).json()
    assert (result["safe"], result["outcome"], result["check"]["accepted"]) == (True, "holds", True)
    assert [check["outcome"] for check in (*result["dependents"], *result["pipelines"])] == ["holds", "holds"]
    forward = attempt(strict, wider, f"xid={SCHEMA}&compatibility=FORWARD").json()
    assert (forward["safe"], forward["outcome"], forward["rule"]) == (False, "breaks", "forward")
    assert attempt(strict, wider, f"xid={SCHEMA}/versions/1").json()["safe"]


def test_invalid_schema_breaks_everything(strict: Client) -> None:
    result = attempt(strict, {"type": 7}).json()
    assert (result["safe"], result["check"]["accepted"], result["outcome"]) == (False, False, "breaks")
    assert "could not be read" in result["why"]


def test_sticky_default_version_protects_dependents(strict: Client) -> None:
    body = {"defaultversionid": "1", "defaultversionsticky": True}
    assert strict.send("PATCH", f"{SCHEMA}/meta", json=body, headers=ADMINISTRATOR).is_success
    result = attempt(strict, CHANGED).json()
    assert (result["default"], result["dependents"], result["pipelines"]) == (False, [], [])


def test_trial_needs_and_shows_only_readable_entities(strict: Client) -> None:
    result = attempt(strict, CHANGED, who=ANN).json()
    assert (result["outcome"], result["dependents"], result["pipelines"]) == ("breaks", [], [])
    assert MESSAGE not in json.dumps(result)
    assert attempt(strict, CHANGED, f"xid={MESSAGE}", ANN).status_code == 404


def test_trials_do_not_block_other_requests(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial may take a minute, and every reader may start many of them."""
    begun: list[Any] = []
    go = threading.Event()

    def slow(*arguments: Any) -> JSONObject:
        begun.append(arguments)
        go.wait(60)
        return build_trial_document(*arguments)

    monkeypatch.setattr(impact_api, "build_trial_document", slow)

    async def asked() -> list[int]:
        transport = httpx.ASGITransport(app=strict.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://r.example", headers=ADMINISTRATOR) as http:
            tasks = [asyncio.create_task(http.post(f"/impact?xid={SCHEMA}", json=CHANGED)) for _ in range(10)]
            while not begun:
                await asyncio.sleep(0.01)
            read, held = await http.get("/export"), len(begun)
            go.set()
            return [read.status_code, held, *(task.status_code for task in await asyncio.gather(*tasks))]

    assert strict.run(asked()) == [200, 1, *[200] * 10]


def test_trial_ends_when_the_client_disconnects(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
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
            return build_trial_document(context, checked, work)
        except Abandoned as error:
            ended.append(type(error))
            raise
        finally:
            finished.set()

    monkeypatch.setattr(Work, "abandon", noted)
    monkeypatch.setattr(impact_api, "build_trial_document", slow)
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
        task = asyncio.create_task(strict.app(scope, receive, send))
        await begun.wait()
        gone.set()
        await task

    strict.run(leave())
    assert finished.wait(60)
    assert ended == [Abandoned]


def test_a_refused_candidate_takes_a_part_of_the_work(strict: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[int, float]] = []

    def counted(settings: Settings, *, accepted: bool) -> Work:
        spent.append((settings.max_work, settings.work_timeout))
        work = build_trial_work(settings, accepted=accepted)
        if not accepted:
            with pytest.raises(TooComplex), work.on_the_spot():
                work.spend(settings.max_work // 10 + 2)
        return build_trial_work(settings, accepted=accepted)

    monkeypatch.setattr(impact_api, "build_trial_work", counted)
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
def test_invalid_trial_is_rejected(client: Client, query: str, status: int) -> None:
    assert attempt(client, {}, query).status_code == status
    assert client.send("POST", f"/impact?xid={SCHEMA}", headers=ADMINISTRATOR).status_code == 400, "no document"
