"""``signalbook backup`` and ``signalbook restore``."""

from __future__ import annotations

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


def test_there_and_back(cli: Cli) -> None:
    ran = cli("backup", "monday")
    assert (ran.code, ran.out) == (0, "")
    assert "signalbook.db to monday: 4 entities" in ran.err
    ran = cli("restore", "monday", *OTHER)
    assert (ran.code, ran.out) == (0, "")
    assert "restored monday: 4 entities" in ran.err
    assert cli("export", *OTHER).out == cli("export").out
    ran = cli("restore", "monday", *OTHER)
    assert (ran.code, "--replace" in ran.err) == (1, True)
    assert cli("restore", "monday", "--replace", *OTHER).code == 0


def test_as_json(cli: Cli) -> None:
    made = json.loads(cli("backup", "monday", "--json").out)
    assert made["tables"]["entities"]["rows"] == 4
    assert made["bytes"] == Path("monday").stat().st_size
    assert made == json.loads(cli("restore", "monday", "--check", "--json").out)
    assert made == json.loads(cli("restore", "monday", "--json", *OTHER).out)


def test_a_check_restores_nothing(cli: Cli) -> None:
    cli("backup", "monday")
    ran = cli("restore", "monday", "--check", *OTHER)
    assert (ran.code, "complete" in ran.err) == (0, True)
    assert not Path("other.db").exists()


def about(cli: Cli, db: str) -> list[str]:
    """What the audit of a database says was done to all of it, the first first."""
    found = [json.loads(line) for line in cli("audit", "--db", db, "--json", "--action", "administer").out.splitlines()]
    assert all((entry["who"], entry["outcome"], entry["xids"]) == ("(signalbook)", "done", ["/"]) for entry in found)
    return [entry["about"] for entry in reversed(found)]


def test_they_are_recorded(cli: Cli, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore in the database it makes, where the audit goes on from the backup's."""
    backed, restored = (f"{what} {Path('one').absolute()}" for what in ("backed up to", "restored from"))
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


def test_a_backup_that_cannot_be_recorded_is_one(cli: Cli, postgres_database: str) -> None:
    """As of a standby; and an older database stays as it is."""
    cli("import", "-", "--db", postgres_database, stdin=YAML.encode())
    ran = cli("backup", "one", "--db", f"{postgres_database}&options=-c%20default_transaction_read_only%3Don")
    assert (ran.code, "warning: the backup is complete, and the audit does not say so" in ran.err) == (0, True), ran.err
    assert "it is read-only (a standby?)" in ran.err
    at_revision("0009", "sqlite:///old.db")
    assert cli("backup", "old", "--db", "sqlite:///old.db").err.count("warning") == 0
    assert inspect("sqlite:///old.db", timeout=5).revision == "0009"
    assert cli("restore", "one", "--check").code == 0


def test_a_database_that_is_not_there(cli: Cli) -> None:
    ran = cli("backup", "monday", *OTHER)
    assert (ran.code, "there is no registry at other.db" in ran.err) == (1, True)
    assert not Path("other.db").exists()
    assert not Path("monday").exists()
