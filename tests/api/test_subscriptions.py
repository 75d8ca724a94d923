"""The CloudEvents Subscriptions API over HTTP (subscriptions/spec.md; D-25 to D-32), on each database."""

import json
import logging
import re
from typing import Any

import httpx
import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

from signalbook.events.dialects import API_PATHS
from signalbook.events.subscriptions.documents import OLD_TYPE
from signalbook.storage.store import Store

SINK = "https://93.184.215.14/hook"
"""A public address, which nobody here connects to."""
WANTED: dict[str, Any] = {
    "source": "http://r.example/",
    "types": ["io.xregistry.resource.created"],
    "filters": [{"prefix": {"subject": "/dirs/d1"}}],
    "sink": SINK,
    "sinkcredential": {"credentialtype": "PLAIN", "identifier": "me", "secret": "correct horse"},
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"X-From": "us"}},
}
OLD: dict[str, Any] = {
    "source": "http://r.example/compat/schemaregistry/v0.2",
    "protocol": "HTTPS",
    "sink": SINK,
    "filter": {"prefix": {"subject": "/schemagroups/5"}},
}


def create(client: Client, **changes: Any) -> dict[str, Any]:
    body = {name: value for name, value in {**WANTED, **changes}.items() if value is not None}
    answer = client.send("POST", "/subscriptions", json=body)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


def faults(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert body["type"].endswith("#bad_request")
    return {fault["path"]: fault["message"] for fault in body["faults"]}


def refused(client: Client, body: Any) -> dict[str, str]:
    messages = faults(client.send("POST", "/subscriptions", json=body))
    assert client.get("/subscriptions").json() == []
    return messages


def test_create(client: Client) -> None:
    """The response is 201 with a Location and the object, without the secret (D-25, D-28, D-31, D-32)."""
    answer = client.send("POST", "/subscriptions", json={**WANTED, "id": "mine"})
    created = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"http://r.example/subscriptions/{created['id']}"
    assert created["id"] != "mine"
    assert "status" in created
    expected = {**WANTED, "sinkcredential": {"credentialtype": "PLAIN", "identifier": "me"}}
    expected["protocolsettings"] = {"headers": {"X-From": "***"}}
    assert {name: value for name, value in created.items() if name not in ("id", "status")} == expected
    assert "horse" not in answer.text


def test_retrieve(client: Client) -> None:
    """D-31, D-32"""
    created = create(client)
    answer = client.get(f"/subscriptions/{created['id']}")
    assert (answer.status_code, answer.json()) == (200, created)
    assert answer.headers["Cache-Control"] == "no-store"
    head = client.send("HEAD", f"/subscriptions/{created['id']}/")
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", answer.headers["ETag"])


def test_query(client: Client) -> None:
    """The response is an array (D-32)."""
    assert client.get("/subscriptions").json() == []
    created = [create(client, sink=f"{SINK}/{number}") for number in range(3)]
    assert client.get("/subscriptions").json() == created
    assert client.get("/subscriptions/").json() == created


def test_pages(client: Client) -> None:
    ids = [create(client, sink=f"{SINK}/{number}")["id"] for number in range(5)]
    pages = client.pages("/subscriptions?limit=2")
    assert [[member["id"] for member in page.json()] for page in pages] == [ids[:2], ids[2:4], ids[4:]]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=x", "limit=-1", "limit=1e3", "limit=", "cursor=x", "cursor=%00",
        pytest.param(f"limit={'0' * 5000}1", id="more digits than int takes"),
    ],
)  # fmt: skip
def test_bad_pages(client: Client, query: str) -> None:
    client.refused("GET", f"/subscriptions?{query}", "bad_request")


def test_update_changes_all_but_the_id(client: Client) -> None:
    """D-28, D-32"""
    created = create(client)
    assert list(faults(client.put(f"/subscriptions/{created['id']}", {**created, "id": "0" * 28}))) == ["/id"]
    replacement = {"protocol": "HTTP", "sink": f"{SINK}/other"}
    answer = client.put(f"/subscriptions/{created['id']}", {**replacement, "id": created["id"]})
    assert answer.status_code == 200
    now = answer.json()
    assert {name: value for name, value in now.items() if name != "status"} == {**replacement, "id": created["id"]}
    assert client.get(f"/subscriptions/{created['id']}").json() == now


@pytest.mark.parametrize(
    "sink",
    [
        {},
        {"sink": "amqps://93.184.215.14", "protocol": "AMQP", "protocolsettings": {"address": "a"}},
        {"sink": "tls://93.184.215.14", "protocol": "NATS", "protocolsettings": {"subject": "a"}},
        {"sink": "file:a", "protocol": "FILE", "protocolsettings": {}, "sinkcredential": None},
    ],
)
def test_shown_subscription_can_be_sent_back(store: Store, serve: Serve, sink: dict[str, Any]) -> None:
    """The missing secret is kept, for every protocol (D-31)."""
    client = serve(store, sink_folder="sinks")
    created = create(client, **sink)
    answer = client.put(f"/subscriptions/{created['id']}", created)
    assert (answer.status_code, answer.json()) == (200, created)


@pytest.mark.parametrize(
    "change",
    [
        {"sink": "https://93.184.215.15/evil"},
        {"protocol": "KAFKA", "sink": "kafkas://93.184.215.14", "protocolsettings": {"topicname": "t"}},
        {"sinkcredential": {"credentialtype": "ACCESSTOKEN"}},
    ],
)
def test_secret_is_not_sent_to_another_sink(client: Client, change: dict[str, Any]) -> None:
    """A caller who may update a subscription cannot read its password (D-31)."""
    created = create(client)
    messages = faults(client.put(f"/subscriptions/{created['id']}", {**created, **change}))
    assert all(path.startswith(("/sinkcredential/", "/protocolsettings/headers/")) for path in messages)
    assert all(re.search("required, and again|stands for a value", message) for message in messages.values())
    assert client.get(f"/subscriptions/{created['id']}").json() == created


def test_delete(client: Client) -> None:
    """The response is 200 with the deleted subscription (D-32)."""
    created = create(client)
    answer = client.send("DELETE", f"/subscriptions/{created['id']}")
    assert (answer.status_code, answer.json()) == (200, created)
    assert client.get("/subscriptions").json() == []
    client.refused("DELETE", f"/subscriptions/{created['id']}", "not_found")


@pytest.mark.parametrize("id", ["0" * 28, "x", "%00", "%F0%9F%98%80", "..", "a" * 5000, "%2F"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_unknown_subscription_is_not_found(client: Client, method: str, id: str) -> None:
    """D-32"""
    answer = client.send(method, f"/subscriptions/{id}", json=WANTED if method == "PUT" else None)
    assert answer.status_code == 404 or id in ("..", "%2F")
    assert answer.status_code < 500


@pytest.mark.parametrize(
    ("path", "allow"),
    [("/subscriptions", "GET, HEAD, POST, OPTIONS"), ("/subscriptions/x", "GET, HEAD, PUT, DELETE, OPTIONS")],
)
def test_options(client: Client, path: str, allow: str) -> None:
    """Both paths have the header Allow (D-32)."""
    answer = client.send("OPTIONS", path)
    assert (answer.status_code, answer.headers["Allow"]) == (200, allow)
    refused = client.send("PATCH", path, json={})
    assert (refused.status_code, refused.headers["Allow"]) == (405, allow)


def test_conditions(client: Client) -> None:
    created = create(client)
    path = f"/subscriptions/{created['id']}"
    first = client.get(path).headers["ETag"]
    second = client.put(path, {**created, "types": []}, headers={"If-Match": first}).headers["ETag"]
    assert second == client.get(path).headers["ETag"] != first
    for method in ("PUT", "DELETE"):
        assert client.send(method, path, json=created, headers={"If-Match": first}).status_code == 412
    assert client.send("DELETE", path, headers={"If-Match": second}).status_code == 200


def test_a_new_secret_is_another_subscription(client: Client) -> None:
    """Two who update at the same time must not both win, although nothing of it is shown."""
    created = create(client)
    path = f"/subscriptions/{created['id']}"
    before = client.get(path).headers["ETag"]
    credential = {"credentialtype": "PLAIN", "identifier": "me", "secret": "other"}
    client.put(path, {**created, "sinkcredential": credential})
    assert client.get(path).headers["ETag"] != before


def test_the_older_form(client: Client) -> None:
    """The request is the one printed in the drafts (D-26)."""
    answer = client.send("POST", "/subscriptions", content=json.dumps(OLD), headers={"Content-Type": OLD_TYPE})
    assert (answer.status_code, answer.headers["Content-Type"]) == (201, OLD_TYPE)
    created = answer.json()
    assert {name: value for name, value in created.items() if name not in ("id", "status")} == OLD
    now = client.get(f"/subscriptions/{created['id']}")
    assert now.headers["Content-Type"].startswith("application/json")
    assert (now.json()["protocol"], now.json()["filters"]) == ("HTTP", [OLD["filter"]])
    assert client.get(f"/subscriptions/{created['id']}", headers={"Accept": OLD_TYPE}).json() == created
    assert client.get("/subscriptions", headers={"Accept": OLD_TYPE}).json() == [created]


@pytest.mark.parametrize("mount", API_PATHS)
def test_each_draft_serves_the_subscriptions(client: Client, mount: str) -> None:
    """The same subscriptions are available below the mount of each API, with the responses of the root (D-25, D-26)."""
    sent = {"content": json.dumps(OLD), "headers": {"Content-Type": OLD_TYPE}}
    answers = [client.send("POST", f"{where}/subscriptions", **sent) for where in ("", mount)]
    for answer in answers:
        created = answer.json()
        assert (answer.status_code, answer.headers["Content-Type"]) == (201, OLD_TYPE)
        assert answer.headers["Location"] == f"http://r.example/subscriptions/{created['id']}"
        assert {name: value for name, value in created.items() if name not in ("id", "status")} == OLD
    assert client.get(f"{mount}/subscriptions/").json() == client.get("/subscriptions").json()
    own_path = f"/subscriptions/{answers[0].json()['id']}"
    assert client.get(f"{mount}{own_path}").json() == client.get(own_path).json()
    for path in (f"{mount}/subscriptions", f"{mount}{own_path}"):
        allowed = [client.send("OPTIONS", url).headers["Allow"] for url in (path, path.removeprefix(mount))]
        assert allowed[0] == allowed[1]
    assert client.send("DELETE", f"{mount}{own_path}").is_success
    assert client.get(own_path).status_code == 404
    assert client.send("POST", f"{mount}/subscriptions", json={"protocol": "HTTP"}).status_code == 400


def test_either_form_in_either_media_type(client: Client) -> None:
    """Either form is accepted in either media type (D-26)."""
    assert client.send("POST", "/subscriptions", json=OLD).json()["filters"] == [OLD["filter"]]
    both = {"Content-Type": f"{OLD_TYPE}; charset=utf-8", "Accept": "application/json"}
    answer = client.send("POST", "/subscriptions", content=json.dumps(WANTED), headers=both)
    assert answer.json()["filters"] == WANTED["filters"]


def test_every_fault_is_reported(client: Client) -> None:
    body = {
        "source": "http://elsewhere.example/",
        "types": ["", 1],
        "filters": [{"exact": {"type": ""}}, {"sql": "1 +"}, {"exact": {"type": "a"}}, {"like": {}}],
        "config": {"interval": 5, "after": -1},
        "sinkcredential": {"credentialtype": "PLAIN", "accesstoken": "hush"},
        "retries": 3,
    }
    messages = refused(client, body)
    assert " ".join(sorted(messages)) == (
        "/config/after /config/interval /filters/0/exact/type /filters/1/sql /filters/3/like /protocol /retries /sink "
        "/sinkcredential/accesstoken /sinkcredential/identifier /source /types/0 /types/1"
    )
    assert "hush" not in repr(messages)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"protocol": "SMTP"}, "/protocol"),
        ({"protocol": 1}, "/protocol"),
        ({"sink": ""}, "/sink"),
        ({"sink": "https://10.0.0.8/"}, "/sink"),
        ({"sink": "https://localhost/"}, "/sink"),
        ({"sinkcredential": {"credentialtype": "PLAIN", "identifier": "me"}}, "/sinkcredential/secret"),
        ({"sinkcredential": {"credentialtype": "ACCESSTOKEN"}}, "/sinkcredential/accesstoken"),
        ({"sinkcredential": "secret"}, "/sinkcredential"),
        ({"protocolsettings": {"method": "DELETE"}}, "/protocolsettings/method"),
        ({"protocolsettings": []}, "/protocolsettings"),
        ({"protocol": "NATS", "sink": "tls://93.184.215.14", "protocolsettings": {}}, "/protocolsettings/subject"),
        ({"source": "/compat/nowhere"}, "/source"),
        ({"filters": {"exact": {"type": "a"}}}, "/filters"),
        ({"filter": {"exact": {"type": "a"}}}, "/filter"),
        ({"filters": [{"all": []}]}, "/filters/0/all"),
        ({"config": {"after": "9" * 30}}, "/config/after"),
        ({"config": {"after": True}}, "/config/after"),
        ({"config": {"after": 10**6}}, "/config/after"),
        ({"types": "a"}, "/types"),
        ({"types": ["a"] * 300}, "/types"),
    ],
)
def test_invalid_subscription_is_rejected(client: Client, change: dict[str, Any], path: str) -> None:
    """D-26, D-28, D-29, D-30, D-31. The tests of ``signalbook.events`` have all faults of a member."""
    messages = refused(client, {**WANTED, **change})
    assert any(name.startswith(path) for name in messages), messages


@pytest.mark.parametrize(
    "filter",
    [
        {"exact": {"type": "a"}},
        {"prefix": {"type": "a", "subject": "/b"}},
        {"suffix": {"subject": "/b"}},
        {"all": [{"exact": {"type": "a"}}, {"not": {"exact": {"type": "b"}}}]},
        {"any": [{"sql": "subject LIKE '/a%'"}]},
    ],
)
def test_filters_of_every_dialect_are_accepted(client: Client, filter: dict[str, Any]) -> None:
    """Filters of every dialect are accepted (D-29)."""
    assert create(client, filters=[filter])["filters"] == [filter]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"sink": 1, "sink": 2}', b"[" * 100, b"\xff"])
def test_malformed_subscription_is_rejected(client: Client, body: bytes) -> None:
    answer = client.send("POST", "/subscriptions", content=body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/json; charset=utf-8")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("types", '["a\\u0000b"]'),
        ("types", '["\\ud800"]'),
        ("types", '["\U0001f600"]'),
        ("filters", '[{"exact": {"type": "\\u0000"}}]'),
        ("filters", '[{"sql": "\\u0000"}]'),
        ("protocolsettings", '{"rate": 1e400}'),
        ("protocolsettings", '{"rate": 123456789012345678901234567890}'),
        ("protocolsettings", '{"headers": {"X": "\\u0000"}}'),
        ("protocolsettings", '{"headers": {"X": "a\\r\\nHost: b"}}'),
        ("sink", '"https://\u0131.example/"'),
        ("sink", '"https://[::1/"'),
        ("sink", '"https://93.184.215.14:99999/"'),
        ("sink", '"https://93.184.215.14/\\u0000"'),
        ("source", '"http://r.example\\u0000"'),
        ("config", '{"after": 1.5}'),
        ("sinkcredential", '{"credentialtype": "PLAIN", "identifier": "\\u0000", "secret": "\\u0000"}'),
    ],
)
def test_odd_but_json(client: Client, member: str, value: str) -> None:
    """Taken and shown as it was, or refused: never a failure inside."""
    remaining_members = json.dumps({name: content for name, content in WANTED.items() if name != member})
    answer = client.send("POST", "/subscriptions", content=f'{{"{member}": {value}, {remaining_members[1:]}'.encode())
    assert answer.status_code in (201, 400), answer.text
    if answer.status_code == 201 and member != "sinkcredential":
        assert client.get(f"/subscriptions/{answer.json()['id']}").json()[member] == json.loads(value)


def test_large_bodies_are_not_read(client: Client) -> None:
    answer = client.send("POST", "/subscriptions", content=b" " * 70_000)
    assert (answer.status_code, "larger than" in answer.text) == (400, True)


def test_sinks_allowed_by_the_operator_are_accepted(store: Store, serve: Serve) -> None:
    client = serve(store, allow_sinks=("localhost:9", "10.0.0.0/8"))
    for sink in ("http://localhost:9/", "https://10.1.2.3:4/", "http://10.0.0.1/"):
        create(client, sink=sink)
    refused = client.send("POST", "/subscriptions", json={**WANTED, "sink": "http://localhost:10/"})
    assert "/sink" in faults(refused)


def test_sink_with_an_unknown_host_is_accepted(client: Client) -> None:
    """The name is looked up again with each connection."""
    sink = f"https://{'a' * 64}.example/"
    assert create(client, sink=sink)["sink"] == sink


def test_subscription_limit_holds_for_concurrent_requests(store: Store, serve: Serve) -> None:
    client = serve(store, max_subscriptions=3)
    answers = client.together(*[("POST", "/subscriptions", WANTED)] * 8)
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [400] * 5
    assert len(client.get("/subscriptions").json()) == 3


@pytest.mark.parametrize("name", ["secret", "accesstoken", "refreshtoken", "signingsecret"])
def test_no_secret_is_shown(client: Client, caplog: pytest.LogCaptureFixture, name: str) -> None:
    """The secret is neither in responses nor in the log, wherever the subscription has it (D-31)."""
    caplog.set_level(logging.DEBUG)
    kinds = ("PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "SIGNATURE", "OTHER")
    members = {"identifier": "me", "refreshtokenendpoint": SINK, name: "whsec_correct horse"}
    for kind in kinds:
        for sink in (SINK, "https://10.0.0.1/"):
            credential = {"credentialtype": kind, **members}
            answer = client.send("POST", "/subscriptions", json={**WANTED, "sink": sink, "sinkcredential": credential})
            assert answer.status_code in (201, 400)
            assert "horse" not in answer.text
    assert "horse" not in client.get("/subscriptions").text
    assert "horse" not in caplog.text


def test_subscription_does_not_change_the_registry(client: Client) -> None:
    before = client.get("/events").json()
    created = create(client)
    client.send("DELETE", f"/subscriptions/{created['id']}")
    assert client.get("/events").json() == before


def test_replay(client: Client) -> None:
    """``config.after`` says where to begin, as a number or a text."""
    last = int(client.get("/events").json()[-1]["id"])
    assert create(client)["status"]["position"] == last
    for after in (0, "0"):
        created = create(client, config={"after": after})
        assert (created["config"], created["status"]["position"]) == ({"after": 0}, 0)


def test_callers_see_and_change_their_own_subscriptions(store: Store, serve: Serve) -> None:
    client = serve(store, **PROXIED)
    subscriber = {"who": ["subject:ann", "subject:bob"], "allow": ["read", "subscribe"]}
    before = client.send("POST", "/subscriptions", json=WANTED).json()["id"]
    put_policy(store, subscriber)
    ann, bob = {"X-User": "ann", "X-Groups": "g"}, {"X-User": "bob"}
    ids = [client.send("POST", "/subscriptions", json=WANTED, headers=user).json()["id"] for user in (ann, bob, ann)]

    def listed(user: dict[str, str]) -> list[str]:
        return [
            subscription["id"]
            for page in client.pages("/subscriptions?limit=1", headers=user)
            for subscription in page.json()
        ]

    assert listed(ann) == [ids[0], ids[2]]
    assert listed(bob) == [ids[1]]
    assert listed(ADMINISTRATOR) == [before, *ids]
    missing = client.get(f"/subscriptions/{'0' * 28}", headers=bob).json()
    for method, body in (("GET", None), ("PUT", WANTED), ("DELETE", None)):
        answer = client.send(method, f"/subscriptions/{ids[0]}", json=body, headers=bob)
        assert (answer.status_code, answer.json()["type"]) == (404, missing["type"])
    # Who administers changes it, and it stays its owner's.
    assert client.put(f"/subscriptions/{ids[0]}", WANTED, headers=ADMINISTRATOR).status_code == 200
    assert client.put(f"/subscriptions/{before}", WANTED, headers=ADMINISTRATOR).status_code == 200
    with store.read() as reading:
        owners = {subscription.id: subscription.owner for subscription in reading.subscriptions.page()}
    assert owners[ids[0]] == {"subject": "ann", "groups": ["g"], "issuer": "", "token": "", "scopes": None}
    assert (owners[before] or {})["subject"] == "root"
    put_policy(store)
    assert client.get("/subscriptions", headers=ann).status_code == 403
    assert client.get("/subscriptions").status_code == 401
