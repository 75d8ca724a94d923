import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Cli

GROUPS = b'{"messagegroups": {"m1": {"name": "secret name"}, "m2": {}}}'


@pytest.fixture(scope="module")
def served(serve: Callable[..., str]) -> str:
    """The URL of a server that records, over a database of its own."""
    return serve(db="sqlite://", audit="on")


@pytest.fixture(params=["database", "server"])
def where(request: pytest.FixtureRequest, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("SIGNALBOOK_AUDIT", "on")
    options = ["--server", request.getfixturevalue("served")] if request.param == "server" else []
    assert cli("import", "-", *options, stdin=GROUPS).code == 0
    return options


def test_entries_are_shown_to_people_and_programs(cli: Cli, where: list[str]) -> None:
    ran = cli("audit", "--xid", "/messagegroups/m", *where)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].split()[1:] == [
        *(["anonymous", "127.0.0.1"] if where else ["(signalbook)", "-"]),
        *("create", "done", "/messagegroups/m1", "/messagegroups/m2"),
    ]
    entries = [json.loads(line) for line in cli("audit", "--json", *where).out.splitlines()]
    assert [entry["number"] for entry in entries] == sorted((entry["number"] for entry in entries), reverse=True)
    assert "secret name" not in str(entries)
    created = next(entry for entry in entries if entry["action"] == "create")
    assert cli("audit", "--from", created["time"], "--action", "create", "--json", *where).out.count("\n") == 1
    assert cli("audit", "--to", created["time"], "--action", "create", "--json", *where).out == ""
    assert cli("audit", "--who", "nobody", *where).out == ""
    assert cli("audit", "--limit", "1", "--json", *where).out.count("\n") == 1


def test_audit_log_gets_the_changes_of_commands(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Commands that change a database write to the audit log like a server; the standard output is not used."""
    monkeypatch.setenv("SIGNALBOOK_AUDIT", "on")
    monkeypatch.setenv("SIGNALBOOK_AUDIT_LOG", "audit.jsonl")
    cli("import", "-", stdin=GROUPS)
    entries = [json.loads(line) for line in cli("audit", "--json").out.splitlines()]
    lines = [json.loads(line) for line in Path("audit.jsonl").read_text().splitlines()]
    assert [{**line, "number": 0} for line in lines] == [{**entry, "number": 0} for entry in reversed(entries)] != []
    monkeypatch.setenv("SIGNALBOOK_AUDIT_LOG", "-")
    created = cli("token", "create", "ci")
    assert (created.code, len(created.out.splitlines()), created.out.startswith("{")) == (0, 1, False)
    monkeypatch.setenv("SIGNALBOOK_AUDIT_LOG", "/nowhere/audit.jsonl")
    created = cli("token", "create", "ci")
    assert (created.code, "could not be written to audit_log" in caplog.text) == (0, True)
    assert cli("audit", "--action", "administer", "--json").out.count("\n") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "yesterday"), "'yesterday' is no RFC3339 time"),
        (("--outcome", "maybe"), "it is done or refused"),
        (("--db", "sqlite:///none.db"), "there is no registry"),
        (("--db", "sqlite://", "--server", "http://localhost"), "not both"),
    ],
)
def test_wrong_questions(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    ran = cli("audit", *arguments)
    assert ran.code in (1, 2)
    assert message in ran.err
