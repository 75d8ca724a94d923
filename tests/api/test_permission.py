"""Writes, trials and reports by those who may do some things and not others, on each database."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.conftest import Client, Serve, bearer

from signalbook.api.kernel import admission, requests
from signalbook.storage.store import Store

POLICY = {
    "rules": [
        {"who": ["subject:pat"], "role": "administrator"},
        {"who": ["subject:bob"], "role": "reader", "on": ["/schemagroups/public"]},
        {"who": ["subject:olga"], "role": "owner", "on": ["/schemagroups/public", "/pipelines/public-*"]},
        {"who": ["subject:olga"], "deny": ["read"], "on": ["/schemagroups/*/schemas/secret-*"]},
    ]
}
SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
AVRO_SCHEMA = {"type": "record", "name": "r", "fields": []}
AVRO = {"format": "Avro/1.12.0", "contenttype": "application/avro", "schema": AVRO_SCHEMA}
REPORT = {"batch": "b1"}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A public group with a schema that its owner must not read, and a group that is hidden from all but pat."""
    client = serve(store, model="default")
    for path in ("public/schemas/order", "hidden-CANARY/schemas/s"):
        client.put(f"/schemagroups/{path}$details", SCHEMA)
    client.put("/schemagroups/public/schemas/secret-CANARY$details", AVRO)
    assert client.put("/access", POLICY).status_code == 201
    return client


@pytest.fixture
def bob(store: Store) -> dict[str, str]:
    """The headers of a reader's requests."""
    return bearer(store, "bob")


@pytest.fixture
def olga(store: Store) -> dict[str, str]:
    """The headers of an owner's."""
    return bearer(store, "olga")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/check/modelsource", {"groups": {}}),
        ("PUT", "/check/", {"modelsource": {"groups": {}}}),
        ("PATCH", "/check/", {"modelsource": {"groups": {}}}),
        ("DELETE", "/check/schemagroups/public", None),
        ("DELETE", "/check/schemagroups/public/schemas/order", None),
    ],
)
def test_readers_try_changes_only_of_readable_entities(
    client: Client, bob: dict[str, str], method: str, path: str, body: Any
) -> None:
    """A model that does not fit names all that it does not fit, and a deletion takes the turn of those who write."""
    answer = client.send(method, path, json=body, headers=bob)
    assert answer.status_code == 403, answer.text
    assert "CANARY" not in answer.text


def test_callers_can_try_what_they_can_write(client: Client, bob: dict[str, str]) -> None:
    answer = client.put("/check/schemagroups/public/schemas/order$details", {**SCHEMA, "name": "Order"}, headers=bob)
    assert (answer.status_code, answer.json().get("errors", [])) == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/", {}),
        ("PATCH", "/schemagroups/public", {}),
        ("POST", "/schemagroups/public", {}),
        ("PATCH", "/schemagroups", {"public": {}}),
        ("POST", "/schemagroups", {"public": {}}),
        ("PATCH", "/", {"schemagroups": {"public": {}}}),
    ],
)
def test_a_write_of_nothing_is_a_write(
    client: Client, bob: dict[str, str], pat: dict[str, str], method: str, path: str, body: Any
) -> None:
    before = client.get("/?inline=*", headers=pat).text
    assert client.send(method, path, json=body, headers=bob).status_code == 403
    assert client.get("/?inline=*", headers=pat).text == before


@pytest.mark.parametrize("path", ["", "/public/schemas", "/hidden-CANARY/schemas"])
@pytest.mark.parametrize("body", [b"{}", b"[]", b"1E5"])
def test_a_deletion_of_nothing_is_a_deletion(client: Client, bob: dict[str, str], path: str, body: bytes) -> None:
    """The same holds for callers that can read something, and for those that can read nothing."""
    assert client.send("DELETE", f"/schemagroups{path}", content=body, headers=bob).status_code == 403
    assert client.send("DELETE", f"/schemagroups{path}", content=body).status_code == 401


@pytest.mark.parametrize("method", ["PATCH", "POST", "PUT"])
@pytest.mark.parametrize("below", ["", "/schemas"])
@pytest.mark.parametrize("body", [{}, {"s": {}}, {"schemas": {}}])
def test_hidden_group_is_answered_like_a_missing_one(
    client: Client, bob: dict[str, str], method: str, below: str, body: Any
) -> None:
    hidden, absent = (
        client.send(method, f"/schemagroups/{group}{below}", json=body, headers=bob)
        for group in ("HIDDEN-CANARY", "absent-CANARY")
    )
    assert hidden.status_code == absent.status_code >= 400
    assert hidden.text.replace("HIDDEN", "absent") == absent.text


def test_constraints_apply_to_hidden_entities(client: Client, olga: dict[str, str]) -> None:
    constraints = {"schemas": {"format": {"enum": ["JsonSchema/draft-07"]}}}
    answer = client.send("PATCH", "/schemagroups/public", json={"constraints": constraints}, headers=olga)
    assert answer.status_code >= 400
    assert "CANARY" not in answer.text
    assert client.send("PATCH", "/schemagroups/public", json={"name": "P"}, headers=olga).status_code == 200


@pytest.mark.parametrize("path", ["/access/tokens", "/schemagroups/public"])
def test_token_revoked_during_a_slow_body_is_rejected(
    client: Client, store: Store, pat: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_RECENT", 1e-6)
    monkeypatch.setattr(requests, "_SLOW_BODY_SECONDS", 0.0)
    secret = pat["Authorization"].removeprefix("Bearer ").split("_")[1]

    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"subject": "pat"'
        with store.write() as transaction:
            transaction.tokens.remove(secret)
        await asyncio.sleep(0.01)
        yield b"}"

    method = "POST" if path == "/access/tokens" else "PUT"
    answer = client.send(method, path, content=slowly(), headers={**pat, "Content-Type": "application/json"})
    assert answer.status_code == 401, answer.text


def test_reports_require_rights_on_their_pipeline(client: Client, olga: dict[str, str]) -> None:
    assert client.send("DELETE", "/pipelines/other", headers=olga).status_code == 403
    assert client.get("/pipelines/other", headers=olga).status_code == 403
    assert client.send("POST", "/pipelines/other/reports", json=REPORT, headers=olga).status_code == 403
    assert client.get("/pipelines/public-1", headers=olga).status_code == 404
    assert client.get("/pipelines", headers=olga).json() == []


def test_readiness_details_require_the_right_to_list(client: Client, bob: dict[str, str], pat: dict[str, str]) -> None:
    assert client.get("/health/ready").json() == {"status": "ok"}
    assert client.get("/health/ready", headers=bob).json() == {"status": "ok"}
    assert "deliveries" in client.get("/health/ready", headers=pat).json()
