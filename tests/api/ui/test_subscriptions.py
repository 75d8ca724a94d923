"""Subscriptions for people: where events go and how that goes, without secrets; and where copies come from."""

from signalbook.api.ui.subscriptions import _list_peers
from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy
from .conftest import show
from .test_pages import harmless

SINK = "https://93.184.215.14/hook?token=hush"
"""A public address, which nobody here connects to."""


def subscribe(client: Client, sink: str = SINK, **sent: dict[str, str]) -> str:
    body = {
        "sink": sink,
        "protocol": "HTTP",
        "types": ["io.xregistry.version.created"],
        "sinkcredential": {"credentialtype": "PLAIN", "identifier": "me", "secret": "hush"},
    }
    answer = client.send("POST", "/subscriptions", json=body, **sent)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_subscriptions_show_sinks_without_secrets(store: Store, serve: Serve) -> None:
    client = serve(store, model="default")
    subscribe(client)
    page = show(client, "/-/subscriptions")
    harmless(page)
    assert "https://93.184.215.14/hook active 0 0 none yet io.xregistry.version.created" in page.words("table")
    assert "hush" not in page.text
    assert page.headers["cache-control"] == "no-store"


def test_subscriptions_of_others_are_hidden(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", **PROXIED)
    put_policy(
        store,
        {"who": ["subject:ann", "subject:bob"], "allow": ["subscribe", "read", "list"]},
        {"who": ["subject:eve"], "role": "reader", "on": ["/messagegroups/*"]},
    )
    subscribe(client, "https://93.184.215.14/anns", headers={"X-User": "ann"})
    assert "anns" in show(client, "/-/subscriptions", headers={"X-User": "ann"}).text
    assert "anns" in show(client, "/-/subscriptions", headers=ADMINISTRATOR).text
    assert "anns" not in show(client, "/-/subscriptions", headers={"X-User": "bob"}).text
    assert show(client, "/-/subscriptions", headers={"X-User": "eve"}).status == 403
    assert show(client, "/-/subscriptions?after=%00", headers=ADMINISTRATOR).status == 400


def test_replication_page_shows_copies_and_errors() -> None:
    status = {
        "follows": True,
        "sources": {
            "https://me:hush@a.example/r?x=hush": {"created": {"resources": 2, "versions": 3}, "skippedcount": 0},
            "https://b.example": {"error": "no answer", "since": "2030-01-01T00:00:00Z"},
        },
    }
    first, second = _list_peers(status)
    assert (first.url, first.direction, first.done) == ("https://a.example/r", "source", "created 5")
    assert (second.error, second.since and second.since.text) == ("no answer", "2030-01-01 00:00")
