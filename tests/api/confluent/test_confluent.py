"""The API that Kafka's clients speak, over the same store as all others."""

import base64
import json
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT
from tests.api.confluent.conftest import BREAKING, MOUNT, ONE, TWO, Api, record
from tests.api.conftest import Serve

from signalbook.confluent.naming import MAX_SUBJECT, SUBJECT, list_schema_ids
from signalbook.storage.store import Store
from signalbook.storage.transaction import SqlTransaction, SqlWriting

PROTO = 'syntax = "proto3";\nmessage M {\n  int32 a = 1;\n}\n'
SHARED = json.dumps({"type": "record", "name": "Q", "fields": [{"name": "r", "type": "R"}]})


@pytest.mark.parametrize("mount", [MOUNT, "/apis/ccompat/v7", "/apis/ccompat/v8"])
def test_api_is_served_at_all_mounts(store: Store, serve: Serve, mount: str) -> None:
    api = Api(serve(store, model="default"), mount)
    assert api.get("/") == api.get("") == {}
    assert api.get("/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert api.get("/contexts") == ["."]
    assert api.get("/v1/metadata/version")["version"].startswith("signalbook-")
    assert api.get("/v1/metadata/id")["id"] == ""
    assert api.get("/v1/metadata/deployment") == {"attributes": []}
    assert api.code("GET", "/nothing") == 404
    assert api.code("PATCH", "/subjects") == 405
    lenient = api.send("POST", "/subjects/s/versions", {"schema": ONE, "more": 1})
    assert lenient.status_code == (200 if mount.endswith("v8") else 422)


def test_registering_and_finding(api: Api) -> None:
    created = api.register("s")
    assert (created["id"], created["version"], created["schemaType"]) == (1, 1, "AVRO")
    assert api.register("s", json.dumps(json.loads(ONE), indent=2)) == created
    assert api.register("s", TWO)["id"] == 2
    assert (api.register("t", TWO)["id"], api.register("t", TWO)["version"]) == (2, 1)
    assert api.get("/subjects") == ["s", "t"]
    assert api.get("/subjects?subjectPrefix=t") == ["t"]
    assert api.get("/subjects?offset=1&limit=1") == ["t"]
    assert api.get("/subjects/s/versions") == [1, 2]
    assert json.loads(api.get("/subjects/s/versions/latest")["schema"]) == json.loads(TWO)
    assert api.get("/subjects/s/versions/-1") == api.get("/subjects/s/versions/2")
    assert json.loads(api.send("GET", "/subjects/s/versions/1/schema").text) == json.loads(ONE)
    assert json.loads(api.get("/schemas/ids/1")["schema"]) == json.loads(ONE)
    assert json.loads(api.send("GET", "/schemas/ids/1/schema").text) == json.loads(ONE)
    assert api.get("/schemas/ids/2/subjects") == ["s", "t"]
    assert api.get("/schemas/ids/2/versions") == [{"subject": "s", "version": 2}, {"subject": "t", "version": 1}]
    assert api.get("/schemas/ids/2?fetchMaxId=true")["maxId"] == 2
    assert api.get(f"/schemas/guids/{created['guid']}")["guid"] == created["guid"]
    assert api.get(f"/schemas/guids/{created['guid']}/ids") == [{"context": ".", "id": 1}]
    assert [schema["id"] for schema in api.get("/schemas?latestOnly=true")] == [2, 2]
    assert api.ask("POST", "/subjects/s", {"schema": ONE})["version"] == 1


@pytest.mark.parametrize("place", ["ids/1", "guids/{guid}"])
def test_responses_for_schemas_must_be_revalidated(api: Api, place: str) -> None:
    """Caches must ask again: a schema may be deleted, and another one may get its id."""
    path = "/schemas/" + place.format_map(api.register("s"))
    before = api.send("GET", path)
    assert (before.json()["deleted"], before.headers["Cache-Control"]) == (False, "no-cache")
    api.ask("DELETE", "/subjects/s")
    again = api.send("GET", path, headers={"If-None-Match": before.headers["ETag"]})
    assert (again.status_code, again.json()["deleted"]) == (200, True)


def test_schemas_have_the_time_of_their_registration(api: Api) -> None:
    """The time is in milliseconds, as caches and lineage tools expect it; the response to a registration omits it."""
    assert "ts" not in api.register("s")
    there = api.client.send("GET", "/schemagroups/default/schemas/s/versions/1$details").json()
    expected = int(datetime.fromisoformat(there["createdat"]).timestamp() * 1000)
    schemas = [api.get("/subjects/s/versions/1"), api.get("/schemas/ids/1"), *api.get("/schemas")]
    assert [schema["ts"] for schema in schemas] == [expected] * 3
    api.ask("DELETE", "/subjects/s")
    assert api.get("/subjects/s/versions/1?deleted=true")["ts"] >= expected


def test_parameters_without_meaning(api: Api) -> None:
    """Negative limits and formats that a schema does not have are ignored, as in Confluent."""
    for subject in ("s", "t"):
        api.register(subject)
    for limit in (0, -1, -5):
        assert api.get(f"/subjects?limit={limit}") == ["s", "t"]
        assert len(api.get(f"/schemas?limit={limit}")) == 2
    for name in ("default", "unknown", "serialized"):
        assert api.get(f"/schemas/ids/1?format={name}") == api.get("/schemas/ids/1")


def test_both_ways(api: Api) -> None:
    """A write through one API is visible through the other in the same transaction (J-8)."""
    api.register("s")
    there = api.client.send("GET", "/schemagroups/default/schemas/s/versions/1$details").json()
    assert (there["format"], there["versionid"]) == ("Avro/1.11", "1")
    body = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
    api.client.send("PUT", "/schemagroups/default/schemas/other/versions/1$details", json=body)
    api.client.send("PUT", "/schemagroups/apart/schemas/x/versions/1$details", json=body)
    api.client.send(
        "PUT", "/schemagroups/apart/schemas/y/versions/1$details", json={"format": "XSD/1.1", "schemaurl": "http://x"}
    )
    assert api.get("/subjects") == [":.apart:x", "other", "s"]
    assert api.get("/subjects/other/versions/1")["schemaType"] == "JSON"
    assert api.get("/contexts/.apart/schemas/ids/1")["schemaType"] == "JSON"
    assert api.get("/contexts") == [".", ".apart"]


LONG_NAMES = ["x" * MAX_SUBJECT, "🦆" * MAX_SUBJECT]
ODD_NAMES = ["a/b c", "ünï", "-a", "a.b-value", ":", "%2F", "..", "%2e%2e", "\u202e", "' OR 1=1 --", "*", "a?b#c"]


@pytest.mark.parametrize("name", [*LONG_NAMES, *ODD_NAMES])
def test_subjects_of_any_name(api: Api, name: str) -> None:
    path = quote(name, safe="").replace(".", "%2E")
    assert api.register(path)["id"] == 1
    assert api.get("/subjects") == [name]
    assert api.get(f"/subjects/{path}/versions/1")["subject"] == name
    assert api.ask("POST", f"/subjects/{path}", {"schema": ONE})["subject"] == name
    assert api.ask("DELETE", f"/subjects/{path}") == [1]
    assert api.get("/subjects?deletedOnly=true") == [name]
    assert api.ask("DELETE", f"/subjects/{path}?permanent=true") == [1]


def test_subjects_are_case_sensitive(api: Api) -> None:
    api.register("Orders")
    api.register("orders", TWO)
    assert sorted(api.get("/subjects")) == ["Orders", "orders"]
    assert api.get("/subjects/orders/versions/1")["id"] == 2
    assert api.get("/subjects/Orders/versions/1")["id"] == 1


def test_version_numbers_continue_after_hidden_versions(api: Api) -> None:
    """A Version whose document is elsewhere has a number, and no id."""
    body = {"format": "Avro/1.11", "schemaurl": "https://example.com/s"}
    api.client.send("PUT", "/schemagroups/default/schemas/s/versions/1$details", json=body)
    assert api.code("GET", "/subjects/s/versions") == 40401
    assert api.register("s")["version"] == 2
    there = api.client.send("GET", "/schemagroups/default/schemas/s/versions/1$details").json()
    assert there["schemaurl"] == "https://example.com/s"


def test_contexts(api: Api) -> None:
    assert api.register(":.dev:s")["id"] == 1
    assert api.ask("POST", "/contexts/.dev/subjects/t/versions", {"schema": TWO})["id"] == 2
    assert api.register("s", TWO)["id"] == 1, "ids are those of a context"
    assert api.get("/contexts/.dev/subjects") == [":.dev:s", ":.dev:t"]
    assert api.get("/subjects?subjectPrefix=:.dev:") == [":.dev:s", ":.dev:t"]
    assert api.get("/subjects?subjectPrefix=:*:") == [":.dev:s", ":.dev:t", "s"]
    assert json.loads(api.get("/schemas/ids/1?subject=:.dev:")["schema"]) == json.loads(ONE)
    assert api.get("/subjects/:.default:s/versions/1")["subject"] == "s"
    assert api.code("DELETE", "/contexts/.dev") == 42211
    for path in ("/subjects/:.dev:s", "/subjects/:.dev:t"):
        api.ask("DELETE", path)
        api.ask("DELETE", f"{path}?permanent=true")
    assert api.send("DELETE", "/contexts/.dev").status_code == 204
    assert api.get("/contexts") == ["."]


def test_deleting(api: Api) -> None:
    for schema in (ONE, TWO):
        api.register("s", schema)
    assert api.code("DELETE", "/subjects/s?permanent=true") == 40405
    assert api.code("DELETE", "/subjects/s/versions/1?permanent=true") == 40407
    assert api.ask("DELETE", "/subjects/s/versions/1") == 1
    assert api.code("DELETE", "/subjects/s/versions/1") == 40406
    assert api.code("GET", "/subjects/s/versions/1") == 40402
    assert api.get("/subjects/s/versions/1?deleted=true")["deleted"] is True
    assert api.get("/subjects/s/versions?deleted=true") == [1, 2]
    assert api.get("/subjects/s/versions?deletedOnly=true") == [1]
    assert api.get("/subjects/s/versions?deletedAsNegative=true") == [-1, 2]
    assert api.get("/schemas/ids/1")["schemaType"] == "AVRO", "what is in topics can be read"
    assert api.get("/schemas/ids/1/versions") == []
    assert api.get("/schemas/ids/1/versions?deleted=true") == [{"subject": "s", "version": 1}]
    assert api.client.send("GET", "/schemagroups/default/schemas/s/versions/1").status_code == 404
    api.ask("PUT", "/config/s", {"compatibility": "NONE"})
    again = api.register("s")
    assert (again["id"], again["version"]) == (1, 3)
    assert api.ask("DELETE", "/subjects/s") == [2, 3]
    assert api.code("DELETE", "/subjects/s") == 40404
    assert api.get("/subjects") == []
    assert api.get("/subjects?deleted=true") == ["s"]
    assert api.code("GET", "/subjects/s/versions") == 40401
    assert api.ask("DELETE", "/subjects/s?permanent=true") == [1, 2, 3]
    assert api.code("GET", "/schemas/ids/1") == 40403
    again = api.register("s", BREAKING)
    assert (again["id"], again["version"]) == (3, 1), "numbers of versions begin anew, ids never"


def test_compatibility(api: Api) -> None:
    api.register("s")
    path = "/compatibility/subjects/s/versions"
    assert api.ask("POST", f"{path}/latest", {"schema": TWO}) == {"is_compatible": True}
    result = api.ask("POST", f"{path}?verbose=true", {"schema": BREAKING})
    assert result["is_compatible"] is False
    assert result["messages"][0].startswith("{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'R.c: ")
    assert api.code("POST", "/subjects/s/versions", {"schema": BREAKING}) == 40901
    assert api.code("POST", f"{path}/9", {"schema": ONE}) == 40402
    assert api.ask("POST", "/compatibility/subjects/none/versions/latest", {"schema": ONE})["is_compatible"]
    assert api.code("POST", f"{path}/latest", {"schema": "{"}) == 42201
    assert api.ask("POST", f"{path}/latest?verbose=true", {"schema": "{"})["is_compatible"] is False
    api.ask("PUT", "/config", {"compatibility": "forward"})
    assert api.ask("POST", f"{path}/latest", {"schema": BREAKING})["is_compatible"]
    assert api.register("s", BREAKING)["version"] == 2


def test_config(api: Api) -> None:
    assert api.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert api.code("GET", "/config/s") == 40408
    assert api.get("/config/s?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert api.ask("PUT", "/config/s", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    api.ask("PUT", "/config/:.dev:", {"compatibility": "NONE"})
    assert api.get("/config/:.dev:x?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert api.get("/config/s") == {"compatibilityLevel": "FULL"}
    assert api.code("PUT", "/config", {"compatibility": "WRONG"}) == 42203
    assert api.code("PUT", "/config", {"unknown": 1}) == 422
    assert api.code("PUT", "/config", {"defaultRuleSet": 1}) == 42210
    assert api.ask("DELETE", "/config/s") == {"compatibilityLevel": "FULL"}
    assert api.code("DELETE", "/config/s") == 40401
    assert api.code("PUT", "/config/__GLOBAL", {"compatibility": "NONE"}) == 42208


def test_an_alias_stands_for_a_subject(api: Api) -> None:
    api.register("s")
    api.ask("PUT", "/config/other", {"alias": "s"})
    assert api.get("/subjects/other/versions/1")["subject"] == "s"


def test_modes(api: Api) -> None:
    assert api.get("/mode") == {"mode": "READWRITE"}
    assert api.code("GET", "/mode/s") == 40409
    assert api.code("PUT", "/mode/s", {"mode": "X"}) == 42204
    assert api.code("POST", "/subjects/s/versions", {"schema": ONE, "id": 7}) == 42205
    api.register("s")
    assert api.code("PUT", "/mode/s", {"mode": "IMPORT"}) == 42205
    api.ask("PUT", "/mode/s", {"mode": "READONLY"})
    assert api.register("s")["id"] == 1, "which brings nothing new"
    assert api.code("POST", "/subjects/s/versions", {"schema": TWO}) == 42205
    assert api.code("DELETE", "/subjects/s") == 42205
    assert api.code("PUT", "/config/s", {"compatibility": "NONE"}) == 42205
    assert api.code("DELETE", "/config/s") == 42205
    assert api.get("/mode/s") == {"mode": "READONLY"}
    assert api.ask("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert api.code("DELETE", "/mode/s") == 40401
    assert api.ask("PUT", "/mode/s", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert api.ask("PUT", "/mode/s", {}) == {}
    assert api.code("GET", "/mode/s") == 40409
    api.ask("PUT", "/mode/copied", {"mode": "IMPORT"})
    registered = api.register("copied", BREAKING, id=41, version=5)
    assert (registered["id"], registered["version"]) == (41, 5)
    assert api.register("copied", ONE, id=1, version=6)["id"] == 1
    assert api.code("POST", "/subjects/copied/versions", {"schema": TWO, "id": 41}) == 42205
    assert api.register("copied", ONE)["id"] == 1
    # With an id of its own it would take that of a schema that is still to come.
    assert api.code("POST", "/subjects/copied/versions", {"schema": TWO}) == 42205
    assert api.register("fresh", TWO)["id"] == 42


def test_a_read_only_registry_takes_no_config(api: Api) -> None:
    api.ask("PUT", "/mode/:.__GLOBAL", {"mode": "READONLY"})
    for path in ("/config", "/config/s", "/contexts/.dev/config"):
        assert api.code("PUT", path, {"compatibility": "NONE"}) == 42205
    api.ask("PUT", "/mode/s", {"mode": "READWRITE"})
    assert api.ask("PUT", "/config/s", {"compatibility": "NONE"}) == {"compatibility": "NONE"}


@pytest.mark.parametrize("place", ["", "/:.__GLOBAL:"])
def test_override_mode_stops_writes_in_all_contexts(api: Api, place: str) -> None:
    """Whatever mode a subject or its context has, reads report the mode that writes meet."""
    for where in ("s", ":.Team:s", ":.Team:"):
        api.ask("PUT", f"/mode/{where}", {"mode": "READWRITE"})
    api.ask("PUT", f"/mode{place}", {"mode": "READONLY_OVERRIDE"})
    for subject in ("s", "t", ":.Team:s", ":.Team:t", ":.other:t"):
        assert api.get(f"/mode/{subject}?defaultToGlobal=true") == {"mode": "READONLY_OVERRIDE"}
        assert api.code("POST", f"/subjects/{subject}/versions", {"schema": ONE}) == 42205
        assert api.code("PUT", f"/config/{subject}", {"compatibility": "NONE"}) == 42205
    api.ask("DELETE", f"/mode{place}")
    assert api.register(":.Team:s")["id"] == 1


def test_settings_go_with_the_last_version(api: Api) -> None:
    api.register("s")
    api.register("s", TWO)
    api.ask("PUT", "/config/s", {"compatibility": "FULL"})
    api.ask("PUT", "/mode/s", {"mode": "READWRITE"})
    api.ask("DELETE", "/subjects/s/versions/1")
    api.ask("DELETE", "/subjects/s/versions/1?permanent=true")
    api.ask("DELETE", "/subjects/s")
    assert api.get("/config/s") == {"compatibilityLevel": "FULL"}
    api.ask("DELETE", "/subjects/s?permanent=true")
    assert [api.code("GET", f"/{kind}/s") for kind in ("config", "mode")] == [40408, 40409]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json, */*;q=0.1", "application/vnd.schemaregistry+json"),
        ("application/json, application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/json, text/plain, */*", "application/json"),
        ("*/*", "application/vnd.schemaregistry.v1+json"),
    ],
)
def test_response_has_an_accepted_media_type(api: Api, accept: str, media_type: str) -> None:
    for method, path, body in (("GET", "/subjects", None), ("POST", "/subjects/s/versions", {"schema": ONE})):
        for _ in range(2):  # the second answer is from memory
            response = api.send(method, path, body, headers={"Accept": accept})
            assert (response.headers["Content-Type"], response.headers["Vary"].split(",")[0]) == (media_type, "Accept")
    for method, path in (("GET", "/subjects/none/versions"), ("PATCH", "/subjects"), ("POST", "/subjects/s/versions")):
        response = api.send(method, path, headers={"Accept": accept})
        assert (response.is_error, response.headers["Content-Type"]) == (True, media_type)


def test_put_config_replaces_all_settings(api: Api) -> None:
    api.ask("PUT", "/config/s", {"compatibility": "FULL", "compatibilityGroup": "a"})
    put = api.ask("PUT", "/config/s", {"compatibilityGroup": None, "validateFields": True})
    assert put == {"compatibility": "FULL", "validateFields": True}


def test_imported_schema_is_stored_unchanged(api: Api) -> None:
    """Settings and earlier versions add nothing to an imported schema, since its id belongs to its content."""
    api.ask("PUT", "/mode/s", {"mode": "IMPORT"})
    api.ask("PUT", "/config/s", {"normalize": True, "defaultMetadata": {"properties": {"a": "b"}}})
    text = '{"type":"record","name":"R","fields":[]}'
    other = '{"name":"R","type":"record","fields":[]}'
    api.ask("POST", "/subjects/s/versions?normalize=true", {"schema": other, "id": 4, "version": 3})
    assert api.get("/schemas/ids/4")["schema"] == other
    api.register("s", text, id=5, version=1, metadata={"properties": {"c": "d"}})
    assert "metadata" not in api.register("s", text, id=6, version=2)
    assert api.get("/schemas/ids/6")["schema"] == text


def test_imported_schemas_keep_their_ids(api: Api) -> None:
    """A content may come with several ids: records name each of them."""
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    registered = [
        api.register(subject, ONE, version=version, id=number)
        for subject, version, number in (("a", 1, 100), ("b", 1, 200), ("b", 2, 300), ("b", 2, 300))
    ]
    assert [(row["id"], row["version"]) for row in registered] == [(100, 1), (200, 1), (300, 2), (300, 2)]
    for number, versions in ((100, [("a", 1)]), (200, [("b", 1)]), (300, [("b", 2)])):
        listed = api.get(f"/schemas/ids/{number}/versions")
        assert [(row["subject"], row["version"]) for row in listed] == versions
    assert api.get(f"/schemas/guids/{registered[0]['guid']}/ids") == [
        {"context": ".", "id": number} for number in (100, 200, 300)
    ]
    api.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert api.ask("POST", "/subjects/a", {"schema": ONE})["id"] == 100
    assert api.ask("POST", "/subjects/b", {"schema": ONE})["id"] == 300
    assert api.register("b", ONE)["id"] == 300
    assert api.register("c", ONE)["id"] == 100
    assert api.register("c", TWO)["id"] == 301
    patched = api.client.send("PATCH", "/schemagroups/default/schemas/b/versions/1$details", json={"description": "d"})
    assert patched.is_success
    assert api.get("/subjects/b/versions/1")["id"] == 200


def test_an_id_is_free_when_its_last_version_is_deleted_permanently(api: Api) -> None:
    api.ask("PUT", "/mode", {"mode": "IMPORT"})
    request = {"schema": TWO, "id": 500}
    for subject in ("a", "b"):
        api.register(subject, ONE, id=500)
    for subject in ("a", "b"):
        assert api.code("POST", "/subjects/c/versions", request) == 42205
        api.ask("DELETE", f"/subjects/{subject}")
        assert api.code("POST", "/subjects/c/versions", request) == 42205
        api.ask("DELETE", f"/subjects/{subject}?permanent=true")
    assert api.code("GET", "/schemas/ids/500") == 40403
    assert api.ask("POST", "/subjects/c/versions", request)["id"] == 500
    assert api.get("/schemas/ids/500")["schema"] == json.dumps(json.loads(TWO), separators=(",", ":"))
    api.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert api.register("a", ONE)["id"] == 501


def test_references(api: Api) -> None:
    """An Avro schema that names a type of another subject: checked, compared and shown with it."""
    api.register("t")
    reference = {"name": "R", "subject": "t", "version": 1}
    registered = api.register("q", SHARED, references=[reference])
    assert registered["references"] == [reference]
    assert api.register("q", SHARED, references=[{**reference, "version": -1}])["id"] == registered["id"]
    assert api.get("/subjects/t/versions/1/referencedby") == [registered["id"]]
    assert api.code("DELETE", "/subjects/t") == 42206
    resolved = json.loads(api.get("/subjects/q/versions/1?format=resolved")["schema"])
    assert resolved["fields"][0]["type"]["name"] == "R"
    there = api.client.send("GET", "/schemagroups/default/schemas/q/versions/1$details").json()
    assert there["formatvalidated"] is True
    assert there["references"] == [{**reference, "xid": "/schemagroups/default/schemas/t/versions/1"}]
    assert api.code("POST", "/subjects/q/versions", {"schema": SHARED}) == 42201
    lost = {**reference, "subject": "none"}
    assert api.code("POST", "/subjects/q/versions", {"schema": SHARED, "references": [lost]}) == 42201
    api.ask("DELETE", "/subjects/q")
    assert api.ask("DELETE", "/subjects/t") == [1]


def test_references_of_softly_deleted_versions_are_protected(api: Api) -> None:
    """Records of a softly deleted schema can be read only as long as all its references are there."""
    api.register("t")
    registered = api.register("q", SHARED, references=[{"name": "R", "subject": "t", "version": 1}])
    api.ask("DELETE", "/subjects/q/versions/1")
    assert api.get("/subjects/t/versions/1/referencedby") == []
    assert api.get("/subjects/t/versions/1/referencedby?deleted=true") == [registered["id"]]
    api.ask("DELETE", "/subjects/t")
    assert api.code("DELETE", "/subjects/t?permanent=true") == 42206
    assert api.code("DELETE", "/subjects/t/versions/1?permanent=true") == 42206
    for path in (
        f"/schemas/ids/{registered['id']}?format=resolved",
        "/subjects/q/versions/1?deleted=true&format=resolved",
    ):
        assert json.loads(api.get(path)["schema"])["fields"][0]["type"]["name"] == "R"
    assert api.ask("DELETE", "/subjects/q?permanent=true") == [1]
    assert api.ask("DELETE", "/subjects/t?permanent=true") == [1]


def test_a_subject_whose_versions_refer_to_each_other_is_deleted_whole(api: Api) -> None:
    api.ask("PUT", "/config/t", {"compatibility": "NONE"})
    api.register("t")
    api.register("t", SHARED, references=[{"name": "R", "subject": "t", "version": 1}])
    assert api.code("DELETE", "/subjects/t/versions/1") == 42206
    assert api.ask("DELETE", "/subjects/t") == [1, 2]
    assert api.code("DELETE", "/subjects/t/versions/1?permanent=true") == 42206
    assert api.ask("DELETE", "/subjects/t?permanent=true") == [1, 2]


@pytest.mark.parametrize("identifier", [{}, {"$id": "https://example.com/q.json"}, {"$id": "q.json"}])
def test_references_of_a_json_schema(api: Api, identifier: dict[str, str]) -> None:
    """References have the names that the schema uses, regardless of their base, as in confluent-kafka."""
    api.register("t", '{"type": "integer"}', schemaType="JSON")
    references = [{"name": "t.json", "subject": "t", "version": 1}]
    for more, expected in (({}, True), ({"b": {"type": "integer"}}, True), ({"a": {"type": "string"}}, False)):
        properties = {"a": {"$ref": "t.json"}, **more}
        schema = json.dumps({**identifier, "type": "object", "properties": properties, "additionalProperties": False})
        body = {"schema": schema, "schemaType": "JSON", "references": references}
        assert (api.send("POST", "/subjects/q/versions", body).status_code == 200) is expected
    there = api.client.send("GET", "/schemagroups/default/schemas/q/versions/2$details").json()
    assert there["formatvalidated"] is True


OBJECT = '{"type": "object"}'
OBJECT_07 = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
OBJECT_2020 = '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}'
PROTO_2 = 'syntax = "proto2"; message M { optional int32 a = 1; }'
PROTO_2023 = 'edition = "2023"; message M { int32 a = 1; }'


@pytest.mark.parametrize(
    ("kind", "first", "second", "format"),
    [
        ("JSON", OBJECT_07, OBJECT_2020, "JsonSchema"),
        ("JSON", OBJECT, OBJECT_2020, "JsonSchema"),
        ("PROTOBUF", PROTO_2, PROTO, "Protobuf"),
        ("PROTOBUF", PROTO_2023, PROTO, "Protobuf"),
        ("PROTOBUF", PROTO, PROTO_2023.replace("}", "string b = 2; }"), "Protobuf"),
    ],
)
@pytest.mark.parametrize("level", ["NONE", "BACKWARD"])
def test_a_subject_of_several_drafts(api: Api, kind: str, first: str, second: str, format: str, level: str) -> None:
    """A subject may go on with another draft or syntax; all its Versions have one format in xRegistry."""
    api.ask("PUT", "/config/s", {"compatibility": level})
    registered = api.register("s", first, schemaType=kind)
    api.register("s", first, schemaType=kind, metadata={"properties": {"a": "b"}})
    body = {"schemaType": kind, "schema": second}
    assert api.ask("POST", "/compatibility/subjects/s/versions/latest", body) == {"is_compatible": True}
    assert api.ask("POST", "/subjects/s/versions", body)["version"] == 3
    for version in (1, 2, 3):
        there = api.client.send("GET", f"/schemagroups/default/schemas/s/versions/{version}$details").json()
        assert (there["format"], there["formatvalidated"]) == (format, True)
    assert api.register("s", first, schemaType=kind, metadata={})["id"] == registered["id"]
    assert api.register("s", f"{second} ", schemaType=kind)["version"] == 3


def test_draft_of_the_format_is_kept_without_a_schema_keyword(api: Api) -> None:
    body = {"format": "JsonSchema/draft/2019-09", "schema": {"type": "object"}}
    api.client.send("PUT", "/schemagroups/default/schemas/s/versions/1$details", json=body)
    later = {"schemaType": "JSON", "schema": OBJECT_2020}
    assert api.code("POST", "/subjects/s/versions", later) == 42201
    there = api.client.send("GET", "/schemagroups/default/schemas/s/versions/1$details").json()
    assert there["format"] == "JsonSchema/draft/2019-09"


def test_protobuf(api: Api) -> None:
    """Also as clients send it: the base64 of its descriptor."""
    assert api.register("p", PROTO, schemaType="PROTOBUF")["id"] == 1
    serialized = api.get("/subjects/p/versions/1?format=serialized")["schema"]
    assert FileDescriptorProto.FromString(base64.b64decode(serialized)).message_type[0].name == "M"
    assert api.register("p", serialized, schemaType="PROTOBUF")["id"] == 1
    struct = base64.b64encode(STRUCT.serialized_pb).decode()
    # Clients keep what a registration answers, and would take the document for the descriptor that they sent.
    assert "schema" not in api.register("st", struct, schemaType="PROTOBUF")
    printed = api.get("/subjects/st/versions/1")["schema"]
    assert "map<string, .google.protobuf.Value> fields = 1;" in printed
    other = 'syntax = "proto3"; import "p.proto"; message N { M m = 1; }'
    reference = {"name": "p.proto", "subject": "p", "version": 1}
    assert api.register("n", other, schemaType="PROTOBUF", references=[reference])["version"] == 1


def test_normalized_protobuf(api: Api) -> None:
    """A document and a descriptor are the same then, as confluent-kafka and franz-go send them."""
    api.register("p", PROTO, schemaType="PROTOBUF")
    references = [{"name": "p.proto", "subject": "p", "version": 1}]
    text = (
        'syntax="proto3"; import "p.proto"; // of it\nmessage N { M m = 1; oneof o { int32 a = 2; } repeated M n = 3; }'
    )
    body = {"schemaType": "PROTOBUF", "references": references}
    normalized = api.ask("POST", "/subjects/n/versions?normalize=true", {**body, "schema": text})
    printed = api.get("/subjects/n/versions/1?format=serialized")["schema"]
    assert api.ask("POST", "/subjects/n/versions", {**body, "schema": printed}) == normalized
    assert api.ask("POST", "/subjects/n?normalize=true", {**body, "schema": printed})["id"] == normalized["id"]
    assert api.ask("POST", "/subjects/n?normalize=true", {**body, "schema": text})["id"] == normalized["id"]
    assert api.code("POST", "/subjects/n", {**body, "schema": text}) == 40403
    assert api.code("POST", "/subjects/n?normalize=true", {**body, "schema": f"{text} message"}) == 42201
    custom = 'import "google/protobuf/descriptor.proto";extend google.protobuf.FieldOptions { string owner = 50000; }'
    undefined = 'syntax = "proto3"; message U { option (none) = 1; int32 b = 2; int32 a = 1; }\n'
    api.ask("POST", "/subjects/u/versions?normalize=true", {"schemaType": "PROTOBUF", "schema": undefined})
    assert api.get("/subjects/u/versions/1")["schema"] == undefined, "the option would be lost"
    text = f'syntax = "proto3"; {custom} message O {{ int32 b = 2; int32 a = 1 [(owner) = "ann"]; }}'
    api.ask("POST", "/subjects/o/versions?normalize=true", {"schemaType": "PROTOBUF", "schema": text})
    assert '  int32 a = 1 [(.owner) = "ann"];\n  int32 b = 2;\n' in api.get("/subjects/o/versions/1")["schema"]


def test_metadata_and_rules(api: Api) -> None:
    rules = {"domainRules": [{"name": "check", "kind": "CONDITION", "type": "CEL", "mode": "WRITE", "expr": "1 > 0"}]}
    metadata = {"properties": {"owner": "ada"}}
    first = api.register("s", metadata=metadata, ruleSet=rules)
    assert (first["metadata"], first["ruleSet"]) == (metadata, rules)
    assert api.register("s")["id"] == first["id"], "without its own it has those of the latest version"
    assert api.get("/subjects/s/metadata?key=owner&value=ada")["version"] == 1
    assert api.code("GET", "/subjects/s/metadata?key=owner&value=bob") == 40401
    assert api.code("POST", "/subjects/s/versions", {"schema": ONE, "ruleSet": {"domainRules": [{}]}}) == 42210
    api.ask("PUT", "/config/t", {"defaultMetadata": metadata, "overrideMetadata": {"properties": {"team": "x"}}})
    second = api.register("t", metadata={"properties": {"team": "y"}})
    assert second["metadata"] == {"properties": {"owner": "ada", "team": "x"}}


def test_metadata_and_rules_alone_are_for_the_latest_schema(api: Api) -> None:
    api.register("t")
    reference = {"name": "R", "subject": "t", "version": 1}
    api.register("s", SHARED, references=[reference])
    metadata, rules = {"properties": {"k": "v"}}, {"domainRules": [{"name": "x", "type": "CEL", "mode": "WRITE"}]}
    registered = api.ask("POST", "/subjects/s/versions", {"metadata": metadata})
    assert (registered["version"], registered["metadata"], registered["references"]) == (2, metadata, [reference])
    assert api.get("/subjects/s/versions/2")["schema"] == api.get("/subjects/s/versions/1")["schema"]
    registered = api.ask("POST", "/subjects/s/versions", {"ruleSet": rules})
    assert (registered["version"], registered["metadata"], registered["ruleSet"]) == (3, metadata, rules)
    assert api.code("POST", "/subjects/none/versions", {"metadata": metadata}) == 42201


def test_rules_and_metadata_of_a_config_are_merged_by_name(api: Api) -> None:
    def rules(*names: str) -> dict[str, Any]:
        rule = {"kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
        return {"domainRules": [{"name": name, **rule} for name in names]}

    config = {
        "defaultRuleSet": rules("first"),
        "overrideRuleSet": rules("must"),
        "defaultMetadata": {"sensitive": ["ssn"]},
    }
    api.ask("PUT", "/config/s", config)
    registered = api.register("s", ruleSet=rules("own"), metadata={"sensitive": ["email"]})
    assert registered["ruleSet"] == rules("first", "own", "must")
    assert registered["metadata"] == {"sensitive": ["ssn", "email"]}
    # Registering it again finds it: the rules that were added are not added twice.
    assert api.register("s") == registered
    assert api.code("PUT", "/config/s", {"overrideRuleSet": {"domainRules": [{}]}}) == 42210


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/none/versions/1", None, 40401),
        ("POST", "/subjects/none", {"schema": ONE}, 40401),
        ("POST", "/subjects/s", {"schema": TWO}, 40403),
        ("GET", "/schemas/ids/abc", None, 404),
        ("GET", "/schemas/guids/36a6dcae-a9e8-80cf-a3fb-000000000000", None, 40403),
        ("GET", "/schemas/guids/none", None, 40403),
        ("GET", "/subjects/s/versions/x", None, 42202),
        ("GET", "/subjects/s/versions/2147483648", None, 42202),
        ("POST", "/subjects/s/versions", {}, 42201),
        ("POST", "/subjects/s/versions", {"schema": 5}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "{}", "schemaType": "THRIFT"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "message {", "schemaType": "PROTOBUF"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": '{"type": 5}', "schemaType": "JSON"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": ONE, "references": [{"name": "x"}]}, 42201),
        ("POST", "/subjects/s/versions", {"schema": ONE, "metadata": 5}, 422),
        ("POST", "/subjects/a%0Ab/versions", {"schema": ONE}, 42208),
        ("PUT", "/config/a%C2%85b", {"compatibility": "NONE"}, 42208),
        ("PUT", "/mode/a%0Ab", {"mode": "READONLY"}, 42208),
        ("GET", "/subjects/a%0Ab/versions", None, 40401),
        ("GET", "/mode/a%0Ab", None, 40409),
        ("POST", "/subjects/:.__GLOBAL:a/versions", {"schema": ONE}, 42208),
        ("PUT", "/config/:.__GLOBAL:a", {"compatibility": "NONE"}, 42208),
        ("PUT", "/mode", {"mode": "FORWARD"}, 42204),
        ("DELETE", "/mode/:.dev:", None, 40401),
        ("DELETE", "/contexts/.__GLOBAL", None, 42208),
        *(
            ("POST", "/subjects/s/versions", {"schema": ONE, "ruleSet": rules}, 42210)
            for rules in (
                {"domainRules": [{"name": "x", "type": "CEL", "kind": "X"}]},
                {"domainRules": [{"name": "x", "type": "CEL", "mode": 5}]},
                {"domainRules": [{"name": "x", "type": "CEL", "mode": "UPGRADE"}]},
                {"migrationRules": [{"name": "x", "type": "CEL", "mode": "READ"}]},
                {"domainRules": [{"name": "x"}]},
                {"domainRules": [{"name": "1x", "type": "CEL"}]},
                {"domainRules": [{"name": "x", "type": "CEL"}], "encodingRules": [{"name": "x", "type": "CEL"}]},
            )
        ),
        ("GET", "/subjects?limit=x", None, 422),
        ("DELETE", "/subjects/none", None, 40401),
        ("DELETE", "/subjects/s/versions/9", None, 40402),
    ],
)
def test_invalid_request_has_a_code_and_changes_nothing(api: Api, method: str, path: str, body: Any, code: int) -> None:
    api.register("s")
    assert api.code(method, path, body) == code
    assert api.get("/subjects?deleted=true") == ["s"]
    assert api.get("/subjects/s/versions?deleted=true") == [1]


def test_invalid_name_of_an_old_subject_is_still_served(store: Store, api: Api) -> None:
    """An older release stored such subjects. They and their context can be read and deleted."""
    name = "a\nb"
    attributes = {"format": "Avro/1.11", "schema": json.loads(ONE), SUBJECT: name}
    response = api.client.send(
        "PUT", f"/schemagroups/c/schemas/{list_schema_ids(name)[-1]}/versions/1$details", json=attributes
    )
    assert response.is_success, response.text
    scopes = (f":.c:{name}", ":.__global:a")
    with store.write() as writer:
        for scope in scopes:
            writer.confluent.put_setting("mode", scope, {"mode": "READWRITE"})
    path = "/subjects/:.c:a%0Ab"
    assert (api.get("/subjects"), api.get(f"{path}/versions")) == ([scopes[0]], [1])
    assert api.get("/mode/:.c:a%0Ab") == {"mode": "READWRITE"}
    assert api.ask("POST", f"{path}/versions", {"schema": TWO})["version"] == 2
    api.ask("DELETE", "/mode/:.__GLOBAL:?recursive=true")
    assert api.code("GET", "/mode/:.c:a%0Ab") == 40409
    assert [api.ask("DELETE", f"{path}{query}") for query in ("", "?permanent=true")] == [[1, 2]] * 2
    assert api.send("DELETE", "/contexts/.c").status_code == 204


def test_media_types(api: Api) -> None:
    wrong = api.send("GET", "/subjects", headers={"Accept": "text/html"})
    assert (wrong.status_code, wrong.json()["error_code"]) == (406, 406)
    sent = api.send("POST", "/subjects/s/versions", headers={"Content-Type": "text/plain"}, content=b"{}")
    assert sent.status_code == 415
    broken = api.send("POST", "/subjects/s/versions", headers={"Content-Type": "application/json"}, content=b"{")
    assert broken.json()["error_code"] == 400
    headers = {"Confluent-Accept-Unknown-Properties": "true"}
    assert api.send("POST", "/subjects/s/versions", {"schema": ONE, "x": 1}, headers=headers).status_code == 200


@pytest.mark.parametrize("size", [100_000, 12_000_000])
def test_large_schemas(api: Api, size: int) -> None:
    text = json.dumps({"type": "object", "description": "x" * size})
    assert api.register("s", text, schemaType="JSON")["id"] == 1
    assert len(api.get("/schemas/ids/1")["schema"]) > size


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize("query", ["", "?normalize=true"])
def test_numbers_of_a_json_schema_keep_their_digits(api: Api, size: int, query: str) -> None:
    """Bounds of decimals have more digits than a double, and numbers with an exponent stay what they are."""
    text = '{"description":"%s","maximum":99999999999999999.99,"multipleOf":0.01}' % ("x" * size)
    body = {"schemaType": "JSON", "schema": text}
    api.ask("POST", f"/subjects/s/versions{query}", body)
    assert api.get("/subjects/s/versions/1")["schema"] == text
    other = {**body, "schema": text.replace("9.99", "9.98")}
    assert api.code("POST", f"/subjects/s{query}", other) == 40403
    assert api.ask("POST", "/subjects/tagged/versions", {**body, "schemaTagsToAdd": []})["id"] == 1


def test_known_content_is_not_written(api: Api, store: Store) -> None:
    api.register("s")
    before = store.generation()
    api.register("s")
    assert store.generation() == before


def test_known_content_takes_few_statements(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions there are; a new subject is written without a statement of its own for each row."""
    for schema in (ONE, TWO):
        api.register("s", schema)
    statements: list[str] = []
    rows = SqlTransaction.rows

    def counted(self: SqlTransaction, sql: str, *more: Any) -> Any:
        statements.append(sql)
        return rows(self, sql, *more)

    monkeypatch.setattr(SqlTransaction, "rows", counted)
    assert api.register("s", f" {ONE}")["version"] == 1
    assert len(statements) <= 9
    assert not [sql for sql in statements if "documents.content" in sql], "what is known has the document that was sent"
    statements.clear()
    written: list[str] = []
    run_many = SqlWriting.run_many

    def noted(self: SqlWriting, sql: str, *more: Any) -> int:
        written.append(sql)
        return run_many(self, sql, *more)

    monkeypatch.setattr(SqlWriting, "run_many", noted)
    api.register("t")
    assert not [sql for sql in written if "subject_settings" in sql], "it refers to nothing"


def test_latest_version_ignores_deleted_and_hidden_versions(api: Api) -> None:
    """Deleted versions, and versions that only xRegistry sees, are not compared with, looked up or counted."""
    for number in range(1, 71):
        fields: dict[str, Any] = {f"f{number}": {"default": 0}}
        registered = api.ask("POST", "/subjects/s/versions", {"schema": record("R", **fields)})
        assert registered["version"] == number
    last = api.get("/subjects/s/versions/latest")
    for number in range(3, 71):
        api.ask("DELETE", f"/subjects/s/versions/{number}")
    assert api.get("/subjects/s/versions/latest")["version"] == 2
    assert api.code("POST", "/subjects/s", {"schema": last["schema"]}) == 40403
    assert api.ask("POST", "/subjects/s?deleted=true", {"schema": last["schema"]})["version"] == 70
    again = api.ask("POST", "/subjects/s/versions", {"schema": last["schema"]})
    assert (again["version"], again["id"]) == (71, last["id"])
    twice = api.ask("POST", "/subjects/s?deleted=true", {"schema": last["schema"]})
    assert (twice["version"], twice["id"]) == (71, last["id"])


def test_pages_of_subjects_and_schemas(api: Api) -> None:
    """Paging returns every subject and every schema once, whatever its context, name or version."""
    names = ["a", "A", "a b", "a-b", "a/c", "b", "ünï", ":.one:x", ":.one:y/z", ":.two:x"]
    for name in names:
        for schema in (ONE, TWO):
            api.ask("POST", f"/subjects/{quote(name, safe='')}/versions", {"schema": schema})
    # What is in the same groups and no subject is passed over.
    for path in ("default/schemas/aa/versions/1", "one/schemas/m/versions/1"):
        api.client.send("PUT", f"/schemagroups/{path}", json={"format": "XML", "schema": "<a/>"})
    subjects = api.get("/subjects")
    assert sorted(subjects) == sorted(names)
    for size in (1, 2, 3, 7, 20):
        pages = [api.get(f"/subjects?offset={first}&limit={size}") for first in range(0, 12, size)]
        assert [name for some in pages for name in some] == subjects
        assert all(len(some) <= size for some in pages)

    def listed(query: str) -> list[tuple[str, int]]:
        return [(row["subject"], row["version"]) for row in api.get(f"/schemas?subjectPrefix=:*:{query}")]

    versions = [(name, version) for name in subjects for version in (1, 2)]
    assert listed("") == versions
    assert [row for first in range(0, 24, 3) for row in listed(f"&offset={first}&limit=3")] == versions
    assert listed("&latestOnly=true") == [(name, 2) for name in subjects]
    assert sorted(api.get("/subjects?subjectPrefix=a")) == ["a", "a b", "a-b", "a/c"]
    assert api.get("/subjects?subjectPrefix=a%20") == ["a b"]
    assert sorted(api.get("/subjects?subjectPrefix=%3A.one%3A")) == [":.one:x", ":.one:y/z"]
    assert sorted(api.get("/subjects?subjectPrefix=%3A*%3Ax")) == [":.one:x", ":.two:x"]
    assert api.get("/subjects?subjectPrefix=A&limit=1") == ["A"]
    assert api.get("/subjects?offset=50") == []


def test_avro_types_are_resolved_under_any_reference_name(api: Api) -> None:
    """A reference can have any name, such as a file name, as in Confluent's server. The types are those that the
    documents define.
    """
    country = {"type": "record", "name": "Country", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
    address = {"type": "record", "name": "geo.Address", "fields": [{"name": "country", "type": "Country"}]}
    person = {"type": "record", "name": "P", "fields": [{"name": "home", "type": "geo.Address"},
                                                        {"name": "born", "type": "geo.Country"}]}  # fmt: skip

    def post(subject: str, schema: Any, *names: str) -> Any:
        references = [{"name": f"{name}.avsc", "subject": name, "version": 1} for name in names]
        return api.ask(
            "POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema), "references": references}
        )

    post("country", country)
    post("address", address, "country")
    registered = post("person", person, "address")
    assert registered["references"] == [{"name": "address.avsc", "subject": "address", "version": 1}]
    resolved = json.loads(api.get("/subjects/person/versions/1?format=resolved")["schema"])
    assert resolved["fields"][0]["type"]["fields"][0]["type"]["name"] == "Country"
    # The engine found them, too: it is validated for everybody.
    version = api.client.get("/schemagroups/default/schemas/person/versions/1$details").json()
    assert version["formatvalidated"] is True
    later = {**person, "fields": [*person["fields"], {"name": "x", "type": ["null", "geo.Country"], "default": None}]}
    assert post("person", later, "address", "country")["version"] == 2
    again = {"schema": json.dumps({**person, "fields": [{"name": "home", "type": "geo.Planet"}]})}
    assert api.code("POST", "/subjects/person/versions", again) == 42201
    assert api.code("POST", "/subjects/person", again) == 42201
    assert api.code("POST", "/compatibility/subjects/none/versions/1", {"schema": ONE}) == 40402
