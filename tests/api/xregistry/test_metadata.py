"""Metadata over HTTP, on every database: each row of the method matrix that speaks JSON."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Client

ROOT = "http://r.example"
F1 = "/dirs/d1/files/f1"
N1 = "/dirs/d1/notes/n1"
NEEDED = ("capabilities", "entities", "model")


def test_the_registry(client: Client) -> None:
    """GET /, PUT /, PATCH /."""
    answer = client.get("/")
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.json()["dirsurl"] == f"{ROOT}/dirs"
    assert client.put("/", {"name": "N", "description": "D"}).json()["name"] == "N"
    patched = client.send("PATCH", "/", json={"name": None}).json()
    assert "name" not in patched
    assert patched["description"] == "D"


def test_post_to_the_registry(client: Client) -> None:
    """Only maps of Groups are accepted, and the response contains only the processed ones (R145)."""
    client.put("/dirs/other", {})
    answer = client.send("POST", "/", json={"dirs": {"d1": {"name": "N"}}})
    assert (answer.status_code, "Location" in answer.headers) == (200, False)
    assert list(answer.json()) == ["dirs"]
    assert list(answer.json()["dirs"]) == ["d1"]
    client.refused("POST", "/", "groups_only", json={"name": "x"})


def test_groups(client: Client) -> None:
    """The response to POST and PATCH on a collection contains the processed entities (R146, R151)."""
    created = client.send("POST", "/dirs", json={"d1": {"name": "N"}, "d2": {}})
    assert (created.status_code, list(created.json())) == (200, ["d1", "d2"])
    patched = client.send("PATCH", "/dirs", json={"d1": {"description": "D"}})
    assert patched.json()["d1"]["name"] == "N"
    assert list(patched.json()) == ["d1"]
    assert list(client.get("/dirs").json()) == ["d1", "d2"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("path", ["/dirs/d1", f"{F1}$details", N1, f"{F1}/versions/v1$details", f"{N1}/versions/v1"])
def test_creating_and_updating_one_entity(client: Client, method: str, path: str) -> None:
    """The first response is 201 with a Location, the next one is 200 (R144, R150, R151)."""
    created = client.send(method, path, json={"name": "N"})
    assert created.status_code == 201, created.text
    assert created.headers["Location"] == created.json()["self"] == f"{ROOT}{path}"
    assert client.get(path).json() == created.json()
    updated = client.send(method, path, json={"name": "M"})
    assert (updated.status_code, updated.json()["name"]) == (200, "M")
    assert "Location" not in updated.headers


def test_details_suffix_is_ignored_without_documents(client: Client) -> None:
    """The suffix $details changes nothing for Resources without documents (R154)."""
    created = client.put(f"{N1}$details", {"name": "N"})
    assert created.headers["Location"] == created.json()["self"] == f"{ROOT}{N1}"
    assert client.get(N1).json() == client.get(f"{N1}$details").json() == created.json()


@pytest.mark.parametrize("path", [f"{F1}$details", N1])
def test_a_new_version_is_named(client: Client, path: str) -> None:
    """The header Content-Location has no $details (R152, GAP 9)."""
    plain = path.removesuffix("$details")
    assert client.put(path, {}).headers["Content-Location"] == f"{ROOT}{plain}/versions/1"
    assert "Content-Location" not in client.put(path, {}).headers


@pytest.mark.parametrize("path", [f"{F1}$details", N1])
def test_posting_a_version(client: Client, path: str) -> None:
    """The response is 201 with a Location for a new Version, and 200 for an existing one (R147, GAP 8)."""
    plain, details = path.removesuffix("$details"), path[len(path.removesuffix("$details")) :]
    client.put(path, {})
    created = client.send("POST", path, json={"versionid": "v2", "name": "N"})
    assert (created.status_code, created.json()["xid"]) == (201, f"{plain}/versions/v2")
    assert created.headers["Location"] == f"{ROOT}{plain}/versions/v2{details}"
    assert created.headers["Content-Location"] == f"{ROOT}{plain}/versions/v2"
    assert client.send("POST", path, json={"versionid": "v2", "name": "M"}).status_code == 200


def test_post_to_a_group(client: Client) -> None:
    """POST to a Group creates members of several types, and nothing else (R145)."""
    answer = client.send("POST", "/dirs/d1", json={"notes": {"n1": {}}, "files": {"f1": {}}})
    assert {name: list(entities) for name, entities in answer.json().items()} == {"notes": ["n1"], "files": ["f1"]}
    client.refused("POST", "/dirs/d1", "resources_only", json={"name": "x"})


def test_resources(client: Client) -> None:
    """The body contains metadata, without $details (R146)."""
    answer = client.send("POST", "/dirs/d1/files", json={"f1": {"name": "N", "file": {"a": 1}}})
    assert answer.json()["f1"]["self"] == f"{ROOT}{F1}$details"
    assert client.send("PATCH", "/dirs/d1/files", json={"f1": {"size": 3}}).json()["f1"]["name"] == "N"
    assert client.get("/dirs/d1/files?inline=file").json()["f1"]["file"] == {"a": 1}


def test_versions(client: Client) -> None:
    """R146; a new Resource needs one."""
    answer = client.send("POST", f"{F1}/versions", json={"v1": {"name": "N"}, "v2": {}})
    assert {name: version["isdefault"] for name, version in answer.json().items()} == {"v1": False, "v2": True}
    assert list(client.send("PATCH", f"{F1}/versions", json={"v1": {"size": 1}}).json()) == ["v1"]
    assert list(client.get(f"{F1}/versions").json()) == ["v1", "v2"]
    client.refused("POST", "/dirs/d1/files/f2/versions", "missing_versions", json={})


def test_meta(client: Client) -> None:
    """A write creates the Resource (R260, GAP 23)."""
    created = client.put(f"{F1}/meta", {"labels": {"a": "b"}})
    assert (created.status_code, created.headers["Location"]) == (201, f"{ROOT}{F1}/meta")
    assert client.get(f"{F1}/meta").json() == created.json()
    patched = client.send("PATCH", f"{F1}/meta", json={"defaultversionid": "1"})
    assert patched.json()["defaultversionsticky"] is True


def test_deleting(client: Client) -> None:
    """R169, R171, R173"""
    client.send("POST", f"{F1}/versions", json={"v1": {}, "v2": {}})
    client.put(N1, {})
    assert client.send("DELETE", f"{F1}/versions/v2").status_code == 204
    assert client.send("DELETE", f"{F1}/versions", json={}).status_code == 204
    assert client.get(F1).status_code == 200
    assert client.send("DELETE", f"{F1}/versions").content == b""
    assert client.get(F1).status_code == 404
    assert client.send("DELETE", "/dirs/d1/notes", json={"n1": {}, "unknown": {}}).status_code == 204
    assert client.send("DELETE", "/dirs").status_code == 204
    assert client.get("/dirs").json() == {}


def test_deleting_at_an_epoch(client: Client) -> None:
    """R170, R171, R179; the body of a DELETE of one entity does not count."""
    client.put("/dirs/d1", {})
    client.refused("DELETE", "/dirs/d1?epoch=9", "mismatched_epoch")
    client.refused("DELETE", "/dirs", "mismatched_epoch", json={"d1": {"epoch": 9}})
    client.refused("DELETE", "/dirs/d2", "not_found")
    assert client.send("DELETE", "/dirs/d1?epoch=1", content=b"{broken").status_code == 204


def test_configuration(client: Client) -> None:
    """The test uses GET, PUT and PATCH (R63, R125, R126, R130)."""
    assert client.get("/model").json()["groups"]["dirs"]["plural"] == "dirs"
    assert client.get("/modelsource").json()["groups"]["dirs"]["singular"] == "dir"
    assert client.put("/modelsource", {}).json() == {}
    assert client.get("/capabilitiesoffered").json()["pagination"] == {"type": "boolean", "enum": [False, True]}
    changed = client.send("PATCH", "/capabilities", json={"ignores": ["epoch"]}).json()
    assert changed["ignores"] == ["epoch"]
    assert client.get("/capabilities").json() == changed


def test_a_model_in_the_body_of_the_registry(client: Client) -> None:
    """The model applies to the rest of the body, and is shown if it is inlined (R62, R150)."""
    body = {"modelsource": {"groups": {"boxes": {"singular": "box"}}}, "boxes": {"b1": {}}}
    answer = client.put("/?inline=modelsource,boxes", body)
    assert answer.json()["modelsource"] == body["modelsource"]
    assert list(answer.json()["boxes"]) == ["b1"]


def test_export(client: Client) -> None:
    """R274, R276."""
    client.put(f"{F1}$details", {"file": {"a": 1}, "versionid": "v1"})
    exported = client.get("/export").json()
    assert exported["dirs"]["d1"]["files"]["f1"]["versions"]["v1"]["file"] == {"a": 1}
    assert {"capabilities", "modelsource"} <= set(exported)
    assert client.get("/?doc&inline=*,capabilities,modelsource").json() == exported
    assert "capabilities" not in client.get("/export?inline=dirs").json()
    assert client.put("/?ignore", exported).status_code == 200


def test_collections_feed_post(client: Client) -> None:
    """R177, R276."""
    client.put(f"{F1}$details", {"file": "x"})
    assert client.send("POST", "/", json=client.get("/?collections").json()).status_code == 200
    client.refused("GET", "/dirs?collections", "bad_flag")


def test_inlining_in_the_answer_to_a_write(client: Client) -> None:
    """An invalid flag undoes the write (R150, R22)."""
    answer = client.send("POST", "/?inline=dirs.files.file", json={"dirs": {"d1": {"files": {"f1": {"file": 7}}}}})
    assert answer.json()["dirs"]["d1"]["files"]["f1"]["file"] == 7
    client.refused("PUT", "/dirs/d9?inline=nope", "inline_noninlineable", json={})
    assert client.get("/dirs/d9").status_code == 404


def test_write_has_the_correlation_id_of_its_events(client: Client) -> None:
    """The response to a write has the correlation id of its events (R296)."""
    first, second = (client.put("/dirs/d1", {}).headers["xRegistry-xregcorrelationid"] for _ in range(2))
    assert first != second
    assert "xRegistry-xregcorrelationid" not in client.get("/dirs/d1").headers


@pytest.mark.parametrize("path", ["/", "/dirs", "/dirs/d1", "/dirs/d1/files", f"{F1}/meta", f"{F1}/versions", "/model"])
def test_trailing_slashes_and_head(client: Client, path: str) -> None:
    """HEAD and a trailing slash are supported on every path (R139)."""
    client.put(f"{F1}$details", {})
    plain = client.get(path)
    assert client.get(f"{path}/").json() == plain.json()
    head = client.send("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(len(plain.content))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/"),
        ("PUT", "/dirs"),
        ("PUT", "/dirs/d1/files"),
        ("PUT", f"{F1}/versions"),
        ("POST", f"{F1}/versions/1$details"),
        ("DELETE", f"{F1}/meta"),
        ("POST", "/export"),
        ("PUT", "/model"),
        ("PATCH", "/modelsource"),
        ("DELETE", "/capabilities"),
        ("PUT", "/capabilitiesoffered"),
        ("TRACE", "/"),
    ],
)
def test_unsupported_methods_are_rejected(client: Client, method: str, path: str) -> None:
    """R134, R284."""
    answer = client.send(method, path)
    assert (answer.status_code, answer.json()["args"]) == (405, {"action": method})
    assert method not in answer.headers["Allow"].split(", ")
    assert answer.headers["Allow"] == client.send("OPTIONS", path).headers["Allow"]


def test_options(client: Client) -> None:
    """OPTIONS lists the allowed methods (R138)."""
    answer = client.send("OPTIONS", "/dirs/d1")
    assert answer.status_code == 200
    assert answer.headers["Allow"] == answer.headers["Access-Control-Allow-Methods"]
    assert "OPTIONS" in answer.headers["Allow"]
    assert client.send("OPTIONS", "/nope").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "content", "code"),
    [
        ("PUT", "/dirs/d1", b"", "missing_body"),
        ("PATCH", "/", b"", "missing_body"),
        ("PUT", "/modelsource", b"", "missing_body"),
        ("PUT", "/capabilities", b"", "missing_body"),
        ("PUT", f"{N1}", b"", "missing_body"),
        ("PUT", "/dirs/d1", b"{", "parsing_data"),
        ("PUT", "/dirs/d1", b'{"name":"\xff"}', "parsing_data"),
        ("PUT", "/dirs/d1", b"{'name': 1}", "parsing_data"),
        ("PUT", "/dirs/d1", b'{"name": NaN}', "parsing_data"),
        ("PUT", "/dirs/d1", b"\xef\xbb\xbf{}", "parsing_data"),
        ("PUT", "/dirs/d1", b'{"x":' + b"[" * 100 + b"]" * 100 + b"}", "parsing_data"),
        ("PUT", "/dirs/d1", b"[" * 100_000, "parsing_data"),
        ("PUT", "/dirs/d1", b"[]", "bad_request"),
        ("PUT", "/dirs/d1", b"null", "bad_request"),
        ("DELETE", "/dirs", b"null", "bad_request"),
        ("POST", "/dirs", b'{"d1": null}', "bad_request"),
        ("POST", "/dirs", b'{"d 1": {}}', "malformed_id"),
        ("PUT", "/dirs/d1", b'{"dirid": "d2"}', "mismatched_id"),
        ("PUT", N1, b'{"versionid": 3}', "invalid_attribute"),
        ("PUT", f"{F1}$details", b'{"size": "big"}', "invalid_attribute"),
        ("PUT", "/dirs/a$b", b"{}", "malformed_id"),
        ("PUT", "/nope/a", b"{}", "not_found"),
        ("PUT", "/dirs/d1$details", b"{}", "bad_details"),
        ("GET", "/capabilities/foo", b"", "api_not_found"),
        ("GET", "/?specversion=0.5", b"", "unsupported_specversion"),
        ("GET", "/?inline=*.x", b"", "bad_inline"),
        ("PUT", "/dirs/d1?epoch=1", b"{}", "bad_flag"),
        ("PUT", "/dirs/d1?ignore=nope", b"{}", "bad_ignore"),
    ],
)
def test_bad_requests(client: Client, method: str, path: str, content: bytes, code: str) -> None:
    """Every malformed request has its own error and changes nothing."""
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


def test_discovery(client: Client) -> None:
    """The well-known paths list the registry (R140)."""
    for path in ("/.xregistry", "/.well-known/xregistry"):
        assert client.get(path).json() == {"registries": [ROOT]}


def test_many_writers(client: Client) -> None:
    """Concurrent writes are all executed; none is lost."""
    answers = client.together(*[("POST", N1, {"name": f"{n}"}) for n in range(20)])
    assert {answer.status_code for answer in answers} == {201}
    assert client.get(N1).json()["versionscount"] == 20


def test_read_sees_earlier_writes(client: Client) -> None:
    for name in "ab":
        client.put(N1, {"name": name})
        assert client.get(N1).json()["name"] == name


def _only(*names: str) -> dict[str, Any]:
    return {name: {"mutable": name != "model"} for name in names}
