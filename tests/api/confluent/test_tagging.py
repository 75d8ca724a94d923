"""Tags put into schemas, and asked for (schemaTagsToAdd/Remove, propagateSchemaTags, findTags)."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from tests.api.confluent.conftest import ONE, TWO, Api

PROTO = 'syntax = "proto3";\npackage p;\nmessage M {\n  int32 a = 1;\n}\n'
WIDER = PROTO.replace("}", "  int32 b = 2;\n}")
SCHEMA = '{"type":"object","properties":{"a":{"type":"integer"}}}'


def entity(path: str, *tags: str, kind: str = "sr_field") -> dict[str, Any]:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}


@pytest.mark.parametrize(
    ("type", "schema", "path"), [("AVRO", ONE, "R.a"), ("JSON", SCHEMA, "object.a"), ("PROTOBUF", PROTO, "M.a")]
)
def test_tags_of_all_types(api: Api, type: str, schema: str, path: str) -> None:
    """Tags can be added, found and removed; removing them restores the first schema and its id."""
    plain = api.register("s", schema, schemaType=type)
    tag = entity(path, "PII", "X")
    tagged = api.register("s", schema, schemaType=type, schemaTagsToAdd=[tag])
    assert (tagged["version"], tagged["id"]) == (2, 2)
    for where in ("/subjects/s/versions/2", "/schemas/ids/2", f"/schemas/guids/{tagged['guid']}"):
        assert api.get(f"{where}?findTags=*")["schemaTags"] == [tag]
        assert api.get(f"{where}?findTags=none&findTags=X")["schemaTags"] == [tag]
        assert api.get(f"{where}?findTags=none")["schemaTags"] == []
        assert "schemaTags" not in api.get(where)
    assert api.get("/subjects/s/versions/1?findTags=*")["schemaTags"] == []
    untagged = api.ask("POST", "/subjects/s/versions/latest/tags", {"tagsToRemove": [entity(path, "X")]})
    assert api.get(f"/schemas/ids/{untagged['id']}?findTags=*")["schemaTags"] == [entity(path, "PII")]
    if type != "PROTOBUF":  # whose import stays
        assert api.register("t", schema, schemaType=type)["id"] == plain["id"]


def test_tags_ask_for_the_latest_version(api: Api) -> None:
    """A new version has its number in its metadata, as with version -1 (Confluent's ``toSchemaWithTags``)."""
    api.register("s")
    tagged: dict[str, Any] = {"schemaTagsToAdd": [entity("R.a", "PII")]}
    registered = api.register("s", **tagged)
    assert (registered["version"], registered["metadata"]) == (2, {"properties": {"confluent:version": "2"}})
    assert api.register("s", **tagged) == registered
    plain = api.register("s", schemaTagsToRemove=[entity("R.a", "PII")])
    assert (plain["version"], plain["metadata"]) == (3, {"properties": {"confluent:version": "3"}})
    assert api.register("s", version=-1) == plain


def test_tags_are_propagated_to_the_next_version(api: Api) -> None:
    """propagateSchemaTags adds the tags of the version before, and a version without a tagged field is refused."""
    for subject, kind, schema, later, path in (
        ("a", "AVRO", ONE, TWO, "R.a"),
        ("p", "PROTOBUF", PROTO, WIDER, "M.a"),
    ):
        api.register(subject, schema, schemaType=kind, schemaTagsToAdd=[entity(path, "PII")])
        options = {"schemaType": kind, "propagateSchemaTags": True}
        number = api.register(subject, later, **options, schemaTagsToAdd=[entity(path, "NEW")])["version"]
        tags = api.get(f"/subjects/{subject}/versions/{number}?findTags=*")["schemaTags"]
        assert tags == [entity(path, "NEW", "PII")]
        assert api.register(subject, later, **options)["version"] == number, "nothing new"
        api.register(subject, later, schemaType=kind)
        assert api.get(f"/subjects/{subject}/versions/latest?findTags=*")["schemaTags"] == []
    api.ask("PUT", "/config/a", {"compatibility": "NONE"})
    api.register("a", ONE, schemaTagsToAdd=[entity("R.a", "PII"), entity("R", "ROW", kind="sr_record")])
    other = json.dumps({"type": "record", "name": "R", "fields": [{"name": "z", "type": "int"}]})
    body = {"schema": other, "propagateSchemaTags": True}
    refused = api.send("POST", "/subjects/a/versions", body).json()
    assert (refused["error_code"], "No matching path 'R.a'" in refused["message"]) == (42201, True)
    api.register("q", PROTO, schemaType="PROTOBUF", schemaTagsToAdd=[entity("M.a", "PII")])
    body |= {"schema": PROTO.replace(" a = ", " b = "), "schemaType": "PROTOBUF"}
    assert api.code("POST", "/subjects/q/versions", body) == 42201


@pytest.mark.parametrize("package", ["p", "io.confluent.p"])
def test_protobuf_tag_options_need_no_reference(api: Api, package: str) -> None:
    """The options that Kafka's clients have for tags are there without a reference, also in a descriptor.

    In a package such as ``io.confluent`` compilers do not find them without a leading dot.
    """
    stated = PROTO.replace("package p", f"package {package}").replace(
        "package", 'import "confluent/meta.proto";\nimport "confluent/type/decimal.proto";\npackage'
    )
    stated = stated.replace("a = 1", 'a = 1 [(confluent.field_meta).tags = "PII"]')
    stated = stated.replace("}", "  .confluent.type.Decimal d = 2;\n}")
    registered = api.register("s", stated, schemaType="PROTOBUF")
    assert api.get(f"/schemas/ids/{registered['id']}?findTags=PII")["schemaTags"] == [entity("M.a", "PII")]
    bare = api.send("GET", "/subjects/s/versions/1/schema?format=ignore_extensions").text
    assert "field_meta" not in bare
    assert ".confluent.type.Decimal d = 2;" in bare
    whole = base64.b64decode(api.get("/schemas/ids/1?format=serialized")["schema"])
    assert b"PII" in FileDescriptorProto.FromString(whole).SerializeToString()


def test_tags_make_another_version(api: Api) -> None:
    """Tags that are put into an Avro schema, with metadata and rules of the version unless others are given."""
    metadata = {"properties": {"owner": "ada", "confluent:version": "1"}}
    api.register("s", metadata=metadata)
    entity = {"entityPath": "R.a", "entityType": "sr_field"}
    version = api.ask(
        "POST", "/subjects/s/versions/latest/tags", {"tagsToAdd": [{"schemaEntity": entity, "tags": ["PII"]}]}
    )
    assert (version["version"], version["metadata"]) == (2, {"properties": {"owner": "ada", "confluent:version": "2"}})
    field = json.loads(api.get("/subjects/s/versions/2")["schema"])["fields"][0]
    assert field == {"name": "a", "type": "int", "confluent:tags": ["PII"]}
    added = [{"schemaEntity": {"entityPath": ".R", "entityType": "sr_record"}, "tags": ["A"]}]
    whole = api.register("s", TWO, schemaTagsToAdd=added, schemaTagsToRemove=[])
    assert json.loads(api.get(f"/schemas/ids/{whole['id']}")["schema"])["confluent:tags"] == ["A"]
    removed = [{"schemaEntity": entity, "tags": ["PII"]}]
    body = {"tagsToRemove": removed, "metadata": {"properties": {}}, "newVersion": 4}
    assert api.ask("POST", "/subjects/s/versions/2/tags", body)["version"] == 4
    assert json.loads(api.get("/subjects/s/versions/4")["schema"]) == json.loads(ONE)
    there = api.client.send("GET", "/schemagroups/default/schemas/s/versions/2$details").json()
    assert there["formatvalidated"] is True


@pytest.mark.parametrize(("metadata", "expected"), [(None, {"owner": "ada"}), ({}, {}), ({"properties": {}}, {})])
def test_metadata_of_a_request_for_tags_replace_those_of_the_version(api: Api, metadata: Any, expected: Any) -> None:
    api.register("s", metadata={"properties": {"owner": "ada"}})
    version = api.ask("POST", "/subjects/s/versions/1/tags", {"metadata": metadata})
    assert version["metadata"] == {"properties": {**expected, "confluent:version": "2"}}


def test_invalid_tags_are_rejected(api: Api) -> None:
    api.register("s")
    path = "/subjects/s/versions/1/tags"
    lost = [{"schemaEntity": {"entityPath": "R.none", "entityType": "sr_field"}, "tags": ["A"]}]
    assert api.code("POST", path, {"tagsToAdd": lost}) == 42201
    for member in ("tagsToAdd", "tagsToRemove"):
        refused = api.send("POST", path, {member: 5})
        assert (refused.status_code, refused.json()["message"].split()[0]) == (422, member)
    assert api.code("POST", path, {"unknown": 5}) == 422
    assert api.code("POST", path, {"tagsToAdd": [], "newVersion": 7}) == 42201
    assert api.code("POST", "/subjects/s/versions/9/tags", {}) == 40402
    assert api.code("POST", "/subjects/none/versions/1/tags", {}) == 40401
    for kind, schema in (("JSON", "{}"), ("PROTOBUF", PROTO)):
        body = {"schema": schema, "schemaType": kind, "schemaTagsToAdd": lost}
        assert api.code("POST", "/subjects/j/versions", body) == 42201
    assert api.code("POST", "/subjects/s/versions", {"schema": TWO, "propagateSchemaTags": 5}) == 422
    assert api.get("/subjects/s/versions") == [1]
    api.register(":.dev:s")
    assert api.ask("POST", "/contexts/.dev/subjects/s/versions/1/tags", {})["version"] == 2, "whatever it changes"


def test_rules_are_merged_and_removed_by_name(api: Api) -> None:
    def rules(*names: str) -> dict[str, Any]:
        return {"domainRules": [{"name": name, "type": "CEL", "mode": "WRITE"} for name in names]}

    api.register("s", ruleSet=rules("a", "b"))
    path = "/subjects/s/versions/latest/tags"
    version = api.ask("POST", path, {"newVersion": 2, "rulesToMerge": rules("b", "c"), "rulesToRemove": ["a", "none"]})
    assert (version["version"], version["ruleSet"]) == (2, rules("b", "c"))
    assert version["metadata"] == {"properties": {"confluent:version": "2"}}
    assert api.code("POST", path, {"rulesToMerge": {"domainRules": [{}]}}) == 42210
    assert api.code("POST", path, {"rulesToRemove": 5}) == 422
    # Rules that another API stored are not checked.
    bare: dict[str, Any] = {"domainRules": [{"name": "bare"}]}
    body = {"format": "Avro/1.11", "schema": json.loads(ONE), "ruleset": bare}
    assert api.client.send("PUT", "/schemagroups/default/schemas/t/versions/1$details", json=body).is_success
    for number, more in enumerate(({}, {"rulesToMerge": rules("a")}), start=2):
        bare["domainRules"] += more.get("rulesToMerge", rules())["domainRules"]
        version = api.ask("POST", "/subjects/t/versions/latest/tags", more)
        assert (version["version"], version["ruleSet"]) == (number, bare)
    # A rule set of the request is the whole one.
    version = api.ask("POST", path, {"newVersion": 3, "ruleSet": rules("d"), "rulesToMerge": rules("e")})
    assert version["ruleSet"] == rules("d")
    assert "ruleSet" not in api.ask("POST", path, {"newVersion": 4, "rulesToRemove": ["d"]})
