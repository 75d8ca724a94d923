"""Who sees and changes what by Confluent's API: the policy of the registry decides, by the xids of schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

from signalbook.storage.store import Store

API = "/compat/confluent"
ANN = {"X-User": "ann"}
SCHEMAS = "/schemagroups/default/schemas"
ONE, TWO = (json.dumps({"type": "enum", "name": "E", "symbols": symbols}) for symbols in (["A"], ["A", "B"]))


def rule(*allow: str, on: str) -> dict[str, Any]:
    return {"who": ["subject:ann"], "allow": list(allow), "on": [on]}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    client = serve(store, model="default", **PROXIED)
    for subject in ("open", "secret", "gone"):
        assert client.send("POST", f"{API}/subjects/{subject}/versions", json={"schema": ONE}).is_success
    assert client.send("DELETE", f"{API}/subjects/gone").is_success
    assert client.send("PUT", f"{API}/config/secret", json={"compatibility": "NONE"}).is_success
    put_policy(store, rule("read", on="/schemagroups/default"))
    return client


def refused(client: Client, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, int]:
    found = client.send(method, API + path, headers=headers, **({"json": body} if body is not None else {}))
    return found.status_code, found.json()["error_code"]


def test_anonymous_is_asked_who_he_is(client: Client) -> None:
    assert refused(client, "GET", "/subjects/open/versions") == (401, 401)
    assert refused(client, "POST", "/subjects/open/versions", {"schema": ONE}) == (401, 401)


def test_what_may_not_be_read_is_not_there(client: Client, store: Store) -> None:
    put_policy(store, rule("read", on=f"{SCHEMAS}/open"))
    assert client.get(f"{API}/subjects?deleted=true", headers=ANN).json() == ["open"]
    for query, found in (("", ["open"]), ("?limit=1", ["open"]), ("?offset=1", []), ("?subjectPrefix=s", [])):
        assert client.get(f"{API}/subjects{query}", headers=ANN).json() == found
    assert refused(client, "GET", "/subjects/secret/versions", **ANN) == (404, 40401)
    assert refused(client, "GET", "/subjects/gone/versions?deleted=true", **ANN) == (404, 40401)
    assert refused(client, "GET", "/config/secret", **ANN) == (404, 40408)
    shown = client.get(f"{API}/schemas/ids/1/versions?deleted=true", headers=ANN).json()
    assert shown == [{"subject": "open", "version": 1}]


def test_who_reads_does_not_write(client: Client, store: Store) -> None:
    put_policy(store, rule("read", on="/schemagroups/default"))
    for schema in (ONE, TWO):
        assert refused(client, "POST", "/subjects/open/versions", {"schema": schema}, **ANN) == (403, 403)
    assert refused(client, "DELETE", "/subjects/open", **ANN) == (403, 403)
    for path in ("/config/open", "/config"):
        assert refused(client, "PUT", path, {"compatibility": "NONE"}, **ANN) == (403, 403)
    assert refused(client, "PUT", "/mode", {"mode": "READONLY"}, **ANN) == (403, 403)
    assert client.get(f"{API}/subjects/open/versions", headers=ANN).json() == [1]


def test_who_writes_one_subject(client: Client, store: Store) -> None:
    put_policy(store, rule("read", "create", "update", "delete", on=f"{SCHEMAS}/open"))
    assert (
        client.send("POST", f"{API}/subjects/open/versions", json={"schema": TWO}, headers=ANN).json()["version"] == 2
    )
    assert client.send("DELETE", f"{API}/subjects/open", headers=ANN).json() == [1, 2]
    assert refused(client, "POST", "/subjects/secret/versions", {"schema": ONE}, **ANN) == (403, 403)
    assert client.get(f"{API}/subjects", headers=ADMINISTRATOR).json() == ["secret"]


def test_modes_of_subjects_are_taken_away_by_who_may_write_them(client: Client, store: Store) -> None:
    """DELETE /mode with recursive takes nothing away from who may not set it."""
    for scope in ("open", "secret", ":.dev:t"):
        assert client.send("PUT", f"{API}/mode/{scope}", json={"mode": "READONLY"}, headers=ADMINISTRATOR).is_success
    put_policy(
        store,
        rule("read", "update", on="/"),
        {"who": ["subject:ann"], "deny": ["update"], "on": [f"{SCHEMAS}/secret"]},
    )
    assert refused(client, "DELETE", "/mode?recursive=true", **ANN) == (403, 403)
    for scope in ("open", "secret", ":.dev:t"):
        assert client.get(f"{API}/mode/{scope}", headers=ADMINISTRATOR).json() == {"mode": "READONLY"}
    put_policy(store, rule("read", "update", on="/"))
    assert client.send("DELETE", f"{API}/mode?recursive=true", headers=ANN).is_success
    assert refused(client, "GET", "/mode/secret", **ANN) == (404, 40409)


def test_who_may_not_write_a_context_leaves_what_is_set_for_it(client: Client, store: Store) -> None:
    """DELETE /contexts of one without subjects, which is no more than its settings."""
    assert client.send("PUT", f"{API}/mode/:.dev:", json={"mode": "READONLY"}, headers=ADMINISTRATOR).is_success
    put_policy(store, rule("read", on="/"))
    assert refused(client, "DELETE", "/contexts/.dev", **ANN) == (403, 403)
    assert client.get(f"{API}/mode/:.dev:", headers=ADMINISTRATOR).json() == {"mode": "READONLY"}
