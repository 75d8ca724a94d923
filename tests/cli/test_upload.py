"""``signalbook import``."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert ran.err == "imported book.xreg.json: 2 groups, 2 resources, 1 version\n"
    assert Path("signalbook.db").exists()
    assert json.loads(cli("export").out)["messagegroups"].keys() == {"m"}


def test_into_a_server(cli: Cli, server: str) -> None:
    ran = cli("import", write("book.json", {"endpoints": {"e": {"usage": ["consumer"]}}}), "--server", server, "--json")
    assert (ran.code, ran.err) == (0, "")
    expected = {"source": "book.json", "target": "/", "groups": 1, "resources": 0, "versions": 0, "repairs": []}
    assert json.loads(ran.out) == {"imported": [expected]}
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


def test_a_folder_models_first(cli: Cli) -> None:
    write("books/a.json", {"dirs": {"d": {}}})
    write("books/deep/b.yaml", YAML)
    write("books/z.json", {"groups": {"dirs": {"singular": "dir"}}})
    ran = cli("import", "books")
    assert ran.code == 0, ran.err
    assert [line.split(":")[0] for line in ran.err.splitlines()] == [
        f"imported books/{name}" for name in ("z.json", "a.json", "deep/b.yaml")
    ]


def test_a_url(cli: Cli, server: str) -> None:
    """Another registry's export is a document like any other; its capabilities are its own business."""
    cli("import", write("book.json", {"endpoints": {"u": {"usage": ["producer"]}}}), "--server", server)
    ran = cli("import", f"{server}/export", "--ignore", "capabilities", "--db", "sqlite:///copy.db")
    assert ran.code == 0, ran.err
    assert "u" in json.loads(cli("export", "/endpoints", "--db", "sqlite:///copy.db").out)


def test_what_is_exported_imports_again_equal(cli: Cli) -> None:
    cli("import", write("book.json", BOOK))
    cli("export", "-o", "first.json")
    assert cli("import", "first.json", "--db", "sqlite:///again.db").code == 0
    cli("export", "-o", "second.json", "--db", "sqlite:///again.db")
    first, second = (json.loads(Path(name).read_text()) for name in ("first.json", "second.json"))
    assert first.keys() == second.keys()
    assert first["schemagroups"] == second["schemagroups"]
    assert first["messagegroups"] == second["messagegroups"]


def test_an_import_leaves_alone_what_it_does_not_name(cli: Cli) -> None:
    cli("import", write("book.json", BOOK))
    cli("import", write("more.json", {"name": "Book", "messagegroups": {"m": {"description": "new"}, "n": {}}}))
    book = json.loads(cli("export").out)
    assert (book["name"], book["schemagroups"].keys()) == ("Book", {"g"})
    assert book["messagegroups"]["m"]["messages"].keys() == {"one"}


DAMAGED = '{\n  // who\n  "messagegroups": {"m": {"messages": {"one": {"envelope": "CloudEvents/1.0",}}}}\n}'


def test_damage_is_repaired_when_asked(cli: Cli) -> None:  # L-37
    ran = cli("import", write("damaged.json", DAMAGED))
    assert (ran.code, Path("signalbook.db").exists()) == (1, False)
    assert "error: damaged.json: line 2" in ran.err
    ran = cli("import", "damaged.json", "--lenient")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "repaired damaged.json, line 2: took away a comment [L-26]",
        "repaired damaged.json, line 3: took away the comma before } [L-1]",
        "imported damaged.json: 1 group, 1 resource",
    ]


DEEP = '{"a":' * 100 + "1" + "}" * 100
BAD_MESSAGE = {"messagegroups": {"m": {"messages": {"one": {"nonsense": 1, "name": 7}}}}}
BAD = [
    pytest.param("x.json", '{"a": 1,\n "b": }', ["x.json: line 2, column 7"], id="broken JSON"),
    pytest.param("x.yaml", "a: [", ["x.yaml: line "], id="broken YAML"),
    pytest.param("x.json", "[]", ["x.json: a registry document is a JSON object"], id="no object"),
    pytest.param("x.json", DEEP, ["x.json: nested deeper than 64 levels"], id="too deep"),
    pytest.param("x.json", {"nonsense": {"g": {}}}, ["x.json: ", "nonsense"], id="unknown group type"),
    pytest.param("x.json", {"messagegroups": {"a b": {}}}, ["x.json: ", "a b", "1 to 128 characters"], id="bad id"),
    pytest.param(
        "x.json", BAD_MESSAGE, ["x.json: ", "nonsense", "/messagegroups/m/messages/one", "name"], id="attributes"
    ),
    pytest.param("x.json", {"xid": "/schemagroups/g/schemas/s/nope"}, ["x.json: ", "is none"], id="bad xid"),
    pytest.param("x.json", {"capabilities": {"nonsense": 1}}, ["x.json: Unknown capability"], id="capability"),
]


@pytest.mark.parametrize(("name", "document", "messages"), BAD)
@pytest.mark.parametrize("where", ["db", "server"])
def test_bad_documents(cli: Cli, server: str, where: str, name: str, document: object, messages: list[str]) -> None:
    target = ("--server", server) if where == "server" else ("--db", "sqlite:///r.db")
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
        (("empty",), 1, "empty: holds no registry document"),
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
    ran = cli("import", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err


def test_a_document_too_large_for_the_server(cli: Cli, server: str) -> None:
    large = {"messagegroups": {"large": {"description": "x" * 3_000_000}}}
    ran = cli("import", write("large.json", large), "--server", server)
    assert ran.code == 1
    assert "2000000" in ran.err


def test_a_url_that_is_not_there(cli: Cli, server: str) -> None:
    ran = cli("import", f"{server}/schemagroups/gone")
    assert (ran.code, "the server answers 404" in ran.err) == (1, True)


def test_a_folder_stops_at_the_first_fault(cli: Cli) -> None:
    write("books/a.json", {"messagegroups": {"a": {}}})
    write("books/b.json", BAD_MESSAGE)
    write("books/c.json", {"messagegroups": {"c": {}}})
    ran = cli("import", "books")
    assert ran.code == 1
    assert "1 of 3 documents were imported before it, nothing of this one" in ran.err
    assert json.loads(cli("export", "/messagegroups").out).keys() == {"a"}


SCENARIOS = [
    "contoso-erp-jsons07", "inkjet-proto3", "lightbulb-avro", "mqtt-sparkplugB", "smartoven-xsd", "vacuumcleaner-avro",
    "watchkam-jsons07", "waterboiler-mqtt5-jsons07", "windgenerator-kafka-avro",
]  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_real_documents_go_there_and_back(cli: Cli, shared_data: Path, name: str) -> None:  # I-7, I-8
    ran = cli("import", shared_data / "xregistry-samples" / f"{name}.xreg.json")
    assert ran.code == 0, ran.err
    cli("export", "-o", "first.json")
    assert cli("import", "first.json", "--db", "sqlite:///again.db").code == 0
    cli("export", "-o", "second.yaml", "--db", "sqlite:///again.db")
    cli("import", "second.yaml", "--db", "sqlite:///third.db")
    third = json.loads(cli("export", "--db", "sqlite:///third.db").out)
    first = json.loads(Path("first.json").read_text())
    for plural in ("endpoints", "messagegroups", "schemagroups"):
        assert third[plural] == first[plural]
