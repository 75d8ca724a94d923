"""Files made of definitions, by the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import cut_short

from signalbook.values import dump_json

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Ran

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


def test_it_writes_and_checks(cli: Cli) -> None:
    ran = run(cli)
    assert (ran.code, ran.err) == (0, "generated 3 files in out: 3 new\n")
    assert run(cli, "--check").code == 0
    before = Path("out/README.md").stat().st_mtime_ns
    assert run(cli).err == "generated 3 files in out: no change\n"
    assert Path("out/README.md").stat().st_mtime_ns == before


def test_check_says_which_files_are_stale(cli: Cli) -> None:
    run(cli)
    write(good={**GOOD, "description": "new"})
    ran = run(cli, "--check")
    assert (ran.code, ran.out) == (1, "out/README.md is out of date\nout/groups/g.md is out of date\n")
    found = json.loads(run(cli, "--check", "--json").out)
    assert found["stale"] == [
        {"path": "README.md", "reason": "is out of date"},
        {"path": "groups/g.md", "reason": "is out of date"},
    ]
    assert "new" not in Path("out/groups/g.md").read_text()


def test_what_is_left_out_is_named(cli: Cli) -> None:
    write(good=GOOD, broken=BROKEN)
    ran = run(cli)
    assert ran.code == 3
    assert ran.err.startswith("left out /messagegroups/g/messages/broken: ")
    found = json.loads(run(cli, "--json").out)
    assert [each["xid"] for each in found["left_out"]] == ["/messagegroups/g/messages/broken"]
    assert found["unchanged"] == ["README.md", "groups/g.md", "groups/h.md"]


def test_a_group(cli: Cli) -> None:
    run(cli)
    assert run(cli, "--group", "/messagegroups/h").code == 0
    assert not Path("out/groups/g.md").exists()
    assert Path("out/groups/h.md").exists()


def test_nothing_of_others_is_lost(cli: Cli) -> None:
    Path("out/groups").mkdir(parents=True)
    Path("out/groups/g.md").write_text("mine")
    ran = run(cli, "--overwrite")
    assert (ran.code, sorted(path.name for path in Path("out").rglob("*.*"))) == (1, ["g.md"])
    assert "out/groups/g.md was not generated here: remove it, or use another folder" in ran.err


def test_edits_are_lost_only_where_that_is_said(cli: Cli) -> None:
    run(cli)
    Path("out/groups/g.md").write_text("better")
    ran = run(cli)
    assert ran.code == 1
    assert "out/groups/g.md was edited by hand: --overwrite replaces it" in ran.err
    assert Path("out/groups/g.md").read_text() == "better"
    assert run(cli, "--overwrite").code == 0
    assert "good" in Path("out/groups/g.md").read_text()


def test_targets_are_listed(cli: Cli) -> None:
    found = json.loads(cli("generate", "list", "--json").out)
    assert "markdown" in [each["name"] for each in found["targets"]]
    assert "markdown" in cli("generate", "list").out


def test_mistakes(cli: Cli) -> None:
    assert cli("generate", "markdown").code == 2
    assert "there is no target 'cobol'" in cli("generate", "cobol", "--registry", "book.json", "-o", "out").err
    assert not Path("out").exists()


@pytest.mark.parametrize("moves", range(3))
def test_a_run_that_was_cut_short_is_made_up_for(cli: Cli, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    run(cli)
    write(better=GOOD)
    with monkeypatch.context() as patched:
        cut_short(patched, moves)
        assert run(cli).code == 1
    assert run(cli).code == 0
    assert run(cli, "--check").code == 0
    assert {path.name for path in Path("out").rglob("*")} == {
        "README.md",
        "groups",
        "g.md",
        "h.md",
        ".signalbook-markdown.json",
    }
