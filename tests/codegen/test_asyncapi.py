"""AsyncAPI documents, held to AsyncAPI's own parser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from tests.codegen.conftest import DOCUMENT, GROUP, Make

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
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_parser_takes_it(make: Make) -> None:
    generated = make("asyncapi")
    found = parsed(generated.files[0].content)
    assert found["faults"] == []
    assert sorted(found["messages"]) == sorted({xid.rpartition("/")[2] for xid in generated.files[0].xids})


def test_endpoints_are_servers_channels_and_operations(make: Make) -> None:
    made = yaml.safe_load(make("asyncapi").files[0].content)
    assert made["servers"]["in"] == {
        "host": "in.example:8443", "protocol": "https", "pathname": "/{tenant}/orders", "variables": {"tenant": {}},
    }  # fmt: skip
    assert made["servers"]["out_2"] == {"host": "b:1", "protocol": "kafka"}
    rides = next(each for each in made["channels"].values() if each["address"] == "rides.{city}")
    assert rides["parameters"] == {"city": {}}
    assert rides["servers"] == [{"$ref": "#/servers/out"}, {"$ref": "#/servers/out_2"}]
    assert {each["action"] for each in made["operations"].values()} == {"send", "receive"}
    assert b"secret" not in make("asyncapi").files[0].content


def test_attributes_are_headers(make: Make) -> None:
    made = yaml.safe_load(make("asyncapi").files[0].content)
    headers = made["components"]["messages"]["order_placed"]["headers"]
    assert headers["required"] == ["ce-specversion", "ce-id", "ce-source", "ce-type"]
    assert headers["properties"]["ce-type"] == {"type": "string", "const": "placed"}


def test_references_to_other_documents_are_left_out(make: Make) -> None:
    schemas = DOCUMENT["schemagroups"] | {"g": {"schemas": {"a": {"versions": {"1": {
        "format": "JsonSchema/draft-07", "schema": {"type": "string"}}}}}}}  # fmt: skip
    refers = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"$ref": "/schemagroups/g/schemas/a"}}
    group = {"messages": {"far": refers, "near": {**refers, "dataschema": {"type": "string"}}}}
    found = make("asyncapi", {"messagegroups": {"shop.orders": group}, "schemagroups": schemas})
    assert list(found.left_out) == [GROUP + "far"]
    assert "/schemagroups/g/schemas/a" in found.left_out[GROUP + "far"]
    assert found.files[0].xids == (GROUP + "near",)
