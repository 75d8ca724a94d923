"""Who sees and changes what by Confluent's API: the policy of the registry decides, by the xids of schemas."""

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
    response = client.send(method, API + path, headers=headers, **({"json": body} if body is not None else {}))
    return response.status_code, response.json()["error_code"]


def test_anonymous_request_is_answered_with_401(client: Client) -> None:
    assert refused(client, "GET", "/subjects/open/versions") == (401, 401)


def test_writer_of_one_subject_can_write_only_this_subject(client: Client, store: Store) -> None:
    put_policy(store, rule("read", "create", "update", "delete", on=f"{SCHEMAS}/open"))
    assert (
        client.send("POST", f"{API}/subjects/open/versions", json={"schema": TWO}, headers=ANN).json()["version"] == 2
    )
    assert client.send("DELETE", f"{API}/subjects/open", headers=ANN).json() == [1, 2]
    assert refused(client, "POST", "/subjects/secret/versions", {"schema": ONE}, **ANN) == (403, 403)
    assert client.get(f"{API}/subjects", headers=ADMINISTRATOR).json() == ["secret"]


def test_recursive_mode_deletion_skips_subjects_without_update_right(client: Client, store: Store) -> None:
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


def test_context_settings_survive_deletion_without_write_right(client: Client, store: Store) -> None:
    """DELETE /contexts of one without subjects, which is no more than its settings."""
    assert client.send("PUT", f"{API}/mode/:.dev:", json={"mode": "READONLY"}, headers=ADMINISTRATOR).is_success
    put_policy(store, rule("read", on="/"))
    assert refused(client, "DELETE", "/contexts/.dev", **ANN) == (403, 403)
    assert client.get(f"{API}/mode/:.dev:", headers=ADMINISTRATOR).json() == {"mode": "READONLY"}
