"""Metadata over HTTP, on every database: what the cases of the conformance kit do not test."""

from typing import Any

import pytest
from tests.api.conftest import Client

ROOT = "http://r.example"
F1 = "/dirs/d1/files/f1"
N1 = "/dirs/d1/notes/n1"
NEEDED = ("capabilities", "entities", "model")


@pytest.mark.parametrize("path", [f"{F1}$details", N1])
def test_a_new_version_is_named(client: Client, path: str) -> None:
    """The header Content-Location has no $details (R152, GAP 9)."""
    plain = path.removesuffix("$details")
    assert client.put(path, {}).headers["Content-Location"] == f"{ROOT}{plain}/versions/1"
    assert "Content-Location" not in client.put(path, {}).headers


def test_body_is_ignored_when_one_entity_is_deleted(client: Client) -> None:
    client.put("/dirs/d1", {})
    assert client.send("DELETE", "/dirs/d1?epoch=1", content=b"{broken").status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "content", "code"),
    [
        ("PUT", "/dirs/d1", b'{"name":"\xff"}', "parsing_data"),
        ("PUT", "/dirs/d1", b"{'name': 1}", "parsing_data"),
        ("PUT", "/dirs/d1", b'{"name": NaN}', "parsing_data"),
        ("PUT", "/dirs/d1", b"\xef\xbb\xbf{}", "parsing_data"),
        ("PUT", "/dirs/d1", b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "parsing_data"),
        ("PUT", "/dirs/d1", b"[" * 100_000, "parsing_data"),
        ("PUT", "/dirs/d1", b"[]", "bad_request"),
        ("PUT", "/dirs/d1", b"null", "bad_request"),
        ("DELETE", "/dirs", b"null", "bad_request"),
        ("PUT", N1, b'{"versionid": 3}', "invalid_attribute"),
        ("PUT", "/dirs/a$b", b"{}", "malformed_id"),
        ("PUT", "/nope/a", b"{}", "not_found"),
        ("GET", "/?inline=*.x", b"", "bad_inline"),
        ("PUT", "/dirs/d1?epoch=1", b"{}", "bad_flag"),
    ],
)
def test_bad_requests(client: Client, method: str, path: str, content: bytes, code: str) -> None:
    """Bodies and ids that the conformance cases do not send have their own errors too."""
    client.refused(method, path, code, content=content)


@pytest.mark.parametrize("path", ["/dirs", "/dirs/d1/files", f"{F1}/versions"])
def test_deletion_of_impossible_ids_succeeds(client: Client, path: str) -> None:
    """PostgreSQL accepts no NUL, which made all writes of the same commit fail (R178)."""
    assert client.put(f"{F1}$details", {}).status_code == 201
    for ids in (["a\0b"], ["\0", "gone"]):
        assert client.send("DELETE", path, json={name: {} for name in ids}).status_code == 204, ids
    assert client.get("/dirs/d1").status_code == 200


def test_every_fault_is_reported_with_its_place(client: Client) -> None:
    """R18; the extension ``faults``."""
    body = client.refused("PUT", f"{F1}$details", "invalid_attribute", json={"size": -1, "counts": {"a": "x"}})
    faults = [(fault["path"], fault["rule"]) for fault in body["faults"]]
    assert faults == [(path, "invalid_attribute") for path in ("size", "counts.a")]
    assert body["subject"] == f"{F1}/versions/1"


def test_disabled_features_are_not_available(client: Client) -> None:
    """R117, GAP 6, R119."""
    client.send("PATCH", "/capabilities", json={"available": _only(*NEEDED), "flags": []})
    for path in ("/export", "/modelsource", "/capabilitiesoffered"):
        client.refused("GET", path, "not_available")
    client.send("PATCH", "/capabilities", json={"flags": ["inline"]})
    client.refused("GET", "/?inline=modelsource", "not_available")
    client.send("PATCH", "/capabilities", json={"flags": [], "available": {**_only(*NEEDED), "export": {}}})
    assert "modelsource" not in client.get("/export").json()
    assert "dirs" not in client.get("/?inline=dirs").json()
    assert client.get("/?doc").json()["self"] == f"{ROOT}/"


def test_many_writers(client: Client) -> None:
    """Concurrent writes are all executed; none is lost."""
    answers = client.together(*[("POST", N1, {"name": f"{n}"}) for n in range(20)])
    assert {answer.status_code for answer in answers} == {201}
    assert client.get(N1).json()["versionscount"] == 20


def _only(*names: str) -> dict[str, Any]:
    return {name: {"mutable": name != "model"} for name in names}
