"""Levels that were set by Confluent's API hold whoever writes."""

import json
from typing import Any

import pytest
from tests.api.confluent.conftest import BREAKING, ONE, TWO, Api, record

SCHEMA = "/schemagroups/default/schemas/s"


def put(api: Api, version: int, schema: str, xid: str = SCHEMA) -> Any:
    headers = {"xRegistry-format": "Avro/1.11", "Content-Type": "application/json"}
    return api.client.send("PUT", f"{xid}/versions/{version}", content=schema, headers=headers)


@pytest.mark.parametrize("scope", ["/s", "/:.:", "", "/%3A.%3As"])
def test_a_level_holds_for_writers_of_xregistry(api: Api, scope: str) -> None:
    assert put(api, 1, ONE).is_success
    assert put(api, 2, BREAKING).is_success  # nobody has said anything yet
    assert api.client.send("DELETE", f"{SCHEMA}/versions/2").is_success
    api.ask("PUT", f"/config{scope}", {"compatibility": "BACKWARD"})
    refused = put(api, 2, BREAKING)
    assert refused.status_code == 400
    assert refused.json()["type"].endswith("#compatibility_violation")
    assert refused.json()["args"]["compat"] == "backward"
    assert "c" in json.dumps(refused.json())
    assert api.get("/subjects/s/versions") == [1]
    assert put(api, 2, TWO).is_success
    # A document that takes another's place has neighbours on both sides.
    assert put(api, 1, '"string"').status_code == 400
    assert put(api, 2, TWO).is_success
    api.ask("PUT", f"/config{scope}", {"compatibility": "NONE"})
    assert put(api, 3, BREAKING).is_success
    assert api.get("/subjects/s/versions") == [1, 2, 3]


def test_the_nearest_level_holds(api: Api) -> None:
    api.ask("PUT", "/config/:.__GLOBAL:", {"compatibility": "FULL_TRANSITIVE"})
    api.ask("PUT", "/config", {"compatibility": "NONE"})  # of the default context alone
    api.ask("PUT", "/config/s", {"compatibility": "FORWARD"})
    assert put(api, 1, ONE).is_success
    assert put(api, 2, BREAKING).is_success
    assert put(api, 3, ONE).status_code == 400
    other = "/schemagroups/other/schemas/s"
    assert put(api, 1, ONE, other).is_success
    assert put(api, 2, BREAKING, other).status_code == 400
    assert put(api, 2, TWO, other).is_success


def test_reasons_name_the_version_and_the_level(api: Api) -> None:
    for schema in (TWO, ONE):
        api.register("s", schema)
    api.ask("PUT", "/config/s", {"compatibility": "FORWARD_TRANSITIVE"})
    new = {"schema": record(a={}, b={"type": "string"})}
    about = ["{oldSchemaVersion: 1}", f"{{oldSchema: '{api.get('/subjects/s/versions/1')['schema']}'}}"]
    about.append("{compatibility: 'FORWARD_TRANSITIVE'}")
    compared = api.ask("POST", "/compatibility/subjects/s/versions?verbose=true", new)
    assert compared["messages"][-3:] == about
    message = api.send("POST", "/subjects/s/versions", new).json()["message"]
    assert all(text in message for text in about)


def test_all_versions_of_a_request_are_compared(api: Api) -> None:
    api.ask("PUT", "/config", {"compatibility": "BACKWARD_TRANSITIVE"})
    versions = {str(number): {"format": "Avro/1.11", "schema": json.loads(text)} for number, text in
                enumerate((ONE, TWO, BREAKING), 1)}  # fmt: skip
    sent = api.client.send("PUT", SCHEMA + "$details", json={"versions": versions})
    assert sent.status_code == 400
    assert sent.json()["subject"] == SCHEMA
    assert api.client.get(SCHEMA).status_code == 404
    del versions["3"]
    assert api.client.send("PUT", SCHEMA + "$details", json={"versions": versions}).is_success
    assert api.get("/subjects/s/versions") == [1, 2]
    # Versions without a number are no subject's.
    assert api.client.send(
        "PUT", f"{SCHEMA}/versions/draft$details", json={"format": "Avro/1.11", "schema": json.loads(BREAKING)}
    ).is_success


OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}
MORE = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
NEEDED = {**MORE, "required": ["b"]}
FIELDS = 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n  string b = 2;\n}\n'
FEWER = 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n'
OTHER = 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n  bytes b = 3;\n  int64 c = 2;\n}\n'


@pytest.mark.parametrize(
    ("kind", "old", "new", "level", "strict", "lenient"),
    [
        # Who reads b as a string may meet anything under that name: who wrote by OPEN could write what he liked.
        ("JSON", OPEN, MORE, "BACKWARD", False, True),
        ("JSON", MORE, OPEN, "FORWARD", False, True),
        ("JSON", OPEN, NEEDED, "BACKWARD", False, False),
        ("JSON", {"type": "array", "items": OPEN}, {"type": "array", "items": MORE}, "FULL", False, True),
        ("JSON", {"allOf": [OPEN]}, {"allOf": [MORE]}, "BACKWARD", False, False),
        ("JSON", {**OPEN, "patternProperties": {}}, MORE, "BACKWARD", False, False),
        ("PROTOBUF", FIELDS, FEWER, "BACKWARD", False, True),
        ("PROTOBUF", FIELDS, OTHER, "BACKWARD", False, False),
        ("PROTOBUF", FIELDS, FIELDS.replace("string b", "bytes c"), "FULL", False, True),
    ],
)
def test_policies(api: Api, kind: str, old: Any, new: Any, level: str, strict: bool, lenient: bool) -> None:
    old, new = (
        {"schema": schema if kind == "PROTOBUF" else json.dumps(schema), "schemaType": kind} for schema in (old, new)
    )
    api.ask("POST", "/subjects/s/versions", old)
    # Without a policy Protobuf is judged as Confluent does it, by its bytes.
    by_default = lenient if kind == "PROTOBUF" else strict
    for policy, verdict in (("STRICT", strict), ("LENIENT", lenient), (None, by_default), ("LOGICAL", by_default)):
        api.ask("PUT", "/config/s", {"compatibility": level, "compatibilityPolicy": policy})
        result = api.ask("POST", "/compatibility/subjects/s/versions/latest?verbose=true", new)
        assert result["is_compatible"] is verdict, result


@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_reserved_fields_are_kept_free(api: Api, level: str) -> None:
    """Only where the config says ``validateFields``."""
    metadata = {"properties": {"confluent:reserved": "a,later"}}
    body = {"schema": ONE, "metadata": metadata}
    api.ask("POST", "/subjects/other/versions", body)
    api.ask("PUT", "/config/s", {"validateFields": True, "compatibility": level})
    assert api.code("POST", "/subjects/s/versions", body) == 40901
    compared = api.ask("POST", "/compatibility/subjects/s/versions?verbose=true", body)
    assert compared["messages"] == ["the schema has the field 'a', which its metadata reserves"]
    api.register("s", metadata={"properties": {"confluent:reserved": "later"}})
