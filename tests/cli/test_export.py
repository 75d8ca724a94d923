"""``signalbook export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from .conftest import Cli

YAML = "messagegroups: {m: {messages: {one: {envelope: CloudEvents/1.0}}}}"


@pytest.fixture(autouse=True)
def _book(cli: Cli) -> None:
    cli("import", "-", stdin=YAML.encode())


def test_to_standard_output(cli: Cli) -> None:
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


def test_to_a_file_by_its_name(cli: Cli) -> None:
    assert cli("export", "/messagegroups", "-o", "m.json").out == ""
    assert cli("export", "/messagegroups", "--output", "m.yaml").code == 0
    assert json.loads(Path("m.json").read_text()) == yaml.safe_load(
        Path("m.yaml").read_text().replace("createdat: ", "createdat: !!str ")
    )


def test_a_file_is_replaced_whole_or_not_at_all(cli: Cli) -> None:
    Path("m.json").write_text("before")
    assert cli("export", "/gone/g", "-o", "m.json").code == 1
    assert Path("m.json").read_text() == "before"
    assert cli("export", "-o", "m.json").code == 0
    assert sorted(path.name for path in Path().iterdir() if "m.json" in path.name) == ["m.json"]


def test_a_full_disk(cli: Cli) -> None:
    ran = cli("export", "-o", "/dev/full/x.json")
    assert (ran.code, ran.err) == (1, "error: /dev/full/x.json: cannot be written: Not a directory\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nonsense",), 2, "is no xid: an xid starts with /"),
        (("/messagegroups/b d",), 2, "is no xid"),
        (("/messagegroups/gone",), 1, "(/messagegroups/gone) cannot be found"),
        (("/nonsense",), 1, "(/nonsense) cannot be found"),
        (("/nonsense/x/y",), 1, "cannot be found"),
        (("--db", "sqlite:///gone.db"), 1, "there is no registry at gone.db"),
        (("--server", "http://127.0.0.1:9"), 1, "cannot reach the server at http://127.0.0.1:9"),
        (("-o", "gone/m.json"), 1, "gone/m.json: cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_exported(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    ran = cli("export", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert not Path("gone.db").exists()


@pytest.mark.parametrize("xid", ["/nonsense", "/messagegroups/gone"])
def test_a_server_that_does_not_have_it(cli: Cli, server: str, xid: str) -> None:
    ran = cli("export", xid, "--server", server)
    assert (ran.code, f"({xid}) cannot be found" in ran.err) == (1, True)
