"""Web hooks agree to deliveries by calling back."""

import hashlib
import hmac
from typing import Any

import pytest

from signalbook.storage.store import Store

from .conftest import Client, Serve

SINK = "https://sink.example.com/hook"


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    with store.write() as writer:
        writer.settings.put("delivery/consents", "ab" * 32)
    return serve(store, base_url="https://r.example")


def subscribe(client: Client, **settings: Any) -> tuple[str, str]:
    """The path of a new subscription's consent, and the key to it."""
    response = client.send(
        "POST", "/subscriptions", json={"protocol": "HTTP", "sink": SINK, "protocolsettings": settings}
    )
    assert response.status_code == 201, response.text
    made_id = response.json()["id"]
    key = hmac.new(bytes.fromhex("ab" * 32), f"{made_id}\n{SINK}".encode(), hashlib.sha256).hexdigest()
    return f"/subscriptions/{made_id}/consent", key


def given(store: Store, path: str) -> Any:
    with store.read() as reader:
        consent = reader.subscriptions.consent(path.split("/")[2])
        return consent and {"sink": consent.sink, "rate": consent.rate}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_both_methods_agree(client: Client, store: Store, method: str) -> None:
    """POST is sent by the sink, GET by a person with a browser (D-34)."""
    path, key = subscribe(client)
    answer = client.send(method, f"{path}?key={key}")
    assert (answer.status_code, answer.text) == (200, "Thank you. Events will be delivered from now on.\n")
    assert given(store, path) == {"sink": SINK, "rate": None}


@pytest.mark.parametrize(
    ("header", "rate"), [({}, 60), ({"WebHook-Allowed-Rate": "30"}, 30), ({"WebHook-Allowed-Rate": "*"}, None)]
)
def test_rate_is_the_allowed_or_the_requested_rate(
    client: Client, store: Store, header: dict[str, str], rate: int | None
) -> None:
    """The rate of the header is used, or else the requested rate (D-34)."""
    path, key = subscribe(client, rate=60)
    assert client.send("POST", f"{path}?key={key}", headers=header).status_code == 200
    assert given(store, path)["rate"] == rate


@pytest.mark.parametrize("query", ["", "?key=", "?key=é", "?key=" + "0" * 64, "?key=" + "0" * 10_000])
def test_wrong_key_reveals_nothing(client: Client, store: Store, query: str) -> None:
    path, _ = subscribe(client)
    unknown = client.get(f"/subscriptions/none/consent{query}")
    existing = client.get(path + query)
    assert (existing.status_code, unknown.status_code) == (404, 404)
    assert existing.json()["type"] == unknown.json()["type"]
    assert given(store, path) is None


def test_a_key_is_for_one_subscription(client: Client, store: Store) -> None:
    (path, _), (_, other) = subscribe(client), subscribe(client)
    assert client.get(f"{path}?key={other}").status_code == 404


def test_invalid_rate_is_rejected(client: Client, store: Store) -> None:
    path, key = subscribe(client)
    answer = client.send("POST", f"{path}?key={key}", headers={"WebHook-Allowed-Rate": "fast"})
    assert (answer.status_code, given(store, path)) == (400, None)


def test_methods(client: Client) -> None:
    path, key = subscribe(client)
    assert client.send("OPTIONS", path).headers["Allow"] == "GET, POST, OPTIONS"
    answer = client.send("DELETE", f"{path}?key={key}")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, POST, OPTIONS")
