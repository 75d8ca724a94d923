"""Files made of definitions, by the command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Ran, cut_short

from signalbook.values import dump_json

GOOD: dict[str, Any] = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "string"}}
BROKEN = {"protocol": "KAFKA", "protocoloptions": {"topic": 5}}


def write(**messages: Any) -> None:
    document = {"messagegroups": {"g": {"messages": messages}, "h": {"messages": {"other": GOOD}}}}
    Path("book.json").write_bytes(dump_json(document))


@pytest.fixture(autouse=True)
def _definitions() -> None:
    write(good=GOOD)


def run(cli: Cli, *options: str) -> Ran:
    return cli("generate", "markdown", "--registry", "book.json", "--output", "out", *options)


def test_generate_writes_and_checks_files(cli: Cli) -> None:
    ran = run(cli)
    assert (ran.code, ran.err) == (0, "generated 3 files in out: 3 new\n")
    assert run(cli, "--check").code == 0
    before = Path("out/README.md").stat().st_mtime_ns
    assert run(cli).err == "generated 3 files in out: no change\n"
    assert Path("out/README.md").stat().st_mtime_ns == before


def test_check_lists_stale_files(cli: Cli) -> None:
    run(cli)
    write(good={**GOOD, "description": "new"})
    ran = run(cli, "--check")
    assert (ran.code, ran.out) == (1, "out/README.md is out of date\nout/groups/g.md is out of date\n")
    result = json.loads(run(cli, "--check", "--json").out)
    assert result["stale"] == [{"path": path, "reason": "is out of date"} for path in ("README.md", "groups/g.md")]
    assert "new" not in Path("out/groups/g.md").read_text()


def test_omitted_messages_are_listed(cli: Cli) -> None:
    write(good=GOOD, broken=BROKEN)
    ran = run(cli)
    assert ran.code == 3
    assert ran.err.startswith("left out /messagegroups/g/messages/broken: ")
    result = json.loads(run(cli, "--json").out)
    assert [omission["xid"] for omission in result["left_out"]] == ["/messagegroups/g/messages/broken"]
    assert result["unchanged"] == ["README.md", "groups/g.md", "groups/h.md"]


def test_a_group(cli: Cli) -> None:
    run(cli)
    assert run(cli, "--group", "messagegroups/h").code == 0, "the first slash may be missing"
    assert not Path("out/groups/g.md").exists()
    assert Path("out/groups/h.md").exists()


def test_foreign_files_are_kept(cli: Cli) -> None:
    Path("out/groups").mkdir(parents=True)
    Path("out/groups/g.md").write_text("mine")
    ran = run(cli, "--overwrite")
    assert (ran.code, sorted(path.name for path in Path("out").rglob("*.*"))) == (1, ["g.md"])
    assert "out/groups/g.md was not generated here: remove it, or use another folder" in ran.err


def test_edited_files_require_overwrite(cli: Cli) -> None:
    run(cli)
    Path("out/groups/g.md").write_text("better")
    ran = run(cli)
    assert (ran.code, "out/groups/g.md was edited by hand: --overwrite replaces it" in ran.err) == (1, True)
    assert Path("out/groups/g.md").read_text() == "better"
    assert run(cli, "--overwrite").code == 0
    assert "good" in Path("out/groups/g.md").read_text()


def test_targets_are_listed(cli: Cli) -> None:
    listed = json.loads(cli("generate", "list", "--json").out)
    assert "markdown" in [target["name"] for target in listed["targets"]]
    assert "markdown" in cli("generate", "list").out


def test_imports_of_a_registry(cli: Cli, serve: Callable[..., str]) -> None:
    """Protobuf imports are resolved by the file name in a group and by the import root in another, and exported
    documents give the same result.
    """
    money = 'syntax = "proto3"; package acme; message Money { int32 units = 1; }'
    line = 'syntax = "proto3"; import "acme/types/money.proto"; message Line { acme.Money price = 1; }'
    order = 'syntax = "proto3"; import "line.proto"; message Order { repeated Line lines = 1; }'
    lost = 'syntax = "proto3"; import "types/money.proto"; message Lost { acme.Money price = 1; }'
    texts = {"line": line, "order": order, "lost": lost}

    def schemas(**texts: str) -> dict[str, Any]:
        return {name: {"format": "Protobuf/3", "schema": text} for name, text in texts.items()}

    xids = {name: f"/schemagroups/importing/schemas/{name}:{name.title()}" for name in ("order", "lost")}
    messages = {name: {"dataschemaformat": "Protobuf/3", "dataschemauri": xid} for name, xid in xids.items()}
    common = {"labels": {"protobuf.root": "acme/types"}, "schemas": schemas(money=money)}
    document = {
        "messagegroups": {"importing": {"messages": messages}},
        "schemagroups": {"importing": {"schemas": schemas(**texts)}, "importing.common": common},
    }
    Path("protos.json").write_bytes(dump_json(document))
    server = serve(db=f"sqlite:///{Path('registry.db').absolute()}")
    assert cli("import", "protos.json", "--server", server).code == 0
    options = ("--group", "/messagegroups/importing", "--output", "out")
    ran = cli("generate", "spark", "--registry", server, *options)
    assert ran.code == 3
    assert "left out /messagegroups/importing/messages/lost: /: it imports 'types/money.proto', which is" in ran.err
    assert "units" in "".join(path.read_text() for path in Path("out").rglob("*.py"))
    for exported in ("exported.json", "exported/"):
        assert cli("export", "--server", server, "--out", exported).code == 0
        ran = cli("generate", "spark", "--registry", exported, *options, "--check")
        assert (ran.code, ran.out) == (3, ""), ran


def test_mistakes(cli: Cli) -> None:
    assert cli("generate", "markdown").code == 2
    assert "there is no target 'cobol'" in cli("generate", "cobol", "--registry", "book.json", "-o", "out").err
    assert not Path("out").exists()


@pytest.mark.parametrize("moves", range(3))
def test_interrupted_run_is_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    run(cli)
    write(better=GOOD)
    with monkeypatch.context() as patched:
        cut_short(patched, moves)
        assert run(cli).code == 1
    assert run(cli).code == 0
    assert run(cli, "--check").code == 0
    written = {"README.md", "groups", "g.md", "h.md", ".signalbook-markdown.json"}
    assert {path.name for path in Path("out").rglob("*")} == written


def test_ids_of_definitions_stay_in_the_folder(cli: Cli) -> None:
    messages = {"..\\..\\victim": GOOD, "..": GOOD, "con": GOOD, "a\x00": GOOD}
    document = {"messagegroups": {"..": {"messages": messages}, "con": {"messages": messages}}}
    Path("book.json").write_bytes(dump_json(document))
    for target in ("markdown", "python"):
        assert cli("generate", target, "--registry", "book.json", "--output", "out/deeper").code == 0
    assert {path.name for path in Path().iterdir()} == {"book.json", "out"}
    assert [path.name for path in Path("out").iterdir()] == ["deeper"]
    assert {path.name for path in Path("out/deeper/groups").iterdir()} == {"%2E%2E.md", "%63on.md"}
    write(**{"../victim": GOOD})
    ran = run(cli)
    assert (ran.code, "'../victim' is no id" in ran.err) == (1, True)
