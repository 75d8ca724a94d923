"""Would it be accepted, and if not, why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, commit, git

from signalbook.cli.schemafiles import SchemaFile
from signalbook.client import Client
from signalbook.values import JSONObject

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
NEW = {"type": "record", "name": "Order", "fields": [*OLD["fields"], {"name": "total", "type": "double"}]}
S = "/schemagroups/check/schemas/order"
EVENT = {"envelope": "CloudEvents/1.0", "dataschemaformat": "JsonSchema/draft-07", "dataschema": {}}
SUBJECT = {"type": "uritemplate", "value": "orders/{"}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    for name, content in (("old.avsc", OLD), ("new.avsc", NEW)):
        (tmp_path / name).write_text(json.dumps(content))


def verdict(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    return body


@pytest.mark.parametrize(("rule", "code"), [(None, 1), ("backward", 1), ("forward", 0), ("FULL", 1)])
def test_two_files(cli: Cli, rule: str | None, code: int) -> None:
    """The command uses no registry; the rule is backward by default."""
    options = [] if rule is None else ["--compatibility", rule]
    ran = cli("check", "new.avsc", "--against", "old.avsc", *options)
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
        ("a.json", '{"$schema": "https://json-structure.org/meta/core/v0/#"}', "JsonStructure/draft-04"),
        ("a.proto", 'syntax = "proto2";', "Protobuf/2"),
        ("a.proto", 'syntax = "proto3";', "Protobuf/3"),
        ("a.AVSC", "{}", "Avro/1.12.0"),
        ("a.xsd", "<x/>", "XSD/1.1"),
        ("a.json", '{"type": "object", "properties": {}}', "JsonSchema/draft/2020-12"),
        ("a.json", '{"type": "array", "items": {}, "definitions": {}}', "JsonSchema/draft-07"),
        ("a.json", '{"$schema": "https://x.example/own", "type": "object", "properties": {}}', ""),
        ("a.json", '{"type": "object"}', ""),
        ("a.json", "{}", ""),
        ("a.txt", "nothing", ""),
        ("a.json", "[1]", ""),
        ("-", '// An order.\nsyntax = "proto3";\nmessage Order {}', "Protobuf/3"),
        ("-", 'edition = "2023";', "Protobuf"),
        ("-", 'edition /* year */ = "2024";', "Protobuf"),
        ("-", "edition = second", ""),
        ("-", "edition = 'second'", ""),
        ("-", "message Order {}", ""),
        ("-", '<?xml version="1.0"?><!-- a --><x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"/>', "XSD/1.1"),
        ("-", "<schema xmlns='http://www.w3.org/2001/XMLSchema' id='a'/>", "XSD/1.1"),
        ("-", '<order xmlns="http://www.w3.org/2001/XMLSchema"/>', ""),
        ("-", '<xs:schema\n  id="a" xmlns:b="urn:b"\n  xmlns:xs = "http://www.w3.org/2001/XMLSchema">', "XSD/1.1"),
        ("-", '<schema xmlns="http://purl.oclc.org/dsdl/schematron" xmlns:xs="http://www.w3.org/2001/XMLSchema"/>', ""),
        ("-", '<x:schema xmlns:x="urn:x" xmlns="http://www.w3.org/2001/XMLSchema"/>', ""),
        ("-", '<x:schema xmlns:x="urn:x" note="http://www.w3.org/2001/XMLSchema"/>', ""),
        ("-", "<schema " + "xmlns= " * 50_000, ""),
        ("-", "<schema" + " " * 50_000, ""),
        ("-", "<!--" * 50_000, ""),
        ("-", "[" * 50_000, ""),
    ],
)
def test_formats_by_name_and_words(name: str, content: str, format: str) -> None:
    from signalbook.documents import guess_format

    assert guess_format(name, content.encode()) == format


def test_unknown_formats_are_reported(cli: Cli) -> None:
    Path("a.json").write_text("{}")
    assert cli("check", "a.json", "--against", "./a.json").ended(1, "--format")
    ran = cli("check", "a.json", "--against", "./a.json", "--format", "Nope/1")
    assert "cannot be compared" in ran.err


def test_invalid_schema_is_rejected(cli: Cli) -> None:
    Path("bad.avsc").write_text('{"type": "nonsense"}')
    assert cli("check", "bad.avsc", "--against", "old.avsc").ended(1, out='non-compliant with its "format"')


def test_against_a_database(cli: Cli, tmp_path: Path) -> None:
    """The rule is the schema's own; another one may be tried."""
    order = {"meta": {"compatibility": "backward"}, "versions": {"1": {"schema": OLD, "format": "Avro/1.11"}}}
    Path("r.json").write_text(json.dumps({"schemagroups": {"check": {"schemas": {"order": order}}}}))
    assert cli("import", "r.json").code == 0
    assert cli("check", "new.avsc", "--against", S).ended(1, out=f"{S}/versions/2#Order.total")
    assert cli("check", "new.avsc", "--against", S, "--compatibility", "forward").code == 0
    ran = cli("check", "-", "--against", S, "--json", stdin=json.dumps(OLD).encode())
    created = {"xid": f"{S}/versions/2", "entity": "version", "action": "created", "changed": []}
    assert created in verdict(ran.out)["checked"][0]["changes"]
    assert "versions/2" not in cli("export", S).out


def test_against_a_server(cli: Cli, server: str) -> None:
    with Client(server) as client:
        client.put_document(S, json.dumps(OLD).encode(), attributes={"format": "Avro/1.11"})
        client.patch(f"{S}/meta", {"compatibility": "full"})
        assert cli("check", "new.avsc", "--against", S, "--server", server).ended(1, out="reading data of Version")
        assert cli("check", "new.avsc", "--against", S, "--server", server, "--compatibility", "forward").code == 0
        Path("noname").write_text(json.dumps(OLD))
        assert cli("check", "noname", "--against", S, "--server", server).code == 0
        Path("noname").write_text('"string"')
        assert cli("check", "noname", "--against", f"{S}x", "--server", server).ended(1, f"no {S}x")
        Path("r.json").write_text(json.dumps({"schemagroups": {"check2": {}}}))
        assert "/schemagroups/check2 would be created" in cli("check", "r.json", "--server", server).out
        assert client.get(S)["versionscount"] == 1
        assert "check2" not in client.get("/schemagroups")


def test_documents_offline(cli: Cli) -> None:
    """A new registry with the default model; findings are reported, and count with --strict."""
    message = {"basemessage": "/messagegroups/g/messages/gone", "envelope": "CloudEvents/1.0"}
    Path("r.json").write_text(json.dumps({"messagegroups": {"g": {"messages": {"m": message}}}}))
    ran = cli("check", "r.json", "--offline")
    messages_shown = "m/versions/1#basemessage" in ran.out, "/messagegroups/g would be created" in ran.out
    assert (ran.code, *messages_shown) == (0, True, True)
    ran = cli("check", "r.json", "--offline", "--strict", "--json")
    assert (ran.code, verdict(ran.out)["accepted"]) == (1, False)
    assert list(Path().glob("*.db")) == []


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"endpoints": {"e": {"usage": ["producer", "consumer"]}}}, "/endpoints/e#usage"),
        ({"messagegroups": {"g": {"messages": {"m": {**EVENT, "envelopemetadata": {"subject": SUBJECT}}}}}},
         "/messagegroups/g/messages/m/versions/1#envelopemetadata.subject.value"),
        ({"messagegroups": {"g": {"messages": {"m": {**EVENT, "dataschema": {"type": "objekt"}}}}}},
         "/messagegroups/g/messages/m/versions/1#dataschema/type"),
    ],
)  # fmt: skip
def test_unusable_definition_is_reported(cli: Cli, document: JSONObject, path: str) -> None:
    """A registry stores it, and a pipeline leaves it out: who asks before wants to know."""
    Path("r.json").write_text(json.dumps(document))
    ran = cli("check", "r.json", "--offline")
    assert (ran.code, ran.out.startswith("refused  r.json"), path in ran.out) == (1, True, True)
    body = verdict(cli("check", "r.json", "--offline", "--json").out)
    assert (body["accepted"], body["checked"][0]["accepted"]) == (False, True)
    assert cli("import", "r.json").code == 0


def test_a_folder_builds_on_its_model(cli: Cli) -> None:
    """The folder is read as by an import, models first (I-2)."""
    folder = Path("folder")
    folder.mkdir()
    (folder / "z-model.json").write_text(json.dumps({"groups": {"dirs": {"singular": "dir"}}}))
    (folder / "a.json").write_text(json.dumps({"dirs": {"d": {}}}))
    assert cli("check", folder, "--offline").ended(0, out="/dirs/d would be created")
    (folder / "b.json").write_text(json.dumps({"dirs": {"e": {"nope": 1}}}))
    ran = cli("check", folder, "--offline")
    assert (ran.code, "unknown attribute" in ran.out, f"in {folder / 'b.json'}" in ran.out) == (1, True, True)
    body = verdict(cli("check", folder, "--offline", "--json").out)
    assert body["checked"][0]["files"] == [str(folder / "b.json")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new.avsc", "--compatibility", "full"], "--against"),
        (["new.avsc", "--against", "/schemagroups/g"], "names no schema"),
        (["new.avsc", "--against", "/a//b"], "no xid"),
        (["new.avsc", "--against", S, "--offline", "--db", "sqlite://"], "give one of"),
        (["new.avsc", "--against", "old.avsc", "--compatibility", "sideways"], "backward"),
    ],
)
def test_invalid_options_are_rejected(cli: Cli, arguments: list[str], message: str) -> None:
    assert cli("check", *arguments).ended(2, message)


@pytest.mark.parametrize(
    ("name", "count"), [("contoso-erp-jsons07", 16), ("lightbulb-avro", 0), ("mqtt-sparkplugB", 16), ("workshop", 2)]
)
def test_the_samples(cli: Cli, sample_file: Callable[[str], Path], name: str, count: int) -> None:
    """The samples have the known number of findings (I-7)."""
    ran = cli("check", sample_file(f"{name}.xreg.json"), "--offline", "--json")
    assert ran.code == 0
    findings = verdict(ran.out)["checked"][0]["findings"]
    assert sum(finding["rule"] not in ("not_validated", "not_compared") for finding in findings) == count


FILE = {"schemaurl": "order.avsc", "format": "Avro/1.11"}
SHOP = {"schemagroups": {"check": {"schemas": {
    "order": {"meta": {"compatibility": "backward"}, "versions": {"1": FILE}},
    "free": {"versions": {"1": FILE}}}}}}  # fmt: skip
REPLACED = f"{S}/versions/1#Order.total"


@pytest.fixture
def shop() -> Path:
    """A folder with two schemas of one file, of which one has a rule."""
    folder = Path("shop")
    folder.mkdir()
    (folder / "shop.xreg.json").write_text(json.dumps(SHOP))
    (folder / "order.avsc").write_text(json.dumps(OLD, indent=3))
    return folder


@pytest.mark.parametrize("where", ["db", "server"])
def test_check_and_import_report_the_same_changes(
    cli: Cli, serve: Callable[..., str], shop: Path, tmp_path: Path, where: str
) -> None:
    """Check and import agree about unchanged documents, and about changes that the rule forbids."""
    target = ("--server", serve(db=f"sqlite:///{tmp_path}/s.db")) if where == "server" else ()
    assert cli("import", shop, *target).code == 0
    (checked,) = verdict(cli("check", shop, *target, "--json").out)["checked"]
    assert (checked["changes"], checked["findings"]) == ([], [])
    assert "updated" not in cli("import", shop, *target).err + cli("import", shop, *target, "--dry-run").err
    (shop / "order.avsc").write_text(json.dumps(NEW))
    (checked,) = verdict(cli("check", shop, *target, "--json").out)["checked"]
    free = "/schemagroups/check/schemas/free"
    changed = {row["xid"] for row in checked["changes"] if row["entity"] == "version"}
    assert changed == {f"{S}/versions/1", f"{free}/versions/1"}
    rules = [(finding["path"], finding["rule"], finding["severity"]) for finding in checked["findings"]]
    assert rules == [(REPLACED, "default_missing", "warning"), (f"{free}/meta#compatibility", "not_compared", "info")]
    assert cli("check", shop, *target).code == 0
    ran = cli("check", shop, *target, "--strict")
    assert (ran.code, REPLACED in ran.out, "nothing: it has no rule" in ran.out) == (1, True, True)
    for option in ((), ("--dry-run",)):
        ran = cli("import", shop, *target, "--strict", *option)
        assert (ran.code, REPLACED in ran.err, "shop.xreg.json" in ran.err) == (1, True, True)
    assert cli("get", S, *target, "--json").out.count('"epoch": 1') == 1
    ran = cli("import", shop, *target)
    assert (ran.code, REPLACED in ran.err, "updated 2 versions" in ran.err) == (0, True, True)
    (shop / "order.avsc").write_text(json.dumps(NEW, indent=1))
    finding = verdict(cli("import", shop, *target, "--json").out)["imported"][0]["findings"]
    assert [row["rule"] for row in finding] == ["not_compared"]


def test_incompatible_change_is_rejected_by_the_setting(cli: Cli, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOOK_INCOMPATIBLE_CHANGES", "reject")
    cli("import", shop)
    (shop / "order.avsc").write_text(json.dumps(NEW))
    ran = cli("import", shop)
    assert (ran.code, "backward" in ran.err, "shop.xreg.json" in ran.err) == (1, True, True)
    assert "refused  shop" in cli("check", shop).out


def test_against_a_folder(cli: Cli, shop: Path) -> None:
    before = Path("before")
    before.mkdir()
    for file in shop.iterdir():
        (before / file.name).write_bytes(file.read_bytes())
    (shop / "order.avsc").write_text(json.dumps(NEW))
    assert cli("check", shop, "--against", before, "--strict").ended(1, out=REPLACED)
    assert cli("check", shop / "shop.xreg.json", "--against", before / "shop.xreg.json", "--strict").code == 1
    assert cli("check", before, "--against", before, "--strict").out.startswith("accepted  before")
    assert list(Path().glob("*.db")) == []


def test_against_a_url(cli: Cli, server: str) -> None:
    with Client(server) as client:
        client.put_document(f"{S}-url", json.dumps(OLD).encode(), attributes={"format": "Avro/1.11"})
    url = f"{server}{S}-url"
    assert cli("check", "new.avsc", "--against", url).ended(1, out="new.avsc#Order.total")
    assert cli("check", "old.avsc", "--against", url).code == 0


def test_against_a_git_revision(cli: Cli, shop: Path) -> None:
    git("init", "-q")
    for source in (shop, "new.avsc"):
        assert cli("check", source, "--against", "git:HEAD", "--strict").code == 0, "there is no commit yet"
    commit("shop")
    (shop / "order.avsc").write_text(json.dumps(NEW))
    ran = cli("check", shop / "order.avsc", "new.avsc", "--against", "git:HEAD")
    assert (ran.code, "order.avsc#Order.total" in ran.out) == (1, True)
    assert "accepted  new.avsc" in ran.out
    assert "compared with nothing: git has none at HEAD" in ran.out
    for source in (shop, shop / "shop.xreg.json"):
        assert cli("check", source, "--against", "git:HEAD", "--strict").ended(1, out=REPLACED)


def test_a_file_of_a_folder_that_cannot_be_compared_hides_no_other(cli: Cli) -> None:
    Path("schemas").mkdir()
    lost = Path("schemas/lost.json")
    for name, content in (("order.avsc", OLD), ("lost.json", {"$schema": "http://json-schema.org/draft-07/schema#"})):
        Path("schemas", name).write_text(json.dumps(content))
    commit("schemas")
    lost.write_text('{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "gone.json"}')
    Path("schemas/order.avsc").write_text(json.dumps(NEW))
    Path("schemas/api.xreg.json").write_text("{")
    ran = cli("check", "schemas", "--against", "git:HEAD")
    assert (ran.code, "refused  schemas/order.avsc" in ran.out) == (1, True), ran.err
    assert f"{lost} cannot be checked: " in ran.err
    assert "schemas/api.xreg.json" in ran.err


def test_hook_of_a_linked_worktree(cli: Cli, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git tells such a hook its repository by GIT_DIR, for which every folder is the topmost one."""
    commit("shop")
    (shop / "order.avsc").write_text(json.dumps(NEW))
    monkeypatch.setenv("GIT_DIR", str(Path(".git").resolve()))
    monkeypatch.setenv("GIT_INDEX_FILE", str(Path(".git/index").resolve()))
    assert cli("check", shop / "order.avsc", "--against", "git:HEAD", "--strict").ended(1, out="order.avsc#Order.total")


def test_symbolic_links_in_git_are_not_followed(cli: Cli, shop: Path) -> None:
    (shop / "out.avsc").symlink_to("/etc/passwd")
    commit("shop")
    (shop / "out.avsc").unlink()
    ran = cli("check", shop, "--against", "git:HEAD")
    assert (ran.code, "shop as it was (HEAD):" in ran.err) == (1, True)
    assert "fault" not in ran.err


def test_format_of_the_earlier_schema_is_kept(cli: Cli) -> None:
    """A schema need not repeat its format, as between files of one kind."""
    rules = {"type": "object", "properties": {"a": {"type": "integer"}}}
    draft = "http://json-schema.org/draft-04/schema#"
    Path("a.json").write_text(json.dumps({"$schema": draft, **rules}))
    commit("a.json")
    Path("a.json").write_text(json.dumps({**rules, "id": 5}))
    result = cli("check", "a.json", "--against", "git:HEAD")
    assert result.code == cli("check", "a.json", "--against", "git:HEAD", "--format", "JsonSchema/draft-04").code == 1


@pytest.mark.parametrize(
    ("source", "against", "message"),
    [
        ("new.avsc", f"{S}-gone", f"the registry has no {S}-gone, and there is no such file (--against)"),
        ("new.avsc", "gone.avsc", "--against gone.avsc: there is no such file or folder"),
        ("gone.avsc", "old.avsc", "gone.avsc: cannot be read"),
        ("shop", "gone", "--against gone: there is no such file or folder"),
        ("gone", "shop", "are not both"),
        ("gone", "git:HEAD", "gone: cannot be read"),
        ("shop", "old.avsc", "are not both schemas, or both documents"),
        ("shop", "{server}/gone", "the server answers 404"),
        ("new.avsc", "{server}/gone", "the server answers 404"),
        ("new.avsc", "git:nope", "git has no revision 'nope'"),
        ("shop", "git:--all", "git has no revision '--all'"),
    ],
)
def test_missing_counterpart_is_an_error(
    cli: Cli, server: str, shop: Path, source: str, against: str, message: str
) -> None:
    cli("import", shop)
    git("init", "-q")
    assert cli("check", source, "--against", against.format(server=server)).ended(1, message)


def test_without_a_rule_nothing_is_compared(cli: Cli, shop: Path) -> None:
    cli("import", shop)
    free = "/schemagroups/check/schemas/free"
    ran = cli("check", "new.avsc", "--against", free)
    assert (ran.code, 'Version "2" was compared with nothing: it has no rule' in ran.out) == (0, True)
    ran = cli("check", "new.avsc", "--against", free, "--compatibility", "full", "--strict")
    assert (ran.code, "compared with nothing" in ran.out) == (1, False)


def test_imports_of_files(cli: Cli) -> None:
    """Imports of a file are searched in the folder of the file and in its parent folders."""
    Path("protos/a").mkdir(parents=True)
    for name, kind in (("old", "Money"), ("new", "string")):
        text = f'syntax = "proto3"; import "a/money.proto"; message Order {{ {kind} m = 1; Money n = 2; }}'
        Path(f"protos/a/{name}.proto").write_text(text)
    ran = cli("check", "protos/a/new.proto", "--against", "protos/a/old.proto")
    assert (ran.code, "it imports 'a/money.proto', which is missing" in ran.err) == (1, True)
    Path("protos/a/money.proto").write_text('syntax = "proto3"; message Money { int32 units = 1; }')
    assert cli("check", "protos/a/new.proto", "--against", "protos/a/old.proto").ended(1, out="type_changed")
    assert cli("check", "protos/a/old.proto", "--against", "protos/a/old.proto").code == 0


def test_referenced_files_are_resolved(cli: Cli) -> None:
    """References are found by path, by $id and by the name of a type. References of the earlier schema are read
    from git.
    """
    address = {"type": "record", "name": "a.Address", "fields": [{"name": "zip", "type": "string"}]}
    fields = [{"name": "a", "type": "a.Address"}]
    files: dict[str, JSONObject] = {
        "avro/common/Address.avsc": address,
        "avro/orders/Order.avsc": {"type": "record", "name": "a.Order", "fields": fields},
        "json/common/address.json": {"$id": "https://example.org/address", "properties": {"zip": {"type": "string"}}},
        "json/orders/by-id.json": {"$id": "https://example.org/by-id", "properties": {"a": {"$ref": "address"}}},
        "json/orders/by-path.json": {"properties": {"a": {"$ref": "../common/address.json"}}},
    }
    for name, document in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        dialect = {} if name.endswith(".avsc") else {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        Path(name).write_text(json.dumps({**dialect, **document}))
    commit(".")
    referring = [name for name in files if "orders" in name]
    assert cli("check", *referring, "--against", "git:HEAD").code == 0
    for name in ("avro/common/Address.avsc", "json/common/address.json"):
        Path(name).write_text(Path(name).read_text().replace('"string"', '"int"' if "avro" in name else '"integer"'))
    ran = cli("check", *referring, "--against", "git:HEAD")
    assert (ran.code, ran.out.count("refused")) == (1, 3), ran.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.avsc", '{"type":"record","name":"X","fields":[{"name":"a","type":"strin"}]}'),
        ("a.avsc", '"string"'),
        ("a.proto", 'syntax = "proto3";'),
        ("a.xsd", "<schema/>"),
        ("a.json", '{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{}}}'),
        ("a.json", '{"type":"enum","name":"E","symbols":["A"]}'),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["check", "--offline"], ["import"]])
def test_a_schema_is_no_document(cli: Cli, command: list[str], name: str, content: str) -> None:
    Path(name).write_text(content)
    ran = cli(*command, name)
    assert ran.code == 1
    assert f"{name} is a schema, not a registry document: signalbook register {name} --group ID" in ran.err


def test_documents_may_name_a_dialect(cli: Cli) -> None:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    Path("a.json").write_text(json.dumps({**dialect, "schemagroups": {"g": {}}}))
    assert "is a schema" not in cli("check", "a.json", "--offline").err


def test_rejection_lists_lenient_repairs(cli: Cli) -> None:
    document = {"documentation": {"url": "https://d.example/"}, "endpoints": {"e": {"usage": "consumer"}}}
    Path("a.json").write_text(json.dumps(document))
    ran = cli("check", "a.json", "--offline")
    expected = [
        "  --lenient would repair it:",
        "    /#documentation: replaced by the URL in it [R43]",
        "    /endpoints/e#usage: made an array of it [I-6]",
    ]
    assert (ran.code, ran.out.splitlines()[-3:]) == (1, expected)
    (row,) = verdict(cli("check", "a.json", "--offline", "--json").out)["checked"]
    assert row["advice"].startswith("--lenient would repair it:")
    assert "lenient" not in cli("check", "a.json", "--offline", "--lenient").out


def test_text_is_no_document(cli: Cli) -> None:
    Path("notes.txt").write_text("hello")
    expected = 'notes.txt: a registry document is a JSON object, such as {"messagegroups": {...}}, but this is text'
    assert cli("check", "notes.txt", "--offline").reported(1, expected)


def test_uncheckable_file_does_not_hide_others(cli: Cli) -> None:
    Path("lost.json").write_text('{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"gone.json"}')
    ran = cli("check", "lost.json", "new.avsc", "gone.avsc", "--against", "old.avsc", "--format", "Avro/1.12")
    assert (ran.code, "refused  new.avsc" in ran.out, "gone.avsc: cannot be read" in ran.err) == (1, True, True)
    ran = cli("check", "lost.json", "--against", "lost.json")
    assert (ran.code, "lost.json cannot be checked: " in ran.err, "cannot use /gone.json" in ran.err) == (1, True, True)


@pytest.mark.parametrize("reference", ["../outside.json", "{outside}", "link.json"])
def test_no_file_outside_of_the_working_directory_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    folder = tmp_path / "inside"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "link.json").symlink_to(outside)
    file = SchemaFile(name=str(folder / "a.json"), content=b"{}")
    (folder / "a.json").write_text("{}")
    assert file.resolve(reference.format(outside=outside)) is None


def test_a_missing_import(cli: Cli) -> None:
    """A missing import is an error only with --strict; the message names the importing file."""
    Path("protos/a").mkdir(parents=True)
    Path("protos/a/order.proto").write_text('syntax = "proto3"; import "a/money.proto"; message Order { Money m = 1; }')
    assert cli("check", "protos", "--offline", "--strict").ended(1, out="it imports 'a/money.proto', which is missing")
    assert cli("check", "protos", "--offline").code == 0
    Path("protos/a/money.proto").write_text('syntax = "proto3"; message Money {}')
    assert cli("check", "protos", "--offline", "--strict").code == 0
