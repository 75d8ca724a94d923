"""API tokens over HTTP, and requests that have them."""

import base64
from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store

DRAFT = "/compat/schemaregistry/schemagroups"
POLICY: dict[str, Any] = {
    "rules": [
        {"who": ["subject:root"], "role": "administrator"},
        {"who": ["group:team"], "role": "owner", "on": ["/dirs"]},
        {"who": ["anyone"], "allow": ["read", "list"], "on": ["/dirs/open"]},
    ]
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def made(client: Client, by: str, **request: Any) -> dict[str, Any]:
    answer = client.send("POST", "/access/tokens", json=request, headers=bearer(by))
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"].endswith(f"/access/tokens/{answer.json()['id']}")
    assert answer.headers["Cache-Control"] == "no-store"
    token: dict[str, Any] = answer.json()
    return token


@pytest.fixture
def root(client: Client, store: Store) -> str:
    """An administrator's token, in a registry with a policy."""
    answer = client.send("POST", "/access/tokens", json={"subject": "root"})  # nobody has said yet who may do what
    assert answer.status_code == 201, answer.text
    assert client.put("/dirs/open", {}).status_code == 201
    with store.write() as transaction:
        transaction.settings.put_config("access", POLICY)
    return str(answer.json()["token"])


def test_token_has_the_rights_of_its_subject_and_groups(client: Client, root: str) -> None:
    team = made(client, root, subject="ci", groups=["team"])
    user = base64.b64encode(f"{team['id']}:{team['token'].rpartition('_')[2]}".encode()).decode()
    for number, headers in enumerate((bearer(team["token"]), {"Authorization": f"Basic {user}"})):
        assert client.put(f"/dirs/d{number}", {}, headers=headers).status_code == 201
        assert client.get("/dirs/d0", headers=headers).status_code == 200
        assert client.send("POST", "/access/tokens", json={"subject": "x"}, headers=headers).status_code == 403
        assert client.get("/access/tokens", headers=headers).status_code == 403
    assert client.get("/dirs/open").status_code == 200
    # What an anonymous caller may not read is not there, or needs credentials.
    assert client.get("/dirs/d0").status_code in (401, 404)
    assert client.get("/access/tokens").status_code in (401, 403)


def test_invalid_credentials_are_answered_with_the_accepted_schemes(client: Client, root: str) -> None:
    for header in (f"Bearer {root}x", "Bearer a.b.c", "Basic !", "Negotiate x", f"Bearer {root[:-1]}"):
        for path in ("/", "/dirs", "/dirs/open", "/access/tokens", "/subscriptions", DRAFT):
            answer = client.get(path, headers={"Authorization": header})
            assert answer.status_code == 401, (path, answer.text)
            schemes = [value.split()[0] for value in answer.headers.get_list("WWW-Authenticate")]
            assert schemes == ["Bearer", "Basic"]
            assert root[20:40] not in answer.text + str(answer.headers)
            assert answer.json()["detail"]


def test_narrowed_administrator_creates_only_narrow_tokens(client: Client, root: str) -> None:
    narrowed = made(client, root, subject="root", scopes=["administer", "read"])["token"]
    for scopes in ({}, {"scopes": None}, {"scopes": ["read", "update"]}):
        request = {"subject": "root", **scopes}
        answer = client.send("POST", "/access/tokens", json=request, headers=bearer(narrowed))
        assert (answer.status_code, "your own token" in answer.text) == (400, True)
    assert made(client, narrowed, subject="root", scopes=["read"])


def test_tokens_are_listed_shown_and_revoked(client: Client, root: str) -> None:
    first = made(client, root, subject="a", note="n")
    second = made(client, root, subject="b")
    listed = client.get("/access/tokens", headers=bearer(root))
    assert {token["subject"] for token in listed.json()} == {"root", "a", "b"}
    assert first["token"].rpartition("_")[2] not in listed.text
    token_shown = client.get(f"/access/tokens/{first['id']}", headers=bearer(root)).json()
    assert token_shown == {name: value for name, value in first.items() if name != "token"}
    assert client.get("/", headers=bearer(second["token"])).status_code in (200, 404)
    assert client.send("DELETE", f"/access/tokens/{second['id']}", headers=bearer(root)).status_code == 204
    assert client.get("/", headers=bearer(second["token"])).status_code == 401
    for method in ("GET", "DELETE"):
        assert client.send(method, f"/access/tokens/{second['id']}", headers=bearer(root)).status_code == 404


@pytest.mark.parametrize("id", ["%00", "a%00b", "x", "%F0%9F%98%80", "a" * 5000])
def test_invalid_token_id_is_not_found(client: Client, root: str, id: str) -> None:
    for method in ("GET", "DELETE"):
        assert client.send(method, f"/access/tokens/{id}", headers=bearer(root)).status_code == 404
    assert client.get(f"/access/tokens?cursor={id}", headers=bearer(root)).status_code == 400


def test_pages(client: Client, root: str) -> None:
    for _ in range(4):
        made(client, root, subject="a")
    pages = client.pages("/access/tokens?limit=2", headers=bearer(root))
    seen = [token["id"] for page in pages for token in page.json()]
    assert seen == sorted(set(seen))
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("body", "path"),
    [({}, "/subject"), ({"subject": "a", "scopes": ["x"]}, "/scopes"), ([], ""), ({"subject": 1}, "/subject")],
)
def test_invalid_token_requests_are_rejected(client: Client, root: str, body: Any, path: str) -> None:
    answer = client.send("POST", "/access/tokens", json=body, headers=bearer(root))
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["faults"]] == [path]


def test_oauth_metadata_is_public(serve: Serve, store: Store) -> None:
    issuer = {"oidc_issuers": ("https://i.example",), "oidc_audience": ("a",), "oidc_client_id": "cli"}
    client = serve(store, **issuer)
    with store.write() as transaction:
        transaction.settings.put_config("access", POLICY)
    metadata = client.get("/.well-known/oauth-protected-resource").json()
    assert metadata["authorization_servers"] == ["https://i.example"]
    assert (metadata["resource"], metadata["signalbook_client_id"]) == ("http://r.example", "cli")
    challenge = client.get("/access/tokens").headers["WWW-Authenticate"]
    assert 'resource_metadata="http://r.example/.well-known/oauth-protected-resource"' in challenge
    assert serve(store).get("/.well-known/oauth-protected-resource").status_code == 404


def test_public_server_without_a_policy_admits_nobody(serve: Serve, store: Store) -> None:
    """The policy must have been deleted later, since the server does not start without one."""
    assert serve(store, host="0.0.0.0").get("/").status_code == 401
    assert serve(store, host="0.0.0.0", access="open").get("/").status_code == 200
    assert serve(store).get("/").status_code == 200
