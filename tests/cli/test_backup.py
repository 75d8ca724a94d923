import json
from pathlib import Path

import pytest
from tests.storage.test_migrate import at_revision

from signalbook.storage.inspection import inspect

from .conftest import Cli

YAML = "messagegroups: {m: {messages: {one: {envelope: CloudEvents/1.0}}}}"
OTHER = ("--db", "sqlite:///other.db")


@pytest.fixture(autouse=True)
def _registry(cli: Cli) -> None:
    cli("import", "-", stdin=YAML.encode())


def test_backup_and_restore(cli: Cli) -> None:
    assert cli("backup", "monday").reported(0, "signalbook.db to monday: 4 entities")
    assert cli("restore", "monday", *OTHER).reported(0, "restored monday: 4 entities")
    assert cli("export", *OTHER).out == cli("export").out
    assert cli("restore", "monday", *OTHER).ended(1, "--replace")
    assert cli("restore", "monday", "--replace", *OTHER).code == 0


def test_backup_summary_as_json(cli: Cli) -> None:
    summary = json.loads(cli("backup", "monday", "--json").out)
    assert summary["tables"]["entities"]["rows"] == 4
    assert summary["bytes"] == Path("monday").stat().st_size
    assert summary == json.loads(cli("restore", "monday", "--check", "--json").out)
    assert summary == json.loads(cli("restore", "monday", "--json", *OTHER).out)


def test_a_check_restores_nothing(cli: Cli) -> None:
    cli("backup", "monday")
    assert cli("restore", "monday", "--check", *OTHER).ended(0, "complete")
    assert not Path("other.db").exists()


def about(cli: Cli, db: str) -> list[str]:
    """Return what the audit of a database reports about the whole database, oldest first."""
    entries = [
        json.loads(line) for line in cli("audit", "--db", db, "--json", "--action", "administer").out.splitlines()
    ]
    assert all((entry["who"], entry["outcome"], entry["xids"]) == ("(signalbook)", "done", ["/"]) for entry in entries)
    return [entry["about"] for entry in reversed(entries)]


def test_backup_and_restore_are_audited(cli: Cli, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backed, restored = (f"{verb} {Path('one').absolute()}" for verb in ("backed up to", "restored from"))
    monkeypatch.setenv("SIGNALBOOK_AUDIT_LOG", "audit.jsonl")
    cli("import", "-", "--db", store_url, stdin=YAML.encode())
    assert cli("backup", "one", "--db", store_url).code == 0
    assert about(cli, store_url) == [backed]
    assert cli("backup", "two", "--db", store_url).code == 0
    other = f"{store_url}-other" if store_url.startswith("sqlite") else OTHER[1]
    assert cli("restore", "two", "--db", other).code == 0
    assert cli("restore", "one", "--replace", "--db", store_url).code == 0
    assert about(cli, store_url) == [restored], "what was recorded since the backup is gone, as all else"
    assert about(cli, other) == [backed, restored.replace("one", "two")]
    assert cli("restore", "one", "--check").code == 0
    assert cli("restore", "one", "--db", store_url).code == 1
    assert about(cli, store_url) == [restored], "nothing was done"
    lines = [json.loads(line)["about"] for line in Path("audit.jsonl").read_text().splitlines()]
    two = [backed.replace("one", "two"), restored.replace("one", "two")]
    assert lines == [backed, *two, restored]
    monkeypatch.setenv("SIGNALBOOK_AUDIT", "off")
    assert cli("backup", "three", "--db", store_url).code == 0
    assert about(cli, store_url) == [restored]


def test_backup_of_a_read_only_database_warns(cli: Cli, postgres_database: str) -> None:
    """The database is a standby; a backup of an older database changes nothing in it."""
    cli("import", "-", "--db", postgres_database, stdin=YAML.encode())
    ran = cli("backup", "one", "--db", f"{postgres_database}&options=-c%20default_transaction_read_only%3Don")
    assert (ran.code, "warning: the backup is complete, and the audit does not say so" in ran.err) == (0, True), ran.err
    assert "it is read-only (a standby?)" in ran.err
    at_revision("0009", "sqlite:///old.db")
    assert cli("backup", "old", "--db", "sqlite:///old.db").err.count("warning") == 0
    assert inspect("sqlite:///old.db", timeout=5).revision == "0009"
    assert cli("restore", "one", "--check").code == 0


def test_missing_database_is_an_error(cli: Cli) -> None:
    assert cli("backup", "monday", *OTHER).ended(1, "there is no registry at other.db")
    assert not Path("other.db").exists()
    assert not Path("monday").exists()
