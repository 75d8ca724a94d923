import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from tests.serving import serving_answers

from .conftest import Cli

YAML = "messagegroups: {m: {messages: {one: {envelope: CloudEvents/1.0}}}}"


@pytest.fixture(autouse=True)
def _book(cli: Cli) -> None:
    cli("import", "-", stdin=YAML.encode())


def test_export_to_standard_output(cli: Cli) -> None:
    ran = cli("export")
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["registryid"] == "signalbook"
    assert document.keys() >= {"capabilities", "modelsource", "messagegroups"}


@pytest.mark.parametrize(
    ("xid", "key"),
    [
        ("/messagegroups", "m"),
        ("/messagegroups/m", "messagegroupid"),
        ("/messagegroups/m/messages", "one"),
        ("/messagegroups/m/messages/one", "versions"),
        ("/messagegroups/m/messages/one/versions", "1"),
        ("/messagegroups/m/messages/one/versions/1", "versionid"),
    ],
)
def test_a_part(cli: Cli, xid: str, key: str) -> None:
    assert key in json.loads(cli("export", xid).out)


def test_export_format_follows_the_file_name(cli: Cli) -> None:
    assert cli("export", "/messagegroups", "-o", "m.json").out == ""
    assert cli("export", "/messagegroups", "--out", "m.yaml").code == 0
    text = Path("m.yaml").read_text().replace("createdat: ", "createdat: !!str ")
    assert json.loads(Path("m.json").read_text()) == yaml.safe_load(text)


def test_a_file_is_replaced_whole_or_not_at_all(cli: Cli) -> None:
    Path("m.json").write_text("before")
    assert cli("export", "/gone/g", "-o", "m.json").code == 1
    assert Path("m.json").read_text() == "before"
    assert cli("export", "-o", "m.json").code == 0
    assert sorted(path.name for path in Path().iterdir() if "m.json" in path.name) == ["m.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nonsense",), 1, "(/nonsense) cannot be found"),
        (("/messagegroups/b d",), 2, "is no xid"),
        (("/messagegroups/gone",), 1, "(/messagegroups/gone) cannot be found"),
        (("/nonsense",), 1, "(/nonsense) cannot be found"),
        (("/nonsense/x/y",), 1, "cannot be found"),
        (("--db", "sqlite:///gone.db"), 1, "there is no registry at gone.db"),
        (("--server", "http://127.0.0.1:9"), 1, "cannot reach the server at http://127.0.0.1:9"),
        (("-o", "gone/m.json"), 1, "gone/m.json: cannot be written: No such file or directory"),
        (("/messagegroups/gone", "--out", "book/"), 1, "there is nothing to write"),
    ],
)
def test_invalid_export_is_an_error(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    assert cli("export", *arguments).reported(code, message)
    assert not Path("gone.db").exists()


def test_a_full_disk(cli: Cli) -> None:
    ran = cli("export", "-o", "/dev/full/x.json")
    assert (ran.code, ran.err) == (1, "error: /dev/full/x.json: cannot be written: Not a directory\n")


@pytest.mark.parametrize("xid", ["/nonsense", "/messagegroups/gone"])
def test_unknown_xid_at_a_server_is_an_error(cli: Cli, server: str, xid: str) -> None:
    assert cli("export", xid, "--server", server).ended(1, f"({xid}) cannot be found")


def test_yaml_to_standard_output(cli: Cli) -> None:
    assert yaml.safe_load(cli("export", "/messagegroups/m", "--format", "yaml").out)["messagegroupid"] == "m"


def test_a_folder(cli: Cli) -> None:
    Path("book/.git").mkdir(parents=True)
    Path("book/messagegroups/gone").mkdir(parents=True)
    ran = cli("export", "--out", "book")
    assert (ran.code, ran.err) == (0, "exported 3 files to book\n")
    files = sorted(str(path.relative_to("book")) for path in Path("book").rglob("*") if path.is_file())
    assert files == ["messagegroups/m.xreg.json", "messagegroups/m/messages/one.xreg.json", "registry.xreg.json"]
    assert Path("book/.git").is_dir()
    assert not Path("book/messagegroups/gone").exists()


def test_exported_folder_is_reproducible(cli: Cli) -> None:
    """Git then shows only real changes, and an import restores everything (I-8)."""
    cli("export", "--out", "first/")
    assert cli("import", "first", "--db", "sqlite:///other.db").code == 0
    cli("export", "--db", "sqlite:///other.db", "--out", "second/", "--format", "json")
    for name in ("messagegroups/m.xreg.json", "messagegroups/m/messages/one.xreg.json"):
        assert Path("first", name).read_bytes() == Path("second", name).read_bytes()


def test_partial_export_keeps_other_files(cli: Cli) -> None:
    cli("export", "--out", "book/")
    Path("book/messagegroups/n.xreg.yaml").write_text("{}")
    assert cli("export", "/messagegroups/m", "--out", "book/", "--format", "yaml").code == 0
    names = sorted(path.name for path in Path("book/messagegroups").rglob("*.xreg.*"))
    assert names == ["m.xreg.yaml", "n.xreg.yaml", "one.xreg.yaml"]


def test_a_server_s_folder(cli: Cli, server: str) -> None:
    cli("import", "-", "--server", server, stdin=YAML.replace("m:", "folder:", 1).encode())
    assert cli("export", "/messagegroups/folder", "--out", "book/", "--server", server).code == 0
    assert Path("book/messagegroups/folder/messages/one.xreg.json").exists()
    cli("export", "/messagegroups/folder", "--server", server, "--out", "one.json")
    assert json.loads(Path("one.json").read_text())["messagegroupid"] == "folder"


def hostile_server(documents: dict[str, Any]) -> AbstractContextManager[str]:
    """Serve these JSON texts by path: a registry that no Signalbook would be."""

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> tuple[int, dict[str, str], bytes]:
        document = documents.get(unquote(urlsplit(request.path).path), {})
        return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()

    return serving_answers(answer)


HOSTILE_IDS = ["../../victim", "/victim", "..", "a\\..\\..\\victim", "a\x00", "\x1b[2J", "con/x", "x" * 300]


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
@pytest.mark.parametrize("where", ["type", "group", "version"])
def test_ids_of_a_server_stay_in_the_folder(cli: Cli, hostile: str, where: str) -> None:
    plural = hostile if where == "type" else "dirs"
    group = hostile if where == "group" else "g"
    version = hostile if where == "version" else "1"
    documents = {
        "/model": {"groups": {plural: {"resources": {"files": {}}}}},
        "/modelsource": {"groups": {}},
        f"/{plural}": {group: {"dirid": group}},
        "/dirs/g/files": {"f": {"fileid": "f", "versions": {version: {"filebase64": "e30="}}}},
    }
    for victim in (Path("victim.xreg.json"), Path("victim")):
        victim.write_text("before")
    Path("book").mkdir()
    with hostile_server(documents) as url:
        ran = cli("export", "--server", url, "--out", "book/deeper/")
    assert {path.read_text() for path in Path().glob("victim*")} == {"before"}
    assert [path.name for path in Path("book").iterdir()] == ["deeper"]
    if where != "type":
        assert (ran.code, "the registry has an invalid id in" in ran.err) == (1, True)
        assert list(Path("book/deeper").iterdir()) == []


def test_ids_that_differ_only_in_case_are_an_error(cli: Cli) -> None:
    documents = {
        "/model": {"groups": {"dirs": {"resources": {}}}},
        "/modelsource": {"groups": {}},
        "/dirs": {"g": {"dirid": "g"}, "G": {"dirid": "G"}},
    }
    with hostile_server(documents) as url:
        ran = cli("export", "--server", url, "--out", "book/")
    assert (ran.code, "'dirs/G.xreg.json' and 'dirs/g.xreg.json' would be one file" in ran.err) == (1, True)


def test_a_link_in_the_folder_is_not_followed(cli: Cli) -> None:
    Path("elsewhere/m").mkdir(parents=True)
    Path("book").mkdir()
    Path("book/messagegroups").symlink_to(Path("elsewhere").absolute())
    ran = cli("export", "/messagegroups/m", "--out", "book/")
    assert (ran.code, "book/messagegroups is a link, which is not followed" in ran.err) == (1, True)
    assert Path("elsewhere/m").is_dir()
