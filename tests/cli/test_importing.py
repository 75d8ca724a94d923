import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli

BOOK = {
    "schemagroups": {"g": {"schemas": {"s": {"versions": {"1": {"format": "JsonSchema/draft-07", "schema": {}}}}}}},
    "messagegroups": {"m": {"messages": {"one": {"envelope": "CloudEvents/1.0"}}}},
}
YAML = """\
messagegroups:
  m:
    messages:
      one: {envelope: CloudEvents/1.0}
"""


def write(name: str, document: object) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def test_into_the_database_of_the_settings(cli: Cli) -> None:
    ran = cli("import", write("book.xreg.json", BOOK))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "imported book.xreg.json: created 2 groups, 2 resources, 1 version\n"
    assert Path("signalbook.db").exists()
    assert json.loads(cli("export").out)["messagegroups"].keys() == {"m"}


def test_into_a_server(cli: Cli, server: str) -> None:
    ran = cli("import", write("book.json", {"endpoints": {"e": {"usage": ["consumer"]}}}), "--server", server, "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = {"source": "book.json", "target": "/", "created": ["/endpoints/e"], "updated": [], "unchanged": []}
    assert json.loads(ran.out) == {"imported": [{**expected, "repairs": [], "findings": []}], "dry_run": False}
    assert json.loads(cli("export", "/endpoints/e", "--server", server).out)["usage"] == ["consumer"]


@pytest.mark.parametrize("name", ["book.yaml", "book.yml", "book.cereg"])
def test_yaml(cli: Cli, name: str) -> None:  # I-2
    assert cli("import", write(name, YAML)).code == 0
    assert json.loads(cli("export", "/messagegroups/m").out)["messagescount"] == 1


@pytest.mark.parametrize("text", [YAML, json.dumps(BOOK)])
def test_standard_input(cli: Cli, text: str) -> None:
    ran = cli("import", "-", stdin=text.encode())
    assert ran.code == 0
    assert ran.err.startswith("imported standard input: ")


def test_builtin_events_can_be_imported(cli: Cli) -> None:
    """The catalogue of events is built in (D-23)."""
    assert cli("import", "builtin:events").code == 0
    groups = json.loads(cli("export", "/messagegroups").out)
    assert groups.keys() == {"io.xregistry", "io.cloudevents.schemaregistry", "io.cloudevents.messagecatalog"}
    assert "builtin:events" in cli("import", "builtin:nothing").err


def test_builtin_model_can_be_imported(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry with another model keeps it until this one is imported (F-45)."""
    monkeypatch.setenv("SIGNALBOOK_MODEL", "spec")
    message = {"protocol": "HTTP", "protocoloptions": {"query": [{"name": "a", "value": "b"}]}}
    book = json.dumps({"messagegroups": {"g": {"messages": {"old": message}}}}).encode()
    assert cli("import", "-", stdin=book).code == 0
    wider = json.dumps({"messagegroups": {"g": {"messages": {"new": {"team": "a", **message}}}}}).encode()
    assert "team: is not defined in the model" in cli("import", "-", stdin=wider).err
    assert [cli("import", "builtin:model").code, cli("import", "-", stdin=wider).code] == [0, 0]
    assert json.loads(cli("export", "/messagegroups/g").out)["messages"].keys() == {"old", "new"}


@pytest.mark.parametrize("source", ["-", "book.json", "."])
def test_a_message_catalog(cli: Cli, source: str) -> None:
    """The catalog is accepted with reports (C-14, L-19)."""
    event = {"id": "a", "authority": "x.example", "definition": {"attributes": {"type": {"value": "a"}}}}
    document = json.dumps({"id": "g", "format": "CloudEvents", "definitions": [event]})
    Path("book.json").write_text(document)
    assert cli("import", source, stdin=document.encode()).ended(0, "[L-19]")
    assert json.loads(cli("get", "/messagegroups/g/messages/a").out)["authority"] == "x.example"


def test_a_folder_is_one_document(cli: Cli) -> None:
    write("books/a.json", {"dirs": {"d": {}}})
    write("books/deep/b.yaml", YAML)
    write("books/z.json", {"groups": {"dirs": {"singular": "dir"}}})
    ran = cli("import", "books")
    assert ran.code == 0, ran.err
    assert ran.err == "imported books (3 documents): created 2 groups, 1 resource; updated the registry\n"


def test_files_models_first(cli: Cli) -> None:
    write("a.json", {"dirs": {"d": {}}})
    write("z.json", {"groups": {"dirs": {"singular": "dir"}}})
    ran = cli("import", "a.json", "z.json")
    assert [line.split(":")[0] for line in ran.err.splitlines()] == ["imported z.json", "imported a.json"]


def test_a_url(cli: Cli, server: str) -> None:
    """Another registry's export is a document like any other; its capabilities are its own business."""
    cli("import", write("book.json", {"endpoints": {"u": {"usage": ["producer"]}}}), "--server", server)
    ran = cli("import", f"{server}/export", "--ignore", "capabilities", "--db", "sqlite:///copy.db")
    assert ran.code == 0, ran.err
    assert "u" in json.loads(cli("export", "/endpoints", "--db", "sqlite:///copy.db").out)


def test_exported_document_can_be_imported(cli: Cli) -> None:
    cli("import", write("book.json", BOOK))
    cli("export", "-o", "first.json")
    assert cli("import", "first.json", "--db", "sqlite:///again.db").code == 0
    cli("export", "-o", "second.json", "--db", "sqlite:///again.db")
    first, second = (json.loads(Path(name).read_text()) for name in ("first.json", "second.json"))
    assert first.keys() == second.keys()
    assert first["schemagroups"] == second["schemagroups"]
    assert first["messagegroups"] == second["messagegroups"]


@pytest.mark.parametrize("type", ["application/x+json; a=b", "text/plain"])
def test_text_is_another_document_under_another_type(cli: Cli, type: str) -> None:
    """A string inline is text or JSON, as its content type says (R248): what was there does not matter."""
    contents = ["abc", '"abc"', "1", 1, {"a": 1}]
    types = ["application/json", "text/plain", None]
    ways = [(old, kind, new) for old in contents for kind in types for new in contents]
    cases = {f"s{number}": way for number, way in enumerate(ways)}
    write("old.json", schemas({name: (a, kind) for name, (a, kind, _) in cases.items()}))
    write("new.json", schemas({name: (b, type) for name, (_, _, b) in cases.items()}))
    for db, files in (("a", ["old.json", "new.json"]), ("b", ["new.json"])):
        for file in files:
            assert cli("import", file, "--db", f"sqlite:///{db}.db").code == 0
        again = cli("import", "new.json", "--db", f"sqlite:///{db}.db").err.partition("\n")[0]
        assert again == f"imported new.json: 1 group, {len(ways)} resources, {len(ways)} versions unchanged"
    exports = [cli("export", "/schemagroups/g", "--db", f"sqlite:///{db}.db").out for db in ("a", "b")]
    exported = [json.loads(text)["schemas"] for text in exports]
    imported, expected = ({name: documents_of(schema) for name, schema in document.items()} for document in exported)
    assert imported == expected


def schemas(documents: dict[str, tuple[object, str | None]]) -> object:
    """Schemas by their ids, with a Version each: its document inline, and its type if it has one."""
    versions = {
        name: {"format": "Text/1", "schema": document, **({"contenttype": kind} if kind else {})}
        for name, (document, kind) in documents.items()
    }
    return {
        "schemagroups": {"g": {"schemas": {name: {"versions": {"1": version}} for name, version in versions.items()}}}
    }


def documents_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes that contain the document."""
    version = schema["versions"]["1"]
    return {name: version.get(name) for name in ("schema", "schemabase64", "contenttype")}


def test_import_keeps_unnamed_entities(cli: Cli) -> None:
    cli("import", write("book.json", BOOK))
    cli("import", write("more.json", {"name": "Book", "messagegroups": {"m": {"description": "new"}, "n": {}}}))
    book = json.loads(cli("export").out)
    assert (book["name"], book["schemagroups"].keys()) == ("Book", {"g"})
    assert book["messagegroups"]["m"]["messages"].keys() == {"one"}


DAMAGED = '{\n  // who\n  "messagegroups": {"m": {"messages": {"one": {"envelope": "CloudEvents/1.0",}}}}\n}'


def test_damage_is_repaired_with_lenient(cli: Cli) -> None:  # L-37
    ran = cli("import", write("damaged.json", DAMAGED))
    assert (ran.code, Path("signalbook.db").exists()) == (1, False)
    assert "error: damaged.json: line 2" in ran.err
    ran = cli("import", "damaged.json", "--lenient")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "repaired damaged.json, line 2: took away a comment [L-26]",
        "repaired damaged.json, line 3: took away the comma before } [L-1]",
        "imported damaged.json: created 1 group, 1 resource",
    ]


def test_lenient_repairs_are_suggested(cli: Cli) -> None:  # L-37
    ran = cli("import", "damaged.json" if write("damaged.json", DAMAGED) else "")
    assert "--lenient would repair it:\n  line 2: took away a comment [L-26]" in ran.err
    ran = cli("import", write("old.cereg", {"endpoints": {"e": {"usage": "consumer"}}}))
    assert "/endpoints/e" in ran.err
    assert ran.err.endswith("--lenient would repair it:\n  /endpoints/e#usage: made an array of it [I-6]\n")
    assert "lenient" not in cli("import", write("bad.json", BAD_MESSAGE)).err


def test_the_same_again_changes_nothing(cli: Cli, target: tuple[str, ...]) -> None:
    # The model adds defaults to both: the method, and the type of the attribute.
    options = {"protocol": "HTTP", "protocoloptions": {"path": "/x"}}
    envelope = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
    book = {"messagegroups": {"again": {"messages": {"one": {**options, **envelope}}}}}
    cli("import", write("book.json", book), *target)
    before = cli("export", "/messagegroups/again", *target).out
    assert '"modifiedat"' in before
    ran = cli("import", "book.json", *target)
    assert ran.err == "imported book.json: 1 group, 1 resource unchanged\n"
    assert cli("export", "/messagegroups/again", *target).out == before
    book["messagegroups"]["again"]["messages"]["two"] = {}
    ran = cli("import", write("book.json", book), *target)
    assert ran.err == "imported book.json: created 1 resource; 1 group, 1 resource unchanged\n"


def test_a_dry_run_changes_nothing(cli: Cli, target: tuple[str, ...]) -> None:
    cli("import", write("first.json", {"name": "book"}), *target)
    ran = cli("import", write("book.json", {"messagegroups": {"dry": {}}}), "--dry-run", *target)
    assert (ran.code, ran.err) == (0, "would import book.json: created 1 group\n"), ran.err
    assert cli("export", "/messagegroups/dry", *target).code == 1


def test_dry_run_reports_updates_and_refusals(cli: Cli, target: tuple[str, ...]) -> None:
    cli("import", write("book.json", {"messagegroups": {"tried": {"messages": {"one": {}}}}}), *target)
    book = {"messagegroups": {"tried": {"description": "new", "messages": {"one": {}}}}}
    ran = cli("import", write("book.json", book), "--dry-run", *target)
    assert (ran.code, ran.err) == (0, "would import book.json: updated 1 group; 1 resource unchanged\n")
    book["messagegroups"]["tried"]["messages"] = {"one": {"relation": 5}}
    assert cli("import", write("book.json", book), "--dry-run", *target).ended(1, "relation")


def test_a_dry_run_finds_what_the_registry_would_refuse(cli: Cli) -> None:
    cli("import", write("first.json", {"name": "book"}))
    model = write("model.json", {"groups": {"dirs": {"singular": "dir"}}})
    ran = cli("import", model, write("data.json", {"dirs": {"d": {"nonsense": 1}}}), "--dry-run")
    assert (ran.code, "nonsense" in ran.err) == (1, True)


def test_under_another_name(cli: Cli) -> None:
    cli("import", write("book.json", BOOK))
    cli("export", "/schemagroups/g", "--out", "g.json")
    assert cli("import", "g.json", "--to", "/schemagroups/copy").code == 0
    assert "s" in json.loads(cli("export", "/schemagroups/copy").out)["schemas"]
    ran = cli("import", "g.json", "--to", "/schemagroups/copy/schemas/s")
    assert "/schemagroups/g in the document and /schemagroups/copy/schemas/s differ in kind: group and res" in ran.err
    assert cli("import", "g.json", "--to", "non sense").code == 2


def test_many_documents_are_reported_in_one_line(cli: Cli) -> None:
    for number in range(30):
        write(f"books/{number}.xreg.json", {"messagegroups": {f"m{number}": {}}})
    assert cli("import", *Path("books").iterdir()).err == "imported 30 documents: created 30 groups\n"


def test_files_named_by_relative_urls_are_imported(cli: Cli) -> None:
    """Files named by a relative URL are taken in with their very bytes, and come out again as files."""
    schema = b'{ "type" : "record", "name": "R", "fields": [] }\n'
    version = {"format": "Avro/1.11", "schemaurl": "./r%20.avsc"}
    write("in/book.xreg.json", {"schemagroups": {"g": {"schemas": {"s": {"versions": {"1": version}}}}}})
    Path("in/r .avsc").write_bytes(schema)
    ran = cli("import", "in")
    assert ran.code == 0, ran.err
    cli("export", "--out", "out/")
    assert Path("out/schemagroups/g/schemas/s/1.avsc").read_bytes() == schema
    assert cli("import", "out", "--db", "sqlite:///again.db").code == 0


DEEP = '{"a":' * 100 + "1" + "}" * 100
BAD_MESSAGE = {"messagegroups": {"m": {"messages": {"one": {"relation": 5, "name": 7}}}}}
BAD = [
    pytest.param("x.json", '{"a": 1,\n "b": }', ["x.json: line 2, column 7"], id="broken JSON"),
    pytest.param("x.yaml", "a: [", ["x.yaml: line "], id="broken YAML"),
    pytest.param(
        "x.json",
        "[]",
        ['x.json: a registry document is a JSON object, such as {"messagegroups": {...}}, but this is a list'],
        id="no object",
    ),
    pytest.param("x.json", DEEP, ["x.json: nested deeper than 64 levels"], id="too deep"),
    pytest.param("x.json", {"nonsense": {"g": {}}}, ["x.json: ", "nonsense"], id="unknown group type"),
    pytest.param("x.json", {"messagegroups": {"a b": {}}}, ["x.json: ", "a b", "1 to 128 characters"], id="bad id"),
    pytest.param(
        "x.json", BAD_MESSAGE, ["x.json: ", "relation", "/messagegroups/m/messages/one", "name"], id="attributes"
    ),
    pytest.param("x.json", {"xid": "/schemagroups/g/schemas/s/nope"}, ["x.json: ", "is none"], id="bad xid"),
    pytest.param("x.json", {"capabilities": {"nonsense": 1}}, ["x.json: Unknown capability"], id="capability"),
]


@pytest.mark.parametrize(("name", "document", "messages"), BAD)
def test_bad_documents(
    cli: Cli, server: str, target: tuple[str, ...], name: str, document: object, messages: list[str]
) -> None:
    ran = cli("import", write(name, document), *target)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: ")
    for message in messages:
        assert message in ran.err
    assert "m" not in json.loads(cli("export", "/messagegroups", "--server", server).out)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("gone.json",), 1, "gone.json: cannot be read: No such file"),
        (
            ("empty",),
            1,
            "empty: holds no registry document: neither this folder nor one below it has a file named *.json",
        ),
        (("book.json", "--server", "http://127.0.0.1:9"), 1, "is it running, and is the URL right?"),
        (("book.json", "--server", "127.0.0.1:8080"), 1, "starts with http://"),
        (("book.json", "--db", "oracle://x"), 1, "sqlite:///FILE"),
        (("book.json", "--ignore", "nonsense"), 1, "supported values are capabilities"),
        (("http://127.0.0.1:9/x",), 1, "http://127.0.0.1:9/x: cannot be read"),
        (("book.json", "--db", "sqlite://", "--server", "http://x"), 2, "not both"),
    ],
)
def test_bad_sources_and_targets(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    Path("empty").mkdir()
    write("book.json", BOOK)
    assert cli("import", *arguments).reported(code, message)


def test_a_document_too_large_for_the_server(cli: Cli, server: str) -> None:
    large = {"messagegroups": {"large": {"description": "x" * 3_000_000}}}
    assert cli("import", write("large.json", large), "--server", server).ended(1, "2000000")


def test_url_answered_with_404_is_an_error(cli: Cli, server: str) -> None:
    assert cli("import", f"{server}/schemagroups/gone").ended(1, "the server answers 404")


def test_folder_is_imported_completely_or_not_at_all(cli: Cli) -> None:
    write("books/a.json", {"messagegroups": {"a": {}}})
    write("books/b.json", BAD_MESSAGE)
    ran = cli("import", "books")
    assert (ran.code, "\n  in books/b.json\n" in ran.err, "a.json" in ran.err) == (1, True, False), ran.err
    assert json.loads(cli("export", "/messagegroups").out) == {}


def test_several_stop_at_the_first_fault(cli: Cli) -> None:
    write("books/a.json", {"messagegroups": {"a": {}}})
    write("books/b.json", BAD_MESSAGE)
    write("books/c.json", {"messagegroups": {"c": {}}})
    ran = cli("import", "books/a.json", "books/b.json", "books/c.json")
    assert (ran.code, "1 of 3 documents were imported before it, nothing of this one" in ran.err) == (1, True)
    assert json.loads(cli("export", "/messagegroups").out).keys() == {"a"}


SCENARIOS = [
    "contoso-erp-jsons07", "inkjet-proto3", "lightbulb-avro", "mqtt-sparkplugB", "smartoven-xsd", "vacuumcleaner-avro",
    "watchkam-jsons07", "waterboiler-mqtt5-jsons07", "windgenerator-kafka-avro", "workshop", "workshop-xsd",
]  # fmt: skip


SAMPLES = [
    ["workshop.cereg"], ["workshop.cereg.yaml"], ["workshop-links.xreg.json"],
    ["halls-model.json", "halls-data.json"], ["workshop.xreg.json", "workshop-xsd.xreg.json"],
    ["contoso-crm.cereg"], ["contoso-crm.cereg.yaml"], ["schemastore_org.xreg.json"],
    ["doc-store-model.json", "doc-store-data.json"],
    ["formatted-doc-store-model.json", "formatted-doc-store-data.json"],
    [f"{name}.xreg.json" for name in SCENARIOS if not name.startswith("workshop")],
]  # fmt: skip


@pytest.mark.merge
@pytest.mark.parametrize("names", SAMPLES, ids=lambda names: names[0])
def test_real_documents_survive_a_lenient_round_trip(
    cli: Cli, sample_file: Callable[[str], Path], names: list[str]
) -> None:
    """Into a registry, as a document and as a folder into empty ones, and out again equal (I-5..I-8)."""
    ran = cli("import", *(sample_file(name) for name in names), "--lenient")
    assert ran.code == 0, ran.err
    cli("export", "-o", "first.json")
    cli("export", "-o", "folder/")
    for source in ("first.json", "folder"):
        db = f"sqlite:///{source}.db"
        assert cli("import", source, "--db", db).code == 0
        assert comparable(cli("export", "--db", db).out) == comparable(Path("first.json").read_text())


def comparable(text: str) -> object:
    """An export without what counts writes: epochs, and when the Registry entity was last touched."""
    document = json.loads(
        text, object_hook=lambda members: {name: members[name] for name in members if name != "epoch"}
    )
    return {name: value for name, value in document.items() if name not in ("createdat", "modifiedat")}


@pytest.mark.others("the faults of xRegistry's sample schemastore", ours="test_our_own_document_strictly")
def test_schemastore_strictly(cli: Cli, sample_file: Callable[[str], Path]) -> None:
    """Every fault by its place, and what leniency would do (I-7: schemauri)."""
    place = "/schemagroups/schemastore_org.json/schemas/abc-inventory-module-data/versions/1.0.0"
    check_empty_schema(cli, sample_file("schemastore_org.xreg.json"), place)


def check_empty_schema(cli: Cli, file: Path, place: str) -> None:
    ran = cli("import", file)
    assert (ran.code, f"{place}: the schema document is empty [empty]" in ran.err) == (1, True)
    assert f"{place}#schemauri: renamed to schemaurl [I-7]" in ran.err


@pytest.mark.parametrize("name", SCENARIOS)
def test_real_documents_survive_a_round_trip(
    cli: Cli, sample_file: Callable[[str], Path], name: str
) -> None:  # I-7, I-8
    ran = cli("import", sample_file(f"{name}.xreg.json"))
    assert ran.code == 0, ran.err
    cli("export", "-o", "first.json")
    assert cli("import", "first.json", "--db", "sqlite:///again.db").code == 0
    cli("export", "-o", "second.yaml", "--db", "sqlite:///again.db")
    cli("import", "second.yaml", "--db", "sqlite:///third.db")
    third = json.loads(cli("export", "--db", "sqlite:///third.db").out)
    first = json.loads(Path("first.json").read_text())
    for plural in ("endpoints", "messagegroups", "schemagroups"):
        assert third[plural] == first[plural]


def test_our_own_document_strictly(cli: Cli, sample_file: Callable[[str], Path]) -> None:
    """The document of schemastore is replaced by one of our own (I-7: schemauri)."""
    check_empty_schema(cli, sample_file("workshop-links.xreg.json"), "/schemagroups/links/schemas/lost/versions/1")


def test_strict_rejects_any_finding(cli: Cli, target: tuple[str, ...]) -> None:
    """Findings about new entities count too, and nothing of the import is stored."""
    write("book.json", {"endpoints": {"strict": {"usage": ["producer", "consumer"]}}})
    assert cli("import", "book.json", "--strict", *target).ended(1, "/endpoints/strict#usage")
    assert cli("get", "/endpoints/strict", *target).code == 1
    write("book.json", {"endpoints": {"strict": {"usage": ["producer"]}}})
    assert cli("import", "book.json", "--strict", *target).code == 0


def test_a_folder_of_proto_files(cli: Cli) -> None:
    """A schema group, called as the folder or as --to says; doing it again changes nothing."""
    write("protos/a/money.proto", 'syntax = "proto3"; message Money {}')
    write("protos/order.proto", 'syntax = "proto3"; import "a/money.proto"; message Order { Money m = 1; }')
    for arguments, group in (((), "protos"), (("--to", "/schemagroups/shop"), "shop")):
        ran = cli("import", "protos", *arguments)
        assert (ran.code, ran.err) == (0, "imported protos: created 1 group, 2 resources\n")
        assert cli("import", "protos", *arguments).err == "imported protos: 1 group, 2 resources unchanged\n"
        schema = json.loads(cli("get", f"/schemagroups/{group}/schemas/order", "--json").out)
        assert (schema["name"], schema["formatvalidated"]) == ("order.proto", True)
