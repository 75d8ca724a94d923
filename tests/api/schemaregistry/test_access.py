"""Groups that may be listed and not be read (A-8 to A-11)."""

from typing import Any
from urllib.parse import quote

import pytest

from signalbook.storage.store import Store

from ..conftest import ADMINISTRATOR, PROXIED, Client, Serve, put_policy

API = "/compat/schemaregistry/v0.2"
CATALOG = "/compat/messagecatalog/v0.1/messagecatalog"
ANN = {"X-User": "ann"}


def rule(*allow: str, on: str = "/") -> dict[str, Any]:
    return {"who": ["subject:ann"], "allow": list(allow), "on": [on]}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    client = serve(store, model="default", **PROXIED)
    for group in ("open", "secret"):
        assert client.put(f"{API}/schemagroups/{group}", {"id": group}).is_success
        posted = client.send("POST", f"{API}/schemagroups/{group}/schemas/s?format=Avro/1.11", content=b'"string"')
        assert posted.is_success
        assert client.put(f"/messagegroups/{group}", {}).is_success
    return client


BELOW = ("/schemas", "/schemas/s", "/schemas/s/versions", "/schemas/s/versions/1", "/schemas/none")


@pytest.mark.parametrize("rights", [rule("list", on="/schemagroups"), rule("create", on="/schemagroups")])
def test_list_and_create_rights_reveal_only_ids(client: Client, store: Store, rights: dict[str, Any]) -> None:
    put_policy(store, rights, rule("read", on="/schemagroups/open"))
    assert client.get(f"{API}/schemagroups", headers=ANN).json() == ["open", "secret"]
    group = client.get(f"{API}/schemagroups/secret", headers=ANN)
    assert (group.status_code, group.json()) == (200, {"id": "secret"})
    for path in BELOW:
        assert client.get(f"{API}/schemagroups/secret{path}", headers=ANN).status_code == 403
        assert client.get(f"{API}/schemagroups/none{path}", headers=ANN).status_code == 404
    assert client.get(f"{API}/schemagroups/open/schemas/s", headers=ANN).content == b'"string"'
    # In xRegistry, and in the Message Catalog drafts, what may not be read is not there.
    assert list(client.get("/schemagroups", headers=ANN).json()) == ["open"]
    assert client.get("/schemagroups/secret", headers=ANN).status_code == 404
    assert client.get(CATALOG, headers=ANN).json() == []
    assert client.get(f"{CATALOG}/secret", headers=ANN).status_code == 404


def test_reader_of_one_group_does_not_see_others(client: Client, store: Store) -> None:
    put_policy(store, rule("read", on="/schemagroups/open"))
    assert client.get(f"{API}/schemagroups", headers=ANN).json() == ["open"]
    for path in ("", *BELOW):
        assert client.get(f"{API}/schemagroups/secret{path}", headers=ANN).status_code == 404


def test_a_uri_finds_nothing_hidden(client: Client, store: Store) -> None:
    put_policy(store, rule("list", on="/schemagroups"), rule("read", on="/schemagroups/open"))
    for group, status in (("open", 200), ("secret", 404)):
        uri = quote(f"http://r.example{API}/schemagroups/{group}/schemas/s/versions/1", safe="")
        for user, expected in ((ANN, status), (ADMINISTRATOR, 200)):
            assert client.get(f"{API}/schema?uri={uri}", headers=user).status_code == expected


def test_writes_below_a_known_group_are_forbidden(client: Client, store: Store) -> None:
    put_policy(store, rule("create", on="/schemagroups"), rule("read", "create", on="/schemagroups/open"))
    put, post = (("PUT", "secret"), ("PUT", "new")), ("POST", "secret/schemas/t?format=Avro/1.11")
    for method, path in (*put, post, ("DELETE", "secret"), ("DELETE", "new")):
        body = b'{"id": "%s"}' % path.encode() if method == "PUT" else b'"string"'
        headers = {**ANN, "Content-Type": "application/json"}
        sent = client.send(method, f"{API}/schemagroups/{path}", content=body, headers=headers)
        assert sent.status_code == 403, (method, path, sent.text)
