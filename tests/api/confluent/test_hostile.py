"""Input that is meant to hurt: an answer in bounded time that says what is wrong, and nothing is stored."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.confluent.conftest import ONE, Api, record
from tests.api.conftest import Serve
from tests.examples import examples

from signalbook.storage.store import Store

MANY = 10_000
LARGE = 10_000_000


def reference(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


@pytest.fixture
def light(sqlite_store: Callable[[], Store], serve: Serve) -> Api:
    """Return an API on SQLite, because the database does not cause the delays."""
    return Api(serve(sqlite_store(), model="default"))


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("AVRO", "{" * LARGE, "more than 1000000 values"),
        ("AVRO", '{"type": "array", "items": ' * MANY + '"int"' + "}" * MANY, "nested deeper"),
        ("JSON", '{"items": ' * MANY + "{}" + "}" * MANY, "nested deeper"),
        ("PROTOBUF", "{" * LARGE, "more than 1048576 bytes"),
        ("PROTOBUF", "message M {" * MANY + "}" * MANY, "recursion limit"),
        pytest.param("PROTOBUF", 'import "' + "x" * LARGE + '";', "is no path to import", marks=pytest.mark.merge),
    ],
    ids=["avro", "deep avro", "deep json", "protobuf", "deep protobuf", "import"],
)
def test_endless_texts_are_rejected(light: Api, kind: str, text: str, message: str) -> None:
    response = light.send("POST", "/subjects/s/versions", {"schema": text, "schemaType": kind})
    assert (response.status_code, response.json()["error_code"]) == (422, 42201)
    assert message in response.json()["message"]
    assert len(response.text) < MANY
    assert light.get("/subjects") == []


@pytest.mark.merge
def test_too_many_types_are_rejected(light: Api) -> None:
    """An Avro schema of 10 MB with too many types is rejected."""
    fields = [{"name": f"f{n}", "type": "int", "doc": "x" * 170} for n in range(50_001)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    assert len(text) > LARGE
    response = light.send("POST", "/subjects/s/versions", {"schema": text})
    assert response.json()["error_code"] == 42201
    assert "more than 50000 types" in response.json()["message"]
    properties = {f"p{n}": {"type": "string", "description": "x" * 460} for n in range(20_000)}
    text = json.dumps({"type": "object", "properties": properties})
    assert len(text) > LARGE
    assert light.register("j", text, schemaType="JSON")["id"] == 1


@pytest.mark.merge
def test_ten_thousand_references(api: Api) -> None:
    schemas = {
        f"s{n}": {"versions": {"1": {"format": "Avro/1.11", "schema": json.loads(record(f"R{n}"))}}} for n in range(150)
    }
    assert api.client.send("PUT", "/schemagroups/default", json={"schemas": schemas}).is_success
    every = [reference(f"R{n}", f"s{n % 150}") for n in range(MANY)]
    used = record("Q", **{f"f{n}": {"type": f"R{n}"} for n in range(150)})
    response = api.send("POST", "/subjects/q/versions", {"schema": used, "references": every})
    assert response.json()["error_code"] == 42201
    assert "more than 100 other schemas" in response.json()["message"]
    assert api.code("POST", "/subjects/q/versions", {"schema": ONE, "references": [*every, every[0]]}) == 42201
    assert api.code("GET", "/subjects/q/versions") == 40401
    few = record("Q", f={"type": "R99"})
    assert api.register("q", few, references=every)["version"] == 1
    assert api.get("/subjects/s17/versions/1/referencedby") == [api.get("/subjects/q/versions/1")["id"]]


def test_references_in_a_circle(api: Api) -> None:
    """A circle cannot be made with this API, which requires existing references, but it can be made with
    xRegistry's.
    """
    assert api.code("POST", "/subjects/a/versions", {"schema": ONE, "references": [reference("x", "a")]}) == 42201
    assert api.code("POST", "/subjects/a/versions", {"schema": ONE, "references": [reference("x", "a", -1)]}) == 42201
    api.register("b", record("b.B"))
    schema = record("a.A", b={"type": ["null", "b.B"]})
    api.register("a", schema, references=[reference("b.B", "b")])
    back = {**reference("a.A", "a"), "xid": "/schemagroups/default/schemas/a/versions/1"}
    closing = {
        "format": "Avro/1.11",
        "schema": json.loads(record("b.B", a={"type": ["null", "a.A"]})),
        "references": [back],
    }
    path = "/schemagroups/default/schemas/b/versions/1$details"
    assert api.client.send("PUT", path, json=closing).status_code == 200
    resolved = json.loads(api.get("/subjects/a/versions/1?format=resolved")["schema"])
    assert resolved["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "a.A"]
    assert api.ask("POST", "/subjects/a", {"schema": schema, "references": [reference("b.B", "b")]})["version"] == 1
    used = record("C", a={"type": "a.A"})
    assert api.register("c", used, references=[reference("a.A", "a")])["version"] == 1
    assert api.code("DELETE", "/subjects/a") == 42206


PATTERNS = [
    "(a+)+$",
    "(a|a)*$",
    "(.*)*\\1",
    "((a{100}){100}){100}",
    "a{1000000}",
    "(" * 5000 + ")" * 5000,
    "x" * 1_000_000,
]


@pytest.mark.parametrize("pattern", [*PATTERNS, "(", "[", "\\"], ids=lambda text: text[:9])
def test_hostile_patterns(api: Api, pattern: str) -> None:
    """Patterns of JSON Schema are tested with values and with properties that they may match."""
    value = "a" * 40 + "!"
    for schema in (
        {"pattern": pattern, "enum": [value]},
        {"patternProperties": {pattern: {}}, "additionalProperties": False},
    ):
        body = {"schema": json.dumps(schema), "schemaType": "JSON"}
        response = api.send("POST", "/subjects/s/versions", body)
        assert response.status_code == 200 or response.json()["error_code"] in (42201, 40901)
        if len(pattern) == 1:
            assert response.json()["error_code"] == 42201
        narrower = {"schema": json.dumps({"properties": {value: {"const": value}}}), "schemaType": "JSON"}
        compared = api.send("POST", "/compatibility/subjects/s/versions?verbose=true", narrower)
        assert compared.status_code == 200


@pytest.mark.parametrize(
    "name", ["%00", "a%00b", "%FF", "%C3%28", "%ED%A0%80", ":.x:%FE", ":%00:", "x" * 10_240, "__EMPTY", ":.a b:s"]
)
def test_invalid_subject_names_are_rejected(api: Api, name: str) -> None:
    """Names that are not valid UTF-8, or that no database accepts, are rejected before any lookup."""
    for method, path, body in (
        ("POST", f"/subjects/{name}/versions", {"schema": ONE}),
        ("PUT", f"/config/{name}", {"compatibility": "NONE"}),
        ("PUT", f"/mode/{name}", {"mode": "IMPORT"}),
    ):
        code = api.code(method, path, body)
        assert code == 42208, path
    assert api.get("/subjects?deleted=true") == []
    assert api.get("/config") == {"compatibilityLevel": "BACKWARD"}


@pytest.mark.parametrize("context", ["%00", ":%00:", "%FF", "a%2Fb", "x" * 200])
def test_invalid_context_names_are_rejected(api: Api, context: str) -> None:
    for method, path, body in (
        ("DELETE", f"/contexts/{context}", None),
        ("PUT", f"/contexts/{context}/config", {"compatibility": "NONE"}),
        ("PUT", f"/contexts/{context}/mode", {"mode": "READONLY"}),
        ("POST", f"/contexts/{context}/subjects/s/versions", {"schema": ONE}),
    ):
        assert api.code(method, path, body) == 42208, path
    assert api.code("PUT", "/config/s", {"alias": "a\0"}) == 42208


@pytest.fixture
def filled(lasting_store: Store, serve: Serve) -> Api:
    return Api(serve(lasting_store, model="default"))


STEPS = "subjects versions schemas ids config mode contexts s 1 latest -1 associations resources tags"
FIELDS = "schema schemaType references metadata ruleSet version id compatibility mode alias"
PATHS = st.lists(
    st.sampled_from(STEPS.split()) | st.binary(max_size=4).map(lambda text: quote(text, safe="")), max_size=6
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([ONE, "AVRO", "JSON", "NONE"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS.split()), VALUES, max_size=4) | VALUES


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    steps=PATHS,
    query=st.sampled_from(["", "?deleted=true", "?format=resolved", "?limit=-1", "?offset=x", "?subject=%00", "?%FF"]),
    body=st.none() | BODIES,
)
def test_any_request(filled: Api, method: str, steps: list[str], query: str, body: Any) -> None:
    """No request causes an internal error, and rejected requests change nothing."""
    filled.send("POST", "/subjects/s/versions", {"schema": ONE})
    before = filled.client.get("/export").text
    response = filled.send(method, f"/{'/'.join(steps)}{query}", body)
    assert response.status_code < 500, (response.text, method, steps, query, body)
    if response.status_code >= 400:
        code = response.json()["error_code"]
        assert code // (100 if code > 999 else 1) == response.status_code
        assert filled.client.get("/export").text == before
