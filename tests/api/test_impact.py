"""``GET /impact``, on each database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.test_pipelines import report

from signalbook.storage.store import Store

from .conftest import ADMINISTRATOR, PROXIED, put_policy

if TYPE_CHECKING:
    from tests.api.conftest import Client, Serve

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
