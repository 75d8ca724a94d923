"""A schema in another form is the one that its subject has: with the same version and id."""

import json
from typing import Any

import pytest
from tests.api.confluent.conftest import Api, record

from signalbook.api.confluent import equivalence
from signalbook.api.confluent.resolution import load_referred_schemas
from signalbook.api.confluent.versions import SchemaVersion
from signalbook.work import compute_or_postpone

AVRO = '{"type":"record","name":"N","owner":"x","fields":[{"name":"a","type":"string"}],"doc":"d"}'
JSON_SCHEMA = '{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"string"}}}'
PROTO = 'syntax = "proto3";\nmessage A {\n  int32 a = 1;\n  repeated A more = 2;\n}\n'


@pytest.mark.parametrize(("kind", "schema"), [("AVRO", AVRO), ("JSON", JSON_SCHEMA), ("PROTOBUF", PROTO)])
def test_normalizing_keeps_the_schema_id(api: Api, kind: str, schema: str) -> None:
    """The schema is found both with and without normalization, and keeps its id."""
    body = {"schemaType": kind, "schema": schema}
    registered = api.register("n", schema, schemaType=kind)
    assert api.ask("POST", "/subjects/n?normalize=true", body)["version"] == 1
    assert api.ask("POST", "/subjects/n/versions?normalize=true", body) == registered
    assert api.ask("POST", "/subjects/n", body)["version"] == 1
    api.ask("PUT", "/config/n", {"normalize": True})
    assert api.ask("POST", "/subjects/n/versions", body) == registered
    assert api.get("/subjects/n/versions") == [1]
    api.ask("DELETE", "/subjects/n")
    assert api.ask("POST", "/subjects/n?normalize=true&deleted=true", body)["version"] == 1
    other = api.ask("POST", "/subjects/n/versions?normalize=true", {**body, "metadata": {"properties": {"a": "b"}}})
    assert other["id"] != registered["id"], "other metadata are another content"


def test_normalized_avro_attributes_have_one_order(api: Api) -> None:
    """A schema without custom attributes has the same id with and without normalization."""
    schema = record(a={"doc": "d", "default": 1})
    registered = api.register("s", schema)
    assert api.ask("POST", "/subjects/t/versions?normalize=true", {"schema": schema})["id"] == registered["id"]


@pytest.mark.parametrize(
    "text",
    [
        PROTO.replace("\n", "\r\n"),
        PROTO.replace("  ", "\t"),
        PROTO.replace("\n", " "),
        PROTO.replace("message", "// The one.\nmessage").replace("= 1;", "= 1 /* first */;"),
    ],
)
def test_protobuf_layout_does_not_change_the_schema_id(api: Api, text: str) -> None:
    registered = api.register("p", PROTO, schemaType="PROTOBUF")
    assert api.register("p", text, schemaType="PROTOBUF") == registered
    assert api.ask("POST", "/subjects/p", {"schemaType": "PROTOBUF", "schema": text})["id"] == registered["id"]
    other = text.replace("int32 a", "int32 b")
    assert api.code("POST", "/subjects/p", {"schemaType": "PROTOBUF", "schema": other}) == 40403


def test_inlined_avro_types_equal_references(api: Api) -> None:
    """Java's generated classes have whole schemas, whatever the registered one refers to (Confluent's canLookup)."""
    header: dict[str, Any] = {"type": "record", "name": "Header", "namespace": "c.t", "fields": []}
    fields = [{"name": "h", "type": "c.t.Header"}, {"name": "again", "type": "Header"}]
    order = {"type": "record", "name": "Order", "namespace": "c.t", "fields": fields}
    api.register("header", json.dumps(header))
    references = [{"name": "c.t.Header", "subject": "header", "version": 1}]
    registered = api.register("order", json.dumps(order), references=references)
    whole = json.dumps({**order, "fields": [{"name": "h", "type": header}, fields[1]]})
    assert api.ask("POST", "/subjects/order", {"schema": whole})["version"] == 1
    assert api.register("order", whole) == registered
    other = whole.replace("again", "twice")
    assert api.code("POST", "/subjects/order", {"schema": other}) == 40403


def test_references_of_versions_are_read_until_one_is_equal(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions are read a few at a time, newest first. Their documents count for the memory of postponed work."""
    header: dict[str, Any] = {"type": "record", "name": "H", "fields": []}
    api.register("h", json.dumps(header))
    api.ask("PUT", "/config/s", {"compatibility": "NONE"})
    references = [{"name": "H", "subject": "h", "version": 1}]
    for number in range(6):
        order = {"type": "record", "name": f"R{number}", "fields": [{"name": "h", "type": "H"}]}
        api.register("s", json.dumps(order), references=references)
    read: list[int] = []
    sizes: list[int] = []

    def load(subjects: Any, version: SchemaVersion) -> Any:
        read.append(version.version)
        return load_referred_schemas(subjects, version)

    def work_out(key: Any, compute: Any, *, later: Any, size: int) -> Any:
        sizes.append(size)
        return compute_or_postpone(key, compute, later=later, size=size)

    monkeypatch.setattr(equivalence, "_VERSIONS_AT_ONCE", 2)
    monkeypatch.setattr(equivalence, "load_referred_schemas", load)
    monkeypatch.setattr(equivalence, "compute_or_postpone", work_out)
    whole = {"type": "record", "name": "R3", "fields": [{"name": "h", "type": header}]}
    assert api.ask("POST", "/subjects/s", {"schema": json.dumps(whole)})["version"] == 4
    assert read == [6, 5, 4, 3]
    size = sum(len(json.dumps(schema, separators=(",", ":"))) for schema in (order, header))
    assert sizes == [2 * size] * 2


def test_normalizing_makes_one_order_of_references(api: Api) -> None:
    for name in ("P", "Q"):
        api.register(name.lower(), record(name, x={}))
    references = [{"name": name, "subject": name.lower(), "version": 1} for name in ("P", "Q")]
    schema = '{"type":"record","name":"M","fields":[{"name":"a","type":"Q"},{"name":"b","type":"P"}]}'
    registered = api.register("m", schema, references=references[::-1])
    for order in (references, references[::-1], references * 2):
        body = {"schema": schema, "references": order}
        assert api.ask("POST", "/subjects/m?normalize=true", body)["id"] == registered["id"]
        assert api.ask("POST", "/subjects/m/versions?normalize=true", body) == registered
    assert api.code("POST", "/subjects/m", {"schema": schema, "references": references}) == 40403
    normal = api.ask("POST", "/subjects/fresh/versions?normalize=true", {"schema": schema, "references": references})
    assert normal["references"] == references
