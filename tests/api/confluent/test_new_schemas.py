"""Schemas with wrong defaults or namespaces: the setting ``validateNewSchemas``, and imports from other registries."""

import json
from typing import Any

import pytest
from tests.api.confluent.conftest import ONE, Api, record
from tests.api.conftest import Serve

from signalbook.storage.store import Store
from signalbook.work import IN_TURN

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)

DEFAULT = record(a={}, b={"default": "none"})
FIELD = ONE.replace('"a"', '"a-b"')
NAMESPACE = json.dumps({**json.loads(record(a={})), "namespace": "acme-shop.orders"})
XID = "/schemagroups/default/schemas/s"
OFF = {"validateNewSchemas": False}


@pytest.mark.parametrize("schema", [DEFAULT, NAMESPACE])
@pytest.mark.parametrize("place", ["", "/s", "/:.__GLOBAL:"])
def test_schemas_are_validated_unless_the_config_says_otherwise(api: Api, schema: str, place: str) -> None:
    body = {"schema": schema}
    assert api.code("POST", "/subjects/s/versions", body) == 42201
    assert api.code("POST", "/compatibility/subjects/s/versions", body) == 42201
    api.ask("PUT", f"/config{place}", OFF)
    assert api.ask("POST", "/compatibility/subjects/s/versions", body) == {"is_compatible": True}
    number = api.register("s", schema)["id"]
    assert api.register("s", schema)["id"] == number
    assert api.ask("POST", "/subjects/s", body)["version"] == 1
    api.ask("PUT", f"/config{place}", {"validateNewSchemas": True})
    assert api.register("s", schema)["id"] == number
    assert api.code("POST", "/subjects/other/versions", body) == 42201


def test_other_faults_are_always_errors(api: Api) -> None:
    api.ask("PUT", "/config", OFF)
    for schema in (record(name="a-b"), FIELD, record(name="a.b%c.d"), '{"type": "array"}', "{}"):
        assert api.code("POST", "/subjects/s/versions", {"schema": schema}) == 42201
    assert api.code("POST", "/subjects/s/versions", {"schema": '{"type": 1}', "schemaType": "JSON"}) == 42201


def test_invalid_default_is_ignored(api: Api) -> None:
    api.ask("PUT", "/config", OFF)
    api.register("s", record(a={}))
    assert api.code("POST", "/subjects/s/versions", {"schema": DEFAULT}) == 40901
    api.register("t", DEFAULT)
    assert api.code("POST", "/subjects/t/versions", {"schema": record(a={}, b={}, c={})}) == 40901
    assert api.register("t", record(a={}, b={}))["version"] == 2


def test_schema_with_references_is_treated_alike(api: Api) -> None:
    api.ask("PUT", "/config", OFF)
    api.register("s", DEFAULT)
    fields = [{"name": "r", "type": "R"}, {"name": "n", "type": "int", "default": None}]
    schema = json.dumps({"type": "record", "name": "Whole", "fields": fields})
    more: dict[str, Any] = {"references": [{"name": "R", "subject": "s", "version": 1}]}
    api.register("whole", schema, **more)
    api.ask("PUT", "/config", {"validateNewSchemas": True})
    assert api.code("POST", "/subjects/other/versions", {"schema": schema, **more}) == 42201


def test_other_apis_see_why_a_version_is_not_validated(api: Api) -> None:
    api.ask("PUT", "/config", OFF)
    api.register("s", DEFAULT)
    version = f"{XID}/versions/1$details"
    version_json = api.client.get(version).json()
    assert version_json["formatvalidated"] is False
    assert version_json["formatvalidatedreason"].startswith("accepted as it is: /fields/1/default: ")
    changed = api.client.send("PATCH", version, json={"description": "old"}).json()
    assert (changed["description"], changed["formatvalidated"]) == ("old", False)
    new = {"schema": json.loads(DEFAULT), "format": "Avro/1.11"}
    api.client.refused("PUT", f"{XID}/versions/2$details", "format_violation", json=new)
    put = {"schema": json.loads(record(a={})), "format": "Avro/1.11"}
    assert api.client.put(version, put).json()["formatvalidated"] is True


def test_a_model_that_is_strict_has_no_such_versions(store: Store, serve: Serve) -> None:
    api = Api(serve(store, model="default"))
    model = api.client.get("/modelsource").json()
    model["groups"]["schemagroups"]["resources"]["schemas"]["strictvalidation"] = True
    assert api.client.put("/modelsource", model).status_code == 200
    api.ask("PUT", "/config", OFF)
    assert api.code("POST", "/subjects/s/versions", {"schema": DEFAULT}) == 42201


def test_imported_schema_is_not_validated_as_new(api: Api) -> None:
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    assert api.register("s", DEFAULT, id=7, version=1)["id"] == 7
    assert api.code("POST", "/subjects/t/versions", {"schema": record(name="a-b"), "id": 8, "version": 1}) == 42201


@pytest.mark.parametrize("references", [[], [{"name": "p.proto", "subject": "p.proto", "version": 1}]])
def test_protobuf_types_that_are_not_imported(api: Api, references: list[dict[str, Any]]) -> None:
    """No compiler takes such a schema, so it is only taken with ``validateFields: false``, or if it is imported."""
    api.register("p.proto", 'syntax = "proto3"; message P { int32 a = 1; }', schemaType="PROTOBUF")
    schema = 'syntax = "proto3";\nmessage M {\n  P p = 1;\n}\n'
    body = {"schema": schema, "schemaType": "PROTOBUF", "references": references}
    assert api.code("POST", "/subjects/s/versions", body) == 42201
    api.ask("PUT", "/config/s", {"validateFields": True})
    assert api.code("POST", "/subjects/s/versions", body) == 42201
    api.ask("PUT", "/config/s", {"validateFields": False})
    registered = api.ask("POST", "/subjects/s/versions", body)
    assert api.ask("POST", "/subjects/s/versions", body) == registered
    assert api.ask("POST", "/subjects/s?normalize=true", body)["version"] == 1
    assert api.get("/subjects/s/versions/1")["schema"] == schema
    version_json = api.client.get(f"{XID}/versions/1$details").json()
    assert version_json["formatvalidated"] is False
    assert '"P" is not defined' in version_json["formatvalidatedreason"]
    assert api.code("POST", "/subjects/t/versions", body) == 42201
    api.ask("PUT", "/mode/t", {"mode": "IMPORT"})
    assert (
        api.ask("POST", "/subjects/t/versions", {**body, "id": registered["id"], "version": 1})["id"]
        == registered["id"]
    )
    assert api.code("POST", "/subjects/t/versions", {**body, "schema": "message {", "id": 9, "version": 2}) == 42201


LARGE_PROTOBUF = f'syntax = "proto3"; // {"x" * IN_TURN}\nmessage P {{ int32 a = 1; }}'
LARGE_AVRO = json.dumps({"type": "record", "name": "P", "doc": "x" * IN_TURN, "fields": []})
INVALID = {
    "PROTOBUF": 'syntax = "proto3"; import "p"; message M { Missing a = 1; P p = 2; }',
    "AVRO": json.dumps({"type": "record", "name": "R", "fields": [{"type": "P"}]}),
}


@pytest.mark.parametrize("kind", INVALID)
@pytest.mark.parametrize("way", ["validateFields", "force", "IMPORT"])
def test_schema_that_is_checked_after_the_turn_is_refused_as_invalid(api: Api, kind: str, way: str) -> None:
    """Its references make it too large for the turn. No other check may run or fail before this one."""
    api.register("p", LARGE_PROTOBUF if kind == "PROTOBUF" else LARGE_AVRO, schemaType=kind)
    api.register("s", 'syntax = "proto3"; message M {}' if kind == "PROTOBUF" else ONE, schemaType=kind)
    body: dict[str, Any] = {
        "schema": INVALID[kind],
        "schemaType": kind,
        "references": [{"name": "p" if kind == "PROTOBUF" else "P", "subject": "p", "version": 1}],
        "metadata": {"properties": {"confluent:reserved": "a"}},
    }
    path = "/subjects/s/versions"
    if way == "validateFields":
        api.ask("PUT", "/config/s", {"validateFields": True})
    elif way == "force":  # another version number than the next one is an error, too
        path, body = f"{path}?force=true", body | {"version": 7}
    else:  # the subject has this version already
        api.ask("PUT", "/mode/s?force=true", {"mode": "IMPORT"})
        body |= {"id": 77, "version": 1}
    response = api.send("POST", path, body)
    assert (response.status_code, response.json()["error_code"]) == (422, 42201)
    assert "expected" not in response.text
