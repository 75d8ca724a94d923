"""``signalbook register``: one line for a schema."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from signalbook.values import JSONObject

USER = {"type": "record", "name": "User", "namespace": "com.acme", "fields": [{"name": "id", "type": "long"}]}
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://acme.example/schemas/order.json",
    "title": "An order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
}
PROTO = 'syntax = "proto3";\nmessage Ping { string text = 1; }\n'
XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:string"/></xs:schema>'


@pytest.fixture
def files() -> dict[str, str]:
    """A schema of each format, in the current folder; what it becomes."""
    Path("user.avsc").write_text(json.dumps(USER))
    Path("plain.json").write_text(json.dumps(USER | {"name": "Plain"}))
    Path("any.json").write_text(json.dumps(ORDER))
    Path("ping v1.proto").write_text(PROTO)
    Path("a.xsd").write_text(XSD)
    names = {"user.avsc": "com.acme.User", "plain.json": "com.acme.Plain", "any.json": "order"}
    return {**names, "ping v1.proto": "ping-v1", "a.xsd": "a"}


def test_formats_and_ids_are_in_the_files(cli: Cli, server: str, files: dict[str, str]) -> None:
    ran = cli("register", *files, "--group", "acme", "--server", server)
    assert (ran.code, ran.err) == (0, "")
    xids = [f"/schemagroups/acme/schemas/{name}/versions/1" for name in files.values()]
    assert [line.split()[1] for line in ran.out.splitlines()] == xids
    for file, name in files.items():
        schema = cli("get", f"/schemagroups/acme/schemas/{name}", "--server", server, "--json").out
        assert json.loads(schema)["formatvalidated"] is True, file
    assert json.loads(schema)["contenttype"] == "application/xml"
    again = cli("register", *files, "--group", "acme", "--server", server, "--json")
    assert {row["action"] for row in json.loads(again.out)["registered"]} == {"unchanged"}


def test_the_next_version(cli: Cli, target: tuple[str, ...], files: dict[str, str]) -> None:
    """The next version must satisfy the rule of the schema; the rejection has the message of the check."""
    command = ("register", "user.avsc", "--group", "rules", *target)
    assert cli(*command, "--compatibility", "backward").code == 0
    wider = USER | {"fields": [*USER["fields"], {"name": "mail", "type": "string", "default": ""}]}
    Path("user.avsc").write_text(json.dumps(wider))
    ran = cli(*command)
    assert "/schemagroups/rules/schemas/com.acme.User/versions/2" in ran.out
    assert "compared by the rule backward" in ran.out
    Path("user.avsc").write_text(json.dumps(USER | {"fields": [{"name": "id", "type": "string"}]}))
    ran = cli(*command)
    assert (ran.code, "refused  user.avsc" in ran.out) == (1, True)
    assert "long" in ran.out
    assert "versions/3" not in cli("get", "/schemagroups/rules/schemas/com.acme.User/versions", *target).out


def test_folder_cannot_be_registered(cli: Cli) -> None:
    Path("schemas").mkdir()
    ran = cli("register", "schemas", "--group", "acme", "--db", "sqlite:///book.db")
    assert ran.reported(1, "schemas is a folder: name the schema files in it (signalbook import takes folders)")


def test_without_a_rule_nothing_is_compared(cli: Cli, server: str, files: dict[str, str]) -> None:
    command = ("register", "user.avsc", "--group", "free", "--server", server)
    cli(*command)
    Path("user.avsc").write_text(json.dumps(USER | {"fields": []}))
    assert "compared with nothing: it has no rule" in cli(*command).out


REFERRING = {"$id": "https://example.org/order", "properties": {"a": {"$ref": "address"}}}


def draft(document: JSONObject) -> str:
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})


def test_referenced_files_are_registered_first(cli: Cli) -> None:
    Path("order.json").write_text(draft(REFERRING))
    Path("address.json").write_text(draft({"$id": "https://example.org/address"}))
    Path("Order.avsc").write_text('{"type":"record","name":"a.Order","fields":[{"name":"b","type":"a.B"}]}')
    Path("B.avsc").write_text('{"type":"record","name":"a.B","fields":[]}')
    order = ("order.json", "Order.avsc", "address.json", "B.avsc")
    ran = cli("register", *order, "--group", "g", "--db", "sqlite:///r.db")
    assert (ran.code, "not validated" in ran.out) == (0, False), ran.err
    assert ran.out.index("schemas/address") < ran.out.index("schemas/order")
    assert ran.out.index("schemas/a.B") < ran.out.index("schemas/a.Order")


def test_uncomparable_version_is_reported(cli: Cli) -> None:
    """A reference leads nowhere, so that nobody knows what the schema allows."""
    where = ["--group", "g", "--db", "sqlite:///r.db"]
    Path("order.json").write_text(draft(REFERRING))
    ran = cli("register", "order.json", "--compatibility", "backward", *where)
    assert (ran.code, "not validated: cannot use https://example.org/address" in ran.out) == (0, True), ran.err
    Path("order.json").write_text(draft({**REFERRING, "maxProperties": 1}))
    ran = cli("register", "order.json", "--json", *where)
    (row,) = json.loads(ran.out)["registered"]
    assert (row["action"], row["rule"]) == ("updated", "")
    assert row["unchecked"].startswith("not compared: Version")
    Path("order.json").write_text(draft({**REFERRING, "maxProperties": 2}))
    assert "compared by the rule" not in cli("register", "order.json", *where).out


def test_standard_input_and_other_ids(cli: Cli, server: str) -> None:
    stdin = PROTO.encode()
    command = ("register", "-", "--group", "piped", "--server", server)
    assert cli(*command, stdin=stdin).ended(2, "--id")
    ran = cli(*command, "--id", "ping", "--format", "Protobuf/3", stdin=stdin)
    assert "/schemagroups/piped/schemas/ping/versions/1" in ran.out
    assert cli(*command, "--id", "no id", stdin=stdin).code == 2


def test_file_gets_the_format_of_the_schema(cli: Cli, server: str) -> None:
    """The Versions of a schema have one format, whatever format the file resembles."""
    Path("user.avsc").write_text(json.dumps(USER))
    command = ("register", "user.avsc", "--group", "older", "--server", server)
    assert "(Avro/1.11)" in cli(*command, "--format", "Avro/1.11").out
    Path("user.avsc").write_text(json.dumps(USER | {"doc": "A user."}))
    assert "versions/2 (Avro/1.11" in cli(*command).out


def test_added_version_is_named_with_a_sticky_default(cli: Cli, target: tuple[str, ...]) -> None:
    command = ("register", "user.avsc", "--group", "sticky", *target)
    Path("user.avsc").write_text(json.dumps(USER))
    cli(*command)
    meta = {"schemaid": "com.acme.User", "meta": {"defaultversionid": "1", "defaultversionsticky": True}}
    Path("meta.json").write_text(json.dumps(meta))
    to = "/schemagroups/sticky/schemas/com.acme.User"
    assert cli("import", "meta.json", "--to", to, *target).code == 0
    Path("user.avsc").write_text(json.dumps(USER | {"doc": "A user."}))
    assert f"{to}/versions/2" in cli(*command).out
    assert cli(*command).out.strip() == f"unchanged  {to}/versions/2"


def test_every_file_has_its_result(cli: Cli, server: str) -> None:
    Path("bad.avsc").write_text('{"type": "record", "name": "Bad"}')
    Path("user.avsc").write_text(json.dumps(USER))
    command = ("register", "bad.avsc", "user.avsc", "--group", "mixed", "--server", server)
    ran = cli(*command)
    assert (ran.code, "refused  bad.avsc" in ran.out) == (1, True)
    assert "registered /schemagroups/mixed/schemas/com.acme.User/versions/1" in ran.out
    ran = cli(*command, "--json")
    assert ran.code == 1
    rows = json.loads(ran.out)["registered"]
    assert [row["action"] for row in rows] == ["refused", "unchanged"]
    assert rows[0]["errors"][0]["type"].endswith("#format_violation")


def test_a_broken_schema(cli: Cli, server: str) -> None:
    Path("x.avsc").write_text('{"type": "record", "name": "X"}')
    ran = cli("register", "x.avsc", "--group", "broken", "--server", server)
    assert ran.code == 1
    assert "fields" in ran.out + ran.err
    assert cli("get", "/schemagroups/broken", "--server", server).code == 1


def test_unknown_format_registers_nothing(cli: Cli, server: str) -> None:
    """The error is found before the first file is sent."""
    Path("user.avsc").write_text(json.dumps(USER))
    Path("plain.json").write_text("{}")
    ran = cli("register", "user.avsc", "plain.json", "--group", "whole", "--server", server)
    assert (ran.code, "plain.json: the file does not show its format" in ran.err) == (1, True)
    assert "--format" in ran.err
    assert "JsonSchema/draft-07" in ran.err
    assert cli("get", "/schemagroups/whole", "--server", server).code == 1


def test_the_servers_default_rule(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server, the rule of the environment is the default."""
    monkeypatch.setenv("SIGNALBOOK_DEFAULT_COMPATIBILITY", "backward")
    Path("user.avsc").write_text(json.dumps(USER))
    assert cli("register", "user.avsc", "--group", "g").code == 0
    Path("user.avsc").write_text(json.dumps(USER | {"fields": [*USER["fields"], {"name": "x", "type": "string"}]}))
    ran = cli("register", "user.avsc", "--group", "g")
    assert (ran.code, "refused  user.avsc" in ran.out, "default_missing" in ran.out) == (1, True, True)
