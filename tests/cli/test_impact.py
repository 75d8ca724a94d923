import json
from pathlib import Path

import pytest

from .conftest import Cli

YAML = b"""
schemagroups:
  g:
    schemas:
      s: {format: JsonSchema/draft-07, schema: {properties: {own: {type: string}}}}
      t: {format: JsonSchema/draft-07, schema: {properties: {of: {$ref: /schemagroups/g/schemas/s}}}}
messagegroups:
  m:
    messages:
      one: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/s}
      two: {basemessage: /messagegroups/m/messages/one}
"""


def test_a_tree(cli: Cli, where: list[str]) -> None:
    ran = cli("impact", "/schemagroups/g/schemas/s", *where)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "/schemagroups/g/schemas/s",
        "  /messagegroups/m/messages/one  (dataschema)",
        "    /messagegroups/m/messages/two  (basemessage)",
        "  /schemagroups/g/schemas/t  (schema)",
    ]


def test_json(cli: Cli, where: list[str]) -> None:
    impact = json.loads(cli("impact", "/schemagroups/g/schemas/s", "--depth", "1", "--json", *where).out)
    dependents = [dependent["xid"] for dependent in impact["dependents"]]
    assert dependents == ["/messagegroups/m/messages/one", "/schemagroups/g/schemas/t"]
    assert not impact["complete"]


def test_unknown_schema_is_an_error(cli: Cli, where: list[str]) -> None:
    assert cli("impact", "/schemagroups/g/schemas/none", *where).ended(1, "/schemagroups/g/schemas/none")


def test_a_change_is_tried(cli: Cli, where: list[str], tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"properties": {"own": {"type": "integer"}}}')
    ran = cli("impact", "/schemagroups/g/schemas/s", "--candidate", str(file), *where)
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == f"accepted  {file}", "the schema has no rule"
    for line in (
        "breaks  /schemagroups/g/schemas/s",
        "  breaks  /messagegroups/m/messages/one  (dataschema)",
        "    breaks  /messagegroups/m/messages/two  (basemessage)",
        "  breaks  /schemagroups/g/schemas/t  (schema)",
        "    type_changed  /schemagroups/g/schemas/t/versions/1#/schemagroups/g/schemas/s#/properties/own/type",
    ):
        assert line in lines, ran.out
    file.write_text('{"properties": {"own": {"type": ["string", "null"]}}}')
    ran = cli("impact", "/schemagroups/g/schemas/s", "--candidate", str(file), "--json", *where)
    assert (ran.code, json.loads(ran.out)["safe"]) == (0, True), ran.out
    ran = cli("impact", "/schemagroups/g/schemas/s/versions/1", "--candidate", "-", *where, stdin=b"{")
    assert ran.code == 1
    assert ran.out.startswith("refused  -\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["/schemagroups/g/schemas/s", "--format", "Avro/1.11"],
        ["/schemagroups/g/schemas/s", "--compatibility", "full"],
        ["/schemagroups/g", "--candidate", "-"],
        ["/schemagroups/g/schemas/s", "--candidate", "-", "--depth", "2"],
    ],
)
def test_conflicting_options_are_rejected(cli: Cli, arguments: list[str]) -> None:
    assert cli("impact", *arguments, stdin=b"{}").code == 2
