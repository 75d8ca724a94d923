"""AsyncAPI documents, held to AsyncAPI's own parser."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from tests.codegen.conftest import DOCUMENT, EVENT, GROUP, Make
from tests.codegen.hostile import HOSTILE, document, entity_id, payload, texts

from signalbook.codegen.base import Generated, GeneratorInput, generate, read_input
from signalbook.documents import read_source
from signalbook.messages.definitions.definition import declare_options

MODULES = Path(sys.prefix) / "brokers" / "asyncapi"
PARSE = """
const {Parser} = require("@asyncapi/parser");
new Parser().parse(require("fs").readFileSync(0, "utf8")).then(({diagnostics, document}) => console.log(JSON.stringify({
  faults: diagnostics.filter(d => d.severity < 2).map(d => [d.path.join("."), d.message]),
  messages: document && document.allMessages().all().map(m => m.name()),
})));
"""


def parsed(content: bytes) -> dict[str, Any]:
    ran = subprocess.run(["node", "-e", PARSE], input=content, capture_output=True, cwd=MODULES, check=True)
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


@pytest.mark.merge
def test_parser_accepts_the_document(make: Make) -> None:
    generated = make("asyncapi")
    result = parsed(generated.files[0].content)
    assert result["faults"] == []
    assert sorted(result["messages"]) == sorted({xid.rpartition("/")[2] for xid in generated.files[0].xids})


def test_endpoints_are_servers_channels_and_operations(make: Make) -> None:
    document = yaml.safe_load(make("asyncapi").files[0].content)
    assert document["servers"]["in"] == {
        "host": "in.example:8443", "protocol": "https", "pathname": "/{tenant}/orders", "variables": {"tenant": {}},
    }  # fmt: skip
    assert document["servers"]["out_2"] == {"host": "b:1", "protocol": "kafka"}
    rides = next(entry for entry in document["channels"].values() if entry["address"] == "rides.{city}")
    assert rides["parameters"] == {"city": {}}
    assert rides["servers"] == [{"$ref": "#/servers/out"}, {"$ref": "#/servers/out_2"}]
    assert {entry["action"] for entry in document["operations"].values()} == {"send", "receive"}
    assert b"secret" not in make("asyncapi").files[0].content


def test_attributes_are_headers(make: Make) -> None:
    document = yaml.safe_load(make("asyncapi").files[0].content)
    headers = document["components"]["messages"]["order_placed"]["headers"]
    assert headers["required"] == ["ce-specversion", "ce-id", "ce-source", "ce-type"]
    assert headers["properties"]["ce-type"] == {"type": "string", "const": "placed"}


HEADERS: dict[str, Any] = {
    "kafka": {"protocol": "KAFKA", "protocoloptions": {"topic": "t", "key": "{city}/x", "headers": {
        "kind": {"value": "a"}, "city": {"type": "uritemplate", "value": "{city}", "required": True},
        "since": {"type": "timestamp"}, "n": {"type": "integer", "value": 3}}}},
    "http": {**EVENT, "protocol": "HTTP", "protocoloptions": {"method": "PUT", "path": "/x", "headers": [
        {"name": "X-Kind", "value": "a", "required": True}]}},
    "nats": {"protocol": "NATS", "protocoloptions": {"subject": "s", "headers": [{"name": "Kind", "value": "a"}]}},
    "mqtt": {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "t", "qos": 1, "retain": True,
        "user_properties": [{"name": "Kind", "value": "a"}]}},
    "amqp": {"protocol": "AMQP/1.0", "protocoloptions": {
        "properties": {"to": {"type": "uritemplate", "value": "q/{n}"}},
        "application-properties": {"level": {"type": "integer", "value": 5}, "ok": {"type": "boolean"}}}},
}  # fmt: skip


def test_headers_of_protocols(read: Callable[..., GeneratorInput], tmp_path: Path) -> None:
    """The headers, keys, methods and qualities of service are written, and an import restores them."""
    endpoints = {
        name: {
            "usage": ["producer"],
            "protocol": header_message["protocol"],
            "messagegroups": [f"/messagegroups/{name}"],
        }
        for name, header_message in HEADERS.items()
    }
    groups = {name: {"messages": {name: header_message}} for name, header_message in HEADERS.items()}
    input_ = read("asyncapi", {"messagegroups": groups, "endpoints": endpoints})
    path = tmp_path / "asyncapi.yaml"
    path.write_bytes(generate(input_).files[0].content)
    assert parsed(path.read_bytes())["faults"] == []
    document = yaml.safe_load(path.read_bytes())
    messages = document["components"]["messages"]
    assert messages["http"]["headers"]["required"] == ["ce-specversion", "ce-id", "ce-source", "ce-type", "X-Kind"]
    assert messages["kafka"]["headers"]["properties"]["n"] == {"type": "integer", "const": 3}
    assert document["operations"]["send-http"]["bindings"] == {"http": {"method": "PUT"}}
    back = read_input("asyncapi", str(path), (), {})
    for name in HEADERS:
        before, after = (
            next(
                header_message.definition
                for xid, header_message in source.messages.items()
                if xid.endswith(f"/messages/{name}")
            )
            for source in (input_, back)
        )
        protocol = HEADERS[name]["protocol"]
        expected = declare_options(protocol, before["protocoloptions"])
        assert declare_options(protocol, after["protocoloptions"]) == expected


def test_references_to_other_documents_are_omitted(make: Make) -> None:
    schemas = DOCUMENT["schemagroups"] | {"g": {"schemas": {"a": {"versions": {"1": {
        "format": "JsonSchema/draft-07", "schema": {"type": "string"}}}}}}}  # fmt: skip
    refers = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"$ref": "/schemagroups/g/schemas/a"}}
    group = {"messages": {"far": refers, "near": {**refers, "dataschema": {"type": "string"}}}}
    generated = make("asyncapi", {"messagegroups": {"shop.orders": group}, "schemagroups": schemas})
    assert list(generated.left_out) == [GROUP + "far"]
    assert "/schemagroups/g/schemas/a" in generated.left_out[GROUP + "far"]
    assert generated.files[0].xids == (GROUP + "near",)


def test_document_can_be_imported(read: Callable[..., GeneratorInput], tmp_path: Path) -> None:
    """Definitions, schemas and endpoints come back, but for what AsyncAPI has no words for."""
    input_ = read("asyncapi")
    path = tmp_path / "asyncapi.yaml"
    path.write_bytes(generate(input_).files[0].content)
    source = read_source(path)
    assert [(repair.path, repair.rule) for repair in source.repairs] == [("/info", "AS-2")]
    back = read_input("asyncapi", str(tmp_path / "asyncapi.yaml"), (), {})
    assert back.messages.keys() == input_.messages.keys()
    for xid, definition in input_.messages.items():
        other = back.messages[xid]
        assert said(other.definition) == said(definition.definition), xid
        assert other.protocol == definition.protocol, xid
        assert (other.schema_use.schema is None) == (definition.schema_use.schema is None), xid
        if other.schema_use.schema is not None and definition.schema_use.schema is not None:
            assert other.schema_use.schema.format == definition.schema_use.schema.format, xid
            assert other.schema_use.link == definition.schema_use.link, xid
            before, after = input_.document(definition), back.document(other)
            assert before is not None
            assert after is not None
            assert structure(after.content) == structure(before.content), xid
    assert back.endpoints["/endpoints/in"]["usage"] == ["producer"]
    assert back.endpoints["/endpoints/out"]["messagegroups"] == ["/messagegroups/shop.orders"]
    addresses = back.endpoints["/endpoints/out"]["protocoloptions"]["endpoints"]
    assert addresses == [{"bootstrap.servers": ["kafka.example:9092"]}, {"bootstrap.servers": ["b:1"]}]
    # And what is generated of it is the same, but for names and the options of endpoints that became messages' own.
    again = yaml.safe_load(generate(back).files[0].content)
    assert again["components"]["messages"].keys() == yaml.safe_load(path.read_bytes())["components"]["messages"].keys()


def said(definition: Mapping[str, Any]) -> dict[str, Any]:
    names = ("description", "name", "envelope", "envelopemetadata", "protocoloptions")
    return {name: definition[name] for name in names if name in definition}


def structure(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=texts())
def test_hostile_texts_are_data(make: Make, texts: list[str]) -> None:
    check_texts(make("asyncapi", document(texts)), texts)


def test_every_kind_of_hostile_text_is_data(make: Make) -> None:
    """Also to the library that AsyncAPI's own parser reads YAML with, which is of version 1.2."""
    generated = make("asyncapi", document(HOSTILE))
    check_texts(generated, HOSTILE)
    script = 'console.log(JSON.stringify(require("js-yaml").load(require("fs").readFileSync(0, "utf8"))))'
    content = generated.files[0].content
    ran = subprocess.run(["node", "-e", script], input=content, capture_output=True, cwd=MODULES, check=True)
    assert json.loads(ran.stdout) == yaml.load(content, yaml.CSafeLoader)


def check_texts(generated: Generated, texts: Sequence[str]) -> None:
    """Look for the texts in everything that a message says, and for endpoints."""
    document = yaml.load(generated.files[0].content, yaml.CSafeLoader)
    assert document["info"]["title"] == document["info"]["description"] == texts[0]
    messages = {message["name"]: message for message in document["components"]["messages"].values()}
    schemas = {name: schema["schema"] for name, schema in document["components"]["schemas"].items()}
    assert schemas[messages["all"]["payload"]["$ref"].rpartition("/")[2]] == payload(texts)
    channels = {channel.get("x-xid"): channel["address"] for channel in document["channels"].values()}
    for text in texts:
        message = messages[entity_id(text)]
        assert (message["title"], message["description"]) == (text, text)
        assert text in message["headers"]["properties"][text].values()  # as a constant or a template
        assert schemas[message["payload"]["$ref"].rpartition("/")[2]] == payload([text])
        assert f"/endpoints/e{entity_id(text)}" in channels
