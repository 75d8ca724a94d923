"""Would it be accepted, and if not, why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from signalbook.client import Client

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
NEW = {"type": "record", "name": "Order", "fields": [*OLD["fields"], {"name": "total", "type": "double"}]}
S = "/schemagroups/check/schemas/order"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    for name, content in (("old.avsc", OLD), ("new.avsc", NEW)):
        (tmp_path / name).write_text(json.dumps(content))


def verdict(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    return body


@pytest.mark.parametrize(("rule", "code"), [(None, 1), ("backward", 1), ("forward", 0), ("FULL", 1)])
def test_two_files(cli: Cli, rule: str | None, code: int) -> None:
    """No registry is asked; the rule is backward unless told."""
    given = [] if rule is None else ["--compatibility", rule]
    ran = cli("check", "new.avsc", "--against", "old.avsc", *given)
    assert ran.code == code, ran.err
    assert ran.out.startswith("refused  new.avsc" if code else "accepted  new.avsc")
    assert ("new.avsc#Order.total" in ran.out) is bool(code)
    assert list(Path().glob("*.db")) == []


def test_two_files_as_json(cli: Cli) -> None:
    ran = cli("check", "new.avsc", "--against", "old.avsc", "--json")
    body = verdict(ran.out)
    assert (ran.code, body["accepted"]) == (1, False)
    ((row,), (error,)) = body["checked"], body["checked"][0]["errors"]
    assert (row["source"], error["args"], error["status"]) == ("new.avsc", {"compat": "backward"}, 400)
    assert error["faults"][0]["new"] == "double"


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.json", '{"$schema": "http://json-schema.org/draft-07/schema#"}', "JsonSchema/draft-07"),
        ("a.json", '{"$schema": "https://json-schema.org/draft/2020-12/schema"}', "JsonSchema/draft/2020-12"),
        ("a.proto", 'syntax = "proto2";', "Protobuf/2"),
        ("a.proto", 'syntax = "proto3";', "Protobuf/3"),
        ("a.AVSC", "{}", "Avro/1.12.0"),
        ("a.xsd", "<x/>", "XSD/1.1"),
        ("a.json", "{}", ""),
        ("a.txt", "nothing", ""),
        ("a.json", "[1]", ""),
    ],
)
def test_formats_by_name_and_words(name: str, content: str, format: str) -> None:
    from signalbook.cli.files import guess_format

    assert guess_format(name, content.encode()) == format


def test_formats_nobody_knows(cli: Cli) -> None:
    Path("a.json").write_text("{}")
    ran = cli("check", "a.json", "--against", "./a.json")
    assert (ran.code, "--format" in ran.err) == (1, True)
    ran = cli("check", "a.json", "--against", "./a.json", "--format", "Nope/1")
    assert "cannot be compared" in ran.err


def test_a_schema_that_is_none(cli: Cli) -> None:
    Path("bad.avsc").write_text('{"type": "nonsense"}')
    ran = cli("check", "bad.avsc", "--against", "old.avsc")
    assert ran.code == 1
    assert 'non-compliant with its "format"' in ran.out


def test_against_a_database(cli: Cli, tmp_path: Path) -> None:
    """The rule is the schema's own; another one may be tried."""
    body = {"schemagroups": {"check": {"schemas": {"order": {"meta": {"compatibility": "backward"}, "versions": {
        "1": {"schema": OLD, "format": "Avro/1.11"}}}}}}}  # fmt: skip
    Path("r.json").write_text(json.dumps(body))
    assert cli("import", "r.json").code == 0
    ran = cli("check", "new.avsc", "--against", S)
    assert (ran.code, f"{S}/versions/2#Order.total" in ran.out) == (1, True)
    assert cli("check", "new.avsc", "--against", S, "--compatibility", "forward").code == 0
    ran = cli("check", "-", "--against", S, "--json", stdin=json.dumps(OLD).encode())
    assert {"xid": f"{S}/versions/2", "entity": "version", "action": "created", "changed": []} in (
        verdict(ran.out)["checked"][0]["changes"]
    )
    assert "versions/2" not in cli("export", S).out


def test_against_a_server(cli: Cli, server: str) -> None:
    with Client(server) as client:
        client.put_document(S, json.dumps(OLD).encode(), attributes={"format": "Avro/1.11"})
        client.patch(f"{S}/meta", {"compatibility": "full"})
        ran = cli("check", "new.avsc", "--against", S, "--server", server)
        assert (ran.code, "reading data of Version" in ran.out) == (1, True)
        assert cli("check", "new.avsc", "--against", S, "--server", server, "--compatibility", "forward").code == 0
        Path("noname").write_text(json.dumps(OLD))
        assert cli("check", "noname", "--against", S, "--server", server).code == 0
        Path("noname").write_text('"string"')
        ran = cli("check", "noname", "--against", f"{S}x", "--server", server)
        assert (ran.code, "--format" in ran.err) == (1, True)
        Path("r.json").write_text(json.dumps({"schemagroups": {"check2": {}}}))
        assert "/schemagroups/check2 would be created" in cli("check", "r.json", "--server", server).out
        assert client.get(S)["versionscount"] == 1
        assert "check2" not in client.get("/schemagroups")


def test_documents_offline(cli: Cli) -> None:
    """A new registry with the default model; findings are told, and count with --strict."""
    Path("r.json").write_text(json.dumps({"endpoints": {"e": {"usage": ["producer", "consumer"]}}}))
    ran = cli("check", "r.json", "--offline")
    assert (ran.code, "/endpoints/e#usage" in ran.out, "/endpoints/e would be created" in ran.out) == (0, True, True)
    ran = cli("check", "r.json", "--offline", "--strict", "--json")
    assert (ran.code, verdict(ran.out)["accepted"]) == (1, False)
    assert list(Path().glob("*.db")) == []


def test_a_folder_builds_on_its_model(cli: Cli) -> None:
    """I-2: as import reads it, models first."""
    folder = Path("folder")
    folder.mkdir()
    (folder / "z-model.json").write_text(json.dumps({"groups": {"dirs": {"singular": "dir"}}}))
    (folder / "a.json").write_text(json.dumps({"dirs": {"d": {}}}))
    ran = cli("check", folder, "--offline")
    assert (ran.code, "/dirs/d would be created" in ran.out) == (0, True)
    (folder / "b.json").write_text(json.dumps({"dirs": {"e": {"nope": 1}}}))
    ran = cli("check", folder, "--offline")
    assert (ran.code, "unknown attribute" in ran.out, f"in {folder / 'b.json'}" in ran.out) == (1, True, True)
    body = verdict(cli("check", folder, "--offline", "--json").out)
    assert body["checked"][0]["files"] == [str(folder / "b.json")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["new.avsc", "--compatibility", "full"], "--against"),
        (["new.avsc", "--against", "/schemagroups/g"], "names no schema"),
        (["new.avsc", "--against", "/a//b"], "no xid"),
        (["new.avsc", "--against", S, "--offline", "--db", "sqlite://"], "give one of"),
        (["new.avsc", "--against", "old.avsc", "--compatibility", "sideways"], "backward"),
    ],
)
def test_command_lines_that_are_wrong(cli: Cli, arguments: list[str], told: str) -> None:
    ran = cli("check", *arguments)
    assert (ran.code, told in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("arguments", [["gone.avsc", "--against", "old.avsc"], ["new.avsc", "--against", "gone.avsc"]])
def test_files_that_are_not_there(cli: Cli, arguments: list[str]) -> None:
    ran = cli("check", *arguments)
    assert (ran.code, "gone.avsc: cannot be read" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "count"), [("contoso-erp-jsons07", 16), ("lightbulb-avro", 0), ("mqtt-sparkplugB", 16), ("workshop", 2)]
)
def test_the_samples(cli: Cli, sample_file: Callable[[str], Path], name: str, count: int) -> None:
    """I-7"""
    ran = cli("check", sample_file(f"{name}.xreg.json"), "--offline", "--json")
    assert ran.code == 0
    found = verdict(ran.out)["checked"][0]["findings"]
    assert sum(finding["rule"] != "not_validated" for finding in found) == count
