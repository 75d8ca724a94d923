"""The audit over HTTP, and the limits of callers, on each database; those who ask have API tokens."""

import json
from typing import Any

import pytest
from tests.api.conftest import Client, Serve, bearer
from tests.api.test_pipelines import report
from tests.test_metrics import samples

from signalbook.engine.engine import Engine
from signalbook.engine.write.commands import Command, Method
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.xid import Xid

POLICY: dict[str, Any] = {
    "rules": [
        {"who": ["subject:pat"], "role": "administrator"},
        {"who": ["subject:sam"], "role": "reader", "on": ["/dirs/d"]},
    ]
}
ANY: dict[str, Any] = {"attributes": {"*": {"type": "any"}}}
NOTES: dict[str, Any] = {"notes": {"singular": "note", "hasdocument": False, **ANY}}
MODEL: dict[str, Any] = {"groups": {"dirs": {"singular": "dir", "resources": NOTES, **ANY}}}
LONG: dict[str, Any] = {"schema": {"type": "string", "description": "swordfish" * 9}, "format": "JsonSchema/draft-07"}
CLOSED = "this registry is not open to everybody: send credentials"
MISTYPED = "the API token is malformed or mistyped: its checksum does not hold"
ELSEWHERE = "http://127.0.0.1:9/hook?key=swordfish"


@pytest.fixture
def sam(store: Store) -> dict[str, str]:
    """The headers of a reader's."""
    return bearer(store, "sam")


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A registry with a policy."""
    return closed(serve(store, allow_sinks=("127.0.0.1:9",), sink_consent="assumed"))


def closed(client: Client) -> Client:
    assert client.put("/modelsource", MODEL).status_code == 200
    assert client.put("/access", POLICY).status_code == 201
    return client


def shown(client: Client, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/audit{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    records: list[dict[str, Any]] = answer.json()
    return records


def recorded(client: Client, headers: dict[str, str]) -> list[dict[str, Any]]:
    """Return the audit entries of refused requests, once they are stored."""
    assert client.audit is not None
    client.audit.store_refusals()
    return shown(client, headers, "?outcome=refused")


def told(client: Client, headers: dict[str, str], query: str = "") -> list[tuple[str, str, list[str]]]:
    return [(entry["who"], entry["action"], entry["xids"]) for entry in shown(client, headers, query)]


def test_writes_are_audited_with_their_callers(client: Client, pat: dict[str, str]) -> None:
    response = client.put("/dirs/d/notes/n", {"text": "swordfish"}, headers=pat)
    client.put("/dirs/d/notes/n/versions/2", {}, headers=pat)
    client.send("DELETE", "/dirs/d", headers=pat)
    client.put("/modelsource", {**MODEL, "attributes": {"x": {"type": "string"}}}, headers=pat)
    entries = shown(client, pat)
    assert told(client, pat)[:6] == [
        ("pat", "update", ["/"]),
        ("pat", "configure", ["/modelsource", "/model"]),
        ("pat", "delete", ["/dirs/d", "/dirs/d/notes/n", "/dirs/d/notes/n/versions/1", "/dirs/d/notes/n/versions/2"]),
        ("pat", "update", ["/dirs/d/notes/n", "/dirs/d/notes/n/versions/2"]),
        ("pat", "create", ["/dirs/d", "/dirs/d/notes/n", "/dirs/d/notes/n/versions/1"]),
        ("anonymous", "administer", ["/access"]),
    ]
    created = entries[4]
    assert created["correlationid"] == response.headers["xRegistry-xregcorrelationid"]
    assert (created["outcome"], created["peer"]) == ("done", "127.0.0.1")
    assert (created["api"], created["method"], len(created["token"]) > 4) == ("xregistry", "PUT", True)
    assert [entry["number"] for entry in entries] == sorted((entry["number"] for entry in entries), reverse=True)
    assert "swordfish" not in json.dumps(entries)


def test_failed_and_trial_requests_are_not_audited(client: Client, pat: dict[str, str]) -> None:
    before = shown(client, pat)
    assert client.put("/dirs/d/notes/n", {"epoch": 7, "noteid": "other"}, headers=pat).status_code == 400
    assert client.put("/check/dirs/d/notes/n", {}, headers=pat).status_code == 200
    assert client.send("DELETE", "/pipelines/none", headers=pat).status_code == 404
    assert shown(client, pat) == before


def test_audit_hides_secrets_of_non_entities(client: Client, pat: dict[str, str]) -> None:
    body = {"protocol": "HTTP", "sink": ELSEWHERE}
    created = client.send("POST", "/subscriptions", json=body, headers=pat)
    path = f"/subscriptions/{created.json()['id']}"
    client.put(path, body, headers=pat)
    client.send("DELETE", path, headers=pat)
    client.put("/access", POLICY, headers=pat)
    token = client.send("POST", "/access/tokens", json={"subject": "sam"}, headers=pat)
    token_path = f"/access/tokens/{token.json()['id']}"
    client.send("DELETE", token_path, headers=pat)
    assert token.json()["token"] not in json.dumps(shown(client, pat))
    ends = f"for sam, expires {token.json()['expires']}"
    assert [entry["about"] for entry in shown(client, pat)[:2]] == [f"revoked, {ends}", f"made {ends}"]
    assert told(client, pat)[:6] == [
        *[("pat", "administer", [token_path])] * 2,
        ("pat", "administer", ["/access"]),
        *[("pat", "subscribe", [path])] * 3,
    ]
    assert "swordfish" not in json.dumps(shown(client, pat))


def test_writes_of_the_program_are_audited_under_a_policy(
    store: Store, serve: Serve, client: Client, pat: dict[str, str]
) -> None:
    """Examples are `signalbook import --db`, replication from another registry, and pipeline reports."""

    def write(name: str, **settings: Any) -> None:
        with Engine(store, settings=Settings(**settings)).writing() as session:
            target = Xid.parse(f"/dirs/{name}")
            session.execute(Command(method=Method.PUT, target=target, body={"text": "swordfish"}))

    write("a")
    write("b", access="open")
    write("c", audit="off")
    sent = [client.send("POST", "/pipelines/p/reports", json=report("swordfish"), headers=pat) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 200], sent[0].text
    assert told(client, pat)[:2] == [
        ("pat", "report", ["/pipelines/p/reports/1"]),
        ("(signalbook)", "create", ["/dirs/a"]),
    ]
    assert "swordfish" not in json.dumps(shown(client, pat))


def test_refusals_are_recorded_soon(client: Client, pat: dict[str, str], sam: dict[str, str]) -> None:
    wrong = {"Authorization": "Bearer sbk_swordfish_swordfish"}
    for _ in range(3):
        assert client.send("DELETE", "/dirs/d", headers=sam).status_code == 403
    assert client.get("/", headers=wrong).status_code == 401
    assert client.get("/audit", headers=sam).status_code == 403
    assert client.get("/audit").status_code == 401
    refused = recorded(client, pat)
    assert {(entry["who"], entry["action"], entry["error"], entry["count"]) for entry in refused} == {
        ("sam", "delete", "403 Forbidden", 3),
        ("sam", "audit", "403 Forbidden", 1),
        ("anonymous", "login", f"401 Unauthorized: {CLOSED}", 1),
        ("anonymous", "login", f"401 Unauthorized: {MISTYPED}", 1),
    }
    assert sorted(entry["api"] for entry in refused) == ["audit", "audit", "xregistry", "xregistry"]
    assert next(entry for entry in refused if entry["action"] == "delete")["xids"] == ["/dirs/d"]
    assert "swordfish" not in json.dumps(refused)


def test_use_of_a_revoked_token_is_audited(client: Client, pat: dict[str, str]) -> None:
    token = client.send("POST", "/access/tokens", json={"subject": "sam", "scopes": ["read"]}, headers=pat).json()
    path, token_headers = f"/access/tokens/{token['id']}", {"Authorization": f"Bearer {token['token']}"}
    client.send("DELETE", path, headers=pat)
    assert client.get("/", headers=token_headers).status_code == 401
    refused = recorded(client, pat)
    assert [(entry["who"], entry["xids"]) for entry in refused] == [("anonymous", [path])]
    assert "unknown or revoked" in refused[0]["error"]
    assert token["token"] not in json.dumps(refused)


def test_an_auditor_reads_the_audit_alone(client: Client, pat: dict[str, str], sam: dict[str, str]) -> None:
    """An auditor of administrators need not be an administrator."""
    rules = [*POLICY["rules"], {"who": ["subject:sam"], "role": "auditor"}]
    assert client.put("/access", {"rules": rules}, headers=pat).is_success
    assert client.get("/audit", headers=sam).is_success
    assert client.get("/access", headers=sam).status_code == 403
    assert client.send("POST", "/access/tokens", json={"subject": "sam"}, headers=sam).status_code == 403


def test_pages_and_filters(client: Client, pat: dict[str, str]) -> None:
    for number in range(5):
        client.put(f"/dirs/d{number}", {}, headers=pat)
    pages = client.pages("/audit?who=pat&limit=2", headers=pat)
    xids = [entry["xids"] for page in pages for entry in page.json()]
    assert xids == [[f"/dirs/d{number}"] for number in (4, 3, 2, 1, 0)]
    entries = shown(client, pat)
    assert told(client, pat, "?xid=/DIRS/d3") == [("pat", "create", ["/dirs/d3"])]
    assert told(client, pat, "?action=administer") == [("anonymous", "administer", ["/access"])]
    assert shown(client, pat, f"?after={entries[1]['number']}") == entries[:1]
    times = [entry["time"] for entry in entries]
    assert shown(client, pat, f"?from={times[2]}&to={times[0]}") == entries[1:3]
    assert shown(client, pat, "?outcome=refused") == []


@pytest.mark.parametrize(
    "query", ["limit=0", "cursor=x", "from=yesterday", "outcome=maybe", "nobody=1", "after=-1", "who=" + "x" * 1001]
)
def test_wrong_questions(client: Client, pat: dict[str, str], query: str) -> None:
    assert client.get(f"/audit?{query}", headers=pat).status_code == 400


def test_audit_is_empty_without_access_control(store: Store, serve: Serve) -> None:
    client = serve(store)
    client.send("PATCH", "/", json={"name": "n"})
    assert client.get("/audit").json() == []


@pytest.mark.parametrize(("audit", "expected"), [("on", ["update"]), ("off", [])])
def test_operator_can_enable_and_disable_auditing(store: Store, serve: Serve, audit: str, expected: list[str]) -> None:
    client = serve(store, audit=audit)
    client.send("PATCH", "/", json={"name": "n"})
    assert [entry["action"] for entry in client.get("/audit").json()] == expected


def test_a_caller_is_held_to_his_limits(store: Store, serve: Serve, pat: dict[str, str], sam: dict[str, str]) -> None:
    client = closed(serve(store, limit_writes=1, limit_requests=2))
    answers = [client.put("/dirs/d", {"n": number}, headers=pat) for number in range(15)]
    assert {answer.status_code for answer in answers[:10]} == {200, 201}
    last = answers[-1]
    assert (last.status_code, last.headers["Retry-After"]) == (429, "1")
    assert "limit_writes" in last.json()["detail"]
    draft = client.put("/compat/schemaregistry/v0.2/schemagroups/g", {}, headers=pat)
    assert (draft.status_code, draft.headers["Content-Type"]) == (429, "application/problem+json")
    assert draft.headers["Retry-After"] == "1"
    assert client.get("/dirs/d", headers=pat).status_code == 200
    assert [client.get("/dirs/d", headers=pat).status_code for _ in range(20)][-1] == 429
    assert client.get("/dirs/d", headers=sam).status_code == 200
    assert client.get("/health/live").status_code == 200
    refused = [(entry["error"], entry["count"]) for entry in recorded(client, bearer(store, "pat"))]
    assert ("429 Too Many Requests: writes", 5) in refused


def test_quotas_hold_in_every_api(store: Store, serve: Serve, pat: dict[str, str]) -> None:
    client = serve(store, model="default", max_group_versions=2, max_group_bytes=40)
    assert client.put("/access", POLICY).status_code == 201
    before = samples(client.get("/metrics", headers=pat).content)
    draft, catalog = "/compat/schemaregistry/v0.2", "/compat/messagecatalog/v0.1/messagecatalog"
    schema = {"schema": {"type": "string"}, "format": "JsonSchema/draft-07"}
    client.put("/schemagroups/g/schemas/one/versions/1$details", schema, headers=pat)
    client.put("/schemagroups/g/schemas/one/versions/2$details", schema, headers=pat)
    assert client.put(f"{catalog}/g", {"specversion": "0.1", "format": "CloudEvents"}, headers=pat).is_success
    events = [{"id": event_id, "definition": {"attributes": {"type": {"value": event_id}}}} for event_id in "abc"]
    posted = [client.send("POST", f"{catalog}/g/messagedefinitions", json=event_id, headers=pat) for event_id in events]
    assert [answer.status_code for answer in posted[:2]] == [200, 200]
    whole = {"schemagroups": {"g": {"schemas": {"two": schema}}, "new": {}}}
    sent = {"headers": {**pat, "Content-Type": "application/schema+json"}, "content": '{"type": "integer"}'}
    answers = {
        "versions": client.put("/schemagroups/g/schemas/one/versions/3$details", schema, headers=pat),
        "tree": client.send("POST", "/", json=whole, headers=pat),
        "bytes": client.put("/schemagroups/g/schemas/one/versions/1$details", LONG, headers=pat),
        "draft": client.send("POST", f"{draft}/schemagroups/g/schemas/s?format=JsonSchema/draft-07", **sent),
        "catalog": posted[2],
    }
    for name, answer in answers.items():
        assert (answer.status_code, "would exceed its limit" in answer.text) == (400, True), (name, answer.text)
        assert "swordfish" not in answer.text
    assert client.get("/schemagroups/new", headers=pat).status_code == 404
    # Trying is no refusal.
    tried = client.put("/check/schemagroups/g/schemas/one/versions/3$details", schema, headers=pat)
    assert "max_group_versions" in tried.text
    after = samples(client.get("/metrics", headers=pat).content)
    counted = ("signalbook_refused_requests_total", ("quota",))
    assert after[counted] - before.get(counted, 0) == len(answers)
    refused = recorded(client, pat)
    assert sum(entry["count"] for entry in refused) == len(answers)
    assert {entry["error"] for entry in refused} == {"400 Bad Request: quota"}
    assert {xid for entry in refused for xid in entry["xids"]} == {"/schemagroups/g", "/messagegroups/g"}


def test_guessed_tokens_cost_ever_longer_waits(store: Store, serve: Serve, pat: dict[str, str]) -> None:
    client = closed(serve(store, limit_logins=3))
    codes = [
        client.get("/", headers={"Authorization": f"Bearer sbk_guess_{number}"}).status_code for number in range(6)
    ]
    assert codes == [401, 401, 401, 401, 429, 429]
    # Nobody who has the right ones is kept out by others who guess, be it for the first time.
    assert client.get("/", headers=pat).status_code == 200


PAGE = {"Origin": "https://evil.example"}


def test_pages_and_names_that_are_refused_are_counted_and_recorded(
    store: Store, serve: Serve, pat: dict[str, str]
) -> None:
    client = closed(serve(store, host="127.0.0.1", allow_hosts=("r.example",)))

    def counted() -> list[float]:
        metrics = samples(client.get("/metrics", headers=pat).content)
        return [
            metrics.get(("signalbook_refused_requests_total", (error_name,)), 0) for error_name in ("host", "origin")
        ]

    before = counted()
    for number in range(20):
        assert client.put(f"/dirs/d{number}?swordfish", {}, headers={**pat, **PAGE}).status_code == 403
        assert client.get(f"/dirs/d{number}", headers={**pat, "Host": "evil.example"}).status_code == 421
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [20, 20]
    metrics = {entry["error"]: entry for entry in recorded(client, pat)}
    assert metrics.keys() == {"421 Misdirected Request: host", "403 Forbidden: origin"}
    for entry, method in ((metrics["421 Misdirected Request: host"], "GET"), (metrics["403 Forbidden: origin"], "PUT")):
        assert (entry["who"], entry["action"], entry["count"]) == ("anonymous", "request", 20)
        assert (entry["peer"], entry["api"], entry["method"]) == ("127.0.0.1", "xregistry", method)
        assert "evil" not in str(entry)
        assert "swordfish" not in str(entry)


@pytest.mark.parametrize(("options", "entries"), [({}, 0), ({"audit": "on"}, 1), ({"audit": "off"}, 0)])
def test_refused_pages_are_audited_like_writes_without_a_policy(
    store: Store, serve: Serve, options: dict[str, str], entries: int
) -> None:
    client = serve(store, **options)
    assert client.put("/dirs/d", {}, headers=PAGE).status_code == 403
    assert len(recorded(client, {})) == entries
