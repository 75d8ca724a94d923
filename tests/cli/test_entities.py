import json
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Cli

YAML = b"""
messagegroups:
  m1: {name: "First\\e[31m", messages: {one: {envelope: CloudEvents/1.0}}}
  m2: {name: Second, labels: {stage: dev}}
  m3: {labels: {stage: dev}}
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["m1", "m2", "m3"]),
        (("--filter", "labels.stage=dev"), ["m2", "m3"]),
        (("-f", "name=first*", "-f", "name=null"), ["m1", "m3"]),
        (("-f", "messages.envelope=cloud*"), ["m1"]),
        (("--sort", "messagegroupid=desc", "--limit", "2"), ["m3", "m2"]),
        (("--limit", "1"), ["m1"]),
        (("-f", "name=nobody"), []),
    ],
)
def test_members(cli: Cli, where: list[str], arguments: tuple[str, ...], expected: list[str]) -> None:
    """R181, R212, R286."""
    ran = cli("get", "/messagegroups", *arguments, *where)
    assert (ran.code, ran.err) == (0, "")
    assert [line.split("\t")[0] for line in ran.out.splitlines()] == expected
    assert "\x1b" not in ran.out


def test_entities_are_shown_as_json(cli: Cli, where: list[str]) -> None:
    assert list(json.loads(cli("get", "/messagegroups", "--json", *where).out)) == ["m1", "m2", "m3"]
    group = json.loads(cli("get", "/messagegroups/m1", "--inline", "messages", *where).out)
    assert list(group["messages"]) == ["one"]
    assert json.loads(cli("get", *where).out)["messagegroupscount"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("/messagegroups/gone",), "cannot be found"),
        (("/nothing",), "cannot be found"),
        (("nothing",), "cannot be found"),
        (("a/b/c/d/e",), "is no xid"),
        (("/messagegroups", "-f", "a,"), "filter"),
        (("/messagegroups", "--sort", "labels"), "sort"),
        (("/", "--sort", "name"), "sort"),
        (("/messagegroups", "--limit", "0"), "--limit"),
    ],
)
def test_unknown_entity_is_an_error(cli: Cli, where: list[str], arguments: tuple[str, ...], words: str) -> None:
    ran = cli("get", *arguments, *where)
    assert ran.code in (1, 2)
    assert words in ran.err


def test_a_variable_names_the_server(
    cli: Cli, serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNALBOOK_SERVER", serve(db=f"sqlite:///{tmp_path / 'server.db'}"))
    assert cli("import", "-", stdin=YAML).code == 0
    assert not Path("signalbook.db").exists()
    assert json.loads(cli("get", "/messagegroups", "--json").out).keys() == {"m1", "m2", "m3"}
    assert "everybody may do everything" in cli("whoami").err
    # A registry that the command line names comes first.
    assert cli("import", "-", "--db", "sqlite:///signalbook.db", stdin=b"messagegroups: {here: {}}").code == 0
    assert json.loads(cli("get", "/messagegroups", "--json", "--db", "sqlite:///signalbook.db").out).keys() == {"here"}


@pytest.mark.parametrize(
    "url", ["http://me:pa55@[bad", "http://me:pa55/1@[::1]:1", "http://me:x/pa55@[::1]:99999", "HTTP://me:pa55@[::1]:1"]
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "/", "--server"),
        ("login",),
        ("logout",),
        ("import", "--db", "sqlite://"),
        ("check", "a.avsc", "--against"),
        ("check",),
        ("check", "--against", "a.avsc"),
    ],
)
def test_errors_show_no_password_of_a_url(cli: Cli, arguments: tuple[str, ...], url: str) -> None:
    Path("a.avsc").write_text('"string"', encoding="utf-8")
    ran = cli(*arguments, url)
    assert ran.code == 1
    assert "pa55" not in ran.out + ran.err
    assert "unexpected" not in ran.err


def test_a_url_without_scheme_shows_no_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOOK_SERVER", "me:pa55@registry.example")
    assert cli("get", "/").ended(1, "'registry.example' is no URL of a registry")


def test_the_first_slash_may_be_missing(cli: Cli, where: list[str]) -> None:
    assert cli("get", "messagegroups", *where).out == cli("get", "/messagegroups", *where).out != ""


def test_delete_removes_an_entity(cli: Cli, where: list[str]) -> None:
    deleted = cli("delete", "messagegroups/m1", "--yes", *where)
    assert (deleted.code, deleted.err) == (0, "Deleted /messagegroups/m1.\n")
    assert list(json.loads(cli("get", "/messagegroups", "--json", *where).out)) == ["m2", "m3"]


@pytest.mark.parametrize(("answer", "remaining"), [("y\n", 2), ("n\n", 3), ("\n", 3), ("", 3)])
def test_delete_asks_first(cli: Cli, where: list[str], answer: str, remaining: int) -> None:
    asked = cli("delete", "/messagegroups/m1", *where, stdin=answer.encode())
    assert "Delete /messagegroups/m1 and everything in it from " in asked.err
    assert asked.code == (0 if answer == "y\n" else 130)
    assert len(json.loads(cli("get", "/messagegroups", "--json", *where).out)) == remaining


@pytest.mark.parametrize(
    ("xid", "words"),
    [
        ("/", "is not a group, resource or version"),
        ("/messagegroups", "is not a group, resource or version"),
        ("/messagegroups/gone", "cannot be found"),
    ],
)
def test_what_cannot_be_deleted_is_an_error(cli: Cli, where: list[str], xid: str, words: str) -> None:
    ran = cli("delete", xid, "--yes", *where)
    assert ran.code != 0
    assert words in ran.err


@pytest.mark.parametrize(("xid", "path"), [("/", "/ui"), ("messagegroups/m1", "/ui/messagegroups/m1")])
def test_open_shows_the_page_of_an_entity(
    cli: Cli, served: str, monkeypatch: pytest.MonkeyPatch, xid: str, path: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    shown = cli("open", xid, "--server", served).out
    assert opened == [shown.strip()] == [f"{served}{path}"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "rubbish",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "--help",
        "http://me:pa55@[h",
        "me:pa55@h",
        "http://h?token=pa55",
        "http://me:pa55@h/#x",
    ],
)
def test_only_urls_of_registries_are_opened(cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    ran = cli("open", "--server", url)
    assert (ran.code, ran.out, opened) == (1, "", [])
    assert "is no URL of a registry" in ran.err or "without ? and #" in ran.err
    assert "pa55" not in ran.err


def test_the_browser_gets_no_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert cli("open", "--server", "https://me:pa55@h/registry/").out == "https://h/registry/ui\n"
    assert opened == ["https://h/registry/ui"]
