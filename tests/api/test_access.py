"""The access policy over HTTP, on each database; those who ask have API tokens."""

from typing import Any

import pytest
from tests.api.conftest import Client, Serve, bearer

from signalbook.access import tokens
from signalbook.access.base import ACTIONS
from signalbook.access.tokens import TokenRequest
from signalbook.storage.store import Store
from signalbook.values import now

ADMINISTRATOR: dict[str, Any] = {"who": ["subject:pat"], "role": "administrator"}
READERS: dict[str, Any] = {"who": ["group:staff"], "role": "reader"}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"rules": [ADMINISTRATOR, *rules]}


@pytest.fixture
def client(store: Store, serve: Serve) -> Client:
    """A registry whose policy lets pat administer and staff read."""
    client = serve(store, model="default")
    response = client.put("/access", policy(READERS))
    assert response.status_code == 201, response.text
    return client


@pytest.fixture
def sam(store: Store) -> dict[str, str]:
    """The headers of a reader's."""
    return bearer(store, "sam", "staff")


def test_without_a_policy_everybody_may_do_everything(store: Store, serve: Serve) -> None:
    client = serve(store)
    answer = client.get("/access")
    assert (answer.status_code, "no policy is configured" in answer.text) == (404, True)
    identity = client.get("/access/self").json()
    assert (identity["name"], identity["restricted"], len(identity["may"])) == ("anonymous", False, len(ACTIONS))
    assert client.get("/access/explain?who=anyone&what=read&xid=/").status_code == 404


def test_first_of_two_concurrent_policies_wins(store: Store, serve: Serve) -> None:
    client = serve(store, model="default")
    answers = client.together(*(("PUT", "/access", policy({**READERS, "who": [who]})) for who in ("anyone", "group:b")))
    assert sorted(answer.status_code for answer in answers) == [201, 401]


def test_policy_closes_the_registry_immediately(client: Client, pat: dict[str, str], sam: dict[str, str]) -> None:
    for path in ("/", "/access", "/access/self", "/access/explain", "/schemagroups"):
        refused = client.get(path)
        assert refused.status_code == 401, path
        assert "WWW-Authenticate" in refused.headers
    assert client.get("/", headers=sam).status_code == 200
    assert client.get("/access", headers=sam).status_code == 403
    response = client.get("/access", headers=pat)
    assert response.json() == policy(READERS)
    assert response.headers["Cache-Control"] == "no-store"


def test_only_administrators_change_the_policy(client: Client, pat: dict[str, str], sam: dict[str, str]) -> None:
    new_policy = policy(READERS, {"who": ["subject:sam"], "role": "administrator"})
    assert client.put("/access", new_policy).status_code == 401
    assert client.put("/access", new_policy, headers=sam).status_code == 403
    # Refused before anything of the request is looked at.
    assert client.put("/access", {"rules": 1}, headers=sam).status_code == 403
    assert client.get("/access", headers=pat).json() == policy(READERS)
    assert client.put("/access", new_policy, headers=pat).status_code == 200
    assert client.get("/access", headers=sam).json() == new_policy


def test_a_token_is_narrowed_to_its_scopes(client: Client, store: Store) -> None:
    narrowed = bearer(store, "pat", scopes=("read", "list"))
    assert client.get("/access", headers=narrowed).status_code == 403
    identity = client.get("/access/self", headers=narrowed).json()
    assert (identity["scopes"], identity["may"]) == (["list", "read"], ["list", "read"])


def test_every_fault_has_its_path(client: Client, pat: dict[str, str]) -> None:
    document = {"rules": [{"who": ["pat"], "role": "king"}, {"who": ["anyone"], "allow": ["read"], "on": ["x"]}]}
    answer = client.put("/access", document, headers=pat)
    assert answer.status_code == 400
    assert [fault["path"] for fault in answer.json()["faults"]] == ["/rules/0/who/0", "/rules/0/role", "/rules/1/on/0"]
    for body in (b"", b"{", b'{"rules": [], "rules": []}', b"[" * 100 + b"]" * 100, b"\xff", b"null"):
        assert client.send("PUT", "/access", content=body, headers=pat).status_code == 400
    assert client.get("/access", headers=pat).json() == policy(READERS)


def test_policy_warnings_are_in_the_response(client: Client, store: Store, pat: dict[str, str]) -> None:
    """The warnings are not part of the policy."""
    odd = policy({"who": ["authenticated"], "deny": ["read"], "on": ["/schemagroup/a", "/schemagroups/b"]})
    answer = client.put("/access", odd, headers=pat)
    assert answer.status_code == 200
    nothing, hindered = answer.json()["warnings"]
    assert nothing.startswith("/rules/1/on/0: /schemagroup/a names nothing: schemagroup is no type of groups: ")
    assert hindered.startswith("/rules/1: subject:pat administers, and is kept from changing the model")
    assert client.get("/access", headers=pat).json() == {"rules": answer.json()["rules"]} == odd
    assert client.get("/access", headers=pat).headers["ETag"] == answer.headers["ETag"]
    # The types of the model are for who may read it.
    narrowed = bearer(store, "pat", scopes=("administer",))
    assert client.put("/access", odd, headers=narrowed).json()["warnings"] == [hindered]
    assert client.put("/access", policy(READERS), headers=pat).json() == policy(READERS)


def test_policy_that_locks_out_administrators_is_rejected(client: Client, pat: dict[str, str]) -> None:
    answer = client.put("/access", {"rules": [READERS]}, headers=pat)
    assert (answer.status_code, "name an administrator" in answer.json()["detail"]) == (409, True)
    other = {"rules": [{"who": ["subject:kim"], "role": "administrator"}]}
    answer = client.put("/access", other, headers=pat)
    assert (answer.status_code, "pat could not change this policy back" in answer.json()["detail"]) == (409, True)
    assert client.get("/access", headers=pat).json() == policy(READERS)
    assert client.send("DELETE", "/access", headers=pat).status_code == 405


def test_only_the_policy_that_was_read_is_replaced(client: Client, pat: dict[str, str]) -> None:
    tag = client.get("/access", headers=pat).headers["ETag"]
    first = client.put("/access", policy(), headers={**pat, "If-Match": tag})
    assert (first.status_code, first.headers["ETag"] != tag) == (200, True)
    assert client.put("/access", policy(READERS), headers={**pat, "If-Match": tag}).status_code == 412
    assert client.put("/access", policy(READERS), headers={**pat, "If-None-Match": "*"}).status_code == 412
    assert client.get("/access", headers=pat).json() == policy()


def test_decision_is_explained(client: Client, pat: dict[str, str], sam: dict[str, str]) -> None:
    url = "/access/explain?who=subject:cn=x,dc=y,group:staff&what={}&xid=/schemagroups/g"
    assert client.get(url.format("read"), headers=sam).status_code == 403
    explanation = client.get(url.format("read"), headers=pat).json()
    assert explanation["who"] == "subject:cn=x,dc=y,group:staff"
    assert (explanation["allowed"], explanation["reason"]) == (True, "allowed by rule 1 (the first is rule 0)")
    assert explanation["allowing"] == [{"rule": 1, **READERS}]
    explanation = client.get(url.format("update"), headers=pat).json()
    assert (explanation["allowed"], explanation["reason"], explanation["missing"]) == (
        False,
        "no rule allows to update",
        ["update"],
    )
    for wrong in ("who=pat&what=read", "who=anyone&what=fly", "what=read", "who=anyone&what=read&xid=//"):
        assert client.get(f"/access/explain?{wrong}", headers=pat).status_code == 400, wrong


def test_token_is_explained_by_its_subject(client: Client, store: Store, pat: dict[str, str]) -> None:
    narrowed = client.get("/access/self", headers=bearer(store, "pat", scopes=("read",))).json()["token"]
    url = f"/access/explain?who=token:{narrowed}&xid=/&what="
    assert client.get(f"{url}read", headers=pat).json()["reason"] == "allowed by rule 0 (the first is rule 0)"
    explanation = client.get(f"{url}administer", headers=pat).json()
    assert (explanation["allowed"], explanation["reason"]) == (False, "the scopes of the token leave it out")
    assert not client.get("/access/explain?who=token:unknown&what=read", headers=pat).json()["allowed"]


def test_own_identity_and_rights(client: Client, sam: dict[str, str]) -> None:
    identity_shown = client.get("/access/self?xid=/schemagroups/g", headers=sam).json()
    assert identity_shown.pop("token")
    identity = {"name": "sam", "authenticated": True, "subject": "sam", "groups": ["staff"]}
    rights = {"restricted": True, "policy": 1, "hidden": False, "may": ["list", "read"], "somewhere": ["list", "read"]}
    assert identity_shown == {**identity, **rights, "xid": "/schemagroups/g"}
    assert client.get("/access/self?xid=schemagroups", headers=sam).status_code == 400


def test_caller_without_rights_gets_the_reason(client: Client, store: Store, pat: dict[str, str]) -> None:
    """The response is not "not found", because the server is known to exist."""
    assert client.put("/access", policy(), headers=pat).status_code == 200
    for path in ("/", "/model", "/export", "/?inline=*"):
        refused = client.get(path, headers=bearer(store, "sam"))
        assert (refused.status_code, "you are sam, and no rule lets you read anything" in refused.text) == (403, True)
    assert client.get("/schemagroups/g", headers=bearer(store, "sam")).status_code == 404


def test_refusal_names_the_missing_right(client: Client, store: Store, pat: dict[str, str]) -> None:
    owner = {"who": ["subject:olga"], "role": "owner", "on": ["/schemagroups/shop"]}
    readers = {"who": ["authenticated"], "role": "reader"}
    assert client.put("/access", policy(owner, readers), headers=pat).status_code == 200
    olga = bearer(store, "olga")
    document = {"name": "all of it", "schemagroups": {"shop": {"schemas": {}}}}
    refused = client.send("PATCH", "/", json=document, headers=olga)
    assert (refused.status_code, "leave these out: name" in refused.text) == (403, True), refused.text
    del document["name"]
    assert client.send("PATCH", "/", json=document, headers=olga).is_success
    refused = client.get("/pipelines", headers=bearer(store, "sam"))
    assert (refused.status_code, refused.json()["detail"]) == (403, "you may not make or read reports of anything here")


def test_open_access_ignores_the_policy(client: Client, store: Store, serve: Serve) -> None:
    opened = serve(store, model="default", access="open")
    assert opened.get("/").status_code == 200
    assert opened.get("/access").json() == policy(READERS)
    assert client.get("/").status_code == 401


def test_open_access_cannot_change_policy_or_tokens(store: Store, serve: Serve) -> None:
    opened = serve(store, model="default", access="open")
    with store.write() as transaction:
        stored, _ = tokens.create(transaction.tokens, TokenRequest(subject="pat"), now())
    for method, path, body in (
        ("PUT", "/access", policy(READERS)),
        ("POST", "/access/tokens", {"subject": "pat"}),
        ("DELETE", f"/access/tokens/{stored.id}", None),
    ):
        answer = opened.send(method, path, json=body)
        assert (answer.status_code, "while access is open" in answer.text) == (409, True), answer.text
    assert opened.get("/access").status_code == 404
    assert [token["id"] for token in opened.get("/access/tokens").json()] == [stored.id]


def test_caller_without_rights_learns_no_types(client: Client, store: Store, pat: dict[str, str]) -> None:
    client.put("/schemagroups/g", {}, headers=pat)
    for headers in ({}, bearer(store, "kim")):
        answers = [
            client.send("OPTIONS", path, headers=headers)
            for path in ("/schemagroups", "/nothing", "/schemagroups/g", "/nothing/g/x/y", "/model", "/")
        ]
        assert {answer.status_code for answer in answers} == {200}
        headers_seen = [{name: value for name, value in answer.headers.items() if name != "date"} for answer in answers]
        assert headers_seen == [headers_seen[0]] * len(headers_seen)
        # What a browser may send is not limited by who it is before it says so.
        assert {"PUT", "DELETE"} <= set(headers_seen[0]["access-control-allow-methods"].split(", "))
        assert headers_seen[0]["allow"] == "GET, HEAD, OPTIONS"
        existing, unknown = (client.get(path, headers=headers) for path in ("/schemagroups", "/schemagroupz"))
        assert (existing.status_code, existing.text) == (unknown.status_code, unknown.text.replace("groupz", "groups"))
        written = [client.put(path, {}, headers=headers) for path in ("/schemagroups/g", "/schemagroupz/g")]
        assert written[0].text == written[1].text.replace("groupz", "groups")
        assert {answer.status_code for answer in written} == {403 if headers else 401}
        tried = [client.put(f"/check{path}", {}, headers=headers) for path in ("/schemagroups/g", "/schemagroupz/g")]
        assert tried[0].text == tried[1].text.replace("groupz", "groups")
    assert client.send("OPTIONS", "/nothing", headers=pat).status_code == 404


def test_options_answer_what_the_caller_may_do(client: Client, store: Store, pat: dict[str, str]) -> None:
    """Seed 002 4.2.1, C-27"""
    rules: list[dict[str, Any]] = [
        {"who": ["authenticated"], "role": "reader"},
        {"who": ["subject:sam"], "allow": ["create", "update"], "on": ["/messagegroups/m*", "/schemagroups/s"]},
    ]
    assert client.put("/access", policy(*rules), headers=pat).status_code == 200
    sam, kim = bearer(store, "sam"), bearer(store, "kim")
    catalog = "/compat/messagecatalog/v0.1/messagecatalog"
    for headers, update in ((pat, True), (sam, True), (kim, False), ({}, False)):
        assert client.send("OPTIONS", catalog, headers=headers).json()["update"] is update
    group = f"{catalog}/mine"
    methods = {}
    for path in (group, f"{catalog}/other", "/compat/schemaregistry/v0.2/schemagroups/s", "/schemagroups/s"):
        answers = [client.send("OPTIONS", path, headers=headers).headers for headers in (pat, sam, kim)]
        methods[path] = [answer["Allow"].split(", ") for answer in answers]
        # What a browser may send is what the path takes: it asks before it says for whom.
        assert {answer["Access-Control-Allow-Methods"] for answer in answers} == {answers[0]["Allow"]}
    everything, some, none = methods[group]
    assert set(everything) - set(some) == {"DELETE"}
    assert none == ["GET", "HEAD", "OPTIONS"]
    assert methods[f"{catalog}/other"] == [everything, none, none]
    for path in ("/compat/schemaregistry/v0.2/schemagroups/s", "/schemagroups/s"):
        everything, some, none = methods[path]
        assert ("PUT" in everything, "PUT" in some, "PUT" in none) == (True, True, False)
        assert set(everything) - set(some) == {"DELETE"}
    assert "PUT" in client.send("OPTIONS", "/modelsource", headers=pat).headers["Allow"]
    assert "PUT" not in client.send("OPTIONS", "/modelsource", headers=sam).headers["Allow"]
    assert client.send("PUT", "/modelsource", json={}, headers=sam).status_code == 403
