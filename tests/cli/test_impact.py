"""``signalbook impact``."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from .conftest import Cli, Server

YAML = b"""
schemagroups:
  g: {schemas: {s: {format: JsonSchema/draft-07, schema: {}}}}
messagegroups:
  m:
    messages:
      one: {dataschemaformat: JsonSchema/draft-07, dataschemaxid: /schemagroups/g/schemas/s}
      two: {basemessage: /messagegroups/m/messages/one}
"""


@pytest.fixture(scope="module")
def served(serve: Callable[..., Server]) -> str:
    """The URL of a server for the above."""
    return serve("--db", "sqlite://").url


@pytest.fixture(params=["database", "server"])
def where(request: pytest.FixtureRequest, cli: Cli) -> list[str]:
    """Options that name a registry of the above."""
    options = ["--server", request.getfixturevalue("served")] if request.param == "server" else []
    assert cli("import", "-", *options, stdin=YAML).code == 0
    return options


def test_a_tree(cli: Cli, where: list[str]) -> None:
    ran = cli("impact", "/schemagroups/g/schemas/s", *where)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "/schemagroups/g/schemas/s",
        "  /messagegroups/m/messages/one  (dataschema)",
        "    /messagegroups/m/messages/two  (basemessage)",
    ]


def test_json(cli: Cli, where: list[str]) -> None:
    found = json.loads(cli("impact", "/schemagroups/g/schemas/s", "--depth", "1", "--json", *where).out)
    assert [each["xid"] for each in found["dependents"]] == ["/messagegroups/m/messages/one"]
    assert not found["complete"]


def test_what_is_not_there(cli: Cli, where: list[str]) -> None:
    ran = cli("impact", "/schemagroups/g/schemas/none", *where)
    assert ran.code == 1
    assert "/schemagroups/g/schemas/none" in ran.err
