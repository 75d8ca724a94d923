from __future__ import annotations

import json

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
        (("nothing",), "is no xid"),
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
