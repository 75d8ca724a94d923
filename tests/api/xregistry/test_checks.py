"""What would become of a write."""

from typing import Any

import pytest
from tests.api.conftest import Client, Serve

from signalbook.storage.store import Store

S = "/schemagroups/g/schemas/s"
AVRO = "Avro/1.11"
PLAIN: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
MORE: dict[str, Any] = {**PLAIN, "fields": [*PLAIN["fields"], {"name": "b", "type": "string"}]}


@pytest.fixture
def filled(store: Store, serve: Serve) -> Client:
    """The default model, with one schema that is to stay backward compatible."""
    client = serve(store, model="default", domain_rules="warn")
    body = {"meta": {"compatibility": "backward"}, "versions": {"1": {"schema": PLAIN, "format": AVRO}}}
    assert client.put(f"{S}$details", body).status_code == 201
    return client


def state(client: Client) -> tuple[str, str]:
    return client.get("/?inline=*,capabilities,modelsource").text, client.get("/events").text


def checked(client: Client, method: str, path: str, **sent: Any) -> dict[str, Any]:
    """The verdict on a write, which must change nothing."""
    before = state(client)
    answer = client.send(method, f"/check{path}", **sent)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    assert state(client) == before
    body: dict[str, Any] = answer.json()
    assert set(body) == {"accepted", "changes", "errors", "findings"}
    assert body["accepted"] is not bool(body["errors"])
    return body


@pytest.mark.parametrize(
    ("method", "path", "sent", "changed"),
    [
        ("PUT", "/schemagroups/h", {"json": {"description": "d"}}, {"/", "/schemagroups/h"}),
        ("PATCH", "/", {"json": {"name": "n"}}, {"/"}),
        ("POST", "", {"json": {"schemagroups": {"h": {}}}}, {"/", "/schemagroups/h"}),
        ("POST", f"{S}$details", {"json": {"schema": PLAIN, "format": AVRO}}, {S, f"{S}/versions/2"}),
        ("DELETE", S, {}, {"/schemagroups/g", S, f"{S}/versions/1"}),
        ("PUT", "/capabilities", {"json": {}}, {"/", "/capabilities"}),
        ("PUT", "/modelsource", {"json": {"groups": {"schemagroups": {"singular": "schemagroup"}}}}, None),
        ("PATCH", f"{S}/meta", {"json": {"compatibility": "full"}}, {S}),
    ],
)
def test_accepted(filled: Client, method: str, path: str, sent: dict[str, Any], changed: set[str] | None) -> None:
    """The check accepts every kind of write, and lists the changes it would make (R135)."""
    verdict = checked(filled, method, path, **sent)
    if changed is None:
        assert [error["type"].partition("#")[2] for error in verdict["errors"]] == ["model_compliance_error"]
    else:
        assert verdict["accepted"], verdict
        assert {change["xid"] for change in verdict["changes"]} >= changed - {"/"}


def test_a_document_with_headers(filled: Client) -> None:
    """The very request, document and headers included; differences come with what is there on both sides."""
    sent: dict[str, Any] = {"content": b'{"type": "int"}', "headers": {"xRegistry-format": AVRO}}
    verdict = checked(filled, "POST", S, **sent)
    (error,) = verdict["errors"]
    assert error["type"].endswith("#compatibility_violation")
    assert (error["status"], error["subject"], error["args"]) == (400, S, {"compat": "backward"})
    assert all({"path", "rule", "message"} <= fault.keys() for fault in error["faults"])
    assert any("old" in fault and "new" in fault for fault in error["faults"])
    assert filled.send("POST", S, **sent).json() == {name: value for name, value in error.items() if name != "status"}


def test_accepted_check_predicts_the_write(filled: Client) -> None:
    """A change that the check accepts is accepted by the write, with the same changes."""
    body = {"schema": {**PLAIN, "doc": "more"}, "format": AVRO}
    verdict = checked(filled, "POST", f"{S}$details", json=body)
    assert verdict["accepted"]
    assert filled.send("POST", f"{S}$details", json=body).status_code == 201
    changed = [event["subject"] for event in filled.get("/events").json()][-len(verdict["changes"]) :]
    assert changed == [change["xid"] for change in verdict["changes"]]


@pytest.mark.parametrize(
    ("method", "path", "sent", "code"),
    [
        ("PUT", "/nogroups/x", {"json": {}}, "not_found"),
        ("PUT", "/schemagroups/h", {"content": b"{"}, "parsing_data"),
        ("PUT", "/schemagroups/a$b", {"json": {}}, "malformed_id"),
        ("PUT", "/schemagroups/h?epoch=x", {"json": {}}, "bad_request"),
        ("PUT", "/model", {"json": {}}, "action_not_supported"),
        ("PATCH", S, {"json": {}}, "details_required"),
        ("PUT", "/a/b/c/d/e/f/g", {"json": {}}, "api_not_found"),
        ("PUT", f"{S}/versions/9", {"content": b"x", "headers": {"xRegistry-format": AVRO}}, "format_violation"),
    ],
)
def test_refused(filled: Client, method: str, path: str, sent: dict[str, Any], code: str) -> None:
    """The error is that of the write itself."""
    (error,) = checked(filled, method, path, **sent)["errors"]
    assert error["type"].endswith(f"#{code}")
    answer = filled.send(method, path, **sent)
    assert answer.status_code == error.pop("status")
    assert answer.json() == error


def test_findings(filled: Client) -> None:
    """Doubts about messages and endpoints, refused or not."""
    verdict = checked(filled, "PUT", "/endpoints/e", json={"usage": ["producer", "consumer"]})
    assert verdict["accepted"]
    assert [finding["path"] for finding in verdict["findings"]] == ["/endpoints/e#usage"]


def test_unvalidated_format_is_a_finding(filled: Client) -> None:
    """The format is accepted without validation (R254)."""
    body = {"format": "Nope/1", "schema": "x", "meta": {"compatibility": "full"}}
    (finding, other) = checked(filled, "PUT", "/schemagroups/g/schemas/x$details", json=body)["findings"]
    assert (finding["path"], finding["rule"]) == (
        "/schemagroups/g/schemas/x/versions/1#formatvalidated",
        "not_validated",
    )
    assert other["message"].startswith('Version "1" was not validated')


def test_check_reports_domain_rule_errors(store: Store, serve: Serve) -> None:
    client = serve(store, model="default", domain_rules="reject")
    (error,) = checked(client, "PUT", "/endpoints/e", json={"usage": ["producer", "consumer"]})["errors"]
    assert error["type"].endswith("#invalid_attribute")
    assert error["faults"][0]["path"] == "/endpoints/e#usage"


@pytest.mark.parametrize(("rule", "accepted"), [("backward", False), ("Forward", True), ("full_transitive", False)])
def test_under_another_rule(filled: Client, rule: str, accepted: bool) -> None:
    """?compatibility asks what would be if the Resource had this rule, for what the request changes."""
    path = f"{S}$details?compatibility={rule}"
    assert checked(filled, "POST", path, json={"schema": MORE, "format": AVRO})["accepted"] is accepted


@pytest.mark.parametrize("rule", ["", "sideways", "full&compatibility=full"])
def test_unknown_rule_is_rejected(filled: Client, rule: str) -> None:
    filled.refused("POST", f"/check{S}?compatibility={rule}", "bad_flag", content=b"")


def test_only_writes_can_be_checked(filled: Client) -> None:
    """R134, R138."""
    for method in ("GET", "HEAD"):
        answer = filled.send(method, f"/check{S}")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "PUT, PATCH, POST, DELETE, OPTIONS")
    assert filled.send("OPTIONS", "/check").headers["Allow"] == "PUT, PATCH, POST, DELETE, OPTIONS"


def test_conditions_hold_first(filled: Client) -> None:
    answer = filled.send("PUT", "/check/schemagroups/g", json={}, headers={"If-Match": '"other"'})
    assert answer.status_code == 412


def test_checks_do_not_affect_concurrent_writes(filled: Client) -> None:
    """A check in the same transaction as writes leaves them alone."""
    requests: list[tuple[str, str, Any]] = [
        ("PUT", f"{'/check' if i % 2 else ''}/schemagroups/x{i}", {}) for i in range(20)
    ]
    answers = filled.together(*requests)
    assert [answer.status_code for answer in answers] == [201, 200] * 10
    assert filled.get("/schemagroups").json().keys() == {"g", *(f"x{i}" for i in range(0, 20, 2))}


def test_too_large(store: Store, serve: Serve) -> None:
    client = serve(store, max_body_bytes=100)
    client.refused("PUT", "/check/schemagroups/g", "bad_request", content=b" " * 200)


def test_check_is_no_group_type(filled: Client) -> None:
    """The path of an extension cannot be that of a Group type (R135)."""
    source = {"groups": {"check": {"singular": "c"}}}
    assert filled.put("/modelsource", source).json()["type"].endswith("#model_error")


@pytest.mark.parametrize("place", ["", "http://r.example", "http://other.example"])
def test_references_by_url(filled: Client, place: str) -> None:
    """Schemas of this registry are resolved by xid and by URL; external ones are reported instead of fetched (G-16)."""
    format_name = "JsonSchema/draft-07"
    filled.put("/schemagroups/g/schemas/point$details", {"format": format_name, "schema": {"type": "integer"}})
    line = {"properties": {"a": {"$ref": f"{place}/schemagroups/g/schemas/point"}}}
    filled.put("/schemagroups/g/schemas/line$details", {"format": format_name, "schema": line})
    filled.send("PATCH", "/schemagroups/g/schemas/line/meta", json={"compatibility": "full"})
    wider = {"properties": {"a": {"type": "number", "multipleOf": 1}}}
    verdict = checked(
        filled, "POST", "/schemagroups/g/schemas/line$details", json={"format": format_name, "schema": wider}
    )
    assert verdict["accepted"]
    paths = [finding["path"] for finding in verdict["findings"]]
    unknown = ["/schemagroups/g/schemas/line/versions/2#compatibilityvalidated"]
    assert paths == (unknown if place == "http://other.example" else [])


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("PUT", S, {"json": MORE, "headers": {"xRegistry-format": AVRO}}),
        ("PUT", f"{S}/versions/1", {"json": MORE, "headers": {"xRegistry-format": AVRO}}),
        ("PUT", f"{S}/versions/1$details", {"json": {"schema": MORE, "format": AVRO}}),
        ("PATCH", f"{S}$details", {"json": {"schema": MORE}}),
        ("POST", f"{S}/versions", {"json": {"1": {"schema": MORE, "format": AVRO}}}),
        ("POST", "/", {"json": {"schemagroups": {"g": {"schemas": {"s": {"schema": MORE, "format": AVRO}}}}}}),
        ("PATCH", "/", {"json": {"schemagroups": {"g": {"schemas": {"s": {"schema": MORE}}}}}}),
    ],
)
def test_check_reports_incompatible_replacement(
    filled: Client, store: Store, serve: Serve, caplog: pytest.LogCaptureFixture, method: str, path: str, sent: Any
) -> None:
    """A check reports it, and a write logs it. With the setting, both are rejected."""
    (finding,) = checked(filled, method, path, **sent)["findings"]
    assert (finding["path"], finding["rule"], finding["severity"]) == (
        f"{S}/versions/1#R.b",
        "default_missing",
        "warning",
    )
    strict = serve(store, incompatible_changes="reject")
    (error,) = checked(strict, method, path, **sent)["errors"]
    answer = strict.send(method, path, **sent)
    assert (answer.status_code, error["args"]) == (400, {"compat": "backward"})
    assert answer.json()["type"] == error["type"]
    assert error["type"].endswith("#compatibility_violation")
    assert filled.send(method, path, **sent).status_code == 200
    assert [row for row in caplog.messages if f"{S}/versions/1#R.b" in row]
