"""``signalbook backup`` and ``signalbook restore``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
    assert ran.code == 1
    assert "--replace" in ran.err
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


def test_a_database_that_is_not_there(cli: Cli) -> None:
    ran = cli("backup", "monday", *OTHER)
    assert ran.code == 1
    assert "there is no registry at other.db" in ran.err
    assert not Path("other.db").exists()
    assert not Path("monday").exists()
