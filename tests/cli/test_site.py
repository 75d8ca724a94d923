import json
from pathlib import Path

import pytest

from .conftest import Cli, cut_short

DOCUMENT = {"messagegroups": {"m": {"messages": {"one": {"envelope": "CloudEvents/1.0"}, "two": {}}}}}


@pytest.fixture(autouse=True)
def _source() -> None:
    Path("source").mkdir()
    write(DOCUMENT)


def write(document: object) -> None:
    Path("source/a.xreg.json").write_text(json.dumps(document), encoding="utf-8")


def tree(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_folder_and_one_document_give_the_same(cli: Cli) -> None:
    assert cli("site", "source", "--out", "a").reported(0, "wrote 13 pages")
    summary = json.loads(cli("site", "source/a.xreg.json", "--out", "b/c", "--json").out)
    assert summary["searchable"] == 3
    assert summary["files"] == len(tree("b/c")) - 1, "and the list of them"
    assert tree("a") == tree("b/c")
    assert "messagegroups/m/messages/two/index.html" in tree("a")


def test_another_run_replaces_what_the_one_before_wrote(cli: Cli) -> None:
    cli("site", "source", "--out", "a")
    Path("a/CNAME").write_text("docs.example.com", encoding="utf-8")
    write({"messagegroups": {"m": {"messages": {"one": {"name": "First"}}}}})
    assert cli("site", "source", "--out", "a").code == 0
    files = tree("a")
    assert files["CNAME"] == b"docs.example.com"
    assert b"First" in files["messagegroups/m/messages/one/index.html"]
    assert not [name for name in files if "two" in name]


@pytest.mark.parametrize("name", ["index.html", "messagegroups/index.html"])
def test_files_of_others_are_left_alone(cli: Cli, name: str) -> None:
    path = Path("a", name)
    path.parent.mkdir(parents=True)
    path.write_text("mine", encoding="utf-8")
    ran = cli("site", "source", "--out", "a")
    assert ran.code == 1
    assert f"a: not written by signalbook site, or changed since: {name}: move" in ran.err
    assert tree("a") == {name: b"mine"}


def test_changed_files_are_kept(cli: Cli) -> None:
    cli("site", "source", "--out", "a")
    Path("a/index.html").write_text("mine", encoding="utf-8")
    before = tree("a")
    assert "index.html" in cli("site", "source", "--out", "a").err
    assert tree("a") == before


def test_symbolic_links_are_not_followed(cli: Cli) -> None:
    Path("elsewhere").mkdir()
    Path("a").mkdir()
    Path("a/messagegroups").symlink_to(Path("elsewhere").resolve())
    assert "messagegroups" in cli("site", "source", "--out", "a").err
    assert tree("elsewhere") == {}


@pytest.mark.parametrize("files", [{"../mine": ""}, {"/etc/x": ""}, {"a\\..\\b": ""}, [], {"": ""}])
def test_a_list_of_files_that_leads_out_is_refused(cli: Cli, files: object) -> None:
    Path("mine").write_text("mine", encoding="utf-8")
    Path("a/-").mkdir(parents=True)
    Path("a/-/site.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    assert cli("site", "source", "--out", "a").ended(1, "is no list of the files of a site")
    assert Path("mine").exists()


UNREADABLE = {"none": "none does not exist", "source/a.xreg.json": "a.xreg.json", "bad": "holds no registry document"}


@pytest.mark.parametrize(("source", "why"), UNREADABLE.items())
def test_unreadable_source_is_reported(cli: Cli, source: str, why: str) -> None:
    write({"messagegroups": {"m": {"messages": {"one": {"envelope": 5}}}}})
    Path("bad").mkdir()
    assert cli("site", source, "--out", "a").ended(1, why)
    assert not tree("a")


@pytest.mark.parametrize("moves", [1, 20])
def test_interrupted_run_is_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    """Files are put in place one by one: whichever are there, the next run takes them for its own."""
    cli("site", "source", "--out", "a")
    write({"messagegroups": {"m": {"messages": {"one": {"name": "First"}, "three": {}}}}})
    with monkeypatch.context() as patched:
        cut_short(patched, moves)
        assert cli("site", "source", "--out", "a").code != 0
    assert cli("site", "source", "--out", "a").code == 0
    cli("site", "source", "--out", "b")
    assert tree("a") == tree("b")
